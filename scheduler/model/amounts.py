"""The use of running tasks, in whole numbers, so that parts add up to the whole exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Amounts:
    """CPU in microseconds, memory in MiB times seconds, bytes to and from the broker, kB on disk for slow readers times
    seconds, money in billionths."""

    cpu_us: int = 0
    memory_mb_s: int = 0
    traffic_bytes: int = 0
    disk_kb_s: int = 0
    cost_nanos: int = 0

    def __add__(self, other: Amounts) -> Amounts:
        return Amounts(
            self.cpu_us + other.cpu_us, self.memory_mb_s + other.memory_mb_s,
            self.traffic_bytes + other.traffic_bytes, self.disk_kb_s + other.disk_kb_s,
            self.cost_nanos + other.cost_nanos,
        )

    def __bool__(self) -> bool:
        return any((self.cpu_us, self.memory_mb_s, self.traffic_bytes, self.disk_kb_s, self.cost_nanos))

    def share_out(self, weights: Sequence[int]) -> tuple[Amounts, ...]:
        """Each kind of amount in proportion to the weights; the parts add up to the whole."""
        kinds = (self.cpu_us, self.memory_mb_s, self.traffic_bytes, self.disk_kb_s, self.cost_nanos)
        parts = (share_out(total, weights) for total in kinds)
        return tuple(Amounts(*part) for part in zip(*parts, strict=True))


def share_out(total: int, weights: Sequence[int]) -> tuple[int, ...]:
    """Divide whole units in proportion to weights, by the largest remainder (Hamilton's method).

    Parameters
    ----------
    total : int
        Units to divide, not negative.
    weights : sequence of int
        At least one, none negative; evenly where all are zero.

    Returns
    -------
    tuple of int
        One part for each weight; their sum is ``total``. A part is the exact quota rounded down or up, and of two
        equal remainders the earlier gets the unit.
    """
    whole = sum(weights)
    if not whole:
        weights, whole = [1] * len(weights), len(weights)
    floors = [total * weight // whole for weight in weights]
    remaining_units = total - sum(floors)
    by_remainder = sorted(range(len(weights)), key=lambda i: (-(total * weights[i] % whole), i))
    parts = list(floors)
    for index in by_remainder[:remaining_units]:
        parts[index] += 1
    return tuple(parts)


def round_together(amounts: Sequence[int], *, unit: int) -> tuple[int, ...]:
    """Amounts in whole multiples of a unit, so that what is shown adds up to the rounded sum of what is.

    Each is rounded down or up; those with the largest remainders up, as many as the sum asks for.
    """
    parts = [amount // unit for amount in amounts]
    remaining_units = (sum(amounts) + unit // 2) // unit - sum(parts)
    by_remainder = sorted(range(len(amounts)), key=lambda i: (-(amounts[i] % unit), i))
    for index in by_remainder[:remaining_units]:
        parts[index] += 1
    return tuple(parts)
