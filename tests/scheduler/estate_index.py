"""The estate as an index: kept from plan to plan, so that planning and applying cost what the plan costs.

The site looks its rows up instead. Simulators keep an estate in memory, and check plans against this.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Collection, Iterable

from scheduler.model.estate import Estate, Submitted
from scheduler.model.fragment import Fragment, RunningTask, Slot, divided_among
from scheduler.model.plan import Plan
from scheduler.model.settings_of_fragments import settings_applied
from scheduler.model.usage import NAMED, NANO, SlotLoad, Users, loads_of, nanocores


class EstateIndex:
    """An estate in memory that plans change in place; a view for planning (`ports.EstateView`).

    `Estate` is a value: a plan makes another one, and who uses what is found by going through all of it. Here every
    look-up is a dictionary's, users of a task and the order of slots by load are sorted lists, and a plan changes the
    entries that it names. What it holds equals the value after the same plans (`estate`).

    Parameters
    ----------
    estate : Estate
        Where it begins; it is gone through once.
    """

    def __init__(self, estate: Estate) -> None:
        self.generation = estate.generation
        self.slots = estate.slots
        self.teams_apart = estate.teams_apart
        self.tasks: dict[str, RunningTask] = {}
        self.submitted: dict[str, Submitted] = {}
        self.fragments: dict[str, Fragment] = {}
        self.settings = dict(estate.settings)
        self.places: dict[str, tuple[str, int]] = {}
        self._users: dict[str, list[str]] = {}  # ids in order
        self._by_team: dict[str, dict[str, int]] = {}
        self._paused: Counter[str] = Counter()
        self._unchained: Counter[str] = Counter()
        self._slots = _Slots(estate.slots)
        self._start(estate.tasks.values())
        for submitted in estate.submitted.values():
            self._add(submitted)
        self._begin(estate.fragments.values())

    def users_of(self, task_id: str) -> Users:
        """Who uses a running task."""
        return Users(
            by_team=dict(self._by_team.get(task_id, {})), first=tuple(self._users.get(task_id, ())[: NAMED + 1]),
            paused=self._paused[task_id], unchained=self._unchained[task_id] > 0)

    def least_loaded(
        self, count: int, *, query_cores: float, apart: bool = False, held_by: str | None = None, node: str = ""
    ) -> tuple[tuple[Slot, float], ...]:
        """The slots that have least to do, as `ports.EstateView` says."""
        if held_by is not None or node:
            return self.estate().least_loaded(
                count, query_cores=query_cores, apart=apart, held_by=held_by, node=node)
        return self._slots.least_loaded(count, query_nanocores=nanocores(query_cores), apart=apart)

    def teams_on(self, slots: Collection[str]) -> dict[str, Counter[str]]:
        """How many queries of each team are on these slots."""
        return self.estate().teams_on(slots)

    def slot_loads(self, slots: Collection[str]) -> dict[str, SlotLoad]:
        """What these slots have to do, by name: of those that are there."""
        return self._slots.loads_of(slots)

    def divided_on(self, slots: Collection[str]) -> tuple[Fragment, ...]:
        """The fragments that work and that a schedule has put on any of these slots."""
        return divided_among(self.fragments.values(), slots)

    def apply(self, plan: Plan) -> None:
        """Take a plan in, in time of the plan.

        Raises
        ------
        StalePlan
            The plan was computed from another generation; nothing is changed.
        """
        plan.require_generation(self.generation)
        if self.settings or plan.settings_after:
            self.settings = settings_applied(plan, self.settings, self.fragments)
        self._end(plan.fragments_before.values())
        if plan.entry_before is not None:
            self._drop(plan.entry_before)
        for task in plan.stopped:
            del self.tasks[task.id]
        self._start(plan.started)
        if plan.entry_after is not None:
            self._add(plan.entry_after)
        self._begin(plan.fragments_after.values())
        self.generation += 1

    def estate(self) -> Estate:
        """What it holds, as a value."""
        return Estate(
            generation=self.generation, tasks=dict(self.tasks), submitted=dict(self.submitted),
            fragments=dict(self.fragments), slots=self.slots, settings=dict(self.settings),
            teams_apart=self.teams_apart)

    def _start(self, tasks: Iterable[RunningTask]) -> None:
        self.tasks.update((task.id, task) for task in tasks)

    def _add(self, submitted: Submitted) -> None:
        self.submitted[submitted.id] = submitted
        self._unchained.update(submitted.unchained_running)
        for task_id in set(submitted.running.values()):
            # Shifting a list's tail is a copy of memory: with 20,000 users of one source a few microseconds.
            insort(self._users.setdefault(task_id, []), submitted.id)
            by_team = self._by_team.setdefault(task_id, {})
            by_team[submitted.team] = by_team.get(submitted.team, 0) + 1
            if submitted.paused:
                self._paused[task_id] += 1

    def _drop(self, submitted: Submitted) -> None:
        del self.submitted[submitted.id]
        self._unchained.subtract(submitted.unchained_running)
        for task_id in set(submitted.running.values()):
            users, by_team = self._users[task_id], self._by_team[task_id]
            del users[bisect_left(users, submitted.id)]
            by_team[submitted.team] -= 1
            if submitted.paused:
                self._paused[task_id] -= 1
                if not self._paused[task_id]:
                    del self._paused[task_id]
            if not by_team[submitted.team]:
                del by_team[submitted.team]
            if not users:
                del self._users[task_id], self._by_team[task_id]

    def _begin(self, fragments: Iterable[Fragment]) -> None:
        for fragment in fragments:
            self.fragments[fragment.id] = fragment
            self.places.update(
                (task_id, (fragment.id, position)) for position, task_id in enumerate(fragment.kept_tasks))
            for slot, load in loads_of(fragment, self.tasks).items():
                self._slots.add(slot, load)

    def _end(self, fragments: Iterable[Fragment]) -> None:
        for fragment in fragments:
            del self.fragments[fragment.id]
            for task_id in fragment.kept_tasks:
                del self.places[task_id]
            for slot, load in loads_of(fragment, self.tasks).items():
                self._slots.add(slot, SlotLoad() - load)


class _Slots:
    """What slots have to do, and which of them least: in order of load for the cost of a query last asked for."""

    def __init__(self, slots: tuple[Slot, ...]) -> None:
        self._slots = slots
        self._order = {slot.name: order for order, slot in enumerate(slots)}
        self._loads: dict[str, SlotLoad] = {}
        # (nanocores, order of the slot), least first: of slots without bundles of a schedule, and of those with
        self._ranks: tuple[list[tuple[int, int]], ...] = ([], [])
        self._query_nanocores = -1  # what a query takes in ``_ranks``

    def least_loaded(
        self, count: int, *, query_nanocores: int, apart: bool
    ) -> tuple[tuple[Slot, float], ...]:
        if query_nanocores != self._query_nanocores:
            self._query_nanocores = query_nanocores
            ranked = sorted((self._spent(slot.name), order) for order, slot in enumerate(self._slots))
            self._ranks = tuple(
                [rank for rank in ranked if self._has_bundles(self._slots[rank[1]].name) is of] for of in (False, True))
        unscheduled, scheduled = (ranks[:count] for ranks in self._ranks)
        chosen = unscheduled if apart and unscheduled else sorted([*unscheduled, *scheduled])[:count]
        least = sorted(chosen, key=lambda rank: rank[1])
        return tuple((self._slots[order], spent / NANO) for spent, order in least)

    def add(self, slot: str, load: SlotLoad) -> None:
        order = self._order.get(slot)
        ranked = order is not None and self._query_nanocores >= 0
        if ranked:
            ranks = self._ranks[self._has_bundles(slot)]
            del ranks[bisect_left(ranks, (self._spent(slot), order))]
        self._loads[slot] = self._loads.get(slot, SlotLoad()) + load
        if ranked:
            insort(self._ranks[self._has_bundles(slot)], (self._spent(slot), order))

    def loads_of(self, slots: Collection[str]) -> dict[str, SlotLoad]:
        return {slot: self._loads.get(slot, SlotLoad()) for slot in slots if slot in self._order}

    def _has_bundles(self, slot: str) -> bool:
        return self._loads.get(slot, SlotLoad()).bundles > 0

    def _spent(self, slot: str) -> int:
        load = self._loads.get(slot, SlotLoad())
        return load.queries * self._query_nanocores + load.task_nanocores
