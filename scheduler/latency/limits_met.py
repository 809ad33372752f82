"""The state of latency limits: by what was measured where the intervals in force have settled. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from scheduler.model.latency_limits import LatencyLimit

from .pacing import Expected

MET, MISSED, IMPOSSIBLE, WAITING = "met", "missed", "impossible", "waiting"
STATES = (MET, MISSED, IMPOSSIBLE, WAITING)
LATE = frozenset({MISSED, IMPOSSIBLE})
TOLERATED = 1.1  # times a limit, before it counts as missed
LEAST_POINTS = 5  # of measured latency, before their mean says anything
LOWEST, HIGHEST = -0.1, 2.0  # of a limit: by so much what is modelled is corrected at most
CARRIED_OVER = 0.3  # of a limit: as much of a correction that was measured under another one is believed
RECENT_S = 20.0  # what is measured over so long decides; over a limit's own span is told


@dataclass(frozen=True, slots=True)
class LimitStatus:
    """The status of one latency limit at the last look. Latencies in seconds.

    ``number`` counts the dataflow's limits. ``expected_s`` is with the intervals that were chosen; ``measured_s`` since
    these are in force; ``least_s``, where the limit cannot be met by the model, the least that there is. ``path`` is
    its slowest way: fragment, wait and batch. It is late since ``late_since_s``, and ``hopeless`` where neither
    intervals nor open batches would meet it, by far.
    """

    dataflow: str
    number: int
    limit: LatencyLimit
    state: str
    expected_s: float
    measured_s: float | None = None
    least_s: float | None = None
    path: tuple[tuple[str, float, float], ...] = ()
    late_since_s: float | None = None
    hopeless: bool = False


def state_of(
    limit_s: float, expected: Expected, measured_s: float | None, *, is_whole: bool = False, is_proven: bool = False
) -> str:
    """``met``, ``missed``, ``impossible`` (no intervals would meet it) or ``waiting`` (it is not measured yet).

    A measurement counts before the model: a limit that held over its whole span is met, whatever the model says.

    Parameters
    ----------
    measured_s : float, optional
        The measured latency, in seconds; None where nothing was.
    is_whole : bool, optional
        True if that is of the limit's whole span.
    is_proven : bool, optional
        True if it was met by measurement until now: then it is until it is missed.
    """
    most_s = TOLERATED * limit_s if is_proven else limit_s
    if measured_s is not None and (is_whole or is_proven) and measured_s <= most_s:
        return MET
    if expected.least_s is not None:
        return IMPOSSIBLE
    if measured_s is None:
        return WAITING
    return MISSED if measured_s > TOLERATED * limit_s else MET


def is_beyond(limit_s: float, expected: Expected, *, other_s: float) -> bool:
    """True if a limit cannot be met, by more than would count as missed and whatever was measured beyond the model.

    Parameters
    ----------
    expected : Expected
        The latency of the limit, with the intervals and modes that suit it best.
    other_s : float
        The part of that beyond the model, in seconds.
    """
    return expected.least_s is not None and expected.latency_s - max(0.0, other_s) > TOLERATED * limit_s


def corrected(other_s: float, *, measured_s: float, modelled_s: float, limit_s: float) -> float:
    """The latency beyond what is modelled, from what was assumed of it and what a new measurement says: half of each.

    What is saved at long intervals is not saved at short ones, so what is less than modelled counts only in part.

    Parameters
    ----------
    other_s : float
        The correction so far, in seconds.
    measured_s, modelled_s : float
        At the same intervals; the model without ``other_s``.
    """
    missing_s = min(HIGHEST * limit_s, max(LOWEST * limit_s, measured_s - modelled_s))
    return (other_s + missing_s) / 2


def carried_over(other_s: float, limit_s: float) -> float:
    """The part of a correction under another limit that is assumed under this one, in seconds."""
    return min(CARRIED_OVER * limit_s, max(LOWEST * limit_s, other_s))


class LatencySample(NamedTuple):
    """The measurements of a moment: both in seconds, and of how many events a second."""

    at_s: float
    latency_s: float
    events_per_s: float


@dataclass(slots=True)
class Settled:
    """Latencies of one limit since the intervals on its way changed last.

    The mean is of events: of readings a second apart, each counts by how many events a second it is of.
    A change is over when everything has been through every batch at the new intervals: until then nothing counts.
    """

    intervals_s: tuple[float, ...] = ()
    since_s: float = 0.0
    points: list[LatencySample] = field(default_factory=list)
    first_s: float | None = None  # the moment of the first point since then
    is_whole: bool = False  # whether points cover the whole span

    def look(
        self, now_s: float, intervals_s: Iterable[float], latency_s: float | None, *, over_s: float,
        events_per_s: float = 1.0,
    ) -> None:
        """Take in what is measured at a moment."""
        intervals_s = tuple(intervals_s)
        if intervals_s != self.intervals_s:
            self.intervals_s, self.since_s, self.points, self.first_s = intervals_s, now_s, [], None
        if latency_s is not None and now_s >= self.since_s + settling_s(intervals_s):
            self.points.append(LatencySample(now_s, latency_s, events_per_s))
            self.first_s = now_s if self.first_s is None else self.first_s
        self.points = [point for point in self.points if point.at_s > now_s - over_s]
        self.is_whole = self.first_s is not None and now_s - self.first_s >= over_s - 1  # there is a point a second

    @property
    def mean_s(self) -> float | None:
        """The mean over the span; None while there are too few points."""
        return _mean(self.points)

    @property
    def recent_s(self) -> float | None:
        """The mean over the last `RECENT_S` seconds; None while there are too few points."""
        newest_s = self.points[-1].at_s if self.points else 0.0
        return _mean([point for point in self.points if point.at_s > newest_s - RECENT_S])


def _mean(points: Sequence[LatencySample]) -> float | None:
    if len(points) < LEAST_POINTS:
        return None
    events_per_s = sum(point.events_per_s for point in points)
    if not events_per_s:
        return None
    return sum(point.latency_s * point.events_per_s for point in points) / events_per_s


def settling_s(intervals_s: Iterable[float]) -> float:
    """The time in seconds after a change in which nothing counts: rates and latencies on record are of the last five
    seconds."""
    return 6.0 + 2 * sum(intervals_s)
