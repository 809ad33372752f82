"""Parsing of a line of a process's log: when, how serious, whose it is. Pure.

Weir's own lines, Spark's (``workers/engine/spark/log4j2.properties``) and what a ``python`` task prints are JSON
objects with the same keys; all else, such as the last words of a JVM, is a text that is nobody's but the process's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from scheduler.contracts.logs import ERROR, INFO, WARNING, LogLine
from scheduler.model.positions import TURNS

LONGEST = 4_000  # characters of a line that are kept
_LEVELS = {
    "trace": INFO, "debug": INFO, "info": INFO, "warn": WARNING, "warning": WARNING, "error": ERROR,
    "critical": ERROR, "fatal": ERROR}
_THREAD = re.compile(r"stream execution thread for (\S+) \[id")  # Spark names it after the query
# What a terminal obeys, what turns the direction of text, and halves of characters, which JSON cannot hold.
_UNSHOWN = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f{TURNS}\ud800-\udfff]")
_TOLD_ELSEWHERE = {
    "event", "level", "timestamp", "node", "slot", "fragment", "task", "connector", "sink", "thread", "logger",
    "exception"}


def line_of(process: str, text: str, *, now_ms: int) -> LogLine:
    """The line that a process wrote, without its end; U+FFFD stands for what cannot be shown."""
    entry = _object(text)
    if entry is None:
        return LogLine(now_ms, INFO, process, _printable(text))
    query = _text(entry, "fragment")
    if not query and (thread := _THREAD.search(_text(entry, "thread"))):
        query = thread[1]
    level = _LEVELS.get(_text(entry, "level").lower(), INFO)
    return LogLine(_at_ms(entry, now_ms), level, process, _printable(_words(entry)), _printable(query),
                   _printable(_text(entry, "task")))


def _object(text: str) -> Mapping[str, Any] | None:
    if not text.startswith("{"):
        return None
    try:
        entry = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return entry if isinstance(entry, dict) and isinstance(entry.get("event"), str) else None


def _words(entry: Mapping[str, Any]) -> str:
    """What happened, with its facts, and an error's traceback below."""
    facts = [f"{name}={_fact(value)}" for name, value in entry.items() if name not in _TOLD_ELSEWHERE]
    first = ": ".join(filter(None, (_text(entry, "logger"), entry["event"])))
    exception = _text(entry, "exception").strip()
    return "\n".join(filter(None, (" ".join([first, *facts]).rstrip(), exception)))


def _printable(text: str) -> str:
    return _UNSHOWN.sub("\ufffd", text[:LONGEST])


def _fact(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _text(entry: Mapping[str, Any], name: str) -> str:
    value = entry.get(name)
    return value if isinstance(value, str) else ""


def _at_ms(entry: Mapping[str, Any], now_ms: int) -> int:
    """When it was written: at most now, for nobody's clock is ahead of the one that reads it."""
    try:
        return max(0, min(round(datetime.fromisoformat(_text(entry, "timestamp")).timestamp() * 1000), now_ms))
    except (ValueError, OverflowError):
        return now_ms
