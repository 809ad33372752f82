"""Problems: the findings of the one health model, worst first, each with its course, its cause and where that is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from django.utils import timezone

from dashboard.history import query_lines
from dashboard.history.history_store import DatabaseHistory
from dashboard.operations.diagnosis.health import health
from dashboard.operations.estate_store.readable import may_read_all
from dashboard.operations.live_view.estate_view import View, view_for
from dashboard.operations.live_view.findings import BAD, NOTE, WARN, Finding
from dashboard.operations.live_view.notable import FAILED, Notable, notable_of
from dashboard.operations.live_view.recording import subject_of
from dashboard.teams.permissions import Viewer
from dashboard.teams.selectors import slugs_known_to
from scheduler.history.courses import FindingCourse, Trend, course, trend, trend_of_events
from scheduler.history.series import (
    ALARM,
    DATAFLOW,
    NODE,
    OVER,
    QUERY,
    SLOT,
    TASK,
    TEN_SECONDS,
    Annotation,
    Series,
)

LOOKED_BACK_S = 24 * 3600
TREND_OVER_S = 15 * 60
EVENTS_OVER_S = 30 * 60
OVER_LATELY_S = 6 * 3600
MOST_ERRORS, MOST_OVER = 20, 20
WORSE, BETTER, SAME = "worse", "better", "same"
_RANKS = {BAD: 0, WARN: 1, NOTE: 2}
_DIRECTIONS: Mapping[Trend, str] = {"rising": WORSE, "falling": BETTER, "level": SAME, "unknown": ""}
_SLOW = frozenset({"channel", "spill", "source"})  # what is wrong there shows in how late events are


@dataclass(frozen=True, slots=True)
class EstateProblem:
    """A finding with its ``course``, and its ``direction``: ``worse``, ``better``, ``same``, or empty if unknown.

    ``name`` is what people call its part; ``kind`` and ``subject`` are what history knows it by (empty: nothing);
    ``causes`` the queries in which the cause is to be looked for; ``traceback`` is empty for whoever may not see it.
    """

    finding: Finding
    name: str
    course: FindingCourse
    direction: str
    kind: str
    subject: str
    causes: Sequence[str]
    traceback: str


@dataclass(frozen=True, slots=True)
class Past:
    """A finding that is over: of what, how it was told, from when until when (seconds), how often."""

    kind: str
    subject: str
    cause: str
    begun_s: int | None
    over_s: int
    times: int


@dataclass(frozen=True, slots=True)
class EstateProblems:
    """The present and recent findings and the newest errors of queries, as far as one viewer may know."""

    now: Sequence[EstateProblem]
    past: Sequence[Past]
    errors: Sequence[Notable]
    view: View


def problems(viewer: Viewer) -> EstateProblems:
    """The findings, the worst first: what stands still before what goes on, and what gets worse before the rest."""
    view, now_s = view_for(viewer), int(timezone.now().timestamp())
    wrong = health(view)
    history = DatabaseHistory()
    queries = {bundle.id for fragment in view.fragments() for bundle in fragment.queries}
    queries |= {*query_lines.before(queries, since_s=now_s - LOOKED_BACK_S)}
    notes = _by_subject(history.annotations(
        begin_s=now_s - LOOKED_BACK_S, end_s=now_s + 1, subjects=_subjects(view, queries),
        teams=slugs_known_to(viewer)))
    trends = _trends(history, wrong, now_s)
    return EstateProblems(
        sorted((_problem(viewer, view, finding, notes, trends, now_s) for finding in wrong), key=_worst_first),
        _past(view, wrong, notes, now_s), notable_of(view, queries, count=MOST_ERRORS, kind=FAILED), view)


def _worst_first(problem: EstateProblem) -> tuple[object, ...]:
    finding = problem.finding
    return (_RANKS[finding.severity], problem.direction != WORSE, -len(finding.dataflows), finding.key)


def _subjects(view: View, queries: Iterable[str]) -> set[tuple[str, str]]:
    """All that the viewer may know of and that history tells something of."""
    return {
        *((DATAFLOW, dataflow) for dataflow in view.records), *((QUERY, query) for query in queries),
        *((SLOT, slot.name) for slot in view.estate.slots), *((NODE, slot.node) for slot in view.estate.slots)}


def _by_subject(notes: Iterable[Annotation]) -> dict[tuple[str, str], list[Annotation]]:
    by_subject: dict[tuple[str, str], list[Annotation]] = {}
    for note in notes:
        by_subject.setdefault((note.kind, note.subject), []).append(note)
    return by_subject


def _problem(
    viewer: Viewer, view: View, finding: Finding, notes: Mapping[tuple[str, str], Sequence[Annotation]],
    trends: Mapping[str, str], now_s: int,
) -> EstateProblem:
    kind, subject = subject_of(finding)
    noted = notes.get((kind, subject), ())
    if not noted and finding.dataflows:  # nobody else has it
        noted = [note for note in notes.get((DATAFLOW, finding.dataflows[0]["id"]), ()) if note.text == finding.cause]
    of_finding = [note for note in noted if note.what not in (ALARM, OVER) or note.text == finding.cause]
    # Alerts name the same subjects in words of their own, and would count twice.
    counted = of_finding if any(note.what == ALARM for note in of_finding) else noted
    direction = trends.get(finding.key, "")
    if not direction:
        moments_s = [note.at_s for note in noted if note.what not in (ALARM, OVER)]
        direction = _DIRECTIONS[trend_of_events(moments_s, now_s=now_s, over_s=EVENTS_OVER_S)]
    since_s = None if finding.since_ms is None else finding.since_ms // 1000
    name = view.name_of(subject) if kind == TASK and subject in view.estate.tasks else finding.name
    return EstateProblem(
        finding, name, course(counted, now_s=now_s, since_s=since_s), direction, kind, subject, _causes(view, finding),
        _traceback(viewer, view, finding))


def _causes(view: View, finding: Finding) -> list[str]:
    """The queries that read a full channel too slowly."""
    fragment = view.fragment_of.get(finding.name)
    if finding.part != "channel" or fragment is None:
        return []
    for bundle in fragment.queries:
        channel = view.bundle_report(bundle).throttled_by if bundle.id == finding.name else None
        if channel:
            whole, _, part = channel.partition("@")
            position = whole.rpartition(".")[2]
            if part:
                return [view.reader_of_part(part)]
            if position.isdecimal() and int(position) < len(fragment.tasks):
                readers = fragment.outlets.get(fragment.tasks[int(position)], ())
                return [bundle.id for reader in readers if reader in view.estate.fragments
                        for bundle in view.estate.fragments[reader].queries]
    return []


def _traceback(viewer: Viewer, view: View, finding: Finding) -> str:
    """The traceback of a failing query, which may show values of events: for whoever is of a team whose dataflow works
    in it, and may read what leaves its tasks."""
    fragment = view.fragment_of.get(finding.name)
    if finding.part != "query" or fragment is None or not any(user["id"] in view.own_ids for user in finding.dataflows):
        return ""
    if not may_read_all(viewer, view.estate, fragment.active_tasks):
        return ""
    reports = [view.bundle_report(bundle) for bundle in fragment.queries if bundle.id == finding.name]
    return view.in_words(reports[0].traceback) if reports else ""


# Worse or better ------------------------------------------------------------------------------------------------------


def _trends(history: DatabaseHistory, wrong: Sequence[Finding], now_s: int) -> dict[str, str]:
    """Directions by key of finding, of those whose badness is measured: free space, and how late events are."""
    lines = {finding.key: series for finding in wrong if (series := _measure_of(finding))}
    points = history.read(
        set(lines.values()), TEN_SECONDS, begin_s=now_s - TREND_OVER_S, end_s=now_s) if lines else {}
    directions = {}
    for key, series in lines.items():
        if series in points:
            way = trend(points[series].values)
            if series.metric == "disk_free_mb":
                way = {"rising": "falling", "falling": "rising"}.get(way, way)
            directions[key] = _DIRECTIONS[way]
    return directions


def _measure_of(finding: Finding) -> Series | None:
    if finding.part == "disk" and finding.name != "site":
        return Series(NODE, finding.name, "disk_free_mb")
    if finding.part in _SLOW and finding.dataflows:
        return Series(DATAFLOW, finding.dataflows[0]["id"], "latency_p99_ms")
    return None


# What is over ---------------------------------------------------------------------------------------------------------


def _past(
    view: View, wrong: Sequence[Finding], notes: Mapping[tuple[str, str], Sequence[Annotation]], now_s: int
) -> list[Past]:
    """The recent findings that are over, the newest first; one row for what came and went several times."""
    present = {finding.cause for finding in wrong}
    rows: dict[str, Past] = {}
    for (kind, subject), some in notes.items():
        begun: dict[str, int] = {}
        for note in some:
            if note.what == ALARM:
                begun[note.text] = note.at_s
            elif note.what == OVER and note.at_s > now_s - OVER_LATELY_S and note.text not in present:
                times = sum(other_note.what == OVER and other_note.text == note.text for other_note in some)
                past = rows.get(note.text)
                if past is None or past.kind == DATAFLOW or note.at_s > past.over_s:
                    rows[note.text] = Past(
                        kind, subject, view.in_words(note.text), begun.get(note.text), note.at_s, times)
    return sorted(rows.values(), key=lambda row: -row.over_s)[:MOST_OVER]
