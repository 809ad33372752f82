"""The estate: everything that runs, on whose behalf, as which fragments, on which slots."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from .dataflow import _frozen
from .usage import NAMED, NANO, SlotLoad, Users, loads_of


@dataclass(frozen=True, slots=True)
class RunningTask:
    """A task that runs. Its id is its fingerprint: at any time one running task has it."""

    id: str
    type: str
    config: Mapping[str, Any]  # canonical; a source's holds its rate as ``rate_per_s``
    parents: tuple[str, ...]  # running task ids, sorted; a stream for each
    scope: str = ""  # "" for shared tasks, else the team whose private task it is
    cores: float = 0.0  # CPU cores that the plan which started it expects it to take

    def __post_init__(self) -> None:
        object.__setattr__(self, "config", _frozen(self.config))


@dataclass(frozen=True, slots=True)
class Slot:
    """One core and its memory on a node, served by one Spark driver."""

    node: str
    index: int

    @property
    def name(self) -> str:
        return f"{self.node}/{self.index}"


def node_of(slot: str) -> str:
    """The node of a slot, by its name."""
    return slot.rpartition("/")[0]


@dataclass(frozen=True, slots=True)
class RunningBundle:
    """The threads of a fragment on one slot: what one Spark query executes there.

    ``weight`` is its part of the fragment's events. Where that is 0 it is leaving: it gets nothing any more, reads what
    it has to its end, and a later plan drops it.
    """

    id: str  # of the same shape as a fragment's, and never reused either
    slot: str  # Slot.name
    threads: int = 1
    weight: float = 1.0

    @property
    def leaving(self) -> bool:
        return self.weight == 0


@dataclass(frozen=True, slots=True)
class Fragment:
    """A chain of running tasks that one Spark query executes on one slot, or several where it is divided.

    ``tasks`` go upstream first; only the first may have several parents. ``outlets`` are the tasks whose stream is
    public: a task id to its readers, fragment ids. ``active`` is how many tasks, from the first, work; the valve holds
    back what would go on (paper [1], 4.3). The next ``resting`` ones belong to paused dataflows and go on when those
    are resumed, with the state that they have; nobody needs those behind any more, and they never work again.

    ``inherits`` are the fragments whose work this one goes on with, upstream first: it begins with their state exactly
    where they ended, and ``channels`` says which of its streams stay in a channel of theirs (a task id to a channel
    id). ``joins`` says where it begins in a stream that it has not read before, by parent task: ``now`` (if not said),
    ``oldest`` (the oldest event that the channel still holds), or a time in ms since the epoch.

    ``bundles`` are the parts that a schedule divides it into, one at least, each a query of its own with its part of
    the events; their weights add up to 1. One of a new fragment has the fragment's id: it goes on with the work of
    those that the fragment inherits from. Without them the fragment is one query under its own id.
    """

    id: str  # "f<generation>-<n>", never reused
    tasks: tuple[str, ...]
    slot: str  # Slot.name; of a divided one that of its first bundle
    active: int
    outlets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    channels: Mapping[str, str] = field(default_factory=dict)
    inherits: tuple[str, ...] = ()
    joins: Mapping[str, str] = field(default_factory=dict)
    resting: int = 0
    bundles: tuple[RunningBundle, ...] = ()

    def __post_init__(self) -> None:
        for name in ("outlets", "channels", "joins"):
            object.__setattr__(self, name, _frozen(getattr(self, name)))

    @property
    def active_tasks(self) -> tuple[str, ...]:
        return self.tasks[: self.active]

    @property
    def kept_tasks(self) -> tuple[str, ...]:
        """Those that work and those that rest."""
        return self.tasks[: self.active + self.resting]

    @property
    def paused(self) -> bool:
        """Whether none of it works: it keeps its state, and its places in the channels that it reads are given up."""
        return self.active == 0

    @property
    def divided(self) -> bool:
        """Whether a schedule says how many threads it has where: it reads its part of a stream, not the whole."""
        return bool(self.bundles)

    def placed(self, slot_of: Callable[[RunningBundle], str]) -> Fragment:
        """The same with its queries on other slots."""
        parts = tuple(replace(part, slot=slot_of(part)) for part in self.parts)
        return replace(self, slot=parts[0].slot, bundles=parts if self.divided else ())

    @property
    def parts(self) -> tuple[RunningBundle, ...]:
        """Its bundles; one that is not divided is one itself."""
        return self.bundles or (RunningBundle(self.id, self.slot),)

    def channels_of(self, task_id: str) -> tuple[str, ...]:
        """The channels that together carry the stream of one of its tasks, one for each bundle."""
        position, taken_over = self.tasks.index(task_id), self.channels.get(task_id)
        return tuple(
            taken_over if taken_over and bundle.id == self.id else channel_id(bundle.id, position)
            for bundle in self.parts)

    def channel_of(self, task_id: str) -> str:
        """The channel that carries the stream of one of its tasks: its own, or one taken over.

        Of a divided one its first bundle's: `channels_of` has them all.
        """
        return self.channels_of(task_id)[0]


def divided_among(fragments: Iterable[Fragment], slots: Collection[str]) -> tuple[Fragment, ...]:
    """Those of the fragments that work and that a schedule has put on any of these slots."""
    return tuple(
        fragment for fragment in fragments
        if not fragment.paused and any(bundle.slot in slots for bundle in fragment.bundles))


def channel_id(fragment_id: str, position: int) -> str:
    """The channel that carries the stream of a fragment's ``position``-th task (0-based)."""
    return f"{fragment_id}.{position}"


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

    def __post_init__(self) -> None:
        object.__setattr__(self, "running", _frozen(self.running))


@dataclass(frozen=True)
class Estate:
    """A consistent view of the estate at one generation. Every approved plan makes the next generation.

    The whole of it, as a value; planning asks less of one (`ports.EstateView`).
    """

    generation: int = 0
    tasks: Mapping[str, RunningTask] = field(default_factory=dict)  # by running task id
    submitted: Mapping[str, Submitted] = field(default_factory=dict)  # by dataflow id
    fragments: Mapping[str, Fragment] = field(default_factory=dict)  # by fragment id
    slots: tuple[Slot, ...] = ()

    @cached_property
    def users(self) -> Mapping[str, tuple[str, ...]]:
        """Running task id to the ids of the submitted dataflows that use it."""
        users: dict[str, list[str]] = {}
        for dataflow_id, submitted in self.submitted.items():
            for task_id in dict.fromkeys(submitted.running.values()):
                users.setdefault(task_id, []).append(dataflow_id)
        return {task_id: tuple(dataflow_ids) for task_id, dataflow_ids in users.items()}

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
        """What each slot that has something to do is expected to do, by slot name."""
        loads: dict[str, SlotLoad] = {}
        for fragment in self.fragments.values():
            for slot, load in loads_of(fragment, self.tasks).items():
                loads[slot] = loads.get(slot, SlotLoad()) + load
        return loads

    def users_of(self, task_id: str) -> Users:
        """Who uses a running task."""
        users = self.users.get(task_id, ())
        return Users(
            by_team=Counter(self.submitted[user].team for user in users),
            first=tuple(heapq.nsmallest(NAMED + 1, users)),
            paused=sum(self.submitted[user].paused for user in users),
        )

    def least_loaded(
        self, count: int, *, query_cores: float, apart: bool = False
    ) -> tuple[tuple[Slot, float], ...]:
        """The slots that have least to do, at most so many, in the order of all slots, with the cores they spend.

        With ``apart`` those that a schedule has bundles on are left out, as long as there are others.
        """
        loads = [self.loads.get(slot.name, SlotLoad()) for slot in self.slots]
        spent = [load.nanocores(query_cores=query_cores) for load in loads]
        unscheduled = [order for order, load in enumerate(loads) if not load.bundles]
        chosen = unscheduled if apart and unscheduled else range(len(spent))
        least = heapq.nsmallest(count, chosen, key=lambda order: (spent[order], order))
        return tuple((self.slots[order], spent[order] / NANO) for order in sorted(least))

    def divided_on(self, slots: Collection[str]) -> tuple[Fragment, ...]:
        """The fragments that work and that a schedule has put on any of these slots."""
        return divided_among(self.fragments.values(), slots)

    def channel_of(self, task_id: str) -> str:
        """The channel that carries a running task's stream, wherever the task runs."""
        return self.channels_of(task_id)[0]

    def channels_of(self, task_id: str) -> tuple[str, ...]:
        """The channels that together carry a running task's stream: several where its fragment is divided."""
        return self.fragments[self.places[task_id][0]].channels_of(task_id)
