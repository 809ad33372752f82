"""What reuse is measured against: matching by comparing ancestors, as paper [1] starts from, and by isomorphism.

They find what `merge` and `unmerge` find, at a cost that grows with what runs. Nothing else uses them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import networkx as nx
from networkx.algorithms.isomorphism import DiGraphMatcher

from scheduler.model.canonical import identity_config
from scheduler.model.dataflow import Dataflow
from scheduler.model.estate import Submitted
from scheduler.model.fragment import RunningTask
from scheduler.model.task_types import TaskTypes

Tasks = Mapping[str, RunningTask]  # by id, closed under parents


def own_tasks(dataflow: Dataflow, *, task_types: TaskTypes, scope: str = "") -> dict[str, RunningTask]:
    """A submitted dataflow's tasks under their own ids, with canonical configs: what both sides compare."""
    parents = dataflow.parents()
    return {
        task.id: RunningTask(
            id=task.id, type=task.type, config=identity_config(dataflow, task, task_types[task.type]),
            parents=tuple(parents[task.id]), scope=scope,
        )
        for task in dataflow.tasks
    }


def match_ancestors(running: Sequence[Tasks], submitted: Tasks, *, all_pairs: bool = False) -> dict[str, str]:
    """Match the tasks of a submitted dataflow with running ones by comparing ancestors, pair by pair.

    The running dataflows that have a source in common with the submitted one are united, and every submitted task is
    compared with every task of the union: the paper's pruning of the comparison of all pairs, which it starts from. A
    pair once decided is not decided again.

    Parameters
    ----------
    running : sequence of mapping of str to RunningTask
        The tasks of each running dataflow.
    submitted : mapping of str to RunningTask
        De-duplicated (`own_tasks`).
    all_pairs : bool
        Unite all running dataflows.

    Returns
    -------
    dict of str to str
        Submitted task id to the id of the equivalent running task, where there is one.

    References
    ----------
    .. [1] Chaturvedi, Tyagi and Simmhan, "Collaborative Reuse of Streaming Dataflows in IoT Applications", 2017, 4.1.
    """
    sources = [task for task in submitted.values() if not task.parents]
    united: dict[str, RunningTask] = {}
    for tasks in running:
        if all_pairs or any(not task.parents and _alike(task, source) for task in tasks.values() for source in sources):
            united.update(tasks)
    decided: dict[tuple[str, str], bool] = {}

    def equivalent(new: RunningTask, other: RunningTask) -> bool:
        if not _alike(new, other) or len(new.parents) != len(other.parents):
            return False
        if (new.id, other.id) not in decided:
            # No two parents of a de-duplicated task are equivalent, so each has one partner at most.
            decided[new.id, other.id] = all(
                any(equivalent(submitted[parent], united[candidate]) for candidate in other.parents)
                for parent in new.parents
            )
        return decided[new.id, other.id]

    twins: dict[str, str] = {}
    for new in submitted.values():
        for other in united.values():
            if equivalent(new, other):
                twins[new.id] = other.id
    return twins


def match_isomorphic(running: nx.DiGraph, submitted: nx.DiGraph) -> dict[str, str]:
    """Match by isomorphism of ancestor graphs (VF2, NetworkX), for every pair of tasks that look alike.

    Both graphs are `as_graph`'s. Returns as `match_ancestors` does.
    """
    twins: dict[str, str] = {}
    for task_id, alike in submitted.nodes(data="task"):
        ancestors = submitted.subgraph({task_id, *nx.ancestors(submitted, task_id)})
        for other, task in running.nodes(data="task"):
            if _alike(alike, task):
                others = running.subgraph({other, *nx.ancestors(running, other)})
                if DiGraphMatcher(ancestors, others, node_match=_match).is_isomorphic():
                    twins[task_id] = other
    return twins


def unmerge_by_ancestors(running: Tasks, remaining: Iterable[Submitted]) -> set[str]:
    """What stops of a running dataflow when one of those that it serves is removed: all but the others' ancestors.

    Parameters
    ----------
    running : mapping of str to RunningTask
        The tasks of the running dataflow.
    remaining : iterable of Submitted
        The other submitted dataflows that it serves.

    References
    ----------
    .. [1] Chaturvedi, Tyagi and Simmhan, "Collaborative Reuse of Streaming Dataflows in IoT Applications", 2017, 4.2.
    """
    needed: set[str] = set()
    for submitted in remaining:
        to_visit = [submitted.running[sink] for sink in submitted.sinks]
        while to_visit:
            task_id = to_visit.pop()
            if task_id not in needed:
                needed.add(task_id)
                to_visit.extend(running[task_id].parents)
    return set(running) - needed


def as_graph(tasks: Tasks) -> nx.DiGraph:
    """The graph of tasks and their streams."""
    graph = nx.DiGraph()
    graph.add_nodes_from((task.id, {"task": task}) for task in tasks.values())
    graph.add_edges_from((parent, task.id) for task in tasks.values() for parent in task.parents)
    return graph


def _alike(one: RunningTask, other: RunningTask) -> bool:
    return one.type == other.type and one.scope == other.scope and one.config == other.config


def _match(one: Mapping[str, RunningTask], other: Mapping[str, RunningTask]) -> bool:
    return _alike(one["task"], other["task"])
