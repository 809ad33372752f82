"""Moving a dataflow from state to state; the caller is inside an audited command."""

from __future__ import annotations

from collections.abc import Callable

from dashboard.audit.trail import inside_command
from dashboard.catalog.lifecycle import LIFECYCLE
from dashboard.catalog.models import DataflowRecord

# What changes with a dataflow's state, in the same transaction. Packages above this one add theirs when they start.
FOLLOWERS: list[Callable[[DataflowRecord], None]] = []


def move_dataflow(record: DataflowRecord, to: str) -> None:
    """Check the move, save the dataflow's new state, and let what goes by it follow."""
    if not inside_command():
        raise RuntimeError("a dataflow moves inside an audited command only")
    LIFECYCLE.check(record.status, to)
    record.status = to
    record.save(update_fields=["status", "changed"])
    for follow in FOLLOWERS:
        follow(record)
