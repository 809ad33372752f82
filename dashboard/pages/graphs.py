"""A dataflow, or what a plan changes, as the JSON that ``static/js/graph.js`` draws. Pure: values in, values out.

A task has ``id``, ``label``, ``type``, ``kind``, ``config``, ``users`` (dataflows that it also runs for), ``note`` (the
same, short enough for its box) and ``marks`` (how it is drawn); a stream ``id``, ``source``, ``target``, ``marks``.
``topology`` names the shape: a browser keeps the layout of a shape that it knows. ``labelled`` streams show figures.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from scheduler.model.task_types import TaskTypes

NAMED_IN_NOTE = 1
_MARKS = {"started": ["starts"], "stopped": ["stops"], "reused": ["shared"], "neighbour": ["other"]}


def dataflow_graph(
    graph: Mapping[str, Sequence[Mapping[str, Any]]], *, shared_with: Mapping[str, Sequence[Mapping[str, str]]]
) -> dict[str, Any]:
    """A submitted dataflow, its shared tasks marked with those that they are shared with.

    Parameters
    ----------
    graph : mapping
        ``tasks`` and ``streams`` as ``catalog.selectors.graph_of`` gives them.
    shared_with : mapping
        By task id: the other dataflows (``id``, ``name``, ``team``) that its running task serves.
    """
    tasks = []
    for task in graph["tasks"]:
        users = list(shared_with.get(task["id"], ()))
        tasks.append({
            "id": task["id"], "label": task["id"], "type": task["type"], "kind": task["kind"],
            "config": task["config"], "users": users, "note": _note(users), "marks": ["shared"] if users else [],
        })
    streams = [
        {"id": stream_id(stream["source"], stream["target"]), **stream, "marks": []} for stream in graph["streams"]
    ]
    return _whole(tasks, streams, labelled=True)


def difference_graph(difference: Mapping[str, Any], *, task_types: TaskTypes) -> dict[str, Any]:
    """What a plan changes, from ``approvals.difference``; every task and stream is told to be ``before``, ``after``
    or both."""
    tasks = []
    for task in difference["tasks"]:
        declared = task_types.get(task["type"])
        tasks.append({
            "id": task["id"], "label": task["name"], "type": task["type"], "kind": declared.kind if declared else "",
            "config": task["config"], "users": task["used_by"], "note": _note(task["used_by"]),
            "status": task["status"], "fragment": task["fragment"], "slot": task["slot"],
            "marks": list(_MARKS[task["status"]]), **_when(task["status"]),
        })
    streams = [
        {"id": stream_id(stream["source"], stream["target"]), "source": stream["source"], "target": stream["target"],
         "marks": [mark for mark in _MARKS[stream["status"]] if mark in {"starts", "stops"}],
         **_when(stream["status"])}
        for stream in difference["streams"]
    ]
    return _whole(tasks, streams, labelled=False)


def stream_id(source: str, target: str) -> str:
    """The id of a stream in a graph's JSON and in live documents."""
    return f"{source}>{target}"


def _when(status: str) -> dict[str, bool]:
    return {"before": status != "started", "after": status != "stopped"}


def _note(users: Sequence[Mapping[str, str]]) -> str:
    if not users:
        return ""
    named = ", ".join(user["name"] for user in users[:NAMED_IN_NOTE])
    more = len(users) - NAMED_IN_NOTE
    return f"+{more} with {named}" if more > 0 else f"with {named}"


def _whole(tasks: list[dict[str, Any]], streams: list[dict[str, Any]], *, labelled: bool) -> dict[str, Any]:
    shape = [[[task["id"], bool(task["note"])] for task in tasks], [[s["source"], s["target"]] for s in streams]]
    topology = hashlib.sha256(json.dumps(shape).encode()).hexdigest()[:24]
    return {"topology": topology, "labelled": labelled, "tasks": tasks, "streams": streams}
