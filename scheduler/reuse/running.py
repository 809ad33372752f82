"""Running dataflows: the weakly connected parts of what runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def connected_parts(parents: Mapping[str, Iterable[str]]) -> list[tuple[str, ...]]:
    """The weakly connected parts of a graph of tasks, each sorted; ``parents`` has every task as a key."""
    root = {task_id: task_id for task_id in parents}

    def find(task_id: str) -> str:
        while root[task_id] != task_id:
            root[task_id] = root[root[task_id]]
            task_id = root[task_id]
        return task_id

    for task_id, above in parents.items():
        for parent in above:
            one, other = sorted((find(parent), find(task_id)))
            root[other] = one
    members: dict[str, list[str]] = {}
    for task_id in parents:
        members.setdefault(find(task_id), []).append(task_id)
    return [tuple(sorted(task_ids)) for task_ids in members.values()]
