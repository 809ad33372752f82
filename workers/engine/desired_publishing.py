"""The desired state of a node: built from the estate, published through the broker. Imports nothing of Spark.

The values are in ``scheduler.contracts.desired``, their JSON Schema by ``scheduler.contracts.contract_schemas``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from types import MappingProxyType

import redis

from scheduler.contracts.desired import (
    DEFAULT_TRIGGER_MS,
    DESIRED_STATES,
    ChannelWriter,
    DesiredState,
    Input,
    WantedFragment,
    WantedSlot,
)
from scheduler.contracts.partitioning import Quota
from scheduler.model.alternates import is_dynamic, working_in
from scheduler.model.behind import Needed, needs_in
from scheduler.model.dataflow import Task
from scheduler.model.estate import Estate, fragments_upstream_first
from scheduler.model.fragment import Fragment, RunningBundle, RunningTask, Slot, channel_id, node_of
from scheduler.model.ring import Ring
from scheduler.model.settings_of_fragments import USUAL
from scheduler.model.task_types import TaskType
from workers.engine.broker_room import EVEN_WHERE_FULL
from workers.engine.channels import keys

# An older state never replaces a newer one, whichever of two publishers comes last.
_PUBLISH = EVEN_WHERE_FULL + """
local current = redis.call('GET', KEYS[1])
if current then
  local stands = cjson.decode(current)
  local version, revision = tonumber(ARGV[1]), tonumber(ARGV[2])
  if stands.version > version then return 0 end
  if stands.version == version and (stands.revision or 0) > revision then return 0 end
end
redis.call('SET', KEYS[1], ARGV[3])
redis.call('PUBLISH', ARGV[4], ARGV[5])
return 1
"""


def desired_of(
    estate: Estate, node: str, task_types: Mapping[str, TaskType], trigger_ms: int = DEFAULT_TRIGGER_MS,
    needs: Mapping[str, Needed] | None = None, saving: Mapping[str, Sequence[str]] = MappingProxyType({}),
    kept_savepoints: Sequence[str] | None = None,
) -> DesiredState:
    """The desired state of one node, by the estate.

    Parameters
    ----------
    estate : Estate
        The estate to publish; its generation becomes the version, and its revision the revision.
    task_types : Mapping[str, TaskType]
        The catalogue; every type that runs must be in it.
    trigger_ms : int
        Interval between the micro-batches of each query that has none of its own.
    needs : mapping of str to Needed, optional
        The dataflows that need the first task of each fragment; by default told by the estate's dataflows, which a part
        of it lacks.
    saving : mapping of str to sequence of str, optional
        By fragment: the named savepoints that its query is to leave.
    kept_savepoints : sequence of str, optional
        The named savepoints of which the node keeps its parts; None: it is told nothing of them.

    Returns
    -------
    DesiredState
        Fragments upstream first within each slot.

    Raises
    ------
    KeyError
        A fragment reads a task that no fragment runs, or a task's type is not in the catalogue.
    """
    needed = needs_in(estate) if needs is None else needs
    slots: dict[str, list[WantedFragment]] = {str(slot.index): [] for slot in estate.slots if slot.node == node}
    for fragment_id in fragments_upstream_first(estate):
        fragment = estate.fragments[fragment_id]
        for bundle in fragment.queries:
            slot = Slot.of(bundle.slot)
            if slot.node == node:
                wanted_fragment = _wanted_fragment(estate, fragment, bundle, task_types, trigger_ms)
                slots.setdefault(str(slot.index), []).append(replace(
                    wanted_fragment, inputs=_with_terms(estate, fragment, wanted_fragment.inputs, needed),
                    savepoints=tuple(saving.get(bundle.id, ()))))
    heirs: dict[str, list[WantedFragment]] = {}
    for fragment in sorted(estate.fragments.values(), key=lambda fragment: fragment.id):
        for bundle in fragment.queries:
            _, origin = fragment.inherited_by(bundle)
            if origin == node != node_of(bundle.slot):
                wanted_fragment = _wanted_fragment(estate, fragment, bundle, task_types, trigger_ms)
                heirs.setdefault(node_of(bundle.slot), []).append(wanted_fragment)
    return DesiredState(
        version=estate.generation, revision=estate.revision, node=node, generation=estate.generation,
        remote_heirs={node: tuple(fragments) for node, fragments in heirs.items()},
        slots={index: WantedSlot(tuple(fragments)) for index, fragments in slots.items()},
        takers=tuple(_takers(estate, node)),
        kept_savepoints=None if kept_savepoints is None else tuple(kept_savepoints))


def publish(broker: redis.Redis, desired: DesiredState) -> bool:
    """Store a node's desired state and wake its agent; False where a newer version stands already."""
    text = DESIRED_STATES.dumps(desired)
    return bool(broker.eval(
        _PUBLISH, 1, keys.desired(desired.node), desired.version, desired.revision, text, keys.PUSH, desired.node))


def read(broker: redis.Redis, node: str) -> DesiredState | None:
    """The desired state of a node as it stands in the broker, or None.

    Raises
    ------
    InvalidContract
        What stands there is none.
    """
    text = broker.get(keys.desired(node))
    return DESIRED_STATES.loads(text) if text else None


def stands(broker: redis.Redis, desired: DesiredState) -> bool:
    """True where just this is the desired state of its node in the broker."""
    text = broker.get(keys.desired(desired.node))
    return text is not None and text.decode() == DESIRED_STATES.dumps(desired)


def texts(broker: redis.Redis, nodes: Sequence[str]) -> list[bytes | None]:
    """The texts of desired states that the broker has for these nodes."""
    return broker.mget([keys.desired(node) for node in nodes]) if nodes else []


def _wanted_fragment(
    estate: Estate, fragment: Fragment, bundle: RunningBundle, task_types: Mapping[str, TaskType], trigger_ms: int
) -> WantedFragment:
    # A paused tail is in the fragment still, though its tasks may have left the estate: the slot that started the
    # fragment keeps its own record of the whole chain.
    tasks = [estate.tasks[task_id] for task_id in fragment.tasks if task_id in estate.tasks]
    position = fragment.tasks.index
    inherits, origin = fragment.inherited_by(bundle)
    settings = estate.settings.get(fragment.id, USUAL)
    return WantedFragment(
        id=bundle.id,
        tasks=tuple(Task(task.id, task_types[task.type].name, dict(task.config)) for task in tasks),
        inputs=_inputs(estate, fragment, bundle, tasks[0], task_types),
        outlets={
            position(task_id): frozenset(_undivided(estate, fragment, task_id)) for task_id in fragment.outlets},
        active=fragment.active,
        trigger_ms=trigger_ms if settings.trigger_ms is None else settings.trigger_ms,
        real_time=settings.real_time,
        alternates={
            position(task.id): working_in(task.type, task.config, settings.alternates.get(task.id)) for task in tasks
            if is_dynamic(task.type)},
        threads=bundle.threads,
        inherits=inherits,
        origin=origin,
        channels=_taken_over(fragment, bundle),
        heirs=_heirs(estate, fragment),
        joins=_joins(estate, fragment),
        routes=_routes(estate, fragment, task_types),
        part_readers={
            part.part: part.id for readers in fragment.outlets.values() for reader in readers
            for part in estate.fragments[reader].bundles if part.part != part.id},
        leaving=bundle.leaving,
        key_ranges=bundle.key_ranges if bundle.takes_keys else (),
        takes={giver: ranges for giver, ranges in bundle.taken.items() if ranges != bundle.key_ranges},
        remote_givers=tuple(giver.id for giver, taker in fragment.far_takers if taker is bundle)
        if bundle.takes_keys else (),
        writers=_writers(estate, fragment, bundle, tasks[0].parents)
        if bundle.leaving or any(bundle.id in sibling.taken for sibling in fragment.bundles) else {},
        restores=settings.restores,
    )


def _takers(estate: Estate, node: str) -> Iterator[WantedFragment]:
    """The bundles of other nodes that take keys of this one's, as the givers need to know them."""
    for fragment in sorted(estate.fragments.values(), key=lambda fragment: fragment.id):
        takers: dict[str, list[str]] = {}
        for giver, taker in fragment.far_takers:
            if node_of(giver.slot) == node:
                takers.setdefault(taker.id, []).append(giver.id)
        for bundle in fragment.bundles:
            if givers := takers.get(bundle.id):
                yield WantedFragment(
                    bundle.id, (), inherits=tuple(givers), key_ranges=bundle.key_ranges,
                    takes={giver: bundle.taken[giver] for giver in givers})


def _taken_over(fragment: Fragment, bundle: RunningBundle) -> dict[int, str]:
    """By position: the streams that stay in a channel that is not named after the bundle."""
    channels = {position: fragment.channel_by(bundle, task_id) for position, task_id in enumerate(fragment.tasks)}
    return {
        position: channel for position, channel in channels.items() if channel != channel_id(bundle.id, position)}


def _inputs(
    estate: Estate, fragment: Fragment, bundle: RunningBundle, head: RunningTask, task_types: Mapping[str, TaskType]
) -> tuple[Input, ...]:
    """What a bundle reads: the streams of others, or, of a live source, what its connector writes."""
    if task_types[head.type].connector is not None:
        return (Input(keys.intake(head.id), head.id),)
    inputs: list[Input] = []
    for parent in head.parents:
        writers, above = estate.read_by(fragment, bundle, parent), estate.fragments[estate.places[parent][0]]
        by_writer = {writer.id: channel for channel, writer in writers.items()}
        inputs += [
            Input(channel, parent, writer.leaving,
                  after=tuple(by_writer[earlier.id] for earlier in above.before(writer)))
            for channel, writer in writers.items()]
    return tuple(inputs)


def _with_terms(
    estate: Estate, fragment: Fragment, inputs: Iterable[Input], needs: Mapping[str, Needed]
) -> tuple[Input, ...]:
    """Inputs with what becomes of a slow reader, where dataflows that do not need it need their writers."""
    needed = needs.get(fragment.tasks[0], Needed())
    terms = {"shared": True, "when_behind": needed.when_behind, "teams": needed.teams}
    return tuple(
        replace(item, **terms) if _needed_by(estate, item.task, needs).dataflows > needed.dataflows else item
        for item in inputs)


def _needed_by(estate: Estate, task_id: str, needs: Mapping[str, Needed]) -> Needed:
    """Who needs the fragment that writes a task's stream, or a task of it: whoever reads it is among them."""
    return needs.get(estate.fragments[estate.places[task_id][0]].tasks[0], Needed())


def _writers(
    estate: Estate, fragment: Fragment, bundle: RunningBundle, parents: Iterable[str]
) -> dict[str, ChannelWriter]:
    """By channel that a bundle reads: who writes it, at which position, and for which divided fragment."""
    return {
        channel: ChannelWriter(writer.id, estate.places[parent][1], fragment.id)
        for parent in parents for channel, writer in estate.read_by(fragment, bundle, parent).items()
    }


def _undivided(estate: Estate, fragment: Fragment, task_id: str) -> list[str]:
    """The readers of a stream that read the whole of it."""
    return sorted(reader for reader in fragment.outlets[task_id] if not estate.fragments[reader].divided)


def _routes(
    estate: Estate, fragment: Fragment, task_types: Mapping[str, TaskType]
) -> dict[int, dict[str, Quota | Ring]]:
    """By position: the divided readers of the stream, and how it is divided among their bundles."""
    routes: dict[int, dict[str, Quota | Ring]] = {}
    for task_id, readers in fragment.outlets.items():
        divided = [estate.fragments[reader] for reader in sorted(readers) if estate.fragments[reader].divided]
        if divided:
            routes[fragment.tasks.index(task_id)] = {
                reader.id: _division(reader, estate.tasks[reader.tasks[0]], task_types) for reader in divided}
    return routes


def _division(reader: Fragment, head: RunningTask, task_types: Mapping[str, TaskType]) -> Quota | Ring:
    """How a stream is divided among the bundles of a reader: by key, or by weight."""
    if reader.divided_by_key:
        task_type = task_types[head.type]
        return reader.ring(task_type.key_columns(head.config), ahead_ms=task_type.ahead_ms(head.config))
    return Quota({bundle.part: bundle.weight for bundle in reader.bundles})


def _heirs(estate: Estate, fragment: Fragment) -> dict[str, tuple[str, ...]]:
    """The fragment's readers that go on with the work of others, and of which: they take over their places."""
    readers = [estate.fragments[reader] for reader in sorted({*chain.from_iterable(fragment.outlets.values())})]
    bundles = {
        bundle.id: tuple(dict.fromkeys((*bundle.inherits, *(earlier.id for earlier in reader.before(bundle)))))
        for reader in readers for bundle in reader.bundles if bundle.inherits}
    return {reader.id: reader.inherits for reader in readers if reader.inherits} | bundles


def _joins(estate: Estate, fragment: Fragment) -> dict[int, dict[str, str]]:
    """By position: the readers that do not begin there at the newest event, and where they do."""
    joins: dict[int, dict[str, str]] = {}
    for task_id in fragment.outlets:
        readers = _undivided(estate, fragment, task_id)
        joins_asked = {reader: estate.fragments[reader].joins.get(task_id, "now") for reader in readers}
        if later := {reader: where for reader, where in joins_asked.items() if where != "now"}:
            joins[fragment.tasks.index(task_id)] = later
    return joins


def keep_handing_over(desired: DesiredState, before: DesiredState | None) -> DesiredState:
    """The desired state, and beside it (``handing_over``, by slot) the fragments that it lets go and others go on with.

    They are no longer wanted, but must end cleanly before they go: how they ran is kept while any fragment
    names them, though it be one that itself hands over, or one of another node.
    """
    if before is None:
        return desired
    desired = _with_heirs_passed(desired)
    ran = {slot: slot_state.fragments for slot, slot_state in before.slots.items()}
    by_id = {
        fragment.id: (slot, fragment)
        for by_slot in (before.handing_over, ran) for slot, fragments in by_slot.items() for fragment in fragments}
    ending: dict[str, list[WantedFragment]] = {}
    heirs = (*desired.wanted.values(), *desired.heirs_elsewhere.values())
    named = [name for fragment in heirs for name in fragment.inherits]
    needed_ids = set(desired.wanted)
    while named:
        name = named.pop()
        if name in needed_ids or name not in by_id:
            continue
        needed_ids.add(name)
        slot, fragment = by_id[name]
        ending.setdefault(slot, []).append(fragment)
        named += fragment.inherits
    return replace(desired, handing_over={
        slot: tuple(sorted(fragments, key=lambda fragment: fragment.id)) for slot, fragments in sorted(ending.items())})


def without(desired: DesiredState, void: Collection[str]) -> DesiredState:
    """The desired state in which these fragments go on with what is before the last that they name: that has never
    begun, for its node did not hear of it."""
    if not void:
        return desired
    return replace(desired, slots={
        slot: WantedSlot(tuple(
            replace(fragment, inherits=fragment.inherits[:-1], origin="") if fragment.id in void else fragment
            for fragment in slot_state.fragments))
        for slot, slot_state in desired.slots.items()})


def with_intervals(desired: DesiredState, intervals_ms: Mapping[str, int]) -> DesiredState:
    """The desired state in which batches of these queries are so far apart; open ones stay as they are."""
    if not intervals_ms:
        return desired
    return replace(desired, slots={
        slot: WantedSlot(tuple(
            replace(fragment, trigger_ms=intervals_ms[fragment.id])
            if fragment.id in intervals_ms and not fragment.real_time else fragment
            for fragment in slot_state.fragments))
        for slot, slot_state in desired.slots.items()})


def _with_heirs_passed(desired: DesiredState) -> DesiredState:
    """The desired state with those of other nodes that a fragment comes back from, though this node may not have heard
    of them: they go on with what this node has, and are followed in their turn."""
    heirs = {node: list(fragments) for node, fragments in desired.remote_heirs.items()}
    for fragment in desired.wanted.values():
        if desired.is_from_elsewhere(fragment) and len(fragment.inherits) > 1:
            passed = replace(
                fragment, id=fragment.inherits[-1], inherits=fragment.inherits[:-1], origin=desired.node, outlets={},
                inputs=(), routes={})
            heirs.setdefault(fragment.origin, []).append(passed)
    return replace(desired, remote_heirs={node: tuple(fragments) for node, fragments in heirs.items()})
