"""Going through a trace with every check at every step."""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.model.dataflow import Dataflow
from scheduler.model.estate import Estate, Slot
from scheduler.model.task_types import TaskTypes
from scheduler.planning import Prices, apply_plan, plan_removal, plan_submission
from tests.scheduler.invariants import check_fragments, check_outlets
from tests.scheduler.structure import Checker
from workers.benches.traces import Trace

TEAMS = ("water", "roads")


def go_through(trace: Trace, dataflows: Mapping[str, Dataflow], *, task_types: TaskTypes) -> list[Estate]:
    """Make every change of a trace and check constraints (1) and (2), fragments and channels after each."""
    estate, checker, passed = Estate(slots=(Slot("n1", 0), Slot("n1", 1))), Checker(task_types), []
    teams = {name: TEAMS[number % len(TEAMS)] for number, name in enumerate(dataflows)}
    for change in trace.changes:
        name = change.dataflow
        if change.kind == "remove":
            plan = plan_removal(estate, name, task_types=task_types, prices=Prices())
            checker.remove(name)
        else:
            plan = plan_submission(
                estate, dataflows[name], dataflow_id=name, team=teams[name], task_types=task_types, prices=Prices()
            )
            checker.submit(name, dataflows[name], teams[name])
        estate = apply_plan(estate, plan)
        checker.check(estate)
        check_fragments(estate)
        check_outlets(estate)
        passed.append(estate)
    return passed
