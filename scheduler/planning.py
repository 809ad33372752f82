"""Planning: what a submission or a removal would change, composed into one frozen plan before anything changes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from .mapping.least_loaded import place_least_loaded
from .model.dataflow import Dataflow
from .model.encoding import (
    estate_from_json,
    estate_to_json,
    freeze_plan,
    plan_digest,
    plan_from_json,
    plan_to_json,
)
from .model.errors import AlreadySubmitted, NotSubmitted, UnknownTaskType
from .model.estate import Estate, Submitted
from .model.plan import Plan, Step, StepKind
from .model.ports import EstateView
from .model.prices import Prices
from .model.task_types import TaskTypes
from .model.usage import NAMED
from .performance.pricing import price_of, query_cores
from .performance.rates import task_cores
from .reuse.fragments import attach, cut_into_chains, detach
from .reuse.merge import merge
from .reuse.unmerge import unmerge

__all__ = [
    "Prices", "apply_plan", "estate_from_json", "estate_to_json", "plan_digest", "plan_from_json", "plan_removal",
    "plan_submission", "plan_to_json", "reverse_plan", "reverse_steps",
]

REVERSE: dict[StepKind, StepKind] = {
    "start_fragment": "stop_fragment",
    "stop_fragment": "start_fragment",
    "open_outlet": "close_outlet",
    "close_outlet": "open_outlet",
    "close_tail": "open_tail",
    "open_tail": "close_tail",
}


def plan_submission(
    estate: EstateView,
    dataflow: Dataflow,
    *,
    dataflow_id: str,
    team: str,
    task_types: TaskTypes,
    prices: Prices,
    longest_chain: int | None = None,
) -> Plan:
    """Plan the merge of a submitted dataflow into the estate.

    Parameters
    ----------
    estate : EstateView
        What runs now, by look-ups; it is not changed.
    dataflow : Dataflow
        Valid, as `read_document` returns it.
    dataflow_id, team : str
        The submission's id, and the team whose private tasks it may share where the dataflow is private.
    task_types : TaskTypes
        Declarations of all its types.
    prices : Prices
        What a core and hour costs, and how often queries run batches.
    longest_chain : int, optional
        Most tasks in a new fragment; None for no limit.

    Returns
    -------
    Plan
        Frozen, with its digest; it starts new fragments and opens outlets of running ones, and changes nothing else.

    Raises
    ------
    AlreadySubmitted
        The estate has a dataflow of that id.
    UnknownTaskType
        A task's type is not installed.
    NoSlots
        Something has to start and there is no slot.
    """
    _check_plannable(estate, dataflow, dataflow_id, task_types)
    merged = merge(
        estate.tasks, dataflow, task_types=task_types, scope=team if dataflow.visibility == "private" else ""
    )
    expected = {
        merged.running[task_id]: cores for task_id, cores in task_cores(dataflow, task_types=task_types).items()
    }
    started = {task.id: replace(task, cores=expected[task.id]) for task in merged.started}
    chains = cut_into_chains(tuple(started.values()), task_types=task_types, longest_chain=longest_chain)
    for_query = query_cores(prices)
    # More slots than chains are never needed: a chain goes to the slot that has least to do.
    least = estate.least_loaded(len(chains), query_cores=for_query)
    slots = place_least_loaded(
        [for_query + sum(expected[task_id] for task_id in chain) for chain in chains],
        slots=[slot for slot, _ in least],
        load={slot.name: cores for slot, cores in least},
    )
    change = attach(estate, chains, slots, started=started)
    alone = merge({}, dataflow, task_types=task_types).started
    return freeze_plan(
        Plan(
            kind="submit",
            generation=estate.generation,
            dataflow=Submitted(
                id=dataflow_id, name=dataflow.name, team=team, running=merged.running,
                sinks=tuple(task.id for task in dataflow.tasks if task_types[task.type].kind == "sink"),
            ),
            reused=merged.reused,
            started=tuple(started.values()),
            stopped=(),
            steps=change.steps,
            fragments_before=change.before,
            fragments_after=change.after,
            # Whoever uses a task uses all that is upstream of it: the users of the sources are all there are.
            **_touched(estate, (task_id for task_id in merged.reused if not estate.tasks[task_id].parents)),
            price=price_of(
                prices=prices,
                tasks_started=len(started),
                tasks_reused=len(merged.reused),
                queries_started=len(chains),
                task_cores_delta=sum(task.cores for task in started.values()),
                task_cores_alone=sum(expected.values()),
                queries_alone=len(cut_into_chains(alone, task_types=task_types, longest_chain=longest_chain)),
            ),
        )
    )


def plan_removal(estate: EstateView, dataflow_id: str, *, task_types: TaskTypes, prices: Prices) -> Plan:
    """Plan the removal of a submitted dataflow from the estate.

    Stops the fragments that nobody else needs, closes the tails of those needed in part, and closes the outlets that
    thereby lose their last reader; nothing that keeps running is restarted. ``reused`` of the plan are the tasks that
    stay for others.

    Raises
    ------
    NotSubmitted
        The estate has no dataflow of that id.
    """
    if dataflow_id not in estate.submitted:
        raise NotSubmitted(
            f"Dataflow {dataflow_id} does not run", remedy="Look up the id in the list of dataflows.",
            dataflow=dataflow_id,
        )
    unmerged = unmerge(estate, dataflow_id)
    stopped = tuple(estate.tasks[task_id] for task_id in unmerged.stopped)
    change = detach(estate, unmerged.stopped)
    own = tuple(estate.tasks[task_id] for task_id in (*unmerged.kept, *unmerged.stopped))
    return freeze_plan(
        Plan(
            kind="remove",
            generation=estate.generation,
            dataflow=estate.submitted[dataflow_id],
            reused=unmerged.kept,
            started=(),
            stopped=stopped,
            steps=change.steps,
            fragments_before=change.before,
            fragments_after=change.after,
            # A fragment's first task is upstream of all its others, so whoever uses them uses it.
            **_touched(
                estate, (fragment.tasks[0] for fragment in change.after.values()), leaving=estate.submitted[dataflow_id]
            ),
            price=price_of(
                prices=prices,
                tasks_reused=len(unmerged.kept),
                tasks_stopped=len(stopped),
                queries_stopped=len(change.before) - len(change.after),
                task_cores_delta=-sum(task.cores for task in stopped),
                task_cores_alone=sum(task.cores for task in own),
                queries_alone=len(cut_into_chains(own, task_types=task_types)),
            ),
        )
    )


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

    Fragments that were stopped start again under their ids, from where they had come to.
    """
    price = plan.price and replace(
        plan.price,
        tasks_started=plan.price.tasks_stopped,
        tasks_stopped=plan.price.tasks_started,
        queries_started=plan.price.queries_stopped,
        queries_stopped=plan.price.queries_started,
        cores_delta=-plan.price.cores_delta,
        money_per_hour_delta=-plan.price.money_per_hour_delta,
    )
    return freeze_plan(
        replace(
            plan,
            kind="remove" if plan.kind == "submit" else "submit",
            generation=plan.generation + 1,
            started=plan.stopped,
            stopped=plan.started,
            steps=reverse_steps(plan),
            fragments_before=plan.fragments_after,
            fragments_after=plan.fragments_before,
            price=price,
        )
    )


def _check_plannable(estate: EstateView, dataflow: Dataflow, dataflow_id: str, task_types: TaskTypes) -> None:
    if dataflow_id in estate.submitted:
        raise AlreadySubmitted(
            f"Dataflow {dataflow_id} is submitted already",
            remedy="Remove it first, or submit it under another id.", dataflow=dataflow_id,
        )
    for task in dataflow.tasks:
        if task.type not in task_types:
            raise UnknownTaskType(
                f"Task type {task.type} of task {task.id} is not installed",
                remedy="Install the package that brings it, or submit the dataflow with another type.", task=task.id,
            )


def _touched(estate: EstateView, task_ids: Iterable[str], *, leaving: Submitted | None = None) -> dict[str, Any]:
    """Who else uses any of the running tasks, in the fields of a plan; ``leaving`` uses them all and does not count."""
    users = [estate.users_of(task_id) for task_id in task_ids]
    own, left = (0, "") if leaving is None else (1, leaving.id)
    team = "" if leaving is None else leaving.team
    named = sorted({user for one in users for user in one.first} - {left})[:NAMED]
    teams = {of for one in users for of, number in one.by_team.items() if number > (own if of == team else 0)}
    return {
        "touched": tuple(named),
        "touched_teams": tuple(sorted(teams)),
        "touched_count": max((len(named), *(one.count - own for one in users))),
    }
