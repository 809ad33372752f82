"""Readings of the estate for live pages: reports, and steady rates of the last seconds (``steady.py``).

Imports the broker's client and ``observed``, nothing of Spark.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import redis

from scheduler.contracts.reports import Reports
from scheduler.model.fragment import Fragment
from workers.engine import observed
from workers.engine.steady import WINDOW_MS, Track

SHORTEST_MS = 300  # two readings nearer than this make no rate
LONGEST_MS = 60_000  # nor do two further apart: nobody looked for a while, or the broker was restarted
FRESH_S = 0.25  # reports are shared by everybody who asks within this time
COUNTED_EVERY_S = 0.7  # and meters: rates are of some seconds, and pages that look twice a second gain nothing by more


@dataclass(frozen=True, slots=True)
class EstateReading:
    """Reports by node, and flows between two readings of the meters; ``measured`` is False after a first reading."""

    reports: Reports = field(default_factory=Reports)
    flows: observed.Flows = field(default_factory=observed.Flows)
    measured: bool = False


class RateWindow:
    """Keeps what the meters of the last seconds say, so that each new reading gives rates. Safe to share among threads.

    What is kept is of the whole estate: a query that an older reading does not have began after it, so all that it has
    counted since is its growth. Whoever wants a part of the estate compares with these readings and adds none.
    """

    def __init__(self, broker: redis.Redis, *, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._broker = broker
        self._monotonic_s = monotonic_s
        self._lock = threading.Lock()
        self._meters: deque[observed.Meters] = deque()
        self._answers: observed.MeterAnswers = {}
        self._tracks: dict[str, Track] = {}
        self._latencies: dict[str, observed.FragmentLatencies] = {}
        self._reports = Reports()
        self._read_at_s = self._counted_at_s = float("-inf")
        self._names: frozenset[str] = frozenset()
        self._last_flows: tuple[list[Fragment], Mapping[str, tuple[str, ...]], observed.Flows] | None = None

    def read(self, fragments: Sequence[Fragment], parents: Mapping[str, tuple[str, ...]]) -> EstateReading:
        """Reports and flows of all fragments of the estate, or the reports alone where it is asked for no fragment.

        Raises ``redis.RedisError`` where the broker is away.
        """
        names = observed.queries_of(fragments)
        with self._lock:
            fresh = self._monotonic_s() - self._read_at_s < FRESH_S
            if not names:  # whoever wants reports alone must not leave a reading that lacks what runs
                return EstateReading(self._reports if fresh else observed.read_reports(self._broker), measured=True)
            if not fresh or not names <= self._names:
                self._reports = observed.read_reports(self._broker)
                self._read_at_s = self._monotonic_s()
            every_s = COUNTED_EVERY_S if self._is_measured() else FRESH_S
            if self._monotonic_s() - self._counted_at_s >= every_s or not names <= self._names:
                self._count_anew(names)
            before, after = self._meters[0], self._meters[-1]
            measured = self._is_measured()
            flows = observed.Flows()
            if measured:
                flows = self._flows(list(fragments), parents, names, over_s=(after.at_ms - before.at_ms) / 1000)
            return EstateReading(reports=self._reports, flows=flows, measured=measured)

    def _is_measured(self) -> bool:
        """Whether the window is long enough for rates."""
        return bool(self._meters) and self._meters[-1].at_ms - self._meters[0].at_ms >= SHORTEST_MS

    def _flows(
        self, fragments: list[Fragment], parents: Mapping[str, tuple[str, ...]], names: frozenset[str], *,
        over_s: float,
    ) -> observed.Flows:
        """The flows of these fragments by the newest reading: worked out once for all who ask about the same."""
        if self._last_flows is None or self._last_flows[0] != fragments or self._last_flows[1] != parents:
            growths = {name: self._tracks[name].growth() for name in names}
            flows = observed.flows_of(
                growths, self._meters[-1], fragments, parents, over_s=over_s, before=self._latencies)
            self._last_flows = (fragments, dict(parents), flows)
        return self._last_flows[2]

    def read_part(self, fragments: Sequence[Fragment], parents: Mapping[str, tuple[str, ...]]) -> observed.Flows:
        """Flows of some fragments since the oldest reading of the window that has all of them.

        None where no such reading is far enough from now, or near enough; raises ``redis.RedisError`` where the broker
        is away.
        """
        names = observed.queries_of(fragments)
        after = observed.read_meters(self._broker, names)
        with self._lock:
            before = next((
                meters for meters in self._meters
                if names <= meters.counts.keys() and SHORTEST_MS <= after.at_ms - meters.at_ms <= LONGEST_MS), None)
        return observed.Flows() if before is None else observed.flows(before, after, fragments, parents)

    def _count_anew(self, names: frozenset[str]) -> None:
        meters = observed.read_meters(self._broker, names, before=self._answers)
        self._counted_at_s, self._names, self._last_flows = self._monotonic_s(), names, None
        if self._meters and not 0 <= meters.at_ms - self._meters[-1].at_ms <= LONGEST_MS:
            self._meters.clear()
            self._tracks.clear()
        self._follow(meters)
        self._meters.append(meters)
        # The oldest goes only where what is left is still long enough: of a part of a second a rate is chance.
        while len(self._meters) > 2 and meters.at_ms - self._meters[1].at_ms >= WINDOW_MS:
            self._meters.popleft()

    def _follow(self, meters: observed.Meters) -> None:
        before_ms = self._meters[-1].at_ms if self._meters else None
        for name, counts in meters.counts.items():
            self._tracks.setdefault(name, Track()).look(meters.at_ms, counts, before_ms=before_ms)
        # One that is away comes back where a plan is taken back: what it had counted before is not counted again.
        self._tracks = {
            name: track for name, track in self._tracks.items() if meters.at_ms - track.looked_at_ms <= LONGEST_MS}
