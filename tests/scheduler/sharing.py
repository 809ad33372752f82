"""Sharing: who uses which running task, and what running it once saves against every dataflow running alone."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.model.estate import Estate


@dataclass(frozen=True, slots=True)
class Sharing:
    """What reuse saves in an estate. Cores are those that the tasks are expected to take, without their queries'."""

    tasks_alone: int  # running tasks if every submitted dataflow ran by itself
    tasks_running: int
    tasks_shared: int  # running tasks that serve more than one submitted dataflow
    cores_alone: float
    cores_running: float

    @property
    def tasks_saved(self) -> int:
        return self.tasks_alone - self.tasks_running

    @property
    def share_saved(self) -> float:
        """Tasks saved as a part of those that would run without reuse, 0 to 1."""
        return self.tasks_saved / self.tasks_alone if self.tasks_alone else 0.0


def sharing(estate: Estate) -> Sharing:
    """Running tasks against what they would be without reuse."""
    times_used = {task_id: len(users) for task_id, users in estate.users.items()}
    return Sharing(
        tasks_alone=sum(times_used.values()),
        tasks_running=len(estate.tasks),
        tasks_shared=sum(times > 1 for times in times_used.values()),
        cores_alone=sum(estate.tasks[task_id].cores * times for task_id, times in times_used.items()),
        cores_running=sum(task.cores for task in estate.tasks.values()),
    )


def shared_with(estate: Estate, dataflow_id: str) -> dict[str, tuple[str, ...]]:
    """For each task of a submitted dataflow, the other submitted dataflows that use the same running task."""
    return {
        task_id: tuple(user for user in estate.users[running_id] if user != dataflow_id)
        for task_id, running_id in estate.submitted[dataflow_id].running.items()
    }
