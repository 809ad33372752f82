"""What is said of a dataflow's latency limits without a plan: as a plan of it would say."""

from __future__ import annotations

from dashboard import jobs
from dashboard.catalog.documents import stored_dataflow
from dashboard.catalog.models import DataflowRecord
from dashboard.catalog.selectors import current_version
from dashboard.operations.costs import costs_here
from scheduler.latency.foreseen import out_of_reach


def limit_remarks(record: DataflowRecord) -> tuple[str, ...]:
    """What to tell of the limits that hold for a dataflow and are below what batches of its tasks take at the least."""
    dataflow = stored_dataflow(current_version(record).document, installed=False)
    return out_of_reach(dataflow, record.latency_limits, task_types=jobs.task_types(), costs=costs_here())
