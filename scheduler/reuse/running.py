"""Running dataflows: the weakly connected parts of what runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from networkx.utils import UnionFind


def connected_parts(parents: Mapping[str, Iterable[str]]) -> list[tuple[str, ...]]:
    """The weakly connected parts of a graph of tasks, each sorted; ``parents`` has every task as a key."""
    joined = UnionFind(parents)
    for task_id, above in parents.items():
        joined.union(task_id, *above)
    members: dict[str, list[str]] = {}
    for task_id in parents:
        members.setdefault(joined[task_id], []).append(task_id)
    return [tuple(sorted(task_ids)) for task_ids in members.values()]
