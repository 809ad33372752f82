"""Latency as managers know it: reports of nodes, and a running mean over a constraint's span (paper [5], 3.3)."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from .constraints import Element


@dataclass(frozen=True, slots=True)
class Report:
    """What a node's reporter sends a manager at the end of an interval: a mean in seconds for each element.

    ``lifetimes_s`` are those of output buffers, by the channels that they belong to. They are no part of the latency
    of a sequence: that of a channel contains them.
    """

    at_s: float
    latencies_s: Mapping[Element, float] = field(default_factory=dict)
    lifetimes_s: Mapping[Element, float] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        """Whether there is nothing to send."""
        return not self.latencies_s and not self.lifetimes_s


class Reporter:
    """What one node measured since its last report to a manager. An interval keeps one sample of an element.

    Parameters
    ----------
    interval_s : float
        The time between two reports.
    offset_s : float
        When the first one is due, from 0 up to the interval: drawn at random, so that reports do not come in bursts.
    """

    def __init__(self, *, interval_s: float, offset_s: float) -> None:
        if not 0 <= offset_s < interval_s:
            raise ValueError(f"the offset of a report lies within its interval of {interval_s:g} s, not {offset_s:g} s")
        self._interval_s, self._due_s = interval_s, offset_s
        self._latencies_s: dict[Element, float] = {}
        self._lifetimes_s: dict[Element, float] = {}

    def wants(self, element: Element) -> bool:
        """Whether this interval has no sample of an element yet: whether to tag the next event."""
        return element not in self._latencies_s

    def latency(self, element: Element, seconds: float) -> None:
        """A sample of the latency of a task or a channel; further ones of the same interval do not count."""
        self._latencies_s.setdefault(element, seconds)

    def lifetime(self, channel: Element, seconds: float) -> None:
        """How long an output buffer took to fill; one a channel and interval counts."""
        self._lifetimes_s.setdefault(channel, seconds)

    def due(self, now_s: float) -> Report | None:
        """The report of an interval that has ended, or None: before its end, and where nothing was measured."""
        if now_s < self._due_s:
            return None
        intervals = (now_s - self._due_s) // self._interval_s + 1
        self._due_s += intervals * self._interval_s
        report = Report(now_s, self._latencies_s, self._lifetimes_s)
        self._latencies_s, self._lifetimes_s = {}, {}
        return None if report.empty else report


class RunningMeans:
    """The mean of each element's samples that are fresher than a span.

    Parameters
    ----------
    over_s : float
        The span of the constraint, in seconds.
    """

    def __init__(self, over_s: float) -> None:
        self._over_s = over_s
        self._samples: dict[Element, deque[tuple[float, float]]] = {}

    def add(self, at_s: float, values_s: Mapping[Element, float]) -> None:
        """A report's values. Reports of one element come in the order of their times."""
        for element, value_s in values_s.items():
            self._samples.setdefault(element, deque()).append((at_s, value_s))

    def forget(self, element: Element) -> None:
        """Drop the samples of an element, after a change that they do not know of."""
        self._samples.pop(element, None)

    def at(self, now_s: float) -> dict[Element, float]:
        """The means at a moment; an element without a fresh sample is left out."""
        means_s = {}
        for element, samples in list(self._samples.items()):
            while samples and samples[0][0] <= now_s - self._over_s:
                samples.popleft()
            if samples:
                means_s[element] = sum(value_s for _, value_s in samples) / len(samples)
            else:
                del self._samples[element]
        return means_s
