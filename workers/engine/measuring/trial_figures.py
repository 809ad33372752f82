"""Figures of a trial from its batches: latency and its slope, the rate that came through, whether enough is known.

A micro-batch engine has two latencies: an event waits for its batch's trigger, up to one interval and by chance, and
then for its batch. Only what is beyond one interval says that threads do not keep up: while every batch ends before the
next is due, nothing can pile up. The slope is of that part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from scheduler.model.slope import slope

CLEAR_GROWTH = 0.2  # s of latency a second: so clear that a trial may end before its time
LITTLE_GROWTH = 0.02  # no more than this is none
PATIENCE = 3  # times what was asked for is measured where it is in doubt
LITTLE_WORK = 0.5  # of the trigger interval: a batch that takes no more leaves no doubt
ENOUGH_BATCHES = 4  # of fewer there is no telling batches that grow from batches that are long
MANY_BATCHES = 6  # of fewer their scatter passes for growth
QUANTILES = {"p05": 0.05, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p95": 0.95, "p99": 0.99}


@dataclass(frozen=True, slots=True)
class TrialBatch:
    """A batch that carried events: when it was planned and when it had ended, in seconds of one clock; how many events
    went in and came out, and the mean moment at which those that came out were born (None: none came out)."""

    planned_s: float
    ended_s: float
    events_in: int
    events_out: int = 0
    born_s: float | None = None

    @property
    def took_s(self) -> float:
        """The duration of the batch, in seconds."""
        return self.ended_s - self.planned_s

    @property
    def latency_s(self) -> float | None:
        """The mean latency of what came out."""
        return None if self.born_s is None else self.ended_s - self.born_s

    def beyond_s(self, trigger_s: float) -> float:
        """Its events' mean latency in s, less up to one trigger interval of waiting; one interval at least."""
        waited_s = 0.0 if self.born_s is None else self.planned_s - self.born_s
        return max(self.took_s, trigger_s) + max(0.0, waited_s - trigger_s)


def row_of(batch: TrialBatch, *, began_s: float) -> tuple[float, float, int, int, float | None]:
    """A batch as trials keep it: its fields in their order, moments counted from ``began_s``."""
    born_s = None if batch.born_s is None else round(batch.born_s - began_s, 4)
    return (round(batch.planned_s - began_s, 4), round(batch.ended_s - began_s, 4), batch.events_in, batch.events_out,
            born_s)


def batch_of(progress: Mapping[str, Any], *, started_s: float) -> TrialBatch:
    """A batch from Spark's progress (JSON) and the moment at which its trigger began.

    Inside a trigger the query first waits for events (``latestOffset``): its batch begins then. ``observed`` is what
    ``host.OBSERVED`` counted of what came out.
    """
    durations = progress.get("durationMs", {})
    observed = (progress.get("observedMetrics") or {}).get("weir", {})
    born_ms = observed.get("born")
    return TrialBatch(
        planned_s=started_s + durations.get("latestOffset", 0) / 1000,
        ended_s=started_s + durations.get("triggerExecution", 0) / 1000,
        events_in=int(progress.get("numInputRows", 0)), events_out=int(observed.get("events") or 0),
        born_s=None if born_ms is None else float(born_ms) / 1000,
    )


def latency_slope(batches: Sequence[TrialBatch], *, trigger_s: float, now_s: float) -> float:
    """λ_L: by how many seconds latency grows in a second.

    A batch that is under way for longer than an interval counts as if it ended now: it will end later. Where fewer
    than two batches are there, nothing comes out, and latency grows with time.
    """
    points = [(batch.ended_s, batch.beyond_s(trigger_s)) for batch in batches]
    if batches and now_s - batches[-1].ended_s > max(trigger_s, batches[-1].took_s) + trigger_s:
        points.append((now_s, now_s - batches[-1].planned_s))
    gained = slope([at for at, _ in points], [latency for _, latency in points])
    return 1.0 if gained == inf else gained


def achieved_per_s(batches: Sequence[TrialBatch], *, measured_s: float) -> float:
    """Events that the task got through in a second: from the end of the first batch to that of the last.

    How much longer the last one took than the first goes by the trend of all: one late batch at either end is none.
    """
    if len(batches) < 2:
        return sum(batch.events_in for batch in batches) / measured_s
    growth = slope([batch.planned_s for batch in batches], [batch.took_s for batch in batches])
    between_s = (batches[-1].planned_s - batches[0].planned_s) * (1 + growth)
    return sum(batch.events_in for batch in batches[1:]) / between_s


def batches_per_s(batches: Sequence[TrialBatch], *, measured_s: float) -> float:
    """Batches in a second, from the first's beginning to the last's."""
    if len(batches) < 2:
        return len(batches) / measured_s
    return (len(batches) - 1) / (batches[-1].planned_s - batches[0].planned_s)


def is_clear(batches: Sequence[TrialBatch], *, trigger_s: float, now_s: float, measured_s: float) -> bool:
    """True where the trial shows beyond doubt that the rate is held with much to spare, or that it is not."""
    if measured_s < ENOUGH_BATCHES * trigger_s or len(batches) < ENOUGH_BATCHES:
        return False
    idle = all(batch.took_s <= LITTLE_WORK * trigger_s for batch in batches)
    if idle and now_s - batches[-1].ended_s < 2 * trigger_s:
        return True
    grows = latency_slope(batches, trigger_s=trigger_s, now_s=now_s)
    return batches[-1].took_s > 1.5 * trigger_s and grows > CLEAR_GROWTH


def is_enough(
    batches: Sequence[TrialBatch], *, trigger_s: float, now_s: float, measured_s: float, seconds: float
) -> bool:
    """True where the window may end: it is clear, or the time is over that was asked for.

    Where latency grew in that time, but so little that late batches may be all there is to it, or where batches are so
    long that there are few, it goes on for up to three times as long: what grows for good is then told from what does
    not.
    """
    if measured_s >= PATIENCE * seconds or is_clear(
        batches, trigger_s=trigger_s, now_s=now_s, measured_s=measured_s):
        return True
    if measured_s < seconds or len(batches) < MANY_BATCHES:
        return False
    return not LITTLE_GROWTH < latency_slope(batches, trigger_s=trigger_s, now_s=now_s) <= CLEAR_GROWTH


def quantiles_s(before: Mapping[int, int], after: Mapping[int, int], percentile_ms: Any) -> dict[str, float]:
    """Quantiles of what a latency histogram gained, in seconds; empty where it gained nothing."""
    gained = {bucket: count - before.get(bucket, 0) for bucket, count in after.items()}
    quantiles = {name: percentile_ms(gained, share) for name, share in QUANTILES.items()}
    return {name: round(value / 1000, 4) for name, value in quantiles.items() if value is not None}
