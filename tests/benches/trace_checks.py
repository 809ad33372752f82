"""Going through a trace with every check at every step."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.model.dataflow import Dataflow
from scheduler.model.estate import Estate
from scheduler.model.prices import Prices
from scheduler.model.task_types import TaskTypes
from tests.benches.trace_replay import Side, Strategy
from tests.benches.traces import Trace
from tests.scheduler.invariants import check_fragments, check_outlets
from tests.scheduler.structure import Checker


def go_through(
    trace: Trace, dataflows: Sequence[Dataflow], *, task_types: TaskTypes, strategy: Strategy = "reuse"
) -> list[Estate]:
    """Make every change of a trace and check constraints (1) and (2), fragments and channels after each."""
    side = Side(strategy, dataflows, slots=2, prices=Prices(), types=task_types)
    checker, passed = Checker(task_types), []
    for change in trace.changes:
        name = change.dataflow
        if change.kind == "remove":
            checker.remove(name)
        else:
            checker.submit(name, side.dataflows[name], side.teams[name])
        for estate in side.take(change):
            checker.check(estate)
            check_fragments(estate)
            check_outlets(estate)
        passed.append(estate)
    return passed
