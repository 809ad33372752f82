"""The estate as one viewer may know it, with observations, and the figures and states that follow from these.

Private dataflows of other teams are left out of every list and every number.
"""

from __future__ import annotations

import re
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, TypeVar

from dashboard import jobs
from dashboard.catalog.kept_records import records_of
from dashboard.catalog.lifecycle import PAUSED
from dashboard.catalog.models import DataflowRecord
from dashboard.catalog.permissions import may_know_of
from dashboard.core.one_reading import read_once
from dashboard.operations.estate_store.estate_loader import current_estate
from dashboard.operations.estate_store.readable import is_told_to_all
from dashboard.operations.live_view.document_fields import DataflowUser
from dashboard.operations.live_view.estate_places import EstatePlaces, places_in
from dashboard.operations.live_view.live_documents import Totals
from dashboard.operations.live_view.query_names import QUERY_ID, with_query_names
from dashboard.operations.live_view.query_states import NODE_SILENT_MS, RECOVERING, SILENT, WORST_FIRST, query_state
from dashboard.teams.permissions import Viewer
from scheduler.contracts.reports import STARTING, NodeReport, QueryReport, SlotReport
from scheduler.model.estate import Estate
from scheduler.model.fragment import Fragment, RunningBundle, node_of

T = TypeVar("T")
SHARED_S = 0.25
WITHHELD = "It fails. Only the team whose credential it reads with sees why: that may quote events."
_TAKES_NOTHING = frozenset({"stopped", "waiting", "left"})  # states in which a bundle has no query
_WORST_FIRST = (*WORST_FIRST, PAUSED)
_RANKS = {state: rank for rank, state in enumerate(_WORST_FIRST)}
_RUNNING_TASK = re.compile(r"\b[0-9a-f]{32}\b")
NAMED_BY_ID = re.compile(f"{_RUNNING_TASK.pattern}|{QUERY_ID.pattern}")


class SharedFigures:
    """Figures that are worked out once for all who share them: nothing in it may depend on who looks. Safe among
    threads."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # builders begin at the same moment: else each would do the work
        self.reports_of_fragments: dict[str, QueryReport] = {}
        self.reports_of_bundles: dict[RunningBundle, QueryReport] = {}
        self._results: dict[object, Any] = {}

    def once(self, key: object, work: Callable[[], T]) -> T:
        """The result of the work; it is done for the first who asks for it."""
        with self._lock:
            if key not in self._results:
                self._results[key] = work()
            return self._results[key]


@dataclass(frozen=True, eq=False)
class View:
    """The estate as far as one viewer may know of it, with observations; each view is of one moment."""

    estate: Estate
    observed: Callable[[], jobs.LiveReading]  # reads the broker: who only wants to know what there is does not wait
    records: Mapping[str, DataflowRecord]  # submitted dataflows that are in the estate, by id
    tasks: frozenset[str]  # running tasks that serve one of them
    own_ids: frozenset[str] = frozenset()  # those of the viewer's own teams, by id
    # Of all views of one look, and of those with the same dataflows. A copy has its own: it may be of something else.
    worked: SharedFigures = field(default_factory=SharedFigures, init=False, repr=False)
    known_figures: SharedFigures = field(default_factory=SharedFigures, init=False, repr=False)

    @cached_property
    def reading(self) -> jobs.LiveReading:
        """The live observations, read when somebody first asks for them."""
        return self.observed()

    @property
    def slots_of(self) -> Counter[str]:
        """The number of slots of each node."""
        return self._places.slots_of

    def reader_of_part(self, part: str) -> str:
        """The query that reads the parts of streams that are named after a bundle: that, or one that goes on."""
        return self._places.query_of_part.get(part, part)

    @cached_property
    def _places(self) -> EstatePlaces:
        return places_in(self.estate)

    @cached_property
    def _fragments(self) -> list[Fragment]:
        return [fragment for fragment in self._places.fragments if not self.tasks.isdisjoint(fragment.active_tasks)]

    def fragments(self) -> list[Fragment]:
        """The fragments of which the viewer may see at least one working task, by id."""
        return list(self._fragments)

    def users(self, running_tasks: Iterable[str], *, besides: str = "") -> list[DataflowUser]:
        """The dataflows that use any of these running tasks: id, name, team; by name."""
        ids = {user for task in running_tasks for user in self.estate.users.get(task, ())} & set(self.records)
        records = sorted((self.records[i] for i in ids if i != besides), key=lambda record: (record.name, record.pk))
        return [{"id": str(record.pk), "name": record.name, "team": record.team.name} for record in records]

    def fragment_report(self, fragment: Fragment) -> QueryReport:
        """The report of a fragment's node on it; of a divided one, of the bundle that is worst off.

        Bundles that are leaving do not count.
        """
        reports_by_id = self.worked.reports_of_fragments
        if fragment.id not in reports_by_id:
            reports = [self._report(bundle) for bundle in fragment.queries if not bundle.leaving]
            reports_by_id[fragment.id] = min(reports, key=lambda report: _rank(report.state))
        return self._as_told(reports_by_id[fragment.id], fragment)

    def bundle_report(self, bundle: RunningBundle) -> QueryReport:
        """The report of its node on one query; ``silent`` or ``unknown`` where no report of the node is there. Why it
        fails is left out where the viewer may not be told (`may_quote`)."""
        return self._as_told(self._report(bundle), self.fragment_of.get(bundle.id))

    def may_quote(self, fragment: Fragment) -> bool:
        """True if the viewer may read what a fragment's queries say, which may show values of events: of each task that
        works there, where a credential is used for it, a dataflow of the viewer's own has it, too."""
        return all(
            is_told_to_all(self.estate, task) or not self.own_ids.isdisjoint(self.estate.users.get(task, ()))
            for task in fragment.active_tasks)

    def team_of_errors(self, query_id: str) -> str:
        """The short name of the team that alone reads why a query fails; empty where all do who know of it."""
        fragment = self.fragment_of.get(query_id)
        tasks = fragment.active_tasks if fragment else ()
        guarded = (task for task in tasks if not is_told_to_all(self.estate, task))
        users = (user for task in guarded for user in self.estate.users.get(task, ()) if user in self.records)
        return next((self.records[user].team.slug for user in users), "")

    def _as_told(self, report: QueryReport, fragment: Fragment | None) -> QueryReport:
        if not report.error or fragment is None or self.may_quote(fragment):
            return report
        return replace(report, error=WITHHELD, traceback="")

    def _report(self, bundle: RunningBundle) -> QueryReport:
        reports = self.worked.reports_of_bundles
        if bundle not in reports:
            reports[bundle] = self._report_of(bundle)
        return reports[bundle]

    def _report_of(self, bundle: RunningBundle) -> QueryReport:
        node = self.node_report(node_of(bundle.slot))
        if node is None:
            return QueryReport(state=SILENT if self.reading.available else "unknown")
        slot = self.reading.reports.slot(bundle.slot) or SlotReport()
        query = slot.fragments.get(bundle.id) or QueryReport()
        parents = self.parents_of.get(bundle.id, ())
        flows = self.reading.flows.tasks
        state = query_state(
            query, slot, is_source=not parents, at_ms=node.at_ms,
            gets_events=any(flows[parent].rate_per_s > 0 for parent in parents if parent in flows))
        return query if query.state == state else replace(query, state=state)

    def node_report(self, name: str) -> NodeReport | None:
        """The report of a node; None if the last one is too old."""
        reports = self.reading.reports
        return None if reports.age_ms(name) >= NODE_SILENT_MS else reports.node(name)

    def slot_report(self, name: str) -> SlotReport:
        """The report of its node on a slot, state and figures as every page shows them; ``silent`` or ``unknown``
        without, ``recovering`` where its driver is starting again."""
        report = self.reading.reports.slot(name) if self.node_report(node_of(name)) is not None else None
        report = report or SlotReport(state=SILENT if self.reading.available else "unknown")
        return replace(
            report, state=RECOVERING if report.state == STARTING and report.restarts else report.state,
            cpu=None if report.cpu is None else round(report.cpu, 3),
            memory_mb=None if report.memory_mb is None else round(report.memory_mb))

    @property
    def fragment_of(self) -> Mapping[str, Fragment]:
        """The fragment of each query, by fragment and bundle id."""
        return self._places.fragment_of

    @property
    def parents_of(self) -> Mapping[str, tuple[str, ...]]:
        """The running tasks that each query reads, by its id; none where it begins with a source."""
        return self._places.parents_of

    def name_of(self, running_task: str) -> str:
        """A running task by the name that a dataflow of the viewer gives it, or by its type where none does."""
        for user in sorted(set(self.estate.users.get(running_task, ())) & set(self.records)):
            for name, running in self.estate.submitted[user].running.items():
                if running == running_task:
                    return f"{name} of {self.records[user].name}"
        return f"a task of type {self.estate.tasks[running_task].type}"

    def in_words(self, text: str, dataflow_id: str = "") -> str:
        """A text in which ids of running tasks and queries are replaced by names, those of the dataflow first."""
        submitted = self.estate.submitted.get(dataflow_id)
        named = {running: name for name, running in submitted.running.items()} if submitted else {}

        def name(task_id: re.Match[str]) -> str:
            task = task_id[0]
            return named.get(task) or (self.name_of(task) if task in self.estate.tasks else task)

        return with_query_names(self, _RUNNING_TASK.sub(name, text))


Look = Callable[[Viewer], View]


class OneLook:
    """The estate and what is observed of it at one moment, as each of several viewers may know of it.

    Estate and reading are one for all of them; so are the rows of dataflows, of which each view holds those that its
    viewer may know of.
    """

    def __init__(self) -> None:
        self._views: dict[str, View] = {}  # by scope
        self._alike: dict[tuple[frozenset[str], frozenset[str]], View] = {}  # by dataflows, and those of own teams
        self._worked, self._figures = SharedFigures(), defaultdict[frozenset[str], SharedFigures](SharedFigures)

    def view_for(self, viewer: Viewer) -> View:
        """The view of this viewer."""
        if viewer.scope not in self._views:
            self._views[viewer.scope] = self.view_of(viewer)
        return self._views[viewer.scope]

    def view_of(self, viewer: Viewer) -> View:
        """The same; of another scope that may know the same it is one view."""
        estate = self._estate
        records = {key: record for key, record in self._records.items() if may_know_of(viewer, record)}
        readable = frozenset(key for key, record in records.items() if viewer.sees_private_of(record.team_id))
        alike = frozenset(records), readable
        if alike not in self._alike:
            tasks = frozenset(
                task for dataflow_id in records for task in estate.submitted[dataflow_id].running.values())
            self._alike[alike] = view = View(
                estate=estate, observed=lambda: self._reading, records=records, tasks=tasks, own_ids=readable)
            object.__setattr__(view, "worked", self._worked)
            object.__setattr__(view, "known_figures", self._figures[alike[0]])
        return self._alike[alike]

    @cached_property
    def _estate(self) -> Estate:
        return current_estate()

    @cached_property
    def _reading(self) -> jobs.LiveReading:
        return jobs.read_live(
            self._estate.fragments.values(), {task.id: task.parents for task in self._estate.tasks.values()})

    @cached_property
    def _records(self) -> Mapping[str, DataflowRecord]:
        return {str(record.pk): record for record in records_of(self._estate.submitted)}


_of_one_look: ContextVar[OneLook | None] = ContextVar("of_one_look", default=None)


@contextmanager
def one_look() -> Iterator[None]:
    """A context in which questions are answered by one look; around what writes nothing."""
    token = _of_one_look.set(OneLook())
    try:
        with read_once():
            yield
    finally:
        _of_one_look.reset(token)


def view_for(viewer: Viewer) -> View:
    """Read the estate, its dataflows and the observations for one viewer."""
    return (_of_one_look.get() or OneLook()).view_for(viewer)


class SharedViews:
    """Views that all who look at about the same moment share, if they may know the same; what they do not depend on who
    looks is read and worked out once for all of them. Safe among threads.

    Parameters
    ----------
    for_s : float
        For how long what was read does, in seconds.
    """

    def __init__(self, monotonic_s: Callable[[], float] = time.monotonic, *, for_s: float = SHARED_S) -> None:
        self._monotonic_s, self._for_s = monotonic_s, for_s
        self._lock = threading.Lock()
        self._looked_at_s = float("-inf")
        self._look = OneLook()

    def view_for(self, viewer: Viewer) -> View:
        """The view by the function of that name; what was read a moment ago does."""
        with self._lock:
            now_s = self._monotonic_s()
            if now_s - self._looked_at_s >= self._for_s:
                self._looked_at_s, self._look = now_s, OneLook()
            return self._look.view_for(viewer)


def totals_of(view: View, dataflow_id: str) -> Totals:
    """Rates, latency and state of one dataflow of the view as a whole."""
    return Totals(**view.worked.once(("totals", dataflow_id), lambda: _totals_of(view, dataflow_id)))


def _totals_of(view: View, dataflow_id: str) -> Totals:
    submitted = view.estate.submitted[dataflow_id]
    running = set(submitted.running.values())
    sinks = {submitted.running[task] for task in submitted.sinks}
    sources = {task for task in running if not view.estate.tasks[task].parents}
    flows = [view.reading.flows.tasks[task] for task in sorted(sinks) if task in view.reading.flows.tasks]
    return Totals(
        state=_worst(state_of(view, task) for task in running),
        events_in_per_s=sum_rate(view, sources), events_out_per_s=sum_rate(view, sinks),
        latency_p50_ms=_highest(flow.latency_p50_ms for flow in flows),
        latency_p99_ms=_highest(flow.latency_p99_ms for flow in flows))


def sum_rate(view: View, tasks: Iterable[str]) -> float | None:
    """Events per second of these running tasks together, as it is shown; None until rates are measured."""
    rate_per_s = exact_rate(view, tasks)
    return None if rate_per_s is None else round(rate_per_s, 1)


def exact_rate(view: View, tasks: Iterable[str]) -> float | None:
    """The same as it was measured: of one event in some seconds nothing would be left."""
    if not view.reading.measured:
        return None
    flows = view.reading.flows.tasks
    return sum(flows[task].rate_per_s for task in tasks if task in flows)


def sources_and_sinks(view: View, tasks: Iterable[str]) -> tuple[set[str], set[str]]:
    """The running tasks without a parent, and those that stand for a sink."""
    tasks = set(tasks)
    sinks = {
        view.estate.submitted[key].running[task] for key in view.records for task in view.estate.submitted[key].sinks}
    return {task for task in tasks if not view.estate.tasks[task].parents}, sinks & tasks


def taken_by(view: View, bundles: Iterable[RunningBundle], resource: Literal["cpu", "memory"]) -> float | None:
    """The part of a slot that these bundles take together, as a profile has it and as every page shows it; None where
    none of them tells."""
    shares = [getattr(view.bundle_report(bundle), resource) for bundle in bundles]
    shares_measured = [share for share in shares if share is not None]
    return round(sum(shares_measured), 4) if shares_measured else None


def at_work(view: View, slot: str) -> frozenset[str]:
    """The bundles that take of a slot, as its node reports; also those that the viewer may not know of."""
    report = view.reading.reports.slot(slot) or SlotReport()
    return frozenset(bundle for bundle, query in report.fragments.items() if query.state not in _TAKES_NOTHING)


def share_of_memory(view: View, node: str, memory_mb: float | None) -> float | None:
    """A part of a slot's memory, which is its even share of its node's; None where the node does not tell."""
    report = view.reading.reports.node(node)
    total, slots = report.memory_mb if report else None, view.slots_of[node]
    return memory_mb * slots / total if total and slots and memory_mb is not None else None


def state_of(view: View, running_task: str) -> str:
    """The state of the query that a task works in; a task that rests is paused, whatever works beside it."""
    fragment_id, position = view.estate.places[running_task]
    fragment = view.estate.fragments[fragment_id]
    return PAUSED if position >= fragment.active else view.fragment_report(fragment).state


def _worst(states: Iterable[str]) -> str:
    worst = min(states, key=_rank, default="running")
    return worst if worst in _WORST_FIRST else "running"


def _rank(state: str) -> int:
    """The rank of a state, the worst first; what is not named runs."""
    return _RANKS.get(state, len(_WORST_FIRST))


def _highest(values: Iterable[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return round(max(numbers)) if numbers else None
