"""The desired state of a node: built from the estate, published through the broker. Imports nothing of Spark.

The JSON is written down in docs/architecture.md ("Desired state of a node").
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import redis

from scheduler.model.estate import Estate, Fragment
from scheduler.model.task_types import TaskType
from workers.channels import keys
from workers.settings import DEFAULT_TRIGGER_MS

# An older state never replaces a newer one, whichever of two publishers comes last.
_PUBLISH = """
local current = redis.call('GET', KEYS[1])
if current and cjson.decode(current).version > tonumber(ARGV[1]) then return 0 end
redis.call('SET', KEYS[1], ARGV[2])
redis.call('PUBLISH', ARGV[3], ARGV[4])
return 1
"""


def desired_of(
    estate: Estate, node: str, task_types: Mapping[str, TaskType], trigger_ms: int = DEFAULT_TRIGGER_MS
) -> dict[str, Any]:
    """What the estate wants of one node.

    Parameters
    ----------
    estate : Estate
        The estate at the generation to publish; its generation becomes the version.
    node : str
        The node's name; slots of other nodes are left out.
    task_types : Mapping[str, TaskType]
        The catalogue; every type that runs must be in it.
    trigger_ms : int
        Interval between the micro-batches of each query.

    Returns
    -------
    dict
        JSON-serialisable, fragments upstream first within each slot.

    Raises
    ------
    KeyError
        A fragment reads a task that no fragment runs, or a task's type is not in the catalogue.
    """
    slots: dict[str, dict[str, list]] = {
        str(slot.index): {"fragments": []} for slot in estate.slots if slot.node == node
    }
    for fragment in _upstream_first(estate):
        fragment_node, _, index = fragment.slot.rpartition("/")
        if fragment_node == node:
            wanted = _wanted(estate, fragment, task_types, trigger_ms)
            slots.setdefault(index, {"fragments": []})["fragments"].append(wanted)
    return {"version": estate.generation, "node": node, "generation": estate.generation, "slots": slots}


def publish(broker: redis.Redis, node: str, desired: Mapping[str, Any]) -> bool:
    """Store a node's desired state and wake its agent; False where a newer version stands already."""
    text = json.dumps(desired, sort_keys=True)
    return bool(broker.eval(_PUBLISH, 1, keys.desired(node), desired["version"], text, keys.PUSH, node))


def read(broker: redis.Redis, node: str) -> dict[str, Any] | None:
    """The desired state of a node as it stands in the broker, or None."""
    text = broker.get(keys.desired(node))
    return json.loads(text) if text else None


def _wanted(
    estate: Estate, fragment: Fragment, task_types: Mapping[str, TaskType], trigger_ms: int
) -> dict[str, Any]:
    # A paused tail is in the fragment still, though its tasks may have left the estate: the slot that started the
    # fragment keeps its own record of the whole chain.
    tasks = [estate.tasks[task_id] for task_id in fragment.tasks if task_id in estate.tasks]
    inputs = [{"channel": estate.channel_of(parent), "task": parent} for parent in tasks[0].parents]
    wanted = {
        "id": fragment.id,
        "tasks": [{"id": task.id, "type": task_types[task.type].name, "config": dict(task.config)} for task in tasks],
        "inputs": inputs,
        "outlets": {
            str(fragment.tasks.index(task_id)): sorted(readers)
            for task_id, readers in fragment.outlets.items()
            if readers
        },
        "active": fragment.active,
        "trigger_ms": trigger_ms,
    }
    position = fragment.tasks.index
    further = {
        "inherits": list(fragment.inherits),
        "channels": {str(position(task_id)): channel for task_id, channel in fragment.channels.items()},
        "heirs": _heirs(estate, fragment),
        "joins": _joins(estate, fragment),
    }
    return wanted | {name: value for name, value in further.items() if value}


def _heirs(estate: Estate, fragment: Fragment) -> dict[str, list[str]]:
    """The fragment's readers that go on with the work of others, and of which: they take over their places."""
    readers = sorted({reader for readers in fragment.outlets.values() for reader in readers})
    return {reader: list(inherits) for reader in readers if (inherits := estate.fragments[reader].inherits)}


def _joins(estate: Estate, fragment: Fragment) -> dict[str, dict[str, str]]:
    """By position: the readers that do not begin there at the newest event, and where they do."""
    joins: dict[str, dict[str, str]] = {}
    for task_id, readers in fragment.outlets.items():
        asked = {reader: estate.fragments[reader].joins.get(task_id, "now") for reader in readers}
        if later := {reader: where for reader, where in asked.items() if where != "now"}:
            joins[str(fragment.tasks.index(task_id))] = later
    return joins


def keep_handing_over(document: Mapping[str, Any], before: Mapping[str, Any] | None) -> dict[str, Any]:
    """The desired state, and beside it (``handing_over``, by slot) the fragments that it lets go and others go on with.

    They are no longer wanted, but must come to a clean end before they go: how they ran is kept while any fragment
    names them, though it be one that itself hands over.
    """
    if before is None:
        return dict(document)
    wanted = {fragment["id"]: fragment for slot in document["slots"].values() for fragment in slot["fragments"]}
    ran = {name: slot["fragments"] for name, slot in before["slots"].items()}
    known = {
        fragment["id"]: (slot, fragment)
        for parts in (before.get("handing_over", {}), ran)
        for slot, fragments in parts.items()
        for fragment in fragments
    }
    kept: dict[str, list[Mapping[str, Any]]] = {}
    named = [name for fragment in wanted.values() for name in fragment.get("inherits", ())]
    seen = set(wanted)
    while named:
        name = named.pop()
        if name in seen or name not in known:
            continue
        seen.add(name)
        slot, fragment = known[name]
        kept.setdefault(slot, []).append(fragment)
        named += fragment.get("inherits", ())
    handing_over = {slot: sorted(fragments, key=lambda one: one["id"]) for slot, fragments in sorted(kept.items())}
    return {**document, "handing_over": handing_over} if handing_over else dict(document)


def _upstream_first(estate: Estate) -> list[Fragment]:
    """Fragments in an order in which every one comes after those that it reads; ties by id, so that it is stable."""
    readers = {
        fragment.id: {reader for names in fragment.outlets.values() for reader in names}
        for fragment in estate.fragments.values()
    }
    placed: list[str] = []
    remaining = sorted(estate.fragments)
    while remaining:
        blocked = set().union(*(readers[fragment_id] for fragment_id in remaining))
        ready = [fragment_id for fragment_id in remaining if fragment_id not in blocked]
        if not ready:
            raise ValueError(f"fragments read one another in a circle: {', '.join(remaining)}")
        placed += ready
        remaining = [fragment_id for fragment_id in remaining if fragment_id in blocked]
    return [estate.fragments[fragment_id] for fragment_id in placed]
