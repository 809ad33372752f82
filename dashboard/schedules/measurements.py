"""Measurements of scheduled dataflows: now, and the typical value of some time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from dashboard.operations.live_view.estate_view import View, at_work, exact_rate, totals_of
from dashboard.profiles.models import TrialRecord
from dashboard.schedules.promised_bundles import Parts, fragments_of, parts_of, promised_ids
from scheduler.contracts.reports import FAILING, RUNNING, SlotReport
from scheduler.model.fragment import Fragment, node_of
from scheduler.model.promise import Load, Promise
from scheduler.performance.seen import BundleSeen, DataflowSeen

FEW = 40  # events between two readings: of fewer there is no telling a rate, but of all readings together


def driver_cpu() -> float:
    """The share of a slot's CPU that a driver without queries takes, by the last trials; 0 before the first trial."""
    base_cpus = (
        TrialRecord.objects.filter(stable__isnull=False).order_by("-ended").values_list("base_cpu", flat=True)[:9]
    )
    return median(base_cpus) if base_cpus else 0.0


def seen_now(view: View, dataflow_id: str, promise: Promise, *, base_cpu: float = 0.0) -> DataflowSeen:
    """The measurements of one dataflow of the view, for the tasks of its promise.

    As in profiles, loads leave out what a driver takes without queries.

    Parameters
    ----------
    base_cpu : float, optional
        CPU of a driver without queries, as a share of a slot.
    """
    submitted = view.estate.submitted[dataflow_id]
    fragments = fragments_of(view.estate, dataflow_id, promise)
    parts = parts_of(fragments)
    names = promised_ids(promise, parts)
    bundles = {
        names.get(part.id, part.id): _bundle(view, fragments[task], part.id, part.slot, names)
        for task, bundles in parts.items() for part in bundles}
    totals = totals_of(view, dataflow_id)
    sources = {running for running in submitted.running.values() if not view.estate.tasks[running].parents}
    latency_ms = totals["latency_p50_ms"]
    query_ids = {bundle.id for fragment in fragments.values() for bundle in fragment.queries}
    slots = {bundle.slot: None for bundle in promise.bundles}
    return DataflowSeen(
        rate_per_s=exact_rate(view, sources), latency_s=None if latency_ms is None else latency_ms / 1000,
        read_per_s=_read(view, parts, submitted.running, names, bundles),
        offered_per_s=_offered(view, fragments, submitted.running), bundles=bundles,
        slots={slot: _slot(view, slot, base_cpu) for slot in slots},
        latencies_s=_latencies(view, fragments, submitted.running),
        mixed=tuple(slot for slot in slots if at_work(view, slot) - query_ids),
        over_s=view.reading.flows.over_s or None)


def typical(readings: Iterable[Mapping[str, Any]]) -> DataflowSeen:
    """The median of each figure over the readings; the mean of a rate where few events came.

    A bundle waits for the bundles that it waited for in most readings, and fails or is silent as in the newest one. A
    slot that was mixed in one reading is mixed, for medians are over all readings.
    """
    rows = list(readings)
    if not rows:
        return DataflowSeen()
    names = {field: sorted({name for row in rows for name in row.get(field, ())}) for field in (
        "bundles", "slots", "latencies_s")}
    times_s = [row.get("over_s") or 0.0 for row in rows]  # one of an earlier version does not tell
    return DataflowSeen(
        rate_per_s=_rate([row["rate_per_s"] for row in rows], times_s),
        latency_s=_median(row["latency_s"] for row in rows),
        read_per_s=_rates([row.get("read_per_s", {}) for row in rows], times_s),
        offered_per_s=_rates([row.get("offered_per_s", {}) for row in rows], times_s),
        bundles={name: _typical_bundle([row["bundles"].get(name) for row in rows], times_s)
                 for name in names["bundles"]},
        slots={name: _typical_load([row["slots"][name] for row in rows if name in row["slots"]])
               for name in names["slots"]},
        latencies_s=_medians(rows, "latencies_s", names["latencies_s"]),
        mixed=tuple(sorted({slot for row in rows for slot in row.get("mixed", ())})),
        over_s=sum(times_s) or None,
    )


def _bundle(view: View, fragment: Fragment, bundle_id: str, slot: str, names: Mapping[str, str]) -> BundleSeen:
    query = view.reading.reports.query(slot, bundle_id)
    if query is None:
        return BundleSeen(silent=_silence(view, slot))
    failing = query.state == FAILING
    return BundleSeen(
        rate_per_s=view.reading.flows.queries.get(bundle_id, query.rate_per_s),
        load=Load(query.cpu, query.memory),
        waits_for=_readers(view, fragment, query.throttled_by or "", names),
        failing="" if not failing else query.error if query.error and not view.team_of_errors(bundle_id) else (
            "The query fails."))


def _silence(view: View, slot: str) -> str:
    """The reason why a slot's bundles do not report; empty where the slot runs, or where no report could be read at
    all."""
    if view.reading.reports.node(node_of(slot)) is None:
        return f"node {node_of(slot)} does not report" if view.reading.available else ""
    report = view.reading.reports.slot(slot) or SlotReport(state="gone")
    return "" if report.state == RUNNING else f"the driver of slot {slot} is {report.state}"


def _readers(view: View, fragment: Fragment, channel: str, names: Mapping[str, str]) -> tuple[str, ...]:
    """The bundles that read a full channel, by their promised ids: one of a part's channel, all readers of another."""
    if not channel:
        return ()
    _, whole, part = channel.partition("@")
    if whole:
        query = view.reader_of_part(part)
        return (names.get(query, query),)
    readers = {reader for tasks in fragment.outlets.values() for reader in tasks}
    return tuple(sorted(
        names.get(bundle.id, bundle.id) for reader in readers if reader in view.estate.fragments
        for bundle in view.estate.fragments[reader].queries))


def _read(
    view: View, parts: Parts, running: Mapping[str, str], names: Mapping[str, str], bundles: Mapping[str, BundleSeen]
) -> dict[str, float]:
    """Events/s that each task takes in, or makes if it is a source; without tasks of which a bundle does not report."""
    sources = {}
    for task, own_bundles in parts.items():
        flow = view.reading.flows.tasks.get(running[task])
        rates = [bundles[names.get(part.id, part.id)].rate_per_s for part in own_bundles]
        if not view.estate.tasks[running[task]].parents:
            if flow is not None:
                sources[task] = flow.rate_per_s
        elif rates and None not in rates:
            sources[task] = sum(rate for rate in rates if rate is not None)
    return sources


def _offered(view: View, fragments: Mapping[str, Fragment], running: Mapping[str, str]) -> dict[str, float]:
    """Events/s that the parents of each task make together, where all of them are measured."""
    upstream = {}
    for task in fragments:
        parents = view.estate.tasks[running[task]].parents
        flows = [view.reading.flows.tasks.get(parent) for parent in parents]
        if parents and None not in flows:
            upstream[task] = sum(flow.rate_per_s for flow in flows if flow is not None)
    return upstream


def _latencies(view: View, fragments: Mapping[str, Fragment], running: Mapping[str, str]) -> dict[str, float]:
    """The median seconds from an event's birth until each task was done with it, where they are measured."""
    flows = {task: view.reading.flows.tasks.get(running[task]) for task in fragments}
    return {
        task: flow.latency_p50_ms / 1000 for task, flow in flows.items()
        if flow is not None and flow.latency_p50_ms is not None}


def _slot(view: View, name: str, base_cpu: float) -> Load:
    """The load of all queries on a slot: CPU besides the driver's own, and memory where each of them reports it."""
    report = view.reading.reports.slot(name) or SlotReport()
    memory = [query.memory for query in report.fragments.values()]
    return Load(
        None if report.cpu is None else max(0.0, report.cpu - base_cpu),
        None if not memory or None in memory else sum(memory))


def _typical_bundle(samples: Sequence[Mapping[str, Any] | None], times_s: Sequence[float]) -> BundleSeen:
    present = [sample for sample in samples if sample is not None]
    waited = [reader for sample in present for reader in sample["waits_for"]]
    return BundleSeen(
        _rate([sample["rate_per_s"] if sample else None for sample in samples], times_s),
        _typical_load([sample["load"] for sample in present]),
        tuple(sorted({reader for reader in waited if waited.count(reader) * 2 > len(present)})),
        present[-1]["failing"], present[-1].get("silent", ""))  # one of an earlier version does not tell


def _typical_load(samples: Sequence[Mapping[str, Any]]) -> Load:
    return Load(_median(sample["cpu"] for sample in samples), _median(sample["memory"] for sample in samples))


def _medians(samples: Sequence[Mapping[str, Any]], field: str, names: Iterable[str]) -> dict[str, float]:
    values = {name: _median(sample.get(field, {}).get(name) for sample in samples) for name in names}
    return {name: value for name, value in values.items() if value is not None}


def _rates(samples: Sequence[Mapping[str, float]], times_s: Sequence[float]) -> dict[str, float]:
    names = sorted({name for sample in samples for name in sample})
    values = {name: _rate([sample.get(name) for sample in samples], times_s) for name in names}
    return {name: value for name, value in values.items() if value is not None}


def _rate(rates: Sequence[float | None], times_s: Sequence[float]) -> float | None:
    """The median, which no odd reading moves; of few events the mean: most readings may have none."""
    typical = _median(rates)
    counted = [(rate, over_s) for rate, over_s in zip(rates, times_s, strict=True) if rate is not None and over_s]
    if typical is None or not counted or typical * median(over_s for _, over_s in counted) >= FEW:
        return typical
    return sum(rate * over_s for rate, over_s in counted) / sum(over_s for _, over_s in counted)


def _median(values: Iterable[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return median(numbers) if numbers else None
