"""The changes by another version of a dataflow, for those who look at its plan."""

from __future__ import annotations

from typing import Any

from dashboard import jobs
from dashboard.approvals.models import Proposal
from dashboard.catalog.selectors import graph_of
from scheduler.model.alternate_changes import alternate_changes
from scheduler.model.alternates import alternates_in
from scheduler.model.plan import Plan
from scheduler.model.task_types import TaskTypes


def names_in(plan: Plan) -> dict[str, str]:
    """The dataflow's tasks by running task id, as its document calls them; of two versions the new one goes first."""
    former = {} if plan.replaced is None else {running: task for task, running in plan.replaced.running.items()}
    return former | {running: task for task, running in plan.dataflow.running.items()}


def add_former(
    tasks: dict[str, dict[str, Any]], streams: dict[tuple[str, str], dict[str, Any]], proposal: Proposal, plan: Plan
) -> None:
    """Add to a difference's tasks and streams those that only the version has that runs: they stop, rest, or go on for
    others.

    Parameters
    ----------
    tasks, streams : dict
        Of the difference, by running task id and by pairs of these; they are added to.
    """
    running = plan.replaced.running
    graph = graph_of(proposal.dataflow, number=proposal.plan.options["former"])
    ends = {task.id for task in plan.stopped} | set(plan.rested)
    for task in graph["tasks"]:
        running_id = running.get(task["id"])
        if running_id is not None and running_id not in tasks:
            tasks[running_id] = {
                "id": running_id, "name": task["id"], "type": task["type"], "kind": task["kind"],
                "config": task["config"], "status": "stopped" if running_id in ends else "neighbour", "used_by": [],
                "fragment": None, "slot": None}
    for stream in graph["streams"]:
        pair = running.get(stream["source"]), running.get(stream["target"])
        if None not in pair and pair not in streams:
            streams[pair] = {"source": pair[0], "target": pair[1], "status": tasks[pair[1]]["status"]}


def version_change(proposal: Proposal, plan: Plan) -> dict[str, Any] | None:
    """The changes of a plan to the version that runs, as a `dashboard.api.answers.proposals.VersionChange`; None for a
    plan that brings no other version."""
    if plan.replaced is None:
        return None
    types = jobs.task_types()
    new, former = (
        graph_of(proposal.dataflow, number=number)["tasks"]
        for number in (proposal.plan.version, proposal.plan.options["former"]))
    old = plan.replaced.running
    running_in_both = set(plan.dataflow.running.values()) & set(old.values())
    ends = {task.id for task in plan.stopped} | set(plan.rested) | running_in_both
    return {
        "number": proposal.plan.version, "former": proposal.plan.options["former"],
        "with_state": [
            task["id"] for task in new if plan.dataflow.running.get(task["id"]) in running_in_both
            and task["type"] in types and types[task["type"]].stateful],
        "left": sorted(task for task, running in old.items() if running not in ends),
        "alternates": _changed_alternates(new, former, types),
    }


def _changed_alternates(
    new: list[dict[str, Any]], former: list[dict[str, Any]], types: TaskTypes
) -> dict[str, list[str]]:
    before = {task["id"]: alternates_in(task["type"], task["config"]) for task in former}
    changes = {
        task["id"]: alternate_changes(before[task["id"]], after, task_types=types) for task in new
        if before.get(task["id"]) and (after := alternates_in(task["type"], task["config"]))}
    return {task: texts for task, texts in changes.items() if texts}
