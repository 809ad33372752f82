"""Logs: what the site asks of a node's agent to see the newest lines of the node's processes, and what it is told."""

from __future__ import annotations

from dataclasses import dataclass

from .codec import Codec

INFO, WARNING, ERROR = LEVELS = ("info", "warning", "error")  # the least serious first
LINES, MOST_LINES = 200, 1_000  # of an answer
SEARCHED = 200  # characters of what is searched for


@dataclass(frozen=True, slots=True)
class LogQuestion:
    """A question for log lines: of at least this ``level``, with this text in them whatever its case, the newest
    ``count``, behind ``after`` of an earlier answer."""

    level: str = INFO
    search: str = ""
    count: int = LINES
    after: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOrder(LogQuestion):
    """An order to a node for the log lines of some fragments.

    Those of running tasks (``tasks``), and of queries (``queries``) where a line names no task; or with ``process`` all
    that a process of the node writes (a slot's index, ``spare`` or ``connectors``).
    """

    id: str
    node: str
    queries: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    process: str = ""


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of a process of a node. ``at_ms``: when it was written, since the epoch; ``query`` and ``task``: its
    origin, as far as the line names it."""

    at_ms: int
    level: str
    process: str
    text: str
    query: str = ""
    task: str = ""


@dataclass(frozen=True, slots=True)
class LogAnswer:
    """Lines, the oldest first; ``after`` is where the next order goes on; ``left_out`` is how many older ones there
    were that were asked for, too."""

    lines: tuple[LogLine, ...] = ()
    after: str = ""
    left_out: int = 0


LOG_ORDERS = Codec(LogOrder)
LOG_ANSWERS = Codec(LogAnswer)
