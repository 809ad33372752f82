"""The lines between an agent and its slots: what a slot may say, and what it may keep its agent from doing. No Spark.

A slot runs code of teams: code that breaks out of an expression can write any line. So a line has a bounded length, and
its content a type and a size; other lines are ignored. A slot that does not read its lines counts as hanging, because
nobody waits for it.
"""

from __future__ import annotations

import json
import os
import select
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import IO, Any

from pydantic_core import from_json

from scheduler.contracts.codec import Codec, InvalidContract
from scheduler.contracts.moments import LATEST_MS
from scheduler.contracts.reports import LEFT, QUERY_REPORTS, ConnectorReport, SinkReport
from workers.engine.agents.reconciling.reconcile import FragmentState
from workers.engine.retried import AWAY, RETRYING, RUNNING, STARTING, THROTTLED

MOST_BYTES = 8 << 20
BURST, BYTES_PER_S = 16 << 20, 2 << 20  # of lines: far more than what a slot with many queries says
MOST_EVENTS, MOST_EVENT = 100, 65_536  # of a line, and characters of each (JSON): the broker keeps a thousand of all
MOST_NAME, MOST_TEXT = 200, 10_000  # characters of an event's names, and of what it says in words, which is cut
LONGEST_GAP_MS = 2**31 - 1  # as it is stored
LARGEST = 2**63 - 1
TAKES_S = 5.0  # by then a slot that works has taken what it is told: its pipe alone has room for thousands of pokes


class UnreadableLine(Exception):
    """A line is none of those that a slot writes."""


@dataclass(frozen=True, slots=True)
class SlotSaying:
    """A report of a slot, a spare or the connector host on itself."""

    state: str = "starting"
    refused: str = ""
    idle: bool = False
    heap_mb: float | None = None
    spark_page: str = ""  # where Spark's own pages are, with their key: for the agent alone
    fragments: Mapping[str, Any] = field(default_factory=dict)
    connectors: Mapping[str, Any] = field(default_factory=dict)
    sinks: Mapping[str, Any] = field(default_factory=dict)
    events: tuple[Mapping[str, Any], ...] = ()


_SAYINGS, _PULSES = Codec(SlotSaying), Codec(int)
_PARTS = {"fragments": QUERY_REPORTS, "connectors": Codec(ConnectorReport), "sinks": Codec(SinkReport)}
_QUERY_STATES = frozenset({*map(str, FragmentState), LEFT})
_CONNECTOR_STATES = frozenset({STARTING, RUNNING, THROTTLED, AWAY, RETRYING})
# What states there are: another word would be on pages, and in metrics a series for each.
_STATES = {"fragments": _QUERY_STATES, "connectors": _CONNECTOR_STATES, "sinks": _CONNECTOR_STATES}


def lines_of(stream: IO[bytes], *, most_bytes: int = MOST_BYTES) -> Iterator[bytes]:
    """Lines of a process, each with its end; what is longer than a line may be comes empty."""
    while line := stream.readline(most_bytes):
        if line.endswith(b"\n") or len(line) < most_bytes:
            yield line
            continue
        while line and not line.endswith(b"\n"):
            line = stream.readline(most_bytes)
        yield b""


def paced(
    lines: Iterable[bytes], *, monotonic_s: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] = time.sleep,
) -> Iterator[bytes]:
    """The same lines, of a process that says much no faster than `BYTES_PER_S`, once it has said `BURST` bytes at once:
    it waits with the next one, for its pipe is full. Reading a line of 8 MiB takes a core for a good while."""
    room, before_s = float(BURST), monotonic_s()
    for line in lines:
        now_s = monotonic_s()
        room, before_s = min(BURST, room + (now_s - before_s) * BYTES_PER_S) - len(line), now_s
        if room < 0:
            sleep(-room / BYTES_PER_S)
        yield line


def read_line(line: bytes) -> dict[str, Any]:
    """The content of a line: a ``pulse``, an ``answer``, a secret to ``open``, or a slot's report on itself.

    Of that, a query, source, sink or event of which something else is said than there is to say is left out.

    Raises
    ------
    UnreadableLine
        It is none of these.
    """
    try:
        message = from_json(line)
        if not isinstance(message, dict):
            raise UnreadableLine("it is no object")
        if "pulse" in message:
            return {"pulse": min(max(0, _PULSES.read(message["pulse"])), LARGEST)}
        if "answer" in message or "open" in message:
            return message
        report = _SAYINGS.document(_SAYINGS.read(message))
    except (ValueError, InvalidContract) as error:
        raise UnreadableLine(str(error)[:200]) from None
    if not _is_modest(report["heap_mb"]):
        report["heap_mb"] = None
    for part, codec in _PARTS.items():
        documents = ((name, _document(codec, document)) for name, document in report[part].items())
        report[part] = {
            name: document for name, document in documents if document and document["state"] in _STATES[part]}
    report["events"] = [event for event in map(_cut, report["events"][:MOST_EVENTS]) if _is_event(event)]
    return report


def takes(stream: IO[bytes], line: bytes, *, within_s: float = TAKES_S) -> bool:
    """Write a line to a process; False where it did not take it in time, and has perhaps had a part of it.

    Raises
    ------
    OSError
        It has ended.
    """
    number, deadline_s = stream.fileno(), time.monotonic() + within_s
    os.set_blocking(number, False)
    waiting = select.poll()
    waiting.register(number, select.POLLOUT)
    while line:
        try:
            line = line[os.write(number, line):]
        except BlockingIOError:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                return False
            waiting.poll(1000 * left_s)
    return True


def _is_event(event: Mapping[str, Any]) -> bool:
    """Whether an event has the fields of its kind, as its receiver expects them; the agent adds the node."""
    needed = {"kind", "at_ms", *_NEEDED.get(str(event.get("kind")), ())}
    return needed <= event.keys() and "node" not in event and _is_modest(event) and all(
        is_one(event[name]) for name, is_one in _FACTS.items() if name in event) and len(json.dumps(event)) < MOST_EVENT


def _cut(event: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value[:MOST_TEXT] if isinstance(value, str) else value for name, value in event.items()}


def _is_text(message: Any) -> bool:
    return isinstance(message, str)


def _is_name(message: Any) -> bool:
    return isinstance(message, str) and len(message) <= MOST_NAME


def _is_time(message: Any) -> bool:
    return type(message) is int and 0 <= message <= LATEST_MS


def _is_time_or_none(message: Any) -> bool:
    return message is None or _is_time(message)


_FACTS: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("kind", "fragment", "task", "slot"), _is_name), **dict.fromkeys(("error", "what"), _is_text),
    "at_ms": _is_time, "gap_ms": lambda message: _is_time(message) and message <= LONGEST_GAP_MS,
    **dict.fromkeys(("retry_at_ms", "kept_since_ms"), _is_time_or_none),
    "between_nodes": lambda message: isinstance(message, bool),
    "from_": lambda message: isinstance(message, list) and all(map(_is_name, message))}
_NEEDED = {
    "handed_over": ("fragment", "gap_ms", "from_"), "fragment_failed": ("fragment", "error"),
    "joined_late": ("fragment", "kept_since_ms"), "sink_found_otherwise": ("fragment", "what")}


def _document(codec: Codec[Any], message: Any) -> dict[str, Any] | None:
    """A line's content as the contract has it, with fields that the contract lacks; None for anything else."""
    try:
        return {**message, **codec.document(codec.read(message))} if _is_modest(message) else None
    except (InvalidContract, TypeError):
        return None


def _is_modest(value: Any) -> bool:
    """Whether all numbers are some, and can be stored and added up with others."""
    if isinstance(value, Mapping):
        return all(map(_is_modest, value.values()))
    if isinstance(value, list | tuple):
        return all(map(_is_modest, value))
    return not isinstance(value, int | float) or abs(value) <= LARGEST
