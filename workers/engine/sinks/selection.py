"""Which sinks a node is to write, from its desired state. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from scheduler.contracts.desired import DesiredState
from scheduler.model.dataflow import Task
from scheduler.model.task_types import TaskType


@dataclass(frozen=True, slots=True)
class WantedSink:
    """A sink: its task, and the channel in which its events come."""

    task: Task
    channel: str


def wanted_sinks(desired: DesiredState, task_types: Mapping[str, TaskType]) -> dict[str, WantedSink]:
    """The sinks that a node's connector host writes, by channel; one that is paused writes what is there still."""
    sinks = {}
    for fragment in (*desired.wanted.values(), *desired.outgoing.values()):
        last = fragment.tasks[-1]
        if last.type in task_types and task_types[last.type].writer is not None:
            channel = fragment.channel(len(fragment.tasks) - 1)
            sinks[channel] = WantedSink(last, channel)
    return sinks
