"""A plan's difference for one viewer: the graph before and after, the steps in words, who is touched, the price."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from dashboard import jobs
from dashboard.approvals.bundle_changes import bundles_of
from dashboard.approvals.joined_tasks import joining_of
from dashboard.approvals.models import Proposal
from dashboard.approvals.version_changes import add_former, names_in, version_change
from dashboard.approvals.wording import step_text
from dashboard.catalog.models import DataflowRecord
from dashboard.catalog.permissions import visible_to
from dashboard.catalog.selectors import graph_of
from dashboard.operations.estate_store.fragment_settings import settings_of
from dashboard.operations.models import RunningTaskRow, Use
from dashboard.plans.selectors import plan_of
from dashboard.teams.models import Team
from dashboard.teams.permissions import Viewer
from scheduler.model.alternates import alternates_in, is_dynamic, on_in
from scheduler.model.encoding import to_json
from scheduler.model.plan import Plan
from scheduler.model.settings_of_fragments import USUAL
from scheduler.reuse.narrower_alternates import PASSES


def difference(viewer: Viewer, proposal: Proposal) -> dict[str, Any] | None:
    """The changes of a proposal's plan, as a `dashboard.api.answers.proposals.PlanDifference`; None until there is a
    plan."""
    plan = plan_of(proposal.plan)
    if plan is None:
        return None
    touched = list(DataflowRecord.objects.filter(
        visible_to(viewer), pk__in=plan.touched).select_related("team").order_by("name", "pk"))
    names = names_in(plan)
    tasks, streams = _own_graph(proposal, plan)
    neighbours = _neighbours(touched, set(names))
    _add_neighbours(tasks, streams, neighbours)
    refined = _add_refinements(tasks, streams, plan)
    _add_users(tasks, touched)
    _add_places(tasks, plan)
    _add_alternates(tasks, plan)
    finished = set(proposal.progress.get("done", ())) if proposal.rollback_plan_id is None else set()
    return {
        "kind": plan.kind, "generation": proposal.plan.generation, "digest": plan.digest,
        "tasks": list(tasks.values()), "streams": list(streams.values()),
        "steps": [
            {"key": step.key, "kind": step.kind, "text": step_text(plan, step, names), "done": step.key in finished}
            for step in plan.steps
        ],
        "touched": [_user(record) for record in touched],
        "touched_more": max(0, plan.touched_count - len(plan.touched)),
        "refined": refined,
        "price": asdict(plan.price) if plan.price else None,
        "counts": counts_of(plan),
        "why": plan.why,
        "notes": list(plan.notes),
        "bundles": bundles_of(plan, names),
        "promise": json.loads(to_json(plan.promise)) if plan.promise else None,
        "joining": joining_of(plan, proposal.plan.options),
        "bill_changes": _bill_changes(plan),
        "version": version_change(proposal, plan),
    }


def counts_of(plan: Plan) -> dict[str, int]:
    """The number of tasks that a plan starts, leaves, stops, resumes and lays to rest."""
    return {"started": len(plan.started), "reused": len({*plan.reused} - {*plan.rested} - {*plan.resumed}),
            "stopped": len(plan.stopped), "resumed": len(plan.resumed), "rested": len(plan.rested)}


def _bill_changes(plan: Plan) -> list[dict[str, Any]]:
    names = dict(Team.objects.filter(slug__in=[change.team for change in plan.bill_changes]).values_list(
        "slug", "name")) if plan.bill_changes else {}
    return [
        {"team": names.get(change.team, change.team), "money_per_hour_delta": change.money_per_hour_delta,
         "is_own": change.team == plan.dataflow.team}
        for change in plan.bill_changes]


def _own_graph(proposal: Proposal, plan: Plan) -> tuple[dict[str, dict], dict[tuple[str, str], dict]]:
    graph, running = graph_of(proposal.dataflow, number=proposal.plan.version), plan.dataflow.running
    status = _status(plan)
    tasks = {
        running[task["id"]]: {
            "id": running[task["id"]], "name": task["id"], "type": task["type"], "kind": task["kind"],
            "config": task["config"], "status": status[running[task["id"]]], "used_by": [],
            "fragment": None, "slot": None}
        for task in graph["tasks"] if task["id"] in running
    }
    streams = {}
    for stream in graph["streams"]:
        ends = running[stream["source"]], running[stream["target"]]
        # A stream begins and ends with the task that reads it.
        streams[ends] = {"source": ends[0], "target": ends[1], "status": status[ends[1]]}
    if plan.replaced is not None:
        add_former(tasks, streams, proposal, plan)
    return tasks, streams


def _status(plan: Plan) -> dict[str, str]:
    """The plan's effect on each task of its dataflow, by running task id."""
    status = dict.fromkeys(plan.reused, "reused")
    if plan.replaced is not None:  # what only the former version has goes on for others, or stops
        status = dict.fromkeys(plan.replaced.running.values(), "neighbour") | status
    status |= {task.id: "started" for task in plan.started} | {task.id: "stopped" for task in plan.stopped}
    return status | dict.fromkeys(plan.resumed, "started") | dict.fromkeys(plan.rested, "stopped")


def _neighbours(touched: list[DataflowRecord], task_ids: set[str]) -> list[tuple[RunningTaskRow, str]]:
    """Other running tasks of the touched dataflows, each as the first of these calls it."""
    names: dict[str, str] = {}
    uses = Use.objects.filter(dataflow__in=touched)
    ordered = uses.order_by("dataflow__name", "dataflow_id", "task_id")
    for running, task in ordered.values_list("running_task_id", "task_id"):
        names.setdefault(running, task)
    rows = RunningTaskRow.objects.filter(pk__in=uses.values("running_task_id")).exclude(pk__in=task_ids).order_by("pk")
    return [(row, names[row.pk]) for row in rows]


def _add_neighbours(tasks: dict, streams: dict, neighbours: list[tuple[RunningTaskRow, str]]) -> None:
    for row, name in neighbours:
        tasks[row.pk] = {
            "id": row.pk, "name": name, "type": row.type, "kind": "", "config": row.config, "status": "neighbour",
            "used_by": [], "fragment": None, "slot": None}
    for row, _ in neighbours:
        for parent in row.parents:
            streams[parent, row.pk] = {"source": parent, "target": row.pk, "status": "neighbour"}


def _add_refinements(tasks: dict, streams: dict, plan: Plan) -> list[dict[str, Any]]:
    """Show the wider tasks that the plan's dataflow has besides those of its document, and who reads them.

    Returns, of those that the plan brings, ``task`` (submitted id), ``wider`` (the running task's entry), whether that
    is ``stateful``, and the alternates of the task that pass on what it makes, because they are equal to it.
    """
    brought = {plan.dataflow.running[refined.task]: refined for refined in plan.refined}
    names = {running: task for task, running in plan.dataflow.running.items()}
    rows = RunningTaskRow.objects.in_bulk(list(names))
    readers = {
        running: refined.running for running, refined in brought.items() if running in tasks and refined.running in rows
    }
    readers |= {  # of a dataflow that runs: what its tasks read, and the document does not know
        running: parent for running in list(tasks) if running in rows
        for parent in rows[running].parents if parent in names and parent not in tasks}
    if not readers:
        return []
    status, types = _status(plan), jobs.task_types()
    for running, wider_id in readers.items():
        row = rows[wider_id]
        tasks.setdefault(wider_id, {
            "id": wider_id, "name": names[wider_id], "type": row.type, "kind": "", "config": row.config,
            "status": status.get(wider_id, "neighbour"), "used_by": [], "fragment": None, "slot": None})
        for parent in row.parents:
            streams.pop((parent, running), None)
            streams.setdefault((parent, wider_id), {
                "source": parent, "target": wider_id, "status": tasks[wider_id]["status"]})
        streams[wider_id, running] = {
            "source": wider_id, "target": running, "status": tasks[running]["status"]}
    made = {task.id: task for task in plan.started} | rows
    return [
        {"task": refined.task, "wider": tasks[refined.running],
         "stateful": tasks[refined.running]["type"] in types and types[tasks[refined.running]["type"]].stateful,
         "equal_alternates": [
             way.name for way in alternates_in(made[running].type, made[running].config) if way.type == PASSES]}
        for running, refined in brought.items() if running in readers]


def _add_users(tasks: dict, touched: list[DataflowRecord]) -> None:
    records = {record.pk: _user(record) for record in touched}
    for use in Use.objects.filter(dataflow__in=touched, running_task_id__in=list(tasks)).order_by("dataflow__name"):
        tasks[use.running_task_id]["used_by"].append(records[use.dataflow_id])


def _add_places(tasks: dict, plan: Plan) -> None:
    for fragments in (plan.fragments_before, plan.fragments_after):
        for fragment in fragments.values():
            for task in fragment.tasks:
                if task in tasks:
                    tasks[task]["fragment"], tasks[task]["slot"] = fragment.id, fragment.slot


def _add_alternates(tasks: dict, plan: Plan) -> None:
    """Add the alternate of each dynamic task once the plan is in force; empty of others."""
    for entry in tasks.values():
        entry["on"] = ""
    dynamic = [entry for entry in tasks.values() if is_dynamic(entry["type"])]
    if not dynamic:
        return
    settings = settings_of({entry["fragment"] for entry in dynamic if entry.get("fragment")}) | dict(
        plan.settings_after)
    for entry in dynamic:
        fragment_settings = settings.get(entry.get("fragment") or "", USUAL)
        entry["on"] = on_in(entry["type"], entry["config"], fragment_settings.alternates.get(entry["id"]))


def _user(record: DataflowRecord) -> dict[str, str]:
    return {"id": str(record.pk), "name": record.name, "team": record.team.name}
