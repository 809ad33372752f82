"""Detail pages of a query, stream, slot or node: its state, its neighbours, its history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from dashboard.catalog.permissions import dataflow_for
from dashboard.history import query_lines
from dashboard.operations.diagnosis.health import health, waits_because
from dashboard.operations.estate_store.readable import may_read_all
from dashboard.operations.live_reader import live_stream
from dashboard.operations.live_view.estate_view import View, view_for
from dashboard.operations.live_view.findings import Finding
from dashboard.operations.live_view.live_documents import LiveStream
from dashboard.operations.live_view.notable import Notable, notable_of
from dashboard.operations.live_view.query_names import name_of_query, names_along
from dashboard.operations.live_view.query_places import query_now
from dashboard.operations.live_view.state_holders import survival_now
from dashboard.operations.live_view.survival import copied, if_lost_in_words, survival_in_words
from dashboard.teams.permissions import Viewer
from scheduler.contracts.reports import NodeReport, QueryReport, SlotReport, checkpoint_age_ms, copy_age_ms
from scheduler.model.errors import NotFound
from scheduler.model.fragment import Fragment, RunningBundle, node_of

LOG_ENTRIES = 50


@dataclass(frozen=True, slots=True)
class NamedQuery:
    """A query by what people call it: its tasks, ``parse → average of traffic``, and the slot where it is."""

    id: str
    name: str
    slot: str


@dataclass(frozen=True, slots=True)
class QueryDetail:
    """A query. ``tasks``: running task and name of each working one; ``dataflows``: those of the viewer that work in
    it; ``before``: the queries whose place it took, the newest first; ``waits_because``: why it waits before it writes,
    in a sentence, empty if it does not; ``survives``: the losses that its state survives, None if no copies are asked
    for; ``copy_age_ms``: the age of the oldest copy that counts, None without copies.

    ``traceback`` may show values of events. It is empty for viewers without a team whose dataflow works in the query,
    and for those who may not read the output of one of its tasks.
    """

    id: str
    fragment: str
    slot: str
    node: str
    tasks: Sequence[tuple[str, str]]
    dataflows: Sequence[Mapping[str, str]]
    report: QueryReport
    error: str
    traceback: str
    traceback_withheld: bool
    log: Sequence[Notable]
    before: Sequence[str] = ()
    waits_because: str = ""
    survives: str | None = None
    copy_age_ms: int | None = None

    @property
    def name(self) -> str:
        """Its tasks by name."""
        return " → ".join(name for _, name in self.tasks)


@dataclass(frozen=True, slots=True)
class QueryCheckpoint:
    """A query of a dataflow, with its ``tasks`` there by name, and how its checkpoint stands: about how much state it
    has, how long its newest batch took to write offsets, commits and state, how long ago that was (both in ms), how
    often it was started anew, and how often it failed since it last worked; and what its state `survives`, in words,
    with how old the oldest of its copies is (ms). None where that is not known."""

    id: str
    tasks: str
    state_kb: int | None
    commit_ms: float | None
    age_ms: int | None
    restarts: int
    failures: int
    survives: str | None = None
    copy_age_ms: int | None = None


@dataclass(frozen=True, slots=True)
class StreamPlace:
    """A stream between two running tasks. ``flow`` has its rates and latencies, where they are measured.

    ``fused``: both tasks work in one query, and no channel carries it.
    """

    parent: str
    child: str
    parent_name: str
    child_name: str
    fused: bool
    writers: Sequence[NamedQuery]
    readers: Sequence[NamedQuery]
    flow: LiveStream
    dataflows: Sequence[Mapping[str, str]]
    is_private: bool


@dataclass(frozen=True, slots=True)
class SlotPlace:
    """A slot with the queries of the viewer on it (id, names of tasks, state), and what is wrong there."""

    name: str
    node: str
    report: SlotReport
    queries: Sequence[tuple[str, str, str]]
    others: int
    findings: Sequence[Finding]


@dataclass(frozen=True, slots=True)
class NodePlace:
    """A node with its slots (name, report), what is wrong there, and what becomes of its queries ``if_lost``, where
    there are to be copies of their state."""

    name: str
    report: NodeReport | None
    slots: Sequence[tuple[str, SlotReport]]
    findings: Sequence[Finding]
    if_lost: str = ""


def query_of(viewer: Viewer, query_id: str) -> QueryDetail:
    """A query by its id, or by the id of a predecessor; ``NotFound`` if the viewer may not know of it."""
    view = view_for(viewer)
    if (place := query_now(view, query_id)) is None:
        raise NotFound("There is no such query.", remedy="It may have ended: see the dataflow's page.")
    fragment, bundle = place
    before = query_lines.before([bundle.id])
    report, users = view.bundle_report(bundle), view.users(fragment.active_tasks)
    may_see = any(user["id"] in view.own_ids for user in users) and may_read_all(
        viewer, view.estate, fragment.active_tasks)
    return QueryDetail(
        bundle.id, fragment.id, bundle.slot, node_of(bundle.slot),
        list(zip(fragment.active_tasks, names_along(view, fragment), strict=True)), users, report,
        view.in_words(report.error or ""), view.in_words(report.traceback) if may_see else "",
        bool(report.traceback) and not may_see, notable_of(view, {bundle.id, *before}, count=LOG_ENTRIES), before,
        waits_because(view, fragment, report), survival_in_words(report, survival_now(view, [(fragment, bundle)])),
        _copy_age_ms(view, bundle, report))


def queries_of(viewer: Viewer, dataflow_id: UUID | str) -> list[QueryCheckpoint]:
    """The queries that a dataflow works in; ``NotFound`` where the viewer may not know of it."""
    record = dataflow_for(viewer, dataflow_id)
    view, key = view_for(viewer), str(record.pk)
    entry = view.estate.submitted.get(key)
    named = {running: name for name, running in entry.running.items()} if entry else {}
    return [
        _checkpoint_of(
            view, fragment, bundle, " → ".join(named[task] for task in fragment.active_tasks if task in named))
        for fragment in view.fragments() if not named.keys().isdisjoint(fragment.active_tasks)
        for bundle in fragment.queries]


def _checkpoint_of(view: View, fragment: Fragment, bundle: RunningBundle, tasks: str) -> QueryCheckpoint:
    report, node = view.bundle_report(bundle), view.node_report(node_of(bundle.slot))
    phases = report.phases_ms
    commit_ms = phases.get("logging", 0) + phases.get("committing", 0) if phases else None
    return QueryCheckpoint(
        bundle.id, tasks, report.state_kb, commit_ms,
        checkpoint_age_ms(report, at_ms=node.at_ms) if node is not None else None, report.restarts, report.failures,
        survival_in_words(report, survival_now(view, [(fragment, bundle)])),
        _copy_age_ms(view, bundle, report))


def _copy_age_ms(view: View, bundle: RunningBundle, report: QueryReport) -> int | None:
    node = view.node_report(node_of(bundle.slot))
    return None if node is None else copy_age_ms(report, at_ms=node.at_ms)


def queries_with(viewer: Viewer, task_id: str) -> list[NamedQuery]:
    """The queries in which a running task works that the viewer may know of."""
    view = view_for(viewer)
    return [query for fragment in view.fragments() if task_id in fragment.active_tasks
            for query in _named_queries(view, fragment)]


def stream_of(viewer: Viewer, parent: str, child: str) -> StreamPlace:
    """A stream by its two running tasks; ``NotFound`` where the viewer may not know of it."""
    view = view_for(viewer)
    task = view.estate.tasks.get(child)
    if task is None or parent not in task.parents or not {parent, child} <= view.tasks:
        raise NotFound("There is no such stream.", remedy="See the estate's graph for those that there are.")
    writes, reads = (view.estate.fragments[view.estate.places[task][0]] for task in (parent, child))
    flow = live_stream(view, parent, child)
    return StreamPlace(
        parent, child, view.name_of(parent), view.name_of(child), flow["fused"], _named_queries(view, writes),
        _named_queries(view, reads), flow, view.users([child]), bool(task.scope))


def _named_queries(view: View, fragment: Fragment) -> list[NamedQuery]:
    return [NamedQuery(bundle.id, name_of_query(view, fragment), bundle.slot) for bundle in fragment.queries]


def slot_of(viewer: Viewer, name: str) -> SlotPlace:
    """A slot by its name; ``NotFound`` where there is none."""
    view = view_for(viewer)
    if name not in {slot.name for slot in view.estate.slots}:
        raise NotFound("There is no such slot.", remedy="See the slots that there are.")
    queries = [
        (bundle.id, name_of_query(view, fragment), view.bundle_report(bundle).state)
        for fragment in view.fragments() for bundle in fragment.queries if bundle.slot == name]
    everything = sum(
        bundle.slot == name for fragment in view.estate.fragments.values() for bundle in fragment.queries)
    return SlotPlace(
        name, node_of(name), view.slot_report(name), queries, everything - len(queries),
        [finding for finding in health(view) if name in (finding.slot, finding.name)])


def node_place(viewer: Viewer, name: str) -> NodePlace:
    """A node by its name; ``NotFound`` where there is none."""
    view = view_for(viewer)
    slots = [slot.name for slot in view.estate.slots if slot.node == name]
    if not slots:
        raise NotFound("There is no such node.", remedy="See the nodes and slots that there are.")
    concerned = {name, *slots}
    reports = [report for slot in slots for report in view.slot_report(slot).fragments.values()]
    return NodePlace(
        name, view.node_report(name), [(slot, view.slot_report(slot)) for slot in slots],
        [finding for finding in health(view) if finding.name in concerned or finding.slot in concerned],
        if_lost_in_words(copied(reports), len(reports)))
