"""An independent checker of constraints (1) and (2) of paper [1], 3.3: it compares graphs and knows nothing of hashes.

The ids of running tasks are opaque names to it. Two tasks are the same when there is a bijection between their
ancestor graphs that keeps types, configs and streams (3.2), and that bijection is searched for. It shares no code with
`scheduler.reuse`; it reads what was submitted, what runs, and which running task is said to stand for which sink.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations, permutations
from typing import Any

from scheduler.model.dataflow import Dataflow
from scheduler.model.estate import Estate
from scheduler.model.task_types import Parameter, TaskType, TaskTypes

Label = tuple[str, str, tuple[tuple[str, Any], ...]]  # type, scope, config


@dataclass(frozen=True)
class Graph:
    """Tasks by id: what each is, and what it reads."""

    labels: Mapping[str, Label]
    parents: Mapping[str, tuple[str, ...]]

    def ancestors(self, task_id: str) -> set[str]:
        """The task and all that is upstream of it."""
        above, waiting = set(), [task_id]
        while waiting:
            if (task := waiting.pop()) not in above:
                above.add(task)
                waiting.extend(self.parents[task])
        return above


def submitted_graph(dataflow: Dataflow, *, team: str, task_types: TaskTypes) -> Graph:
    """What a team asked for."""
    scope = team if dataflow.visibility == "private" else ""
    labels = {}
    for task in dataflow.tasks:
        task_type = task_types[task.type]
        rate = {"rate_per_s": dataflow.rates_per_s.get(task.id, 10.0)} if task_type.kind == "source" else {}
        labels[task.id] = _label(task_type, {**task.config, **rate}, scope)
    return Graph(labels, dataflow.parents())


def running_graph(estate: Estate, *, task_types: TaskTypes) -> Graph:
    """What runs."""
    labels = {task.id: _label(task_types[task.type], task.config, task.scope) for task in estate.tasks.values()}
    parents = {task.id: tuple(task.parents) for task in estate.tasks.values()}
    assert all(parent in labels for above in parents.values() for parent in above), "a parent does not run"
    return Graph(labels, parents)


def same_history(one: Graph, task: str, other: Graph, twin: str) -> bool:
    """Whether there is a bijection between the ancestor graphs of two tasks that keeps labels and streams."""
    return next(_bijections(one, other, [(task, twin)], {}, {}), None) is not None


def _bijections(
    one: Graph, other: Graph, due: list[tuple[str, str]], forth: dict[str, str], back: dict[str, str]
) -> Iterator[dict[str, str]]:
    """Extend a partial bijection by the pairs that are due, and by their parents in every order that may fit."""
    if not due:
        yield forth
        return
    (task, twin), rest = due[0], due[1:]
    if task in forth or twin in back:
        if forth.get(task) == twin:
            yield from _bijections(one, other, rest, forth, back)
        return
    if one.labels[task] != other.labels[twin] or len(one.parents[task]) != len(other.parents[twin]):
        return
    forth, back = {**forth, task: twin}, {**back, twin: task}
    for order in permutations(other.parents[twin]):
        pairs = list(zip(one.parents[task], order, strict=True))
        if all(one.labels[parent] == other.labels[twin_parent] for parent, twin_parent in pairs):
            yield from _bijections(one, other, pairs + rest, forth, back)


@dataclass
class Checker:
    """Checks every estate of a trace in turn. What it has compared it does not compare again while it is unchanged."""

    task_types: TaskTypes
    submitted: dict[str, Graph] = field(default_factory=dict)
    _labels: dict[str, tuple[Label, tuple[str, ...]]] = field(default_factory=dict)  # running task: as it was compared
    _distinct: set[frozenset[str]] = field(default_factory=set)  # pairs of running tasks that are not equivalent
    _covered: set[tuple[str, str, str]] = field(default_factory=set)  # dataflow, sink, running task: equivalent

    def submit(self, dataflow_id: str, dataflow: Dataflow, team: str) -> None:
        self.submitted[dataflow_id] = submitted_graph(dataflow, team=team, task_types=self.task_types)

    def remove(self, dataflow_id: str) -> None:
        del self.submitted[dataflow_id]
        self._covered = {covered for covered in self._covered if covered[0] != dataflow_id}

    def check(self, estate: Estate) -> None:
        """Constraints (1) and (2), and that the running dataflows are de-duplicated and disjoint."""
        running = running_graph(estate, task_types=self.task_types)
        self._forget_what_changed(running)
        self._check_sink_coverage(estate, running)
        self._check_minimal(estate, running)
        self._check_no_duplicates(running)

    def _forget_what_changed(self, running: Graph) -> None:
        now = {task_id: (running.labels[task_id], running.parents[task_id]) for task_id in running.labels}
        if any(now.get(task_id, identity) != identity for task_id, identity in self._labels.items()):
            self._distinct, self._covered = set(), set()  # an id that is another task now: nothing is known any more
        self._labels |= now

    def _check_sink_coverage(self, estate: Estate, running: Graph) -> None:
        """(1): for each sink of each submitted dataflow a task runs whose ancestor graph is equivalent."""
        assert set(estate.submitted) == set(self.submitted)
        for dataflow_id, graph in self.submitted.items():
            for sink in sinks_of(graph):
                stands_for_it = estate.submitted[dataflow_id].running[sink]
                covered = (dataflow_id, sink, stands_for_it)
                if covered not in self._covered:
                    assert stands_for_it in running.labels, f"nothing runs for {sink} of {dataflow_id}"
                    assert same_history(graph, sink, running, stands_for_it), f"{sink} of {dataflow_id} gets another"
                    self._covered.add(covered)

    def _check_minimal(self, estate: Estate, running: Graph) -> None:
        """(2): each running task and stream is in the ancestor graph of a submitted sink's running task."""
        needed = set()
        for dataflow_id, graph in self.submitted.items():
            for sink in sinks_of(graph):
                needed |= running.ancestors(estate.submitted[dataflow_id].running[sink])
        assert needed == set(running.labels), "a task runs that no sink needs"

    def _check_no_duplicates(self, running: Graph) -> None:
        """(2): no two running tasks are equivalent, so that running dataflows are de-duplicated and disjoint."""
        alike: dict[Label, list[str]] = {}
        for task_id, label in running.labels.items():
            alike.setdefault(label, []).append(task_id)
        for twins in alike.values():
            for pair in combinations(twins, 2):
                if frozenset(pair) not in self._distinct:
                    assert not same_history(running, pair[0], running, pair[1]), f"{pair} are one task"
                    self._distinct.add(frozenset(pair))


def sinks_of(graph: Graph) -> list[str]:
    """The tasks that nothing reads."""
    read = {parent for parents in graph.parents.values() for parent in parents}
    return [task_id for task_id in graph.labels if task_id not in read]


def _label(task_type: TaskType, config: Mapping[str, Any], scope: str) -> Label:
    """What a task is. Only declared numbers, bounds and sets have more than one spelling."""
    declared = {parameter.name: parameter for parameter in task_type.parameters}
    values = {name: parameter.default for name, parameter in declared.items()}
    values |= {name: value for name, value in config.items() if value is not None}
    spelled = ((name, _spelled(declared.get(name), value)) for name, value in values.items() if value is not None)
    return task_type.name, scope, tuple(sorted(spelled, key=lambda item: item[0]))


def _spelled(parameter: Parameter | None, value: Any) -> Any:
    if parameter is not None and parameter.alternate_types is not None:
        return spelled_alternates(parameter.alternate_types, value)
    if parameter is None:
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else _exact(value)
    if parameter.is_set:
        return tuple(sorted(set(map(repr, value))))
    loose = parameter.type == "number" or parameter.items == "number" or parameter.bounds
    return _exact(value, numbers_are_floats=loose)


def spelled_alternates(task_types: Mapping[str, TaskType], alternates: Any) -> Any:
    """Names, tasks or paths, guards, and values by their ratio to the largest, in any order."""
    largest = max(Fraction(alternate.get("value") or 1) for alternate in alternates)
    return tuple(sorted(
        (alternate["name"], _spelled_path(task_types, alternate),
         Fraction(alternate.get("value") or 1) / largest, tuple((alternate.get("guard") or "").split()))
        for alternate in alternates))


def _spelled_path(task_types: Mapping[str, TaskType], alternate: Mapping[str, Any]) -> Any:
    """The tasks of an alternate in that order, of all that there are, in which its streams and they come first.

    What does one task is a path of that task.
    """
    tasks = alternate.get("tasks") or [{"id": "it", **alternate}]
    streams = alternate.get("streams") or [{"from": "input", "to": "it"}, {"from": "it", "to": "output"}]
    spelled = []
    for order in permutations(tasks):
        place = {task["id"]: str(number) for number, task in enumerate(order)}
        spelled.append((
            tuple(_label(task_types[task["type"]], task.get("config") or {}, "") for task in order),
            tuple(sorted(
                (place.get(stream["from"], stream["from"]), place.get(stream["to"], stream["to"]))
                for stream in streams))))
    return min(spelled, key=repr)


def _exact(value: Any, *, numbers_are_floats: bool = False) -> Any:
    if isinstance(value, Mapping):
        return tuple(
            sorted((name, _exact(item, numbers_are_floats=numbers_are_floats)) for name, item in value.items()))
    if isinstance(value, list | tuple):
        return tuple(_exact(item, numbers_are_floats=numbers_are_floats) for item in value)
    if numbers_are_floats and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    return type(value).__name__, value
