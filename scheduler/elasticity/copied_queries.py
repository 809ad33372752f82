"""Queries with copies of their state on other nodes: those that repeat themselves exactly from a copy, and those that
are paused, which have nothing to repeat. Pure."""

from __future__ import annotations

from scheduler.contracts.desired import WantedFragment
from scheduler.contracts.reports import STAYS_OPEN
from scheduler.model.alternates import BY, alternates_in, in_waves, is_dynamic, learned_bound
from scheduler.model.behind import LOSE_OLDEST
from scheduler.model.dataflow import Task
from scheduler.model.node_parts import why_on_node
from scheduler.model.paths import AT_PORT
from scheduler.model.task_types import TaskTypes

# Why a query that is to be copied has fewer copies than it is to have, for now: words as of `why_not_copied`.
ON_ITS_WAY = "a copy is on its way"
TOO_FEW_NODES = "there are too few other nodes"
NO_ROOM = "no other node has room for it"
BEHIND = "it is behind, and others need its stream"
UNDONE = "its last batch is to be repeated on its node"  # of a paused reader of a live source, which passes over none
TOO_MUCH_COMES = "too much comes in between two copies"
NO_BATCH = "it has done no batch yet"  # so it has no state, and is to have no copy
CHANGING_HANDS = "its keys are changing hands"  # until others have begun with them, nobody goes on from a copy


def why_fewer(copies: int, *, chosen: int, others: int) -> str:
    """The reason why a query lacks some of so many copies, with so many ``chosen`` holders among all ``others`` that
    live."""
    if chosen >= copies:
        return ON_ITS_WAY
    return TOO_FEW_NODES if others <= chosen else NO_ROOM


def why_not_copied(fragment: WantedFragment, task_types: TaskTypes) -> str:
    """The reason why the state of a query is not copied, in words that follow "is not copied:"; empty where it is."""
    if not fragment.paused:
        if any(item.when_behind == LOSE_OLDEST for item in fragment.inputs):
            return "it loses the oldest events where it is behind"
        if reason := next(filter(None, map(_why_not_repeated, fragment.tasks)), ""):
            return reason
    for task in fragment.tasks:
        inner = (step for way in alternates_in(task.type, task.config) for step in way.tasks)
        for step in (task, *(step for step in inner if step.type not in AT_PORT)):
            if reason := _why_not(step, task_types, paused=fragment.paused):
                return reason
    return STAYS_OPEN if fragment.real_time and not fragment.paused else ""


def _why_not_repeated(task: Task) -> str:
    """The reason why a task with alternates may have others in a batch that is repeated."""
    if in_waves(task.type, task.config):
        return "its alternates switch in waves"
    if is_dynamic(task.type) and (task.config.get(BY) or learned_bound(task.type, task.config) is not None):
        return "its alternates are chosen by key"
    return ""


def _why_not(task: Task, task_types: TaskTypes, *, paused: bool) -> str:
    task_type = task_types.get(task.type)
    if task_type is None or not task_type.can_move:
        return f"the state of {task.type} cannot be handed to another query"
    if task_type.effects is None:
        return f"{task.type} does not say what it reaches beyond Weir"
    if reason := why_on_node(task_type, task.config):
        return f"{task.type} {reason} its node"
    if task.config.get("idle") and not paused:
        return f"{task.type} waits by the clock"
    return ""
