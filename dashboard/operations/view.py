"""What one viewer may know of the estate, with what is observed of it; figures and states that are made from that.

Whatever belongs to a private dataflow of a team that the viewer is not in is left out of every list and of every
number.
"""

from __future__ import annotations

import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

from dashboard import jobs
from dashboard.catalog.lifecycle import PAUSED
from dashboard.catalog.models import DataflowRecord
from dashboard.catalog.permissions import visible_to
from dashboard.operations.estate import current_estate
from dashboard.operations.states import NODE_SILENT_MS, SILENT, WORST_FIRST, query_state
from dashboard.teams.permissions import Viewer
from scheduler.contracts.reports import NodeReport, QueryReport, SlotReport
from scheduler.model.estate import Estate
from scheduler.model.fragment import Fragment, RunningBundle, node_of

SHARED_S = 0.25
_TAKES_NOTHING = frozenset({"stopped", "waiting", "left"})  # states in which a bundle has no query
_WORST_FIRST = (*WORST_FIRST, PAUSED)
_RUNNING_TASK = re.compile(r"\b[0-9a-f]{32}\b")


@dataclass(frozen=True, eq=False)
class View:
    """The estate as far as one viewer may know of it, with what is observed of it: each is a look of its own."""

    estate: Estate
    reading: jobs.LiveReading
    records: Mapping[str, DataflowRecord]  # submitted dataflows that are in the estate, by id
    tasks: frozenset[str]  # running tasks that serve one of them
    own: frozenset[str] = frozenset()  # those of the viewer's own teams, by id

    @cached_property
    def slots_of(self) -> Counter[str]:
        """How many slots each node has."""
        return Counter(slot.node for slot in self.estate.slots)

    # Asked for again and again while a document is made: of each task, dataflow and slot.
    @cached_property
    def _reports_of_fragments(self) -> dict[str, QueryReport]:
        return {}

    @cached_property
    def _reports_of_bundles(self) -> dict[RunningBundle, QueryReport]:
        return {}

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

    def fragment_report(self, fragment: Fragment) -> QueryReport:
        """What its node reports of a fragment; of a divided one, of the bundle that is worst off.

        Bundles that are leaving do not count.
        """
        if fragment.id not in self._reports_of_fragments:
            reports = [self.bundle_report(bundle) for bundle in fragment.queries if not bundle.leaving]
            self._reports_of_fragments[fragment.id] = min(reports, key=lambda report: _rank(report.state))
        return self._reports_of_fragments[fragment.id]

    def bundle_report(self, bundle: RunningBundle) -> QueryReport:
        """What its node reports of one query; ``silent`` or ``unknown`` where no report of the node is there."""
        if bundle not in self._reports_of_bundles:
            self._reports_of_bundles[bundle] = self._report_of(bundle)
        return self._reports_of_bundles[bundle]

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
        return replace(query, state=state)

    def node_report(self, name: str) -> NodeReport | None:
        """What a node reports; None where it has not done so for some seconds."""
        reports = self.reading.reports
        return None if reports.age_ms(name) >= NODE_SILENT_MS else reports.node(name)

    @cached_property
    def fragment_of(self) -> Mapping[str, Fragment]:
        """The fragment of each query, by fragment and bundle id."""
        by_id = {bundle.id: fragment for fragment in self.estate.fragments.values() for bundle in fragment.queries}
        return by_id | dict(self.estate.fragments)

    @cached_property
    def parents_of(self) -> Mapping[str, tuple[str, ...]]:
        """The running tasks that each query reads, by its id; none where it begins with a source."""
        return {
            query_id: self.estate.tasks[fragment.tasks[0]].parents for query_id, fragment in self.fragment_of.items()}

    def name_of(self, running_task: str) -> str:
        """A running task by the name that a dataflow of the viewer gives it, or by its type where none does."""
        for user in sorted(set(self.estate.users.get(running_task, ())) & set(self.records)):
            for name, running in self.estate.submitted[user].running.items():
                if running == running_task:
                    return f"{name} of {self.records[user].name}"
        return f"a task of type {self.estate.tasks[running_task].type}"

    def in_words(self, text: str, dataflow_id: str = "") -> str:
        """A node's text with running tasks by their names: those that a dataflow gives them, where one is named."""
        submitted = self.estate.submitted.get(dataflow_id)
        named = {running: name for name, running in submitted.running.items()} if submitted else {}

        def name(task_id: re.Match[str]) -> str:
            task = task_id[0]
            return named.get(task) or (self.name_of(task) if task in self.estate.tasks else task)

        return _RUNNING_TASK.sub(name, text)


Look = Callable[[Viewer], View]
_of_one_look: ContextVar[dict[str, View] | None] = ContextVar("of_one_look", default=None)


@contextmanager
def one_look() -> Iterator[None]:
    """What is asked inside is answered by one view for each scope; around what writes nothing."""
    token = _of_one_look.set({})
    try:
        yield
    finally:
        _of_one_look.reset(token)


def view_for(viewer: Viewer) -> View:
    """Read the estate, who is in it and what is observed, for one viewer."""
    views = _of_one_look.get()
    if views is None:
        return _view_for(viewer)
    if viewer.scope not in views:
        views[viewer.scope] = _view_for(viewer)
    return views[viewer.scope]


def _view_for(viewer: Viewer) -> View:
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
    own = frozenset(key for key, record in records.items() if viewer.sees_private_of(record.team_id))
    return View(estate=estate, reading=reading, records=records, tasks=tasks, own=own)


class SharedViews:
    """Views that all who look at about the same moment share, if they may know the same. Safe among threads.

    Parameters
    ----------
    monotonic_s : callable
        A clock.
    """

    def __init__(self, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._monotonic_s = monotonic_s
        self._lock = threading.Lock()
        self._kept: dict[str, tuple[float, View]] = {}  # by scope: when it was looked, and what was seen

    def view_for(self, viewer: Viewer) -> View:
        """As the function of that name; what was read up to a quarter of a second ago does."""
        with self._lock:
            now_s = self._monotonic_s()
            self._kept = {scope: (at_s, view) for scope, (at_s, view) in self._kept.items() if now_s - at_s < SHARED_S}
            if viewer.scope not in self._kept:
                self._kept[viewer.scope] = (now_s, view_for(viewer))
            return self._kept[viewer.scope][1]


def totals_of(view: View, dataflow_id: str) -> dict[str, Any]:
    """Rates, latency and state of one dataflow of the view as a whole."""
    submitted = view.estate.submitted[dataflow_id]
    running = set(submitted.running.values())
    sinks = {submitted.running[task] for task in submitted.sinks}
    sources = {task for task in running if not view.estate.tasks[task].parents}
    flows = [view.reading.flows.tasks[task] for task in sorted(sinks) if task in view.reading.flows.tasks]
    return {
        "state": _worst(state_of(view, task) for task in running),
        "events_in_per_s": sum_rate(view, sources), "events_out_per_s": sum_rate(view, sinks),
        "latency_p50_ms": _highest(flow.latency_p50_ms for flow in flows),
        "latency_p99_ms": _highest(flow.latency_p99_ms for flow in flows),
    }


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
    """Of these running tasks those without a parent, and those that stand for a sink."""
    tasks = set(tasks)
    sinks = {
        view.estate.submitted[key].running[task] for key in view.records for task in view.estate.submitted[key].sinks}
    return {task for task in tasks if not view.estate.tasks[task].parents}, sinks & tasks


def taken_by(view: View, bundles: Iterable[RunningBundle], what: Literal["cpu", "memory"]) -> float | None:
    """What these bundles take together of a slot, as a profile has it; None where none of them tells."""
    shares = [getattr(view.bundle_report(bundle), what) for bundle in bundles]
    known = [share for share in shares if share is not None]
    return sum(known) if known else None


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
    """How bad a state is, the worst first; what is not named runs."""
    return _WORST_FIRST.index(state) if state in _WORST_FIRST else len(_WORST_FIRST)


def _highest(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(max(known)) if known else None
