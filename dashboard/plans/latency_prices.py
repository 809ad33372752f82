"""What latency costs a dataflow: the batches of its queries at other limits, and who would pay for them.

Of one that does not run it is estimated, as if it ran alone: as plans are, from what tasks of its types take.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any
from uuid import UUID

from django.conf import settings

from dashboard import jobs
from dashboard.catalog.documents import stored_dataflow
from dashboard.catalog.models import DataflowRecord
from dashboard.catalog.selectors import current_version
from dashboard.catalog.selectors import dataflow as dataflow_of
from dashboard.operations.costs import costs_here
from dashboard.operations.estate import current_estate
from dashboard.operations.latency_view import OFFERED_S, paces_of
from dashboard.operations.models import LatencyStatus
from dashboard.plans.prices import tariff
from dashboard.teams.permissions import Viewer
from scheduler.latency.offers import expected_queries, offers
from scheduler.latency.pacing import Queries, Wanted, pace
from scheduler.latency.sharing import airport_shares
from scheduler.latency.triggers import BatchCost
from scheduler.latency.ways import way_of
from scheduler.model.estate import Estate
from scheduler.model.fragment import node_of
from scheduler.model.latency import LatencyLimit, in_words
from scheduler.newcomer import as_running
from scheduler.performance.rates import input_rates_per_s
from scheduler.reuse.fragments import cut_into_chains


def latency_prices(viewer: Viewer, dataflow_id: UUID | str, *, scheduled: bool = False) -> dict[str, Any]:
    """What the batches of a dataflow's queries take at other limits of the whole, and its part of that.

    With ``scheduled`` it is that of a schedule: a query for each task, alone, whose batches are no further apart than
    its promise was made for.

    Limits of others that share queries stay as they are; of what a stricter limit costs more, whoever asks for it pays
    (the Shapley value of the airport game). While the dataflow does not run, or nothing is known of its batches, it is
    estimated.
    """
    record = dataflow_of(viewer, dataflow_id)
    estate, name = current_estate(), str(record.pk)
    if scheduled:
        return _estimated(record, scheduled=True)
    entry = estate.submitted.get(name)
    paces = {} if entry is None or entry.paused else paces_of(estate, name)
    own = {query for query, row in paces.items() if row.cost}
    whole = LatencyLimit(1.0)
    way = way_of(estate, name, whole) if own else None
    price = tariff()
    answer: dict[str, Any] = {"id": name, "currency": price.currency, "estimated": False, "offers": []}
    if way is None or not way.writers.keys() <= own:
        return _estimated(record, scheduled=False)
    others = _wants_of_others(estate, name, own)
    slot_hour = max((price.slot_hour(node_of(estate.fragments[query].slot)) for query in own), default=price.core_hour)
    costs = {query: BatchCost(**paces[query].cost) for query in own}
    reads = {query: tuple(writer for writer in way.writers.get(query, ()) if writer in own) for query in own}
    queries = Queries(costs, reads, largest_s=settings.LONGEST_TRIGGER_MS / 1000)
    alone = {user: pace(queries, wants).interval_s for user, wants in others.items()}
    for limit_s in (*OFFERED_S, None):
        wants = [] if limit_s is None else [Wanted(name, way, limit_s, whole.share)]
        mine = pace(queries, wants)
        paid = sum(
            airport_shares({user: costs[query].batch_cpu_s / interval_s[query]
                            for user, interval_s in (alone | {name: mine.interval_s}).items()
                            if user == name or _uses(estate, user, query)})[name]
            + _events_cores(costs[query]) / max(1, 1 + sum(_uses(estate, user, query) for user in alone))
            for query in own)
        whole_pacing = pace(queries, [want for wants_of in (*others.values(), wants) for want in wants_of])
        expected = mine.expected.get(name)
        answer["offers"].append({
            "limit_s": limit_s, "words": "none" if limit_s is None else in_words(limit_s),
            "met": expected is None or expected.least_s is None,
            "cores": round(whole_pacing.cores, 4), "pays_cores": round(paid, 4),
            "pays_per_hour": round(paid * slot_hour, 6)})
    return answer


def _estimated(record: DataflowRecord, *, scheduled: bool) -> dict[str, Any]:
    """What the current version would take if it ran alone; no offers where a task's type is not installed."""
    dataflow, types, price = stored_dataflow(current_version(record).document), jobs.task_types(), tariff()
    answer: dict[str, Any] = {"id": str(record.pk), "currency": price.currency, "estimated": True, "offers": []}
    if any(task.type not in types for task in dataflow.tasks):
        return answer
    chains = cut_into_chains(
        as_running(dataflow), task_types=types, longest_chain=1 if scheduled else None, unchained=dataflow.unchained)
    queries, way = expected_queries(
        dataflow, chains, rates_per_s=input_rates_per_s(dataflow, task_types=types), task_types=types,
        costs=costs_here(), largest_s=settings.LONGEST_TRIGGER_MS / 1000)
    if scheduled:
        queries = replace(queries, bounds_s=dict.fromkeys(queries.costs, settings.TRIGGER_MS / 1000))
    answer["offers"] = [
        {"limit_s": offer.limit_s, "words": "none" if offer.limit_s is None else in_words(offer.limit_s),
         "met": offer.met, "cores": round(offer.cores, 4), "pays_cores": round(offer.cores, 4),
         "pays_per_hour": round(offer.cores * price.core_hour, 6)}
        for offer in offers(queries, way, (*OFFERED_S, None))]
    return answer


def _wants_of_others(estate: Estate, dataflow: str, own: Collection[str]) -> dict[str, list[Wanted]]:
    """Limits of others on the dataflow's queries: each on the part of its way that it has in common with it.

    What they wait for elsewhere is taken as it stands.
    """
    users = {user for query in own for task in estate.fragments[query].active_tasks
             for user in estate.users.get(task, ()) if user != dataflow and not estate.submitted[user].paused}
    records = {str(record.pk): record for record in
               DataflowRecord.objects.filter(pk__in=users).select_related("team")}
    waits = {(str(row.dataflow_id), row.number): row.path for row in LatencyStatus.objects.filter(dataflow__in=users)}
    wants: dict[str, list[Wanted]] = {user: [] for user in users}
    for user, record in records.items():
        for number, limit in enumerate(record.latency_limits):
            way = way_of(estate, user, limit)
            if way is None:
                continue
            elsewhere_s = sum(wait + batch for query, wait, batch in waits.get((user, number), ()) if query not in own)
            part = replace(
                way, writers={query: tuple(writer for writer in writers if writer in own)
                              for query, writers in way.writers.items() if query in own},
                starts=way.starts & set(own),
                ends=frozenset(query for query in way.writers if query in own and not any(
                    query in way.writers[reader] and reader in own for reader in way.writers)))
            if part.starts and part.ends:
                wants[user].append(Wanted(f"{user}/{number}", part, limit.limit_s, limit.share, elsewhere_s))
    return wants


def _uses(estate: Estate, user: str, query: str) -> bool:
    return any(user in estate.users.get(task, ()) for task in estate.fragments[query].active_tasks)


def _events_cores(cost: BatchCost) -> float:
    return cost.rate_per_s * cost.event_cpu_s
