"""What a number has to be before anything is computed with it."""

from __future__ import annotations

from numbers import Integral, Real


def is_count(value: object, *, most: float = float("inf")) -> bool:
    """Whether it is a whole number from 1 to ``most``; true and false are none, nor is 2.0."""
    return isinstance(value, Integral) and not isinstance(value, bool) and 1 <= value <= most


def is_between(value: object, least: float, most: float = float("inf")) -> bool:
    """Whether it is a number, not infinite, from ``least`` to ``most``."""
    return isinstance(value, Real) and not isinstance(value, bool) and least <= value <= most and value < float("inf")
