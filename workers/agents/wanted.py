"""What a slot is wanted to run: the desired state of a node, read from JSON into frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from scheduler.model.dataflow import Task
from scheduler.model.estate import channel_id
from workers.settings import DEFAULT_TRIGGER_MS

Outlets = Mapping[int, frozenset[str]]  # position in the chain -> fragments that read there


@dataclass(frozen=True, slots=True)
class Input:
    """A channel that a fragment reads, and the running task whose stream it carries."""

    channel: str
    task: str


@dataclass(frozen=True, slots=True)
class WantedFragment:
    """One fragment as it should be."""

    id: str
    tasks: tuple[Task, ...]
    inputs: tuple[Input, ...] = ()
    outlets: Outlets = field(default_factory=dict)
    active: int = 1
    trigger_ms: int = DEFAULT_TRIGGER_MS

    def channel(self, position: int) -> str:
        """The channel of the stream that leaves the task at ``position``."""
        return channel_id(self.id, position)


@dataclass(frozen=True, slots=True)
class Desired:
    """The desired state of a node: fragments by slot, upstream first."""

    version: int = 0
    generation: int = 0
    slots: Mapping[str, tuple[WantedFragment, ...]] = field(default_factory=dict)

    def of_slot(self, slot: str) -> tuple[WantedFragment, ...]:
        """What one slot should run."""
        return self.slots.get(slot, ())

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
    )


def parse_fragment(document: Mapping[str, Any]) -> WantedFragment:
    """One fragment of a desired state's JSON."""
    return WantedFragment(
        id=document["id"],
        tasks=tuple(Task(id=task["id"], type=task["type"], config=task["config"]) for task in document["tasks"]),
        inputs=tuple(Input(channel=item["channel"], task=item["task"]) for item in document["inputs"]),
        outlets={int(position): frozenset(readers) for position, readers in document["outlets"].items() if readers},
        active=document["active"],
        trigger_ms=document.get("trigger_ms", DEFAULT_TRIGGER_MS),
    )


def fragment_document(fragment: WantedFragment) -> dict[str, Any]:
    """The JSON of one fragment; ``parse_fragment`` reads it back."""
    return {
        "id": fragment.id,
        "tasks": [{"id": task.id, "type": task.type, "config": dict(task.config)} for task in fragment.tasks],
        "inputs": [{"channel": item.channel, "task": item.task} for item in fragment.inputs],
        "outlets": {str(position): sorted(readers) for position, readers in fragment.outlets.items()},
        "active": fragment.active,
        "trigger_ms": fragment.trigger_ms,
    }
