"""Moving a dataflow from state to state; the caller is inside an audited command."""

from __future__ import annotations

from dashboard.audit.trail import inside_command
from dashboard.catalog.lifecycle import LIFECYCLE
from dashboard.catalog.models import DataflowRecord


def move_dataflow(record: DataflowRecord, to: str) -> None:
    """Check the move and save the dataflow's new state."""
    if not inside_command():
        raise RuntimeError("a dataflow moves inside an audited command only")
    LIFECYCLE.check(record.status, to)
    record.status = to
    record.save(update_fields=["status", "changed"])
