"""Runner: one live source on a thread of its own, from its position on, for as long as it is wanted.

It opens the source where the broker says that it was left, and writes what it gives, each block with the position after
it. Whatever fails, it begins again from there: after a second at first, then less and less often.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import redis

from scheduler.contracts.reports import ConnectorReport
from scheduler.model.errors import WeirError
from workers.engine.retried import RUNNING, THROTTLED, Retried, now_ms
from workers.engine.sealed_secrets import redacted

from .contract import Opening, Position, Reader, SourceAway
from .formats import MessageLayout, decode
from .intake import Closed, IntakeStore, SourceOvertaken

POLL_S = 1.0  # how long a quiet source is waited for at a time: a stop is noticed within that
REST_S = 0.2  # while the channel is full


@dataclass(frozen=True, slots=True)
class HostedSource:
    """A live source to run: the running task, how its messages are read, how many dead letters are kept, what opens
    it (None for one that is pushed to), what gives its config with the values of its secrets, and the node that reads
    it."""

    task: str
    layout: MessageLayout
    keep_dead: int
    open: Callable[[Opening], Reader] | None
    config: Callable[[], Mapping[str, Any]]
    node: str = ""


class Runner(Retried):
    """Runs one source, once ``start`` was called, until ``stop``."""

    def __init__(
        self, source: HostedSource, store: IntakeStore, *, token: int, on_event: Callable[..., None] = lambda *_,
        **__: None
    ) -> None:
        super().__init__(source.task, kind="connector", on_event=on_event)
        self.source = source
        self.token = token
        self._store = store
        self._for_good = False
        self._position: Position | None = None  # as it is written
        self.is_overtaken = False  # another node has taken the source
        self.has_given = False  # events, or what could not be read

    def stop(self, *, for_good: bool = False) -> None:
        """Ask it to end; ``for_good`` where nobody will read on from its position."""
        self._for_good = for_good
        super().stop()

    def report(self) -> ConnectorReport:
        """The report of the source: state, since when, and error."""
        return ConnectorReport(
            state=self._state, since_ms=self._since_ms, error=self._error or None, retry_at_ms=self._retry_at_ms,
            restarts=self._restarts)

    # -- on the thread -------------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        """Read the source until asked to stop."""
        source, store = self.source, self._store
        if self._restarts:
            self.token = store.take_token(source.task, node=source.node)
        state = store.state(source.task)
        if source.open is None:  # it is pushed to: there is nothing to do but be open
            self._become(RUNNING)
            self._stopping.wait()
            return
        reader = source.open(Opening(source.task, source.config(), state.position))
        try:
            seq, self._position = state.seq, state.position
            if state.position is None and (begin := reader.position()) is not None:
                # Before anything is read: what comes until the first block is not skipped by a start anew.
                store.write(
                    source.task, decode((), source.layout, now_ms=0), source.layout, first=seq, now_ms=now_ms(),
                    token=self.token, position=begin)
            self._become(RUNNING)
            while not self._stopping.is_set():
                if store.is_full(source.task):
                    self._become(THROTTLED)
                    reader.rest(REST_S)
                    continue
                self._become(RUNNING)
                seq += self._take(reader, seq)
        finally:
            with suppress(Exception):
                reader.close(for_good=self._for_good)

    def _take(self, reader: Reader, seq: int) -> int:
        """One poll and what came of it; how many events it gave."""
        polled = reader.poll(POLL_S)
        if not polled.messages and not polled.lost and polled.position in (None, self._position):
            return 0
        at_ms = now_ms()
        decoded = decode(polled.messages, self.source.layout, now_ms=at_ms)
        self._store.write(
            self.source.task, decoded, self.source.layout, first=seq, now_ms=at_ms, token=self.token,
            position=polled.position, keep_dead=self.source.keep_dead, lost=polled.lost)
        self._position = polled.position or self._position
        self.has_given = True
        reader.written()
        return len(decoded.rows)

    def _fail(self, error: BaseException, *, ran_ms: int) -> None:
        self.is_overtaken = isinstance(error, SourceOvertaken)
        super()._fail(error, ran_ms=ran_ms)

    def _words_of(self, error: BaseException) -> str:
        return words_of(error)

    def _is_away(self, error: BaseException) -> bool:
        return isinstance(error, SourceAway)


def words_of(error: BaseException) -> str:
    """An error in words, for the people whose source it is, without secrets."""
    return redacted(_words(error))


def _words(error: BaseException) -> str:
    match error:
        case WeirError():
            return error.full_message
        case redis.RedisError():
            return "The broker does not answer."
        case SourceOvertaken():
            return "Another node runs this source."
        case Closed():
            return "The source's channel is gone; it is opened again."
        case _:
            return f"{type(error).__name__}: {str(error)[:300]}"
