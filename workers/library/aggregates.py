"""Aggregates of a window, one value at a time: states that JSON can say, put together where sessions meet.

A missing value (null, or NaN) does not count. Numbers are doubles.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .config import InvalidConfig

_ENTRY = re.compile(r"\s*([A-Za-z_]\w*)\s*=\s*([a-z_]+)\s*\(\s*(\*|[A-Za-z_]\w*)\s*(?:,\s*(\d*\.?\d+)\s*)?\)\s*")


@dataclass(frozen=True, slots=True)
class Kind:
    """An aggregate function: its first state, how a value changes it, how two are put together, what it gives; and the
    type of that by the column's (``numbers``: it takes nothing else)."""

    start: Callable[[], list]
    add: Callable[[list, Any], None]
    merge: Callable[[list, list], None]
    result: Callable[[list, float], Any]
    type: Callable[[str], str]
    numbers: bool = False


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One column of a window's result: its name, function, the column that it is of (empty for events) and what else
    the function takes."""

    name: str
    function: str
    column: str
    argument: float = 0.0

    @property
    def kind(self) -> Kind:
        """How it is computed."""
        return KINDS[self.function]


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
        if aggregate.name in {other.name for other in aggregates} or not 0 <= aggregate.argument <= 1:
            raise InvalidConfig(f"“{entry}” has a name that stands twice, or a share that is none.",
                                remedy="Give each aggregate a name of its own; a percentile takes a share from 0 to 1.",
                                parameter="aggregates", value=entry)
        aggregates.append(aggregate)
    if not aggregates:
        raise InvalidConfig("The window has no aggregate.", remedy="Write aggregates: [n=count(*)].",
                            parameter="aggregates")
    return tuple(aggregates)


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
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    if low == place:
        return ordered[low]
    return ordered[low] + (place - low) * (ordered[low + 1] - ordered[low])


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


def _one(state: list, _: float) -> Any:
    return state[0] if state else None


def _listed(kind: str) -> str:
    return f"array<{kind}>"


def _same(kind: str) -> str:
    return kind


_LOWEST, _HIGHEST = _better(min), _better(max)
KINDS: dict[str, Kind] = {
    "count": Kind(lambda: [0], _count, _sums_together, _one, lambda _: "bigint"),
    "sum": Kind(lambda: [0, 0.0], _total, _sums_together, lambda state, _: state[1] if state[0] else None, _same, True),
    "avg": Kind(lambda: [0, 0.0], _total, _sums_together,
                lambda state, _: state[1] / state[0] if state[0] else None, _same, True),
    "min": Kind(list, *_LOWEST, _one, _same), "max": Kind(list, *_HIGHEST, _one, _same),
    "first": Kind(list, _first, lambda state, other: _first(state, other[0]) if other else None, _one, _same),
    "last": Kind(list, _put, lambda state, other: _put(state, other[0]) if other else None, _one, _same),
    "stddev": Kind(lambda: [0, 0.0, 0.0], _moments, _moments_together, _deviation, _same, True),
    "variance": Kind(lambda: [0, 0.0, 0.0], _moments, _moments_together, _variance, _same, True),
    "median": Kind(list, list.append, list.extend, _at_share, _same, True),
    "percentile": Kind(list, list.append, list.extend, _at_share, _same, True),
    "count_distinct": Kind(list, _distinct, _distinct_together, lambda state, _: len(state), lambda _: "bigint"),
    "collect": Kind(list, list.append, list.extend, lambda state, _: list(state), _listed),
}
