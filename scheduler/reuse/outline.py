"""Outlines: a running dataflow too large to be drawn whole, as the trunk that most use and the branches behind it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from .running import connected_parts


@dataclass(frozen=True, slots=True)
class Branch:
    """Tasks that are left out together, because they hang on the same tasks that are shown."""

    parents: tuple[str, ...]  # sorted; none where nothing above them is shown
    tasks: int


@dataclass(frozen=True, slots=True)
class Outline:
    """The shown tasks, sorted, and the others; every task is in one of the two."""

    shown: tuple[str, ...]
    branches: tuple[Branch, ...]


def outline(
    parents: Mapping[str, Sequence[str]], users: Mapping[str, int], *, most: int, required_tasks: Collection[str] = ()
) -> Outline:
    """Show the required tasks, then those that serve the most dataflows, and bundle the rest.

    A user of a task uses all tasks above it: a parent has at least as many users as its child. So the shown tasks are
    closed under parents, if ``required_tasks`` are.

    Parameters
    ----------
    users : mapping of str to int
        The number of dataflows that each task serves; 1 for a task that is not named.
    most : int
        The largest number of shown tasks; all required ones are shown in any case.

    Returns
    -------
    Outline
        All tasks and no branch, if there is room for all.
    """
    depth = _depths(parents)
    order = sorted(parents, key=lambda task_id: (
        task_id not in required_tasks, -users.get(task_id, 1), depth[task_id], task_id))
    shown = set(order[: max(most, len(required_tasks))])
    hidden = {
        task_id: [parent for parent in above if parent not in shown]
        for task_id, above in parents.items() if task_id not in shown}
    behind: dict[tuple[str, ...], int] = {}
    for part in connected_parts(hidden):
        above = tuple(sorted({parent for task_id in part for parent in parents[task_id] if parent in shown}))
        behind[above] = behind.get(above, 0) + len(part)
    branches = tuple(Branch(parents=above, tasks=tasks) for above, tasks in sorted(behind.items()))
    return Outline(shown=tuple(sorted(shown)), branches=branches)


def sheets(sizes: Iterable[int], *, most: int) -> list[range]:
    """Part a row of running dataflows, largest first, into sheets of at most so many tasks.

    One that is larger than a sheet has one of its own.
    """
    ranges: list[range] = []
    first, room = 0, most
    position = -1
    for position, size in enumerate(sizes):
        if position > first and size > room:
            ranges.append(range(first, position))
            first, room = position, most
        room -= size
    return [*ranges, range(first, position + 1)] if position >= 0 else ranges


def _depths(parents: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """The longest way from a source to each task, without recursion: chains may be long."""
    depth: dict[str, int] = {}
    for start in parents:
        waiting = [start]
        while waiting:
            task_id = waiting[-1]
            above = [parent for parent in parents[task_id] if parent not in depth]
            if above:
                waiting.extend(above)
                continue
            depth[task_id] = 1 + max((depth[parent] for parent in parents[task_id]), default=-1)
            waiting.pop()
    return depth
