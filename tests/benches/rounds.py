"""A round of the bench of connectors: from the first event that is read to the last that passes. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

REST_S = 3.0  # without a new event, after which none is under way


@dataclass(frozen=True)
class Reading:
    """What so many events took: seconds, and CPU seconds by part. ``again`` of them had come before."""

    events: int
    elapsed_s: float
    cpu_s: dict[str, float]
    again: int = 0

    @property
    def rate_per_s(self) -> float:
        return self.events / self.elapsed_s

    def us_per_event(self, part: str = "") -> float:
        """CPU of an event in microseconds, of a part or of all."""
        return 1e6 * (self.cpu_s[part] if part else sum(self.cpu_s.values())) / self.events


@dataclass(frozen=True)
class Moment:
    """How far a round is: the time in seconds, events that the source has read and that have passed the output, ever,
    and CPU seconds by part."""

    at_s: float
    read: int
    passed: int
    cpu_s: dict[str, float]


def reading_of(before: Moment, moments: Iterator[Moment], *, events: int) -> Reading:
    """What a round took, from its first moment to the one at which the last event had passed.

    Which events came twice cannot be told from counts while they come. So a round is over when all that the source has
    read has passed and, for ``REST_S``, nothing has come any more; that wait is no part of the reading.

    Parameters
    ----------
    before : Moment
        While the source was paused.
    moments : iterator of Moment
        From the first block on.
    events : int
        How many were sent, each at least once.
    """
    began = last = next(moments)
    for moment in moments:
        if (moment.read, moment.passed) != (last.read, last.passed):
            last = moment
        read, passed = last.read - before.read, last.passed - before.passed
        if passed >= max(read, events) and moment.at_s - last.at_s >= REST_S:
            break
    return Reading(
        passed, last.at_s - began.at_s, {part: last.cpu_s[part] - began.cpu_s[part] for part in last.cpu_s},
        again=passed - events)
