"""Steady rates of queries that count in batches: over whole batches, so that a rate does not jump with each. Pure.

A query of which a batch ends every six seconds has counted nothing, or twice as much as is true, in most stretches of
five. Between two ends of batches it has counted what it does. So a rate is taken from one end that was seen to another,
five seconds apart or more; it stands while the next end is not overdue, and falls to nothing where none comes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import repeat
from operator import lt, sub

WINDOW_MS = 5_000  # a rate is over this much at least, as far as that is known: steady, and soon another where it is
OVERDUE = 1.5  # times the longest that was seen between two ends, the next one may take

Counts = Mapping[str, int]
_NOTHING: Counts = {}


@dataclass(frozen=True, slots=True)
class Growth:
    """The events that a query counted, and the seconds over which it did."""

    counts: Counts
    over_s: float


@dataclass(frozen=True, slots=True)
class _Point:
    at_ms: int
    counts: Counts
    is_end: bool  # of a batch; else where looking began
    quiet_ms: int = 0  # for how long nothing was seen to come before it


@dataclass(slots=True)
class Track:
    """The moments at which one query was seen to have counted more."""

    looked_at_ms: int = 0
    _points: deque[_Point] = field(default_factory=deque)
    _same_at_ms: int = 0  # the last look before the newest end
    _between_ms: int = 0  # the last two looks
    _newest: tuple[_Point, _Point, Counts] | None = None  # from where to where, and what was counted between

    def look(self, at_ms: int, counts: Counts, *, before_ms: int | None) -> None:
        """Take a reading in; ``before_ms`` is when the query was not there yet, if that is known and it is new."""
        points = self._points
        if not points:
            points.append(_Point(at_ms, counts, False) if before_ms is None else _Point(before_ms, {}, False))
            self.looked_at_ms = points[0].at_ms
        elif counts != points[-1].counts and _fell(points[-1].counts, counts):  # made anew
            points.clear()
            points.append(_Point(self.looked_at_ms, {}, False))
        if counts != points[-1].counts:
            self._same_at_ms = self.looked_at_ms
            # While nobody looked, batches may have ended: only what was seen to be quiet says how long one takes.
            points.append(_Point(at_ms, counts, True, quiet_ms=self.looked_at_ms - points[-1].at_ms))
        self._between_ms, self.looked_at_ms = at_ms - self.looked_at_ms, at_ms
        while len(points) > 2 and points[-1].at_ms - points[1].at_ms >= WINDOW_MS:
            points.popleft()

    def growth(self) -> Growth:
        """The growth of its counter, by the newest reading; over 0 s where only one was taken."""
        points, now_ms = list(self._points), self.looked_at_ms
        if len(points) < 2:
            return Growth(_NOTHING, (now_ms - points[0].at_ms) / 1000 if points else 0.0)
        ends = [point for point in points if point.is_end]
        if len(ends) < 2:
            since_ms = max(points[0].at_ms, min(self._same_at_ms, now_ms - WINDOW_MS))
            return Growth(self._grown(points[0], points[-1]), (now_ms - since_ms) / 1000)
        longest_ms = max(end.quiet_ms for end in ends[1:])
        late_ms = 2 * min(self._between_ms, WINDOW_MS / 2)  # by so much two ends may be seen too late
        overdue_ms = now_ms - ends[-1].at_ms - late_ms - max(OVERDUE * longest_ms, WINDOW_MS / 2)
        share_left = 1 - max(0.0, overdue_ms) / WINDOW_MS
        if share_left <= 0:
            return Growth(_NOTHING, (now_ms - ends[-1].at_ms) / 1000)
        return Growth(self._grown(ends[0], ends[-1]), (ends[-1].at_ms - ends[0].at_ms) / 1000 / share_left)

    def _grown(self, before: _Point, after: _Point) -> Counts:
        """The growth between two points; the same object for the same points, so that callers see that nothing is
        new."""
        if self._newest is None or self._newest[0] is not before or self._newest[1] is not after:
            self._newest = (before, after, _grown(before.counts, after.counts))
        return self._newest[2]


# A meter has a hundred fields, and there is one for each query: no loop in Python goes over them each second.
def _fell(before: Counts, after: Counts) -> bool:
    return any(map(lt, map(after.get, before, repeat(0)), before.values()))


def _grown(before: Counts, after: Counts) -> dict[str, int]:
    return dict(zip(after, map(sub, after.values(), map(before.get, after, repeat(0))), strict=True))
