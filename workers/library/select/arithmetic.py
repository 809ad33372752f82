"""Types that several expressions have together, and arithmetic of decimals, exact to the last digit."""

from __future__ import annotations

from collections.abc import Sequence

from ..columns import MOST_DIGITS
from . import types
from .growing import size_of
from .typed_values import Typed, wrong

_FEWER_DIGITS = "CAST one to a decimal of fewer digits, or to a double."


def kind_together(one: str | None, other: str | None) -> str | None:
    """The type that holds values of both."""
    try:
        return types.common_kind(one, other)
    except ValueError:
        raise wrong(f"{one} and {other} need more than {MOST_DIGITS} digits.", _FEWER_DIGITS) from None


def of_decimals(sign: str, left: Typed, right: Typed) -> Typed:
    """Exact numbers, one of them a decimal, added, subtracted, multiplied or divided for what is left."""
    word = {"+": "try_add", "-": "try_subtract", "*": "try_multiply", "%": "try_mod"}[sign]
    try:
        left, right = (side.cast(types.as_decimal(str(side.kind))) for side in (left, right))
        kind = types.decimal_result(sign, str(left.kind), str(right.kind))
    except ValueError:
        raise wrong(f"{left.kind} {sign} {right.kind} needs more than {MOST_DIGITS} digits.", _FEWER_DIGITS) from None
    return Typed(kind, f"{word}({left.spark}, {right.spark})")


def largest(values: Sequence[Typed]) -> int | None:
    """The bytes of the largest; None where one has no bound."""
    sizes = [size_of(value) for value in values]
    return None if None in sizes else max((size or 0 for size in sizes), default=None)


def kind_of(values: Sequence[Typed]) -> str | None:
    """The one type of values that are alike; None where it is not known."""
    kinds = {value.kind for value in values if value.kind != types.VOID}
    return None if None in kinds else next(iter(kinds), types.VOID)
