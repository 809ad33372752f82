"""Readings of the estate for live pages: reports, and rates over a window of the last seconds.

Imports the broker's client and ``observed``, nothing of Spark.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import redis

from scheduler.model.estate import Fragment
from workers import observed

WINDOW_MS = 5_000  # rates are over this much: steady to the eye, yet a change shows within a second
SHORTEST_MS = 300  # two readings nearer than this make no rate
LONGEST_MS = 60_000  # nor do two further apart: nobody looked for a while, or the broker was restarted
FRESH_S = 0.25  # a reading is shared by everybody who asks within this time


@dataclass(frozen=True, slots=True)
class Reading:
    """Reports by node, and flows between two readings of the meters; ``measured`` is False after a first reading."""

    reports: Mapping[str, observed.Report] = field(default_factory=dict)
    flows: observed.Flows = field(default_factory=observed.Flows)
    measured: bool = False


class RateWindow:
    """Keeps the meters of the last seconds, so that each new reading gives rates. Safe to share among threads."""

    def __init__(self, broker: redis.Redis, *, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._broker = broker
        self._monotonic_s = monotonic_s
        self._lock = threading.Lock()
        self._meters: deque[observed.Meters] = deque()
        self._reports: Mapping[str, observed.Report] = {}
        self._read_at_s = float("-inf")
        self._names: frozenset[str] = frozenset()

    def read(self, fragments: Sequence[Fragment], parents: Mapping[str, tuple[str, ...]]) -> Reading:
        """Reports and flows of these fragments; raises ``redis.RedisError`` where the broker is away."""
        names = observed.queries_of(fragments)
        with self._lock:
            fresh = self._monotonic_s() - self._read_at_s < FRESH_S
            if not fresh or not names <= self._names:
                self._read_anew(names)
            before, after = self._meters[0], self._meters[-1]
            measured = after.at_ms - before.at_ms >= SHORTEST_MS
            flows = observed.flows(before, after, fragments, parents) if measured else observed.Flows()
            return Reading(reports=self._reports, flows=flows, measured=measured)

    def _read_anew(self, names: frozenset[str]) -> None:
        self._reports = observed.read_reports(self._broker)
        meters = observed.read_meters(self._broker, names)
        self._read_at_s, self._names = self._monotonic_s(), names
        if self._meters and not 0 <= meters.at_ms - self._meters[-1].at_ms <= LONGEST_MS:
            self._meters.clear()
        self._meters.append(meters)
        while len(self._meters) > 2 and (
            meters.at_ms - self._meters[1].at_ms >= WINDOW_MS or meters.at_ms - self._meters[0].at_ms > 2 * WINDOW_MS
        ):
            self._meters.popleft()
