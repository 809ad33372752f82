"""Order: events of a divided task come in order from each of its bundles, and in no order from all of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from scheduler.model.fragment import Fragment, RunningTask
from scheduler.model.ports import EstateView
from scheduler.model.task_types import TaskTypes


def reads_divided(
    estate: EstateView, started: Mapping[str, RunningTask], *, task_types: TaskTypes
) -> list[str]:
    """Which of the tasks to be started have state and read, on whatever way, what several bundles of running ones make.

    What is divided among the started ones is not: a schedule keeps whole what comes before state.
    """
    known: dict[str, bool] = {}

    def is_disordered(task_id: str) -> bool:
        waiting = [task_id]
        while waiting:
            current = waiting[-1]
            if current in known:
                waiting.pop()
                continue
            parents = (started.get(current) or estate.tasks[current]).parents
            later = [parent for parent in parents if parent not in known]
            if later:
                waiting.extend(later)
                continue
            known[current] = any(known[parent] for parent in parents) or (
                current not in started and is_split(estate, current)
            )
            waiting.pop()
        return known[task_id]

    return [
        task.id for task in started.values()
        if task.type in task_types and task_types[task.type].stateful and is_disordered(task.id)]


def stateful_downstream(
    fragments: Mapping[str, Fragment], fragment_ids: Iterable[str], *, tasks: Mapping[str, RunningTask],
    task_types: TaskTypes,
) -> list[str]:
    """The working tasks with state that read, on whatever way, what these fragments make."""
    ordered: dict[str, None] = {}
    waiting, seen = list(fragment_ids), set()
    while waiting:
        current = waiting.pop()
        if current in seen:
            continue
        seen.add(current)
        fragment = fragments[current]
        for task_id in fragment.active_tasks:
            kind = tasks[task_id].type
            if kind in task_types and task_types[kind].stateful:
                ordered[task_id] = None
        waiting.extend(reader for readers in fragment.outlets.values() for reader in readers)
    return sorted(ordered)


def is_split(estate: EstateView, task_id: str) -> bool:
    """Whether a running task's events are divided over several bundles."""
    fragment = estate.fragments[estate.places[task_id][0]]
    return sum(not bundle.leaving for bundle in fragment.queries) > 1


def order_note(task_ids: Collection[str], tasks: Mapping[str, RunningTask]) -> str:
    """What a reviewer should know of tasks with state behind a divided one; empty where there are none."""
    if not task_ids:
        return ""
    kinds = ", ".join(sorted({tasks[task_id].type for task_id in task_ids}))
    several = len(task_ids) > 1
    who = f"{len(task_ids)} tasks with state ({kinds}) read" if several else f"A task with state ({kinds}) reads"
    return (
        f"{who} what a divided task makes: events keep their order within each of its bundles, not between them, so "
        "what depends on the order of events may differ from one run to the next.")
