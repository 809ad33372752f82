"""One running task: its users since when, its cost, its neighbours, and what would stop without it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from django.db.models import Max, QuerySet

from dashboard.approvals.models import Proposal
from dashboard.catalog.permissions import visible_to
from dashboard.explorer.merged import shape_for, tasks_for
from dashboard.operations.estate_store.estate_loader import current_estate
from dashboard.operations.live_reader import live_dataflow
from dashboard.operations.models import RunningTaskRow, Use
from dashboard.plans.dataflow_figures import task_figures
from dashboard.teams.permissions import Viewer
from scheduler.model.cost_figures import NO_COST, CostFigure
from scheduler.model.errors import NotFound
from scheduler.model.plan_kinds import names_where

MOST_USERS = 50
MOST_AROUND = 150  # tasks drawn on each side


def running_task(viewer: Viewer, task_id: str) -> dict[str, Any]:
    """The facts that a viewer may know of a running task.

    Returns
    -------
    dict
        ``id``, ``type``, ``config``, ``scope``, ``since``; ``cost``: a figure (`scheduler.model.cost_figures`), which
        its users divide; ``user_count`` and, of the first ``MOST_USERS`` by name,
        ``users``: ``id``, ``name``, ``team``, ``task`` (its name there), ``since``, ``outputs`` (names of its sinks
        behind this task), ``outputs_left`` (how many of its sinks are not); ``upstream``, ``downstream``: how many
        tasks; ``stops``: tasks, dataflows and outputs that stop if it goes; ``live``: as in the live document of a
        dataflow, with ``dataflow`` and ``task`` to follow it by, or {}.
    """
    row = _row(viewer, task_id)
    shape = shape_for(viewer)
    behind = _reached(task_id, shape.children.get)
    uses = Use.objects.filter(visible_to(viewer, through="dataflow__"), running_task=row)
    count = uses.count()
    users = _users(uses)
    outputs, stopped_outputs = _outputs(uses, behind | {task_id})
    for user in users:
        user["outputs"], user["outputs_left"] = outputs.get(user["id"], ([], 0))
    return {
        "id": row.pk, "type": row.type, "config": row.config, "scope": row.scope, "since": row.started_at,
        "cost": _cost(uses, row.pk),
        "user_count": count, "users": users, "upstream": len(_reached(task_id, shape.parents.get)),
        "downstream": len(behind),
        "stops": {"tasks": len(behind) + 1, "dataflows": count, "outputs": stopped_outputs},
        "live": _live(viewer, users, row.pk),
    }


def around(viewer: Viewer, task_id: str) -> dict[str, Any]:
    """A running task with what is up- and downstream of it, the nearest first where that is much.

    ``tasks``: ``id``, ``type``, ``config``, ``parents``, ``name``, ``users``, ``side`` (``here``, ``up`` or ``down``);
    ``left_out``: how many are not drawn.
    """
    _row(viewer, task_id)
    shape = shape_for(viewer)
    up, down = _nearest(task_id, shape.parents), _nearest(task_id, shape.children)
    sides = dict.fromkeys(down, "down") | dict.fromkeys(up, "up") | {task_id: "here"}
    rows = RunningTaskRow.objects.in_bulk(list(sides))
    users, names = _called(viewer, sides)
    total = 1 + len(_reached(task_id, shape.parents.get)) + len(_reached(task_id, shape.children.get))
    return {
        "tasks": [
            {"id": key, "type": rows[key].type, "config": rows[key].config, "side": side,
             "parents": [parent for parent in shape.parents.get(key, ()) if parent in sides],
             "name": names.get(key, rows[key].type), "users": users.get(key, 0)}
            for key, side in sides.items() if key in rows],
        "left_out": total - len(sides),
    }


def _row(viewer: Viewer, task_id: str) -> RunningTaskRow:
    row = tasks_for(viewer).filter(pk=task_id).first()
    if row is None:
        raise NotFound("There is no such running task.", remedy="See the estate's graph for those that run.")
    return row


def _cost(uses: QuerySet[Use], task_id: str) -> CostFigure:
    first = uses.select_related("dataflow__team").order_by("dataflow").first()
    figures = {} if first is None else task_figures(current_estate(), [task_id], first.dataflow)
    return figures.get(task_id, NO_COST)


def _reached(task_id: str, next_to: Callable[[str], tuple[str, ...] | None]) -> set[str]:
    ancestors: set[str] = set()
    waiting = [task_id]
    while waiting:
        fresh = set(next_to(waiting.pop()) or ()) - ancestors
        ancestors |= fresh
        waiting.extend(fresh)
    return ancestors


def _nearest(task_id: str, next_to: Mapping[str, tuple[str, ...]]) -> list[str]:
    """The tasks on one side, breadth first, as many as are drawn."""
    ordered: dict[str, None] = {}
    ring: list[str] = [task_id]
    while ring and len(ordered) < MOST_AROUND:
        ring = [neighbour for here in ring for neighbour in next_to.get(here, ()) if neighbour not in ordered]
        ordered.update(dict.fromkeys(ring))
        ring = list(dict.fromkeys(ring))
    return list(ordered)[:MOST_AROUND]


def _users(uses: QuerySet[Use]) -> list[dict[str, Any]]:
    first_uses = list(uses.select_related("dataflow__team").order_by("dataflow__name", "dataflow")[:MOST_USERS])
    since = dict(
        Proposal.objects.filter(
            dataflow__in=[use.dataflow_id for use in first_uses], plan__kind__in=names_where("has_document")).order_by()
        .values_list("dataflow").annotate(Max("approved_at")))
    return [
        {"id": str(use.dataflow_id), "name": use.dataflow.name, "team": use.dataflow.team.name, "task": use.task_id,
         "since": since.get(use.dataflow_id)} for use in first_uses]


def _outputs(uses: QuerySet[Use], behind: set[str]) -> tuple[dict[str, tuple[list[str], int]], int]:
    """The outputs that depend on the task, by dataflow: the sinks that get nothing without the task, and how many still
    do; and all that get nothing."""
    sinks = Use.objects.filter(dataflow__in=uses.values("dataflow"), is_sink=True).order_by("position")
    groups: dict[str, tuple[list[str], int]] = {}
    for dataflow_id, task, name in sinks.values_list("dataflow_id", "running_task_id", "task_id").iterator(5000):
        stopped, still_fed = groups.get(str(dataflow_id), ([], 0))
        groups[str(dataflow_id)] = ([*stopped, name], still_fed) if task in behind else (stopped, still_fed + 1)
    return groups, sum(len(stopped) for stopped, _ in groups.values())


def _live(viewer: Viewer, users: list[dict[str, Any]], task_id: str) -> dict[str, Any]:
    for user in users[:1]:
        live_task = live_dataflow(viewer, user["id"])["tasks"].get(user["task"])
        if live_task and live_task["running"] == task_id:
            return {**live_task, "dataflow": user["id"], "task": user["task"]}
    return {}


def _called(viewer: Viewer, tasks: Iterable[str]) -> tuple[dict[str, int], dict[str, str]]:
    """The number of users of each of these tasks, and a name that one of them gives it."""
    uses = Use.objects.filter(visible_to(viewer, through="dataflow__"), running_task__in=list(tasks)).order_by()
    users: dict[str, int] = {}
    names: dict[str, str] = {}
    for task, name in uses.values_list("running_task_id", "task_id").iterator(5000):
        users[task] = users.get(task, 0) + 1
        names[task] = min(names.get(task, name), name)
    return users, names


