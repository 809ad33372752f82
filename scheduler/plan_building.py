"""Building plans: the fields that all kinds of plans fill alike."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .model.errors import NotSubmitted
from .model.estate import Submitted
from .model.plan import Plan, Price
from .model.plan_kinds import PlanKind
from .model.ports import EstateView
from .model.prices import Prices
from .model.task_types import TaskTypes
from .model.usage import NAMED
from .performance.pricing import price_of, running_cores
from .reuse.activity import FragmentChange
from .reuse.fragments import cut_into_chains


def plan_of_change(
    kind: PlanKind, estate: EstateView, dataflow: Submitted, change: FragmentChange, *, heads: Iterable[str],
    **fields: Any,
) -> Plan:
    """The plan of a change to fragments; not frozen.

    Parameters
    ----------
    kind : PlanKind
        What the plan does.
    dataflow : Submitted
        The dataflow's entry as the plan leaves it, or as it was before a removal.
    change : FragmentChange
        The fragments before and after, and the steps between.
    heads : iterable of str
        Running tasks of which every user notices the plan.
    **fields
        Further fields of the plan; ``started`` and ``stopped`` are empty where they are not given.
    """
    return Plan(
        kind=kind.name, generation=estate.generation, dataflow=dataflow, steps=change.steps,
        fragments_before=change.before, fragments_after=change.after,
        **touched_by(estate, heads, besides=estate.submitted.get(dataflow.id)),
        **{"started": (), "stopped": (), **fields})


def price_of_rearrangement(
    estate: EstateView, submitted: Submitted, *, task_types: TaskTypes, prices: Prices, task_cores_delta: float,
    queries_started: int = 0, queries_stopped: int = 0,
) -> Price:
    """The price of a plan that neither starts nor stops tasks of a submitted dataflow.

    Parameters
    ----------
    submitted : Submitted
        The dataflow's entry; its tasks are reused, all of them.
    task_cores_delta : float
        CPU cores by which its tasks take more or less, their queries' base CPU left out.
    queries_started, queries_stopped : int
        Queries that begin and end with the plan.
    """
    own = tuple(estate.tasks[task_id] for task_id in sorted(set(submitted.running.values())))
    return price_of(
        prices=prices, tasks_reused=len(own), queries_started=queries_started, queries_stopped=queries_stopped,
        task_cores_delta=task_cores_delta, types={task.type for task in own},
        task_cores_alone=sum(running_cores(task, task_types=task_types, prices=prices) for task in own),
        queries_alone=len(cut_into_chains(own, task_types=task_types, unchained=submitted.unchained_running)),
    )


def submitted_in(estate: EstateView, dataflow_id: str) -> Submitted:
    """The dataflow's entry; ``NotSubmitted`` where the estate has none."""
    if dataflow_id not in estate.submitted:
        raise NotSubmitted(
            f"Dataflow {dataflow_id} does not run", remedy="Look up the id in the list of dataflows.",
            dataflow=dataflow_id,
        )
    return estate.submitted[dataflow_id]


def touched_by(estate: EstateView, task_ids: Iterable[str], *, besides: Submitted | None = None) -> dict[str, Any]:
    """Who else uses any of the running tasks, in the fields of a plan; ``besides`` does not count."""
    used = frozenset() if besides is None else frozenset(besides.running.values())
    team, left = ("", "") if besides is None else (besides.team, besides.id)
    users = [(estate.users_of(task_id), int(task_id in used)) for task_id in task_ids]
    named = sorted({user for task_users, _ in users for user in task_users.first} - {left})[:NAMED]
    teams = {
        user_team for task_users, own in users for user_team, number in task_users.by_team.items()
        if number > (own if user_team == team else 0)}
    return {
        "touched": tuple(named),
        "touched_teams": tuple(sorted(teams)),
        "touched_count": max((len(named), *(task_users.count - own for task_users, own in users))),
    }
