"""Edits of a dataflow's graph, made on the value of its document: tasks and streams come, go and change names.

Each gives the value meant; ``text_changes`` says how the text comes to say it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Document = Mapping[str, Any]  # with ``tasks`` and ``streams`` as a document has them


def configure_task(document: Document, task_id: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Set parameters of a task; a value of None removes the parameter, so that its default holds."""
    def configured(task: Mapping[str, Any]) -> dict[str, Any]:
        config = {**(task.get("config") or {}), **values}
        config = {name: value for name, value in config.items() if value is not None}
        rest = {key: value for key, value in task.items() if key != "config" or config}
        return rest | ({"config": config} if config else {})

    return {**document, "tasks": [
        configured(task) if task["id"] == task_id else task for task in document["tasks"]]}


def add_task(document: Document, task: Mapping[str, Any], *, source: str, target: str | None = None) -> dict[str, Any]:
    """Add a task after ``source``; with ``target``, on the stream between the two, which then leads through it."""
    tasks = [*document["tasks"], dict(task)]
    after = {"from": source, "to": task["id"]}
    if target is None:
        return {**document, "tasks": tasks, "streams": [*document["streams"], after]}
    streams: list[Any] = []
    for stream in document["streams"]:
        if (stream["from"], stream["to"]) == (source, target):
            streams += [{**stream, "to": task["id"]}, {"from": task["id"], "to": target}]
        else:
            streams.append(stream)
    return {**document, "tasks": tasks, "streams": streams}


def remove_task(document: Document, task_id: str) -> dict[str, Any]:
    """Remove a task with its streams, and its rate where it is a source."""
    without = _with_rates(document, lambda name: None if name == task_id else name)
    return {
        **without, "tasks": [task for task in document["tasks"] if task["id"] != task_id],
        "streams": [stream for stream in document["streams"] if task_id not in (stream["from"], stream["to"])]}


def join_stream(document: Document, source: str, target: str) -> dict[str, Any]:
    """Let a task read what another gives, too."""
    return {**document, "streams": [*document["streams"], {"from": source, "to": target}]}


def remove_stream(document: Document, source: str, target: str) -> dict[str, Any]:
    """Remove the stream between two tasks."""
    return {**document, "streams": [
        stream for stream in document["streams"] if (stream["from"], stream["to"]) != (source, target)]}


def rename_task(document: Document, task_id: str, new_id: str) -> dict[str, Any]:
    """Give a task another id, in its streams and rates as well; limits under ``latency`` keep what they name."""
    def named(name: str) -> str:
        return new_id if name == task_id else name

    return {
        **_with_rates(document, named), "tasks": [{**task, "id": named(task["id"])} for task in document["tasks"]],
        "streams": [
            {**stream, "from": named(stream["from"]), "to": named(stream["to"])} for stream in document["streams"]]}


def _with_rates(document: Document, named: Callable[[str], str | None]) -> dict[str, Any]:
    rest = {key: value for key, value in document.items() if key != "rates"}
    rates = {
        new: rate for name, rate in (document.get("rates") or {}).items() if (new := named(name)) is not None}
    return rest | ({"rates": rates} if rates else {})
