"""The estate: everything that runs, on whose behalf, as which fragments, on which slots."""

from __future__ import annotations

import copy
import heapq
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from graphlib import CycleError, TopologicalSorter

from .dataflow import _frozen
from .fragment import Fragment, RunningBundle, RunningTask, Slot, divided_among, part_id
from .settings_of_fragments import FragmentSettings
from .tenancy import is_held_by, teams_by_slot
from .usage import NAMED, NANO, SlotLoad, Users, loads_of


@dataclass(frozen=True, slots=True)
class Submitted:
    """A submitted dataflow in the estate: which running task stands for each of its tasks."""

    id: str
    name: str
    team: str
    running: Mapping[str, str]  # submitted task id -> running task id
    sinks: tuple[str, ...]  # submitted task ids of its sinks
    paused: bool = False  # its tasks rest where nobody else needs them
    scheduled: bool = False  # submitted with a schedule, or given one since
    unchained: tuple[str, ...] = ()  # submitted task ids of those that are to have a query of their own

    def __post_init__(self) -> None:
        object.__setattr__(self, "running", _frozen(self.running))

    @property
    def unchained_running(self) -> frozenset[str]:
        """The running task ids of those that are to have a query of their own."""
        return frozenset(self.running[task_id] for task_id in self.unchained)


@dataclass(frozen=True)
class Estate:
    """A consistent view of the estate at one generation. Every approved plan makes the next generation.

    The whole of it, as a value; planning asks less of one (`ports.EstateView`). ``teams_apart`` says that teams have
    slots of their own (`tenancy`). ``revision`` counts changes of settings
    alone: of one generation the state with the highest revision is the newest. Together they say all that is to run.
    """

    generation: int = 0
    tasks: Mapping[str, RunningTask] = field(default_factory=dict)  # by running task id
    submitted: Mapping[str, Submitted] = field(default_factory=dict)  # by dataflow id
    fragments: Mapping[str, Fragment] = field(default_factory=dict)  # by fragment id
    slots: tuple[Slot, ...] = ()
    settings: Mapping[str, FragmentSettings] = field(default_factory=dict)  # by fragment id; usual ones left out
    revision: int = 0
    teams_apart: bool = False

    def set_to(self, settings: Mapping[str, FragmentSettings], revision: int) -> Estate:
        """The same estate with these settings; what was worked out of its fragments stands."""
        changed_estate = copy.copy(self)
        object.__setattr__(changed_estate, "settings", settings)
        object.__setattr__(changed_estate, "revision", revision)
        return changed_estate

    @cached_property
    def users(self) -> Mapping[str, tuple[str, ...]]:
        """Running task id to the ids of the submitted dataflows that use it."""
        users: dict[str, list[str]] = {}
        for dataflow_id, submitted in self.submitted.items():
            for task_id in dict.fromkeys(submitted.running.values()):
                users.setdefault(task_id, []).append(dataflow_id)
        return {task_id: tuple(dataflow_ids) for task_id, dataflow_ids in users.items()}

    @cached_property
    def unchained(self) -> frozenset[str]:
        """The running tasks that have a query of their own, because one of those who use them says so."""
        return frozenset().union(*(submitted.unchained_running for submitted in self.submitted.values()))

    @cached_property
    def places(self) -> Mapping[str, tuple[str, int]]:
        """Running task id to the fragment that it works or rests in and its position there."""
        return {
            task_id: (fragment.id, position)
            for fragment in self.fragments.values()
            for position, task_id in enumerate(fragment.kept_tasks)
        }

    @cached_property
    def loads(self) -> Mapping[str, SlotLoad]:
        """The expected load of each slot that has something to do, by slot name."""
        loads: dict[str, SlotLoad] = {}
        for fragment in self.fragments.values():
            for slot, load in loads_of(fragment, self.tasks).items():
                loads[slot] = loads.get(slot, SlotLoad()) + load
        return loads

    @cached_property
    def teams(self) -> Mapping[str, Counter[str]]:
        """The number of queries of each team on each slot that has any, by slot name."""
        return teams_by_slot(self.fragments.values())

    def teams_on(self, slots: Collection[str]) -> dict[str, Counter[str]]:
        """The same of these slots alone."""
        return {slot: self.teams[slot] for slot in slots if slot in self.teams}

    def users_of(self, task_id: str) -> Users:
        """The users of a running task."""
        users = self.users.get(task_id, ())
        return Users(
            by_team=Counter(self.submitted[user].team for user in users),
            first=tuple(heapq.nsmallest(NAMED + 1, users)),
            paused=sum(self.submitted[user].paused for user in users),
            unchained=task_id in self.unchained,
        )

    def least_loaded(
        self, count: int, *, query_cores: float, apart: bool = False, held_by: str | None = None, node: str = ""
    ) -> tuple[tuple[Slot, float], ...]:
        """The slots that have least to do, as `ports.EstateView` says."""
        loads = [self.loads.get(slot.name, SlotLoad()) for slot in self.slots]
        spent = [load.nanocores(query_cores=query_cores) for load in loads]
        orders = [
            order for order, slot in enumerate(self.slots)
            if node in ("", slot.node) and (held_by is None or is_held_by(held_by, self.teams.get(slot.name, ())))]
        unscheduled = [order for order in orders if not loads[order].bundles]
        chosen = unscheduled if apart and unscheduled else orders
        least = heapq.nsmallest(count, chosen, key=lambda order: (spent[order], order))
        return tuple((self.slots[order], spent[order] / NANO) for order in sorted(least))

    def slot_loads(self, slots: Collection[str]) -> dict[str, SlotLoad]:
        """The loads of these slots, by name: of those that are there."""
        return {slot.name: self.loads.get(slot.name, SlotLoad()) for slot in self.slots if slot.name in slots}

    def divided_on(self, slots: Collection[str]) -> tuple[Fragment, ...]:
        """The fragments that work and that a schedule has put on any of these slots."""
        return divided_among(self.fragments.values(), slots)

    def channel_of(self, task_id: str) -> str:
        """The channel that carries a running task's stream, wherever the task runs."""
        return self.channels_of(task_id)[0]

    def channels_of(self, task_id: str) -> tuple[str, ...]:
        """The channels that together carry a running task's stream: several where its fragment is divided."""
        return self.fragments[self.places[task_id][0]].channels_of(task_id)

    def read_by(self, fragment: Fragment, bundle: RunningBundle, task_id: str) -> dict[str, RunningBundle]:
        """The channels in which a bundle of a fragment reads a running task's stream, each with what writes it.

        They are parts where the fragment is divided.
        """
        channels = self.channels_of(task_id)
        names_read = [part_id(channel, bundle.part) for channel in channels] if fragment.divided else channels
        return dict(zip(names_read, self.fragments[self.places[task_id][0]].queries, strict=True))


def fragments_upstream_first(estate: Estate) -> list[str]:
    """All fragments of an estate, each after its writers; ties are in order of id.

    Raises
    ------
    ValueError
        Fragments read one another in a circle.
    """
    writers: dict[str, set[str]] = {fragment_id: set() for fragment_id in estate.fragments}
    for fragment in estate.fragments.values():
        for readers in fragment.outlets.values():
            for reader in readers:
                writers.setdefault(reader, set()).add(fragment.id)
    sorter = TopologicalSorter(writers)
    order: list[str] = []
    try:
        sorter.prepare()
    except CycleError as error:
        raise ValueError(f"fragments read one another in a circle: {', '.join(sorted(error.args[1]))}") from error
    while sorter.is_active():
        ready = sorted(sorter.get_ready())
        order += [fragment_id for fragment_id in ready if fragment_id in estate.fragments]
        sorter.done(*ready)
    return order
