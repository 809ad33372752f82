"""The contract of a connector: it opens a source where it was left, and gives its messages with the place after them.

A task type names its connector as ``"package.module:function"``, a callable ``(Opening) -> Reader``. The runner
(``source_runner.py``) does the rest: it decodes, writes blocks with their position, waits where the channel is full,
and tries again where the source is away.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from scheduler.model.errors import WeirError

MOST_MESSAGES = 2_000  # that one poll gives: they become one block
MOST_BYTES = 4 << 20  # that one poll gives, but for the last message
LINGER_S = 0.03  # how long a poll that has some waits for more

Position = Mapping[str, Any]  # JSON: where a source is to be read on


class SourceAway(WeirError):
    """The source does not answer; it is tried again."""

    code = "source_away"


class SourceRefused(WeirError):
    """The source answers and gives nothing: no such topic or table, wrong credentials. Tried again, less and less."""

    code = "source_refused"


@dataclass(frozen=True, slots=True)
class Message:
    """A piece of a source's input: one event, or several in formats that hold several.

    ``place``: its origin, for people who look at unreadable messages: “orders[3] at 1234”; ``values``: in place of
    ``body``, from sources with columns of their own; ``extras``: values that the config includes besides;
    ``partition``: the part of the source that it comes from, if order is kept only within parts, each of which has its
    own mark (``workers.library.watermarks``); ``at_ms``: its time, for a message whose content has none.
    """

    body: bytes = b""
    place: str = ""
    values: Mapping[str, Any] | None = None
    extras: Mapping[str, Any] | None = None
    partition: str = ""
    at_ms: int | None = None


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message that could not be read, with the reason; ``sample`` is the beginning of it."""

    reason: str
    place: str = ""
    sample: bytes = b""


@dataclass(frozen=True, slots=True)
class Polled:
    """Messages of one poll, in order, and the position after it.

    ``position``: None if the source has none, or if it is unchanged; one that changed without messages is stored as
    well. ``lost``: the events that the source no longer had when they were due.
    """

    messages: Sequence[Message] = ()
    position: Position | None = None
    lost: Sequence[DeadLetter] = ()


@dataclass(frozen=True, slots=True)
class Opening:
    """The arguments with which a connector opens a source: the running task, its config with defaults and with the
    values of its secrets, and the position after the last block; None where nothing was read yet."""

    task: str
    config: Mapping[str, Any]
    position: Position | None = None


class LookAt(Protocol):
    """A function that looks at a source that does not run: the one beside the connector's, ``look_at_kafka`` beside
    ``open_kafka``. A connector without one shows nothing before it runs.

    It leaves the other system as it was: no position, session or group of the source's own is used or kept. Its
    opening has a name of its own for ``task``, and no position.
    """

    def __call__(self, opening: Opening, count: int) -> Iterator[Polled]:
        """The newest events, up to ``count`` or some more, the oldest of them first.

        The first ``Polled``, with or without messages, says that the source has answered. Without events it goes on
        waiting, and gives ``Polled()`` at least every second; after the events it ends. Raises as a ``Reader`` does.
        """
        ...


class Reader(Protocol):
    """A source that is open. One thread calls it. Methods raise ``SourceAway`` or ``SourceRefused``."""

    def position(self) -> Position | None:
        """The position at which it begins; None where the source has no positions."""
        ...

    def poll(self, timeout_s: float) -> Polled:
        """Up to ``MOST_MESSAGES`` messages, of ``MOST_BYTES`` or little more in all; waits for the first at most
        ``timeout_s``."""
        ...

    def written(self) -> None:
        """All that polls have given is written: a source that keeps it until then may let it go."""
        ...

    def rest(self, timeout_s: float) -> None:
        """Wait without taking anything, while the channel is full; keep the connection where that needs care."""
        ...

    def close(self, *, for_good: bool) -> None:
        """Let go. ``for_good``: nobody will read on, so that the other side need keep nothing."""
        ...
