"""The contract of a connector out: it opens another system, tells how far it has come there, and writes batches.

A sink's task type names its connector as ``writer="package.module:function"``, a callable ``(SinkOpening) -> Writer``.
The runner (``sink_runner.py``) does the rest: it reads the sink's channel, puts blocks together, keeps what is refused,
waits and tries again where the other system is away, and tells how far it is behind.

Exactly once is the writer's: it writes a batch and its last block in one step of the other system, so that whoever
opens it next is told by that system where to go on. One that was overtaken by another raises ``Overtaken``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from scheduler.contracts.offsets import Offset
from scheduler.model.errors import WeirError

REASON_CHARACTERS = 500


class SinkAway(WeirError):
    """The other system does not answer; it is tried again."""

    code = "sink_away"


class SinkRefused(WeirError):
    """The other system answers and takes nothing: no such table or topic, wrong credentials, a column that is missing.
    Tried again, less and less."""

    code = "sink_refused"


class Overtaken(Exception):
    """Another writes for this sink: the other system has come further than this writer knows of."""


@dataclass(frozen=True, slots=True)
class RefusedRow:
    """An event that the other system does not take: its place in the batch, and why, of which the beginning is kept."""

    row: int
    reason: str

    def __post_init__(self) -> None:
        # The other system says it, and the broker keeps it for each event.
        object.__setattr__(self, "reason", self.reason[:REASON_CHARACTERS])


Refuse = Callable[[Sequence[RefusedRow]], None]


@dataclass(frozen=True, slots=True)
class Batch:
    """Events to be written all or none, but for those that are refused.

    ``after`` is the last block before them, ``until`` their own last one. A batch that is written ``again`` because
    somebody asked for it does not move the place that the other system keeps.
    """

    rows: pa.Table
    after: Offset
    until: Offset
    again: bool = False


@dataclass(frozen=True, slots=True)
class Batching:
    """The sizes of a sink's batches: a batch has ``most_events`` and ``most_bytes`` at most, but for its last block,
    and waits until it has these or its oldest block is ``linger_s`` old."""

    linger_s: float = 0.0
    most_events: int = 10_000
    most_bytes: int = 8 << 20


@dataclass(frozen=True, slots=True)
class SinkOpening:
    """The arguments with which a connector opens a sink.

    ``sink`` is the name by which the other system tells this sink from all others, of any installation; it stays as
    long as the sink runs. ``config`` has defaults and the values of its secrets. ``columns`` are those of its events;
    ``known_offset`` is how far Weir believes that it has come. What is on the node's own disk goes below ``folder``.
    """

    sink: str
    task: str
    config: Mapping[str, Any]
    columns: Sequence[str]
    known_offset: Offset
    folder: Path = field(default_factory=Path)


class Writer(Protocol):
    """Another system that is open; one thread calls it. Methods raise ``SinkAway``, ``SinkRefused``, ``Overtaken``. No
    message names a host or holds a secret: whoever may see the dataflow reads it.

    A writer may have a ``notice``: a sentence on what it found otherwise than it was left, for the dataflow's page."""

    batching: Batching

    def position(self) -> Offset | None:
        """The last block in the other system, by that system's own record; None if it keeps no record."""
        ...

    def write(self, batch: Batch, refuse: Refuse) -> None:
        """Write a batch. ``refuse`` is told of what is not taken before the rest is in force."""
        ...

    def rest(self) -> None:
        """Nothing is to be written for now: keep the connection where that needs care."""
        ...

    def close(self) -> None:
        """Let go."""
        ...


@dataclass(frozen=True, slots=True)
class Sink:
    """A sink to run: its task and channel, the name by which it is known outside, how many events are kept that were
    written and that were refused, what opens it, what gives its config with the values of its secrets, and the folder
    for what is on the node's own disk."""

    task: str
    channel: str
    name: str
    keep_events: int
    keep_refused: int
    open: Callable[[SinkOpening], Writer]
    config: Callable[[], Mapping[str, Any]]
    folder: Path
