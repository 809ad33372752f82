"""Sinks as the broker keeps them: who each is outside, how far it has come, what was refused, what people asked for.

How far a sink has come is the other system's to say, where it can. What stands here lets pages show it, and lets
channels be freed; it may be behind by what was written last.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import redis

from scheduler.contracts.offsets import START, Offset
from workers.engine.channels import block_codec, keys, scripts
from workers.engine.channels.channel_config import CAPACITY_BLOCKS
from workers.engine.channels.channel_registry import Channels
from workers.engine.channels.spill import SpilledBlock
from workers.engine.connector_leases import ConnectorLeases
from workers.engine.letters import KeptLetter

KEPT_S = 24 * 3600  # for which all of a sink stays that nobody wants any more: as long as its channel
SAMPLE_CHARACTERS = 2_000
LETTER_STEP = 1_000_000  # a letter's number in its block: the block's own, times this, and its row


@dataclass(frozen=True, slots=True)
class SinkStanding:
    """The state of a sink: the last block that is outside (``START`` for none), how many events were written and
    refused, how many wait, since when the oldest of these does (ms since the epoch), how many are kept that were
    written and the time of the oldest of those, and when something was written last."""

    position: Offset = START
    events: int = 0
    refused: int = 0
    waiting: int = 0
    waiting_since_ms: int | None = None
    kept: int = 0
    kept_since_ms: int | None = None
    at_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Order:
    """An order to a sink: to write again what is kept, ``refused`` events, or else all ``since_ms``."""

    what: str
    since_ms: int | None = None


@dataclass(frozen=True, slots=True)
class KeptBlock:
    """A block that is outside, and kept to be written again: its entry, events, and when it was written (ms)."""

    offset: Offset
    events: int
    written_ms: int


class SinkStore:
    """Sinks in the broker."""

    def __init__(self, broker: redis.Redis) -> None:
        self._broker = broker
        self.channels = Channels(broker)
        self.leases = ConnectorLeases(broker, state=keys.sink, leased=keys.sinks)

    # -- life ----------------------------------------------------------------------------------------------------------

    def open(
        self, channel: str, *, node: str, task: Mapping[str, Any], life: str = "", by_force: bool = False
    ) -> str | None:
        """Begin a sink, or go on with it; its life: what tells it outside from all others. None where another node
        holds it.

        Parameters
        ----------
        task : mapping
            Its task as JSON, so that what is in the channel is written also when nobody wants the sink any more.
        life : str, optional
            The life that the node has on its disk, for a broker that has lost it.
        """
        if not self.leases.take(channel, node, by_force=by_force):
            return None
        state = keys.sink(channel)
        pipeline = self._broker.pipeline(transaction=True)
        pipeline.hsetnx(state, "life", life or uuid.uuid4().hex)
        pipeline.hset(state, "task", json.dumps(task))
        pipeline.hget(state, "life")
        for key in (state, keys.refused(channel), keys.sink_orders(channel)):
            pipeline.persist(key)
        return pipeline.execute()[2].decode()

    def restored(self, channel: str) -> Offset | None:
        """The end of the channel at its restoration from a copy; None without one, or once `settle` is done."""
        text = self._broker.hget(keys.sink(channel), "restored")
        return None if text is None else Offset(text.decode())

    def settle(self, channel: str, *, is_new: bool) -> str:
        """Give a sink whose channel was restored a new life, or leave it the old one; the life's id."""
        pipeline = self._broker.pipeline(transaction=True)
        if is_new:
            pipeline.hset(keys.sink(channel), "life", uuid.uuid4().hex)
        pipeline.hdel(keys.sink(channel), "restored")
        pipeline.hget(keys.sink(channel), "life")
        return (pipeline.execute()[-1] or b"").decode()

    def leave(self, channel: str, *, node: str) -> None:
        """Nobody wants it any more, and all is written: what stands here goes with its channel, unless another node
        has taken it."""
        whole = (keys.sink(channel), keys.refused(channel), keys.sink_orders(channel))
        self.leases.end(channel, node, whole=whole, after_s=KEPT_S)

    def left(self, node: str) -> dict[str, dict[str, Any]]:
        """The tasks of the sinks that a node has begun and not left, by channel."""
        channels = sorted(self.leases.names(node))
        tasks = {channel: self._broker.hget(keys.sink(channel), "task") for channel in channels}
        return {channel: _task_in(task) for channel, task in tasks.items()}

    def schema(self, channel: str) -> str | None:
        """The schema of its events, as Spark has it; None while the channel is not open."""
        text = self._broker.hget(keys.meta(channel), "schema")
        return None if text is None else text.decode()

    # -- what is written -----------------------------------------------------------------------------------------------

    def position(self, channel: str) -> Offset:
        """The last block outside, as far as it is known here: at least the sink's offset in its channel."""
        pipeline = self._broker.pipeline(transaction=False)
        pipeline.hget(keys.sink(channel), "position").hget(keys.readers(channel), keys.SINK)
        return max((Offset(text.decode()) for text in pipeline.execute() if text), default=START)

    def place(self, channel: str) -> Offset:
        """The entry behind which the channel's blocks begin."""
        text = self._broker.hget(keys.readers(channel), keys.SINK)
        return Offset(text.decode()) if text else START

    def wait(self, channel: str, *, after: Offset, most: int, timeout_ms: int) -> list[SpilledBlock]:
        """Blocks behind an entry, fewer where they are large; waits for the first of them."""
        answer = self._broker.xread({keys.channel(channel): after}, count=1, block=timeout_ms)
        first = [_entry(entry, fields) for _, entries in answer or () for entry, fields in entries]
        return [*first, *self.channels.entries(channel, after=first[-1].offset, count=most - 1)] if first else []

    def note(
        self, channel: str, *, position: Offset, taken: int, passed: int, now_ms: int, committed: Offset,
        kept_blocks: Sequence[KeptBlock]
    ) -> None:
        """Note that all up to a block is outside, and let go of what is not kept to be written again.

        Parameters
        ----------
        taken, passed : int
            The number of events that were taken since, and that of those taken or refused.
        """
        pipeline = self._broker.pipeline(transaction=True)
        state = keys.sink(channel)
        pipeline.hset(state, mapping={
            "position": position, "kept": sum(block.events for block in kept_blocks),
            "kept_since": kept_blocks[0].written_ms if kept_blocks else "", **({"at": now_ms} if taken else {})})
        pipeline.hincrby(state, "events", taken)
        pipeline.hincrby(state, "passed", passed)
        if self._broker.hexists(keys.meta(channel), "capacity"):
            # What is kept takes no room from what waits.
            pipeline.hset(keys.meta(channel), "capacity", CAPACITY_BLOCKS + len(kept_blocks))
        pipeline.execute()
        self.channels.commit(channel, keys.SINK, committed)

    def standing(self, channel: str) -> SinkStanding:
        """The state of the sink."""
        pipeline = self._broker.pipeline(transaction=False)
        pipeline.hmget(keys.sink(channel), ["position", "events", "refused", "passed", "kept", "kept_since", "at"])
        pipeline.hget(keys.meta(channel), "events").hget(keys.readers(channel), keys.SINK)
        (position, events, refused, passed, kept_events, kept_since_ms, at_ms), written, committed = pipeline.execute()
        reached = Offset((position or committed or START.encode()).decode())
        waiting = max(0, int(written or 0) - int(passed or 0))
        since_ms = None
        if waiting:
            first = self._broker.xrange(keys.channel(channel), min=f"({reached}", max="+", count=1)
            since_ms = int(first[0][1][b"t"]) if first else None
        return SinkStanding(
            reached, int(events or 0), int(refused or 0), waiting if since_ms is not None else 0, since_ms,
            int(kept_events or 0), int(kept_since_ms) if kept_since_ms else None, int(at_ms) if at_ms else None)

    # -- what is refused -----------------------------------------------------------------------------------------------

    def refuse(self, channel: str, letters: Sequence[tuple[SpilledBlock, int, str, pa.Table, bytes]], *, keep: int,
               now_ms: int) -> int:
        """Keep events that the other system refused, each once, however often a batch is repeated; how many are new.

        Parameters
        ----------
        letters : sequence of tuple
            In their order: the block, the row in it, the reason, the event as a table of one row, and as JSON.
        """
        arguments: list[Any] = [keep, now_ms]
        for entry, row, reason, event, sample in letters:
            block, n = entry.offset.split("-")
            arguments += [
                f"{block}-{int(n) * LETTER_STEP + row}", reason, f"block {entry.offset}, row {row}",
                sample[:SAMPLE_CHARACTERS], block_codec.encode_block(event.combine_chunks().to_batches()[0])]
        return int(scripts.run(self._broker, "refuse", [keys.refused(channel), keys.sink(channel)], arguments))

    def letters(self, channel: str, *, count: int = 50) -> list[KeptLetter]:
        """The newest events that were refused, newest first."""
        entries = self._broker.xrevrange(keys.refused(channel), count=count)
        return [KeptLetter.of(*entry) for entry in entries]

    def all_letters(self, channel: str) -> list[KeptLetter]:
        """Every event that is kept as refused, oldest first."""
        return [KeptLetter.of(*entry) for entry in self._broker.xrange(keys.refused(channel))]

    def taken(self, channel: str, letters: Collection[KeptLetter]) -> None:
        """Events that had been refused, and are outside now."""
        if letters:
            pipeline = self._broker.pipeline(transaction=True)
            pipeline.xdel(keys.refused(channel), *(letter.id for letter in letters))
            pipeline.hincrby(keys.sink(channel), "refused", -len(letters))
            pipeline.hincrby(keys.sink(channel), "events", len(letters))
            pipeline.execute()

    # -- what people ask for -------------------------------------------------------------------------------------------

    def ask(self, channel: str, order: Order) -> None:
        """Ask a sink to write again what is kept."""
        self._broker.rpush(keys.sink_orders(channel), json.dumps({"what": order.what, "since_ms": order.since_ms}))

    def oldest_order(self, channel: str) -> Order | None:
        """The oldest order that is not done yet."""
        text = self._broker.lindex(keys.sink_orders(channel), 0)
        if text is None:
            return None
        order = json.loads(text)
        return Order(order["what"], order["since_ms"])

    def done(self, channel: str) -> None:
        """The oldest order is done."""
        self._broker.lpop(keys.sink_orders(channel))


def _task_in(text: bytes | None) -> dict[str, Any]:
    """A sink's task; empty where it is none: hosts of other nodes write there, too."""
    with suppress(ValueError, RecursionError):
        task = json.loads(text or b"{}")
        kinds = {"id": str, "type": str, "config": dict}
        if isinstance(task, dict) and {name: type(value) for name, value in task.items()} == kinds:
            return task
    return {}


def _entry(entry: bytes, fields: Mapping[bytes, bytes]) -> SpilledBlock:
    return SpilledBlock(Offset(entry.decode()), int(fields[b"n"]), int(fields[b"t"]), fields[b"b"])
