"""Turns of limits on wide ways: a round of pacing looks at some of them, and teams have equal shares of it.

Such a limit has its slowest path looked for some ten times a round, in a time that grows with its streams. So a round
looks at so many streams of wide ways in all: always that team's next which has had least of it, and of a team the limit
that has waited longest (start-time fair queueing). A limit that waits keeps its state, and its queries their intervals.

References
----------
.. [1] Goyal, Vin and Cheng, "Start-time Fair Queueing: A Scheduling Algorithm for Integrated Services Packet Switching
   Networks", 1996.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from .pacing_values import LimitOnWay, Queries
from .ways import upstream_of
from .wide_ways import is_wide

K = TypeVar("K", bound=Hashable)
MOST_LOOKED_AT = 40_000  # streams of wide ways in a round; one way, where it has more


@dataclass(frozen=True, slots=True)
class WideLimit:
    """A limit on a wide way: whose it is, and how many streams there are between the queries of its way."""

    team: str
    streams: int


class LimitTurns(Generic[K]):
    """Says round by round which wide limits are looked at, and remembers who had how much."""

    def __init__(self) -> None:
        self._looked_at: dict[str, float] = {}  # streams, by team
        self._turns = 0  # that limits have had
        self._last: dict[K, int] = {}  # which of them a limit had last

    def of_round(self, wide: Mapping[K, WideLimit], *, most: int) -> frozenset[K]:
        """The limits that are looked at in this round: all of them where they have no more than ``most`` streams."""
        if sum(limit.streams for limit in wide.values()) <= most:
            self._looked_at, self._last = {}, {}
            return frozenset(wide)
        waiting: dict[str, list[K]] = {}
        for key in sorted(wide, key=lambda key: (-self._last.get(key, 0), str(key))):
            waiting.setdefault(wide[key].team, []).append(key)  # who has waited longest is the last of its team
        least = min((streams for team, streams in self._looked_at.items() if team in waiting), default=0.0)
        self._looked_at = {team: self._looked_at.get(team, least) for team in waiting}  # who is new begins beside them
        chosen: set[K] = set()
        remaining_streams = most
        while waiting:
            team = min(waiting, key=lambda team: (self._looked_at[team], team))
            key = waiting[team].pop()
            if chosen and wide[key].streams > remaining_streams:
                break
            remaining_streams -= wide[key].streams
            chosen.add(key)
            self._turns += 1
            self._last[key] = self._turns
            self._looked_at[team] += wide[key].streams
            if not waiting[team]:
                del waiting[team]
        self._last = {key: turn for key, turn in self._last.items() if key in wide}
        return frozenset(chosen)


def wide_limits(queries: Queries, wants: Mapping[K, LimitOnWay]) -> dict[K, WideLimit]:
    """The limits on wide ways, by key."""
    return {key: WideLimit(want.team, sum(map(len, want.way.writers.values()))) for key, want in wants.items()
            if is_wide(queries.reads, want.way)}


def as_they_are(queries: Queries, ways_of: Mapping[K, LimitOnWay]) -> Queries:
    """The queries, of which those upstream of some limits get no longer intervals than they have."""
    if not ways_of:
        return queries
    upstream = {query for want in ways_of.values() for query in upstream_of(queries.reads, want.way.writers)
            if query in queries.before_s}
    return replace(queries, bounds_s=queries.bounds_s | {
        query: min(queries.bounds_s.get(query, queries.largest_s), queries.before_s[query]) for query in upstream})
