"""Exact sums of floating-point numbers, and averages of blocks that can be put together from shorter blocks.

A sum of doubles is a whole number times a power of two. Kept so it does not depend on how its parts are grouped, which
a floating-point sum does: the average of 60 readings is then the same number, to the last bit, whether it is made of
60 readings or of six sums of ten.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite, isnan


@dataclass(frozen=True, slots=True)
class ExactSum:
    """``mantissa`` times two to the ``exponent``, the mantissa odd or nothing; or ``special``: ±infinity or NaN."""

    mantissa: int = 0
    exponent: int = 0
    special: float | None = None

    @classmethod
    def of(cls, number: float) -> ExactSum:
        """A number as a sum of itself."""
        if not isfinite(number):
            return cls(special=number)
        numerator, denominator = float(number).as_integer_ratio()
        return cls._reduced(numerator, 1 - denominator.bit_length())

    @classmethod
    def parse(cls, text: str) -> ExactSum:
        """The sum that `str` has written."""
        mantissa, separator, exponent = text.partition("p")
        return cls(int(mantissa, 16), int(exponent)) if separator else cls(special=float(text))

    def __str__(self) -> str:
        """A text that is equal exactly for equal sums: 1.5 is ``3p-1``."""
        return f"{self.mantissa:x}p{self.exponent}" if self.special is None else str(self.special)

    def __add__(self, other: ExactSum) -> ExactSum:
        if self.special is not None or other.special is not None:
            special = [summand.special for summand in (self, other) if summand.special is not None]
            return ExactSum(special=sum(special))
        exponent = min(self.exponent, other.exponent)
        mantissa = (self.mantissa << (self.exponent - exponent)) + (other.mantissa << (other.exponent - exponent))
        return self._reduced(mantissa, exponent)

    def mean(self, count: int) -> float:
        """The sum divided by a number of readings, rounded once."""
        if self.special is not None:
            return self.special
        return (self.mantissa << max(0, self.exponent)) / (count << max(0, -self.exponent))

    @classmethod
    def _reduced(cls, mantissa: int, exponent: int) -> ExactSum:
        if not mantissa:
            return cls()
        zeros = (mantissa & -mantissa).bit_length() - 1
        return cls(mantissa >> zeros, exponent + zeros)


@dataclass(frozen=True, slots=True)
class ExactAverage:
    """``step`` takes a value and gives (mean, count, sum) when a block is full; a missing value does not count."""

    window: int

    def start(self) -> list:
        return [0, str(ExactSum())]

    def step(self, state: list, reading: float | None) -> Iterable[tuple]:
        if reading is None or isnan(reading):
            return ()
        return _fill(self, state, 1, ExactSum.of(reading), full=state[0] + 1 == self.window)


@dataclass(frozen=True, slots=True)
class RollUp:
    """``step`` takes a block's count and sum and gives (mean, count, sum) of every so many ``blocks``."""

    blocks: int

    def start(self) -> list:
        return [0, str(ExactSum()), 0]

    def step(self, state: list, count: int | None, total: str | None) -> Iterable[tuple]:
        if count is None or total is None:
            return ()
        state[2] += 1
        return _fill(self, state, int(count), ExactSum.parse(total), full=state[2] == self.blocks)


def _fill(fold: ExactAverage | RollUp, state: list, count: int, total: ExactSum, *, full: bool) -> Iterable[tuple]:
    """Add readings to a block; what it gives where that fills it."""
    state[0] += count
    whole = ExactSum.parse(state[1]) + total
    if not full:
        state[1] = str(whole)
        return ()
    readings = state[0]
    state[:] = fold.start()
    return [(whole.mean(readings), readings, str(whole))]
