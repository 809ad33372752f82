"""Worth, cost and selectivity of the alternates of a dataflow's dynamic tasks: γ, c and s, for pages, API and commands.

- ``with_figures(viewer, dataflow_id, tasks)``: dynamic tasks (`dynamic_reader`) with their figures
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

from dashboard import jobs
from dashboard.catalog.permissions import dataflow_for
from dashboard.operations.live_view.dynamic_reader import DynamicTask
from dashboard.operations.live_view.estate_view import view_for
from dashboard.plans.dataflow_figures import prices_of
from dashboard.teams.permissions import Viewer
from scheduler.performance.alternate_costs import alternate_figures


def with_figures(viewer: Viewer, dataflow_id: UUID | str, tasks: Sequence[DynamicTask]) -> list[DynamicTask]:
    """The tasks with what is known of their alternates, as the dataflow is priced."""
    estate, record = view_for(viewer).estate, dataflow_for(viewer, dataflow_id)
    submitted = estate.submitted.get(str(record.pk))
    if not tasks or submitted is None:
        return list(tasks)
    prices = prices_of(record, submitted)
    return [
        replace(task, figures=alternate_figures(
            estate, task.running, task_types=jobs.task_types(), prices=prices)) for task in tasks]
