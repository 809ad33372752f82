"""Samples for the QoS reporter (paper [5], 3.3): what a query's meters and its slot say since the last look."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from scheduler.contracts.qos import OwnQuery
from scheduler.latency.histograms import mean_ms
from scheduler.latency.latency_reports import ChannelSample, QuerySample
from workers.engine.observed import grown, histograms_of

Counts = Mapping[str, int]

NOTHING: Counts = MappingProxyType({})


class Sampler:
    """Remembers the last look at each query, so that the next one gives a sample."""

    def __init__(self) -> None:
        self._counts: dict[str, Counts] = {}
        self._channels: dict[str, Counts] = {}
        self._work: dict[str, tuple[int, int]] = {}  # batches, and how long they took in ms

    def forget_others(self, queries: Mapping[str, Any]) -> None:
        """Drop what is remembered of all but these."""
        for memory in (self._counts, self._channels, self._work):
            for query in memory.keys() - queries.keys():
                del memory[query]

    def look(
        self, query: str, counts: Counts, report: Mapping[str, Any], *, setup: OwnQuery, channels: Counts = NOTHING,
    ) -> QuerySample | None:
        """A sample of a query that runs, where a batch with events has ended since the last look.

        Parameters
        ----------
        setup : OwnQuery
            The query as its manager has it. Of a source the latency is the age at which events leave it: it contains
            the wait for a batch. Else that is in the channels that it reads, up to when a batch reads the block.
        """
        trigger_ms, work = report.get("trigger_ms"), (int(report.get("batches") or 0), int(report.get("busy_ms") or 0))
        counted, worked, before = self._counts.get(query), self._work.get(query), self._channels.get(query, NOTHING)
        if trigger_ms is None or report.get("state") != "running":
            return None
        if counted is None or worked is None or work[0] < worked[0]:
            self._counts[query], self._work[query], self._channels[query] = counts, work, channels
            return None
        if counts == counted or work[0] == worked[0]:  # slots tell of a batch a moment after it was counted
            return None
        self._counts[query], self._work[query], self._channels[query] = counts, work, channels
        growth = grown(counted, counts)
        batch_s = (work[1] - worked[1]) / (work[0] - worked[0]) / 1000
        interval_s, histograms = trigger_ms / 1000, histograms_of(growth)
        last = _last(growth)
        ages = {} if last is None or not setup.ages else _counted(histograms.get(f"{last}:lat", {}))
        if setup.source:
            if last is None:
                return None
            age_s = growth.get(f"{last}:age", 0) / growth[f"{last}:aged"] / 1000
            return QuerySample(age_s, interval_s, batch_s, lifetime_s=interval_s, ages=ages)
        channel_ms, wait_ms = (mean_ms(histograms.get(name, {})) for name in ("in:chan", "in:wait"))
        if channel_ms is None or wait_ms is None:
            return None
        planned_s = max(0.0, channel_ms - wait_ms) / 1000  # is within the batch, and in the channel already
        return QuerySample(
            max(0.0, batch_s - planned_s), interval_s, batch_s, lifetime_s=2 * wait_ms / 1000,
            channel_s=channel_ms / 1000, channels=_by_writer(grown(before, channels), setup.reads), ages=ages)


def _by_writer(growth: Counts, reads: Mapping[str, str]) -> dict[str, ChannelSample]:
    """What was read of each query since the last look; of several channels of one all together."""
    sums: dict[str, Counter[str]] = {}
    for channel, writer in reads.items():
        sums.setdefault(writer, Counter()).update(
            {counter: growth.get(f"{channel}:{counter}", 0) for counter in ("blocks", "chan", "wait")})
    return {
        writer: ChannelSample(counts["chan"] / counts["blocks"] / 1000, 2 * counts["wait"] / counts["blocks"] / 1000)
        for writer, counts in sums.items() if counts["blocks"]}


def _counted(histogram: Mapping[int, int]) -> dict[int, int]:
    return {bucket: count for bucket, count in histogram.items() if count}


def _last(growth: Counts) -> int | None:
    """The position of the last task that any events left."""
    return max(
        (int(name.removesuffix(":aged")) for name, count in growth.items() if name.endswith(":aged") and count),
        default=None)
