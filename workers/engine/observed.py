"""Observations of the estate: reports of nodes and meters of fragments, read from the broker and turned into rates.

Reading is here, judging is pure: rates come from the difference of two readings. Imports nothing of Spark.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import redis

from scheduler.contracts.reports import Reports, reports_of
from scheduler.latency.histograms import mean_ms, percentiles_ms
from scheduler.model.fragment import Fragment
from workers.engine.channels import keys
from workers.engine.channels.channel_config import CAPACITY_BLOCKS
from workers.engine.slot_values import answers_of, count_of, counts_of
from workers.engine.steady import Growth

MOST_BUCKET_DIGITS = 3  # of four to each doubling: no latency has more, and no float holds what some would be
REPORT_LIVES_S = 15  # in the broker, unless the next one takes its place
LEASE_LIVES_MS = 10_000  # likewise, of a node's name

Histograms = dict[str, dict[int, int]]  # what its fields begin with -> bucket -> count
MeterAnswers = dict[str, tuple[Mapping[bytes, bytes] | None, Mapping[str, int]]]  # query -> fields, and as counters


@dataclass(frozen=True, slots=True)
class Meters:
    """Counters of fragments at one moment of the broker's clock; they only ever grow. ``<position>:time`` is the latest
    event time that has left a task, and no count."""

    at_ms: int = 0
    counts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # query -> field -> count

    def of(self, fragment: Fragment) -> Mapping[str, int]:
        """The sums of counters over all bundles of a fragment."""
        if not fragment.divided:  # as most are not
            return self.counts.get(fragment.id, {})
        sums: Counter[str] = Counter()
        for bundle in fragment.bundles:
            sums.update(self.counts.get(bundle.id, {}))
        return sums


@dataclass(frozen=True, slots=True)
class TaskFlow:
    """The output of a running task: its rate, its events so far, and their age since their source emitted them.

    ``watermark_lag_ms`` is how far the latest event time that has left it is behind the broker's clock; of a divided
    task that of the bundle that is furthest behind. ``late`` counts the events that came too late for it so far.
    """

    rate_per_s: float
    events: int
    latency_p50_ms: float | None
    latency_p99_ms: float | None
    latency_p95_ms: float | None = None
    watermark_lag_ms: float | None = None
    latency_mean_ms: float | None = None
    latency_min_ms: float | None = None
    latency_max_ms: float | None = None
    late: int = 0
    late_per_s: float = 0.0


@dataclass(frozen=True, slots=True)
class StreamFlow:
    """The flow along a stream. Latencies are of the channel that carries it; a fused stream has none.

    ``channel`` is from written to read; ``wait`` is in the buffer of the reader's micro-batch.
    """

    rate_per_s: float
    channel_p50_ms: float | None = None
    channel_p99_ms: float | None = None
    wait_p50_ms: float | None = None
    wait_p99_ms: float | None = None
    channel_p95_ms: float | None = None
    channel_mean_ms: float | None = None
    wait_mean_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Flows:
    """Flows by running task, and by stream (a pair of running tasks); and what each query takes in, in events/s.

    A query that begins with a source takes in what that makes. ``over_s`` is for how long all that was counted.
    """

    tasks: Mapping[str, TaskFlow] = field(default_factory=dict)
    streams: Mapping[tuple[str, str], StreamFlow] = field(default_factory=dict)
    queries: Mapping[str, float] = field(default_factory=dict)
    over_s: float = 0.0


def read_reports(broker: redis.Redis) -> Reports:
    """The newest report of every node that still reports."""
    names = sorted(broker.scan_iter(match=keys.observed("*"), count=1000))
    nodes = [_text(name).removeprefix(keys.observed("")) for name in names]
    pipeline = broker.pipeline(transaction=True)  # or a report could follow whose age is asked for
    for name in names:
        pipeline.get(name).pttl(name)
    answers = pipeline.execute() if names else []
    heard = zip(nodes, answers[::2], answers[1::2], strict=True)
    return reports_of({
        node: (text, max(0, 1000 * REPORT_LIVES_S - left_ms) if left_ms >= 0 else 0)
        for node, text, left_ms in heard if text})


def read_heartbeats(broker: redis.Redis, nodes: Iterable[str]) -> dict[str, float | None]:
    """The age in seconds of the last renewal of each node's lease, by the broker's clock; None of one that has none."""
    names = list(nodes)
    pipeline = broker.pipeline(transaction=False)
    for name in names:
        pipeline.pttl(keys.lease(name))
    left_ms = pipeline.execute() if names else []
    return {name: max(0, LEASE_LIVES_MS - lease_ms) / 1000 if lease_ms >= 0 else None
            for name, lease_ms in zip(names, left_ms, strict=True)}


def queries_of(fragments: Iterable[Fragment]) -> frozenset[str]:
    """The queries that run these fragments: one for each bundle."""
    return frozenset(bundle.id for fragment in fragments for bundle in fragment.queries)


def read_meters(broker: redis.Redis, queries: Iterable[str], *, before: MeterAnswers | None = None) -> Meters:
    """The meters of these queries now.

    ``before`` is what the caller's reading before this one was answered, and is set to what this one is answered: a
    meter that says the same again is not made into counters again.
    """
    names = list(queries)
    pipeline = broker.pipeline(transaction=False)
    pipeline.time()
    for name in names:
        pipeline.hgetall(keys.meter(name))
    (seconds, microseconds), *hashes = answers_of(pipeline)
    answers: MeterAnswers = {}
    for name, fields in zip(names, hashes, strict=True):
        answer = before.get(name) if before else None
        answers[name] = answer if answer is not None and answer[0] == fields else (fields, counts_of(fields))
    if before is not None:
        before.clear()
        before.update(answers)
    return Meters(
        at_ms=seconds * 1000 + microseconds // 1000, counts={name: counts for name, (_, counts) in answers.items()})


def channel_blocks(broker: redis.Redis, channels: Iterable[str]) -> dict[str, int]:
    """The number of blocks that the broker holds of each channel; of one with room for more than others, as a part of
    theirs.

    A writer in real-time mode makes many small blocks, and its reader frees them when its own batch ends.
    """
    names = list(channels)
    pipeline = broker.pipeline(transaction=False)
    for name in names:
        pipeline.xlen(keys.channel(name)).hget(keys.meta(name), "capacity")
    replies = iter(answers_of(pipeline) if names else ())
    return {
        name: round((blocks or 0) * min(1.0, CAPACITY_BLOCKS / (count_of(capacity) or CAPACITY_BLOCKS)))
        for name, blocks, capacity in zip(names, replies, replies, strict=True)}


def event_bytes(broker: redis.Redis, channels: Iterable[str]) -> dict[str, float]:
    """The mean size of an event in bytes, by channel that has had one, of all that were written."""
    names = list(channels)
    pipeline = broker.pipeline(transaction=False)
    for name in names:
        pipeline.hmget(keys.meta(name), "bytes", "events")
    counts = {
        name: [count_of(value) for value in values or (None, None)]
        for name, values in zip(names, answers_of(pipeline) if names else (), strict=True)}
    return {name: size / events for name, (size, events) in counts.items() if size and events}


def flows(
    before: Meters, after: Meters, fragments: Iterable[Fragment], parents: Mapping[str, tuple[str, ...]]
) -> Flows:
    """Rates and latencies between two readings.

    Parameters
    ----------
    fragments : Iterable[Fragment]
        The fragments whose queries were read; what their bundles counted adds up.
    parents : Mapping[str, tuple[str, ...]]
        Parents by running task id (``RunningTask.parents``).

    Returns
    -------
    Flows
        For every active task of the fragments, and for every stream into one of them. A counter that went backwards
        (its fragment was made anew) counts from zero.
    """
    elapsed_s = (after.at_ms - before.at_ms) / 1000
    growths = {
        name: Growth(grown(before.counts.get(name, {}), counts), elapsed_s) for name, counts in after.counts.items()}
    return flows_of(growths, after, fragments, parents, over_s=elapsed_s)


@dataclass(frozen=True, slots=True)
class FragmentLatencies:
    """The latencies in what a fragment's queries counted: fields of `TaskFlow` by position, and of `StreamFlow`."""

    counts: Mapping[str, int]
    of_tasks: Sequence[Mapping[str, float | None]]
    of_stream: Mapping[str, float | None]


def flows_of(
    growths: Mapping[str, Growth], after: Meters, fragments: Iterable[Fragment],
    parents: Mapping[str, tuple[str, ...]], *, over_s: float, before: dict[str, FragmentLatencies] | None = None,
) -> Flows:
    """Rates and latencies from what each query counted.

    Parameters
    ----------
    growths : Mapping[str, Growth]
        By query.
    before : dict of str to FragmentLatencies, optional
        By fragment, of the caller's call before this one; set to those of this call. What the same counts say is not
        worked out again.
    """
    tasks: dict[str, TaskFlow] = {}
    latencies: dict[str, FragmentLatencies] = {}  # by fragment
    streams: dict[tuple[str, str], StreamFlow] = {}
    counted = Meters(after.at_ms, {name: growth.counts for name, growth in growths.items()})
    fragments = list(fragments)
    for fragment in fragments:
        growth, queries = counted.of(fragment), fragment.queries
        grown = [growths[bundle.id] for bundle in queries if bundle.id in growths]
        totals = [after.counts.get(bundle.id, {}) for bundle in queries]
        of_staying = [counts for bundle, counts in zip(queries, totals, strict=True) if not bundle.leaving]
        timing = before.get(fragment.id) if before else None
        if timing is None or timing.counts is not growth or len(timing.of_tasks) != len(fragment.active_tasks):
            timing = _latencies_of(growth, len(fragment.active_tasks))
        latencies[fragment.id] = timing
        for position, task_id in enumerate(fragment.active_tasks):
            passed, late = f"{position}:n", f"{position}:late"
            tasks[task_id] = TaskFlow(
                rate_per_s=_rate_of(grown, passed), events=_sum_of(totals, passed),
                **timing.of_tasks[position],
                watermark_lag_ms=_behind_ms(after.at_ms, of_staying, position),
                late=_sum_of(totals, late), late_per_s=_rate_of(grown, late),
            )
    for fragment in fragments:
        for position, task_id in enumerate(fragment.active_tasks):
            for parent in parents.get(task_id, ()):
                rate_per_s = tasks[parent].rate_per_s if parent in tasks else 0.0
                streams[parent, task_id] = StreamFlow(
                    rate_per_s, **({} if position else latencies[fragment.id].of_stream))
    queries = {
        bundle.id: _rate(_taken_in(growths[bundle.id].counts, fragment, parents), growths[bundle.id].over_s)
        for fragment in fragments if fragment.active_tasks
        for bundle in fragment.queries if bundle.id in growths}
    if before is not None:
        before.clear()
        before.update(latencies)
    return Flows(tasks=tasks, streams=streams, queries=queries, over_s=over_s)


def selectivities(meters: Meters, fragments: Iterable[Fragment], *, least: int) -> dict[str, float]:
    """Output events for each input event of running tasks, since their queries began; sources have none.

    ``least`` is how many events a task has to have read for that to mean something.
    """
    rates: dict[str, float] = {}
    for fragment in fragments:
        counts = meters.of(fragment)
        read = counts.get("in:n", 0)
        for position, task_id in enumerate(fragment.active_tasks):
            made = counts.get(f"{position}:n", 0)
            if read >= least:
                rates[task_id] = made / read
            read = made
    return rates


def _mean_age_ms(growth: Mapping[str, int], position: int) -> float | None:
    """The mean age of events when the batch that they left with was done; None where none left that says it."""
    aged = growth.get(f"{position}:aged", 0)
    return growth.get(f"{position}:age", 0) / aged if aged > 0 else None


def _behind_ms(at_ms: int, counted: Iterable[Mapping[str, int]], position: int) -> float | None:
    latest = f"{position}:time"
    times_ms = [counts[latest] for counts in counted if latest in counts]
    return float(at_ms - min(times_ms)) if times_ms else None


def _taken_in(growth: Mapping[str, int], fragment: Fragment, parents: Mapping[str, tuple[str, ...]]) -> int:
    reads = bool(parents.get(fragment.tasks[0]))
    return growth.get("in:n" if reads else "0:n", 0)


def _latencies_of(growth: Mapping[str, int], tasks: int) -> FragmentLatencies:
    """Of a fragment with so many active tasks."""
    histograms, of_tasks = histograms_of(growth), []
    for position in range(tasks):
        min_ms, p50_ms, p95_ms, p99_ms, max_ms = percentiles_ms(
            histograms.get(f"{position}:lat", {}), (0.0, 0.50, 0.95, 0.99, 1.0))
        of_tasks.append({
            "latency_p50_ms": p50_ms, "latency_p99_ms": p99_ms, "latency_p95_ms": p95_ms,
            "latency_mean_ms": _mean_age_ms(growth, position), "latency_min_ms": min_ms, "latency_max_ms": max_ms})
    channel, wait = histograms.get("in:chan", {}), histograms.get("in:wait", {})
    channel_p50_ms, channel_p95_ms, channel_p99_ms = percentiles_ms(channel, (0.50, 0.95, 0.99))
    wait_p50_ms, wait_p99_ms = percentiles_ms(wait, (0.50, 0.99))
    return FragmentLatencies(growth, of_tasks, {
        "channel_p50_ms": channel_p50_ms, "channel_p99_ms": channel_p99_ms, "wait_p50_ms": wait_p50_ms,
        "wait_p99_ms": wait_p99_ms, "channel_p95_ms": channel_p95_ms, "channel_mean_ms": mean_ms(channel),
        "wait_mean_ms": mean_ms(wait)})


def grown(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    """The growth of counters between two readings of one meter; one that went backwards counts from zero."""
    grown = {name: count - before.get(name, 0) for name, count in after.items()}
    return {name: growth if growth >= 0 else after[name] for name, growth in grown.items()}


def histograms_of(counts: Mapping[str, int]) -> Histograms:
    """Counts by bucket of each histogram, by what its fields begin with: one pass over all fields."""
    return {
        histogram: {bucket: counts[name] for bucket, name in buckets}
        for histogram, buckets in _layout(tuple(counts))}


@lru_cache(maxsize=1_000)
def _layout(names: tuple[str, ...]) -> tuple[tuple[str, tuple[tuple[int, str], ...]], ...]:
    """The histograms among the fields of a meter, and the fields of each: the same from one second to the next."""
    layout: dict[str, list[tuple[int, str]]] = {}
    for name in names:
        if (bucket := _bucket(name)) is not None:
            layout.setdefault(bucket[0], []).append((bucket[1], name))
    return tuple((histogram, tuple(sorted(buckets))) for histogram, buckets in layout.items())


@lru_cache(maxsize=10_000)
def _bucket(name: str) -> tuple[str, int] | None:
    """The histogram and the bucket that a field counts; None where it counts something else."""
    histogram, _, bucket = name.rpartition(":")
    is_bucket = bucket.isascii() and bucket.isdigit() and len(bucket) <= MOST_BUCKET_DIGITS
    return (histogram, int(bucket)) if ":" in histogram and is_bucket else None


def _sum_of(counted: Sequence[Mapping[str, int]], name: str) -> int:
    """A counter of all bundles of a fragment together."""
    return counted[0].get(name, 0) if len(counted) == 1 else sum(counts.get(name, 0) for counts in counted)


def _rate_of(grown: Sequence[Growth], name: str) -> float:
    """How fast it grows."""
    return sum([_rate(growth.counts.get(name, 0), growth.over_s) for growth in grown])


def _rate(count: int, elapsed_s: float) -> float:
    return count / elapsed_s if elapsed_s > 0 else 0.0


def texts(mapping: Mapping[bytes | str, bytes | str]) -> dict[str, str]:
    """Text, whether or not the client decodes."""
    return {_text(name): _text(value) for name, value in mapping.items()}


def _text(value: bytes | str) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value
