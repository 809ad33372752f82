"""Replanning: is a recomputed plan equivalent to the pending one?

An answer that the pending plan was made from has changed (`read_set.Answers.changes`), so it was planned again from the
estate as it is now. The new plan is equivalent if it starts, stops, shares and pauses the same by the same steps, and
at least as many payers share each task. Approvals of the pending plan then hold for the new one: nobody pays more than
was reviewed. Teams that share its tasks since then are still asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import fsum, inf
from typing import Any

from .model.encoding import BEFORE_ALL, freeze_plan
from .model.plan import Plan
from .model.plan_kinds import PLAN_KINDS
from .model.renumbering import renumbered
from .performance.running_costs import SAME_COST
from .reuse.bill_changes import LEAST


def may_be_made_anew(plan: Plan) -> bool:
    """True if another plan may stand for this one: not for a schedule, nor for one that moves queries.

    What those decide is where things run, by measurements and loads of the moment.
    """
    return plan.promise is None and not PLAN_KINDS[plan.kind].moves_queries


def standing_for(
    before: Plan, now: Plan, *, paying_before: Mapping[str, int], paying_now: Mapping[str, int]
) -> Plan | None:
    """The plan as it is made now, at the price that was reviewed, where it stands for the one before; else None.

    Parameters
    ----------
    now : Plan
        The plan for the same request from the estate as it is now.
    paying_before, paying_now : mapping of str to int
        The number of dataflows that paid, and pay, for each running task of which a plan asked it
        (`read_set.Reads.paying`).
    """
    if not (may_be_made_anew(before) and may_be_made_anew(now)) or _meaning(before) != _meaning(now):
        return None
    shared = (paying_before.keys() | paying_now.keys()) & set(now.reused)
    if any(paying_now.get(task_id, 0) < paying_before.get(task_id, inf) for task_id in shared):
        return None
    if _dearer(before, now):
        return None
    # Costs that were learned meanwhile change nothing that was reviewed, as where nothing has changed.
    reviewed = {task.id: task for task in before.started}
    return freeze_plan(replace(
        now, started=tuple(reviewed[task.id] for task in now.started), price=before.price, otherwise=before.otherwise))


def _meaning(plan: Plan) -> tuple[Any, ...]:
    """The parts of a plan that approvals refer to, whatever its generation."""
    price = plan.price
    return (
        plan.kind, plan.dataflow, plan.replaced,
        sorted(task.id for task in plan.started), sorted(task.id for task in plan.stopped),
        sorted(plan.reused), sorted(plan.resumed), sorted(plan.rested), sorted(plan.fresh), plan.refined,
        renumbered(plan, BEFORE_ALL).steps, plan.notes, plan.why, plan.otherwise is None,
        None if price is None else (
            price.tasks_started, price.tasks_reused, price.tasks_stopped, price.queries_started,
            price.queries_stopped))


def _dearer(before: Plan, now: Plan) -> bool:
    """True if bills rise by more than was reviewed: the bill of a named team, or all bills together.

    Teams that share its tasks only since then may be named now. Measured costs vary from minute to minute: a rise
    within `SAME_COST` counts as equal.
    """
    reviewed, rises = (
        {change.team: change.money_per_hour_delta for change in plan.bill_changes if change.money_per_hour_delta > 0}
        for plan in (before, now))
    named = {change.team for change in before.bill_changes}
    return fsum(rises.values()) > (1 + SAME_COST) * fsum(reviewed.values()) + LEAST or any(
        rise > (1 + SAME_COST) * reviewed.get(team, 0.0) + LEAST for team, rise in rises.items() if team in named)
