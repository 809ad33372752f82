"""Building plans: how every kind is put together from a change to fragments, its price, and who notices it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from .applying import reversed_plan
from .model.cost_figures import NO_COST, CostFigure, total_cost
from .model.encoding import freeze_plan
from .model.errors import NotSubmitted
from .model.estate import Submitted
from .model.fragment import Fragment
from .model.plan import Plan, Price
from .model.plan_kinds import PlanKind
from .model.ports import EstateView
from .model.prices import Prices
from .model.task_types import TaskTypes
from .model.tenancy import require_apart
from .model.usage import NAMED
from .performance.alternates_at_work import AlternatesAtWork
from .performance.pricing import price_of, query_cores
from .performance.running_costs import estimated_cost, running_costs
from .reuse.activity import FragmentChange


def plan_of_change(
    kind: PlanKind, estate: EstateView, dataflow: Submitted, change: FragmentChange, *, heads: Iterable[str],
    price: Price, **fields: Any,
) -> Plan:
    """The plan of a change to fragments, frozen: every kind of plan is made here.

    Parameters
    ----------
    dataflow : Submitted
        The dataflow's entry as the plan leaves it, or as it was before a removal.
    change : FragmentChange
        The fragments before and after, and the steps between.
    heads : iterable of str
        Running tasks of which every user notices the plan (`heads_of`).
    **fields
        Further fields of the plan. ``started`` and ``stopped`` are empty where they are not given, and ``reused`` is
        all that executes the dataflow.

    Raises
    ------
    NoSlots
        Teams are apart, and the change brings one to a slot that holds another's queries.
    """
    require_apart(estate, change.before, change.after)
    return freeze_plan(Plan(
        kind=kind.name, generation=estate.generation, dataflow=dataflow, steps=change.steps,
        fragments_before=change.before, fragments_after=change.after, price=price,
        **touched_by(estate, heads, besides=estate.submitted.get(dataflow.id)),
        **{"started": (), "stopped": (), "reused": running_of(dataflow), **fields}))


def plan_of_rearrangement(
    kind: PlanKind, estate: EstateView, dataflow: Submitted, change: FragmentChange, *, heads: Iterable[str],
    task_types: TaskTypes, prices: Prices, cores_delta: float | None = None, begins: CostFigure = NO_COST,
    ceases: CostFigure = NO_COST, queries_started: int = 0, queries_stopped: int = 0, **fields: Any,
) -> Plan:
    """The plan of a change that neither brings nor ends tasks of a submitted dataflow, with its price, frozen.

    Parameters
    ----------
    kind, dataflow, change, heads, **fields
        As for `plan_of_change`.
    cores_delta, begins, ceases, queries_started, queries_stopped
        As for `price_of_rearrangement`.
    """
    return plan_of_change(
        kind, estate, dataflow, change, heads=heads, price=price_of_rearrangement(
            estate, dataflow, task_types=task_types, prices=prices, cores_delta=cores_delta, begins=begins,
            ceases=ceases, queries_started=queries_started, queries_stopped=queries_stopped), **fields)


def plan_taking_back(
    estate: EstateView, plan: Plan, change: FragmentChange, *, heads: Iterable[str], **fields: Any
) -> Plan:
    """The plan that takes an enacted one back by this change, frozen; its dataflow is in the estate.

    Parameters
    ----------
    plan : Plan
        As it was enacted; the new one has its price and its tasks the other way round.
    change, heads, **fields
        As for `plan_of_change`.
    """
    submitted = submitted_in(estate, plan.dataflow.id)
    require_apart(estate, change.before, change.after)
    return freeze_plan(replace(
        reversed_plan(plan, change), generation=estate.generation, dataflow=submitted,
        **{**touched_by(estate, heads, besides=submitted), **fields}))


def price_of_rearrangement(
    estate: EstateView, submitted: Submitted, *, task_types: TaskTypes, prices: Prices,
    cores_delta: float | None = None, begins: CostFigure = NO_COST, ceases: CostFigure = NO_COST,
    queries_started: int = 0, queries_stopped: int = 0, tasks_stopped: int = 0,
) -> Price:
    """The price of a plan that starts no tasks of a submitted dataflow.

    Parameters
    ----------
    submitted : Submitted
        The dataflow's entry; its tasks are reused, but for those that stop.
    cores_delta : float, optional
        CPU cores by which its queries take more or less, as an estimate; where neither that nor a figure is given, what
        so many queries more or less take.
    begins, ceases : CostFigure, optional
        The costs of tasks that begin to work with the plan, and of those that cease to.
    queries_started, queries_stopped, tasks_stopped : int, optional
        Queries that begin and end with the plan, and tasks that end.
    """
    tasks = running_of(submitted)
    costs = running_costs(estate, tasks, task_types=task_types, prices=prices)
    if begins is NO_COST and ceases is NO_COST:
        more = (queries_started - queries_stopped) * query_cores(prices) if cores_delta is None else cores_delta
        begins = estimated_cost(max(0.0, more), prices=prices)
        ceases = estimated_cost(max(0.0, -more), prices=prices)
    return price_of(
        prices=prices, added=begins, freed=ceases, whole=total_cost(cost.figure for cost in costs.values()),
        tasks_reused=len(tasks) - tasks_stopped, tasks_stopped=tasks_stopped, queries_started=queries_started,
        queries_stopped=queries_stopped,
        types=AlternatesAtWork(estate, task_types=task_types, prices=prices).types(tasks))


def running_of(submitted: Submitted) -> tuple[str, ...]:
    """The running tasks that execute a dataflow, each once, sorted."""
    return tuple(sorted(set(submitted.running.values())))


def heads_of(fragments: Iterable[Fragment]) -> dict[str, None]:
    """The first task of each fragment, once. Its users include those of all tasks behind it."""
    return dict.fromkeys(fragment.tasks[0] for fragment in fragments)


def shown_outputs(estate: EstateView, fragments: Iterable[Fragment], task_types: TaskTypes) -> set[str]:
    """The tasks of fragments that work, or rest, whose channels are kept for those who look at them."""
    return {
        task_id for fragment in fragments for task_id in fragment.kept_tasks
        if task_types[estate.tasks[task_id].type].terminal == "output"}


def kept_outputs(fragments: Iterable[Fragment]) -> set[str]:
    """The tasks whose channels fragments keep though nobody reads them: those that are looked at."""
    return {task_id for fragment in fragments for task_id in fragment.channels if task_id not in fragment.outlets}


def submitted_in(estate: EstateView, dataflow_id: str) -> Submitted:
    """The dataflow's entry; ``NotSubmitted`` where the estate has none."""
    if dataflow_id not in estate.submitted:
        raise NotSubmitted(
            f"Dataflow {dataflow_id} does not run", remedy="Look up the id in the list of dataflows.",
            dataflow=dataflow_id,
        )
    return estate.submitted[dataflow_id]


def touched_by(estate: EstateView, task_ids: Iterable[str], *, besides: Submitted | None = None) -> dict[str, Any]:
    """The other users of the running tasks, in the fields of a plan; ``besides`` does not count."""
    used = frozenset() if besides is None else frozenset(besides.running.values())
    team, besides_id = ("", "") if besides is None else (besides.team, besides.id)
    users = [(estate.users_of(task_id), int(task_id in used)) for task_id in task_ids]
    named = sorted({user for task_users, _ in users for user in task_users.first} - {besides_id})[:NAMED]
    teams = {
        user_team for task_users, owned in users for user_team, number in task_users.by_team.items()
        if number > (owned if user_team == team else 0)}
    return {
        "touched": tuple(named),
        "touched_teams": tuple(sorted(teams)),
        "touched_count": max((len(named), *(task_users.count - owned for task_users, owned in users))),
    }
