"""Order: events of a divided task come in order from each of its bundles, and in no order from all of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from scheduler.key_division import key_of
from scheduler.model.fragment import Fragment, RunningTask
from scheduler.model.ports import EstateView
from scheduler.model.task_types import TaskTypes

Order = frozenset[str] | None  # of events: within each value of these columns; in all of them without any; or none
ALL: Order = frozenset()
NONE: Order = None


def reads_divided(
    estate: EstateView, started: Mapping[str, RunningTask], *, task_types: TaskTypes
) -> list[str]:
    """The stateful tasks to be started that read, directly or not, from running tasks with several bundles.

    Bundles of started tasks do not count: a schedule does not divide tasks before stateful ones.
    """
    orders: dict[str, Order] = {}

    def order_of(task_id: str) -> Order:
        waiting = [task_id]
        while waiting:
            current = waiting[-1]
            if current in orders:
                waiting.pop()
                continue
            task = started.get(current) or estate.tasks[current]
            later = [parent for parent in task.parents if parent not in orders]
            if later:
                waiting.extend(later)
                continue
            order = _behind(task, _least(orders[parent] for parent in task.parents), task_types)
            if current not in started and is_split(estate, current):
                by_key = estate.fragments[estate.places[current][0]].divided_by_key
                order = _least([order, _kept_order(task, task_types) if by_key else NONE])
            orders[current] = order
            waiting.pop()
        return orders[task_id]

    return [
        task.id for task in started.values()
        if task.type in task_types and task_types[task.type].stateful
        and not _is_enough(task, _least(map(order_of, task.parents)), task_types)]


def stateful_downstream(
    fragments: Mapping[str, Fragment], fragment_ids: Iterable[str], *, tasks: Mapping[str, RunningTask],
    task_types: TaskTypes,
) -> list[str]:
    """The working stateful tasks that read from these fragments, directly or not, and need more order than is left:
    division by key keeps order within each key."""
    lacking: dict[str, None] = {}
    waiting: list[tuple[str, Order]] = [
        (name, ALL if fragments[name].divided_by_key else NONE) for name in fragment_ids]
    visited = set()
    while waiting:
        current = waiting.pop()
        if current in visited:
            continue
        visited.add(current)
        fragment, order = fragments[current[0]], current[1]
        after: dict[str, Order] = {}
        for task_id in fragment.active_tasks:
            task = tasks[task_id]
            if task.type in task_types and task_types[task.type].stateful and not _is_enough(task, order, task_types):
                lacking[task_id] = None
            order = _behind(task, order, task_types)
            if fragment.divided_by_key:
                order = _least([order, _kept_order(task, task_types)])
            after[task_id] = order
        waiting.extend(
            (reader, after.get(task_id, order)) for task_id, readers in fragment.outlets.items() for reader in readers)
    return sorted(lacking)


def _least(orders: Iterable[Order]) -> Order:
    """The order of events from streams of these orders."""
    columns: frozenset[str] = frozenset()
    for order in orders:
        if order is None:
            return NONE
        columns |= order
    return columns


def _is_enough(task: RunningTask, order: Order, task_types: TaskTypes) -> bool:
    """True if a task with state makes the same of events in this order as of all in theirs."""
    return order == ALL or (
        order is not None and task_types[task.type].by_marks is None and order <= _key(task, task_types))


def _behind(task: RunningTask, order: Order, task_types: TaskTypes) -> Order:
    """The order of what a task makes of events in this order: within a key, where its results have that."""
    if order == ALL or order is None:
        return order
    return _kept_order(task, task_types) if _is_enough(task, order, task_types) else NONE


def _kept_order(task: RunningTask, task_types: TaskTypes) -> Order:
    """The order of what a task gives that is divided by key, or gets it in the order within its key."""
    return _key(task, task_types) if task.type in task_types and task_types[task.type].passes_key else NONE


def _key(task: RunningTask, task_types: TaskTypes) -> frozenset[str]:
    return frozenset(key_of(task_types[task.type], task.config) if task.type in task_types else ())


def is_split(estate: EstateView, task_id: str) -> bool:
    """True if a running task's events are divided over several bundles."""
    fragment = estate.fragments[estate.places[task_id][0]]
    return sum(not bundle.leaving for bundle in fragment.queries) > 1


def order_note(task_ids: Collection[str], tasks: Mapping[str, RunningTask]) -> str:
    """A note for reviewers about tasks with state behind a divided one; empty where there are none."""
    if not task_ids:
        return ""
    kinds = ", ".join(sorted({tasks[task_id].type for task_id in task_ids}))
    several = len(task_ids) > 1
    who = f"{len(task_ids)} tasks with state ({kinds}) read" if several else f"A task with state ({kinds}) reads"
    return (
        f"{who} what a divided task makes: events keep their order within each of its bundles, not between them, so "
        "what depends on the order of events may differ from one run to the next.")
