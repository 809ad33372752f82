"""Cost figures: what something costs an hour, how sure that is, what it rests on and since when; meters of tasks."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from .checks import FiniteFigures

Basis = Literal["estimated", "measured", "billed"]
ESTIMATED: Basis = "estimated"  # from what such tasks and queries were seen to take, or from what is declared
MEASURED: Basis = "measured"  # smoothed, of a driver that has warmed up
BILLED: Basis = "billed"  # the mean of the whole hours that were charged
LEAST_SHOWN = 5e-7  # an hour: less is nothing
WEAKEST_FIRST: tuple[Basis, ...] = (ESTIMATED, MEASURED, BILLED)


@dataclass(frozen=True, slots=True)
class CostFigure:
    """The cost of something: CPU cores, from ``low`` to ``high``, and money an hour; what that rests on, and since
    when, in ms since the epoch (None of an estimate)."""

    cores: float
    low: float
    high: float
    per_hour: float
    basis: Basis = ESTIMATED
    since_ms: int | None = None

    @property
    def error(self) -> float:
        """The error of the cores: half of its range."""
        return (self.high - self.low) / 2

    def times(self, factor: float) -> CostFigure:
        """The cost times a factor, on the same basis; the factor is not negative."""
        return CostFigure(
            factor * self.cores, factor * self.low, factor * self.high, factor * self.per_hour, self.basis,
            self.since_ms)


NO_COST = CostFigure(0.0, 0.0, 0.0, 0.0, BILLED)


def total_cost(figures: Iterable[CostFigure]) -> CostFigure:
    """Figures together. What they rest on is the weakest of all, since the latest of those; ranges add up, since what
    one is off by the others often are, too."""
    figures = list(figures)
    if not figures:
        return NO_COST
    basis = min((figure.basis for figure in figures), key=WEAKEST_FIRST.index)
    since = [figure.since_ms for figure in figures if figure.basis == basis and figure.since_ms is not None]
    return CostFigure(
        sum(figure.cores for figure in figures), sum(figure.low for figure in figures),
        sum(figure.high for figure in figures), sum(figure.per_hour for figure in figures), basis,
        max(since, default=None))


def money_text(value: float, *, error: float = 0.0) -> str:
    """An amount with as many digits as are known: two, or as many as its error leaves; at most six behind the point.

    Examples
    --------
    >>> money_text(0.00064), money_text(0.00064, error=0.0006), money_text(12.3456), money_text(0.0)
    ('0.00064', '0.0006', '12.35', '0')
    """
    size, digits_known = (abs(error), 1) if error else (abs(value), 2)
    if max(abs(value), abs(error)) < LEAST_SHOWN:
        return "0"
    digits = 2 if size >= 1 else min(6, digits_known - 1 - math.floor(math.log10(max(size, LEAST_SHOWN))))
    return f"{value + 0.0:.{digits}f}" if error or size >= 1 else f"{value:.{digits}f}".rstrip("0").rstrip(".")


def money_signed(value: float, error: float = 0.0) -> str:
    """The change of cost in an hour, with its sign, and with as many digits as its error leaves.

    Examples
    --------
    >>> money_signed(0.0123), money_signed(-0.0123)
    ('+0.012', '-0.012')
    """
    text = money_text(value, error=error)
    return text if text.startswith("-") else f"+{text}"


def money_change(value: float, error: float = 0.0) -> str:
    """The same with its error behind it, if it has any.

    Examples
    --------
    >>> money_change(0.0123, 0.004)
    '+0.012 ± 0.004'
    """
    return f"{money_signed(value, error)}{f' ± {money_text(error, error=error)}' if error else ''}"


@dataclass(frozen=True, slots=True)
class CostMeter(FiniteFigures):
    """The metered cost of a running task, with its part of its query and of the slot's driver; a dynamic one has one
    for each of its alternates.

    ``seconds``: for how long it was metered; ``cores``, ``per_hour`` (money): smoothed means; ``variance``: of the
    cores from reading to reading; ``in_per_s``, ``out_per_s``: events in and out, smoothed alike, None where they were
    not read. ``billed_…``: of the charged whole hours since ``billed_since_ms``; ``billed_s``: for how long the task
    was needed in them, 0 without any.
    """

    seconds: float = 0.0
    cores: float = 0.0
    variance: float = 0.0
    per_hour: float = 0.0
    since_ms: int = 0
    billed_s: float = 0.0
    billed_cores: float = 0.0
    billed_per_hour: float = 0.0
    billed_since_ms: int = 0
    in_per_s: float | None = None
    out_per_s: float | None = None
