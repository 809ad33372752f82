"""Aggregates of a window, one value at a time: states that JSON can say, put together where sessions meet.

A missing value (null, or NaN) does not count. Whole numbers and decimals are counted exactly, a decimal as the whole
number of its last digits: what JSON says of a state is then exact, too. Means, deviations and shares are doubles.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any

from .columns import MOST_DIGITS, decimal_of
from .config import InvalidConfig

_ENTRY = re.compile(
    r"\s*([A-Za-z_]\w*)\s*=\s*([a-z_]+)\s*\(\s*(\*|[A-Za-z_]\w*)\s*(?:,\s*(\d+(?:\.\d+)?|\.\d+)\s*)?\)\s*")


@dataclass(frozen=True, slots=True)
class Kind:
    """An aggregate function: its first state, how a value changes it, how two are put together, what it gives; and the
    type of that by the column's (``numbers``: it takes nothing else; ``doubles``: it computes with those)."""

    start: Callable[[], list]
    add: Callable[[list, Any], None]
    merge: Callable[[list, list], None]
    result: Callable[[list, float], Any]
    type: Callable[[str], str]
    numbers: bool = False
    doubles: bool = False


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One column of a window's result: its name, function, the column that it is of (empty for events) and what else
    the function takes; and the column's type, where that is known."""

    name: str
    function: str
    column: str
    argument: float = 0.0
    of: str = ""

    @property
    def kind(self) -> Kind:
        """The kind of aggregate: how a state begins, takes values in, and gives its result."""
        return KINDS[self.function]

    @property
    def type(self) -> str:
        """The type of what it gives."""
        return self.kind.type(self.of)

    def add(self, state: list, value: Any) -> None:
        """Take a value in; whole numbers and decimals come as text."""
        if self.of in INTEGERS:
            value = int(value)
        elif self.of not in _AS_THEY_ARE and (digits := self._digits):
            value = float(value) if self.kind.doubles else _unscaled(Decimal(value), digits[1])
            self._require_unscaled(state)
        KINDS[self.function].add(state, value)

    def merge(self, state: list, other: list) -> None:
        """Put another part's state into a state."""
        for part in (state, other):
            self._require_unscaled(part)
        self.kind.merge(state, other)

    def result(self, state: list) -> Any:
        """The result of a state, in the type of the aggregate; null where that type does not hold it."""
        self._require_unscaled(state)
        value, digits = self.kind.result(state, self.argument), self._digits
        if self.kind.doubles or self.function == "count_distinct" or value is None or not (
                digits or self.of in INTEGERS):
            return value
        scale = digits[1] if digits else 0
        values = [_fitting(one, scale, self.type) for one in (value if isinstance(value, list) else [value])]
        return values if isinstance(value, list) else values[0]

    @property
    def _digits(self) -> tuple[int, int] | None:
        return decimal_of(self.of)

    def _require_unscaled(self, state: list) -> None:
        """Bring a state of a version that took decimals for doubles into the present form."""
        digits = self._digits
        if digits and not self.kind.doubles and state and isinstance(state[self.function == "sum"], float):
            state[:] = [_unscaled(Decimal(repr(value)), digits[1]) if isinstance(value, float) else value
                        for value in state]


def read_aggregates(entries: Sequence[str]) -> tuple[Aggregate, ...]:
    """Aggregates from ``name=function(column)``.

    Raises
    ------
    InvalidConfig
        An entry is none, names an unknown function, or a name stands twice.
    """
    aggregates: list[Aggregate] = []
    for entry in entries:
        match = _ENTRY.fullmatch(str(entry))
        if match is None or match[2] not in KINDS or (match[3] == "*") != (match[2] == "count" and match[3] == "*"):
            raise InvalidConfig(
                f"“{entry}” is no aggregate.", remedy="Write name=function(column), or name=count(*); functions are "
                f"{', '.join(KINDS)}.", parameter="aggregates", value=entry)
        aggregate = Aggregate(match[1], match[2], "" if match[3] == "*" else match[3], float(match[4] or 0.5))
        if aggregate.name in {earlier.name for earlier in aggregates} or not 0 <= aggregate.argument <= 1:
            raise InvalidConfig(f"“{entry}” has a name that stands twice, or a share that is none.",
                                remedy="Give each aggregate a name of its own; a percentile takes a share from 0 to 1.",
                                parameter="aggregates", value=entry)
        aggregates.append(aggregate)
    if not aggregates:
        raise InvalidConfig("The window has no aggregate.", remedy="Write aggregates: [n=count(*)].",
                            parameter="aggregates")
    return tuple(aggregates)


def _unscaled(value: Decimal, scale: int) -> int:
    """A decimal as the whole number of its last digits; what a sum of doubles is off by is rounded away."""
    return round(value.scaleb(scale, _WIDE))


def _fitting(value: int | float, scale: int, kind: str) -> Decimal | int | None:
    """A whole number as a value of a type; a state of an earlier version has it as a double."""
    whole = int(value)
    if digits := decimal_of(kind.removeprefix("array<").removesuffix(">")):
        return Decimal(whole).scaleb(-scale, _WIDE) if abs(whole) < 10 ** digits[0] else None
    return whole if -(2**63) <= whole < 2**63 else None


def _sum_type(kind: str) -> str:
    """As Spark has it: of whole numbers bigint, of decimals ten more digits."""
    if digits := decimal_of(kind):
        return f"decimal({min(MOST_DIGITS, digits[0] + 10)},{digits[1]})"
    return "bigint" if kind in INTEGERS else "double"


def _double(_: str) -> str:
    return "double"


def _put(state: list, value: Any) -> None:
    state[:] = [value]


def _count(state: list, _: Any) -> None:
    state[0] += 1


def _total(state: list, value: float) -> None:
    state[0] += 1
    state[1] += value


def _moments(state: list, value: float) -> None:
    """Welford's update of count, mean and sum of squared deviations."""
    state[0] += 1
    change = value - state[1]
    state[1] += change / state[0]
    state[2] += change * (value - state[1])


def _moments_together(state: list, other: list) -> None:
    """The same of two parts, after Chan, Golub and LeVeque."""
    count = state[0] + other[0]
    if not other[0]:
        return
    change = other[1] - state[1]
    state[1] += change * other[0] / count
    state[2] += other[2] + change * change * state[0] * other[0] / count
    state[0] = count


def _sums_together(state: list, other: list) -> None:
    state[:] = [one + another for one, another in zip(state, other, strict=True)]


def _variance(state: list, _: float) -> float | None:
    return state[2] / (state[0] - 1) if state[0] > 1 else None


def _deviation(state: list, share: float) -> float | None:
    variance = _variance(state, share)
    return None if variance is None else math.sqrt(variance)


def _at_share(state: list, share: float) -> float | None:
    """The value at a share of the ordered ones, between two of them as Spark's ``percentile`` does."""
    if not state:
        return None
    ordered = sorted(state)
    rank = share * (len(ordered) - 1)
    low = math.floor(rank)
    if low == rank:
        return float(ordered[low])
    return ordered[low] + (rank - low) * (ordered[low + 1] - ordered[low])


def _better(choose: Callable[..., Any]) -> tuple[Callable[[list, Any], None], Callable[[list, list], None]]:
    def add(state: list, value: Any) -> None:
        state[:] = [choose(state[0], value) if state else value]

    def merge(state: list, other: list) -> None:
        if other:
            add(state, other[0])

    return add, merge


def _distinct(state: list, value: Any) -> None:
    if value not in state:
        state.append(value)


def _distinct_together(state: list, other: list) -> None:
    for value in other:
        _distinct(state, value)


def _first(state: list, value: Any) -> None:
    if not state:
        state.append(value)


def _single(state: list, _: float) -> Any:
    return state[0] if state else None


def _listed(kind: str) -> str:
    return f"array<{kind}>"


def _as_is(kind: str) -> str:
    return kind


_WIDE = Context(prec=100)
INTEGERS = frozenset(("tinyint", "smallint", "int", "bigint"))
_AS_THEY_ARE = frozenset(("", "double", "string"))
_LOWEST, _HIGHEST = _better(min), _better(max)
KINDS: dict[str, Kind] = {
    "count": Kind(lambda: [0], _count, _sums_together, _single, lambda _: "bigint"),
    "sum": Kind(lambda: [0, 0], _total, _sums_together,
                lambda state, _: state[1] if state[0] else None, _sum_type, True),
    "avg": Kind(lambda: [0, 0], _total, _sums_together,
                lambda state, _: state[1] / state[0] if state[0] else None, _double, True, True),
    "min": Kind(list, *_LOWEST, _single, _as_is), "max": Kind(list, *_HIGHEST, _single, _as_is),
    "first": Kind(list, _first, lambda state, other: _first(state, other[0]) if other else None, _single, _as_is),
    "last": Kind(list, _put, lambda state, other: _put(state, other[0]) if other else None, _single, _as_is),
    "stddev": Kind(lambda: [0, 0.0, 0.0], _moments, _moments_together, _deviation, _double, True, True),
    "variance": Kind(lambda: [0, 0.0, 0.0], _moments, _moments_together, _variance, _double, True, True),
    "median": Kind(list, list.append, list.extend, _at_share, _double, True, True),
    "percentile": Kind(list, list.append, list.extend, _at_share, _double, True, True),
    "count_distinct": Kind(list, _distinct, _distinct_together, lambda state, _: len(state), lambda _: "bigint"),
    "collect": Kind(list, list.append, list.extend, lambda state, _: list(state), _listed),
}
