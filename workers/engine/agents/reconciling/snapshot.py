"""Snapshot: one fragment as it stands at one moment, with all that a decision about it may ask. Values only.

``observation.py`` makes it. Nothing is read later than this: what a decision does not find here it cannot count on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from scheduler.contracts.desired import DesiredState, WantedFragment
from scheduler.contracts.offsets import Offset
from scheduler.contracts.savepoints import RestorePoint, Savepoint
from scheduler.model.saved_states import SavedTask
from scheduler.model.task_types import TaskTypes
from workers.engine.channels.channel_info import ChannelInfo
from workers.engine.channels.control import Route, routes_of
from workers.engine.spark.compile import output_positions, written_positions

from ..node_files.checkpoint import CheckpointProgress
from .handover_stages import line
from .reconcile import Actual

READY = "ready"  # in a fragment's control hash: it has taken keys over, or has their rows and waits for the last ones
LEFT = "left"  # in a fragment's control hash: it has stopped for good, and writes nothing more

Control = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Records:
    """The records on disk of a fragment: the chain that made its checkpoint, this slot's own record of it,
    what it began with, how far it has come, and what it has done. What its checkpoint says while it stands by counts
    from when it begins."""

    chain: WantedFragment | None = None
    own_record: WantedFragment | None = None
    begun: RestorePoint | None = None
    progress: CheckpointProgress = field(default_factory=CheckpointProgress)
    has_begun: bool = False  # its checkpoint has planned a batch
    has_ended: bool = False
    is_paused: bool = False
    has_left: bool = False
    standby: tuple[str, ...] | None = None  # channels opened where it stands by, or did when its slot died

    @property
    def is_standby(self) -> bool:
        return self.standby is not None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One fragment, for one decision.

    Parameters
    ----------
    desired : DesiredState
        The desired state of the node: one state for the whole decision.
    since_ms : int
        The time since which the fragment is in its state, in ms since the epoch.
    running : WantedFragment
        The chain that runs, or ran last; of a fragment that was compiled, the whole chain.
    is_compiled, writes_files : bool
        True where the chain is compiled and its query is to be started next; and ends in a file sink of Spark's.
    standby : WantedFragment or None
        The chain of the query that stands by, where one does.
    standby_failed, may_stand_by : bool
        True where that query has failed; and where the fragment may stand by now.
    is_held : bool or None
        True where the query rests between two batches, until this action is over; None where that was not asked for.
    has_lock : bool
        True where this slot may run the fragment; another may still do.
    has_handover_lock : bool
        True where nobody else on the node takes over anything meanwhile.
    savepoints : Mapping[str, Savepoint]
        Savepoints of others that hand over, by fragment.
    saved : Mapping[SavedTask, Savepoint]
        The parts of named savepoints that it is to begin with, by what it takes of them.
    taken : frozenset[str]
        The fragments of other nodes that have begun with keys of this node's; only where the action asks for them.
    channels : Mapping[str, ChannelInfo]
        The channels that the action asks for, those that are open.
    controls : Mapping[str, Control]
        Control hashes that it asks for, by fragment; empty for one that is not there.
    due_after_ms : int or None
        The ms after its source's first number at which the next one is due; only for one that goes on after a pause, or
        begins with a named savepoint.
    rounds : tuple[int, ...]
        Characters that the last rounds of rows brought of the keys that it takes, in this life of its slot.
    brought_ms : int
        The time at which the last of them began, in ms since the epoch.
    is_ahead : bool
        True where all rows have come that go ahead from other nodes.
    ends : Mapping[str, Mapping[str, Offset]]
        Last entries of channels that it noted in this life of its slot, by what they are for: an heir or a channel.
    """

    now_ms: int
    desired: DesiredState
    actual: Actual
    task_types: TaskTypes = field(default_factory=dict)
    since_ms: int = 0
    running: WantedFragment = field(default_factory=lambda: WantedFragment("", ()))
    has_query: bool = False
    is_compiled: bool = False
    writes_files: bool = False
    standby: WantedFragment | None = None
    standby_failed: bool = False
    may_stand_by: bool = True
    is_held: bool | None = None
    has_lock: bool = True
    has_handover_lock: bool = False
    records: Records = field(default_factory=Records)
    savepoints: Mapping[str, Savepoint] = field(default_factory=dict)
    saved: Mapping[SavedTask, Savepoint] = field(default_factory=dict)
    taken: frozenset[str] = frozenset()
    channels: Mapping[str, ChannelInfo] = field(default_factory=dict)
    controls: Mapping[str, Control] = field(default_factory=dict)
    due_after_ms: int | None = None
    rounds: tuple[int, ...] = ()
    brought_ms: int = 0
    is_ahead: bool = True
    ends: Mapping[str, Mapping[str, Offset]] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return self.actual.id

    @property
    def control(self) -> Control:
        """The fragment's own control hash."""
        return self.controls.get(self.id, {})

    @property
    def routes_asked(self) -> Mapping[tuple[int, str], Route]:
        """Routes of its streams, as was asked for last."""
        return routes_of(self.control)

    def as_wanted(self) -> WantedFragment:
        """The whole chain that runs, with what is now said of its readers."""
        fragment = self.desired.wanted.get(self.id) or self.desired.outgoing.get(self.id)
        if fragment is None:
            return self.running
        return replace(
            self.running, heirs=fragment.heirs, joins=fragment.joins, routes=fragment.routes,
            part_readers=fragment.part_readers)

    def offset_registered(self, channel: str) -> Offset | None:
        """The offset that the broker has of the fragment in a channel that it reads: its place, or the end of that."""
        info = self.channels.get(channel)
        return None if info is None else info.readers.get(self.id) or info.limits.get(self.id)

    def predecessors_of(self, fragment: WantedFragment, reader: str) -> frozenset[str]:
        """All whose work a reader goes on with. One before its predecessors may still read, where plans came faster
        than they were enacted."""
        return line(self.desired, fragment.heirs.get(reader, ()))

    def outputs_of(self, fragment: WantedFragment) -> frozenset[int]:
        """Positions of named outputs: who reads one is not the engine's business. And of what connectors write."""
        return output_positions(fragment.tasks, self.task_types)

    def written_of(self, fragment: WantedFragment) -> frozenset[int]:
        """Positions of sinks that the connector host writes to another system."""
        return written_positions(fragment.tasks, self.task_types)
