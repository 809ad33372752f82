"""Snapshots for tests of decisions: a source, a reader of it, and an heir of that."""

from __future__ import annotations

from dataclasses import replace

from scheduler.contracts.desired import DesiredState, Input, WantedFragment, WantedSlot
from scheduler.contracts.offsets import START, Offset
from scheduler.model.dataflow import Task
from scheduler.model.task_types import TaskType
from workers.engine.agents.reconciling import instructions as do
from workers.engine.agents.reconciling.reconcile import Actual, FragmentState
from workers.engine.agents.reconciling.snapshot import Snapshot
from workers.engine.channels.channel_info import ChannelInfo

TYPES = {"src": TaskType("src", "source", "", "a:b"), "add": TaskType("add", "transform", "", "a:b")}
SOURCE = WantedFragment("f1-0", (Task("s", "src"),), outlets={0: frozenset({"f1-1"})})
READER = WantedFragment("f1-1", (Task("a", "add"),), inputs=(Input("f1-0.0", "s"),))
HEIR = replace(READER, id="f2-0", inherits=("f1-1",))


def info(
    channel: str, *, last: Offset = START, readers: dict[str, Offset] | None = None, **rest: object
) -> ChannelInfo:
    return ChannelInfo(
        channel=channel, schema_json="{}", blocks=0, capacity=8, retain=0, fence=0, last=last, trimmed=START,
        rejected=0, duplicates=0, readers=readers or {}, **rest)


def wanting(*fragments: WantedFragment, outgoing: tuple[WantedFragment, ...] = ()) -> DesiredState:
    return DesiredState(
        generation=2, slots={"0": WantedSlot(fragments)}, handing_over={"0": outgoing} if outgoing else {})


def snapshot(fragment: WantedFragment, state: FragmentState = FragmentState.STOPPED, **facts: object) -> Snapshot:
    facts.setdefault("desired", wanting(fragment))
    return Snapshot(
        now_ms=60_000, actual=Actual(fragment.id, state), task_types=TYPES, running=fragment, **facts)


def of_kind(instructions: do.Instructions, kind: type) -> list:
    return [instruction for instruction in instructions if isinstance(instruction, kind)]
