"""References for what the Java side computes: the quota partitioner, and what a batch sees of its fragment's control.

Written independently of ``QuotaPartitioner.java`` and ``Control.java``, which are compared with them. They are the
valves of played queries.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import redis

from scheduler.model.ring import Ring
from workers.engine.channels.control import RouteChange, begin_batch, changes_of

STARTS = 4_096  # positions of the sequence at which a batch may start
_LONG = 2**64 - 1


@dataclass(frozen=True, slots=True)
class QuotaPartitioner:
    """The Quota Method as a partitioner: the parts of a divided stream, and their shares.

    References
    ----------
    .. [1] M. L. Balinski and H. P. Young, "The Quota Method of Apportionment", The American Mathematical Monthly
       82(7), 1975.
    """

    parts: tuple[str, ...]
    shares: tuple[float, ...]

    @classmethod
    def of(cls, weights: Mapping[str, float]) -> QuotaPartitioner:
        """The partitioner for parts by weight; those without weight get nothing."""
        chosen = {part: weight for part, weight in weights.items() if weight > 0}
        total = 0.0
        for weight in chosen.values():  # not sum(), whose rounding is Python's own
            total += weight
        return cls(tuple(chosen), tuple(weight / total for weight in chosen.values()))

    def deal(self, batch_id: int, first: int, count: int) -> Sequence[int]:
        """The part, by its index, of each of ``count`` events of a batch from its event ``first`` on."""
        start = start_of(batch_id) + first
        return _sequence(self.shares).up_to(start + count)[start : start + count]


def start_of(batch_id: int) -> int:
    """Where a batch starts in the sequence."""
    mixed = batch_id * 0x9E3779B97F4A7C15 & _LONG
    mixed = (mixed ^ mixed >> 32) * 0xD6E8FEB86659FD93 & _LONG
    return (mixed ^ mixed >> 32) % STARTS


class _Sequence:
    """The sequence of parts for some shares, as far as it was needed."""

    def __init__(self, shares: tuple[float, ...]) -> None:
        self._shares = shares
        self._counts = [0] * len(shares)
        self._parts = array("H")

    def up_to(self, count: int) -> array[int]:
        for position in range(len(self._parts), count):
            part = _next(self._shares, self._counts, position)
            self._counts[part] += 1
            self._parts.append(part)
        return self._parts


def _next(shares: Sequence[float], had: Sequence[int], position: int) -> int:
    """Of the parts that may have one more without exceeding their share, rounded up, the one that must be next."""
    chosen, earliest = 0, float("inf")
    for part, share in enumerate(shares):
        if had[part] < share * (position + 1) and (had[part] + 1) / share < earliest:
            chosen, earliest = part, (had[part] + 1) / share
    return chosen


@lru_cache(maxsize=64)
def _sequence(shares: tuple[float, ...]) -> _Sequence:
    return _Sequence(shares)


class Control:
    """A fragment's control hash as one batch sees it."""

    def __init__(self, state: Mapping[str, str], batch_id: int) -> None:
        self._state = state
        self._batch_id = batch_id

    @classmethod
    def read(cls, connection: redis.Redis, fragment: str, batch_id: int) -> Control:
        """As a valve reads it when a batch begins."""
        return cls(begin_batch(connection, fragment, batch_id), batch_id)

    def publishes(self, position: int) -> bool:
        """Whether a task's stream is published whole in this batch."""
        return self._state.get(f"{position}:outlet") == "open" and self._has_begun(f"{position}:from")

    def passes(self, position: int) -> bool:
        """Whether a task's events go on in this batch; until a new tail begins, the one before it stays closed."""
        tail = self._state.get("tail" if self._has_begun("tail:from") else "tail:was")
        return tail is None or position < int(tail)

    def routes(self, position: int) -> list[dict[str, float] | Ring]:
        """How a task's stream is divided in this batch: for each divided reader, weights by part, or a ring."""
        routes = []
        for (route_position, _), changes in changes_of(self._state).items():
            begun = [change for change in changes if self._begins(change)]
            how = begun[-1].partitioning if route_position == position and begun else None
            if isinstance(how, Ring):
                routes.append(how)
            elif how:
                routes.append({part: weight for part, weight in how.items() if weight > 0})
        return routes

    def _begins(self, change: RouteChange) -> bool:
        return change.from_batch is not None and change.from_batch <= self._batch_id

    def _has_begun(self, name: str) -> bool:
        return name in self._state and self._batch_id >= int(self._state[name])
