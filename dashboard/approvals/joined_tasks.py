"""The running tasks that a submission joins: since when it runs, and what the other choice would be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from dashboard import jobs
from dashboard.operations.models import RunningTaskRow
from dashboard.plans.joining_options import begin_in_words
from scheduler.model.plan import Plan
from scheduler.model.plan_kinds import PLAN_KINDS


def joining_of(plan: Plan, options: Mapping[str, Any]) -> dict[str, Any] | None:
    """The running tasks that a submission joins, as a `dashboard.api.answers.proposals.Joining`; None if no task
    that it reuses is older than the submission."""
    if not PLAN_KINDS[plan.kind].joins or not plan.reused:
        return None
    tasks = _older(plan)
    streams = any(task_id in plan.reused for task in plan.started for task_id in task.parents)
    if not tasks and not streams:
        return None
    return {
        "fresh": bool(options.get("fresh")), "begin": begin_in_words(options), "tasks": tasks, "streams": streams,
        "price": asdict(plan.price) if plan.price else None,
        "otherwise": asdict(plan.otherwise) if plan.otherwise else None,
    }


def _older(plan: Plan) -> list[dict[str, Any]]:
    """The tasks of a submission that hold state older than it, or read from such; upstream first."""
    types, names = jobs.task_types(), {running: task for task, running in plan.dataflow.running.items()}
    rows = RunningTaskRow.objects.in_bulk(plan.reused)
    fresh = {task.id: task for task in plan.started if task.id in plan.fresh}
    joined_rows: list[dict[str, Any]] = []
    older: set[str] = set()
    former = set() if plan.replaced is None else set(plan.replaced.running.values())  # what goes on of another version
    for task_id in (*(task_id for task_id in plan.reused if task_id not in former), *fresh):
        row = rows.get(task_id) or fresh.get(task_id)
        if row is None or task_id not in names:  # it has stopped since the plan was made
            continue
        stateful = row.type in types and types[row.type].stateful
        if task_id in fresh or stateful or older.intersection(row.parents):
            older.add(task_id)
            joined_rows.append({
                "task": names[task_id], "type": row.type, "stateful": stateful, "rests": task_id in plan.resumed,
                "since": None if task_id in fresh else row.started_at.isoformat()})
    return joined_rows
