"""The metrics for Prometheus: gauges and counters of one moment, made anew for each scrape from what the site knows.

Labels are nodes, slots, severities, states and dataflows. The first ``MOST_DATAFLOWS`` by id are exported, and
how many were left out: the number of series is bounded whatever teams submit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from django.db.models import Count
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from dashboard.alerts.models import Alert
from dashboard.approvals.models import Proposal
from dashboard.catalog.models import DataflowRecord
from dashboard.operations.diagnosis.health import health
from dashboard.operations.live_reader import live_estate
from dashboard.operations.live_view.estate_view import View, view_for
from dashboard.operations.live_view.telemetry import EVERYTHING
from dashboard.outbox.models import Delivery
from scheduler.alerting.alert_values import FIRING, PENDING, SEVERITIES

MOST_DATAFLOWS = 500
MB = 1_000_000
_FLOW = ("dataflow", "name", "team")
Families = Iterator[GaugeMetricFamily | CounterMetricFamily]


def exposition() -> bytes:
    """All metrics in Prometheus's text format."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Estate())
    return generate_latest(registry)


class _Estate(Collector):
    """The whole estate, read once a scrape."""

    def describe(self) -> list[GaugeMetricFamily]:
        """No families beforehand: it would be read twice."""
        return []

    def collect(self) -> Families:
        """The families of this moment."""
        view = view_for(EVERYTHING)
        document = live_estate(EVERYTHING, look=lambda _: view)
        yield from _site(view, document)
        yield from _dataflows(view, document)
        yield from _machines(view)
        yield from _tables()


def _gauge(name: str, doc: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, doc, value=value)


def _labelled(
    name: str, doc: str, labels: Iterable[str], rows: Iterable[tuple[tuple[str, ...], float | None]]
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, doc, labels=tuple(labels))
    for values, value in rows:
        if value is not None:
            family.add_metric(values, value)
    return family


def _site(view: View, document: dict) -> Families:
    reading, counts = view.reading, document["counts"]
    yield _gauge("weir_broker_up", "Whether the broker answers.", float(reading.available))
    yield _gauge("weir_worker_up", "Whether a worker runs.", float(reading.available and reading.worker))
    yield _gauge("weir_estate_generation", "Number of the estate's state.", view.estate.generation)
    yield _gauge("weir_running_tasks", "Running tasks that work.", counts["running_tasks"])
    yield _gauge("weir_tasks_without_reuse", "Tasks that would run if nothing were shared.", counts["without_reuse"])
    wrong = Counter(finding.severity for finding in health(view))
    yield _labelled("weir_findings", "What is wrong now, by severity.", ("severity",), [
        ((severity,), wrong[severity]) for severity in ("bad", "warn", "note")])
    states = Counter(
        view.bundle_report(bundle).state for fragment in view.fragments() for bundle in fragment.queries)
    yield _labelled("weir_queries", "Queries by state.", ("state",), [((s,), n) for s, n in sorted(states.items())])


def _dataflows(view: View, document: dict) -> Families:
    rows = sorted(document["dataflows"].items())
    shown = [(key, (key, row["name"], view.records[key].team.slug), row) for key, row in rows[:MOST_DATAFLOWS]]
    yield _gauge("weir_dataflows_left_out", "Dataflows that no metric tells of.", max(0, len(rows) - MOST_DATAFLOWS))
    yield _labelled("weir_dataflow_latency_seconds", "Age of events at a dataflow's sinks.", (*_FLOW, "quantile"), [
        ((*labels, quantile), None if row[name] is None else row[name] / 1000)
        for _, labels, row in shown for quantile, name in (("0.5", "latency_p50_ms"), ("0.99", "latency_p99_ms"))])
    counters = (
        ("in", "Events that sources emitted.", _sources, "events"),
        ("out", "Events that reached sinks.", _sinks, "events"),
        ("late", "Events that came too late for a task.", _tasks, "late"))
    for name, doc, tasks, field in counters:
        family = CounterMetricFamily(f"weir_dataflow_events_{name}", doc, labels=_FLOW)
        for key, labels, _ in shown:
            flows = [view.reading.flows.tasks[task] for task in tasks(view, key) if task in view.reading.flows.tasks]
            if flows:
                family.add_metric(labels, sum(getattr(flow, field) for flow in flows))
        yield family


def _tasks(view: View, key: str) -> set[str]:
    return set(view.estate.submitted[key].running.values())


def _sources(view: View, key: str) -> set[str]:
    running = view.estate.submitted[key].running.values()
    return {task for task in running if not view.estate.tasks[task].parents}


def _sinks(view: View, key: str) -> set[str]:
    entry = view.estate.submitted[key]
    return {entry.running[task] for task in entry.sinks}


def _machines(view: View) -> Families:
    nodes = sorted({slot.node for slot in view.estate.slots})
    reports = {name: view.node_report(name) for name in nodes}
    slots = [(slot.name, slot.node, view.reading.reports.slot(slot.name)) for slot in view.estate.slots]
    yield _labelled("weir_node_up", "Whether a node reports.", ("node",), [
        ((name,), float(report is not None)) for name, report in reports.items()])
    yield _labelled("weir_node_disk_free_bytes", "Free space of a node's data folder.", ("node",), [
        ((name,), report.disk_free_mb * MB if report and report.disk_free_mb is not None else None)
        for name, report in reports.items()])
    yield _labelled("weir_slot_up", "Whether a slot's driver serves.", ("node", "slot"), [
        ((node, name), float(reports[node] is not None and slot is not None and slot.state == "running"))
        for name, node, slot in slots])
    yield _labelled("weir_slot_cpu_cores", "CPU in use, in cores.", ("node", "slot"), [
        ((node, name), slot.cpu if slot and reports[node] else None) for name, node, slot in slots])
    yield _labelled("weir_slot_memory_bytes", "Memory of a slot's processes.", ("node", "slot"), [
        ((node, name), slot.memory_mb * MB if slot and reports[node] and slot.memory_mb is not None else None)
        for name, node, slot in slots])
    restarts = CounterMetricFamily(
        "weir_slot_restarts", "Times that a slot's driver began again.", labels=("node", "slot"))
    for name, node, slot in slots:
        if slot is not None:
            restarts.add_metric((node, name), slot.restarts)
    yield restarts


def _tables() -> Families:
    statuses = DataflowRecord.objects.order_by().values_list("status").annotate(n=Count("pk"))
    yield _labelled("weir_dataflows", "Dataflows by status.", ("status",), [((s,), n) for s, n in statuses])
    statuses = Proposal.objects.order_by().values_list("status").annotate(n=Count("pk"))
    yield _labelled("weir_proposals", "Proposals by status.", ("status",), [((s,), n) for s, n in statuses])
    alerts = dict(
        ((severity, phase), n) for severity, phase, n in Alert.objects.filter(phase__in=(PENDING, FIRING)).order_by()
        .values_list("severity", "phase").annotate(n=Count("pk")))
    yield _labelled("weir_alerts", "Alerts that are not over.", ("severity", "phase"), [
        ((severity, phase), alerts.get((severity, phase), 0))
        for severity in SEVERITIES for phase in (PENDING, FIRING)])
    rows = Delivery.objects.order_by().values_list("channel", "state").annotate(n=Count("pk"))
    yield _labelled("weir_deliveries", "Messages by channel and state: waiting, sent, dead.", ("channel", "state"), [
        ((channel, state), n) for channel, state, n in rows])
    fired = CounterMetricFamily("weir_alerts_fired", "Alerts that fired.", labels=("kind", "severity"))
    counted = Alert.objects.exclude(phase=PENDING).order_by().values_list("kind", "severity").annotate(n=Count("pk"))
    for kind, severity, number in counted:
        fired.add_metric((kind, severity), number)
    yield fired
