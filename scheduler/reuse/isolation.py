"""Isolation: where a query is cut that one team's slow task holds up, so that others go on at their rate.

A chain runs as one Spark query, so all of its tasks are as fast as the slowest. Those who need the tasks upstream of it
and not the task itself must not wait for it: the chain is cut in front of what only the slow task's users need, by a
handover, and the slow part reads a channel as any slow reader does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scheduler.model.checks import FiniteFigures
from scheduler.model.fragment import Fragment
from scheduler.model.ports import EstateView
from scheduler.model.task_types import TaskTypes

from .cutting import why_fused
from .division import is_scheduled

DOMINANT = 0.5  # of a chain's latency: what one task adds at least where the chain is slow because of it


@dataclass(frozen=True, slots=True)
class Cut:
    """A chain to be cut in front of its ``position``-th task, because of the ``slow``-th one; or ``why_not``."""

    fragment: str
    position: int
    slow: int
    why_not: str = ""


@dataclass(frozen=True, slots=True)
class SlowTask(FiniteFigures):
    """A task that makes a query slow: its place there, what it adds to an event's latency, and that latency (ms)."""

    fragment: Fragment
    position: int
    added_ms: float
    latency_ms: float

    @property
    def task(self) -> str:
        """The running task."""
        return self.fragment.tasks[self.position]


def is_needed_in_part(estate: EstateView, fragment: Fragment) -> bool:
    """True if a fragment is a chain of which some dataflows need the first tasks, and not the last."""
    if fragment.active < 2 or fragment.divided:
        return False
    return _working_users(estate, fragment.tasks[0]) != _working_users(estate, fragment.active_tasks[-1])


def slow_task(fragment: Fragment, latency_ms: Sequence[float | None], *, least_ms: float) -> SlowTask | None:
    """The task that makes a chain slow, by `slowest_task`; None if it is the first, before which nothing can be cut
    off."""
    position = slowest_task(latency_ms, least_ms=least_ms)
    if not position:
        return None
    after_ms, before_ms = latency_ms[position] or 0.0, latency_ms[position - 1] or 0.0
    return SlowTask(fragment, position, after_ms - before_ms, latency_ms[-1] or 0.0)


def slowest_task(latency_ms: Sequence[float | None], *, least_ms: float) -> int | None:
    """The position in a chain of the task that makes it slow.

    Parameters
    ----------
    latency_ms : sequence of float
        Median latency of events since their source, behind each task; None where it is not measured.
    least_ms : float
        The least time that a task must add, in ms; less is no reason for a chain to fall behind.

    Returns
    -------
    int or None
        None where no task adds that much and at least half of all, as on a slot that has too much to do: cutting would
        not help there.
    """
    if not latency_ms or any(value is None for value in latency_ms):
        return None
    values = [value for value in latency_ms if value is not None]
    added = [after - before for before, after in zip([values[0], *values], values, strict=False)]
    slow = max(range(len(added)), key=lambda position: (added[position], -position))
    return slow if added[slow] >= max(least_ms, DOMINANT * values[-1]) else None


def cut_for_others(estate: EstateView, fragment: Fragment, *, slow: int, task_types: TaskTypes) -> Cut | None:
    """The cut of a chain before its slow task, so that other users are not held back.

    Returns
    -------
    Cut or None
        In front of the first task that only users of the slow one need; with ``why_not`` where the chain cannot be cut.
        None where all who need the chain need the slow task.
    """
    users = [_working_users(estate, task_id) for task_id in fragment.active_tasks]
    position = next(index for index, count in enumerate(users) if count == users[slow])
    if position == 0:
        return None
    if is_scheduled(estate, fragment):
        return Cut(fragment.id, position, slow, "a schedule says how that query runs")
    return Cut(fragment.id, position, slow, why_fused(estate, fragment, task_types=task_types))


def _working_users(estate: EstateView, task_id: str) -> int:
    users = estate.users_of(task_id)
    return users.count - users.paused
