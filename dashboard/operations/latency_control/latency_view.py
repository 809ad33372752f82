"""A dataflow's latency limits as a viewer sees them: whether they are met, where the time goes, what they cost."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings

from dashboard import jobs
from dashboard.catalog.models import DataflowRecord
from dashboard.catalog.selectors import dataflow as dataflow_of
from dashboard.operations.estate_store.estate_loader import current_estate
from dashboard.operations.latency_control.latency_measured import measured_along
from dashboard.operations.latency_control.limit_statuses import (
    is_lasting,
    is_met_by_measurement,
    told_state,
    warm_moments,
    young_drivers,
)
from dashboard.operations.latency_control.pacer import batch_figures_of
from dashboard.operations.live_view.cost_learning import WARM
from dashboard.operations.models import BatchFigures, LatencyStatus
from dashboard.teams.permissions import Viewer
from scheduler.latency.limits_met import IMPOSSIBLE, MET, MISSED, TOLERATED, WAITING
from scheduler.latency.ways import way_of, working_reads
from scheduler.latency.wide_ways import MOST_STREAMS, is_wide
from scheduler.model.estate import Estate
from scheduler.model.latency_limits import LatencyLimit, figure_in_words, from_json, in_words, to_json

BY_RULE = (
    f"More than {MOST_STREAMS} streams lead to where this limit ends, too many to choose intervals one by one: all its "
    "queries have one interval, and none leaves its batches open. Set a limit along a part, or submit a part with "
    "fewer streams as a dataflow of its own.")
OFFERED_S = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 30.0, 60.0)


def latency_of(viewer: Viewer, dataflow_id: UUID | str) -> dict[str, Any]:
    """A dataflow's limits with what became of each, and where the time goes."""
    record = dataflow_of(viewer, dataflow_id)
    estate = current_estate()
    rows = {row.number: row for row in record.latency_statuses.all()}
    paces = paces_of(estate, str(record.pk))
    warm_at = warm_moments(jobs.read_live((), {}).reports) if rows else {}
    reads = working_reads(estate) if str(record.pk) in estate.submitted and record.latency_limits else {}
    limits = [
        _with_rule(estate, reads, str(record.pk), limit, _limit(
            record, estate, number, limit, rows.get(number), paces, warm_at))
        for number, limit in enumerate(record.latency_limits)]
    return {"id": str(record.pk), "said_by": record.latency_from, "limits": limits}


def latency_card(viewer: Viewer, record: DataflowRecord) -> dict[str, Any]:
    """The limits on a dataflow's page: as `latency_of`, how they are written, where the slider stands."""
    answer = latency_of(viewer, record.pk)
    limits = record.latency_limits
    simple = len(limits) == 1 and limits[0] == LatencyLimit(limits[0].limit_s)
    written = in_words(limits[0].limit_s) if simple else json.dumps(to_json(limits)) if limits else "none"
    return answer | {"written": written} | offer_of(record)


def offer_of(record: DataflowRecord) -> dict[str, int]:
    """The place of no limit on a slider over `OFFERED_S` for a dataflow, and the slider's end."""
    limits, last = record.latency_limits, len(OFFERED_S)
    chosen = min(range(last), key=lambda at: abs(OFFERED_S[at] - limits[0].limit_s)) if limits else last
    return {"last_offer": last, "chosen_offer": chosen}


def limits_in_words(record: DataflowRecord) -> str:
    """The limits that hold for a dataflow, in a few words."""
    return " and ".join(limit.words for limit in record.latency_limits) or "no limit"


def worst_states(dataflows: Collection[str]) -> dict[str, str]:
    """The state of the worst limit of each of these dataflows that has one and runs."""
    worst: dict[str, str] = {}
    order = (MET, WAITING, MISSED, IMPOSSIBLE)
    rows = list(LatencyStatus.objects.filter(dataflow__in=list(dataflows)).only("dataflow_id", "state", "path"))
    estate, warm_at = current_estate(), warm_moments(jobs.read_live((), {}).reports) if rows else {}
    for row in rows:
        key, state = str(row.dataflow_id), told_state(row, young_drivers(row, estate, warm_at))
        worst[key] = max(worst.get(key, MET), state, key=order.index)
    return worst


def _limit(
    record: DataflowRecord, estate: Estate, number: int, limit: LatencyLimit, row: LatencyStatus | None,
    paces: Mapping[str, BatchFigures], warm_at: Mapping[str, datetime],
) -> dict[str, Any]:
    if row is not None and from_json(row.limit) != (limit,):
        row = None  # it was chosen a moment ago
    names = {running: task for task, running in estate.submitted[str(record.pk)].running.items()} \
        if str(record.pk) in estate.submitted else {}
    measured_s = {} if row is None else measured_along(estate, row, limit)
    path = [] if row is None else [
        {"query": query, "tasks": _tasks_in(estate, query, names), "wait_s": wait_s, "batch_s": batch_s,
         "measured_s": round(measured_s[query], 4) if query in measured_s else None,
         "trigger_ms": paces[query].trigger_ms if query in paces else settings.TRIGGER_MS,
         "real_time": query in paces and paces[query].real_time,
         "not_real_time": paces[query].refusal if query in paces else ""}
        for query, wait_s, batch_s in row.path]
    young = {} if row is None else young_drivers(row, estate, warm_at)
    return {
        "number": number, "words": limit.words, "limit_s": limit.limit_s, "along": list(limit.along),
        "over_s": limit.over_s, "percentile": limit.percentile,
        "state": WAITING if row is None else told_state(row, young),
        "by_measurement": row is not None and is_met_by_measurement(row),
        "expected_s": None if row is None else row.expected_s,
        "measured_s": None if row is None else row.measured_s,
        "least_s": None if row is None else row.least_s,
        "other_s": None if row is None else row.other_s,
        "since": None if row is None else row.since,
        "is_lasting": row is not None and is_lasting(row),
        "warm_at": max(young.values(), default=None),
        "path": path,
        "why": "" if row is None else " ".join(filter(None, (_why(row, path, young), _why_young(row, young)))),
    }


def _with_rule(
    estate: Estate, reads: Mapping[str, tuple[str, ...]], dataflow_id: str, limit: LatencyLimit, answer: dict[str, Any],
) -> dict[str, Any]:
    """The answer on a limit; of one whose way is too wide to solve, that its queries go by a rule."""
    way = way_of(estate, dataflow_id, limit) if dataflow_id in estate.submitted else None
    if way is None or not is_wide(reads, way):
        return answer
    return answer | {"why": f"{answer['why']} {BY_RULE}".strip()}


def _why(row: LatencyStatus, path: list[dict[str, Any]], young: Mapping[str, datetime]) -> str:
    """The reason why a limit is not met: which element takes how long, and what was tried; or that it is met by
    measurement."""
    if is_met_by_measurement(row):
        return f"It is met by measurement; the model expected at least {figure_in_words(row.least_s)}."
    if row.state not in (MISSED, IMPOSSIBLE) or not path:
        return ""
    slowest = max(path, key=lambda part: (part["batch_s"], part["wait_s"]))
    cause = f"A batch of {_named(slowest)} takes {figure_in_words(slowest['batch_s'])}" if slowest["batch_s"] else (
        f"Events wait {figure_in_words(slowest['wait_s'])} for a batch of {_named(slowest)}")
    if row.state == MISSED:
        return (f"{figure_in_words(row.measured_s)} are measured where {figure_in_words(row.expected_s)} were "
                f"expected. {_longest(path) or cause}; intervals are shortened until it is met.")
    is_behind = row.measured_s is not None and row.measured_s > TOLERATED * row.expected_s
    cause = (is_behind and _longest(path)) or cause
    number = "query" if len(path) == 1 else f"{len(path)} queries"
    allows = f"the CPU of {', '.join(row.full)} allows" if row.full else f"its {number} can keep to"
    takes = "should take" if is_behind else "take"
    tried = (f"With the shortest intervals that {allows}, events {takes} {figure_in_words(row.least_s)}"
             f"{' so far' * bool(young)}.")
    refused = "".join(
        f" {_named(part)} cannot pass events on as they come: {part['not_real_time']}." for part in path
        if part["not_real_time"])
    return f"{tried} {cause}.{refused}"


def _why_young(row: LatencyStatus, warm_at: Mapping[str, datetime]) -> str:
    """The reason why nothing is promised by what drivers do that began lately."""
    if not warm_at:
        return ""
    first, *others = warm_at
    whose = f"{1 + len(others)} drivers on its path have" if others else f"The driver of {first} has"
    does = "compile" if others else "compiles"
    is_told = told_state(row, warm_at) == row.state
    subject = "The figures here hold" if is_told else "Whether the limit can be met is known"
    return (f"{whose} run for less than {WARM.total_seconds() / 60:.0f} minutes and still {does}: batches take "
            f"longer than they will. {subject} from {max(warm_at.values()):%H:%M} UTC on.")


def _longest(path: list[dict[str, Any]]) -> str:
    """The element where events spend most of the time by what was measured, against what is expected there."""
    measured = [part for part in path if part["measured_s"] is not None]
    if not measured:
        return ""
    longest = max(measured, key=lambda part: part["measured_s"])
    on_the_way = "" if len(path) == 1 else ", with the way there,"
    return (f"Events take {figure_in_words(longest['measured_s'])} in {_named(longest)}{on_the_way} in the mean, "
            f"where {figure_in_words(longest['wait_s'])} of waiting and {figure_in_words(longest['batch_s'])} for a "
            "batch are expected")


def _named(part: Mapping[str, Any]) -> str:
    tasks = part["tasks"]
    return part["query"] if not tasks else tasks[0] if len(tasks) == 1 else f"{tasks[0]} … {tasks[-1]}"


def _tasks_in(estate: Estate, query: str, names: Mapping[str, str]) -> list[str]:
    fragment = estate.fragments.get(query)
    return [] if fragment is None else [names[task] for task in fragment.active_tasks if task in names]


def paces_of(estate: Estate, dataflow: str) -> Mapping[str, BatchFigures]:
    """The intervals of a dataflow's fragments with what their batches cost; those that are known."""
    entry = estate.submitted.get(dataflow)
    if entry is None:
        return {}
    return batch_figures_of(estate.places[task][0] for task in entry.running.values() if task in estate.places)
