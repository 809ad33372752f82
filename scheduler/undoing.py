"""Undoing a plan from the plan itself, in the estate as it is by now; what others have built on it meanwhile stays.

Kinds of plans that are undone by their opposite are planned as that kind anew: a submission is taken back by a removal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from .defragmenting import plan_cutting_back
from .isolating import plan_joining_back
from .model.plan import Plan
from .model.plan_kinds import DEFRAGMENT, ISOLATE, MOVE, PLAN_KINDS, SCHEDULE, SET
from .model.ports import EstateView
from .moving import plan_moving_back
from .rescheduling import plan_schedule_back
from .setting import plan_setting_back

UNDO_FROM_PLAN: Mapping[str, Callable[[EstateView, Plan], Plan]] = {
    DEFRAGMENT.name: plan_cutting_back, SCHEDULE.name: plan_schedule_back, ISOLATE.name: plan_joining_back,
    MOVE.name: plan_moving_back, SET.name: plan_setting_back}


def undo(estate: EstateView, plan: Plan) -> Plan | None:
    """The plan that takes this one back, frozen; None for a kind that is undone by planning its opposite."""
    if PLAN_KINDS[plan.kind].undo == "by_opposite":
        return None
    return UNDO_FROM_PLAN[plan.kind](estate, plan)
