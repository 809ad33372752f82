"""What a slot is wanted to run: the desired state of a node, read from JSON into frozen values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from scheduler.model.dataflow import Task
from scheduler.model.fragment import channel_id
from workers.engine.settings import DEFAULT_TRIGGER_MS

Outlets = Mapping[int, frozenset[str]]  # position in the chain -> fragments that read there
Weights = Mapping[str, float]  # bundle -> its part of the events
Routes = Mapping[int, Mapping[str, Weights]]  # position in the chain -> divided fragment that reads there -> weights


@dataclass(frozen=True, slots=True)
class Input:
    """A channel that a fragment reads, and the running task whose stream it carries.

    It is ``ending`` where its writer is leaving: a reader that has not begun need not wait for it.
    """

    channel: str
    task: str
    ending: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Writer:
    """Who writes a channel: a fragment, the position of the task, and the divided fragment that it is routed for."""

    fragment: str
    position: int
    reader: str


@dataclass(frozen=True, slots=True)
class WantedFragment:
    """One fragment as it should be, or one bundle of a divided one: what one query runs.

    Inputs of the same task are one stream that comes in several channels. ``inherits`` are the fragments whose work it
    goes on with, ``channels`` (by position) those of theirs that it goes on writing. ``heirs`` are its readers that go
    on with the work of others, and of which; ``joins`` says, by position, where a reader begins that does not begin at
    the newest event. ``outlets`` are readers of the whole stream, ``routes`` those that are divided. A bundle that is
    ``leaving`` reads what it has to its end, and goes: ``writers`` says who wrote it.
    """

    id: str
    tasks: tuple[Task, ...]
    inputs: tuple[Input, ...] = ()
    outlets: Outlets = field(default_factory=dict)
    active: int = 1
    trigger_ms: int = DEFAULT_TRIGGER_MS
    inherits: tuple[str, ...] = ()
    channels: Mapping[int, str] = field(default_factory=dict)
    heirs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    joins: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    threads: int = 1
    routes: Routes = field(default_factory=dict)
    leaving: bool = False
    writers: Mapping[str, Writer] = field(default_factory=dict)  # by channel

    @property
    def paused(self) -> bool:
        """Whether it keeps its state and does nothing."""
        return self.active == 0

    @property
    def written(self) -> tuple[str, ...]:
        """The channel of each of its streams."""
        return tuple(self.channel(position) for position in range(len(self.tasks)))

    def channel(self, position: int) -> str:
        """The channel of the stream that leaves the task at ``position``."""
        return self.channels.get(position) or channel_id(self.id, position)

    @property
    def streams(self) -> tuple[tuple[str, ...], ...]:
        """What it reads: for each stream its channels."""
        channels: dict[str, list[str]] = {}
        for item in self.inputs:
            channels.setdefault(item.task, []).append(item.channel)
        return tuple(tuple(group) for group in channels.values())

    def predecessors(self, readers: Iterable[str]) -> frozenset[str]:
        """Those whose work these readers go on with."""
        return frozenset(name for reader in readers for name in self.heirs.get(reader, ()))


@dataclass(frozen=True)
class Desired:
    """The desired state of a node: fragments by slot, upstream first; and those that come to an end for others."""

    version: int = 0
    generation: int = 0
    slots: Mapping[str, tuple[WantedFragment, ...]] = field(default_factory=dict)
    handing_over: Mapping[str, tuple[WantedFragment, ...]] = field(default_factory=dict)

    def of_slot(self, slot: str) -> tuple[WantedFragment, ...]:
        """What one slot should run."""
        return self.slots.get(slot, ())

    @cached_property
    def wanted(self) -> Mapping[str, WantedFragment]:
        """What the node should run, by fragment id."""
        return _by_id(self.slots)

    @cached_property
    def ceding(self) -> Mapping[str, WantedFragment]:
        """What the node should bring to an end for others to go on with, by fragment id."""
        return _by_id(self.handing_over)

    def elsewhere(self, slot: str) -> frozenset[str]:
        """Fragments that another slot of this node should run: leaving here, they keep their checkpoint."""
        return frozenset(
            fragment.id for name, fragments in self.slots.items() if name != slot for fragment in fragments
        )


def parse_desired(document: Mapping[str, Any]) -> Desired:
    """The values of a desired state's JSON (docs/architecture.md)."""
    return Desired(
        version=document["version"],
        generation=document.get("generation", 0),
        slots={
            name: tuple(parse_fragment(fragment) for fragment in slot["fragments"])
            for name, slot in document["slots"].items()
        },
        handing_over={
            name: tuple(parse_fragment(fragment) for fragment in fragments)
            for name, fragments in document.get("handing_over", {}).items()
        },
    )


def parse_fragment(document: Mapping[str, Any]) -> WantedFragment:
    """One fragment of a desired state's JSON."""
    return WantedFragment(
        id=document["id"],
        tasks=tuple(Task(id=task["id"], type=task["type"], config=task["config"]) for task in document["tasks"]),
        inputs=tuple(Input(**item) for item in document["inputs"]),
        outlets={int(position): frozenset(readers) for position, readers in document["outlets"].items() if readers},
        active=document["active"],
        trigger_ms=document.get("trigger_ms", DEFAULT_TRIGGER_MS),
        inherits=tuple(document.get("inherits", ())),
        channels={int(position): channel for position, channel in document.get("channels", {}).items()},
        heirs={reader: tuple(names) for reader, names in document.get("heirs", {}).items()},
        joins={int(position): dict(asked) for position, asked in document.get("joins", {}).items()},
        threads=document.get("threads", 1),
        routes={
            int(position): {reader: dict(weights) for reader, weights in readers.items()}
            for position, readers in document.get("routes", {}).items()
        },
        leaving=document.get("leaving", False),
        writers={channel: Writer(*writer) for channel, writer in document.get("writers", {}).items()},
    )


def fragment_document(fragment: WantedFragment) -> dict[str, Any]:
    """The JSON of one fragment; ``parse_fragment`` reads it back."""
    return {
        "id": fragment.id,
        "tasks": [{"id": task.id, "type": task.type, "config": dict(task.config)} for task in fragment.tasks],
        "inputs": [
            {"channel": item.channel, "task": item.task, **({"ending": True} if item.ending else {})}
            for item in fragment.inputs
        ],
        "outlets": {str(position): sorted(readers) for position, readers in fragment.outlets.items()},
        "active": fragment.active,
        "trigger_ms": fragment.trigger_ms,
        "inherits": list(fragment.inherits),
        "channels": {str(position): channel for position, channel in fragment.channels.items()},
        "heirs": {reader: list(names) for reader, names in fragment.heirs.items()},
        "joins": {str(position): dict(asked) for position, asked in fragment.joins.items()},
        "threads": fragment.threads,
        "routes": {
            str(position): {reader: dict(weights) for reader, weights in readers.items()}
            for position, readers in fragment.routes.items()
        },
        "leaving": fragment.leaving,
        "writers": {
            channel: [writer.fragment, writer.position, writer.reader] for channel, writer in fragment.writers.items()
        },
    }


def made_in(fragment_id: str) -> int:
    """The generation of the estate in which a fragment or bundle was planned; 0 where its id does not say so."""
    found = re.match(r"f(\d+)-", fragment_id)
    return int(found[1]) if found else 0


def _by_id(slots: Mapping[str, tuple[WantedFragment, ...]]) -> Mapping[str, WantedFragment]:
    return {fragment.id: fragment for fragments in slots.values() for fragment in fragments}
