"""Named savepoints as plans know them: which tasks' states are kept where, and as of which moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class SavedTask(NamedTuple):
    """The location of a task's saved state: a named savepoint, the fragment that left that part of it, the running
    task."""

    savepoint: str
    fragment: str
    task: str


class SavedIdentity(NamedTuple):
    """The identity of a task when its state was saved: the running task, its type, the version of its logic, its
    config."""

    running: str
    type: str
    version: int
    config: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SavedStates:
    """A named savepoint that is whole: by task of the dataflow that it was taken of, its sources and stateful tasks.

    All were in one query, ``fragment``, so all are of one moment: ``at_ms``, in ms since the epoch. ``next_event`` is
    the number of the event with which its source goes on; None where it had not begun. The part is on ``node``.
    """

    id: str
    name: str
    node: str
    fragment: str
    at_ms: int
    next_event: int | None = None
    tasks: Mapping[str, SavedIdentity] = field(default_factory=dict)
