"""Equivalence by the paper's definition, pairwise and without hashes: what fingerprints are held against.

Two tasks are equivalent when there is an isomorphism between their ancestor graphs that keeps types, configs and
streams. It is slow on purpose, and shares no code with `scheduler.reuse`.
"""

from __future__ import annotations

import networkx as nx

from scheduler.model.dataflow import Dataflow
from scheduler.model.task_types import DYNAMIC, TaskTypes

from .structure import spelled_alternates


class Reference:
    """A growing collection of submitted dataflows, and what of them has to run."""

    def __init__(self, task_types: TaskTypes) -> None:
        self.task_types = task_types
        self.graphs: dict[str, nx.DiGraph] = {}
        self._equal: dict[tuple[tuple[str, str], tuple[str, str]], bool] = {}

    def add(self, dataflow_id: str, dataflow: Dataflow, team: str, *, fresh: bool = False) -> None:
        """A dataflow that joins what runs, or one that starts fresh from the first stateful task that runs already."""
        graph = nx.DiGraph()
        for task in dataflow.tasks:
            graph.add_node(task.id, abstract=self._abstract(dataflow, task, team))
        graph.add_edges_from((stream.source, stream.target) for stream in dataflow.streams)
        running = self.tasks()
        self.graphs[dataflow_id] = graph
        if fresh:
            apart = [
                task.id for task in dataflow.tasks if self.task_types[task.type].stateful
                and any(self.equivalent((dataflow_id, task.id), other) for other in running)
            ]
            for task_id in apart:
                graph.nodes[task_id]["abstract"] = (*graph.nodes[task_id]["abstract"], dataflow_id)
            self._forget(dataflow_id)

    def change(
        self, dataflow_id: str, dataflow: Dataflow, former: Dataflow, team: str, *, fresh: bool = False
    ) -> None:
        """Another version: what both documents have is what it was; the rest is as if it were submitted."""
        documents = Reference(self.task_types)
        documents.add("new", dataflow, team)
        documents.add("old", former, team)
        unchanged = {
            task.id: old for task in dataflow.tasks
            for _, old in documents.tasks() if _ == "old" and documents.equivalent(("new", task.id), ("old", old))}
        before, tasks = f"{dataflow_id}, before", self.tasks()
        self.graphs[before] = self.graphs.pop(dataflow_id)
        tasks = [(before if owner == dataflow_id else owner, task_id) for owner, task_id in tasks]
        self._forget(dataflow_id)
        graph = documents.graphs["new"].copy()
        self.graphs[dataflow_id] = graph
        for task_id, old in unchanged.items():
            graph.nodes[task_id]["abstract"] = self.graphs[before].nodes[old]["abstract"]
        if fresh:
            apart = [
                task.id for task in dataflow.tasks
                if task.id not in unchanged and self.task_types[task.type].stateful
                and any(self.equivalent((dataflow_id, task.id), other) for other in tasks)]
            for task_id in apart:
                graph.nodes[task_id]["abstract"] = (*graph.nodes[task_id]["abstract"], dataflow_id)
        self._forget(dataflow_id)
        self.remove(before)

    def remove(self, dataflow_id: str) -> None:
        del self.graphs[dataflow_id]
        self._forget(dataflow_id)

    def _forget(self, dataflow_id: str) -> None:
        self._equal = {pair: same for pair, same in self._equal.items() if dataflow_id not in (pair[0][0], pair[1][0])}

    def _abstract(self, dataflow: Dataflow, task, team: str):
        declared = {parameter.name: parameter for parameter in self.task_types[task.type].parameters}
        config = {name: parameter.default for name, parameter in declared.items()} | dict(task.config)
        if task.type == DYNAMIC:
            config = {"alternates": spelled_alternates(self.task_types, config["alternates"])}
        exact = {
            name: value if name in declared and declared[name].type == "number" else (type(value).__name__, value)
            for name, value in config.items()
        }
        rate = dataflow.rates_per_s.get(task.id, 10.0) if self.task_types[task.type].kind == "source" else None
        return task.type, exact, rate, team if dataflow.visibility == "private" else None

    def equivalent(self, one: tuple[str, str], other: tuple[str, str]) -> bool:
        """Whether two tasks, (dataflow id, task id) each, are equivalent."""
        if (one, other) not in self._equal:
            first, second = self.ancestors(one), self.ancestors(other)
            same = first.nodes[one[1]]["abstract"] == second.nodes[other[1]]["abstract"] and nx.is_isomorphic(
                first, second, node_match=lambda left, right: left["abstract"] == right["abstract"]
            )
            self._equal[one, other] = self._equal[other, one] = same
        return self._equal[one, other]

    def ancestors(self, task: tuple[str, str]) -> nx.DiGraph:
        """The ancestor graph of a task, itself included."""
        graph = self.graphs[task[0]]
        return graph.subgraph({task[1], *nx.ancestors(graph, task[1])})

    def tasks(self) -> list[tuple[str, str]]:
        return [(dataflow_id, task_id) for dataflow_id, graph in self.graphs.items() for task_id in graph]

    def classes(self) -> list[list[tuple[str, str]]]:
        """The submitted tasks by class of equivalence: one running task for each is what has to run."""
        classes: list[list[tuple[str, str]]] = []
        for task in self.tasks():
            for members in classes:
                if self.equivalent(members[0], task):
                    members.append(task)
                    break
            else:
                classes.append([task])
        return classes
