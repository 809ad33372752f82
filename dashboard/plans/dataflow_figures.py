"""Costs of a dataflow: all that executes it, and its part of that. Pages, plans and offers take it from here.

It adds up what each of its running tasks costs (`scheduler.performance.running_costs`). Before it runs it is what its
plan was priced with, which adds up the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dashboard import jobs
from dashboard.catalog.document_checks import stored_dataflow
from dashboard.catalog.lifecycle import AT_REST
from dashboard.catalog.models import DataflowRecord
from dashboard.catalog.selectors import current_version
from dashboard.operations.latency_control.open_batches import lets_open
from dashboard.operations.models import BatchFigures
from dashboard.plans.models import PlanRecord
from dashboard.plans.price_settings import prices
from dashboard.plans.selectors import plan_of
from scheduler.model.cost_figures import CostFigure, total_cost
from scheduler.model.estate import Estate, Submitted
from scheduler.model.plan_kinds import names_where
from scheduler.model.prices import Prices
from scheduler.performance.running_costs import RunningCost, running_costs
from scheduler.reuse.cost_shares import BatchPart


@dataclass(frozen=True, slots=True)
class DataflowFigures:
    """The cost of a dataflow. ``whole``: the cost of all that executes it (or would, if it worked), as if nobody shared
    it; ``part``: what it pays of that, nothing while it is paused."""

    whole: CostFigure
    part: CostFigure


def figures_of(estate: Estate, record: DataflowRecord) -> DataflowFigures | None:
    """The cost of a dataflow; of one that is to come, what its newest plan says. None where neither is known."""
    submitted = estate.submitted.get(str(record.pk))
    if submitted is None:
        planned = planned_figure(record)
        return None if planned is None or record.status in AT_REST else DataflowFigures(planned, planned)
    priced = prices_of(record, submitted)
    costs = running_costs(estate, submitted.running.values(), task_types=jobs.task_types(), prices=priced)
    return DataflowFigures(
        total_cost(cost.figure for cost in costs.values()), _part(estate, submitted, costs))


def task_figures(estate: Estate, task_ids: Iterable[str], record: DataflowRecord) -> dict[str, CostFigure]:
    """The costs of running tasks of a dataflow, by id, whoever shares them."""
    submitted = estate.submitted.get(str(record.pk))
    if submitted is None:
        return {}
    costs = running_costs(
        estate, submitted.running.values(), task_types=jobs.task_types(), prices=prices_of(record, submitted))
    return {task_id: costs[task_id].figure for task_id in task_ids if task_id in costs}


def planned_figure(record: DataflowRecord, *, plan_record: PlanRecord | None = None) -> CostFigure | None:
    """The cost of a dataflow by a plan of its document, the newest where none is given."""
    plan_record = plan_record or PlanRecord.objects.filter(
        dataflow=record, kind__in=names_where("has_document")).exclude(document="").first()
    plan = None if plan_record is None else plan_of(plan_record)
    return None if plan is None or plan.price is None else plan.price.whole


def prices_of(record: DataflowRecord, submitted: Submitted | None = None) -> Prices:
    """The prices of a dataflow: by its own limits, as far as the pace of its queries is not known."""
    if submitted is not None and submitted.scheduled:
        return prices(record.latency_limits)
    return prices(
        record.latency_limits, dataflow=stored_dataflow(current_version(record).document, installed=False),
        opens=lets_open(record.team))


def _part(estate: Estate, submitted: Submitted, costs: dict[str, RunningCost]) -> CostFigure:
    """The part that it pays: even parts, but of batches by how often each user needs them, as bills divide them."""
    if submitted.paused:
        return total_cost([cost.figure.times(0.0) for cost in costs.values()])
    fragments = {estate.places[task_id][0] for task_id in costs}
    alone_ms = dict(BatchFigures.objects.filter(pk__in=fragments).exclude(alone_ms={}).values_list("pk", "alone_ms"))
    parts = []
    for task_id, cost in costs.items():
        users = sorted(user for user in estate.users[task_id] if not estate.submitted[user].paused)
        of_batches = BatchPart(cost.batch_part, alone_ms.get(estate.places[task_id][0], {})).of_batches(users)
        batch_share = of_batches[users.index(submitted.id)]
        parts.append(cost.figure.times((1 - cost.batch_part) / len(users) + cost.batch_part * batch_share))
    return total_cost(parts)
