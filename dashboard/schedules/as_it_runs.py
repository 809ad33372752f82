"""A dataflow as it runs now, in the figures of the comparison of schedules: the row that all others compare with."""

from __future__ import annotations

from dataclasses import dataclass

from dashboard.bills.dataflow_costs import DataflowCost, cost_of
from dashboard.catalog.models import DataflowRecord
from dashboard.operations.live_view.estate_view import totals_of, view_for
from dashboard.teams.permissions import Viewer
from scheduler.model.fragment import node_of


@dataclass(frozen=True, slots=True)
class AsItRuns:
    """Its queries and the slots that they are on, by name; what it costs; events/s at its sources and latency in
    seconds, where they are measured just now."""

    queries: int
    slots: tuple[str, ...]
    nodes: tuple[str, ...]
    cost: DataflowCost
    rate_per_s: float | None
    latency_s: float | None

    @property
    def cores(self) -> float:
        """The CPU cores of all its tasks, as if no other dataflow shared them."""
        return self.cost.whole.cores


def as_it_runs(viewer: Viewer, record: DataflowRecord) -> AsItRuns | None:
    """The dataflow as it runs now; None where none of its queries works."""
    view, key = view_for(viewer), str(record.pk)
    submitted = view.estate.submitted.get(key)
    cost = None if submitted is None or submitted.paused else cost_of(viewer, key)
    if submitted is None or cost is None:
        return None
    task_ids = set(submitted.running.values())
    bundles = [
        bundle for fragment in view.estate.fragments.values() if not task_ids.isdisjoint(fragment.active_tasks)
        for bundle in fragment.queries if not bundle.leaving]
    totals = totals_of(view, key)
    latency_ms = totals["latency_p50_ms"]
    slots = tuple(sorted({bundle.slot for bundle in bundles}))
    return AsItRuns(
        len(bundles), slots, tuple(sorted(set(map(node_of, slots)))), cost,
        totals["events_in_per_s"] if view.reading.measured else None, None if latency_ms is None else latency_ms / 1000)
