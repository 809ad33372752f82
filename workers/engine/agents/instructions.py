"""Instructions: what is to be done to one fragment, with everything resolved. They decide nothing.

``decisions.py`` makes them of a snapshot; the actuators of queries, records and the broker do them, in their order. The
order counts: a slot may die between any two, and what has been done by then must be safe to find.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from scheduler.contracts.desired import Outlets, Routes, WantedFragment, Weights
from scheduler.contracts.offsets import Offset
from scheduler.contracts.savepoints import RestorePoint, Savepoint, States

from .reconcile import Action, State

# -- the query and its state -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Show:
    """The fragment is in that state from now on."""

    state: State


@dataclass(frozen=True, slots=True)
class Wait:
    """What the fragment needs is not there yet: it is looked at again then."""

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
    """Record the whole chain, then compile it."""

    whole: WantedFragment


@dataclass(frozen=True, slots=True)
class Launch:
    """Start the query that was compiled. ``poll_ms`` is how often Spark asks its sources."""

    poll_ms: int
    outlets: Outlets
    routes: Routes
    active: int
    is_resumed: bool


@dataclass(frozen=True, slots=True)
class StopQuery:
    """Stop the query between two batches."""

    kept: bool | None = None  # for the log of a fragment that is removed from the slot


@dataclass(frozen=True, slots=True)
class KillQuery:
    """Stop a query at once that an earlier stop did not bring to its end."""


@dataclass(frozen=True, slots=True)
class HoldQuery:
    """Bring the query to rest between two batches; it is resumed when the action is over."""


@dataclass(frozen=True, slots=True)
class Resume:
    """Let the fragment's sources plan batches again."""


@dataclass(frozen=True, slots=True)
class SetPace:
    """Let batches begin so far apart, from the next one on."""

    interval_ms: int


@dataclass(frozen=True, slots=True)
class InForce:
    """These outlets, routes, tail or pace are in force from now on, or asked for; None for what stays as it is."""

    outlets: Outlets | None = None
    routes: Routes | None = None
    active: int | None = None
    trigger_ms: int | None = None


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
    """Record what the fragment begins with, of these predecessors: from now on it has begun."""

    restore_point: RestorePoint
    predecessors: tuple[str, ...]


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
class DropSavepoint:
    """The fragment has not ended for others, or nobody needs what it left."""


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
    """What the fragment leaves is this slot's to remove, though it may never have been started here."""

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


# -- channels ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OpenChannel:
    """Open the channel of the stream at a position, whatever was left there to expire."""

    channel: str
    position: int  # its schema is known once the chain is compiled
    keep_events: int = 0


@dataclass(frozen=True, slots=True)
class OpenPart:
    """Open a part of a divided stream, with its reader's place, before anything is written there."""

    part: str
    position: int
    bundle: str


@dataclass(frozen=True, slots=True)
class ClosePart:
    """Nobody reads a part any more; the batch under way may still be written there."""

    part: str
    position: int
    bundle: str


@dataclass(frozen=True, slots=True)
class PassPart:
    """A part belongs to the fragment that goes on writing its stream."""

    part: str
    position: int
    heir: str


@dataclass(frozen=True, slots=True)
class Join:
    """Register a reader where it asks to begin, unless one of its predecessors still reads."""

    channel: str
    reader: str
    where: str = "now"
    predecessors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Unregister:
    """Remove a reader from a channel; for good where it must never be registered there again."""

    channel: str
    reader: str
    for_good: bool = False


@dataclass(frozen=True, slots=True)
class Commit:
    """A reader is done with everything up to an offset."""

    channel: str
    offset: Offset


@dataclass(frozen=True, slots=True)
class Persist:
    """What was left to expire is used again."""

    channel: str


@dataclass(frozen=True, slots=True)
class Expire:
    """A channel goes by itself after some time."""

    channel: str
    after_s: int


@dataclass(frozen=True, slots=True)
class DeleteChannel:
    """A channel goes at once."""

    channel: str


# -- the control hash --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OpenValve:
    """Publish a stream from the batch that is given on, or from the one after the next with events."""

    position: int
    from_batch: int | None = None


@dataclass(frozen=True, slots=True)
class CloseValve:
    """Publish a stream no longer, from the next batch on."""

    position: int


@dataclass(frozen=True, slots=True)
class SetTail:
    """Let only the first tasks work, from a batch on; all where none is given."""

    active: int | None
    from_batch: int | None = None


@dataclass(frozen=True, slots=True)
class SetRoute:
    """Divide a stream for a reader, as ``Channels.route`` does."""

    position: int
    reader: str
    weights: Weights
    channel: str
    from_batch: int | None = None
    instead: bool = False


@dataclass(frozen=True, slots=True)
class DropRoute:
    """Divide a stream no longer for a reader."""

    position: int
    reader: str


@dataclass(frozen=True, slots=True)
class Activate:
    """Put every change in force with the batch after this one, which is done."""

    done_batch: int


@dataclass(frozen=True, slots=True)
class DropControl:
    """Delete fields of the control hash: boundaries are batches of a checkpoint that is gone."""

    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MarkLeft:
    """The bundle has stopped for good: its writers and readers treat that as final."""


@dataclass(frozen=True, slots=True)
class ComeBack:
    """The fragment is started, and writes again, whether it had left or not."""


@dataclass(frozen=True, slots=True)
class KeepMeters:
    """Meters that were left to expire are used again."""


@dataclass(frozen=True, slots=True)
class ForgetFragment:
    """The control hash goes, and the meters after a while: what the JVM counted last arrives within the second."""


QueryInstruction = (
    Show | Wait | RetryAt | Stopped | Compile | Launch | StopQuery | KillQuery | HoldQuery | InForce | LookAtRoutes
)
RecordInstruction = (
    TakeOver | RecordBegun | RecordEnded | DropSavepoint | RecordPause | RecordLeft | RecordChain | TakeOn
    | ClearCheckpoint | RemoveCheckpoint | MarkRemoved | ForgetRecord
)
BrokerInstruction = (
    OpenChannel | OpenPart | ClosePart | PassPart | Join | Unregister | Commit | Persist | Expire | DeleteChannel
    | OpenValve | CloseValve | SetTail | SetPace | SetRoute | DropRoute | Activate | Resume | DropControl | MarkLeft
    | ComeBack | KeepMeters | ForgetFragment
)
Instruction = QueryInstruction | RecordInstruction | BrokerInstruction | Again | Release | Gone
Instructions = tuple[Instruction, ...]
