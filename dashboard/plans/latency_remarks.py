"""Remarks of a plan on a dataflow's latency limits: those below what micro-batches take, and choices that end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dashboard import jobs
from dashboard.catalog.document_checks import stored_dataflow
from dashboard.catalog.models import DataflowRecord
from dashboard.catalog.selectors import current_version
from dashboard.operations.latency_control.open_batches import lets_open
from dashboard.operations.live_view.learned_costs import costs_here
from dashboard.operations.models import Use
from dashboard.plans.price_settings import queries_alone
from scheduler.latency.foreseen import out_of_reach
from scheduler.model.costs import Costs
from scheduler.model.dataflow import Dataflow
from scheduler.model.latency_limits import Limits


def reach_of(dataflow: Dataflow, limits: Limits, *, costs: Costs, opens: bool) -> tuple[str, ...]:
    """The remarks of a dataflow's plan on its limits.

    Like a plan's price it counts open batches as if the controller acted, where ``opens`` says that its team lets any
    stay open; by a schedule none do.
    """
    types = jobs.task_types()
    micro = out_of_reach(dataflow, limits, task_types=types, costs=costs)
    alone = queries_alone(dataflow, costs=costs) if micro and opens else None
    return micro if alone is None else out_of_reach(dataflow, limits, task_types=types, costs=costs, alone=alone)


def choice_remarks(record: DataflowRecord, document: Mapping[str, Any]) -> tuple[str, ...]:
    """The remarks of a next version's plan on limits that were chosen on the page, if they end with it."""
    if record.latency_chosen is None or record.chosen_after(document) is not None:
        return ()
    before, after = (" and ".join(limit.words for limit in limits) or "no limit"
                     for limits in (record.latency_limits, record.limits_after(document)))
    return (f"The latency limit that was chosen on the dataflow's page ends with this version: {before}. "
            f"This version's holds: {after}.",)


def limit_remarks(record: DataflowRecord) -> tuple[str, ...]:
    """The same of the limits that hold for a dataflow, as it runs or would run, without a plan."""
    dataflow = stored_dataflow(current_version(record).document, installed=False)
    scheduled = Use.objects.filter(dataflow=record, scheduled=True).exists()
    return reach_of(
        dataflow, record.latency_limits, costs=costs_here(), opens=not scheduled and lets_open(record.team))
