"""Merging a submitted dataflow into what runs (paper [1], 4.1): reuse what is there, start the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from scheduler.model.canonical import identity_config
from scheduler.model.dataflow import Dataflow
from scheduler.model.fragment import RunningTask
from scheduler.model.ports import expect
from scheduler.model.task_types import TaskTypes

from .fingerprint import fingerprints


@dataclass(frozen=True, slots=True)
class Merge:
    """The tasks that a submission reuses and adds. All ids are running task ids but the keys of ``running``."""

    running: Mapping[str, str]  # submitted task id -> running task id
    reused: tuple[str, ...]  # upstream first
    started: tuple[RunningTask, ...]  # upstream first
    boundary: tuple[tuple[str, str], ...]  # streams from a reused task to a started one
    fresh: tuple[str, ...] = ()  # of the started ones: those that do not join an equal that runs

    @property
    def new(self) -> tuple[str, ...]:
        """The submitted tasks that have to start: a schedule is of these."""
        started = {task.id for task in self.started}
        return tuple(task for task, running_id in self.running.items() if running_id in started)

    @property
    def joined(self) -> Mapping[str, str]:
        """The submitted tasks that run already, with what executes each."""
        reused = set(self.reused)
        return {task: running_id for task, running_id in self.running.items() if running_id in reused}


def merge(
    running: Mapping[str, RunningTask],
    dataflow: Dataflow,
    *,
    task_types: TaskTypes,
    scope: str = "",
    fresh_for: str = "",
    restored: str = "",
    unchanged: Mapping[str, str] | None = None,
) -> Merge:
    """Merge a dataflow into the running tasks, reusing as much and as far downstream as possible.

    The paper finds the running dataflows that share a source, unites them and looks for the maximal common ancestor
    graphs. With a fingerprint for an id each of its questions is a look-up: a task of equal fingerprint runs, or not;
    and where it runs, so do all its ancestors. The cost is that of the submitted dataflow, however much runs.

    Parameters
    ----------
    running : mapping of str to RunningTask
        The running tasks, closed under parents.
    scope : str
        "" for a shared dataflow, else the team whose private dataflow it is.
    fresh_for : str
        The dataflow's id where it wants no state older than itself: stateful tasks that run already are not joined,
        but started under an identity of their own, as is all that is downstream of them. "" to join them.
    restored : str
        If the dataflow begins from a named savepoint, the part that separates it from others of another past
        (`exact_savepoints.identity_apart`): it starts all of its tasks, from its sources on, and joins none. Else "".
    unchanged : mapping of str to str, optional
        Of another version of what runs: its tasks that are as they were, with what executes each; with each all that
        is upstream of it.

    Returns
    -------
    Merge
        Reused and started tasks partition the dataflow's; ``boundary`` joins the one to the other.

    References
    ----------
    .. [1] Chaturvedi, Tyagi and Simmhan, "Collaborative Reuse of Streaming Dataflows in IoT Applications", 2017, 4.1.
    """
    plain, ids = merged_ids(
        running, dataflow, task_types=task_types, scope=scope, fresh_for=fresh_for, restored=restored,
        unchanged=unchanged)
    tasks = {task.id: task for task in dataflow.tasks}
    parents = dataflow.parents()
    expect(running, ids.values())
    reused: list[str] = []
    started: list[RunningTask] = []
    boundary: list[tuple[str, str]] = []
    for task_id, running_id in ids.items():
        if running_id in running:
            reused.append(running_id)
            continue
        task_type = task_types[tasks[task_id].type]
        started.append(
            RunningTask(
                id=running_id,
                type=task_type.name,
                config=identity_config(dataflow, tasks[task_id], task_type),
                parents=tuple(sorted(ids[parent] for parent in parents[task_id])),
                scope=scope,
            )
        )
        boundary.extend((parent, running_id) for parent in started[-1].parents if parent in running)
    return Merge(
        running=ids, reused=tuple(reused), started=tuple(started), boundary=tuple(boundary),
        fresh=tuple(ids[task_id] for task_id in ids if ids[task_id] != plain[task_id] and plain[task_id] in running),
    )


def merged_ids(
    running: Mapping[str, RunningTask],
    dataflow: Dataflow,
    *,
    task_types: TaskTypes,
    scope: str = "",
    fresh_for: str = "",
    restored: str = "",
    unchanged: Mapping[str, str] | None = None,
) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """The running ids that a dataflow's tasks would have if all were joined that can be, and those that they get.

    The two differ where `merge` starts tasks anew, and behind them.
    """
    unchanged = unchanged or {}
    plain = fingerprints(dataflow, task_types=task_types, scope=scope, unchanged=unchanged)
    if restored:
        sources = {task.id for task in dataflow.tasks if task_types[task.type].kind == "source"}
        return plain, fingerprints(dataflow, task_types=task_types, scope=scope, apart=sources, salt=restored)
    if not fresh_for:
        return plain, plain
    expect(running, plain.values())
    tasks = {task.id: task for task in dataflow.tasks}
    apart = {
        task_id for task_id, running_id in plain.items()
        if task_id not in unchanged and running_id in running and task_types[tasks[task_id].type].stateful}
    if not apart:
        return plain, plain
    return plain, fingerprints(
        dataflow, task_types=task_types, scope=scope, apart=apart, salt=fresh_for, unchanged=unchanged)
