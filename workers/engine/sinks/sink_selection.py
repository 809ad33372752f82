"""Selection of the sinks that a node is to write, from its desired state. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from scheduler.contracts.desired import DesiredState
from scheduler.model.dataflow import Task
from scheduler.model.task_types import TaskType
from workers.engine.passing import Passed


@dataclass(frozen=True, slots=True)
class WantedSink:
    """A sink: its task, the channel in which its events come, and how it passes between nodes."""

    task: Task
    channel: str
    passed: Passed = field(default_factory=Passed)


def wanted_sinks(
    desired: DesiredState, task_types: Mapping[str, TaskType], *, let_go: Collection[str] = ()
) -> dict[str, WantedSink]:
    """The sinks that a node's connector host writes, by channel. A paused sink still drains its channel."""
    sinks: dict[str, WantedSink] = {}
    for fragment in (*desired.wanted.values(), *desired.outgoing.values()):
        last = fragment.tasks[-1]
        if last.type in task_types and task_types[last.type].writer is not None:
            channel = fragment.channel(len(fragment.tasks) - 1)
            wanted_sink = sinks.get(channel, WantedSink(last, channel))
            sinks[channel] = replace(wanted_sink, passed=wanted_sink.passed.seen(desired, fragment))
    for node, heirs in desired.remote_heirs.items():
        for heir in heirs:
            wanted_sink = sinks.get(heir.channel(len(heir.tasks) - 1))
            if wanted_sink is not None:
                sinks[wanted_sink.channel] = replace(wanted_sink, passed=wanted_sink.passed.followed_by(heir.id, node))
    return {channel: sink for channel, sink in sinks.items() if not sink.passed.is_over(let_go)}
