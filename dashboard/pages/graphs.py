"""A dataflow, or what a plan changes, as the JSON that ``static/js/graph.js`` draws. Pure: values in, values out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from scheduler.model.estate import Estate, RunningTask
from scheduler.model.plan import Plan

Users = Mapping[str, Sequence[Mapping[str, str]]]  # running task id -> dataflows that it runs for: id, name, team
NAMED_IN_NOTE = 1
CONTEXT_LIMIT = 400  # tasks of other dataflows that are drawn around a plan


def dataflow_graph(
    graph: Mapping[str, Sequence[Mapping[str, Any]]], *, running: Mapping[str, str], users: Users, own: str
) -> dict[str, Any]:
    """A submitted dataflow, its shared tasks marked with those they are shared with.

    Parameters
    ----------
    graph : mapping
        ``tasks`` and ``streams`` as ``catalog.selectors.graph_of`` gives them.
    running : mapping
        Running task ids by task id; empty for a dataflow that does not run.
    users : mapping
        For each running task, the dataflows that the viewer may know of.
    own : str
        Id of this dataflow: it does not share with itself.
    """
    tasks = []
    for task in graph["tasks"]:
        others = [user for user in users.get(running.get(task["id"], ""), ()) if user["id"] != own]
        tasks.append({
            "id": task["id"], "label": task["id"], "type": task["type"], "kind": task["kind"],
            "config": task["config"], "running": running.get(task["id"]), "users": others,
            "note": _with(others), "marks": ["shared"] if others else [],
        })
    streams = [
        {"id": stream_id(stream["source"], stream["target"]), **stream, "marks": []} for stream in graph["streams"]
    ]
    return _whole(tasks, streams)


def plan_graph(plan: Plan, estate: Estate, *, kinds: Mapping[str, str], users: Users, scopes: Collection[str]) -> dict:
    """What a plan changes: its dataflow's tasks and those joined to them, each told to be there before, after or both.

    ``kinds`` gives a task type's kind; ``scopes`` are the private scopes that the viewer may see, besides the shared.
    """
    started, stopped = ({task.id for task in found} for found in (plan.started, plan.stopped))
    own = {running: task_id for task_id, running in plan.dataflow.running.items()}
    known = {**estate.tasks, **{task.id: task for task in (*plan.started, *plan.stopped)}}
    visible = {key: task for key, task in known.items() if not task.scope or task.scope in scopes}
    drawn = [key for key in own if key in visible]
    drawn += _joined(visible, drawn, without=own)
    changed = {step.task for step in plan.steps if step.kind in {"open_outlet", "close_outlet"}}
    tasks = []
    for key in drawn:
        task = visible[key]
        others = [user for user in users.get(key, ()) if user["id"] != plan.dataflow.id]
        tasks.append({
            "id": key, "label": own.get(key) or _label(task, key, estate), "type": task.type,
            "kind": kinds.get(task.type, ""), "config": dict(task.config), "users": others, "note": _with(others),
            "before": key not in started, "after": key not in stopped,
            "marks": _marks(key, own=own, started=started, stopped=stopped, changed=changed),
        })
    streams = _plan_streams(visible, drawn, started=started, stopped=stopped)
    return _whole(tasks, streams)


def stream_id(source: str, target: str) -> str:
    """The id of a stream in the graph's JSON and in live figures."""
    return f"{source}>{target}"


def _with(others: Sequence[Mapping[str, str]]) -> str:
    if not others:
        return ""
    named = ", ".join(other["name"] for other in others[:NAMED_IN_NOTE])
    more = len(others) - NAMED_IN_NOTE
    return f"with {named} +{more}" if more > 0 else f"with {named}"


def _marks(
    key: str, *, own: Collection[str], started: Collection[str], stopped: Collection[str], changed: Collection[str]
) -> list[str]:
    if key in started:
        return ["starts"]
    if key in stopped:
        return ["stops"]
    marks = ["shared"] if key in own else ["other"]
    return [*marks, "touched"] if key in changed else marks


def _joined(tasks: Mapping[str, RunningTask], seeds: Iterable[str], *, without: Collection[str]) -> list[str]:
    """Tasks that streams join to the seeds, nearest first, at most ``CONTEXT_LIMIT`` of them."""
    neighbours: dict[str, set[str]] = {key: set() for key in tasks}
    for key, task in tasks.items():
        for parent in task.parents:
            if parent in neighbours:
                neighbours[key].add(parent)
                neighbours[parent].add(key)
    found, queue = [], list(seeds)
    seen = set(queue)
    for key in queue:
        for neighbour in sorted(neighbours[key] - seen):
            seen.add(neighbour)
            queue.append(neighbour)
            if neighbour not in without:
                found.append(neighbour)
        if len(found) >= CONTEXT_LIMIT:
            break
    return found[:CONTEXT_LIMIT]


def _label(task: RunningTask, key: str, estate: Estate) -> str:
    """What another dataflow calls its task; its type where that is not told."""
    for submitted in estate.submitted.values():
        for task_id, running in submitted.running.items():
            if running == key:
                return task_id
    return task.type


def _plan_streams(
    tasks: Mapping[str, RunningTask], drawn: Sequence[str], *, started: Collection[str], stopped: Collection[str]
) -> list[dict[str, Any]]:
    shown = set(drawn)
    streams = []
    for key in drawn:
        for parent in tasks[key].parents:
            if parent in shown:
                marks = ["starts"] if key in started else ["stops"] if key in stopped else []
                streams.append({
                    "id": stream_id(parent, key), "source": parent, "target": key, "marks": marks,
                    "before": key not in started, "after": key not in stopped,
                })
    return streams


def _whole(tasks: list[dict[str, Any]], streams: list[dict[str, Any]]) -> dict[str, Any]:
    """With the name of the graph's shape, by which a browser keeps its layout."""
    shape = [[[task["id"], bool(task["note"])] for task in tasks], [[s["source"], s["target"]] for s in streams]]
    topology = hashlib.sha256(json.dumps(shape).encode()).hexdigest()[:24]
    return {"topology": topology, "tasks": tasks, "streams": streams}
