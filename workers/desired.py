"""The desired state of a node: built from the estate, published through the broker. Imports nothing of Spark.

The JSON is written down in docs/architecture.md ("Desired state of a node").
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import redis

from scheduler.model.estate import Estate, Fragment, channel_id
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
    inputs = [{"channel": channel_id(*estate.places[parent]), "task": parent} for parent in tasks[0].parents]
    return {
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
