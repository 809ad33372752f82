"""Samples for the QoS reporter (paper [5], 3.3): what a query's meters and its slot say since the last look."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scheduler.latency.measuring import Sample
from workers.engine.observed import grown, histograms_of, mean_ms

Counts = Mapping[str, int]


class Sampler:
    """Remembers the last look at each query, so that the next one gives a sample."""

    def __init__(self) -> None:
        self._counts: dict[str, Counts] = {}
        self._work: dict[str, tuple[int, int]] = {}  # batches, and how long they took in ms

    def forget_others(self, queries: Mapping[str, Any]) -> None:
        """Drop what is remembered of all but these."""
        for known in (self._counts, self._work):
            for query in known.keys() - queries.keys():
                del known[query]

    def look(self, query: str, counts: Counts, report: Mapping[str, Any], *, source: bool) -> Sample | None:
        """A sample of a query that runs, where a batch with events has ended since the last look.

        Parameters
        ----------
        query : str
            Its id.
        counts : mapping of str to int
            Its meters.
        report : mapping
            What its slot tells of it.
        source : bool
            Whether events come into it from outside. Its latency is then the age at which they leave it: it contains
            the wait for a batch. Else that is in the channels that it reads, up to when a batch reads the block.
        """
        trigger_ms, work = report.get("trigger_ms"), (int(report.get("batches") or 0), int(report.get("busy_ms") or 0))
        counted, worked = self._counts.get(query), self._work.get(query)
        if trigger_ms is None or report.get("state") != "running":
            return None
        if counted is None or worked is None or work[0] < worked[0]:
            self._counts[query], self._work[query] = counts, work
            return None
        if counts == counted or work[0] == worked[0]:  # slots tell of a batch a moment after it was counted
            return None
        self._counts[query], self._work[query] = counts, work
        growth = grown(counted, counts)
        batch_s = (work[1] - worked[1]) / (work[0] - worked[0]) / 1000
        interval_s = trigger_ms / 1000
        if source:
            age_s = _age_s(growth)
            return None if age_s is None else Sample(age_s, interval_s, batch_s, lifetime_s=interval_s)
        histograms = histograms_of(growth)
        channel_ms, wait_ms = (mean_ms(histograms.get(name, {})) for name in ("in:chan", "in:wait"))
        if channel_ms is None or wait_ms is None:
            return None
        planned_s = max(0.0, channel_ms - wait_ms) / 1000  # is within the batch, and in the channel already
        return Sample(
            max(0.0, batch_s - planned_s), interval_s, batch_s, lifetime_s=2 * wait_ms / 1000,
            channel_s=channel_ms / 1000)


def _age_s(growth: Counts) -> float | None:
    """The mean age of the events of the last task that any left."""
    positions = [int(name.removesuffix(":aged")) for name, count in growth.items() if name.endswith(":aged") and count]
    return growth.get(f"{max(positions)}:age", 0) / growth[f"{max(positions)}:aged"] / 1000 if positions else None
