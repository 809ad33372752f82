"""Live documents (`live_documents`): what the database knows and what is observed, put together for one viewer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from uuid import UUID

from django.conf import settings
from django.db.models import F

from dashboard import jobs
from dashboard.catalog.permissions import dataflow_for
from dashboard.operations.diagnosis.health import health, health_document
from dashboard.operations.diagnosis.slow_readers import paused_by_weir
from dashboard.operations.estate_store.losses import lost_by
from dashboard.operations.estate_store.reservations import reserved_slots
from dashboard.operations.live_view.estate_view import (
    Look,
    View,
    sources_and_sinks,
    state_of,
    sum_rate,
    taken_by,
    totals_of,
    view_for,
)
from dashboard.operations.live_view.failing_queries import failed_tasks
from dashboard.operations.live_view.live_documents import (
    EstateCounts,
    EstateDataflow,
    EstateNode,
    EstateSlot,
    Freshness,
    LiveDataflow,
    LiveEstate,
    LiveProposal,
    LiveStream,
    LiveTask,
    SpareDriver,
    Totals,
)
from dashboard.operations.live_view.live_sources import sources_of
from dashboard.operations.live_view.sink_statuses import sinks_of
from dashboard.operations.live_view.state_holders import survival_now
from dashboard.operations.live_view.survival import (
    DataflowSurvival,
    copied,
    cost_of_one_more,
    estate_in_words,
    survival_of,
)
from dashboard.teams.permissions import Viewer
from scheduler.contracts.reports import QueryReport, copy_age_ms
from scheduler.model.alternates import is_dynamic, on_in
from scheduler.model.fragment import Fragment, RunningBundle, node_of
from scheduler.model.plan_kinds import PLAN_KINDS
from scheduler.model.settings_of_fragments import USUAL
from scheduler.reuse.activity import is_working

_NO_TOTALS = Totals(
    state="", events_in_per_s=None, events_out_per_s=None, latency_p50_ms=None, latency_p99_ms=None)


def live_estate(viewer: Viewer, *, look: Look = view_for) -> LiveEstate:
    """The estate's live document; ``look`` gives the viewer's view of it."""
    view = look(viewer)
    return LiveEstate(
        live=live_part(view.reading),
        generation=view.estate.generation,
        counts=view.known_figures.once("counts", lambda: _counts(view)),
        nodes={name: _node(view, name) for name in sorted({slot.node for slot in view.estate.slots})},
        slots=view.known_figures.once("slots", lambda: _slots(view)),
        health=health_document(view),
        dataflows=view.known_figures.once("dataflows", lambda: {
            dataflow_id: EstateDataflow(
                name=record.name, team=record.team.name, status=record.status, **totals_of(view, dataflow_id))
            for dataflow_id, record in sorted(view.records.items())}))


def live_dataflow(viewer: Viewer, dataflow_id: UUID | str, *, look: Look = view_for) -> LiveDataflow:
    """A dataflow's live document; ``NotFound`` where the viewer may not know of it."""
    view = look(viewer)
    record = view.records.get(str(dataflow_id)) or dataflow_for(viewer, dataflow_id)
    key = str(record.pk)
    newest = record.proposals.values("pk", "status", "author", kind=F("plan__kind"), options=F("plan__options")).first()
    inside = key in view.records
    is_by_weir = newest is not None and newest["author"] is None and PLAN_KINDS[newest["kind"]].rests
    own_findings = paused_by_weir(record, newest["options"] if is_by_weir else {}) | {
        finding.key: finding for finding in health(view)
        if inside and key in {user["id"] for user in finding.dataflows}}
    return LiveDataflow(
        live=live_part(view.reading),
        id=key, name=record.name, status=record.status,
        totals=totals_of(view, key) if inside else Totals(**_NO_TOTALS | {"state": record.status}),
        tasks=_tasks(view, key) if inside else {},
        streams=_streams(view, key) if inside else {},
        sources=sources_of(view, key) if inside else {},
        sinks=sinks_of(view, key) if inside else {},
        health={name: asdict(finding) for name, finding in own_findings.items()},
        survival=dataflow_survival(view, key), when_behind=record.behind_choice,
        lost_events=lost_by(record.pk)["events"],
        proposal=LiveProposal(
            id=str(newest["pk"]), kind=newest["kind"], status=newest["status"]) if newest else None)


def dataflow_survival(view: View, dataflow_id: str) -> DataflowSurvival:
    """The losses of machines that the queries survive in which a dataflow works."""
    submitted = view.estate.submitted.get(dataflow_id) if dataflow_id in view.records else None
    running = set(submitted.running.values()) if submitted else set()
    queries = [
        (fragment, bundle) for fragment in view.fragments() if not running.isdisjoint(fragment.active_tasks)
        for bundle in fragment.queries if not bundle.leaving]
    reports = [(view.bundle_report(bundle), view.node_report(node_of(bundle.slot))) for _, bundle in queries]
    return survival_of(
        (report for report, _ in reports), survival_now(view, queries), copy_s=settings.COPY_S,
        ages_ms=(copy_age_ms(report, at_ms=node.at_ms) for report, node in reports if node is not None))


def live_part(reading: jobs.LiveReading) -> Freshness:
    """The state of live knowledge, and the reason where there is none."""
    return Freshness(available=reading.available, measured=reading.measured, reason=reading.reason)


def _node(view: View, name: str) -> EstateNode:
    report = view.node_report(name)
    if report is None:
        return EstateNode(reporting=False, cores=None, memory_mb=None, spare=None)
    return EstateNode(
        reporting=True, cores=report.cores, memory_mb=report.memory_mb,
        spare=SpareDriver(**asdict(report.spare)) if report.spare else None)


def _counts(view: View) -> EstateCounts:
    sources, sinks = sources_and_sinks(view, view.tasks)
    queries = [(fragment, bundle) for fragment in view.fragments() for bundle in fragment.queries]
    reports = [view.bundle_report(bundle) for _, bundle in queries]
    with_copies = [query for query, report in zip(queries, reports, strict=True) if report.survives]
    survives = survival_now(view, with_copies)
    nodes = len({slot.node for slot in view.estate.slots})
    return EstateCounts(
        queries=len(reports), copied=copied(reports), survives=str(survives) if with_copies else None,
        survival=estate_in_words(reports, survives, nodes=nodes), **cost_of_one_more(reports, copy_s=settings.COPY_S),
        submitted=len(view.records),
        running_tasks=sum(1 for task in view.tasks if is_working(view.estate, task)),
        without_reuse=sum(
            len(view.estate.submitted[key].running) for key in view.records if not view.estate.submitted[key].paused),
        events_in_per_s=sum_rate(view, sources), events_out_per_s=sum_rate(view, sinks))


def _slots(view: View) -> dict[str, EstateSlot]:
    bundles: dict[str, list[RunningBundle]] = {}
    for fragment in view.fragments():
        for bundle in fragment.queries:
            bundles.setdefault(bundle.slot, []).append(bundle)
    reserved = reserved_slots(view.estate)
    return {
        slot.name: _slot(view, slot.name, bundles.get(slot.name, []), reserved=slot.name in reserved)
        for slot in view.estate.slots}


def _slot(view: View, name: str, bundles: Sequence[RunningBundle], *, reserved: bool) -> EstateSlot:
    report = view.slot_report(name)
    return EstateSlot(
        state=report.state, cpu=report.cpu, memory_mb=report.memory_mb,
        bundles_cpu=taken_by(view, bundles, "cpu"), bundles_memory=taken_by(view, bundles, "memory"),
        restarts=report.restarts, fragments=len(bundles), reserved=reserved)


def _tasks(view: View, dataflow_id: str) -> dict[str, LiveTask]:
    tasks = {}
    for task, running in view.estate.submitted[dataflow_id].running.items():
        fragment_id, position = view.estate.places[running]
        fragment = view.estate.fragments[fragment_id]
        report = view.fragment_report(fragment)
        flow = view.reading.flows.tasks.get(running)
        tasks[task] = LiveTask(
            running=running, fragment=fragment_id, position=position, slot=_places(fragment),
            state=state_of(view, running), error=report.error and view.in_words(report.error, dataflow_id),
            failed=running in failed_tasks(fragment, report), gave_up=report.gave_up,
            retry_at_ms=report.retry_at_ms, throttled_by=report.throttled_by, busy=_busy(report),
            rate_per_s=_rounded(flow.rate_per_s, 1) if flow else None, events=flow.events if flow else None,
            latency_p50_ms=_rounded(flow.latency_p50_ms, 0) if flow else None,
            latency_p99_ms=_rounded(flow.latency_p99_ms, 0) if flow else None, late=flow.late if flow else None,
            shared_with=view.users([running], besides=dataflow_id), on=_on(view, running, fragment_id))
    return tasks


def _busy(report: QueryReport) -> float | None:
    """The part of a query's time that its newest batch took; None with open batches, or before the first has ended."""
    if report.real_time or report.batch_ms is None or not report.trigger_ms:
        return None
    return round(min(1.0, report.batch_ms / max(report.batch_ms, report.trigger_ms)), 2)


def _on(view: View, task: str, fragment: str) -> str:
    """The alternate that is set of a dynamic task; empty of others."""
    running = view.estate.tasks[task]
    if not is_dynamic(running.type):
        return ""
    return on_in(running.type, running.config, view.estate.settings.get(fragment, USUAL).alternates.get(task))


def _streams(view: View, dataflow_id: str) -> dict[str, LiveStream]:
    running = view.estate.submitted[dataflow_id].running
    by_running = {task: name for name, task in running.items()}
    streams = {}
    for target, running_task in running.items():
        for parent in view.estate.tasks[running_task].parents:
            streams[f"{by_running[parent]}>{target}"] = live_stream(view, parent, running_task)
    return streams


def live_stream(view: View, parent: str, child: str) -> LiveStream:
    """A stream between two running tasks, as every page tells it."""
    _, position = view.estate.places[child]
    flow = view.reading.flows.streams.get((parent, child))
    return LiveStream(
        fused=position > 0,
        rate_per_s=_rounded(flow.rate_per_s, 1) if flow else None,
        channel_p50_ms=_rounded(flow.channel_p50_ms, 0) if flow else None,
        channel_p99_ms=_rounded(flow.channel_p99_ms, 0) if flow else None,
        wait_p50_ms=_rounded(flow.wait_p50_ms, 0) if flow else None,
        wait_p99_ms=_rounded(flow.wait_p99_ms, 0) if flow else None)


def _places(fragment: Fragment) -> str:
    """The slot that it runs on; of a divided one the first, and how many more."""
    more = len({bundle.slot for bundle in fragment.queries}) - 1
    return f"{fragment.slot} and {more} more" if more else fragment.slot


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits) if digits else round(value)
