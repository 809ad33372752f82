"""Instructions on the broker: channels, their readers, and control hashes. Like all of them (``instructions.py``) they
decide nothing, and have everything resolved.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from scheduler.contracts.offsets import Offset
from scheduler.contracts.partitioning import Partitioning

# -- channels ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OpenChannel:
    """Open the channel of the stream at a position, whatever was left there to expire."""

    channel: str
    position: int  # its schema is known once the chain is compiled
    keep_events: int = 0


@dataclass(frozen=True, slots=True)
class OpenPart:
    """Open a part of a divided stream, with its reader's place, before anything is written there.

    It is named after a bundle; its reader is that, or one that goes on with its work.
    """

    part: str
    position: int
    bundle: str
    reader: str
    predecessors: tuple[str, ...] = ()


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
    """Use again a channel that was left to expire."""

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
    partitioning: Partitioning
    channel: str
    from_batch: int | None = None
    instead: bool = False


@dataclass(frozen=True, slots=True)
class SetAlternate:
    """Let an alternate work at a dynamic task, as ``Channels.switch`` does; and for its keys those that were chosen for
    the running task ``task``, where it is named."""

    position: int
    name: str
    from_batch: int | None = None
    task: str = ""


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
class MarkReady:
    """The bundle has taken its keys over, or has rows of them: its writers may divide by the new ring."""


@dataclass(frozen=True, slots=True)
class ComeBack:
    """The fragment is started, and writes again, whether it had left or not."""


@dataclass(frozen=True, slots=True)
class KeepMeters:
    """Meters that were left to expire are used again."""


@dataclass(frozen=True, slots=True)
class ForgetFragment:
    """The control hash goes, and the meters after a while: what the JVM counted last arrives within the second.

    Of one that only ``stood_by`` the control stays that it was given to go on with from a copy.
    """

    stood_by: bool = False


@dataclass(frozen=True, slots=True)
class Withdraw:
    """Take back what the fragment left, unless one of another node has claimed it."""


@dataclass(frozen=True, slots=True)
class Resume:
    """Let the fragment's sources plan batches again."""


@dataclass(frozen=True, slots=True)
class SetPace:
    """Let batches begin so far apart, from the next one on."""

    interval_ms: int


@dataclass(frozen=True, slots=True)
class BeginRanges:
    """From now on the fragment records where its batches end, and its inputs are kept from these offsets on, for those
    who go on from a copy of its state; where it does so already, nothing changes."""

    place: str
    offsets: Mapping[str, Offset]
    streams: Mapping[str, str] = field(default_factory=dict)  # where it reads several: by channel, whose that is


@dataclass(frozen=True, slots=True)
class KeepInputs:
    """Keep these channels from these offsets on, too, before the fragment reads there, where it records ranges."""

    offsets: Mapping[str, Offset]
    streams: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ForgetRanges:
    """No copy of the fragment's state is gone on with any more, and nothing is kept for one in these channels: it goes
    on elsewhere than behind its last batch, or is removed."""

    channels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RestRanges:
    """The fragment rests behind so many batches: of the copies of its state those of the last one count, and nothing is
    recorded behind their ``place``, which is said once the pause is recorded: till then it may be taken back."""

    place: str | None
    batches: int


BrokerInstruction = (
    OpenChannel | OpenPart | ClosePart | PassPart | Join | Unregister | Commit | Persist | Expire | DeleteChannel
    | OpenValve | CloseValve | SetTail | SetPace | SetRoute | SetAlternate | DropRoute | Activate | Resume | DropControl
    | MarkReady | MarkLeft | ComeBack | KeepMeters | ForgetFragment | Withdraw | BeginRanges | KeepInputs
    | ForgetRanges | RestRanges
)
