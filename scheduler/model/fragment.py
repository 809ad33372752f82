"""Fragments: running tasks, the chains of them that are Spark queries, and the slots and bundles that execute those."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from .dataflow import _frozen
from .ring import Ring


@dataclass(frozen=True, slots=True)
class RunningTask:
    """A task that runs. Its id is its fingerprint: at any time one running task has it."""

    id: str
    type: str
    config: Mapping[str, Any]  # canonical; a source's holds its rate as ``rate_per_s``
    parents: tuple[str, ...]  # running task ids, sorted; a stream for each
    scope: str = ""  # "" for shared tasks, else the team whose private task it is
    cores: float = 0.0  # CPU cores that the plan which started it expects it to take
    rate_per_s: float | None = None  # events/s that it expected; None in plans of older versions

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

    @classmethod
    def of(cls, name: str) -> Slot:
        """The slot of that name: ``<node>/<index>``; ``ValueError`` where it is none."""
        return _slot_of(name)


@lru_cache(maxsize=10_000)  # whoever looks at an estate asks for the same few again and again
def _slot_of(name: str) -> Slot:
    node, _, index = name.rpartition("/")
    return Slot(node, int(index))


def node_of(slot: str) -> str:
    """The node of a slot, by its name."""
    return slot.rpartition("/")[0]


@dataclass(frozen=True, slots=True)
class RunningBundle:
    """The threads of a fragment on one slot: what one Spark query executes there.

    ``weight`` is its part of the fragment's events. A bundle of weight 0 is leaving: it gets no more events, reads its
    waiting ones to the end, and a later plan drops it.

    A moved bundle has an id of its own, and goes on exactly where the last bundle that it ``inherits`` from ended, on
    the node ``origin`` if that is another. Its parts and channels stay those of the first bundle of that line,
    ``root``.

    In a fragment that is divided by key, ``key_ranges`` are the bundle's ranges of the ring (the first key group and
    the number of groups of each), or were until it was to leave; its weight is their planned part of the events. A
    bundle that begins with keys of other bundles, at new parts and channels, ``inherits`` from these and has no
    ``root``. ``takes`` names the ranges by bundle; without it they are all of its own ranges of each. A bundle that
    gives keys away leaves, or works on with its other keys: the states of given keys stay with it, and no longer count.
    """

    id: str  # of the same shape as a fragment's, and never reused either
    slot: str  # Slot.name
    threads: int = 1
    weight: float = 1.0
    root: str = ""
    inherits: tuple[str, ...] = ()
    origin: str = ""
    key_ranges: tuple[tuple[int, int], ...] = ()
    takes: tuple[tuple[str, tuple[tuple[int, int], ...]], ...] = ()

    @property
    def leaving(self) -> bool:
        return self.weight == 0

    @property
    def key_groups(self) -> int:
        """The number of key groups its ranges have."""
        return sum(size for _, size in self.key_ranges)

    @property
    def takes_keys(self) -> bool:
        """True if it begins with the states of its keys that others of its fragment leave."""
        return bool(self.inherits and self.key_ranges and not self.root)

    @property
    def taken(self) -> Mapping[str, tuple[tuple[int, int], ...]]:
        """By predecessor bundle: the key ranges whose states it takes from that bundle."""
        return {**dict.fromkeys(self.inherits, self.key_ranges), **dict(self.takes)} if self.takes_keys else {}

    @property
    def part(self) -> str:
        """The name of the parts of streams that it reads, and of the channels that it writes."""
        return self.root or self.id


@lru_cache(maxsize=10_000)
def _whole(fragment_id: str, slot: str) -> tuple[RunningBundle, ...]:
    """The bundle of a fragment that no schedule divides."""
    return (RunningBundle(fragment_id, slot),)


@dataclass(frozen=True, slots=True)
class Fragment:
    """A chain of running tasks that one Spark query executes on one slot, or several where it is divided.

    ``tasks`` go upstream first; only the first may have several parents. ``outlets`` are the tasks whose stream is
    public: a task id to its readers, fragment ids. ``active`` is how many tasks, from the first, work; the valve holds
    back what would go on (paper [1], 4.3). The next ``resting`` ones belong to paused dataflows and go on when those
    are resumed, with the state that they have; nobody needs those behind any more, and they never work again.

    ``inherits`` are the fragments whose work this one goes on with, upstream first: it begins with their state exactly
    where they ended, and ``channels`` says which of its streams stay in a channel of theirs (a task id to a channel
    id). ``origin`` is the node of the last of them, where that is another.

    ``joins`` says where it begins in a stream that it has not read before, by parent task: ``now`` (if not said),
    ``oldest`` (the oldest event that the channel still holds), or a time in ms since the epoch.

    ``bundles`` are the parts that a schedule divides it into, one at least, each a query of its own with its part of
    the events; their weights add up to 1. One of a new fragment has the fragment's id: it goes on with the work of
    those that the fragment inherits from. Without them the fragment is one query under its own id.

    ``team`` is that of the dataflow that brought it, by its short name (`tenancy`); empty in plans of older versions.
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
    origin: str = ""
    team: str = ""

    def __post_init__(self) -> None:
        for name in ("outlets", "channels", "joins"):
            object.__setattr__(self, name, _frozen(getattr(self, name)))

    @property
    def active_tasks(self) -> tuple[str, ...]:
        return self.tasks[: self.active]

    @property
    def kept_tasks(self) -> tuple[str, ...]:
        """The tasks that work and those that rest."""
        return self.tasks[: self.active + self.resting]

    @property
    def paused(self) -> bool:
        """True if none of it works: it keeps its state, and its places in the channels that it reads are given up."""
        return self.active == 0

    @property
    def divided(self) -> bool:
        """True if a schedule says how many threads it has where: it reads its part of a stream, not the whole."""
        return bool(self.bundles)

    def placed(self, slot_of: Callable[[RunningBundle], str]) -> Fragment:
        """The same with its queries on other slots."""
        moved = tuple(replace(bundle, slot=slot_of(bundle)) for bundle in self.queries)
        return replace(self, slot=moved[0].slot, bundles=moved if self.divided else ())

    @property
    def divided_by_key(self) -> bool:
        """True if each of its bundles has some of its keys."""
        return any(bundle.key_ranges for bundle in self.bundles)

    def ring(self, by: tuple[str, ...], *, ahead_ms: int | None = None) -> Ring:
        """The ring that divides its streams by these columns, where they are divided by key; who has a part is told
        marks where ``ahead_ms`` says how (`Ring`)."""
        return Ring(
            by, {token: bundle.part for bundle in self.bundles if not bundle.leaving for token, _ in bundle.key_ranges},
            leaving=tuple(bundle.part for bundle in self.bundles if bundle.leaving), ahead_ms=ahead_ms)

    def before(self, bundle: RunningBundle) -> tuple[RunningBundle, ...]:
        """The bundles of the fragment whose keys a bundle of it continues, and those before them."""
        bundles = {other_bundle.id: other_bundle for other_bundle in self.bundles}
        givers, waiting = {}, list(bundle.inherits)
        while waiting:
            other_bundle = bundles.get(waiting.pop())
            if other_bundle is not None and other_bundle.id not in givers:
                givers[other_bundle.id] = other_bundle
                waiting += other_bundle.inherits
        return tuple(givers.values())

    @property
    def far_takers(self) -> tuple[tuple[RunningBundle, RunningBundle], ...]:
        """Its bundles that take keys of others on another node, each with such a giver: their states go there."""
        bundles = {bundle.id: bundle for bundle in self.bundles}
        return tuple(
            (bundles[name], bundle) for bundle in self.bundles if bundle.takes_keys for name in bundle.taken
            if name in bundles and node_of(bundles[name].slot) != node_of(bundle.slot))

    @property
    def queries(self) -> tuple[RunningBundle, ...]:
        """Its queries: a bundle each, or itself as one where no schedule divides it."""
        return self.bundles or _whole(self.id, self.slot)

    def channels_of(self, task_id: str) -> tuple[str, ...]:
        """The channels that together carry the stream of one of its tasks, one for each bundle."""
        return tuple(self.channel_by(bundle, task_id) for bundle in self.queries)

    def channel_by(self, bundle: RunningBundle, task_id: str) -> str:
        """The channel that one of its queries writes the stream of a task to."""
        taken_over = self.channels.get(task_id)
        if taken_over and bundle.part == self.id:
            return taken_over
        return channel_id(bundle.part, self.tasks.index(task_id))

    def inherited_by(self, bundle: RunningBundle) -> tuple[tuple[str, ...], str]:
        """The predecessors of one of its queries, and the node of the last of them where that is another."""
        return (self.inherits, self.origin) if bundle.id == self.id else (bundle.inherits, bundle.origin)

    def channel_of(self, task_id: str) -> str:
        """The channel that carries the stream of one of its tasks: its own, or one taken over.

        Of a divided one its first bundle's: `channels_of` has them all.
        """
        return self.channels_of(task_id)[0]


def divided_among(fragments: Iterable[Fragment], slots: Collection[str]) -> tuple[Fragment, ...]:
    """The working fragments that a schedule has put on any of these slots."""
    return tuple(
        fragment for fragment in fragments
        if not fragment.paused and any(bundle.slot in slots for bundle in fragment.bundles))


def part_id(channel: str, reader: str) -> str:
    """One bundle's part of a divided stream: a channel of its own, which that bundle alone reads."""
    return f"{channel}@{reader}"


def channel_id(fragment_id: str, position: int) -> str:
    """The channel that carries the stream of a fragment's ``position``-th task (0-based)."""
    return f"{fragment_id}.{position}"
