"""What pacing is decided from: the estate's queries as values, with what batches cost, and the limits on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from django.conf import settings

from dashboard import jobs
from dashboard.operations.view import View
from scheduler.latency.batch_costs import TIMES_ITS_CPU, BatchesSeen, batch_cost
from scheduler.latency.breakdown import Breakdown, Hop, broken_down, part_broken_down
from scheduler.latency.pacing import Queries, Wanted
from scheduler.latency.triggers import BatchCost
from scheduler.latency.ways import Part, part_of, reads_among, way_of
from scheduler.model.costs import Costs
from scheduler.model.estate import Submitted
from scheduler.model.fragment import Fragment
from scheduler.model.latency import PERCENTILES, LatencyLimit

Key = tuple[str, int]  # dataflow, number of its limit
Measure = tuple[str, tuple[str, ...], float | None, float]  # dataflow, along what, which percentile, over how long
Wants = dict[Key, tuple[LatencyLimit, Wanted]]
SLOT_CORES = 0.95  # of a slot's core: what its queries may take
LEAST_BATCHES = 3  # that a query was seen to do, before their duration says anything


def queries_of(
    view: View, *, costs: Costs, seen: Mapping[str, BatchesSeen], trigger_ms: Mapping[str, int],
    times_its_cpu: float = TIMES_ITS_CPU,
) -> Queries:
    """The queries of a view by fragment: what their batches cost, who reads whom, and where they are.

    Parameters
    ----------
    view : View
        Everything; what is measured counts before what was expected.
    costs : Costs
        CPU of batches and events on this class of machine.
    seen : mapping of str to BatchesSeen
        What was seen of queries, by fragment or bundle.
    """
    estate = view.estate
    working = {name: fragment for name, fragment in estate.fragments.items() if fragment.active_tasks}
    slots = {bundle.slot for fragment in working.values() for bundle in fragment.queries}
    return Queries(
        costs={name: _cost(view, fragment, costs, seen, times_its_cpu) for name, fragment in working.items()},
        reads=reads_among(estate, working),
        before_s={name: trigger_ms.get(name, settings.TRIGGER_MS) / 1000 for name in working},
        slot_of={name: fragment.slot for name, fragment in working.items()},
        capacity={slot: SLOT_CORES - costs.slot_cores for slot in slots},
        largest_s=settings.LONGEST_TRIGGER_MS / 1000,
        # A schedule's promise was made for batches as they are without pacing: it must be able to keep it.
        bounds_s={name: settings.TRIGGER_MS / 1000 for name, fragment in working.items() if fragment.divided})


def wants_of(view: View) -> Wants:
    """The limits of the running dataflows of a view, by dataflow and number; those whose tasks rest are left out."""
    wants: Wants = {}
    for name, record in view.records.items():
        if view.estate.submitted[name].paused:
            continue
        for number, limit in enumerate(record.latency_limits):
            way = way_of(view.estate, name, limit)
            if way is not None:
                wants[name, number] = (limit, Wanted(f"{name}/{number}", way, limit.limit_s, limit.share))
    return wants


def latency_ms(view: View, dataflow: str, limit: LatencyLimit) -> float | None:
    """What is measured of a limit now, in milliseconds; None where no event has come lately.

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
    """How many events a second there are now of which the latency of a limit is measured: of the slowest sink, or at
    the end of a part."""
    submitted = view.estate.submitted[dataflow]
    if not limit.along:
        return _slowest(view, submitted, metric_of(limit))[1]
    last = view.reading.flows.tasks.get(submitted.running[(limit.tasks or limit.path[:1])[-1]])
    return 0.0 if last is None else last.rate_per_s


def parts_of(view: View, dataflow: str, limit: LatencyLimit, path: Sequence[str]) -> Breakdown | None:
    """Where the latency of a limit goes, as measured now; None where no event has come lately.

    Parameters
    ----------
    path : sequence of str
        The slowest path of its way, by fragment: of one along a part there is only that.
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
    """How far apart the batches of a fragment are, as its node reports."""
    first = view.estate.fragments[query].queries[0]
    report = view.reading.reports.query(first.slot, first.id)
    return report.trigger_ms if report is not None and report.trigger_ms else settings.TRIGGER_MS


def _stream_into(view: View, query: str) -> jobs.observed.StreamFlow | None:
    """What is measured of all channels that a fragment reads; None of one that begins with a source."""
    head = view.estate.fragments[query].tasks[0]
    streams = (view.reading.flows.streams.get((parent, head)) for parent in view.estate.tasks[head].parents)
    return next(filter(None, streams), None)


def _written_ms(view: View, query: str) -> float | None:
    """The mean age of events when they were written to what a fragment reads."""
    flows = view.reading.flows.tasks
    parents = view.estate.tasks[view.estate.fragments[query].tasks[0]].parents
    known = [(flow.rate_per_s, flow.latency_mean_ms) for parent in parents
             if (flow := flows.get(parent)) is not None and flow.latency_mean_ms is not None]
    rate_per_s = sum(rate for rate, _ in known)
    return sum(rate * age_ms for rate, age_ms in known) / rate_per_s if rate_per_s > 0 else None


def measure_of(dataflow: str, limit: LatencyLimit) -> Measure:
    """What a limit is on, wherever in the list of its dataflow it stands, and however much it allows."""
    return dataflow, limit.along, limit.percentile, limit.over_s


def metric_of(limit: LatencyLimit) -> str:
    """The metric by which a limit is measured; of an older one on a percentile that is not measured, the next one."""
    if limit.percentile is None:
        return "latency_mean_ms"
    measured = next((known for known in PERCENTILES if limit.percentile <= known), PERCENTILES[-1])
    return f"latency_p{measured}_ms"


def _slowest(view: View, submitted: Submitted, name: str) -> tuple[float | None, float]:
    """The latency of the sink where it is highest, in ms, and its events a second; None where no event has come."""
    flows = [view.reading.flows.tasks.get(submitted.running[task]) for task in submitted.sinks]
    known = [
        (value, flow.rate_per_s) for flow in flows if flow is not None and (value := getattr(flow, name)) is not None]
    return max(known, default=(None, 0.0))


def _cost(
    view: View, fragment: Fragment, costs: Costs, seen: Mapping[str, BatchesSeen], times_its_cpu: float
) -> BatchCost:
    types, flows = jobs.task_types(), view.reading.flows
    head = view.estate.tasks[fragment.tasks[0]]
    measured = [flows.queries[bundle.id] for bundle in fragment.queries if bundle.id in flows.queries]
    rate_per_s = sum(measured) if view.reading.measured and measured else head.rate_per_s or 0.0
    tasks, reads_per_s = [], rate_per_s
    for task_id in fragment.active_tasks:
        task = view.estate.tasks[task_id]
        if task.type in types:
            tasks.append((types[task.type], reads_per_s / rate_per_s if rate_per_s else 1.0))
        if task_id in flows.tasks and view.reading.measured:
            reads_per_s = flows.tasks[task_id].rate_per_s
    known = [seen[bundle.id] for bundle in fragment.queries
             if bundle.id in seen and seen[bundle.id].batches >= LEAST_BATCHES]
    slowest = max(known, key=lambda one_bundle: one_bundle.batch_s, default=None)
    working = [bundle for bundle in fragment.queries if not bundle.leaving] or list(fragment.queries)
    return batch_cost(
        tasks, costs=costs, rate_per_s=rate_per_s, seen=slowest, times_its_cpu=times_its_cpu,
        threads=max(bundle.threads for bundle in working), bundles=len(working))
