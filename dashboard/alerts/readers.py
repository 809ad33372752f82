"""Readings for each kind of rule: of a team's own dataflows as the team may know of them, or of the estate.

A reader gives a reading by element; None where nothing can be known now.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from django.conf import settings
from django.db.models import Q

from dashboard import jobs
from dashboard.approvals.emergency_stops import EmergencyStop
from dashboard.catalog.lifecycle import RUNNING
from dashboard.catalog.models import DataflowRecord
from dashboard.history.history_store import DatabaseHistory
from dashboard.operations.diagnosis.health import findings
from dashboard.operations.live_view.deployment_reader import deployment_of, thresholds
from dashboard.operations.live_view.estate_view import View, view_for
from dashboard.operations.live_view.findings import BAD, NOTE, Finding
from dashboard.operations.live_view.lacking_copies import COPIES
from dashboard.operations.live_view.telemetry import EVERYTHING
from dashboard.profiles.models import ProfileRecord
from dashboard.schedules.promises import in_force
from dashboard.schedules.selectors import outcome_of
from dashboard.teams.models import Role, Team
from dashboard.teams.permissions import Viewer
from scheduler.alerting import rule_kinds
from scheduler.alerting.alert_values import AlertReading, Element
from scheduler.alerting.silence import silence
from scheduler.deployment.online import decide, lacking_in_words
from scheduler.history.port import History
from scheduler.history.series import DATAFLOW, ESTATE, MINUTE, NODE, QUERY, SECOND, SLOT, STREAM, TASK, Series
from scheduler.reuse.activity import is_working

Readings = dict[Element, AlertReading]
RECENT_S = 30  # so many seconds of history say what a value is now
RESTARTS_WITHIN_S = LATE_WITHIN_S = 600
_NEEDED = ("query", "slot", "node", "sink", "source")
DAY_S = 24 * 3600


@dataclass
class EvaluationScope:
    """The scope of one round: a team's view, or the whole estate where there is no team; ``stops`` are of all teams."""

    team: Team | None
    now_s: int
    stops: Mapping[str, EmergencyStop] = field(default_factory=dict)
    history: History = field(default_factory=DatabaseHistory)

    @cached_property
    def viewer(self) -> Viewer:
        """The viewer who may know the contents of the readings."""
        return EVERYTHING if self.team is None else Viewer(user_id=-1, roles={self.team.pk: Role.VIEWER})

    @cached_property
    def view(self) -> View:
        """The observed view."""
        return view_for(self.viewer)

    @cached_property
    def findings(self) -> list[Finding]:
        """The findings, the worst first."""
        return findings(self.view)

    @cached_property
    def own_records(self) -> Mapping[str, DataflowRecord]:
        """The team's dataflows that run, by id."""
        return {key: record for key, record in self.view.records.items()
                if self.team is not None and record.team_id == self.team.pk and record.status == RUNNING}

    @cached_property
    def stopped(self) -> Mapping[str, EmergencyStop]:
        """The team's dataflows that rest by an emergency stop, by id."""
        return {key: stop for key, stop in self.stops.items() if self.team is not None and stop.team == self.team.pk}

    @cached_property
    def tasks(self) -> Mapping[str, str]:
        """The running tasks that work for them, each with one of the dataflows."""
        return {task: key for key in self.own_records for task in self.view.estate.submitted[key].running.values()
                if is_working(self.view.estate, task)}

    @property
    def is_heard(self) -> bool:
        """True if anything live is known."""
        return self.view.reading.available and not self.view.reading.broker_full

    @cached_property
    def latencies(self) -> Mapping[Series, str]:
        """The series of the dataflows' latencies, each with its dataflow."""
        return {Series(DATAFLOW, key, "latency_p99_ms"): key for key in self.own_records}

    @cached_property
    def streams(self) -> Mapping[Series, tuple[str, str]]:
        """The series of what waits in front of the tasks, each with the task that it comes from and the task."""
        return {
            Series(STREAM, f"{parent}>{task}", "backlog_blocks"): (parent, task)
            for task in self.tasks for parent in self.view.estate.tasks[task].parents}

    @cached_property
    def recent(self) -> Mapping[Series, float | None]:
        """The recent values of all of these."""
        return self.newest([*self.latencies, *self.streams])

    def newest(self, series: list[Series]) -> Mapping[Series, float | None]:
        """The recent value of each series: the median of its last seconds, None where nothing was measured."""
        points = self.history.read(series, SECOND, begin_s=self.now_s - RECENT_S, end_s=self.now_s + 1)
        lines = {line: values.values[~np.isnan(values.values)] for line, values in points.items()}
        return {line: float(np.median(lines[line])) if line in lines and len(lines[line]) else None for line in series}

    def of_dataflow(self, dataflow_id: str) -> str:
        """A dataflow's name."""
        return self.own_records[dataflow_id].name


def _latency(evidence: EvaluationScope) -> Readings | None:
    return {
        Element(DATAFLOW, key): AlertReading(
            value=(value := evidence.recent[line]), cause="latency", dataflow=key,
            text=f"Events of {evidence.of_dataflow(key)} reach its sinks late"
                 + (f": p99 is {value / 1000:.3g} s." if value is not None else "."),
            remedy="See on its page where they wait: a stream that is full, or a batch that takes long.")
        for line, key in evidence.latencies.items()}


def _latency_limit(evidence: EvaluationScope) -> Readings | None:
    if not evidence.is_heard:
        return None
    readings: Readings = {Element(DATAFLOW, key): AlertReading(value=0.0, cause="latency_limit", dataflow=key)
                          for key in evidence.own_records}
    for finding in evidence.findings:
        if finding.part == "limit" and finding.severity != NOTE and finding.name in evidence.own_records:
            readings[Element(DATAFLOW, finding.name)] = AlertReading(
                value=1.0, cause="latency_limit", dataflow=finding.name, text=finding.cause, remedy=finding.remedy)
    return readings


def _backlog(evidence: EvaluationScope) -> Readings | None:
    readings: Readings = {}
    for line, (parent, task) in evidence.streams.items():
        value = evidence.recent[line]
        if value is not None:  # a stream within a query has none
            readings[Element(STREAM, line.subject)] = AlertReading(
                value=value, cause="backlog", dataflow=evidence.tasks[task],
                text=f"{value:.0f} blocks wait between {evidence.view.name_of(parent)} and "
                     f"{evidence.view.name_of(task)}.",
                remedy="Give the reading task more threads by a schedule, or pause it.")
    return readings


def _silent_source(evidence: EvaluationScope) -> Readings | None:
    """The silence of each source beyond its longest one of the last day, in seconds."""
    if not evidence.is_heard:
        return None
    sources = {
        Series(TASK, task, "rate_per_s"): (task, dataflow) for task, dataflow in evidence.tasks.items()
        if not evidence.view.estate.tasks[task].parents}
    minute_s = evidence.now_s - evidence.now_s % MINUTE.step_s
    points = evidence.history.read(list(sources), MINUTE, begin_s=minute_s - DAY_S, end_s=minute_s)
    return {
        Element("source", task): AlertReading(
            value=silence(points[line].values, MINUTE.step_s) if line in points else None, cause=f"source:{task}",
            dataflow=dataflow,
            text=f"{evidence.view.name_of(task)} has made no events for longer than ever in the last day.",
            remedy="Check whether the system that it reads has fallen silent, or raise the rule's threshold.")
        for line, (task, dataflow) in sources.items()}


def _failing(evidence: EvaluationScope) -> Readings | None:
    """One reading a dataflow, of the worst that stands in its way: the same cause and text for all that it hinders."""
    if not evidence.is_heard:
        return None
    readings: Readings = {}
    for finding in evidence.findings:
        if finding.severity != BAD or finding.part not in _NEEDED:
            continue
        for user in finding.dataflows:
            if user["id"] in evidence.own_records:
                readings.setdefault(Element(DATAFLOW, user["id"]), AlertReading(
                    value=1.0, cause=f"{finding.part}:{finding.name}", dataflow=user["id"], name=user["name"],
                    text=finding.cause, remedy=finding.remedy))
    return readings


def _late_events(evidence: EvaluationScope) -> Readings | None:
    """The number of events that came too late for each task within ten minutes, by what the history has of those that
    had any."""
    if not evidence.is_heard:
        return None
    flows = evidence.view.reading.flows.tasks
    series = {Series(TASK, task, "late_per_s"): task for task in evidence.tasks if task in flows and flows[task].late}
    points = evidence.history.read(
        list(series), SECOND, begin_s=evidence.now_s - LATE_WITHIN_S, end_s=evidence.now_s + 1)
    late = {series[line]: float(np.nansum(values.values)) for line, values in points.items()}
    return {
        Element(TASK, task): AlertReading(
            value=late.get(task, 0.0), cause=f"task:{task}", dataflow=dataflow,
            text=f"{late.get(task, 0.0):.0f} events came too late for {evidence.view.name_of(task)} of "
                 f"{evidence.of_dataflow(dataflow)} within ten minutes.",
            remedy="Let it wait longer (lateness), or let it emit late events (`late: mark`) to see which ones lag.")
        for task, dataflow in evidence.tasks.items()}


def _restarting(evidence: EvaluationScope) -> Readings | None:
    """The recent number of failures of the queries of a team's dataflows, and of the drivers of the slots where they
    are ended."""
    queries: dict[str, str] = {}
    slots: dict[str, str] = {}
    for task, dataflow in evidence.tasks.items():
        fragment = evidence.view.estate.fragments[evidence.view.estate.places[task][0]]
        queries |= dict.fromkeys((fragment.id, *(bundle.id for bundle in fragment.queries)), dataflow)
        slots |= dict.fromkeys((bundle.slot for bundle in fragment.queries), dataflow)
    notes = evidence.history.annotations(
        begin_s=evidence.now_s - RESTARTS_WITHIN_S, end_s=evidence.now_s + 1,
        subjects=[*((QUERY, query) for query in queries), *((SLOT, slot) for slot in slots)])
    ended = [note for note in notes if note.what in ("fragment_failed", "slot_died")]
    restarts = Counter((note.kind, note.subject) for note in ended)
    causes = {(note.kind, note.subject): note.text for note in ended}
    return {
        Element(kind, subject): AlertReading(
            value=float(restarts[kind, subject]), cause=f"{kind}:{subject}", dataflow=dataflow,
            text=(f"A query of {evidence.of_dataflow(dataflow)} failed" if kind == QUERY else
                  f"The driver of {subject}, where {evidence.of_dataflow(dataflow)} runs, ended")
                 + f" {restarts[kind, subject]} times within ten minutes."
                 + (f" {evidence.view.in_words(reason, dataflow)}" if (reason := causes.get((kind, subject))) else ""),
            remedy="Mend the cause; its page has the traceback." if kind == QUERY else
                   "Its log has the reason. Where memory is short, give slots more, or fewer queries.")
        for kind, users in ((QUERY, queries), (SLOT, slots)) for subject, dataflow in users.items()}


def _drift(evidence: EvaluationScope) -> Readings | None:
    users: dict[str, str] = {}
    for task, dataflow in evidence.tasks.items():
        users.setdefault(evidence.view.estate.tasks[task].type, dataflow)
    profiles = ProfileRecord.objects.filter(
        Q(team=None) | Q(team=evidence.team), active=True, static=False, task_type__in=list(users))
    return {
        Element("profile", str(profile.pk)): AlertReading(
            value=_farthest(profile.drifts), cause=f"profile:{profile.task_type}", dataflow=users[profile.task_type],
            text=f"Tasks of type {profile.task_type} deviate by {_farthest(profile.drifts):.0f}% from their profile.",
            remedy="Measure the task type again; schedules are planned with the profile.")
        for profile in profiles}


def _farthest(drifts: list[Mapping[str, float]]) -> float:
    """The largest deviation of running tasks from a profile, in percent."""
    return max((
        100 * abs(drift["observed"] - drift["expected"]) / abs(drift["expected"])
        for drift in drifts if drift["expected"]), default=0.0)


def _broken_promise(evidence: EvaluationScope) -> Readings | None:
    readings: Readings = {}
    for key in in_force(list(evidence.own_records)):
        outcome = outcome_of(evidence.viewer, key)
        if not outcome.judged or outcome.of_before:
            readings[Element(DATAFLOW, key)] = AlertReading(value=None, cause="promise", dataflow=key)
            continue
        missed = ", ".join(dict.fromkeys(
            f"{miss.what} of {miss.where}" if miss.where else str(miss.what) for miss in outcome.missed))
        readings[Element(DATAFLOW, key)] = AlertReading(
            value=1.0 if missed else 0.0, cause="promise", dataflow=key,
            text=f"The schedule of {evidence.of_dataflow(key)} misses its promise: {missed or 'nothing'}.",
            remedy="The page of its schedule compares planned and measured figures.")
    return readings


def _disk(evidence: EvaluationScope) -> Readings | None:
    if not evidence.is_heard:
        return None
    free: dict[str, float | None] = dict.fromkeys(slot.node for slot in evidence.view.estate.slots)
    free |= {name: report.disk_free_mb for name, report in evidence.view.reading.reports.items()}
    free.pop(settings.LOCAL_NODE, None)  # its folder is the site's
    free["site"] = float(shutil.disk_usage(settings.DATA_DIR).free >> 20)
    return {
        Element(NODE, name): AlertReading(
            value=free_mb, cause=f"disk:{name}",
            text=f"The disk of {name} has {free_mb or 0:,.0f} MB left.",
            remedy="Make room on the file system of the data folder, or remove outputs that nobody needs.")
        for name, free_mb in free.items()}


def _unreachable(evidence: EvaluationScope) -> Readings | None:
    """Readings of nodes that are out of reach, with one cause for the node and its slots. Where they cannot be heard,
    nothing is known of them."""
    unheard: Readings = {} if evidence.is_heard else {
        Element(part, name): AlertReading(value=None, cause=f"unreachable:{slot.node}")
        for slot in evidence.view.estate.slots for part, name in (("node", slot.node), ("slot", slot.name))}
    return unheard | {
        Element(finding.part, finding.name): AlertReading(
            value=1.0, cause=f"unreachable:{finding.name.partition('/')[0]}", text=finding.cause,
            remedy=finding.remedy)
        for finding in evidence.findings
        if finding.severity == BAD and finding.part in ("node", "slot", "broker")}


def _emergency_stop(evidence: EvaluationScope) -> Readings | None:
    running: Readings = {Element(DATAFLOW, key): AlertReading(value=0.0, cause="emergency_stop", dataflow=key)
                         for key in evidence.own_records}
    return running | {
        Element(DATAFLOW, key): AlertReading(
            value=1.0, cause="emergency_stop", dataflow=key,
            text=f"{stop.by} paused {stop.name} at once: {stop.reason}",
            remedy="Its outputs stand still. Mend the cause, then propose on its page to resume it.")
        for key, stop in evidence.stopped.items()}


def _too_few_slots(evidence: EvaluationScope) -> Readings | None:
    """The CPU that lacks by online task deployment, from the recent load of queries. Where no slot is on offer nothing
    is known: that their nodes are away is a finding of its own."""
    if not evidence.is_heard:
        return None
    queries = {
        Series(QUERY, bundle.id, "cpu"): bundle.id for fragment in evidence.view.estate.fragments.values()
        for bundle in fragment.queries}
    cores = {queries[line]: value for line, value in evidence.newest(list(queries)).items() if value is not None}
    try:
        deployment = deployment_of(evidence.view, cores)
    except jobs.BrokerAway:
        return None
    if not deployment.targets:
        return None
    limits = thresholds()
    deployed = decide(deployment.moving_only(()), limits)
    lacking = lacking_in_words(
        deployed.lacking, limits, slot_price=settings.CORE_HOUR_PRICE, currency=settings.CURRENCY)
    return {Element(ESTATE, "slots"): AlertReading(
        value=1.0 if deployed.case == "lacking" else 0.0, cause="too_few_slots",
        text=f"{deployed.why} {lacking}".rstrip(),
        remedy="Start an agent with more slots or on another machine, or pause or remove dataflows that nobody needs.")}


def _too_few_copies(evidence: EvaluationScope) -> Readings | None:
    """The nodes whose queries have fewer copies than asked for: one cause for all nodes."""
    if not evidence.is_heard:
        return None
    readings: Readings = {
        Element(NODE, name): AlertReading(
            value=None if evidence.view.node_report(name) is None else 0.0, cause=f"copies:{name}")
        for name in {slot.node for slot in evidence.view.estate.slots}}
    return readings | {
        Element(NODE, finding.name): AlertReading(
            value=1.0, cause=f"copies:{finding.name}", text=finding.cause, remedy=finding.remedy)
        for finding in evidence.findings if finding.part == COPIES}


READERS: Mapping[str, Callable[[EvaluationScope], Readings | None]] = {
    rule_kinds.LATENCY.name: _latency, rule_kinds.LATENCY_LIMIT.name: _latency_limit, rule_kinds.BACKLOG.name: _backlog,
    rule_kinds.SILENT_SOURCE.name: _silent_source,
    rule_kinds.FAILING.name: _failing, rule_kinds.RESTARTING.name: _restarting, rule_kinds.DRIFT.name: _drift,
    rule_kinds.BROKEN_PROMISE.name: _broken_promise, rule_kinds.DISK.name: _disk,
    rule_kinds.UNREACHABLE.name: _unreachable,
    rule_kinds.TOO_FEW_SLOTS.name: _too_few_slots, rule_kinds.EMERGENCY_STOP.name: _emergency_stop,
    rule_kinds.LATE_EVENTS.name: _late_events, rule_kinds.TOO_FEW_COPIES.name: _too_few_copies,
}
