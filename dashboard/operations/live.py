"""Live documents: what the database knows and what is observed, put together for one viewer.

Documents are JSON values that change little from one second to the next (objects by id, rounded numbers), because
what travels is their difference. Whatever belongs to a private dataflow of a team that the viewer is not in is left
out of every list and of every number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal
from uuid import UUID

from dashboard import jobs
from dashboard.catalog.lifecycle import PAUSED, PAUSING, REMOVING, RUNNING
from dashboard.catalog.models import DataflowRecord
from dashboard.catalog.permissions import dataflow_for, visible_to
from dashboard.operations.estate import current_estate
from dashboard.teams.permissions import Viewer
from scheduler.model.estate import Estate, Fragment, RunningBundle
from scheduler.reuse.standing import is_working

FAILING = "backoff"
SILENT = "silent"  # the node does not report


@dataclass(frozen=True)
class View:
    """The estate as far as one viewer may know of it, with what is observed of it."""

    estate: Estate
    reading: jobs.LiveReading
    records: Mapping[str, DataflowRecord]  # submitted dataflows that are in the estate, by id
    tasks: frozenset[str]  # running tasks that serve one of them

    @cached_property
    def slots_of(self) -> Counter[str]:
        """How many slots each node has."""
        return Counter(slot.node for slot in self.estate.slots)

    def fragments(self) -> list[Fragment]:
        """The fragments of which the viewer may see at least one working task, by id."""
        return [
            fragment for _, fragment in sorted(self.estate.fragments.items())
            if not self.tasks.isdisjoint(fragment.active_tasks)
        ]

    def users(self, running_tasks: Iterable[str], *, besides: str = "") -> list[dict[str, str]]:
        """The dataflows that use any of these running tasks: id, name, team; by name."""
        ids = {user for task in running_tasks for user in self.estate.users.get(task, ())} & set(self.records)
        records = sorted((self.records[i] for i in ids if i != besides), key=lambda record: (record.name, record.pk))
        return [{"id": str(record.pk), "name": record.name, "team": record.team.name} for record in records]

    def fragment_report(self, fragment: Fragment) -> dict[str, Any]:
        """What its node reports of a fragment: ``state``, ``error``, ``retry_at_ms``, ``throttled_by``.

        Of a divided one, of the bundle that is worst off; those that are leaving do not count.
        """
        reports = [self.bundle_report(part) for part in fragment.parts if not part.leaving]
        return min(reports, key=lambda report: _rank(report["state"]))

    def bundle_report(self, bundle: RunningBundle) -> dict[str, Any]:
        """What its node reports of one query."""
        node, _, index = bundle.slot.rpartition("/")
        report = self.reading.reports.get(node)
        if report is None:
            return {"state": SILENT if self.reading.available else "unknown"}
        found = report["slots"].get(index, {}).get("fragments", {}).get(bundle.id)
        return {"state": "starting", "error": None} if found is None else found


def view_for(viewer: Viewer) -> View:
    """Read the estate, who is in it and what is observed, for one viewer."""
    estate = current_estate()
    records = {
        str(record.pk): record
        for record in DataflowRecord.objects.filter(
            visible_to(viewer), pk__in=list(estate.submitted)).select_related("team")
    }
    tasks = frozenset(
        task for dataflow_id in records for task in estate.submitted[dataflow_id].running.values())
    reading = jobs.read_live(
        estate.fragments.values(), {task.id: task.parents for task in estate.tasks.values()})
    return View(estate=estate, reading=reading, records=records, tasks=tasks)


def live_estate(viewer: Viewer) -> dict[str, Any]:
    """The estate's live document.

    - ``live``: ``available``, ``measured``, ``reason``: whether the broker answers and rates mean something
    - ``generation``
    - ``counts``: ``submitted`` dataflows, ``running_tasks``, ``without_reuse`` (tasks if nothing were shared),
      ``events_in_per_s``, ``events_out_per_s`` (null until measured)
    - ``nodes`` by name: ``reporting``, ``cores``, ``memory_mb``
    - ``slots`` by name: ``state`` (``silent`` where the node does not report), ``cpu`` (cores), ``memory_mb``,
      ``restarts``; of the bundles that the viewer may see ``fragments``, how many, and ``bundles_cpu`` and
      ``bundles_memory``, the shares that they take besides the driver (null where none tells)
    - ``health``: failing queries by id: ``cause``, ``state``, ``slot``, ``retry_at_ms``, ``dataflows`` (id, name,
      team)
    - ``dataflows`` by id: ``name``, ``team``, ``status``, ``state``, ``events_in_per_s``, ``events_out_per_s``,
      ``latency_p50_ms``, ``latency_p99_ms``
    """
    view = view_for(viewer)
    totals = {dataflow_id: totals_of(view, dataflow_id) for dataflow_id in view.records}
    return {
        "live": live_part(view.reading),
        "generation": view.estate.generation,
        "counts": _counts(view),
        "nodes": {
            name: {"reporting": True, "cores": report.get("cores"), "memory_mb": report.get("memory_mb")}
            if (report := view.reading.reports.get(name)) else {"reporting": False, "cores": None, "memory_mb": None}
            for name in sorted({slot.node for slot in view.estate.slots})
        },
        "slots": _slots(view),
        "health": _health(view),
        "dataflows": {
            dataflow_id: {"name": record.name, "team": record.team.name, "status": record.status,
                          **totals[dataflow_id]}
            for dataflow_id, record in sorted(view.records.items())
        },
    }


def live_dataflow(viewer: Viewer, dataflow_id: UUID | str) -> dict[str, Any]:
    """A dataflow's live document; ``NotFound`` where the viewer may not know of it.

    - ``live`` as for the estate; ``id``, ``name``, ``status``
    - ``totals``: ``state``, ``events_in_per_s``, ``events_out_per_s``, ``latency_p50_ms``, ``latency_p99_ms``
    - ``tasks`` by submitted task id, empty unless it is in the estate: ``running`` (running task id), ``state``,
      ``error``, ``retry_at_ms``, ``throttled_by``, ``rate_per_s``, ``events``, ``latency_p50_ms``,
      ``latency_p99_ms``, ``fragment``, ``position``, ``slot``, ``shared_with`` (id, name, team)
    - ``streams`` by ``"<source>><target>"`` (submitted ids): ``rate_per_s``, ``channel_p50_ms``, ``channel_p99_ms``,
      ``wait_p50_ms``, ``wait_p99_ms``; ``fused`` where no channel carries it
    - ``proposal``: the newest one's ``id``, ``kind`` and ``status``, or null
    """
    record = dataflow_for(viewer, dataflow_id)
    view = view_for(viewer)
    key = str(record.pk)
    newest = record.proposals.select_related("plan").first()
    inside = key in view.records
    return {
        "live": live_part(view.reading),
        "id": key, "name": record.name, "status": record.status,
        "totals": totals_of(view, key) if inside else _NO_TOTALS | {"state": record.status},
        "tasks": _tasks(view, key) if inside else {},
        "streams": _streams(view, key) if inside else {},
        "proposal": {"id": str(newest.pk), "kind": newest.plan.kind, "status": newest.status} if newest else None,
    }


def live_part(reading: jobs.LiveReading) -> dict[str, Any]:
    """Whether anything live is known, and if not, why."""
    return {"available": reading.available, "measured": reading.measured, "reason": reading.reason}


_NO_TOTALS = {
    "state": "", "events_in_per_s": None, "events_out_per_s": None, "latency_p50_ms": None, "latency_p99_ms": None}


def totals_of(view: View, dataflow_id: str) -> dict[str, Any]:
    """Rates, latency and state of one dataflow of the view as a whole."""
    submitted = view.estate.submitted[dataflow_id]
    running = set(submitted.running.values())
    sinks = {submitted.running[task] for task in submitted.sinks}
    sources = {task for task in running if not view.estate.tasks[task].parents}
    flows = [view.reading.flows.tasks[task] for task in sorted(sinks) if task in view.reading.flows.tasks]
    return {
        "state": _worst(_state_of(view, task) for task in running),
        "events_in_per_s": sum_rate(view, sources), "events_out_per_s": sum_rate(view, sinks),
        "latency_p50_ms": _highest(flow.latency_p50_ms for flow in flows),
        "latency_p99_ms": _highest(flow.latency_p99_ms for flow in flows),
    }


def sum_rate(view: View, tasks: Iterable[str]) -> float | None:
    """Events per second of these running tasks together; None until rates are measured."""
    if not view.reading.measured:
        return None
    flows = view.reading.flows.tasks
    return round(sum(flows[task].rate_per_s for task in tasks if task in flows), 1)


def sources_and_sinks(view: View, tasks: Iterable[str]) -> tuple[set[str], set[str]]:
    """Of these running tasks those without a parent, and those that stand for a sink."""
    tasks = set(tasks)
    sinks = {
        view.estate.submitted[key].running[task] for key in view.records for task in view.estate.submitted[key].sinks}
    return {task for task in tasks if not view.estate.tasks[task].parents}, sinks & tasks


def _counts(view: View) -> dict[str, Any]:
    sources, sinks = sources_and_sinks(view, view.tasks)
    return {
        "submitted": len(view.records),
        "running_tasks": sum(1 for task in view.tasks if is_working(view.estate, task)),
        "without_reuse": sum(
            len(view.estate.submitted[key].running) for key in view.records if not view.estate.submitted[key].paused),
        "events_in_per_s": sum_rate(view, sources), "events_out_per_s": sum_rate(view, sinks),
    }


def _slots(view: View) -> dict[str, Any]:
    bundles: dict[str, list[RunningBundle]] = {}
    for fragment in view.fragments():
        for part in fragment.parts:
            bundles.setdefault(part.slot, []).append(part)
    return {slot.name: _slot(view, slot.name, bundles.get(slot.name, [])) for slot in view.estate.slots}


def _slot(view: View, name: str, bundles: Sequence[RunningBundle]) -> dict[str, Any]:
    node, _, index = name.rpartition("/")
    found = view.reading.reports.get(node, {}).get("slots", {}).get(index, {})
    return {
        "state": found.get("state", SILENT if view.reading.available else "unknown"),
        "cpu": _rounded(found.get("cpu"), 2), "memory_mb": _rounded(found.get("memory_mb"), 0),
        "bundles_cpu": _rounded(taken_by(view, bundles, "cpu"), 3),
        "bundles_memory": _rounded(taken_by(view, bundles, "memory"), 4),
        "restarts": found.get("restarts", 0),
        "fragments": len(bundles),
    }


def taken_by(view: View, bundles: Iterable[RunningBundle], what: Literal["cpu", "memory"]) -> float | None:
    """What these bundles take together of a slot, as a profile has it; None where none of them tells."""
    told = [view.bundle_report(bundle).get(what) for bundle in bundles]
    known = [one for one in told if one is not None]
    return sum(known) if known else None


def share_of_memory(view: View, node: str, memory_mb: float | None) -> float | None:
    """A part of a slot's memory, which is its even share of its node's; None where the node does not tell."""
    total, slots = view.reading.reports.get(node, {}).get("memory_mb"), view.slots_of[node]
    return memory_mb * slots / total if total and slots and memory_mb is not None else None


def _health(view: View) -> dict[str, Any]:
    failing = {}
    for fragment in view.fragments():
        for bundle in fragment.parts:
            report = view.bundle_report(bundle)
            if report["state"] == FAILING or (report.get("error") and report["state"] != "running"):
                failing[bundle.id] = {
                    "cause": report.get("error") or "The query fails.", "state": report["state"], "slot": bundle.slot,
                    "retry_at_ms": report.get("retry_at_ms"), "dataflows": view.users(fragment.active_tasks),
                }
    return failing


def _tasks(view: View, dataflow_id: str) -> dict[str, Any]:
    tasks = {}
    for task, running in view.estate.submitted[dataflow_id].running.items():
        fragment_id, position = view.estate.places[running]
        fragment = view.estate.fragments[fragment_id]
        report = view.fragment_report(fragment)
        flow = view.reading.flows.tasks.get(running)
        tasks[task] = {
            "running": running, "fragment": fragment_id, "position": position, "slot": _places(fragment),
            "state": _state_of(view, running), "error": report.get("error"), "retry_at_ms": report.get("retry_at_ms"),
            "throttled_by": report.get("throttled_by"),
            "rate_per_s": _rounded(flow.rate_per_s, 1) if flow else None, "events": flow.events if flow else None,
            "latency_p50_ms": _rounded(flow.latency_p50_ms, 0) if flow else None,
            "latency_p99_ms": _rounded(flow.latency_p99_ms, 0) if flow else None,
            "shared_with": view.users([running], besides=dataflow_id),
        }
    return tasks


def _streams(view: View, dataflow_id: str) -> dict[str, Any]:
    running = view.estate.submitted[dataflow_id].running
    by_running = {task: name for name, task in running.items()}
    streams = {}
    for target, running_task in running.items():
        _, position = view.estate.places[running_task]
        for parent in view.estate.tasks[running_task].parents:
            flow = view.reading.flows.streams.get((parent, running_task))
            streams[f"{by_running[parent]}>{target}"] = {
                "fused": position > 0,
                "rate_per_s": _rounded(flow.rate_per_s, 1) if flow else None,
                "channel_p50_ms": _rounded(flow.channel_p50_ms, 0) if flow else None,
                "channel_p99_ms": _rounded(flow.channel_p99_ms, 0) if flow else None,
                "wait_p50_ms": _rounded(flow.wait_p50_ms, 0) if flow else None,
                "wait_p99_ms": _rounded(flow.wait_p99_ms, 0) if flow else None,
            }
    return streams


def _state_of(view: View, running_task: str) -> str:
    """The state of the query that a task works in; a task that rests is paused, whatever works beside it."""
    fragment_id, position = view.estate.places[running_task]
    fragment = view.estate.fragments[fragment_id]
    return PAUSED if position >= fragment.active else view.fragment_report(fragment)["state"]


def _places(fragment: Fragment) -> str:
    """The slot that it runs on; of a divided one the first, and how many more."""
    more = len({bundle.slot for bundle in fragment.parts}) - 1
    return f"{fragment.slot} and {more} more" if more else fragment.slot


def _worst(states: Iterable[str]) -> str:
    found = min(states, key=_rank, default="running")
    return found if found in _WORST_FIRST else "running"


_WORST_FIRST = ("unknown", FAILING, SILENT, "starting", "waiting", "draining", "stopped", PAUSED)


def _rank(state: str) -> int:
    """How bad a state is, the worst first; what is not named runs."""
    return _WORST_FIRST.index(state) if state in _WORST_FIRST else len(_WORST_FIRST)


def _highest(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(max(known)) if known else None


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits) if digits else round(value)


def output_channels(viewer: Viewer, record: DataflowRecord) -> dict[str, str]:
    """The channel of each named output of a dataflow that is in the estate, by submitted task id."""
    estate, types = current_estate(), jobs.task_types()
    submitted = estate.submitted.get(str(record.pk))
    if submitted is None or record.status not in {RUNNING, PAUSING, PAUSED, REMOVING}:
        return {}
    channels = {}
    for task in submitted.sinks:
        running = submitted.running[task]
        declared = types.get(estate.tasks[running].type)
        if declared is not None and declared.terminal == "output":
            channels[task] = estate.channel_of(running)
    return channels
