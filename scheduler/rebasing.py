"""Rebasing: a plan carried over to a later generation of the estate, in which all that it was made from is as it was.

It stays the same plan: it reuses, starts and stops the same tasks by the same steps at the same price, so its digest
and its approvals stay. What is new of it is numbered for the generation that it now makes, and what a submission starts
without a schedule is placed anew where there is least to do.
"""

from __future__ import annotations

from .mapping.least_loaded import place_new
from .model.encoding import plan_digest
from .model.errors import StalePlan
from .model.plan import Plan
from .model.ports import EstateView
from .model.renumbering import placed_late, renumbered, with_slots
from .model.tenancy import require_apart
from .read_set import begun_on


def rebase(plan: Plan, estate: EstateView, *, query_cores: float) -> Plan:
    """The same plan for the present estate; the caller has checked that its read set is unchanged.

    Parameters
    ----------
    estate : EstateView
        The present estate (`scheduler.read_set.Answers.changes` finds nothing there).

    Raises
    ------
    StalePlan
        Its digest is of an earlier form; or something of it would begin on a slot that is gone or reserved.
    NoSlots
        There is no slot for what it starts; or teams are apart, and a slot of it has another team's queries by now.
    """
    if plan.digest != plan_digest(plan):
        raise StalePlan("The plan was made by an earlier version of Weir.", remedy="Compute it again.")
    rebased = _placed_anew(renumbered(plan, estate.generation), estate, query_cores=query_cores)
    _require_slots(rebased, estate)
    require_apart(estate, rebased.fragments_before, rebased.fragments_after)
    return rebased


def _placed_anew(plan: Plan, estate: EstateView, *, query_cores: float) -> Plan:
    new = placed_late(plan)
    if not new:
        return plan
    cores = {task.id: task.cores for task in plan.started}
    slots = place_new(
        estate, [query_cores + sum(cores[task_id] for task_id in plan.fragments_after[fragment_id].tasks)
                 for fragment_id in new], team=plan.dataflow.team, query_cores=query_cores)
    return with_slots(plan, dict(zip(new, slots, strict=True)))


def _require_slots(plan: Plan, estate: EstateView) -> None:
    """Raise where something would begin to work on a slot that is not on offer."""
    begun = sorted(begun_on(plan))
    offered = estate.slot_loads(begun)
    missing = [slot for slot in begun if slot not in offered]
    if missing:
        raise StalePlan(
            f"Slot {missing[0]}, on which it would start something, is gone or reserved.",
            remedy="Compute the plan again.", slots=missing)
