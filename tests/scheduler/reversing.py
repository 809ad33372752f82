"""The plan that takes another one back at once, step by step: a check that every step has its reverse.

Weir itself undoes a plan from the estate as it is by then (``scheduler.undoing``).
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

from scheduler.applying import reversed_plan
from scheduler.model.encoding import freeze_plan
from scheduler.model.plan import Plan, Step
from scheduler.model.plan_kinds import DEFRAGMENT, ISOLATE, MOVE, SCHEDULE
from scheduler.reuse.activity import FragmentChange
from scheduler.reuse.division import divided_back
from scheduler.reuse.handover import CutPiece, moved_in, recut
from scheduler.step_kinds import kind_of


def reverse_steps(plan: Plan) -> tuple[Step, ...]:
    """The steps that undo the plan's, last first."""
    return tuple(
        replace(step, kind=kind_of(step).reverse, active=step.active_before, active_before=step.active)
        for step in reversed(plan.steps)
    )


def reverse_plan(plan: Plan) -> Plan:
    """The plan that takes the estate back from the generation that this one made: for rolling it back.

    Fragments that were stopped start again under their ids, from where they had come to. What was handed over is
    handed over again, to fragments cut as those before it were; bundles that left come back under other ids.
    """
    if plan.kind == MOVE.name:
        change = moved_back(plan)
    elif plan.kind in {DEFRAGMENT.name, ISOLATE.name}:
        change = recut_back(plan)
    elif plan.kind == SCHEDULE.name:
        change = divided_back(plan.fragments_before, plan.fragments_after, generation=plan.generation + 1)
    else:
        change = FragmentChange(plan.fragments_after, plan.fragments_before, reverse_steps(plan))
    return freeze_plan(reversed_plan(plan, change))


def moved_back(plan: Plan) -> FragmentChange:
    """The handovers that undo a plan's, each for itself."""
    moved = [plan.fragments_after[step.fragment] for step in plan.steps]
    parents = {heir.tasks[0]: [
        task for fragment in plan.fragments_after.values() for task, readers in fragment.outlets.items()
        if heir.id in readers] for heir in moved}
    estate = SimpleNamespace(
        generation=plan.generation + 1, fragments=plan.fragments_after,
        places={task: (fragment.id, 0) for fragment in plan.fragments_after.values() for task in fragment.tasks},
        tasks={task: SimpleNamespace(parents=of_task) for task, of_task in parents.items()})
    return moved_in(
        estate, {heir.id: plan.fragments_before[heir.inherits[-1]].slot for heir in moved},
        outputs={task for heir in moved for task in heir.channels if task not in heir.outlets})


def recut_back(plan: Plan) -> FragmentChange:
    """The handover that undoes a plan's: fresh fragments, cut as those before it were, go on where its own end."""
    new = [plan.fragments_after[step.fragment] for step in plan.steps]
    old = [plan.fragments_before[old_id]
        for old_id in dict.fromkeys(old_id for fragment in new for old_id in fragment.inherits)]
    return recut(
        new, [CutPiece(fragment.active, fragment.slot) for fragment in old],
        upstream=[fragment for fragment_id, fragment in plan.fragments_after.items()
            if fragment_id in plan.fragments_before],
        outputs={task_id for fragment in new for task_id in fragment.channels if task_id not in fragment.outlets},
        generation=plan.generation + 1,
    )
