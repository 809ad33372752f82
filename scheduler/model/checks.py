"""Checks of numbers before anything is computed with them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import fields
from functools import cache
from numbers import Integral, Real


def is_count(value: object, *, most: float = float("inf")) -> bool:
    """True if it is a whole number from 1 to ``most``; true and false are none, nor is 2.0."""
    return isinstance(value, Integral) and not isinstance(value, bool) and 1 <= value <= most


def is_between(value: object, least: float, most: float = float("inf")) -> bool:
    """True if it is a number, not infinite, from ``least`` to ``most``."""
    return isinstance(value, Real) and not isinstance(value, bool) and least <= value <= most and value < float("inf")


def require_finite(value: object) -> None:
    """Refuse a value in whose figures there is NaN or an infinity: nothing that is computed with it would be right.

    Figures are the numbers of a dataclass's fields of floats, also within mappings and sequences. `ValueError` names
    the field.
    """
    for name in _fields_of_floats(type(value)):
        for figure in _figures_in(getattr(value, name)):
            if not math.isfinite(figure):
                raise ValueError(f"{name} of {type(value).__name__} holds {figure!r}, which is no finite number")


class FiniteFigures:
    """A dataclass that is made of finite figures alone (`require_finite`)."""

    __slots__ = ()

    def __post_init__(self) -> None:
        require_finite(self)


@cache
def _fields_of_floats(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind) if "float" in str(field.type))


def _figures_in(value: object) -> Iterator[float]:
    if isinstance(value, float | int):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _figures_in(item)
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _figures_in(item)
