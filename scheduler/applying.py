"""Applying plans to estates, and the plans that take others back."""

from __future__ import annotations

from dataclasses import replace

from .model.encoding import freeze_plan
from .model.estate import Estate
from .model.plan import Plan, PlanKind, Step, StepKind
from .reuse.division import divided_back
from .reuse.handover import recut_back
from .reuse.standing import FragmentChange

REVERSE: dict[StepKind, StepKind] = {
    "start_fragment": "stop_fragment",
    "stop_fragment": "start_fragment",
    "open_outlet": "close_outlet",
    "close_outlet": "open_outlet",
    "close_tail": "open_tail",
    "open_tail": "close_tail",
    "pause_fragment": "resume_fragment",
    "resume_fragment": "pause_fragment",
    "start_bundle": "leave_bundle",
    "leave_bundle": "start_bundle",
    "move_bundle": "move_bundle",
    "route": "route",
}
REVERSE_PLAN: dict[PlanKind, PlanKind] = {
    "submit": "remove", "remove": "submit", "pause": "resume", "resume": "pause", "defragment": "defragment",
    "schedule": "schedule",
}


def apply_plan(estate: Estate, plan: Plan) -> Estate:
    """The estate's next generation, as the plan has it.

    Raises
    ------
    StalePlan
        The plan was computed from another generation of the estate.
    """
    plan.require_generation(estate.generation)
    stopped = {task.id for task in plan.stopped}
    tasks = {task_id: task for task_id, task in estate.tasks.items() if task_id not in stopped}
    tasks.update((task.id, task) for task in plan.started)
    submitted = dict(estate.submitted)
    if plan.removes is not None:
        del submitted[plan.removes.id]
    if plan.submits is not None:
        submitted[plan.submits.id] = plan.submits
    fragments = {
        fragment_id: fragment
        for fragment_id, fragment in estate.fragments.items()
        if fragment_id not in plan.fragments_before or fragment_id in plan.fragments_after
    }
    fragments.update(plan.fragments_after)
    return replace(
        estate, generation=estate.generation + 1, tasks=tasks, submitted=submitted, fragments=fragments
    )


def reverse_steps(plan: Plan) -> tuple[Step, ...]:
    """The steps that undo the plan's, last first."""
    return tuple(
        replace(step, kind=REVERSE[step.kind], active=step.active_before, active_before=step.active)
        for step in reversed(plan.steps)
    )


def reverse_plan(plan: Plan) -> Plan:
    """The plan that takes the estate back from the generation that this one made: for rolling it back.

    Fragments that were stopped start again under their ids, from where they had come to. What was handed over is
    handed over again, to fragments cut as those before it were; bundles that left come back under other ids.
    """
    if plan.kind == "defragment":
        change = recut_back(plan)
    elif plan.kind == "schedule":
        change = divided_back(plan.fragments_before, plan.fragments_after, generation=plan.generation + 1)
    else:
        change = FragmentChange(plan.fragments_after, plan.fragments_before, reverse_steps(plan))
    return freeze_plan(reversed_plan(plan, change))


def reversed_plan(plan: Plan, change: FragmentChange) -> Plan:
    """The plan that takes another one back by this change; not frozen."""
    price = plan.price and replace(
        plan.price,
        tasks_started=plan.price.tasks_stopped,
        tasks_stopped=plan.price.tasks_started,
        queries_started=plan.price.queries_stopped,
        queries_stopped=plan.price.queries_started,
        cores_delta=-plan.price.cores_delta,
        money_per_hour_delta=-plan.price.money_per_hour_delta,
    )
    turned = plan.kind in {"pause", "resume"}
    return replace(
        plan,
        kind=REVERSE_PLAN[plan.kind],
        dataflow=replace(plan.dataflow, paused=plan.dataflow.paused is not turned),
        generation=plan.generation + 1,
        started=plan.stopped,
        stopped=plan.started,
        rested=plan.resumed,
        resumed=plan.rested,
        steps=change.steps,
        fragments_before=change.before,
        fragments_after=change.after,
        price=price,
        promise=None,
    )
