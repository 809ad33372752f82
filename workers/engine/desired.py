"""The desired state of a node: built from the estate, published through the broker. Imports nothing of Spark.

The JSON is written down in docs/architecture.md ("Desired state of a node").
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import redis

from scheduler.model.estate import Estate
from scheduler.model.fragment import Fragment, RunningBundle
from scheduler.model.task_types import TaskType
from workers.engine.channels import keys
from workers.engine.settings import DEFAULT_TRIGGER_MS

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
        for bundle in fragment.parts:
            bundle_node, _, index = bundle.slot.rpartition("/")
            if bundle_node == node:
                wanted = _wanted(estate, fragment, bundle, task_types, trigger_ms)
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
    estate: Estate, fragment: Fragment, bundle: RunningBundle, task_types: Mapping[str, TaskType], trigger_ms: int
) -> dict[str, Any]:
    # A paused tail is in the fragment still, though its tasks may have left the estate: the slot that started the
    # fragment keeps its own record of the whole chain.
    tasks = [estate.tasks[task_id] for task_id in fragment.tasks if task_id in estate.tasks]
    position = fragment.tasks.index
    wanted = {
        "id": bundle.id,
        "tasks": [{"id": task.id, "type": task_types[task.type].name, "config": dict(task.config)} for task in tasks],
        "inputs": [
            {"channel": channel, "task": parent, **({"ending": True} if writer.leaving else {})}
            for parent in tasks[0].parents
            for channel, writer in _read(estate, fragment, bundle, parent)
        ],
        "outlets": {
            str(position(task_id)): readers
            for task_id in fragment.outlets
            if (readers := _undivided(estate, fragment, task_id))
        },
        "active": fragment.active,
        "trigger_ms": trigger_ms,
    }
    further = {
        "threads": bundle.threads if bundle.threads > 1 else None,
        # One bundle goes on with what others leave; the rest begin anew.
        "inherits": list(fragment.inherits) if bundle.id == fragment.id else None,
        "channels": bundle.id == fragment.id and {
            str(position(task_id)): channel for task_id, channel in fragment.channels.items()},
        "heirs": _heirs(estate, fragment),
        "joins": _joins(estate, fragment),
        "routes": _routes(estate, fragment),
        "leaving": bundle.leaving,
        "writers": _writers(estate, fragment, bundle, tasks[0].parents) if bundle.leaving else None,
    }
    return wanted | {name: value for name, value in further.items() if value}


def _read(
    estate: Estate, fragment: Fragment, bundle: RunningBundle, parent: str
) -> Iterable[tuple[str, RunningBundle]]:
    """The channels in which a bundle reads a stream, and who writes them: parts where its fragment is divided."""
    channels = estate.channels_of(parent)
    own = [keys.part(channel, bundle.id) for channel in channels] if fragment.divided else channels
    return zip(own, estate.fragments[estate.places[parent][0]].parts, strict=True)


def _writers(
    estate: Estate, fragment: Fragment, bundle: RunningBundle, parents: Iterable[str]
) -> dict[str, list[str | int]]:
    """By channel that a bundle reads: who writes it, at which position, and for which divided fragment."""
    return {
        channel: [writer.id, estate.places[parent][1], fragment.id]
        for parent in parents for channel, writer in _read(estate, fragment, bundle, parent)
    }


def _undivided(estate: Estate, fragment: Fragment, task_id: str) -> list[str]:
    """The readers of a stream that read the whole of it."""
    return sorted(reader for reader in fragment.outlets[task_id] if not estate.fragments[reader].divided)


def _routes(estate: Estate, fragment: Fragment) -> dict[str, dict[str, dict[str, float]]]:
    """By position: the divided readers of the stream, and the part of it that each of their bundles gets."""
    routes: dict[str, dict[str, dict[str, float]]] = {}
    for task_id, readers in fragment.outlets.items():
        divided = [estate.fragments[reader] for reader in sorted(readers) if estate.fragments[reader].divided]
        if divided:
            routes[str(fragment.tasks.index(task_id))] = {
                reader.id: {bundle.id: bundle.weight for bundle in reader.bundles} for reader in divided
            }
    return routes


def _heirs(estate: Estate, fragment: Fragment) -> dict[str, list[str]]:
    """The fragment's readers that go on with the work of others, and of which: they take over their places."""
    readers = sorted({reader for readers in fragment.outlets.values() for reader in readers})
    return {reader: list(inherits) for reader in readers if (inherits := estate.fragments[reader].inherits)}


def _joins(estate: Estate, fragment: Fragment) -> dict[str, dict[str, str]]:
    """By position: the readers that do not begin there at the newest event, and where they do."""
    joins: dict[str, dict[str, str]] = {}
    for task_id in fragment.outlets:
        readers = _undivided(estate, fragment, task_id)
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
