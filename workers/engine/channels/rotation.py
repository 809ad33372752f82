"""The Quota Method (Balinski and Young, 1975) as a rotation: which part of a divided stream each event goes to.

The parts take turns so that after any number of events each has had its share, rounded down or up. A batch takes a
stretch of that sequence, from a place that its number decides, so that small batches spread over the parts as large
ones do. Nothing is carried from batch to batch: a repeated batch is divided the same way. ``Rotation.java`` computes
the same from the same numbers.

References
----------
.. [1] M. L. Balinski and H. P. Young, "The Quota Method of Apportionment", The American Mathematical Monthly 82(7),
   1975.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

PLACES = 4_096  # where a batch may start
_LONG = 2**64 - 1


@dataclass(frozen=True, slots=True)
class Rotation:
    """The parts of a divided stream, and their shares."""

    parts: tuple[str, ...]
    shares: tuple[float, ...]

    @classmethod
    def of(cls, weights: Mapping[str, float]) -> Rotation:
        """The rotation of parts by weight; those without weight get nothing."""
        chosen = {part: weight for part, weight in weights.items() if weight > 0}
        total = 0.0
        for weight in chosen.values():  # not sum(), whose rounding is Python's own
            total += weight
        return cls(tuple(chosen), tuple(weight / total for weight in chosen.values()))

    def turns(self, batch_id: int, first: int, count: int) -> Sequence[int]:
        """The part, by its index, of each of ``count`` events of a batch from its event ``first`` on."""
        start = place_of(batch_id) + first
        return _sequence(self.shares).upto(start + count)[start : start + count]


def place_of(batch_id: int) -> int:
    """Where a batch starts in the sequence: anywhere, as if by chance. A regular step would favour some part wherever
    the sizes of batches and the turns of the parts have a common rhythm, as with one and two events by turns."""
    mixed = batch_id * 0x9E3779B97F4A7C15 & _LONG
    mixed = (mixed ^ mixed >> 32) * 0xD6E8FEB86659FD93 & _LONG
    return (mixed ^ mixed >> 32) % PLACES


class _Turns:
    """The sequence of turns for some shares, as far as it was needed."""

    def __init__(self, shares: tuple[float, ...]) -> None:
        self._shares = shares
        self._had = [0] * len(shares)
        self._turns = array("H")

    def upto(self, count: int) -> array[int]:
        for turn in range(len(self._turns), count):
            chosen = _next(self._shares, self._had, turn)
            self._had[chosen] += 1
            self._turns.append(chosen)
        return self._turns


def _next(shares: Sequence[float], had: Sequence[int], turn: int) -> int:
    """Of the parts that may have one more without exceeding their share, rounded up, the one that must be next."""
    chosen, due = 0, float("inf")
    for index, share in enumerate(shares):
        if had[index] < share * (turn + 1) and (had[index] + 1) / share < due:
            chosen, due = index, (had[index] + 1) / share
    return chosen


@lru_cache(maxsize=64)
def _sequence(shares: tuple[float, ...]) -> _Turns:
    return _Turns(shares)
