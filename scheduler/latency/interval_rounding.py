"""Intervals as they are told: rounded down to what is worth telling, and left as they are where little would change."""

from __future__ import annotations

from collections.abc import Mapping

from .triggers import BatchPlan

STAYS = 0.15  # relative: by so little an interval is not changed while the limits hold with it


def all_rounded_s(plan: BatchPlan, interval_s: Mapping[str, float]) -> dict[str, float]:
    """The rounded intervals, where equal ones stay equal, as readers follow writers then: down to what all of them can
    keep to."""
    least_s: dict[str, float] = {}
    for query, seconds in interval_s.items():
        least_s[_five_digits(seconds)] = max(plan.costs[query].least_s, least_s.get(_five_digits(seconds), 0.0))
    return {query: rounded_s(seconds, least_s[_five_digits(seconds)]) for query, seconds in interval_s.items()}


def rounded_s(seconds: float, least_s: float) -> float:
    """Down to what is worth telling, but not below what is needed."""
    step = 0.05 if seconds >= 1 else 0.01 if seconds >= 0.1 else 0.001
    rounded = int(seconds / step + 1e-9) * step
    return seconds if rounded < least_s or rounded <= 0 else round(rounded, 3)


def unless_near_s(before_s: float | None, seconds: float) -> float:
    """The interval before, where it differs by no more than `STAYS`; else the new one."""
    return before_s if before_s is not None and abs(seconds - before_s) <= STAYS * before_s else seconds


def _five_digits(seconds: float) -> str:
    return f"{seconds:.5g}"
