"""The inputs of pacing: the estate's queries as values, with what batches cost, and the limits on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from django.conf import settings

from dashboard import jobs
from dashboard.operations.live_view.estate_view import View
from scheduler.latency import pacing_problem
from scheduler.latency.batch_costs import TIMES_ITS_CPU, BatchesSeen
from scheduler.latency.breakdown import Breakdown, Hop, broken_down, part_broken_down
from scheduler.latency.limit_points import metric_of
from scheduler.latency.pacing import Queries
from scheduler.latency.pacing_problem import IntervalBounds, MeasuredRates, Wants
from scheduler.latency.ways import Part, part_of
from scheduler.model.costs import Costs
from scheduler.model.estate import Submitted
from scheduler.model.latency_limits import LatencyLimit

Measure = tuple[str, tuple[str, ...], float | None, float]  # dataflow, along what, which percentile, over how long


def queries_of(
    view: View, *, costs: Costs, batches_seen: Mapping[str, BatchesSeen], trigger_ms: Mapping[str, int],
    times_its_cpu: float = TIMES_ITS_CPU,
) -> Queries:
    """The queries of a view by fragment, at the rates that are measured: see `scheduler.latency.pacing_problem`."""
    flows = view.reading.flows
    rates = MeasuredRates(flows.queries, {
        name: flow.rate_per_s for name, flow in flows.tasks.items()}) if view.reading.measured else MeasuredRates()
    return pacing_problem.queries_of(
        view.estate, task_types=jobs.task_types(), costs=costs, rates=rates,
        intervals=IntervalBounds(settings.TRIGGER_MS / 1000, settings.LONGEST_TRIGGER_MS / 1000),
        batches_seen=batches_seen, trigger_ms=trigger_ms, times_its_cpu=times_its_cpu)


def wants_of(view: View) -> Wants:
    """The limits of the running dataflows of a view, by dataflow and number; those whose tasks rest are left out."""
    return pacing_problem.wants_of(view.estate, {name: record.latency_limits for name, record in view.records.items()})


def latency_ms(view: View, dataflow: str, limit: LatencyLimit) -> float | None:
    """The present latency under a limit, in milliseconds; None where no event has come lately.

    A percentile along a part is the mean there, times what it is of the mean age at which events leave its last task.
    """
    submitted = view.estate.submitted[dataflow]
    if not limit.along:
        return _slowest(view, submitted, metric_of(limit))[0]
    part = part_of(view.estate, dataflow, limit)
    measured = None if part is None else _measured_along(view, part)
    if measured is None or limit.percentile is None:
        return measured and measured.total_ms
    last = view.reading.flows.tasks.get(submitted.running[(limit.tasks or limit.path[:1])[-1]])
    tail_ms = last and getattr(last, metric_of(limit))
    return measured.total_ms * tail_ms / last.latency_mean_ms if tail_ms and last.latency_mean_ms else None


def events_per_s(view: View, dataflow: str, limit: LatencyLimit) -> float:
    """The present rate of the events of which the latency of a limit is measured: of the slowest sink, or at the end of
    a part."""
    submitted = view.estate.submitted[dataflow]
    if not limit.along:
        return _slowest(view, submitted, metric_of(limit))[1]
    last = view.reading.flows.tasks.get(submitted.running[(limit.tasks or limit.path[:1])[-1]])
    return 0.0 if last is None else last.rate_per_s


def parts_of(view: View, dataflow: str, limit: LatencyLimit, path: Sequence[str]) -> Breakdown | None:
    """The parts of a limit's latency, as measured now; None where no event has come lately.

    Parameters
    ----------
    path : sequence of str
        The slowest path of the limit's way, by fragment; a limit along a part has only that part.
    """
    if limit.along:
        part = part_of(view.estate, dataflow, limit)
        return None if part is None else _measured_along(view, part)
    return _parts_along(view, path)


def _measured_along(view: View, part: Part) -> Breakdown | None:
    hops = []
    for query, task in part.path:
        counts = query not in part.counted.passed
        hop = _hop(view, query, task) if counts else _passed(view, query) if hops else Hop(0.0)
        if hop is None:
            return None
        hops.append((query, hop))
    return part_broken_down(hops, part.counted, first_interval_ms=_interval_ms(view, part.queries[0]))


def _hop(view: View, query: str, task: str) -> Hop | None:
    """A query as measured where events leave it by one of its tasks; None where no event has come lately."""
    leaving = view.reading.flows.tasks.get(task)
    if leaving is None or leaving.latency_mean_ms is None:
        return None
    if not view.estate.tasks[view.estate.fragments[query].tasks[0]].parents:
        return Hop(leaving.latency_mean_ms)
    hop, written_ms = _passed(view, query), _written_ms(view, query)
    return None if hop is None or written_ms is None else replace(
        hop, age_ms=leaving.latency_mean_ms, written_ms=written_ms)


def _passed(view: View, query: str) -> Hop | None:
    """Only what a query reads, as measured; None where no event has come lately."""
    stream = _stream_into(view, query)
    return None if stream is None or stream.channel_mean_ms is None else Hop(
        0.0, stream.channel_mean_ms, stream.wait_mean_ms, 0.0)


def _parts_along(view: View, path: Sequence[str]) -> Breakdown | None:
    flows, hops = view.reading.flows, []
    for at, query in enumerate(path):
        fragment = view.estate.fragments.get(query)
        leaving = flows.tasks.get(fragment.active_tasks[-1]) if fragment is not None and fragment.active_tasks else None
        if leaving is None or leaving.latency_mean_ms is None:
            return None
        stream = _stream_into(view, query) if at else None
        hops.append(Hop(leaving.latency_mean_ms, stream and stream.channel_mean_ms, stream and stream.wait_mean_ms))
    return broken_down(hops, first_interval_ms=_interval_ms(view, path[0])) if hops else None


def _interval_ms(view: View, query: str) -> float:
    """The interval of a fragment's batches, as its node reports."""
    first = view.estate.fragments[query].queries[0]
    report = view.reading.reports.query(first.slot, first.id)
    return report.trigger_ms if report is not None and report.trigger_ms else settings.TRIGGER_MS


def _stream_into(view: View, query: str) -> jobs.observed.StreamFlow | None:
    """The flow of all channels that a fragment reads; None of one that begins with a source."""
    head = view.estate.fragments[query].tasks[0]
    streams = (view.reading.flows.streams.get((parent, head)) for parent in view.estate.tasks[head].parents)
    return next(filter(None, streams), None)


def _written_ms(view: View, query: str) -> float | None:
    """The mean age of events when they were written to what a fragment reads."""
    flows = view.reading.flows.tasks
    parents = view.estate.tasks[view.estate.fragments[query].tasks[0]].parents
    ages = [(flow.rate_per_s, flow.latency_mean_ms) for parent in parents
            if (flow := flows.get(parent)) is not None and flow.latency_mean_ms is not None]
    rate_per_s = sum(rate for rate, _ in ages)
    return sum(rate * age_ms for rate, age_ms in ages) / rate_per_s if rate_per_s > 0 else None


def measure_of(dataflow: str, limit: LatencyLimit) -> Measure:
    """The measure of a limit, wherever in the list of its dataflow it stands, and however much it allows."""
    return dataflow, limit.along, limit.percentile, limit.over_s


def _slowest(view: View, submitted: Submitted, name: str) -> tuple[float | None, float]:
    """The latency of the sink where it is highest, in ms, and its events a second; None where no event has come."""
    flows = [view.reading.flows.tasks.get(submitted.running[task]) for task in submitted.sinks]
    latencies = [
        (value, flow.rate_per_s) for flow in flows if flow is not None and (value := getattr(flow, name)) is not None]
    return max(latencies, default=(None, 0.0))
