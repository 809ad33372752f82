"""Remedies for a latency limit that cannot be met, or is missed for long, and their price: told with the limit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from dashboard import jobs
from dashboard.catalog.models import DataflowRecord
from dashboard.catalog.selectors import dataflow as dataflow_of
from dashboard.operations.diagnosis.slow_queries import cut_tasks
from dashboard.operations.estate_store.estate_loader import current_estate
from dashboard.operations.latency_control.latency_view import latency_card, latency_of
from dashboard.operations.latency_control.open_batches import able_now
from dashboard.operations.latency_control.pacer import priced_ms_of
from dashboard.operations.live_view.learned_costs import costs_here
from dashboard.operations.models import BatchFigures
from dashboard.plans.price_settings import prices_in_force, tariff
from dashboard.teams.permissions import Viewer
from scheduler.latency.batch_costs import TIMES_ITS_CPU
from scheduler.latency.limits_met import IMPOSSIBLE, TOLERATED
from scheduler.latency.pacing import LimitOnWay, Queries
from scheduler.latency.pacing_problem import SLOT_CORES
from scheduler.latency.remedies import ASK, CHAIN, Remedy, chains_among, remedies
from scheduler.latency.task_chaining import FUSES_BELOW
from scheduler.latency.triggers import BatchCost
from scheduler.latency.ways import reads_among, upstream_of, way_of
from scheduler.model.estate import Estate
from scheduler.model.figure_words import in_digits
from scheduler.model.fragment import node_of
from scheduler.model.latency_limits import LatencyLimit, figure_in_words
from scheduler.performance.pricing import query_cores
from scheduler.reuse.defragment import series_along

TOO_LITTLE_CORES = 0.0005  # to be told as more or less


def latency_with_remedies(viewer: Viewer, dataflow_id: UUID | str, *, opens: bool = True) -> dict[str, Any]:
    """The answer of `latency_of`, with ``remedies`` of each limit that cannot be met, or was missed over its whole
    span."""
    record = dataflow_of(viewer, dataflow_id)
    return _with_remedies(record, latency_of(viewer, dataflow_id), opens=opens)


def latency_card_with_remedies(viewer: Viewer, record: DataflowRecord, *, opens: bool = True) -> dict[str, Any]:
    """The answer of `latency_card`, with ``remedies`` as `latency_with_remedies`."""
    return _with_remedies(record, latency_card(viewer, record), opens=opens)


def cpu_in_words(cores: float, per_hour: float, currency: str) -> str:
    """An amount of CPU, more or less, with its price."""
    if abs(cores) < TOO_LITTLE_CORES:
        return "as much CPU as now"
    money = f"{'-' if per_hour < 0 else '+'}{in_digits(abs(per_hour), most=2)}"
    return f"{in_digits(abs(cores), most=2)} cores {'more' if cores >= 0 else 'less'} ({money} {currency} an hour)"


def _with_remedies(record: DataflowRecord, answer: dict[str, Any], *, opens: bool) -> dict[str, Any]:
    limits = [
        {**status, "remedies": _remedies(record, limit, status, opens=opens)
         if status["state"] == IMPOSSIBLE or status["is_lasting"] else []}
        for status, limit in zip(answer["limits"], record.latency_limits, strict=True)]
    return {**answer, "limits": limits}


def _remedies(
    record: DataflowRecord, limit: LatencyLimit, status: Mapping[str, Any], *, opens: bool
) -> list[dict[str, Any]]:
    """The remedies of one limit; none where what its queries cost is not known (any more), or shorter intervals would
    meet it.

    Of one that is missed, or measured far above what is expected, whatever was measured beyond stays, whatever is done.
    """
    estate = current_estate()
    way = way_of(estate, str(record.pk), limit) if str(record.pk) in estate.submitted else None
    if way is None:
        return []
    slots = {bundle.slot for query in way.writers for bundle in estate.fragments[query].queries}
    working = [name for name, fragment in estate.fragments.items() if fragment.active_tasks]
    upstream = upstream_of(reads_among(estate, working), way.writers)
    paces = {row.pk: row for row in BatchFigures.objects.select_related("fragment").filter(pk__in=[
        name for name in working if estate.fragments[name].slot in slots or name in upstream]) if row.cost}
    if not way.writers.keys() <= paces.keys():
        return []
    costs = costs_here()
    room = SLOT_CORES - costs.slot_cores
    queries = Queries(
        {name: BatchCost(**row.cost) for name, row in paces.items()},
        reads_among(estate, paces),
        {name: milliseconds / 1000 for name, milliseconds in priced_ms_of(paces).items()},
        {name: estate.fragments[name].slot for name in paces}, dict.fromkeys(slots, room))
    measured_s, expected_s = status["measured_s"], status["expected_s"]
    stays = measured_s is not None and (status["is_lasting"] or measured_s > TOLERATED * expected_s)
    beyond_s = max(0.0, measured_s - expected_s) if stays else 0.0
    want = LimitOnWay("limit", way, limit.limit_s, limit.share, (status["other_s"] or 0.0) + beyond_s)
    query = BatchCost(TIMES_ITS_CPU * costs.query_batch_s, costs.query_batch_s)
    open_now = {name for name, row in paces.items() if row.real_time}
    able = able_now(estate, way.writers, open_now=open_now)
    able = able if opens else able & open_now
    ways_out = remedies(
        queries, want, chains=_chains(estate, status, queries), query=query, slot_cores=room, able=able)
    if any(remedy.kind == ASK and remedy.limit_s <= limit.limit_s for remedy in ways_out):
        return []
    return [_remedy_answer(remedy, estate, slots) for remedy in ways_out]


def _chains(estate: Estate, status: Mapping[str, Any], queries: Queries) -> tuple[tuple[str, ...], ...]:
    """Series on the slowest way that chaining may fuse as things are."""
    path = [part["query"] for part in status["path"] if part["query"] in estate.fragments]
    steps = series_along(
        estate, path, task_types=jobs.task_types(), query_cores=query_cores(prices_in_force()), apart=cut_tasks())
    return chains_among(path, (step.path for step in steps if sum(
        queries.costs[name].rate_per_s * queries.costs[name].event_cpu_s for name in step.path) < FUSES_BELOW))


def _remedy_answer(remedy: Remedy, estate: Estate, slots: set[str]) -> dict[str, Any]:
    price = tariff()
    slot_hour = max(price.slot_hour(node_of(slot)) for slot in slots)
    more = remedy.cores * slot_hour
    remedy_text = _words(remedy)
    words = (f"{remedy_text}: events then take about {figure_in_words(remedy.latency_s, most=2)}, for "
             f"{cpu_in_words(remedy.cores, more, price.currency)}")
    if remedy.slots:
        words += (f"; {remedy.slots} slot{'s' * (remedy.slots > 1)} of a core {'are' if remedy.slots > 1 else 'is'} "
                  f"{in_digits(remedy.slots * slot_hour, most=2)} {price.currency} an hour of capacity")
    return {
        "kind": remedy.kind, "words": f"{words}.", "limit_s": round(remedy.limit_s, 4),
        "latency_s": round(remedy.latency_s, 4), "cores": round(remedy.cores, 4), "per_hour": round(more, 6),
        "slots": remedy.slots, "slots_per_hour": round(remedy.slots * slot_hour, 6),
        "fused": [list(chain) for chain in remedy.fused], "moved": list(remedy.moved), "currency": price.currency}


def _words(remedy: Remedy) -> str:
    if remedy.kind == ASK:
        return f"Ask for {figure_in_words(remedy.limit_s, most=2)} or more"
    fuse = " and ".join(f"fuse {', '.join(chain)} into one query" for chain in remedy.fused)
    if remedy.kind == CHAIN:
        return f"{fuse[:1].upper()}{fuse[1:]} (the controller chaining does that, or Defragment)"
    number = "a slot" if remedy.slots == 1 else f"{remedy.slots} slots"
    move = f"give {', '.join(remedy.moved)} {number} more"
    both_text = f"{fuse}, and {move}" if fuse else move
    return f"{both_text[:1].upper()}{both_text[1:]}"
