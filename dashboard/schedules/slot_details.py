"""Slots with their bundles, as far as one viewer may know of them: planned and measured, before and after a plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from django.conf import settings

from dashboard.operations.estate_store.offered_slots import silent_nodes
from dashboard.operations.live_view.estate_view import View, share_of_memory, taken_by, view_for
from dashboard.operations.live_view.learned_costs import costs_here
from dashboard.operations.live_view.nodes import unpinned
from dashboard.operations.models import NodeRow, SlotRow
from dashboard.schedules.promises import loads_before, loads_in, promised_loads
from dashboard.teams.permissions import Viewer
from scheduler.contracts.reports import QueryReport
from scheduler.model.fragment import Fragment, RunningBundle, RunningTask, Slot
from scheduler.model.plan import Plan
from scheduler.model.prices import Prices
from scheduler.model.promise import Load
from scheduler.performance.pricing import query_cores

Change = Literal["stays", "starts", "leaves", "changes"]


@dataclass(frozen=True, slots=True)
class BundleCell:
    """A bundle on a slot.

    ``was`` and ``now`` are what it is before and after the plan that is looked at, None where it is not there then;
    ``tasks`` are the names that a dataflow of ``users`` gives them.
    """

    id: str
    fragment: str
    tasks: tuple[str, ...]
    users: tuple[Mapping[str, str], ...]
    was: RunningBundle | None
    now: RunningBundle | None
    planned_before: Load
    planned: Load  # after
    measured: Load
    state: str = ""

    @property
    def change(self) -> Change:
        """The effect of the plan on it here."""
        if self.was is None or self.now is None:
            return "starts" if self.was is None else "leaves"
        return "stays" if self.was == self.now else "changes"

    @property
    def threads(self) -> int:
        """Its threads, after the plan where it is there then."""
        shown = self.now or self.was
        assert shown is not None
        return shown.threads

    @property
    def weight(self) -> float:
        """Its part of its task's events, after the plan where it is there then."""
        shown = self.now or self.was
        assert shown is not None
        return shown.weight


@dataclass(frozen=True, slots=True)
class SlotCell:
    """A slot: the planned load of its bundles before and after the plan, and the measured one.

    ``taken``: the load of the bundles that are shown, without the driver, like planned loads; ``whole``, ``memory_mb``:
    of all processes of the slot; ``core``: the core that it is pinned to, None for none; ``hides``: something runs
    there that the viewer may not see; ``silent``: its node does not report.
    """

    name: str
    index: int
    state: str
    restarts: int
    reserved_for: str
    before: Load
    after: Load
    taken: Load
    whole: Load
    memory_mb: float | None
    bundles: tuple[BundleCell, ...]
    core: int | None = None
    hides: bool = False
    silent: bool = False

    @property
    def free(self) -> bool:
        """True if something may be placed there: nothing runs or is to, nobody has it, and its node is heard of."""
        return not (self.bundles or self.hides or self.reserved_for or self.silent)

    @property
    def changes(self) -> bool:
        """True if the plan touches it."""
        return any(bundle.change != "stays" for bundle in self.bundles)


@dataclass(frozen=True, slots=True)
class NodeCells:
    """A node with its slots; ``unpinned`` is why these are not held to cores of their own, empty where they are, and
    ``link`` what delays and limits its traffic with the broker, where anything of Weir's does."""

    name: str
    reporting: bool
    memory_mb: float | None
    slots: tuple[SlotCell, ...]
    unpinned: str = ""
    link: str = ""

    @property
    def changes(self) -> bool:
        """True if the plan touches any of its slots."""
        return any(slot.changes for slot in self.slots)


@dataclass(frozen=True)
class Grid:
    """All slots by node, what is observed of them, and the plan that they are shown before and after."""

    nodes: tuple[NodeCells, ...]
    reading: Any
    plan: Plan | None = None

    @property
    def slots(self) -> tuple[SlotCell, ...]:
        """The slots of all nodes."""
        return tuple(slot for node in self.nodes for slot in node.slots)


@dataclass
class _Maker:
    """The maker of the cells of one grid."""

    view: View
    plan: Plan | None
    promised_before: Mapping[str, Load]
    promised_after: Mapping[str, Load]
    names: dict[str, tuple[str, ...]] = field(default_factory=dict)  # of running tasks, one a dataflow

    def __post_init__(self) -> None:
        for dataflow_id in sorted(self.view.records, key=lambda key: self.view.records[key].name):
            for task, running in self.view.estate.submitted[dataflow_id].running.items():
                self.names.setdefault(running, (task,))
        if self.plan is not None:  # the plan's own dataflow, whose names the reviewer reads everywhere
            for task, running in self.plan.dataflow.running.items():
                self.names[running] = (task,)

    @cached_property
    def tasks(self) -> dict[str, RunningTask]:
        """The tasks that run and those that the plan starts or stops; as many as there are, so once."""
        started = self.plan.started if self.plan else ()
        stopped = self.plan.stopped if self.plan else ()
        return {**self.view.estate.tasks, **{task.id: task for task in (*stopped, *started)}}

    @cached_property
    def query_cores(self) -> float:
        """The expected cores of a query for batches alone."""
        return query_cores(Prices(trigger_ms=settings.TRIGGER_MS, costs=costs_here()))

    def name_of(self, task: str) -> str:
        """The name of a running task: by one of the dataflows that use it, else by its type."""
        if task in self.names:
            return self.names[task][0]
        return self.tasks[task].type if task in self.tasks else "a task"


def slots_grid(viewer: Viewer, *, plan: Plan | None = None) -> Grid:
    """Every slot with the bundles that the viewer may know of.

    Loads of scheduled bundles are the promised ones. Loads of others are estimated from their tasks' cores, as for
    placing them, and their memory is unknown.

    Parameters
    ----------
    plan : Plan, optional
        Shown as before and after it, whether it is enacted by now or not; the viewer may know of its dataflow.
    """
    view = view_for(viewer)
    before = promised_loads(view.estate, list(view.records))
    after = before
    if plan is not None and plan.promise is not None:
        promised = loads_in(plan.promise)
        after = before | promised
        if (earlier := loads_before(plan)) is not None:
            before = {bundle: load for bundle, load in before.items() if bundle not in promised} | earlier
    maker = _Maker(view, plan, before, after)
    by_slot = _by_slot(maker, *_before_and_after(view.estate.fragments, plan))
    reserved = dict(SlotRow.objects.exclude(reserved_for="").values_list("name", "reserved_for"))
    counts = dict(NodeRow.objects.values_list("name", "slots"))
    nodes: dict[str, list[SlotCell]] = {name: [] for name in counts}
    hiding, silent = _hiding(view), set(silent_nodes().values_list("name", flat=True))
    for slot in view.estate.slots:
        nodes.setdefault(slot.node, []).append(_slot(
            maker, slot.name, by_slot.get(slot.name, ()), reserved.get(slot.name, ""),
            hides=slot.name in hiding, silent=slot.node in silent))
    reports = view.reading.reports
    return Grid(tuple(
        NodeCells(name, name in reports, report.memory_mb if (report := reports.node(name)) else None, tuple(cells),
                  unpinned(report), report.link if report else "")
        for name, cells in sorted(nodes.items())), view.reading, plan)


def _hiding(view: View) -> set[str]:
    """The slots with bundles that the viewer may not see."""
    return {
        bundle.slot for fragment in view.estate.fragments.values()
        if not fragment.paused and view.tasks.isdisjoint(fragment.active_tasks) for bundle in fragment.queries}


def _before_and_after(
    fragments: Mapping[str, Fragment], plan: Plan | None
) -> tuple[Mapping[str, Fragment], Mapping[str, Fragment]]:
    """The estate's fragments on both sides of a plan, on whichever of them the estate stands."""
    if plan is None:
        return fragments, fragments
    others = {
        key: fragment for key, fragment in fragments.items()
        if key not in plan.fragments_before and key not in plan.fragments_after}
    return {**others, **plan.fragments_before}, {**others, **plan.fragments_after}


def _by_slot(
    maker: _Maker, before: Mapping[str, Fragment], after: Mapping[str, Fragment]
) -> dict[str, list[BundleCell]]:
    """Cells of all bundles that may be shown, by the name of their slot; one that moves stands on both."""
    visible_tasks = maker.view.tasks | set(maker.plan.dataflow.running.values() if maker.plan else ())
    cells: dict[str, list[BundleCell]] = {}
    for key in sorted({*before, *after}):
        sides = before.get(key), after.get(key)
        fragment = sides[1] or sides[0]
        assert fragment is not None
        if not any(side and not visible_tasks.isdisjoint(side.active_tasks) for side in sides):
            continue
        was, now = (_parts(side) for side in sides)
        for bundle_id in dict.fromkeys([*was, *now]):
            places = dict.fromkeys(
                side[bundle_id].slot for side in (was, now) if bundle_id in side)
            for slot in places:
                cells.setdefault(slot, []).append(_bundle(
                    maker, fragment, _at(was.get(bundle_id), slot), _at(now.get(bundle_id), slot)))
    return cells


def _parts(fragment: Fragment | None) -> dict[str, RunningBundle]:
    if fragment is None or fragment.paused:
        return {}
    return {bundle.id: bundle for bundle in fragment.queries}


def _at(bundle: RunningBundle | None, slot: str) -> RunningBundle | None:
    return bundle if bundle is not None and bundle.slot == slot else None


def _bundle(
    maker: _Maker, fragment: Fragment, was: RunningBundle | None, now: RunningBundle | None
) -> BundleCell:
    bundle = now or was
    assert bundle is not None
    query = maker.view.reading.reports.query(bundle.slot, bundle.id) or QueryReport(state="")
    users = maker.view.users(fragment.active_tasks)
    return BundleCell(
        bundle.id, fragment.id,
        tuple(maker.name_of(task)
              for task in fragment.active_tasks),
        tuple(users), was, now, _planned(maker, maker.promised_before, fragment, was or bundle),
        _planned(maker, maker.promised_after, fragment, now or bundle),
        Load(query.cpu, query.memory), query.state)


def _planned(
    maker: _Maker, promised: Mapping[str, Load], fragment: Fragment, bundle: RunningBundle
) -> Load:
    """The promised load; else what its tasks are expected to take, and its batches."""
    if bundle.id in promised:
        return promised[bundle.id]
    tasks = maker.tasks
    cores = sum(tasks[task].cores for task in fragment.active_tasks if task in tasks)
    return Load(bundle.weight * cores + maker.query_cores)


def _slot(
    maker: _Maker, name: str, bundles: Iterable[BundleCell], reserved_for: str, *, hides: bool, silent: bool
) -> SlotCell:
    slot = Slot.of(name)
    report = maker.view.slot_report(name)
    bundles = tuple(bundles)
    running = [bundle for cell in bundles if (bundle := cell.now or cell.was) is not None]
    return SlotCell(
        name, slot.index, report.state, report.restarts, reserved_for,
        before=_sum([bundle.planned_before for bundle in bundles if bundle.was is not None]),
        after=_sum([bundle.planned for bundle in bundles if bundle.now is not None]),
        taken=Load(taken_by(maker.view, running, "cpu"), taken_by(maker.view, running, "memory")),
        whole=Load(report.cpu, share_of_memory(maker.view, slot.node, report.memory_mb)),
        memory_mb=report.memory_mb, bundles=bundles, core=report.core,
        hides=hides, silent=silent)


def _sum(loads: Sequence[Load]) -> Load:
    """The sum of loads; memory only if it is known of one of them."""
    memory = [load.memory for load in loads if load.memory is not None]
    return Load(sum(load.cpu or 0.0 for load in loads), sum(memory) if memory or not loads else None)
