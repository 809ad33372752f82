"""Latency as managers know it: reports of nodes, and a running mean over a constraint's span (paper [5], 3.3)."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from scheduler.contracts.qos import ARROW, QosReport
from scheduler.model.checks import FiniteFigures

from .constraints import Element


@dataclass(frozen=True, slots=True)
class ChannelSample(FiniteFigures):
    """A sample of one channel: from written to read; and twice what blocks waited for a batch."""

    latency_s: float
    lifetime_s: float


@dataclass(slots=True)
class QuerySample(FiniteFigures):
    """Measurements of a query between two looks, in seconds; None where nothing was.

    ``channel_s`` is the latency of all that it reads, ``channels`` by query that writes it; without them, as long as a
    driver runs that does not tell channels apart, all have the same. ``ages`` is a histogram.
    """

    latency_s: float
    interval_s: float
    batch_s: float
    lifetime_s: float | None = None
    channel_s: float | None = None
    channels: Mapping[str, ChannelSample] = field(default_factory=dict)
    ages: Mapping[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Gathered:
    latencies_s: dict[str, float] = field(default_factory=dict)
    lifetimes_s: dict[str, float] = field(default_factory=dict)
    intervals_s: dict[str, float] = field(default_factory=dict)
    batches_s: dict[str, float] = field(default_factory=dict)
    ages: dict[str, Mapping[int, int]] = field(default_factory=dict)


class Reporter:
    """The measurements of one node for a manager since its last report. An interval keeps one sample of an element.

    Parameters
    ----------
    queries : mapping of str to sequences of str
        The queries to measure, each with the channels into it that are to be measured, as reports name them.
    offset_s : float
        The time of the first one, from 0 up to the interval: drawn at random, so that reports do not come in bursts.
    """

    def __init__(
        self, node: str, queries: Mapping[str, tuple[str, ...]], *, interval_s: float, offset_s: float
    ) -> None:
        if not 0 <= offset_s < interval_s:
            raise ValueError(f"the offset of a report lies within its interval of {interval_s:g} s, not {offset_s:g} s")
        self._node, self._queries = node, queries
        self._interval_s, self._due_s = interval_s, offset_s
        self._interval = _Gathered()

    def wants(self, query: str) -> bool:
        """True if this interval has no sample of a query yet: whether to look at its meters."""
        return query in self._queries and query not in self._interval.latencies_s

    def take(self, query: str, sample: QuerySample) -> None:
        """A sample of a query and the channels that it reads; further ones of the same interval do not count."""
        if not self.wants(query):
            return
        gathered = self._interval
        gathered.latencies_s[query] = sample.latency_s
        gathered.intervals_s[query], gathered.batches_s[query] = sample.interval_s, sample.batch_s
        if sample.lifetime_s is not None:
            gathered.lifetimes_s[query] = sample.lifetime_s
        if sample.ages:
            gathered.ages[query] = sample.ages
        for channel in self._queries[query]:
            self._take_channel(channel, sample)

    def _take_channel(self, channel: str, sample: QuerySample) -> None:
        gathered, times = self._interval, sample.channels.get(channel.partition(ARROW)[0])
        if times is not None:
            gathered.latencies_s[channel], gathered.lifetimes_s[channel] = times.latency_s, times.lifetime_s
        elif not sample.channels and sample.channel_s is not None:
            gathered.latencies_s[channel] = sample.channel_s

    def due(self, now_s: float) -> QosReport | None:
        """The report of an interval that has ended, or None: before its end, and where nothing was measured."""
        if now_s < self._due_s:
            return None
        intervals = (now_s - self._due_s) // self._interval_s + 1
        self._due_s += intervals * self._interval_s
        gathered, self._interval = self._interval, _Gathered()
        if not gathered.latencies_s:
            return None
        return QosReport(
            self._node, gathered.latencies_s, gathered.lifetimes_s, gathered.intervals_s, gathered.batches_s,
            gathered.ages)


class RunningMeans:
    """The mean of each element's samples that are fresher than a span."""

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


class RunningHistogram:
    """The ages of events that left some queries, as far as they are fresher than a span."""

    def __init__(self, over_s: float) -> None:
        self._over_s = over_s
        self._samples: deque[tuple[float, Mapping[int, int]]] = deque()

    def add(self, at_s: float, counts: Mapping[int, int]) -> None:
        """Add the counts of one report on one query. Reports come in the order of their times."""
        self._samples.append((at_s, counts))

    def forget(self) -> None:
        """Drop all, after a change that it does not know of."""
        self._samples.clear()

    def at(self, now_s: float) -> Mapping[int, int]:
        """The number of events of each age, by bucket."""
        while self._samples and self._samples[0][0] <= now_s - self._over_s:
            self._samples.popleft()
        merged: Counter[int] = Counter()
        for _, counts in self._samples:
            merged.update(counts)
        return merged
