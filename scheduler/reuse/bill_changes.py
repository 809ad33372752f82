"""Changes of others' bills by a plan: every running task is paid for in equal shares by those who need it.

Where one user more comes, everybody else pays less for what they share; where one goes, more.
"""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.model.plan import BillChange
from scheduler.model.ports import EstateView
from scheduler.model.prices import Prices
from scheduler.model.task_types import TaskTypes
from scheduler.performance.running_costs import running_costs

LEAST = 5e-7  # money an hour: less is rounding


def bill_changes(
    estate: EstateView, shared: Iterable[str], *, team: str, comes: bool, task_types: TaskTypes, prices: Prices,
    is_paused_user: bool = False,
) -> tuple[BillChange, ...]:
    """The changes of other users' hourly bills for some running tasks, by team; teams without a change are left out.

    Paused users pay nothing; they count as spread evenly over the teams.

    Parameters
    ----------
    shared : iterable of str
        Running tasks that the dataflow begins or ceases to pay for, and that work before and after.
    team : str
        The dataflow's own, by its short name: it does not count among the others of its team.
    comes : bool
        True if it begins to pay, False if it ceases to.
    prices : Prices
        The prices of a core, and the cost of tasks and queries.
    is_paused_user : bool, optional
        True if it begins to pay as a paused user that resumes; else it is no user yet.
    """
    shared = list(shared)
    costs = running_costs(estate, shared, task_types=task_types, prices=prices)
    is_user = is_paused_user or not comes
    changes: dict[str, float] = {}
    for task_id in shared:
        users = estate.users_of(task_id)
        paying = users.count - users.paused
        after = paying + 1 if comes else paying - 1
        others = min(paying, after)
        if others < 1:
            continue
        growth = costs[task_id].figure.per_hour * (1 / after - 1 / paying)
        of_team = {name: number - (name == team and is_user) for name, number in users.by_team.items()}
        spread = others / sum(of_team.values())
        for name, number in of_team.items():
            changes[name] = changes.get(name, 0.0) + number * spread * growth
    return tuple(
        BillChange(name, round(change, 6)) for name, change in sorted(changes.items()) if abs(change) >= LEAST)

