"""The fragmentation of the dataflows that a viewer may know of, with its cost.

For pages and API:

- ``fragmentation_of(viewer, dataflow_id)``: one dataflow in the estate; None where it is not in it
- ``fragmentations(viewer)``: all that run, the most fragmented first
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any
from uuid import UUID

from django.conf import settings

from dashboard import jobs
from dashboard.catalog.permissions import dataflow_for
from dashboard.operations.diagnosis.slow_queries import cut_tasks
from dashboard.operations.latency_control.pacer import priced_ms_of
from dashboard.operations.live_view.estate_view import View, view_for
from dashboard.operations.live_view.learned_costs import costs_here
from dashboard.teams.permissions import Viewer
from scheduler.model.costs import Costs
from scheduler.model.prices import Prices
from scheduler.performance.pricing import query_cores
from scheduler.reuse.fragmentation import fragmentation


def fragmentation_of(viewer: Viewer, dataflow_id: UUID | str) -> dict[str, Any] | None:
    """One dataflow's fragmentation (``scheduler.reuse.fragmentation.Fragmentation``) and what its queries cost.

    ``money_per_hour`` is the price of ``idle_cores``; ``spare_queries`` how many fewer defragmentation leads to.
    """
    record = dataflow_for(viewer, dataflow_id)
    view = view_for(viewer)
    return _row(view, str(record.pk), costs=costs_here(), paces_ms=priced_ms_of(view.estate.fragments)) \
        if str(record.pk) in view.records else None


def fragmentations(viewer: Viewer) -> list[dict[str, Any]]:
    """Fragmentation of every dataflow in the estate: ``id``, ``name``, ``team``, ``status`` and its fragmentation."""
    view, costs = view_for(viewer), costs_here()
    paces_ms = priced_ms_of(view.estate.fragments)
    rows = [
        {"id": dataflow_id, "name": record.name, "team": record.team.name, "status": record.status,
         **_row(view, dataflow_id, costs=costs, paces_ms=paces_ms)}
        for dataflow_id, record in view.records.items()
    ]
    return sorted(rows, key=lambda row: (-row["spare_queries"], -row["dead_tasks"], -row["queries"], row["name"]))


def _query_cores(view: View, dataflow_id: str, costs: Costs, paces_ms: Mapping[str, int]) -> float:
    """The mean cost of a dataflow's queries for batches alone, in cores."""
    places = view.estate.places
    queries = {places[task][0] for task in view.estate.submitted[dataflow_id].running.values() if task in places}
    cores = [query_cores(Prices(trigger_ms=paces_ms.get(query, settings.TRIGGER_MS), costs=costs)) for query in queries]
    return sum(cores) / len(cores) if cores else query_cores(Prices(trigger_ms=settings.TRIGGER_MS, costs=costs))


def _row(view: View, dataflow_id: str, *, costs: Costs, paces_ms: Mapping[str, int]) -> dict[str, Any]:
    query = _query_cores(view, dataflow_id, costs, paces_ms)
    latency_ms = {
        stream: (flow.channel_p50_ms or 0.0) + (flow.wait_p50_ms or 0.0)
        for stream, flow in view.reading.flows.streams.items() if flow.channel_p50_ms is not None
    }
    result = fragmentation(
        view.estate, dataflow_id, task_types=jobs.task_types(), query_cores=query, latency_ms=latency_ms,
        apart=cut_tasks())
    return asdict(result) | {
        "idle_cores": round(result.idle_cores, 3),
        "money_per_hour": round(result.idle_cores * settings.CORE_HOUR_PRICE, 6),
        "spare_queries": max(0, result.queries - result.fewest),
    }
