"""A guard as a tree of typed parts, and the words of the language."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ..model.sql_dialect import Dialect
from .guard_values import NUMBER, TEXT, TRUTH

DAY_MS = 86_400_000
UNITS_MS = {"s": 1_000, "min": 60_000, "h": 3_600_000, "d": DAY_MS}
LONGEST_MS = 31 * DAY_MS

# What each word takes, in order: expressions of a kind, a duration, or texts that are written out.
DURATION, ZONE, CLOCK, WEEKDAY, CALENDAR, SHARE, SERIES, COUNTED = (
    "a duration", "a time zone", "a time of day", "a day of the week", "a calendar", "a part of 1", "figures",
    "a figure or stream")
WINDOWS = {
    "mean": (SERIES, DURATION), "min": (SERIES, DURATION), "max": (SERIES, DURATION), "sum": (SERIES, DURATION),
    "count": (COUNTED, DURATION), "quantile": (SERIES, SHARE, DURATION), "rate_of_change": (SERIES, DURATION)}
CONDITIONS = {
    "for_at_least": (TRUTH, DURATION), "followed_by": (TRUTH, TRUTH, DURATION),
    "not_followed_by": (TRUTH, TRUTH, DURATION), "latch": (TRUTH, TRUTH)}
TIMES = {
    "hours": (CLOCK, CLOCK, ZONE), "weekdays": (WEEKDAY, WEEKDAY, ZONE), "days": (CALENDAR, ZONE)}
TEMPORAL = {**WINDOWS, **CONDITIONS, **TIMES}
EXPRESSIONS = frozenset({TRUTH, SERIES, COUNTED})  # the others are written out
SCALARS = frozenset({"abs", "coalesce", "greatest", "least"})
# Words of other languages for the same.
SYNONYMS = {
    "avg": "mean", "average": "mean", "percentile": "quantile", "median": "quantile", "total": "sum",
    "derivative": "rate_of_change", "slope": "rate_of_change", "hysteresis": "latch", "for": "for_at_least",
    "held": "for_at_least", "sequence": "followed_by", "then_within": "followed_by", "without": "not_followed_by",
    "holidays": "days", "ifnull": "coalesce", "nvl": "coalesce", "between_hours": "hours", "if": "CASE WHEN"}
EXAMPLES = {
    "mean": "mean(rate, '5 min')", "min": "min(rate, '5 min')", "max": "max(rate, '5 min')",
    "sum": "sum(rate, '5 min')", "count": "count(rate, '5 min')", "quantile": "quantile(latency, 0.95, '5 min')",
    "rate_of_change": "rate_of_change(rate, '5 min')", "for_at_least": "for_at_least(rate > 100, '2 min')",
    "followed_by": "followed_by(rate > 100, backlog > 50, '5 min')",
    "not_followed_by": "not_followed_by(rate > 100, backlog > 50, '5 min')",
    "latch": "latch(rate > 100, rate < 80)", "hours": "hours('08:00', '18:00', 'Asia/Kolkata')",
    "weekdays": "weekdays('mon', 'fri', 'Asia/Kolkata')", "days": "days('holidays', 'Asia/Kolkata')"}

MEANINGS = {
    "mean": "the mean of the values of the last five minutes", "min": "the lowest of them",
    "max": "the highest of them",
    "sum": "their sum", "count": "how many there were", "quantile": "the value at that part of them, within 2 %",
    "rate_of_change": "last value less first, by the seconds between them",
    "for_at_least": "true once the condition has been true for so long without a break",
    "followed_by": "true when the second begins to be true so long at most after the first was",
    "not_followed_by": "true so long after the first began to be true, if the second was not true since",
    "latch": "true from when the first is true until the second is",
    "hours": "true from the one until the other, on the clocks of a time zone",
    "weekdays": "true from the one day of the week to the other", "days": "true on the days of a calendar"}

Written = float | str | bool | tuple[object, ...] | None


@dataclass(frozen=True, slots=True)
class GuardNode:
    """A part of a guard: an operator, a word, a figure or a literal.

    ``word`` is an operator of SQL, a function's name, ``figure``, ``stream``, ``literal`` or ``case``; ``kind`` what
    it gives. ``value`` is a literal's value, a figure's or stream's whole name, or what else is written out of a word,
    durations in ms. ``size`` counts itself and all that it is made of.
    """

    word: str
    kind: str
    parts: tuple[GuardNode, ...] = ()
    value: Written = None
    size: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", 1 + sum(part.size for part in self.parts))

    def walk(self) -> Iterator[GuardNode]:
        """All parts, each behind those that it is made of."""
        for part in self.parts:
            yield from part.walk()
        yield self

    def figures(self) -> frozenset[str]:
        """The whole names of the figures in it, and of streams as ``stream.*``."""
        return frozenset(
            f"{node.value}.*" if node.word == "stream" else str(node.value)
            for node in self.walk() if node.word in ("figure", "stream"))

    def __str__(self) -> str:
        parts = [str(part) for part in self.parts]
        if self.word in ("figure", "stream"):
            return ".".join(map(_name, str(self.value).split(".")))
        if self.word == "literal":
            return _literal(self.value)
        if self.word in TEMPORAL:
            remaining_parts, written = iter(parts), iter(self.value if isinstance(self.value, tuple) else ())
            shown = [next(remaining_parts) if taken in EXPRESSIONS else _written(next(written), taken)
                     for taken in TEMPORAL[self.word]]
            return f"{self.word}({', '.join(shown)})"
        if self.word in SCALARS:
            return f"{self.word}({', '.join(parts)})"
        if self.word == "case":
            *pairs, default = parts
            branches = " ".join(f"WHEN {a} THEN {b}" for a, b in zip(pairs[::2], pairs[1::2], strict=True))
            return f"CASE {branches} ELSE {default} END"
        if self.word in ("is null", "is true", "is false"):
            return f"{_within(self.parts[0])} {self.word.upper()}"
        if self.word in ("not", "negative"):
            return f"{'NOT ' if self.word == 'not' else '-'}{_within(self.parts[0])}"
        return f" {self.word.upper()} ".join(_within(part) for part in self.parts)


def _name(name: str) -> str:
    """A name as it is written; in backticks where it is a word of SQL, or has other characters than names have."""
    return name if name.isidentifier() and name.upper() not in Dialect.tokenizer_class.KEYWORDS else f"`{name}`"


def _within(node: GuardNode) -> str:
    is_simple = node.word in ("figure", "stream", "literal", "case") or node.word in TEMPORAL or node.word in SCALARS
    return str(node) if is_simple else f"({node})"


def _literal(value: object) -> str:
    if value is None or isinstance(value, bool):
        return str(value).upper().replace("NONE", "NULL")
    if isinstance(value, float):
        return f"{value:.15g}" if float(f"{value:.15g}") == value else repr(value)
    return "'" + str(value).replace("\\", "\\\\").replace("'", "\\'") + "'"


def _written(value: object, taken: str) -> str:
    return f"'{duration_text(value)}'" if taken == DURATION else _literal(value)


def duration_text(ms: object) -> str:
    """A duration as guards write it, in the largest unit that it is a whole number of.

    Examples
    --------
    >>> duration_text(300_000), duration_text(90_000)
    ('5 min', '90 s')
    """
    count = int(str(ms))
    unit = next(unit for unit in reversed(UNITS_MS) if count % UNITS_MS[unit] == 0)
    return f"{count // UNITS_MS[unit]} {unit}"


def kind_in_words(kind: str) -> str:
    """A kind as errors tell it."""
    return {NUMBER: "a number", TEXT: "a text", TRUTH: "a condition"}.get(kind, "NULL")
