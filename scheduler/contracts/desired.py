"""Desired state: what a node should run, by slot; written by the site, read by the node's agent."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import NamedTuple

from scheduler.model.behind import SPILL
from scheduler.model.dataflow import Task
from scheduler.model.fragment import channel_id
from scheduler.model.ring import Ring
from scheduler.model.saved_states import SavedTask

from .codec import Codec, InvalidContract
from .partitioning import Quota, partitioning_of

DEFAULT_TRIGGER_MS = 500
# Of what is named so there are files, and folders that are removed: no name leads out of theirs, or is a pattern.
_NAME = re.compile(r"(?!\.)[^/\0\n*?\[\]]{1,200}")

Outlets = Mapping[int, frozenset[str]]  # position in the chain -> fragments that read there
Routes = Mapping[int, Mapping[str, Quota | Ring]]  # position in the chain -> divided fragment that reads there -> how


@dataclass(frozen=True, slots=True)
class Input:
    """A channel that a fragment reads, and the running task whose stream it carries.

    It is ``ending`` where its writer is leaving: a reader that has not begun need not wait for it. It is ``shared``
    where dataflows that do not need the reader need its writer: then a slow reader must not hold it back for long.
    ``when_behind`` says what becomes of it then (`scheduler.model.behind`), and ``teams`` are those that need it. It
    comes ``after`` other channels whose keys its writer goes on with: those are read to their end before it.
    """

    channel: str
    task: str
    ending: bool = field(default=False, compare=False)
    shared: bool = field(default=False, compare=False)
    when_behind: str = field(default=SPILL, compare=False)
    teams: tuple[str, ...] = field(default=(), compare=False)
    after: tuple[str, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        _require_names(self.channel, self.task)


class ChannelWriter(NamedTuple):
    """The writer of a channel: a fragment, the position of the task, and the divided fragment that it is routed for."""

    fragment: str
    position: int
    reader: str


@dataclass(frozen=True, slots=True)
class WantedFragment:
    """One fragment as it should be, or one bundle of a divided one: what one query runs.

    Inputs of the same task are one stream that comes in several channels. ``inherits`` are the fragments whose work it
    goes on with, ``channels`` (by position) those of theirs that it goes on writing. ``heirs`` are its readers that go
    on with the work of others, and of which; ``joins`` says, by position, where a reader begins that does not begin
    at the newest event. ``outlets`` are readers of the whole stream, ``routes`` those that are divided;
    ``part_readers`` says who reads a part that is named after another, whose work it goes on with. A bundle that is
    ``leaving`` reads what it has to its end, and goes: ``writers`` says who wrote it. One with ``key_ranges`` (the
    first group of each, and how many) begins with the states of the keys there, out of what all that it inherits
    from have left, or of those ranges that it ``takes`` of each: they read what they have of these keys to its end,
    and it reads parts of its own; of ``remote_givers`` the states come from other nodes. It leaves a part of each of
    these named ``savepoints`` while it works. Of tasks in ``restores`` it begins with what a named savepoint has:
    states, and the next number of its source.
    """

    id: str
    tasks: tuple[Task, ...]
    inputs: tuple[Input, ...] = ()
    outlets: Outlets = field(default_factory=dict)
    active: int = 1  # how many tasks, from the first, work; with 0 the fragment is paused
    trigger_ms: int = DEFAULT_TRIGGER_MS  # between the micro-batches of its query, or the groups of an open batch
    inherits: tuple[str, ...] = ()
    origin: str = ""  # the node of the last that it inherits from, where that is another
    channels: Mapping[int, str] = field(default_factory=dict)
    heirs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    joins: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    threads: int = 1
    routes: Routes = field(default_factory=dict)
    part_readers: Mapping[str, str] = field(default_factory=dict)  # by the bundle that the part is named after
    leaving: bool = False
    key_ranges: tuple[tuple[int, int], ...] = ()
    takes: Mapping[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)  # where it is not all of its own
    remote_givers: tuple[str, ...] = ()  # of those whose keys it takes
    writers: Mapping[str, ChannelWriter] = field(default_factory=dict)  # by channel
    real_time: bool = False  # its batches stay open, where its chain can be worked on so
    alternates: Mapping[int, str] = field(default_factory=dict)  # position of a dynamic task -> `warm_up.working`
    savepoints: tuple[str, ...] = ()
    restores: Mapping[str, SavedTask] = field(default_factory=dict)  # by running task

    def __post_init__(self) -> None:
        _require_names(
            self.id, *(task.id for task in self.tasks), *self.inherits, *self.channels.values(), *self.heirs,
            *chain.from_iterable(self.heirs.values()), *self.takes, *self.remote_givers, *self.savepoints)
        outlets = {position: frozenset(readers) for position, readers in self.outlets.items() if readers}
        object.__setattr__(self, "outlets", outlets)
        object.__setattr__(self, "routes", {
            position: {reader: partitioning_of(how) for reader, how in readers.items()}
            for position, readers in self.routes.items()})

    @property
    def paused(self) -> bool:
        """True if it keeps its state and does nothing."""
        return self.active == 0

    @property
    def taken(self) -> Mapping[str, tuple[tuple[int, int], ...]]:
        """The taken key ranges, by fragment that it inherits from: the ranges whose states it takes; none where it
        takes no keys."""
        return {**dict.fromkeys(self.inherits, self.key_ranges), **self.takes} if self.key_ranges else {}

    @property
    def written(self) -> tuple[str, ...]:
        """The channel of each of its streams."""
        return tuple(self.channel(position) for position in range(len(self.tasks)))

    def channel(self, position: int) -> str:
        """The channel of the stream that leaves the task at ``position``."""
        return self.channels.get(position) or channel_id(self.id, position)

    @property
    def streams(self) -> tuple[tuple[str, ...], ...]:
        """Its inputs: for each stream its channels."""
        channels: dict[str, list[str]] = {}
        for item in self.inputs:
            channels.setdefault(item.task, []).append(item.channel)
        return tuple(tuple(group) for group in channels.values())

    def reader_of(self, part: str) -> str:
        """The reader of the parts of its streams that are named after a bundle."""
        return self.part_readers.get(part, part)

    def readers_of(self, part: str) -> tuple[str, ...]:
        """The readers of the parts of its streams that are named after a bundle, and those before it."""
        reader = self.reader_of(part)
        return (reader, *self.heirs.get(reader, ()))

    def predecessors(self, readers: Iterable[str]) -> frozenset[str]:
        """The fragments whose work these readers continue."""
        return frozenset(name for reader in readers for name in self.heirs.get(reader, ()))


@dataclass(frozen=True, slots=True)
class WantedSlot:
    """The desired fragments of one slot, upstream first."""

    fragments: tuple[WantedFragment, ...] = ()


@dataclass(frozen=True)
class DesiredState:
    """The desired state of a node: fragments by slot; and, by slot, those that end for others.

    Of two states of one ``version`` the one with the higher ``revision`` is newer: settings alone have changed.
    ``remote_heirs`` are, by node, the fragments of other nodes that go on with the work of this one's; ``takers`` those
    that only take keys of this one's bundles, with what they take here and nothing else of them. ``handing_over``
    is the agent's own: fragments that are no longer wanted, and that others inherit from. ``kept_savepoints`` are the
    named savepoints of which the node keeps its parts; it deletes others'. None: it was told nothing of them.
    """

    version: int = 0
    node: str = ""
    generation: int = 0
    slots: Mapping[str, WantedSlot] = field(default_factory=dict)
    remote_heirs: Mapping[str, tuple[WantedFragment, ...]] = field(default_factory=dict)
    takers: tuple[WantedFragment, ...] = ()
    handing_over: Mapping[str, tuple[WantedFragment, ...]] = field(default_factory=dict)
    revision: int = 0
    kept_savepoints: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        _require_names(*self.slots, *self.handing_over, *(self.kept_savepoints or ()))

    @property
    def order(self) -> tuple[int, int]:
        """The order of states of one node."""
        return self.version, self.revision

    def of_slot(self, slot: str) -> tuple[WantedFragment, ...]:
        """The desired fragments of one slot."""
        return self.slots[slot].fragments if slot in self.slots else ()

    @cached_property
    def wanted(self) -> Mapping[str, WantedFragment]:
        """The desired fragments of the node, by id."""
        return {fragment.id: fragment for slot in self.slots.values() for fragment in slot.fragments}

    @cached_property
    def outgoing(self) -> Mapping[str, WantedFragment]:
        """The fragments that the node is to finish for their heirs, by id."""
        return {fragment.id: fragment for fragments in self.handing_over.values() for fragment in fragments}

    @cached_property
    def heirs_elsewhere(self) -> Mapping[str, WantedFragment]:
        """The fragments of other nodes that go on with the work of this one's, by fragment id."""
        return {fragment.id: fragment for fragments in self.remote_heirs.values() for fragment in fragments}

    def is_from_elsewhere(self, fragment: WantedFragment) -> bool:
        """True if a fragment goes on with the work of those of another node than this."""
        return fragment.origin not in ("", self.node)

    def elsewhere(self, slot: str) -> frozenset[str]:
        """Fragments that another slot of this node should run: leaving here, they keep their checkpoint."""
        return frozenset(
            fragment.id for name, desired in self.slots.items() if name != slot for fragment in desired.fragments)


def _require_names(*names: str) -> None:
    for name in names:
        if _NAME.fullmatch(name) is None:
            raise InvalidContract(
                f"{name[:80]!r} is no name of a query, channel, task, slot or savepoint.",
                remedy="Look where the state folder or the back-up comes from: no version of Weir makes such a name.")


# Agents of earlier versions ask for these, though they may be empty.
_ALWAYS = frozenset({
    "version", "node", "generation", "slots", "fragments", "inputs", "outlets", "active", "trigger_ms"})
DESIRED_STATES = Codec(DesiredState, sparse=True, always=_ALWAYS)
WANTED_FRAGMENTS = Codec(WantedFragment, sparse=True, always=_ALWAYS)


def made_in(fragment_id: str) -> int:
    """The generation of the estate in which a fragment or bundle was planned; 0 where its id does not say so."""
    generation = re.match(r"f(\d+)-", fragment_id)
    return int(generation[1]) if generation else 0
