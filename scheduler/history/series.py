"""Series: what is measured over time, of whom, in which unit, and in which grains it is kept."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Fold = Literal["mean", "max", "min"]

ESTATE, DATAFLOW, TASK, STREAM, QUERY, SLOT, NODE = (
    "estate", "dataflow", "task", "stream", "query", "slot", "node")
KINDS = (ESTATE, DATAFLOW, TASK, STREAM, QUERY, SLOT, NODE)


@dataclass(frozen=True, slots=True)
class Grain:
    """Points of a series that are ``step_s`` apart and stay for ``keep_s``, both in seconds."""

    name: str
    step_s: int
    keep_s: int


SECOND = Grain("1s", 1, 15 * 60)
TEN_SECONDS = Grain("10s", 10, 24 * 3600)
MINUTE = Grain("1m", 60, 90 * 24 * 3600)
GRAINS = (SECOND, TEN_SECONDS, MINUTE)  # the finest first
GRAIN_BY_NAME = {grain.name: grain for grain in GRAINS}


@dataclass(frozen=True, slots=True)
class Metric:
    """The definition of a metric. ``fold`` makes a point of a coarser grain from those of a finer one.

    Of one that is ``numbered`` there is one for each latency limit of a dataflow: see `of_limit`.
    """

    name: str
    unit: str
    doc: str
    kinds: tuple[str, ...]
    fold: Fold = "mean"
    numbered: bool = False


# A percentile of percentiles is none: of p95 and p99 the highest is kept, which promises no better than it was.
_ALL = (
    Metric("events_in_per_s", "/s", "Events that sources emit.", (ESTATE, DATAFLOW)),
    Metric("events_out_per_s", "/s", "Events that reach sinks.", (ESTATE, DATAFLOW)),
    Metric("running_tasks", "", "Running tasks that work.", (ESTATE, DATAFLOW)),
    Metric("tasks_without_reuse", "", "Tasks that would run if nothing were shared.", (ESTATE,)),
    Metric("rate_per_s", "/s", "Events that leave a task, pass along a stream, or are taken in by a query.",
           (TASK, STREAM, QUERY)),
    Metric("latency_p50_ms", "ms", "Age of events since their source, median.", (DATAFLOW, TASK)),
    Metric("latency_mean_ms", "ms", "The same, mean; of a dataflow that of its slowest sink.", (DATAFLOW, TASK)),
    Metric("latency_p95_ms", "ms", "The same, 95th percentile; of the estate that of its slowest sink.",
           (ESTATE, DATAFLOW, TASK), "max"),
    Metric("latency_p99_ms", "ms", "The same, 99th percentile.", (ESTATE, DATAFLOW, TASK), "max"),
    Metric("latency_min_ms", "ms", "Of the youngest event that reached a sink.", (DATAFLOW,), "min"),
    Metric("latency_max_ms", "ms", "Of the oldest event that reached a sink.", (DATAFLOW,), "max"),
    Metric("watermark_lag_ms", "ms", "How far the latest event time that has left is behind the clock; of a dataflow "
           "that of its sink that is furthest behind.", (DATAFLOW, TASK, QUERY), "max"),
    Metric("late_per_s", "/s", "Events that come too late for a task.", (TASK,)),
    Metric("latency_waiting_ms", "ms", "Of the mean latency, waiting for batches along the slowest way.", (DATAFLOW,),
           numbered=True),
    Metric("latency_transport_ms", "ms", "Of it, between queries.", (DATAFLOW,), numbered=True),
    Metric("latency_working_ms", "ms", "Of it, the work of batches.", (DATAFLOW,), numbered=True),
    Metric("latency_limit_ms", "ms", "The latency that was asked for.", (DATAFLOW,), numbered=True),
    Metric("limits_missed", "", "How many of its latency limits are missed or impossible, as its page says.",
           (DATAFLOW,), "max"),
    Metric("channel_p50_ms", "ms", "From written to read, median.", (STREAM,)),
    Metric("channel_mean_ms", "ms", "The same, mean.", (STREAM,)),
    Metric("channel_p95_ms", "ms", "The same, 95th percentile.", (STREAM,), "max"),
    Metric("channel_p99_ms", "ms", "The same, 99th percentile.", (STREAM,), "max"),
    Metric("wait_p50_ms", "ms", "In the buffer of the reader's batch, median.", (STREAM,)),
    Metric("wait_mean_ms", "ms", "The same, mean.", (STREAM,)),
    Metric("wait_p99_ms", "ms", "The same, 99th percentile.", (STREAM,), "max"),
    Metric("backlog_blocks", "blocks", "Blocks that the broker holds for readers; of a query and a dataflow those of "
           "the stream that holds most.", (STREAM, QUERY, DATAFLOW), "max"),
    Metric("batch_ms", "ms", "How long the newest batch took.", (QUERY,)),
    Metric("trigger_ms", "ms", "How far apart its batches are asked to begin.", (QUERY,)),
    Metric("batch_asking_ms", "ms", "Of it, asking sources for events: mostly waiting for them.", (QUERY,)),
    Metric("batch_planning_ms", "ms", "Of it, Spark's planning.", (QUERY,)),
    Metric("batch_working_ms", "ms", "Of it, the work on its events.", (QUERY,)),
    Metric("batch_logging_ms", "ms", "Of it, writing offsets and commits.", (QUERY,)),
    Metric("batch_committing_ms", "ms", "Of the work, committing its state.", (QUERY,)),
    Metric("checkpoint_age_ms", "ms", "Since the newest batch with events was done, and with it its checkpoint.",
           (QUERY,), "max"),
    Metric("state_mb", "MB", "About what its state takes on its node's disk.", (QUERY,)),
    Metric("restarts", "", "How often it was started anew after a failure, since its driver or it began.", (QUERY,),
           "max"),
    Metric("cpu", "cores", "CPU: of a query its part of the slot; of a slot, a node or the estate the cores in use; of "
           "a dataflow its share of what its queries take.", (ESTATE, DATAFLOW, TASK, QUERY, SLOT, NODE)),
    Metric("memory", "", "Memory of a query, as a part of its slot's.", (TASK, QUERY)),
    Metric("memory_mb", "MB", "Memory that the processes of a slot, or of all slots of a node or the estate, take; of "
           "a dataflow its share of what its queries take.", (ESTATE, DATAFLOW, SLOT, NODE)),
    Metric("adapted_throughput", "", "Where there are goals, Ω: of what could leave at its outputs, the part that did.",
           (DATAFLOW,)),
    Metric("adapted_value", "", "Γ: what the alternates that are on are worth.", (DATAFLOW,)),
    Metric("adapted_per_hour", "", "What its queries cost an hour, in the currency of the prices.", (DATAFLOW,)),
    Metric("adapted_profit", "", "Θ, if that lasted.", (DATAFLOW,)),
    Metric("expected_per_s", "/s", "What its sources were expected to make, where there was a forecast.", (DATAFLOW,)),
    Metric("expected_low_per_s", "/s", "The same, less the mean error of the forecasts.", (DATAFLOW,)),
    Metric("expected_high_per_s", "/s", "The same, and that error.", (DATAFLOW,)),
    Metric("core_speed", "", "How fast its cores are, as a part of what they were when they were calibrated.", (NODE,)),
    Metric("disk_free_mb", "MB", "Free space of a node's data folder.", (NODE,)),
)
METRICS = {metric.name: metric for metric in _ALL}
_NUMBER = re.compile(r"_([2-9]|1\d|20)_ms$")


def of_limit(metric: str, number: int) -> str:
    """The name of a numbered metric for a limit; numbers count from 0, and the first limit's has none.

    Examples
    --------
    >>> of_limit("latency_limit_ms", 0), of_limit("latency_limit_ms", 1)
    ('latency_limit_ms', 'latency_limit_2_ms')
    """
    return f"{metric.removesuffix('_ms')}_{number + 1}_ms" if number else metric


def metric_named(name: str) -> Metric | None:
    """The definition of a series' metric, also of one with a number; None where this version knows no such metric."""
    if name in METRICS:
        return METRICS[name]
    of_all = METRICS.get(_NUMBER.sub("_ms", name))
    return of_all if of_all and of_all.numbered else None


@dataclass(frozen=True, slots=True)
class Series:
    """One line over time: a metric of one subject.

    ``subject`` is an id: of a dataflow; a running task's fingerprint; ``parent>child`` for a stream; of a query; the
    name of a slot or node; of the estate, a scope (empty for what is shared, else a team's slug).
    """

    kind: str
    subject: str
    metric: str

    @property
    def fold(self) -> Fold:
        """The way in which coarser points are made; a metric that a later version named is averaged."""
        metric = metric_named(self.metric)
        return metric.fold if metric else "mean"


@dataclass(frozen=True, slots=True)
class Annotation:
    """An event at a moment of one subject; ``text`` says it in a sentence.

    ``what`` is the name of a kind of plan that is done, the kind of an event that a node told (``fragment_failed``), or
    ``alarm`` where a finding began and ``over`` where it ended. ``team`` is the short name of the one whose members
    alone may read it, where it tells more than whoever knows of the subject may know.
    """

    at_s: int
    what: str
    kind: str
    subject: str
    text: str = ""
    team: str = ""


ALARM, OVER = "alarm", "over"
SWITCHED = "switch"  # another alternate of a dynamic task is on


def grain_for(begin_s: int, end_s: int, *, now_s: int, most_points: int) -> Grain:
    """The finest grain that still has a range's beginning and gives no more points than that; else the coarsest.

    Parameters
    ----------
    begin_s, end_s : int
        The range, in seconds since the epoch.
    most_points : int
        The largest number of points of a series.
    """
    for grain in GRAINS:
        if begin_s >= now_s - grain.keep_s and (end_s - begin_s) <= most_points * grain.step_s:
            return grain
    return GRAINS[-1]
