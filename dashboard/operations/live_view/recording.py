"""Recorded values of the estate over time: the values of one moment, and what happened. Writes nothing itself."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import chain
from typing import Any

from dashboard import jobs
from dashboard.operations.live_view.dataflow_use import taken_by_dataflows
from dashboard.operations.live_view.estate_view import View, exact_rate, sources_and_sinks
from dashboard.operations.live_view.findings import Finding
from scheduler.contracts.reports import NodeReport, checkpoint_age_ms
from scheduler.history.series import (
    ALARM,
    DATAFLOW,
    ESTATE,
    METRICS,
    NODE,
    OVER,
    QUERY,
    SLOT,
    STREAM,
    TASK,
    Annotation,
    Series,
)
from scheduler.model.fragment import Slot
from scheduler.reuse.activity import is_working

Values = dict[Series, float]
Named = Iterator[tuple[Series, float | None]]
_LATENCIES = ("latency_p50_ms", "latency_p95_ms", "latency_p99_ms", "latency_mean_ms")
_LAG = "watermark_lag_ms"
_KINDS_OF_PARTS = {  # what a finding is of, in history
    "query": QUERY, "key": QUERY, "channel": QUERY, "spill": QUERY, "source": QUERY, "sink": TASK, "task": TASK,
    "slot": SLOT, "node": NODE, "copies": NODE, "disk": NODE, "broker": ESTATE, "worker": ESTATE, "package": ESTATE,
    "limit": DATAFLOW, "dataflow": DATAFLOW}
_TASK_ID = 32  # characters
MOST_FASTER = 100.0  # times faster or slower than calibrated: a speed beyond that is a wrong report


# The same objects from one second to the next: who writes them need not look them up again.
series_of = lru_cache(maxsize=100_000)(Series)


def values_of(view: View) -> Values:
    """Every value that is known of the whole estate now; nothing of flows until two readings make rates."""
    flows = chain(_scopes(view), _tasks(view), _streams(view), _dataflows(view)) if view.reading.measured else ()
    nodes = view.reading.reports.items()
    named = chain(flows, *(_node(name, report) for name, report in nodes), _cpu_of_tasks(view), _shares(view))
    return {series: float(value) for series, value in named if value is not None}


def _scopes(view: View) -> Named:
    tasks: dict[str, set[str]] = {}
    for task in view.estate.tasks.values():
        tasks.setdefault(task.scope, set()).add(task.id)
    for scope, everything in tasks.items():
        working = {task for task in everything if is_working(view.estate, task)}
        sources, sinks = sources_and_sinks(view, working)
        apart = sum(1 for entry in view.estate.submitted.values() if not entry.paused
                    for task in entry.running.values() if task in working)
        yield series_of(ESTATE, scope, "events_in_per_s"), _rate(view, sources)
        yield series_of(ESTATE, scope, "events_out_per_s"), _rate(view, sinks)
        yield series_of(ESTATE, scope, "running_tasks"), len(working)
        yield series_of(ESTATE, scope, "tasks_without_reuse"), apart
        for name in ("latency_p95_ms", "latency_p99_ms"):  # a median of medians says nothing; the slowest sink does
            yield series_of(ESTATE, scope, name), _slowest(view, sinks, name)


def _dataflows(view: View) -> Named:
    for dataflow in view.records:
        entry = view.estate.submitted[dataflow]
        running = set(entry.running.values())
        sinks = {entry.running[task] for task in entry.sinks}
        yield series_of(DATAFLOW, dataflow, "events_in_per_s"), _rate(
            view, {task for task in running if not view.estate.tasks[task].parents})
        yield series_of(DATAFLOW, dataflow, "events_out_per_s"), _rate(view, sinks)
        yield series_of(DATAFLOW, dataflow, "running_tasks"), len(running)
        for name in (*_LATENCIES, _LAG, "latency_max_ms"):
            yield series_of(DATAFLOW, dataflow, name), _slowest(view, sinks, name)
        yield series_of(DATAFLOW, dataflow, "latency_min_ms"), min(
            _known_latencies(view, sinks, "latency_min_ms"), default=None)


def _rate(view: View, tasks: Collection[str]) -> float | None:
    """Events per second; None before any of these tasks has run: what was not there yet has no rate, not one of 0."""
    return None if view.reading.flows.tasks.keys().isdisjoint(tasks) else exact_rate(view, tasks)


def _slowest(view: View, sinks: Iterable[str], name: str) -> float | None:
    return max(_known_latencies(view, sinks, name), default=None)


def _known_latencies(view: View, sinks: Iterable[str], name: str) -> Iterator[float]:
    flows = view.reading.flows.tasks
    latencies = (getattr(flows[task], name) for task in sinks if task in flows)
    return (ms for ms in latencies if ms is not None)


def _tasks(view: View) -> Named:
    flows = view.reading.flows.tasks
    for task, flow in flows.items():
        for name in ("rate_per_s", *_LATENCIES, _LAG):
            yield series_of(TASK, task, name), getattr(flow, name)
        yield series_of(TASK, task, "late_per_s"), flow.late_per_s if flow.late else None
    for fragment in view.estate.fragments.values():
        flow = flows.get(fragment.active_tasks[-1]) if fragment.active_tasks else None
        if flow is not None:  # bundles of one fragment go on alike: nobody tells them apart here
            for bundle in fragment.queries:
                yield series_of(QUERY, bundle.id, _LAG), flow.watermark_lag_ms


def _streams(view: View) -> Named:
    flows = view.reading.flows.streams
    channels = {
        (parent, child): names for parent, child in flows if (names := _channels(view, parent, child))}
    blocks = jobs.channel_blocks({
        name for by_query in channels.values() for names in by_query.values() for name in names})
    most: dict[Series, int] = {}
    for (parent, child), flow in flows.items():
        stream = f"{parent}>{child}"
        yield series_of(STREAM, stream, "rate_per_s"), flow.rate_per_s
        names = channels.get((parent, child))
        if names is None:  # both are in one query
            continue
        for name in ("channel_p50_ms", "channel_mean_ms", "channel_p95_ms", "channel_p99_ms", "wait_p50_ms",
                     "wait_mean_ms", "wait_p99_ms"):
            yield series_of(STREAM, stream, name), getattr(flow, name)
        by_query = {query: sum(blocks[name] for name in channels) for query, channels in names.items()}
        held_blocks = sum(by_query.values())
        yield series_of(STREAM, stream, "backlog_blocks"), held_blocks
        waiting = {series_of(QUERY, query, "backlog_blocks"): blocks for query, blocks in by_query.items()} | {
            series_of(DATAFLOW, dataflow, "backlog_blocks"): held_blocks
            for dataflow in view.estate.users.get(child, ())}
        for series, count in waiting.items():
            most[series] = max(count, most.get(series, 0))
    yield from most.items()


def _channels(view: View, parent: str, child: str) -> dict[str, tuple[str, ...]]:
    """The channels in which a stream is read, by query: parts of it where that is divided; none within a query."""
    fragment_id, position = view.estate.places.get(child, ("", 0))
    if not fragment_id or position > 0:
        return {}
    reader = view.estate.fragments[fragment_id]
    return {bundle.id: tuple(view.estate.read_by(reader, bundle, parent)) for bundle in reader.queries}


def _node(name: str, report: NodeReport) -> Named:
    for index, slot in report.slots.items():
        slot_name = Slot(name, int(index)).name
        yield series_of(SLOT, slot_name, "cpu"), slot.cpu
        yield series_of(SLOT, slot_name, "memory_mb"), slot.memory_mb
        for query, run in slot.fragments.items():
            for metric in ("rate_per_s", "batch_ms", "trigger_ms", "cpu", "memory"):
                yield series_of(QUERY, query, metric), getattr(run, metric)
            yield series_of(QUERY, query, "restarts"), run.restarts
            yield series_of(QUERY, query, "state_mb"), run.state_kb / 1024 if run.state_kb else None
            yield series_of(QUERY, query, "checkpoint_age_ms"), checkpoint_age_ms(run, at_ms=report.at_ms)
            for phase, took_ms in run.phases_ms.items():
                if f"batch_{phase}_ms" in METRICS:  # an agent of a later version may tell of others
                    yield series_of(QUERY, query, f"batch_{phase}_ms"), took_ms
    for metric in ("cpu", "memory_mb"):
        values = [value for slot in report.slots.values() if (value := getattr(slot, metric)) is not None]
        yield series_of(NODE, name, metric), sum(values) if values else None
    yield series_of(NODE, name, "disk_free_mb"), report.disk_free_mb
    speed = report.speed_now / report.speed if report.speed_now and report.speed else 0.0
    yield series_of(NODE, name, "core_speed"), speed if 1 / MOST_FASTER <= speed <= MOST_FASTER else None


def _cpu_of_tasks(view: View) -> Named:
    """CPU and memory of tasks that are alone in their queries; of several in one query nobody can tell."""
    reports = view.reading.reports
    for fragment in view.estate.fragments.values():
        if len(fragment.active_tasks) != 1:
            continue
        runs = [run for bundle in fragment.queries if (run := reports.query(bundle.slot, bundle.id)) is not None]
        for metric in ("cpu", "memory"):
            values = [value for run in runs if (value := getattr(run, metric)) is not None]
            yield series_of(TASK, fragment.active_tasks[0], metric), sum(values) if values else None


def _shares(view: View) -> Named:
    """CPU and memory of dataflows, and of the whole estate."""
    taken = taken_by_dataflows(view)
    slots = [slot for _, report in view.reading.reports.items() for slot in report.slots.values()]
    for name in ("cpu", "memory_mb"):
        for dataflow in view.records:
            yield series_of(DATAFLOW, dataflow, name), taken[name].get(dataflow)
        values = [value for slot in slots if (value := getattr(slot, name)) is not None]
        yield series_of(ESTATE, "", name), sum(values) if values else None


# What happened --------------------------------------------------------------------------------------------------------


def annotations_of_events(
    events: Iterable[Mapping[str, Any]], *, team_of: Callable[[str], str] = lambda query: "",
) -> list[Annotation]:
    """The events that nodes reported, as annotations of the query, task, slot or node that each event is of.

    Parameters
    ----------
    team_of : callable
        The short name of the team that alone reads why a query fails, by its id; empty where all do.
    """
    notes = []
    for event in events:
        kind, subject = next(
            ((kind, str(event[name])) for kind, name in (
                (QUERY, "fragment"), (TASK, "task"), (SLOT, "slot"), (NODE, "node")) if event.get(name)), ("", ""))
        if kind == SLOT and "/" not in subject:
            subject = f"{event.get('node', '')}/{subject}"
        if kind:
            text = str(event.get("error") or "")
            if event["kind"] == "handed_over":
                text = f"It stood still for a batch and {event['gap_ms']} ms."
            team = team_of(subject) if kind == QUERY and event.get("error") else ""
            notes.append(Annotation(
                int(event["at_ms"]) // 1000, str(event["kind"])[:20], kind, subject, text[:500], team))
    return notes


def annotations_of_findings(
    before: Mapping[str, Finding], after: Mapping[str, Finding], *, at_s: int
) -> list[Annotation]:
    """An alarm of each part of which something is wrong now and was not, and the end of each that is over."""
    begun = [(ALARM, finding) for key, finding in after.items() if key not in before]
    ended = [(OVER, finding) for key, finding in before.items() if key not in after]
    return [
        Annotation(at_s, annotation_kind, kind, subject, finding.cause[:500])
        for annotation_kind, finding in begun + ended for kind, subject in _subjects_of(finding)]


def subject_of(finding: Finding) -> tuple[str, str]:
    """The kind and subject that history knows a finding's part by; empty where it knows none."""
    return subject_of_part(finding.part, finding.name)


def subject_of_part(part: str, name: str) -> tuple[str, str]:
    """The same of a part by its name."""
    kind = _KINDS_OF_PARTS.get(part, "")
    if kind == ESTATE or (part, name) == ("disk", "site"):
        return ESTATE, ""
    if kind == QUERY and part == "source" and len(name) == _TASK_ID:
        return TASK, name  # a live source; one that makes its events is named by its query
    return kind, name.partition("/")[0] if kind == QUERY else name if kind else ""


def _subjects_of(finding: Finding) -> Iterator[tuple[str, str]]:
    kind, subject = subject_of(finding)
    subjects = [(kind, subject)] if kind else []
    yield from dict.fromkeys([*subjects, *((DATAFLOW, dataflow["id"]) for dataflow in finding.dataflows)])
