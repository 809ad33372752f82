"""Intake: a live source as the broker keeps it. Its channel, its position, its numbers, and what could not be read.

A block is written together with the position after it, by one script, so that whatever dies between two blocks goes on
exactly there. Whoever takes a new fencing token is the only one that writes; pushes (``http_ingest``) need none: each
takes the next numbers, and is told where another was first.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import redis

from scheduler.model.bounds import DEAD_LETTERS
from workers.engine.channels import block_codec, keys, scripts
from workers.engine.channels.channel_config import CAPACITY_BLOCKS, LIVE_CAPACITY_BYTES
from workers.engine.channels.channel_registry import Channels
from workers.engine.connector_leases import ConnectorLeases
from workers.engine.letters import KeptLetter
from workers.engine.slot_values import answers_of

from .contract import DeadLetter, Position
from .formats import Decoded, MessageLayout

PLACE_CHARACTERS = 300
READERS = "readers"  # in the state: every fragment that has read the source


class Full(Exception):
    """The channel has no room: whoever pushes must wait."""


class Paused(Exception):
    """Nobody reads the source now: its dataflows are paused, or start only."""


class SourceOvertaken(Exception):
    """Another writes this source now: a host that took its token later, or a push that was first."""


class KeyUsed(Exception):
    """The idempotency key was taken by something else."""


class Closed(Exception):
    """The source is not open."""


@dataclass(frozen=True, slots=True)
class Intake:
    """The state of a live source: the number of its next event, where it is to be read on, when its last event came (ms
    since the epoch), how much could not be read, and whether its channel is open."""

    seq: int = 0
    position: Position | None = None
    at_ms: int | None = None
    dead: int = 0
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class OnceOnly:
    """A note that makes a repetition of a write do nothing, for a day: its idempotency key, the digest of what came,
    and what is answered then (JSON). Without an answer the key is looked up and not kept: what came is refused."""

    key: str = ""
    digest: str = ""
    answer: str = ""


class IntakeStore:
    """Live sources in the broker."""

    def __init__(self, broker: redis.Redis) -> None:
        self._broker = broker
        self._channels = Channels(broker)
        self.leases = ConnectorLeases(broker, state=keys.connector, leased=keys.hosted)

    # -- life ------------------------------------------------------------------------------------------------------

    def open(
        self, task: str, layout: MessageLayout, *, known_readers: Collection[str], node: str = "",
        by_force: bool = False
    ) -> int | None:
        """Open the channel of a source and take its token; None where another node holds the source.

        Its blocks are numbered from the present time on, so that no checkpoint of an earlier life, however far it had
        come, is beyond them.

        Parameters
        ----------
        known_readers : collection of str
            The fragments that it is read by, was, or whose work those go on with. A source that none of them has read
            was somebody else's: nothing of it stays.
        by_force : bool
            Take it from another node that is not heard of.
        """
        channel = keys.intake(task)
        earlier = self.readers(task)
        if earlier and earlier.isdisjoint(known_readers):
            self.delete(task)
        if not self.leases.take(task, node, by_force=by_force):
            return None
        begin = f"{time.time_ns() // 1_000_000}-0"
        meta = keys.meta(channel)
        pipeline = self._broker.pipeline(transaction=True)
        pipeline.hsetnx(meta, "last", begin)
        pipeline.hsetnx(meta, "trimmed", begin)
        pipeline.execute()
        self._channels.open_channel(channel, schema_json=layout.schema_json, capacity=CAPACITY_BLOCKS)
        return self._channels.take_fence(channel)

    def take_token(self, task: str, *, node: str = "") -> int:
        """A new token: whoever wrote with an older one can write no more.

        ``SourceOvertaken`` where another node holds it.
        """
        token = self.leases.token(task, node, keys.meta(keys.intake(task)))
        if token is None:
            raise SourceOvertaken(f"another node than {node} holds {task}")
        return token

    def delete(self, task: str, *, node: str | None = None) -> bool:
        """Remove all of a source; with ``node`` only where no other has taken it."""
        channel = keys.intake(task)
        whole = [*(key(channel) for key in (keys.channel, keys.meta, keys.readers)),
                 keys.connector(task), keys.dead_letters(task), keys.posted(task), keys.answers(task)]
        if node is not None:
            return self.leases.end(task, node, whole=whole)
        self._broker.delete(*whole)
        return True

    def pass_on(self, task: str, *, node: str, to: str, heirs: Collection[str]) -> None:
        """Let another node read the source on.

        Parameters
        ----------
        heirs : collection of str
            The fragments that continue its readers there. They become known readers, so the source keeps its state.
        """
        self.know(task, heirs)
        self.leases.pass_on(task, node, to=to)

    def readers(self, task: str) -> frozenset[str]:
        """Every fragment that has read the source in its present life."""
        text = self._broker.hget(keys.connector(task), READERS)
        return frozenset(json.loads(text)) if text else frozenset()

    def know(self, task: str, readers: Collection[str]) -> None:
        """Remember these as readers of the source, if it exists."""
        before = self.readers(task)
        if not before.issuperset(readers) and self._broker.exists(keys.connector(task)):
            self._broker.hset(keys.connector(task), READERS, json.dumps(sorted({*before, *readers})))

    def join(self, task: str, reader: str, *, predecessors: Iterable[str] = ()) -> bool:
        """Give a reader its place, from now on; False while a predecessor is still registered."""
        self.know(task, [reader])
        joined = self._channels.join(keys.intake(task), reader, predecessors=predecessors)
        return joined.offset is not None

    def leave(self, task: str, reader: str) -> None:
        """Take a reader's place away: it is gone."""
        self._channels.unregister(keys.intake(task), reader)

    def registered(self, task: str) -> frozenset[str]:
        """Fragments that have a place in the channel now; what copies of their states need goes with them."""
        return frozenset(keys.copied_by(name.decode()) for name in self._broker.hkeys(keys.readers(keys.intake(task))))

    # -- what comes ------------------------------------------------------------------------------------------------

    def state(self, task: str) -> Intake:
        """The state of the source."""
        return self.states([task])[task]

    def states(self, tasks: Collection[str]) -> dict[str, Intake]:
        """The states of sources, in one round trip. A source whose channel is invalid counts as not open: slots write
        there."""
        pipeline = self._broker.pipeline(transaction=False)
        for task in tasks:
            pipeline.hmget(keys.connector(task), ["seq", "position", "at", "dead"])
            pipeline.hexists(keys.meta(keys.intake(task)), "capacity")
        answers = answers_of(pipeline)
        return {
            task: _intake(*(values or [None] * 4), is_open=bool(is_open))
            for task, values, is_open in zip(tasks, answers[::2], answers[1::2], strict=True)}

    def is_full(self, task: str) -> bool:
        """True where the channel has no room, for more blocks or for more bytes, or the broker is nearly full."""
        names = [key(keys.intake(task)) for key in (keys.channel, keys.meta, keys.readers)]
        return scripts.run(self._broker, "intake_room", names, [LIVE_CAPACITY_BYTES]) != b""

    def is_resting(self, task: str) -> bool:
        """True where nobody reads the source now, or it is not open."""
        return not self.registered(task) or not self.state(task).is_open

    def write(
        self, task: str, decoded: Decoded, layout: MessageLayout, *, first: int, now_ms: int, token: int | None = None,
        position: Position | None = None, once: OnceOnly = OnceOnly(), keep_dead: int = 1000,
        lost: Sequence[DeadLetter] = (),
    ) -> str | None:
        """Write events, dead letters and the position after them, all or nothing.

        Parameters
        ----------
        first : int
            The number of the first event: ``Intake.seq`` as the writer knows it.
        position : mapping, optional
            The position from which the source is to be read on; by default the present one.
        once : OnceOnly
            Makes a repetition of this write do nothing.
        keep_dead : int
            The number of the newest dead letters that are kept.
        lost : sequence of DeadLetter
            Messages that the source no longer had.

        Returns
        -------
        str or None
            None if it was written; the first answer if its key was used before ("" if that answer was not kept).

        Raises
        ------
        Full, Paused, SourceOvertaken, KeyUsed, Closed
            Nothing was written.
        """
        count = len(decoded.rows)
        block = block_codec.encode_block(
            decoded.block(layout, first=first, born_ms=now_ms, source=task)) if count else b""
        letters = [*lost, *decoded.dead]
        names = [
            *(key(keys.intake(task)) for key in (keys.channel, keys.meta, keys.readers)),
            keys.connector(task), keys.dead_letters(task), keys.posted(task), keys.answers(task)]
        arguments: list[Any] = [
            "" if token is None else token, first, count, block, now_ms,
            "" if position is None else json.dumps(position), once.key, keep_dead, len(letters), LIVE_CAPACITY_BYTES,
            once.digest, once.answer,
            *(part for letter in letters[-min(keep_dead, DEAD_LETTERS.most):]
              for part in (_text(letter.reason), _text(letter.place), letter.sample))]
        try:
            done = scripts.run(self._broker, "intake", names, arguments)
        except redis.ResponseError as error:
            raise _REFUSALS.get(str(error).partition(" ")[0], redis.ResponseError)(str(error)) from None
        return done.decode() if isinstance(done, bytes) else None

    def is_used(self, task: str, once: OnceOnly) -> bool:
        """True where a key was taken by something else."""
        before = self._broker.hget(keys.answers(task), once.key) if once.key else None
        return before is not None and not before.startswith(once.digest.encode())

    def letters(self, task: str, *, count: int = 50) -> list[KeptLetter]:
        """The newest dead letters, newest first."""
        entries = self._broker.xrevrange(keys.dead_letters(task), count=count)
        return [KeptLetter.of(*entry) for entry in entries]


def _intake(
    seq: bytes | None, position: bytes | None, at_ms: bytes | None, dead: bytes | None, *, is_open: bool
) -> Intake:
    return Intake(
        int(seq or 0), json.loads(position) if position else None, int(at_ms) if at_ms else None, int(dead or 0),
        is_open)


def _text(text: str) -> bytes:
    return text[:PLACE_CHARACTERS].encode(errors="replace")


_REFUSALS: dict[str, type[Exception]] = {
    "WEIRFULL": Full, "WEIRPAUSED": Paused, "WEIRFENCED": SourceOvertaken, "WEIRMOVED": SourceOvertaken,
    "WEIRUSED": KeyUsed,
    "WEIRCLOSED": Closed}
