"""A typed expression, and the error of one that cannot work on what it is given."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.model.columns import WrongColumnType

from . import types
from .grammar import refused


@dataclass(frozen=True, slots=True)
class Typed:
    """An expression for Spark and its type, None where columns of unknown types take part; and how many bytes a text or
    list has at the most, None where only the event tells."""

    kind: str | None
    spark: str
    most: int | None = None

    def cast(self, kind: str | None) -> Typed:
        """The same as another type of number."""
        if kind is None or self.kind in (kind, None) or not types.is_number(self.kind) or not types.is_number(kind):
            return self
        return Typed(kind, f"CAST({self.spark} AS {kind.upper()})")


def typed_number(value: int | float | None) -> Typed:
    """A constant; raises ``InvalidConfig`` for one that Spark has no type for."""
    if value is None or (isinstance(value, int) and not -(2**63) < value < 2**63):
        raise refused("has a number that 64 bits do not hold")
    if isinstance(value, float):
        return Typed("double", f"{value!r}D")
    return Typed("int" if -(2**31) <= value < 2**31 else "bigint", str(value))


def wrong(message: str, remedy: str = "") -> WrongColumnType:
    """The error of an expression that cannot work on what it is given."""
    return WrongColumnType(
        message, remedy=remedy or "CAST(… AS double), string, bigint or another type makes one of the other; what does "
        "not fit is null.", parameter="query")
