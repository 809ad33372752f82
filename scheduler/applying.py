"""Applying plans to estates as values: what simulators and checks do, and what the site does on its rows."""

from __future__ import annotations

from dataclasses import replace

from .model.estate import Estate
from .model.plan import Plan
from .model.plan_kinds import PLAN_KINDS
from .model.settings_of_fragments import settings_applied
from .reuse.activity import FragmentChange


def apply_plan(estate: Estate, plan: Plan) -> Estate:
    """The estate's next generation, as the plan has it."""
    plan.require_generation(estate.generation)
    stopped = {task.id for task in plan.stopped}
    tasks = {task_id: task for task_id, task in estate.tasks.items() if task_id not in stopped}
    tasks.update((task.id, task) for task in plan.started)
    submitted = dict(estate.submitted)
    if plan.entry_before is not None:
        del submitted[plan.entry_before.id]
    if plan.entry_after is not None:
        submitted[plan.entry_after.id] = plan.entry_after
    fragments = {
        fragment_id: fragment
        for fragment_id, fragment in estate.fragments.items()
        if fragment_id not in plan.fragments_before or fragment_id in plan.fragments_after
    }
    fragments.update(plan.fragments_after)
    return replace(
        estate, generation=estate.generation + 1, tasks=tasks, submitted=submitted, fragments=fragments,
        settings=settings_applied(plan, estate.settings, estate.fragments))


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
        slots_per_hour_delta=-plan.price.slots_per_hour_delta,
    )
    kind = PLAN_KINDS[plan.kind]
    return replace(
        plan,
        kind=kind.undone_by,
        dataflow=plan.replaced or replace(
            plan.dataflow, paused=plan.dataflow.paused is not (kind.entry == "turned")),
        replaced=plan.replaced and plan.dataflow,
        generation=plan.generation + 1,
        bill_changes=tuple(
            replace(change, money_per_hour_delta=-change.money_per_hour_delta) for change in plan.bill_changes),
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
