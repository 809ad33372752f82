"""A dataflow, or what a plan changes, as the JSON that ``static/js/graph.js`` draws. Pure: values in, values out.

A task has ``id``, ``label``, ``type``, ``kind``, ``config``, ``users`` (dataflows that it also runs for), ``note`` (the
same, short enough for its box) and ``marks`` (how it is drawn), and where it has a page of its own ``page`` (the
running task's id); a stream ``id``, ``source``, ``target``, ``marks``.
A dynamic task has its ``ways``: alternates by ``name``, what each ``does``, its ``guard``, and which is ``on`` as
far as that is known; a browser draws them inside the task once somebody opens it.
``labelled`` streams show figures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from scheduler.model.alternates import alternates_in, is_dynamic, on_in
from scheduler.model.task_types import TaskTypes

if TYPE_CHECKING:
    from dashboard.explorer.preview import SubmissionPreview

NAMED_IN_NOTE = 1
LARGE = 300  # tasks
_MARKS = {"started": ["starts"], "stopped": ["stops"], "reused": ["shared"], "neighbour": ["other"]}


def dataflow_graph(
    graph: Mapping[str, Sequence[Mapping[str, Any]]], *, shared_with: Mapping[str, Sequence[Mapping[str, str]]],
    on: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any]:
    """A submitted dataflow, its shared tasks marked with those that they are shared with. Configs stay with the tasks'
    panels: a page brings this graph along, and of many tasks they are much.

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
            "unchained": task.get("chain") == "never", "on": on.get(task["id"], ""),
        })
    streams = [
        {"id": stream_id(stream["source"], stream["target"]), **stream, "marks": []} for stream in graph["streams"]
    ]
    whole = _whole(tasks, streams, labelled=True)
    return whole | {"tasks": [{**task, "config": {}} for task in whole["tasks"]]}


def difference_graph(difference: Mapping[str, Any], *, task_types: TaskTypes) -> dict[str, Any]:
    """The graph of a plan's changes, from ``approvals.difference``; each task and stream is marked ``before``,
    ``after`` or both. Tasks have numbers for ids, for fingerprints compress badly and no page shows them."""
    numbers = {task["id"]: str(number) for number, task in enumerate(difference["tasks"])}
    tasks = []
    for task in difference["tasks"]:
        declared = task_types.get(task["type"])
        tasks.append({
            "id": numbers[task["id"]], "label": task["name"], "type": task["type"],
            "kind": declared.kind if declared else "", "config": task["config"], "users": task["used_by"],
            "note": _note(task["used_by"]), "status": task["status"], "slot": task["slot"] or "",
            "marks": list(_MARKS[task["status"]]), "on": task.get("on", ""), **_when(task["status"]),
        })
    streams = []
    for stream in difference["streams"]:
        source, target = numbers[stream["source"]], numbers[stream["target"]]
        streams.append({
            "id": stream_id(source, target), "source": source, "target": target,
            "marks": [mark for mark in _MARKS[stream["status"]] if mark in {"starts", "stops"}],
            **_when(stream["status"])})
    return _whole(tasks, streams, labelled=False)


def pair_graph(pair: Mapping[str, Any], *, task_types: TaskTypes) -> dict[str, Any]:
    """Two running dataflows in one graph, from ``explorer.overlap``: every part is told to be of the ``one``, of the
    ``other``, and ``common`` where it is of both."""
    sides = {task["id"]: _sides(task) for task in pair["tasks"]}
    tasks = [
        {
            "id": task["id"], "label": " / ".join(dict.fromkeys(filter(None, (task["one"], task["other"])))),
            "type": task["type"], "kind": _kind(task["type"], task_types), "config": task["config"], "users": [],
            "note": "", "page": task.get("page", task["id"]), "marks": [_side_mark(sides[task["id"]])],
            **sides[task["id"]],
        }
        for task in pair["tasks"]
    ]
    streams = []
    for task in pair["tasks"]:
        for parent in task["parents"]:
            ends = sides[parent], sides[task["id"]]
            of = {name: ends[0][name] and ends[1][name] for name in ends[0]}
            streams.append({
                "id": stream_id(parent, task["id"]), "source": parent, "target": task["id"],
                "marks": [_side_mark(of)], **of})
    return _whole(tasks, streams, labelled=False)


def merged_graph(sheet: Mapping[str, Any], *, task_types: TaskTypes) -> dict[str, Any]:
    """A sheet of the estate, from ``explorer.merged``; a branch that is left out is a box that says how much it is.

    Besides tasks and streams: ``dataflows`` (a task's ``of`` are positions there), ``lit``, how much there is, and
    whether it is ``large``: laid out in one pass.
    """
    tasks = [
        {
            "id": task["id"], "label": task["name"], "type": task["type"], "kind": _kind(task["type"], task_types),
            "config": task["config"], "users": [], "of": task["of"], "page": task["id"],
            "note": _dataflows(task["users"]) if task["users"] > 1 else "",
            "marks": ["shared"] if task["users"] > 1 else [],
        }
        for task in sheet["tasks"]
    ]
    streams = _streams(sheet["tasks"])
    for number, branch in enumerate(sheet["branches"]):
        box = f"branch-{number}"
        label = f"+ {branch['tasks']} task" + ("s" if branch["tasks"] != 1 else "")
        tasks.append({"id": box, "label": label, "type": label, "kind": "", "config": {}, "users": [], "of": [],
                      "note": "", "marks": ["branch"]})
        streams += [{"id": stream_id(parent, box), "source": parent, "target": box, "marks": ["branch"]}
                    for parent in branch["parents"]]
    shown = ("dataflows", "dataflows_left_out", "lit", "number", "sheets", "running_dataflows", "tasks_running")
    return _whole(tasks, streams, labelled=False) | {name: sheet[name] for name in shown} | {
        "large": len(tasks) > LARGE}


def preview_graph(preview: SubmissionPreview, *, task_types: TaskTypes) -> dict[str, Any]:
    """A document's graph before it is submitted, from ``explorer.preview``: what runs already, and what would start."""
    dataflow, reused = preview.dataflow, set(preview.reused_ids)
    tasks = []
    for task in dataflow.tasks:
        users, count = preview.users.get(task.id, []), preview.counts.get(task.id, 0)
        tasks.append({
            "id": task.id, "label": task.id, "type": task.type, "kind": _kind(task.type, task_types),
            "config": dict(task.config), "users": users, "note": _note(users, count=count),
            "marks": ["shared"] if task.id in reused else ["starts"],
            "on": on_in(task.type, task.config, None) if is_dynamic(task.type) and task.id not in reused else "",
        })
    streams = [
        {"id": stream_id(stream.source, stream.target), "source": stream.source, "target": stream.target,
         "marks": [] if stream.target in reused else ["starts"]} for stream in dataflow.streams]
    return _whole(tasks, streams, labelled=False)


def written_graph(document: Mapping[str, Any], *, task_types: TaskTypes) -> dict[str, Any]:
    """The graph of a document as its text has it, valid or not; streams that go round, or to no task, are left out.

    Parameters
    ----------
    document : mapping
        ``tasks`` with ids and ``streams`` with ends, as ``scheduler.model.graph_edits.editable`` gives them.
    """
    tasks = []
    for task in document["tasks"]:
        type_name = str(task.get("type") or ("loop" if "loop" in task else "alternates"))
        tasks.append({
            "id": task["id"], "label": task["id"], "type": type_name, "kind": _kind(type_name, task_types),
            "config": task.get("config") or {}, "users": [], "note": "", "marks": ["starts"]})
    task_ids = {task["id"] for task in tasks}
    ends = [(stream["from"], stream["to"]) for stream in document["streams"]]
    ends = [pair for pair in ends if task_ids.issuperset(pair)]
    readers: dict[str, list[str]] = {}
    for source, target in ends:
        readers.setdefault(source, []).append(target)
    waits = Counter(target for _, target in ends)  # by task, for how many of its streams
    ordered = [task["id"] for task in tasks if not waits[task["id"]]]
    for task_id in ordered:
        for reader in readers.get(task_id, ()):
            waits[reader] -= 1
            if not waits[reader]:
                ordered.append(reader)
    streams = [
        {"id": stream_id(source, target), "source": source, "target": target, "marks": ["starts"]}
        for source, target in ends if not waits[target]]
    return _whole(tasks, streams, labelled=False)


def task_graph(around: Mapping[str, Any], *, task_types: TaskTypes) -> dict[str, Any]:
    """A running task and what is up- and downstream of it, from ``explorer.task``."""
    tasks = [
        {
            "id": task["id"], "label": task["name"], "type": task["type"], "kind": _kind(task["type"], task_types),
            "config": task["config"], "users": [], "page": "" if task["side"] == "here" else task["id"],
            "note": _dataflows(task["users"]) if task["users"] > 1 else "",
            "marks": {"here": ["common"], "down": ["behind"], "up": []}[task["side"]],
        }
        for task in around["tasks"]
    ]
    return _whole(tasks, _streams(around["tasks"]), labelled=False)


def _streams(tasks: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Streams into running tasks from their parents, where both are drawn."""
    drawn = {task["id"] for task in tasks}
    return [
        {"id": stream_id(parent, task["id"]), "source": parent, "target": task["id"], "marks": []}
        for task in tasks for parent in task["parents"] if parent in drawn
    ]


def _dataflows(count: int) -> str:
    return f"{count} dataflow" + ("s" if count != 1 else "")


def _sides(task: Mapping[str, Any]) -> dict[str, bool]:
    in_first, in_second = bool(task["one"]), bool(task["other"])
    return {"one": in_first, "other": in_second, "common": in_first and in_second}


def _side_mark(sides: Mapping[str, bool]) -> str:
    return "common" if sides["common"] else "one" if sides["one"] else "two"


def _kind(type_name: str, task_types: TaskTypes) -> str:
    declared = task_types.get(type_name)
    return declared.kind if declared else ""


def stream_id(source: str, target: str) -> str:
    """The id of a stream in a graph's JSON and in live documents."""
    return f"{source}>{target}"


def brought_along(graph: Mapping[str, Any]) -> dict[str, Any]:
    """A graph as it is embedded in a page, without fields that are empty or follow from others;
    ``static/js/graph_page.js`` fills them in."""
    return {
        **graph, "tasks": [_without(task, label=task["id"]) for task in graph["tasks"]],
        "streams": [
            _without(stream, id=stream_id(stream["source"], stream["target"])) for stream in graph["streams"]]}


def _without(part: Mapping[str, Any], **usual: str) -> dict[str, Any]:
    usual |= {"before": True, "after": True, "unchained": False}
    return {name: value for name, value in part.items()
            if value not in ("", [], {}) and not (name in usual and value == usual[name])}


def _when(status: str) -> dict[str, bool]:
    return {"before": status != "started", "after": status != "stopped"}


def _note(users: Sequence[Mapping[str, str]], *, count: int | None = None) -> str:
    if not users:
        return ""
    named = ", ".join(user["name"] for user in users[:NAMED_IN_NOTE])
    more = (len(users) if count is None else count) - NAMED_IN_NOTE
    return f"+{more} with {named}" if more > 0 else f"with {named}"


def _ways(task: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The alternates of a dynamic task."""
    return [
        {"name": way.name, "on": way.name == task.get("on"), "guard": way.guard, "does": way.summary}
        for way in alternates_in(task["type"], task["config"])]


def _whole(tasks: list[dict[str, Any]], streams: list[dict[str, Any]], *, labelled: bool) -> dict[str, Any]:
    tasks = [
        {**task, "ways": _ways(task), "marks": [*task["marks"], "dynamic"]} if is_dynamic(task["type"]) else task
        for task in tasks]
    return {"labelled": labelled, "tasks": tasks, "streams": streams}
