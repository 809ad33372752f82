"""Random guards as tuples, their text, and random histories of events."""

from __future__ import annotations

import math
from random import Random
from typing import Any

from scheduler.guards.guard_values import GuardCatalog, GuardEvent

BEGIN_MS = 1_767_268_740_000  # 2026-01-01 11:59:00 UTC
CATALOG = GuardCatalog({
    "": {"a": "number", "b": "number", "t": "text", "on": "truth"},
    "x": {"u": "number", "v": "number", "w": "text"}, "posted": {}})
NUMBERS = ("a", "b", "x.u", "x.v")
DURATIONS = {1_000: "1 s", 2_000: "2 s", 5_000: "5 s", 7_000: "7s", 10_000: " 10 s", 30_000: "30 s", 60_000: "1 min"}
WORDS = ("mean", "min", "max", "sum", "count", "quantile", "rate_of_change")


def condition(rng: Random, depth: int = 3, over_time: int = 2) -> Any:
    """A condition, with parts nested so deep at most, and conditions over time in one another so often at most."""
    if depth == 0 or rng.random() < 0.2:
        return leaf(rng)
    draw = rng.random()
    if draw < 0.3:
        return (rng.choice(("and", "or")), *(condition(rng, depth - 1, over_time) for _ in range(rng.randint(2, 3))))
    if draw < 0.4:
        return "not", condition(rng, depth - 1, over_time)
    if draw < 0.45:
        return "case", condition(rng, depth - 1, over_time), condition(rng, depth - 1, over_time), ("null", None)
    if draw < 0.6 or not over_time:
        return "compare", rng.choice(("=", "<>", "<", "<=", ">", ">=")), number(rng, 2), number(rng, 1)
    duration = rng.choice(list(DURATIONS))
    one, other = (condition(rng, depth - 1, over_time - 1) for _ in range(2))
    return rng.choice((("for_at_least", one, duration), ("followed_by", one, other, duration),
                       ("not_followed_by", one, other, duration), ("latch", one, other)))


def leaf(rng: Random) -> Any:
    """A condition without others in it."""
    draw = rng.random()
    if draw < 0.55:
        return "compare", rng.choice(("<", "<=", ">", ">=", "=")), number(rng, 1), constant(rng)
    if draw < 0.7:
        return "compare", rng.choice(("=", "<>", "<")), ("figure", rng.choice(("t", "x.w"))), ("text", rng.choice("pq"))
    if draw < 0.8:
        return "figure", "on"
    if draw < 0.9:
        return "is null", number(rng, 1)
    if draw < 0.95:
        first = rng.choice((0, 600, 719, 720))
        return "hours", first, rng.choice((721, 722, 1440))
    return "truth", rng.random() < 0.5


def constant(rng: Random) -> Any:
    """A number that doubles hold with few bits, so that sums are exact in any order."""
    return "number", rng.randint(-12, 12) / 2


def number(rng: Random, depth: int) -> Any:
    """An expression that gives a number."""
    draw = rng.random()
    if draw < 0.4:
        return "figure", rng.choice(NUMBERS)
    if draw < 0.75 or depth == 0:
        return window(rng)
    if draw < 0.8:
        return "abs", number(rng, depth - 1)
    if draw < 0.85:
        return rng.choice(("coalesce", "greatest", "least")), number(rng, depth - 1), constant(rng)
    return "calculate", rng.choice("+-*/%"), number(rng, depth - 1), rng.choice((constant, lambda rng: number(rng, 0)))(
        rng)


def window(rng: Random) -> Any:
    """A window over a figure, a difference of two of one stream, or a stream."""
    word, duration = rng.choice(WORDS), rng.choice(list(DURATIONS))
    if word == "count" and rng.random() < 0.5:
        series: Any = ("stream", rng.choice(("posted", "x")))
    elif rng.random() < 0.2:
        series = ("calculate", "-", ("figure", "x.u"), ("figure", "x.v"))
    else:
        series = ("figure", rng.choice(NUMBERS))
    if word == "quantile":
        return "window", word, series, rng.choice((0.0, 0.25, 0.5, 0.9, 1.0)), duration
    return "window", word, series, duration


def text_of(node: Any, rng: Random) -> str:
    """A guard as it is written, with spellings that come to the same."""
    word, *parts = node
    if word in ("number", "text", "truth", "null"):
        return {"number": lambda v: f"{v:g}" if rng.random() < 0.8 else f"({v!r})", "text": lambda v: f"'{v}'",
                "truth": lambda v: str(v).lower(), "null": lambda v: "NULL"}[word](parts[0])
    if parts[0] == "on":
        return "`on`"  # a word of SQL
    if word in ("figure", "stream"):
        return parts[0] if rng.random() < 0.8 else f" {parts[0].upper()} " if word == "figure" else f"`{parts[0]}`"
    if word == "window":
        *inner, duration = parts[1:]
        middle = [f"{part}" if isinstance(part, float) else text_of(part, rng) for part in inner]
        return f"{parts[0]}({', '.join([*middle, repr(DURATIONS[duration])])})"
    if word == "hours":
        clocks = [f"{minute // 60:02}:{minute % 60:02}" for minute in parts]
        return f"hours('{clocks[0]}', '{clocks[1]}', 'Etc/UTC')"
    inner = [text_of(part, rng) for part in parts if isinstance(part, tuple)]
    if word in ("for_at_least", "followed_by", "not_followed_by"):
        return f"{word}({', '.join([*inner, repr(DURATIONS[parts[-1]])])})"
    if word in ("latch", "abs", "coalesce", "greatest", "least"):
        return f"{word if rng.random() < 0.8 else word.upper()}({', '.join(inner)})"
    if word in ("and", "or"):
        return f" {rng.choice((word, word.upper()))} ".join(f"({part})" for part in inner)
    if word == "not":
        return f"NOT ({inner[0]})"
    if word == "is null":
        return f"({inner[0]}) IS NULL"
    if word == "case":
        return f"CASE WHEN {inner[0]} THEN {inner[1]} ELSE {inner[2]} END"
    return f"({inner[0]}) {parts[0]}\n ({inner[1]})"


def history(rng: Random, seconds: int = 60) -> list[GuardEvent]:
    """Events in the order in which they become known: some at equal times, some behind, some late, some not sound."""
    events, at_ms = [], BEGIN_MS + rng.randrange(0, 5_000, 500)
    while at_ms < BEGIN_MS + 1_000 * seconds:
        stream = rng.choice(("", "", "x", "x", "posted"))
        values = {name: value(rng, kind) for name, kind in CATALOG.streams[stream].items() if rng.random() < 0.6}
        back_ms = rng.choice((0, 0, 0, 0, 500, 3_000))
        events.append(GuardEvent(at_ms - back_ms, stream, values))
        at_ms += rng.choice((0, 0, 500, 1_000, 1_000, 2_500, 12_000))
    return events


def value(rng: Random, kind: str) -> Any:
    """A value of a figure, now and then one that is none."""
    if rng.random() < 0.08:
        return rng.choice((None, math.nan, math.inf, "p", 1, True))
    if kind == "number":
        return rng.randint(-12, 12) / 2
    return rng.choice("pqr") if kind == "text" else rng.random() < 0.5
