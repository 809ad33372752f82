"""Differences between the alternates of a task in two versions of a document, in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from .alternates import TaskAlternate
from .canonical import canonical_config, canonical_json
from .dataflow import Task
from .paths import TaskPath
from .task_types import TaskType


def alternate_changes(
    before: Sequence[TaskAlternate], after: Sequence[TaskAlternate], *, task_types: Mapping[str, TaskType]
) -> list[str]:
    """The differences of the later alternates, down to parameters of tasks along a path; empty where all is one.

    Tasks of a path are told apart by their ids, as a reader of the documents does.
    """
    return list(_changes({way.name: way for way in before}, {way.name: way for way in after}, task_types))


def _changes(
    before: Mapping[str, TaskAlternate], after: Mapping[str, TaskAlternate], task_types: Mapping[str, TaskType]
) -> Iterator[str]:
    for name in [*before, *(name for name in after if name not in before)]:
        if name not in after or name not in before:
            yield f"Alternate {name} is {'new' if name in after else 'gone'}."
            continue
        old, new = before[name], after[name]
        if _worth(old, before) != _worth(new, after):
            yield f"Alternate {name} is worth {_worth(new, after)}, not {_worth(old, before)}."
        if old.guard.split() != new.guard.split():
            yield f"Alternate {name} may be on {_while(new)}, not {_while(old)}."
        for change in _inside(old, new, task_types):
            yield f"Alternate {name}: {change}."


def _worth(alternate: TaskAlternate, among: Mapping[str, TaskAlternate]) -> str:
    """γ; the value as it stands if any of them is not a number."""
    values = [way.value for way in among.values()]
    if not all(isinstance(value, int | float) for value in values):
        return str(alternate.value)
    return f"{alternate.value / max(values):.9g}"


def _while(alternate: TaskAlternate) -> str:
    guard = " ".join(alternate.guard.split())
    return f"while {guard}" if guard else "always"


def _inside(old: TaskAlternate, new: TaskAlternate, task_types: Mapping[str, TaskType]) -> Iterator[str]:
    former, path = old.path, new.path
    if former is None and path is None:
        yield from _of_task(old.tasks[0], new.tasks[0], task_types, "")
        return
    if former is None or path is None:
        yield f"{new.summary} instead of {old.summary}"
        return
    mine, theirs = ({task.id: task for task in way.tasks} for way in (former, path))
    for task_id in [*mine, *(task_id for task_id in theirs if task_id not in mine)]:
        if task_id in mine and task_id in theirs:
            yield from _of_task(mine[task_id], theirs[task_id], task_types, f"task {task_id}, ")
        else:
            yield f"task {task_id} is {'new' if task_id in theirs else 'gone'}"
    had, has = _streams(former), _streams(path)
    yield from (f"the stream {source} -> {target} is gone" for source, target in had if (source, target) not in has)
    yield from (f"the stream {source} -> {target} is new" for source, target in has if (source, target) not in had)


def _of_task(old: Task, new: Task, task_types: Mapping[str, TaskType], where: str) -> Iterator[str]:
    if old.type != new.type:
        yield f"{where}type {new.type} instead of {old.type}"
        return
    mine, theirs = (
        canonical_config(task_types[task.type], task.config) if task.type in task_types else dict(task.config)
        for task in (old, new))
    for name in sorted({*mine, *theirs}):
        if (was := canonical_json(mine.get(name))) != (now := canonical_json(theirs.get(name))):
            yield f"{where}{name} {now} instead of {was}"


def _streams(path: TaskPath) -> list[tuple[str, str]]:
    return [(stream.source, stream.target) for stream in path.streams]

