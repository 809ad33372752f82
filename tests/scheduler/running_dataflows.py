"""The running dataflows of an estate, and which submitted dataflows each of them serves."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.model.estate import Estate
from scheduler.reuse.running import connected_parts


@dataclass(frozen=True, slots=True)
class RunningDataflow:
    """A merged graph that runs on behalf of one or more submitted dataflows.

    Its id, the least of its tasks', changes when it is merged or unmerged: it names a view, not a thing that is kept.
    """

    id: str
    tasks: tuple[str, ...]  # running task ids, sorted
    serves: tuple[str, ...]  # submitted dataflow ids, sorted


def running_dataflows(estate: Estate) -> tuple[RunningDataflow, ...]:
    """The running dataflows, largest first: the paper's decomposition of each into submitted ones is ``serves``.

    They are disjoint because equivalent tasks are one running task. A submitted dataflow is served by one running
    dataflow where it is connected itself, else by as many as it has parts.

    References
    ----------
    .. [1] Chaturvedi, Tyagi and Simmhan, "Collaborative Reuse of Streaming Dataflows in IoT Applications", 2017, 4.2.
    """
    parents = {task.id: task.parents for task in estate.tasks.values()}
    chains = (
        RunningDataflow(
            id=task_ids[0],
            tasks=task_ids,
            serves=tuple(sorted({user for task_id in task_ids for user in estate.users[task_id]})),
        )
        for task_ids in connected_parts(parents)
    )
    return tuple(sorted(chains, key=lambda running: (-len(running.tasks), running.id)))
