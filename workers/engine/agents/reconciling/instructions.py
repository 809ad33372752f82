"""Instructions: what is to be done to one fragment, with everything resolved. They decide nothing.

``decisions.py`` makes them of a snapshot; the actuators of queries, records and the broker do them, in their order. The
order counts: a slot may die between any two, and what has been done by then must be safe to find.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from scheduler.contracts.desired import Outlets, Routes, WantedFragment
from scheduler.contracts.offsets import Offset
from scheduler.contracts.savepoints import RestorePoint, Savepoint, States

from .broker_instructions import BrokerInstruction
from .reconcile import Action, FragmentState

# -- the query and its state -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Show:
    """The fragment is in that state from now on."""

    state: FragmentState


@dataclass(frozen=True, slots=True)
class Wait:
    """Look at the fragment again then: its input is not there yet."""

    retry_at_ms: int


@dataclass(frozen=True, slots=True)
class RetryAt:
    """Nothing can be done yet; the query, if there is one, goes on."""

    at_ms: int


@dataclass(frozen=True, slots=True)
class Stopped:
    """The fragment is stopped; what is left to be done for it is tried again then."""

    retry_at_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Compile:
    """Record the whole chain, then compile it. The last ``unwanted`` of its tasks are there for a checkpoint alone."""

    whole: WantedFragment
    unwanted: int = 0


@dataclass(frozen=True, slots=True)
class StandBy:
    """Compile the whole chain, and start its query behind a gate; it asks its sources every ``poll_ms``."""

    whole: WantedFragment
    poll_ms: int


@dataclass(frozen=True, slots=True)
class Adopt:
    """The chain that stands by is the one to be started next, with its query, and with the readers that it has now."""

    whole: WantedFragment


@dataclass(frozen=True, slots=True)
class DropStandby:
    """Stop the query that stands by at once. Where it ``failed``, none does again."""

    failed: bool = False


@dataclass(frozen=True, slots=True)
class ReadChannels:
    """Record the chain that runs with other channels, which its query, at rest, reads from its next batch on."""

    whole: WantedFragment


@dataclass(frozen=True, slots=True)
class StayPaused:
    """The query that is held plans no batch any more, though the action ends."""


@dataclass(frozen=True, slots=True)
class Launch:
    """Start the query that was compiled, or let it begin where it stands by.

    ``poll_ms`` is how often Spark asks its sources."""

    poll_ms: int
    outlets: Outlets
    routes: Routes
    active: int
    is_resumed: bool


@dataclass(frozen=True, slots=True)
class StopQuery:
    """Stop the query between two batches."""

    keeps_state: bool | None = None  # for the log of a fragment that is removed from the slot


@dataclass(frozen=True, slots=True)
class KillQuery:
    """Stop a query at once that an earlier stop did not bring to its end."""


@dataclass(frozen=True, slots=True)
class HoldQuery:
    """Bring the query to rest between two batches; it is resumed when the action is over."""


@dataclass(frozen=True, slots=True)
class InForce:
    """These outlets, routes, tail, pace or alternates are in force from now on, or asked for; None for what stays as
    it is."""

    outlets: Outlets | None = None
    routes: Routes | None = None
    active: int | None = None
    trigger_ms: int | None = None
    alternates: Mapping[int, str] | None = None


@dataclass(frozen=True, slots=True)
class NoteEnds:
    """Keep in mind the last entries of channels, for ``subject``: up to there they are to be read before something."""

    subject: str
    ends: Mapping[str, Offset]


@dataclass(frozen=True, slots=True)
class LookAtRoutes:
    """All routes are in force, or they are looked at again then."""

    at_ms: int | None


@dataclass(frozen=True, slots=True)
class Again:
    """Look at the fragment again and decide on this action: what the steps before have brought about counts."""

    action: Action


@dataclass(frozen=True, slots=True)
class Release:
    """Let go of the fragment's lock: another slot may run it."""


@dataclass(frozen=True, slots=True)
class Gone:
    """The fragment is no longer this slot's."""


# -- records -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HandedState:
    """The state of a fragment's folds as a savepoint or a restore point gets it: Spark's after a batch (none for -1),
    or what the fold began with where no event has come to it since; of these tasks, or of all."""

    batch: int
    inherited: States = field(default_factory=dict)
    tasks: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class TakeOver:
    """Record what the fragment begins with, from these predecessors: from now on it has begun. With ``takes`` its
    states are those of the named ranges, by predecessor."""

    restore_point: RestorePoint
    predecessors: tuple[str, ...]
    takes: Mapping[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RecordBegun:
    """Record what the fragment goes on with; its state is read from its checkpoint where ``state`` is given."""

    restore_point: RestorePoint
    state: HandedState | None = None


@dataclass(frozen=True, slots=True)
class RecordEnded:
    """Record what the fragment leaves for others, with its state."""

    savepoint: Savepoint
    state: HandedState


@dataclass(frozen=True, slots=True)
class ReadState:
    """Keep the state of the fragment in mind, for ``RecordCopy`` or ``RecordSaved``."""

    state: HandedState


@dataclass(frozen=True, slots=True)
class RecordCopy:
    """Record the state that was read, and what else is said of it, as a copy that goes to other nodes: under these
    names, of heirs or of copies."""

    names: tuple[str, ...]
    savepoint: Savepoint = field(default_factory=Savepoint)


@dataclass(frozen=True, slots=True)
class RecordSaved:
    """Record the state that was read, with what else the fragment would leave, as its part of named savepoints."""

    savepoint: Savepoint
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RecordGiven:
    """Record the state that was read of the keys in these ranges, for an heir that takes these."""

    heir: str
    ranges: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class BringRows:
    """Bring the fragment's stores a round nearer to the rows of the keys that it ``takes``, by who has them."""

    takes: Mapping[str, tuple[tuple[int, int], ...]]
    now_ms: int


@dataclass(frozen=True, slots=True)
class DropSavepoint:
    """The fragment has not ended for others, or nobody needs what it left."""


@dataclass(frozen=True, slots=True)
class RecordStandby:
    """The fragment is to stand by, with these channels opened for that; its checkpoint says nothing until it begins."""

    channels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ForgetStandby:
    """The fragment does not stand by any more."""


@dataclass(frozen=True, slots=True)
class RecordPause:
    """The fragment is paused, or goes on."""

    paused: bool


@dataclass(frozen=True, slots=True)
class RecordLeft:
    """The bundle has left: all that it wrote is read."""


@dataclass(frozen=True, slots=True)
class RecordChain:
    """Record the chain that a checkpoint belongs to."""

    whole: WantedFragment


@dataclass(frozen=True, slots=True)
class TakeOn:
    """Make this slot remove what the fragment leaves, though it may never have been started here."""

    fragment: WantedFragment


@dataclass(frozen=True, slots=True)
class ClearCheckpoint:
    """Delete Spark's part of the checkpoint; the fragment goes on from what is recorded beside it."""


@dataclass(frozen=True, slots=True)
class RemoveCheckpoint:
    """Delete the checkpoint of another fragment that once had this id, and all beside it."""


@dataclass(frozen=True, slots=True)
class MarkRemoved:
    """Nobody wants the fragment: its checkpoint may go later."""


@dataclass(frozen=True, slots=True)
class ForgetRecord:
    """The slot's own record of the fragment goes."""


# -- all of them ------------------------------------------------------------------------------------------------------

QueryInstruction = (
    Show | Wait | RetryAt | Stopped | Compile | StandBy | Adopt | DropStandby | Launch | StopQuery | KillQuery
    | HoldQuery | ReadChannels | StayPaused | InForce | LookAtRoutes | NoteEnds
)
RecordInstruction = (
    TakeOver | RecordBegun | RecordEnded | ReadState | RecordCopy | RecordSaved | RecordGiven | BringRows
    | DropSavepoint | RecordStandby | ForgetStandby | RecordPause | RecordLeft | RecordChain | TakeOn
    | ClearCheckpoint | RemoveCheckpoint | MarkRemoved | ForgetRecord
)
Instruction = QueryInstruction | RecordInstruction | BrokerInstruction | Again | Release | Gone
Instructions = tuple[Instruction, ...]
