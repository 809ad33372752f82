"""Measurements of a dataflow's fragments, and the rule that decides whether to defragment it."""

from __future__ import annotations

from collections.abc import Mapping

from django.conf import settings
from django.utils import timezone

from dashboard import jobs
from dashboard.operations.models import FragmentRow
from scheduler.model.dataflow import Dataflow
from scheduler.model.ports import EstateView
from scheduler.performance.rates import selectivities
from scheduler.reuse.defragment import DefragmentEvidence, DefragmentRule

LEAST_EVENTS = 1000  # that a task has read before its selectivity is measured
NEAR = 0.05  # of a declared selectivity: what is measured so near to it is taken to be the same


def evidence_of(estate: EstateView, dataflow_id: str) -> DefragmentEvidence:
    """Latencies of channels, rates and ages; nothing of what is not measured just now."""
    submitted = estate.submitted.get(dataflow_id)
    if submitted is None:
        return DefragmentEvidence()
    tasks = sorted(set(submitted.running.values()))
    fragments = [
        estate.fragments[fragment_id] for fragment_id in sorted({estate.places[task_id][0] for task_id in tasks})
    ]
    parents = {task_id: estate.tasks[task_id].parents for task_id in tasks}
    flows = jobs.read_part(fragments, parents)
    now = timezone.now()
    rows = FragmentRow.objects.filter(pk__in=[fragment.id for fragment in fragments])
    return DefragmentEvidence(
        latency_ms=channel_latency_ms(flows),
        rates_per_s={task_id: flow.rate_per_s for task_id, flow in flows.tasks.items()},
        ages_h={row.pk: (now - row.started_at).total_seconds() / 3600 for row in rows},
    )


def channel_latency_ms(flows: jobs.observed.Flows) -> dict[tuple[str, str], float]:
    """The latency that a channel adds to each stream that it carries: on the way and in wait for a batch, p50."""
    return {
        stream: (flow.channel_p50_ms or 0.0) + (flow.wait_p50_ms or 0.0)
        for stream, flow in flows.streams.items() if flow.channel_p50_ms is not None
    }


def left_bundles() -> set[str]:
    """The bundles that have ended, by the nodes' reports."""
    return set(jobs.read_live([], {}).reports.left)


def measured_selectivities(
    estate: EstateView, running: Mapping[str, str], dataflow: Dataflow
) -> dict[tuple[str, str], float]:
    """Selectivities of a dataflow's streams, by source and target, where they were measured and differ.

    Two figures that count: the same schedule is planned again while the third one changes.
    """
    if not running:
        return {}
    fragments = {estate.places[task_id][0] for task_id in running.values()}
    counted = jobs.selectivities(
        (estate.fragments[fragment_id] for fragment_id in sorted(fragments)), least=LEAST_EVENTS
    )
    declared = selectivities(dataflow, task_types=jobs.task_types())
    measured = {
        stream: float(f"{counted[running[stream[0]]]:.2g}") for stream in declared if running.get(stream[0]) in counted}
    return {
        stream: value for stream, value in measured.items() if abs(value - declared[stream]) > NEAR * declared[stream]}


def rule() -> DefragmentRule:
    """The rule for worthwhile defragmentations, by the settings."""
    return DefragmentRule(
        horizon_h=settings.DEFRAGMENT_HORIZON_H, ratio=settings.DEFRAGMENT_RATIO, gap_s=settings.DEFRAGMENT_GAP_S,
        handover_core_s=settings.DEFRAGMENT_CORE_S, delay_price=settings.EVENT_DELAY_PRICE)
