"""Facts about a channel: the values of its keys in the broker."""

from __future__ import annotations

from dataclasses import dataclass, field

from scheduler.contracts.offsets import START, Offset

from . import keys

LIMIT, SPILL, SKIP, LOSE = keys.limit(""), keys.spill(""), keys.skip(""), keys.lose("")
LOST_EVENTS = keys.lost("", "events")


@dataclass(frozen=True, slots=True)
class Skip:
    """A step of a reader over blocks that it gave up: a batch that begins at ``entry`` reads what follows ``to``."""

    entry: Offset
    to: Offset

    def after(self, offset: Offset) -> Offset:
        """The entry behind which a reader reads on, by the entry that its checkpoint is at."""
        return self.to if self.entry <= offset < self.to else offset


@dataclass(frozen=True, slots=True)
class OnDisk:
    """Blocks and events that a node has on disk for a reader: those after an entry, up to another."""

    after: Offset
    reach: Offset
    blocks: int = 0
    events: int = 0


@dataclass(frozen=True, slots=True)
class Lost:
    """Blocks and events that a reader gave up so far."""

    blocks: int
    events: int


@dataclass(frozen=True, slots=True)
class ChannelInfo:
    """The state of a channel. Entry ids are ``<batch + 1>-<n>``. ``rejected`` counts the writes that were refused, and
    ``duplicates`` those of them that repeated a batch. ``readers`` are the offsets that readers have committed;
    ``limits`` the last entries for readers whose place in the channel ends, or has ended, for good; ``spills`` those up
    to which a reader's node has on disk what it has not read. ``skips`` are the last steps of readers over what they
    gave up, ``lost`` is how much that was in all; ``losing`` are the readers that were asked to give up more. Blocks of
    a live source usually have ``block_bytes``."""

    channel: str
    schema_json: str | None
    blocks: int
    capacity: int
    retain: int
    fence: int
    last: Offset
    trimmed: Offset
    rejected: int
    duplicates: int
    readers: dict[str, Offset]
    limits: dict[str, Offset] = field(default_factory=dict)
    spills: dict[str, Offset] = field(default_factory=dict)
    skips: dict[str, Skip] = field(default_factory=dict)
    lost: dict[str, Lost] = field(default_factory=dict)
    losing: frozenset[str] = frozenset()
    block_bytes: int = 0

    def reads_on_after(self, reader: str, offset: Offset) -> Offset:
        """The entry behind which a reader reads on, by the entry that its checkpoint is at: behind what it gave up."""
        skip = self.skips.get(reader)
        return offset if skip is None else skip.after(offset)

    @property
    def holders(self) -> dict[str, Offset]:
        """By reader, the entry behind which it holds blocks back here: its node has on disk what is before. What copies
        of a reader's state keep holds no live source back."""
        is_live = keys.is_intake(self.channel)
        return {reader: max(offset, self.spills.get(reader, offset)) for reader, offset in self.readers.items()
                if not is_live or keys.copied_by(reader) == reader}

    @property
    def filling(self) -> int:
        """The number of blocks that take room: those that a live source keeps for copies do not (``lua/trim.lua``)."""
        if not keys.is_intake(self.channel) or not self.holders:
            return self.blocks
        return min(self.blocks, max(0, self.last.block - min(self.holders.values()).block))

    @property
    def is_full(self) -> bool:
        """True where whoever writes it must wait."""
        return self.filling > self.capacity + self.retain


def info_of(channel: str, meta: dict, blocks: int, readers: dict) -> ChannelInfo | None:
    """A channel by its hashes and the number of its blocks; None where it is not open."""
    meta, readers = texts(meta), texts(readers)
    if "capacity" not in meta:
        return None
    return ChannelInfo(
        channel=channel, schema_json=meta.get("schema"), blocks=blocks, capacity=int(meta["capacity"]),
        retain=int(meta.get("retain", 0)), fence=int(meta.get("fence", 0)), last=Offset(meta.get("last", START)),
        trimmed=Offset(meta.get("trimmed", START)), rejected=int(meta.get("rejected", 0)),
        duplicates=int(meta.get("duplicates", 0)), readers={reader: Offset(entry) for reader, entry in readers.items()},
        limits={name.removeprefix(LIMIT): Offset(entry) for name, entry in meta.items() if name.startswith(LIMIT)},
        spills={name.removeprefix(SPILL): Offset(entry) for name, entry in meta.items() if name.startswith(SPILL)},
        skips={
            name.removeprefix(SKIP): Skip(*map(Offset, entries.split())) for name, entries in meta.items()
            if name.startswith(SKIP)},
        lost={
            reader: Lost(int(meta.get(keys.lost(reader, "blocks"), 0)), int(events)) for name, events in meta.items()
            if name.startswith(LOST_EVENTS) for reader in (name.removeprefix(LOST_EVENTS),)},
        losing=frozenset(name.removeprefix(LOSE) for name in meta if name.startswith(LOSE)),
        block_bytes=int(meta.get("block", 0)),
    )


def texts(mapping: dict) -> dict[str, str]:
    """A hash as text."""
    return {
        (name.decode() if isinstance(name, bytes) else name): (value.decode() if isinstance(value, bytes) else value)
        for name, value in mapping.items()
    }
