"""Named savepoints: which dataflows can leave one, and which can begin from one.

A savepoint is exact if all of it is of one moment, between two batches of one query. So all sources and all stateful
tasks of the dataflow have to be in one query. Other dataflows are refused beforehand.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from .model.alternates import is_dynamic
from .model.canonical import identity_config
from .model.dataflow import Dataflow, Task
from .model.errors import WeirError
from .model.ports import EstateView
from .model.saved_states import SavedIdentity, SavedStates, SavedTask
from .model.task_types import TaskTypes
from .plan_building import submitted_in

NAMED = 5  # tasks in one error


class NoExactSavepoint(WeirError):
    """A savepoint of this dataflow would not be of one moment, or would not have all of its states."""

    code = "no_exact_savepoint"


class SavepointDiffers(WeirError):
    """The dataflow's tasks are not those whose states the savepoint has."""

    code = "savepoint_differs"


@dataclass(frozen=True, slots=True)
class TaskBeginning:
    """The beginning of one task from a savepoint.

    ``begins`` is ``state`` (with its state of then), ``position`` (a source, with the next event of then), ``nothing``
    (it keeps no state) or ``refused`` (it is not the task that was saved); ``why`` says it in words that follow the
    task's id.
    """

    task: str
    begins: str
    why: str


def savepoint_of(
    estate: EstateView, dataflow: Dataflow, *, dataflow_id: str, task_types: TaskTypes
) -> tuple[str, dict[str, SavedIdentity]]:
    """The fragment whose query would leave the savepoint of a dataflow, and what its tasks with state and sources are.

    Parameters
    ----------
    dataflow : Dataflow
        As it runs, with its team's secrets (`scheduler.model.secrets.with_scoped_secrets`).

    Raises
    ------
    NotSubmitted
        The estate has no dataflow of that id.
    NoExactSavepoint
        Its states are not of one moment, or cannot be kept; the error names the tasks.
    """
    submitted = submitted_in(estate, dataflow_id)
    tasks = _saved_tasks(dataflow, task_types)
    if submitted.paused:
        raise NoExactSavepoint(
            f"{submitted.name} is paused, and a savepoint is taken by its query while it works.",
            remedy="Resume it first.")
    _refuse(
        [task.id for task in dataflow.tasks if submitted.running.get(task.id) is None],
        "is made from a wider task of others", "Submit a dataflow of its own without the team's containment.")
    _refuse([task.id for task in dataflow.tasks if is_dynamic(task.type)],
            "has alternates, and which of them is on is no part of a savepoint", "Use a task without alternates.")
    _refuse([task.id for task in tasks if task_types[task.type].connector is not None],
            "is a live source, and its events cannot be read again from a moment on",
            "Take savepoints of dataflows whose sources make or replay events.")
    _refuse([task.id for task in tasks if task_types[task.type].stateful and not task_types[task.type].movable_state],
            "keeps its state inside Spark, where it cannot be copied", "Use a task type with movable state.")
    places = {task.id: estate.places[submitted.running[task.id]] for task in tasks}
    fragments = sorted({fragment for fragment, _ in places.values()})
    if len(fragments) > 1:
        by_query = [[task for task, (name, _) in places.items() if name == fragment] for fragment in fragments]
        apart = "; ".join(_named(of_query) for of_query in by_query[:NAMED])
        raise NoExactSavepoint(
            f"Its sources and tasks with state are in {len(fragments)} queries ({apart}), whose states are of "
            "different moments.",
            remedy="Submit it so that they are one chain, without a schedule and without chain: never.",
            fragments=fragments)
    fragment = estate.fragments[fragments[0]]
    if fragment.divided:
        raise NoExactSavepoint(
            "Its query is divided over several slots, and their states are of different moments.",
            remedy="Submit it without a schedule.", fragments=fragments)
    return fragment.id, {
        task.id: SavedIdentity(submitted.running[task.id], *_identity(dataflow, task, task_types)) for task in tasks}


def restored(
    saved: SavedStates, dataflow: Dataflow, running: Mapping[str, str], *, task_types: TaskTypes
) -> dict[str, SavedTask]:
    """The beginnings of running tasks of a dataflow that begins from a savepoint; raises as `require_restorable`.

    Parameters
    ----------
    dataflow : Dataflow
        With its team's secrets.
    running : mapping of str to str
        The future running task of each task.
    """
    require_restorable(saved, dataflow, task_types=task_types)
    return {
        running[task]: SavedTask(saved.id, saved.fragment, identity.running) for task, identity in saved.tasks.items()}


def require_restorable(saved: SavedStates, dataflow: Dataflow, *, task_types: TaskTypes) -> None:
    """Raise unless a dataflow's sources and tasks with state are those of a savepoint.

    Raises
    ------
    SavepointDiffers
        A task is not in the savepoint, is another there, or is in the savepoint alone; the error says why of each.
    """
    differing = {
        beginning.task: beginning.why for beginning in beginnings(saved, dataflow, task_types)
        if beginning.begins == "refused"}
    if differing:
        raise SavepointDiffers(
            f"It cannot begin from savepoint {saved.name}: "
            f"{_named(f'{task} {reason}' for task, reason in differing.items())}.",
            remedy="Let these tasks be as they were when the savepoint was taken, or submit it without the savepoint.",
            tasks=differing)


def beginnings(saved: SavedStates, dataflow: Dataflow, task_types: TaskTypes) -> list[TaskBeginning]:
    """The beginning of each task of a dataflow from a savepoint, in the document's order; then what the savepoint alone
    has.
    """
    keeping = {task.id for task in _saved_tasks(dataflow, task_types)}
    of_dataflow = [_beginning(saved, dataflow, task, task_types) if task.id in keeping
                   else TaskBeginning(task.id, "nothing", "keeps no state") for task in dataflow.tasks]
    lacking = sorted(saved.tasks.keys() - keeping)
    return of_dataflow + [
        TaskBeginning(task, "refused", "is in the savepoint, and the dataflow has no such task with state or source")
        for task in lacking]


def beginning_note(saved: SavedStates, dataflow: Dataflow, task_types: TaskTypes) -> str:
    """The note for reviewers on a beginning from a savepoint: from which moment its states and events are, and which
    tasks begin without any."""
    moment = datetime.fromtimestamp(saved.at_ms / 1000, tz=UTC)
    tasks = beginnings(saved, dataflow, task_types)
    begun = _named(
        f"{beginning.task} {beginning.why}" for beginning in tasks if beginning.begins in ("state", "position"))
    stateless = _named(beginning.task for beginning in tasks if beginning.begins == "nothing")
    return (
        f"It begins from savepoint {saved.name}, taken {moment:%Y-%m-%d %H:%M:%S} UTC, on node {saved.node}: {begun}. "
        + (f"Without state: {stateless}. " if stateless else "")
        + "It shares no task with dataflows of another past.")


def identity_apart(dataflow_id: str, saved: SavedStates) -> str:
    """A part of the identity that separates the tasks of a dataflow that begins from a savepoint from those of another
    past."""
    return f"{dataflow_id}:{saved.id}"


def _saved_tasks(dataflow: Dataflow, task_types: TaskTypes) -> list[Task]:
    """The tasks that a savepoint is made of: sources, for their positions, and those that keep state."""
    return [task for task in dataflow.tasks
            if task_types[task.type].kind == "source" or task_types[task.type].stateful]


def _identity(dataflow: Dataflow, task: Task, task_types: TaskTypes) -> tuple[str, int, dict[str, object]]:
    task_type = task_types[task.type]
    config = identity_config(dataflow, task, task_type)
    return task_type.name, task_type.version, {name: value for name, value in config.items() if value is not None}


def _beginning(saved: SavedStates, dataflow: Dataflow, task: Task, task_types: TaskTypes) -> TaskBeginning:
    if difference := _difference(saved.tasks.get(task.id), dataflow, task, task_types):
        return TaskBeginning(task.id, "refused", difference)
    if task_types[task.type].kind == "source":
        return TaskBeginning(task.id, "position", f"goes on with event {saved.next_event or 0}, due when it starts")
    return TaskBeginning(task.id, "state", "begins with its state of then")


def _difference(saved: SavedIdentity | None, dataflow: Dataflow, task: Task, task_types: TaskTypes) -> str:
    """The reason why a task cannot continue its saved part, in words; empty where it can."""
    if saved is None:
        return "is not in the savepoint"
    kind, version, config = _identity(dataflow, task, task_types)
    if kind != saved.type:
        return f"is {kind}, and was {saved.type}"
    if version != saved.version:
        return f"has another version of {kind} than then ({version}, and was {saved.version})"
    others = sorted(name for name in config.keys() | saved.config.keys()
                    if config.get(name) != saved.config.get(name))
    return f"has another {', '.join(others)} than then" if others else ""


def _refuse(tasks: list[str], cause: str, remedy: str) -> None:
    if tasks:
        raise NoExactSavepoint(f"{_named(tasks)} {cause}.", remedy=remedy, tasks=tasks)


def _named(items: Iterable[str]) -> str:
    every = list(items)
    more = len(every) - NAMED
    return ", ".join(every[:NAMED]) + (f" and {more} more" if more > 0 else "")
