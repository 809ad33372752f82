"""Edits of a dataflow's graph, made on the value of its document: tasks and streams come, go and change names.

Each gives the value meant; ``text_changes`` says how the text comes to say it. A value that ``editable`` lets
pass has tasks and streams that can be told apart; it need not be a valid document, for one is built step by step.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import pairwise
from types import MappingProxyType
from typing import Any

from .alternates import ALTERNATES
from .canonical import RATE_KEY
from .draft import LOOP
from .errors import WeirError
from .latency_limits import path_along, stream_ends, stream_text
from .latency_reading import gap_in
from .paths import INPUT, OUTPUT
from .positions import shown
from .schema import dataflow_schema

Document = Mapping[str, Any]
NEW_NAME = "New dataflow"
_ID = re.compile(dataflow_schema()["$defs"]["id"]["pattern"].strip("^$"))
_IN_TEXT = "Change it in the text."


class GraphNotEditable(WeirError):
    """A document, or a task of it, cannot be edited from its graph."""

    code = "graph_not_editable"


def editable(value: Any) -> dict[str, Any]:
    """The value of a document whose graph can be edited, with the keys ``name``, ``tasks`` and ``streams``."""
    if value is None:
        return {"name": NEW_NAME, "tasks": [], "streams": []}
    if not isinstance(value, Mapping):
        raise GraphNotEditable("The text is no mapping of name, tasks and streams.", remedy="Correct the text first.")
    if not {"spouts", "bolts", "topologySource", "includes"}.isdisjoint(value):
        raise GraphNotEditable(
            "This is a Storm Flux topology, which has no tasks of its own.",
            remedy="Change its spouts, bolts and streams in the text.")
    tasks, streams = ([] if value.get(key) is None else value[key] for key in ("tasks", "streams"))
    for key, listed, named in (("tasks", tasks, ("id",)), ("streams", streams, ("from", "to"))):
        if not isinstance(listed, list) or not all(
            isinstance(part, Mapping) and all(isinstance(part.get(name), str) for name in named) for part in listed
        ):
            raise GraphNotEditable(
                f"The document's {key} are not a list in which each has {' and '.join(named)}.",
                remedy="Correct the text first: the list of problems names the lines.")
        twice = [names for names, count in Counter(tuple(part[name] for name in named) for part in listed).items()
                 if count > 1]
        if twice:
            ends = twice[0]
            differ = any(not {INPUT, OUTPUT, "split"}.isdisjoint(part) for part in listed
                         if tuple(part[name] for name in named) == ends)
            raise GraphNotEditable(
                f"There are two {key} {shown(' → '.join(ends))}.",
                remedy="The graph cannot tell them apart: change the text." if differ
                else "Take one out of the text first.")
    return {**value, "tasks": tasks, "streams": streams}


def written_task(document: Document, task_id: str) -> Mapping[str, Any]:
    """A task as the document writes it.

    Raises
    ------
    GraphNotEditable
        It does not write it: Weir makes it of a loop, a split or a port, or it is gone.
    """
    written = next((task for task in document["tasks"] if task["id"] == task_id), None)
    if written is None:
        of = next((task["id"] for task in document["tasks"] if task_id.startswith(f"{task['id']}.")), None)
        if of is None:
            raise GraphNotEditable(f"The document has no task {shown(task_id)}.", remedy="Choose one of the graph.")
        raise GraphNotEditable(
            f"The text has no task {shown(task_id)}: Weir makes it of a loop, a split or a port at {of}.",
            remedy=_IN_TEXT)
    return written


def require_config(task: Mapping[str, Any]) -> Mapping[str, Any]:
    """The config of a task that has one type."""
    for key in (ALTERNATES, LOOP):
        if key in task:
            words = {ALTERNATES: "is done in several ways, each with a config of its own",
                     LOOP: "is a loop, whose tasks have configs"}[key]
            raise GraphNotEditable(f"Task {task['id']} {words}.", remedy=_IN_TEXT)
    config = task.get("config")
    if config is not None and not isinstance(config, Mapping):
        raise GraphNotEditable(f"The config of task {task['id']} is no mapping.", remedy=_IN_TEXT)
    return config or {}


def stated_rate(document: Document, task: Mapping[str, Any]) -> Any:
    """The rate that the document gives for a source, in events per second; None without one."""
    return _rates(document).get(task["id"], task.get("rate"))


def configure_task(document: Document, task_id: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Set parameters of a task, and its rate as ``rate_per_s``; None removes a parameter, so that its default holds."""
    stays = {name: value for name, value in values.items() if name != RATE_KEY}

    def configured(task: Mapping[str, Any]) -> dict[str, Any]:
        if not stays:
            return dict(task)
        config = {**(task.get("config") or {}), **stays}
        config = {name: value for name, value in config.items() if value is not None}
        without_config = {key: value for key, value in task.items() if key != "config" or config}
        return without_config | ({"config": config} if config else {})

    changed = _with_task(document, task_id, configured)
    return _with_rate(changed, task_id, values[RATE_KEY]) if RATE_KEY in values else changed


def add_task(
    document: Document, task: Mapping[str, Any], *, source: str | None = None, target: str | None = None
) -> dict[str, Any]:
    """Add a task: after ``source``, and with ``target`` on the stream between the two, which then leads through it.

    Latency limits along that stream go on through it, too.
    """
    tasks = [*document["tasks"], dict(task)]
    if source is None:
        return {**document, "tasks": tasks}
    if target is None:
        return {**document, "tasks": tasks, "streams": [*document["streams"], {"from": source, "to": task["id"]}]}
    streams: list[Any] = []
    for stream in document["streams"]:
        if (stream["from"], stream["to"]) == (source, target):
            streams += [_led(stream, task["id"]), _led({"from": task["id"]}, target, stream)]
        else:
            streams.append(stream)
    return _with_limits({**document, "tasks": tasks, "streams": streams}, lambda along: [
        name for before, after in pairwise(["", *along])
        for name in _through(before, after, (source, target), task["id"])])


def remove_task(document: Document, task_id: str) -> dict[str, Any]:
    """Remove a task, its rate and its streams. If it had a single writer or a single reader, its
    writers are joined to its readers. Latency limits that make sense without it stay; others go."""
    parents, children = (
        [stream for stream in document["streams"] if stream[end] == task_id] for end in ("to", "from"))
    remaining_streams = [stream for stream in document["streams"] if task_id not in (stream["from"], stream["to"])]
    joined = {(stream["from"], stream["to"]) for stream in remaining_streams}
    if min(len(parents), len(children)) == 1:
        remaining_streams = []
        for stream in document["streams"]:
            if stream["to"] == task_id:
                remaining_streams += [
                    _led(stream, child["to"], child) for child in children
                    if child["to"] != stream["from"] and (stream["from"], child["to"]) not in joined]
            elif stream["from"] != task_id:
                remaining_streams.append(stream)
    without = _with_rates(document, lambda name: None if name == task_id else name)
    tasks = [task for task in document["tasks"] if task["id"] != task_id]
    return _without_broken(document, {**without, "tasks": tasks, "streams": remaining_streams}, lambda along: [
        name for name in along if name != task_id])


def join_stream(document: Document, source: str, target: str) -> dict[str, Any]:
    """Let a task read what another gives, too."""
    return {**document, "streams": [*document["streams"], {"from": source, "to": target}]}


def remove_stream(document: Document, source: str, target: str) -> dict[str, Any]:
    """Remove the stream between two tasks, and the latency limits along it."""
    return _without_broken(document, {**document, "streams": [
        stream for stream in document["streams"] if (stream["from"], stream["to"]) != (source, target)]}, list)


def rename_task(document: Document, task_id: str, new_id: str) -> dict[str, Any]:
    """Give a task another id, in its streams, rates and latency limits as well."""
    def named(name: str) -> str:
        return new_id if name == task_id else name

    def renamed(name: str) -> str:
        ends = stream_ends(name)
        return named(name) if ends is None else stream_text(*map(named, ends)) if task_id in ends else name

    changed = _with_rates(document, named)
    return _with_limits({
        **changed, "tasks": [{**task, "id": named(task["id"])} for task in document["tasks"]],
        "streams": [
            {**stream, "from": named(stream["from"]), "to": named(stream["to"])} for stream in document["streams"]],
    }, lambda along: list(map(renamed, along)))


def free_id(document: Document, word: str) -> str:
    """An id that no task has, from a word."""
    taken = {task["id"] for task in document["tasks"]}
    return next(name for number in range(1, len(taken) + 2)
                if (name := word if number == 1 else f"{word}_{number}") not in taken)


def wrong_id(document: Document, task_id: str) -> str:
    """The reason why a new task, or one that is renamed, cannot have an id; empty where it can."""
    if not _ID.fullmatch(task_id):
        return "Write letters, digits, _, . and -, at most 64, and begin with a letter or a digit."
    return "Another task has this id." if any(task["id"] == task_id for task in document["tasks"]) else ""


def possible_readers(document: Document, task_id: str) -> list[str]:
    """The tasks that may come to read a task's stream: they do not yet, and nothing would go round."""
    writers: dict[str, list[str]] = {}
    for stream in document["streams"]:
        writers.setdefault(stream["to"], []).append(stream["from"])
    before, waiting = {task_id}, [task_id]
    while waiting:
        new = [name for name in writers.get(waiting.pop(), ()) if name not in before]
        before.update(new)
        waiting += new
    return [task["id"] for task in document["tasks"]
            if task["id"] not in before and task_id not in writers.get(task["id"], ())]


def _led(stream: Mapping[str, Any], target: str, before: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
    """A stream that leads to another task, by the input of the one that led there before."""
    without_input = {key: value for key, value in stream.items() if key != INPUT}
    return {**without_input, "to": target} | ({INPUT: before[INPUT]} if INPUT in before else {})


def _with_task(
    document: Document, task_id: str, changed: Callable[[Mapping[str, Any]], dict[str, Any]]
) -> dict[str, Any]:
    return {**document, "tasks": [
        changed(task) if task["id"] == task_id else task for task in document["tasks"]]}


def _rates(document: Document) -> Mapping[str, Any]:
    rates = document.get("rates")
    return rates if isinstance(rates, Mapping) else {}


def _with_rate(document: Document, task_id: str, rate: Any) -> dict[str, Any]:
    """A rate where it is stated already, else under ``rates``."""
    if any(task["id"] == task_id and "rate" in task for task in document["tasks"]):
        return _with_task(document, task_id, lambda task: {
            key: rate if key == "rate" else value for key, value in task.items() if key != "rate" or rate is not None})
    rates = {name: value for name, value in {**_rates(document), task_id: rate}.items() if value is not None}
    without_rates = {key: value for key, value in document.items() if key != "rates" or rates}
    return without_rates | ({"rates": rates} if rates else {})


def _with_rates(document: Document, named: Callable[[str], str | None]) -> dict[str, Any]:
    if not _rates(document):
        return dict(document)
    rates = {new: rate for name, rate in _rates(document).items() if (new := named(name)) is not None}
    without_rates = {key: value for key, value in document.items() if key != "rates" or rates}
    return without_rates | ({"rates": rates} if rates else {})


# -- latency limits ----------------------------------------------------------------------------------------------------


def _along(limit: Any) -> list[str]:
    """The readable elements along a limit."""
    along = limit.get("along") if isinstance(limit, Mapping) else None
    return along if isinstance(along, list) and all(isinstance(name, str) for name in along) else []


def _with_limits(document: Document, changed: Callable[[list[str]], list[str]]) -> dict[str, Any]:
    """The document with what its limits are along changed; a limit of which nothing is left goes."""
    if "latency" not in document:
        return dict(document)
    stated = document["latency"]
    limits = []
    for limit in stated if isinstance(stated, list) else [stated]:
        if not _along(limit):
            limits.append(limit)
        elif along := changed(_along(limit)):
            limits.append({**limit, "along": along})
    without_limits = {key: value for key, value in document.items() if key != "latency" or limits}
    return without_limits if not limits else without_limits | {
        "latency": limits if isinstance(stated, list) else limits[0]}


def _without_broken(
    before: Document, after: Document, changed: Callable[[list[str]], list[str]]
) -> dict[str, Any]:
    """The document after an edit, with what its limits are along changed, and without those that lost their path."""
    def remaining(along: list[str]) -> list[str]:
        remaining_path = changed(along)
        # By the author, who is told of it elsewhere.
        was_broken = remaining_path == along and not _is_path(along, before)
        return remaining_path if was_broken or _is_path(remaining_path, after) else []

    return _with_limits(after, remaining)


def _is_path(along: list[str], document: Document) -> bool:
    joined = {(stream["from"], stream["to"]) for stream in document["streams"]}
    return {task["id"] for task in document["tasks"]}.issuperset(path_along(along)) and gap_in(along, joined) is None


def _through(before: str, name: str, stream: tuple[str, str], task_id: str) -> list[str]:
    """An element of what a limit is along, behind the one before it, where a task comes to stand on a stream."""
    if stream_ends(name) == stream:
        return [stream_text(stream[0], task_id), task_id, stream_text(task_id, stream[1])]
    return [task_id, name] if (before, name) == stream else [name]
