"""The ids of a trial's tasks, and the folders of those that archive events.

Running tasks are called by their fingerprints: nothing of theirs is in these folders.
"""

from __future__ import annotations

from scheduler.contracts.trials import TrialOrder
from scheduler.model.task_types import TaskType, TaskTypes
from workers.library.sinks import FOLDER

MEASURED = "measured"


def feeding(number: int) -> str:
    """The task at a place of the chain that makes the events."""
    return f"feed-{number}"


def warming(number: int) -> str:
    """The task at a place of a chain that warms the driver up."""
    return f"warm-{number}"


def folders(order: TrialOrder, task_types: TaskTypes) -> list[str]:
    """The folders that the tasks of a trial may write, below that of outputs."""
    tasks = [(MEASURED, order.task_type, order.config)]
    for number, task in enumerate(order.feed):
        tasks += [(name(number), task["type"], task.get("config", {})) for name in (feeding, warming)]
    return [
        f"{config[FOLDER.name]}-{name}" for name, task_type, config in tasks
        if FOLDER.name in config and _archives(task_types.get(task_type))]


def _archives(task_type: TaskType | None) -> bool:
    return task_type is not None and task_type.parameter(FOLDER.name) == FOLDER
