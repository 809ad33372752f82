"""The estate between its rows and the scheduler's values: reading it, whole or in part, and storing what plans change.

Storing touches the rows that the plan names and no others, however much runs; figures that would have to be counted
anew (who uses a task, what a slot has to do) are kept with them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, replace

from django.db import connection
from django.db.models import F
from django.dispatch import Signal

from dashboard.audit.trail import inside_command
from dashboard.operations.models import (
    BundleSlot,
    EstateState,
    FragmentRow,
    NodeRow,
    RunningTaskRow,
    SlotRow,
    TeamUse,
    Use,
)
from dashboard.operations.stored import StoredEstate, fragment_of, generation_now, submitted_of, task_of
from dashboard.teams.models import Team
from scheduler.model.errors import StalePlan, WeirError
from scheduler.model.estate import Estate, Fragment, RunningTask, Slot, Submitted
from scheduler.model.plan import Plan
from scheduler.model.usage import SlotLoad, loads_of
from scheduler.reuse.siblings import kin_of

# Sent inside the transaction that makes a new generation, so that what was planned for the last one is overtaken in it.
moved = Signal()


class NodeInUse(WeirError):
    """A node without slots still has fragments, and no other node could take them."""

    code = "node_in_use"
    http_status = 409


_kept: tuple[object, Estate] = (None, Estate())


def lock_generation() -> int:
    """Take the estate's lock until the transaction ends, and return the generation.

    Every command on proposals takes this lock first, so that two of them never wait for each other.
    """
    if not connection.in_atomic_block:
        raise RuntimeError("the estate is locked inside a transaction")
    EstateState.objects.get_or_create(pk=1)
    return EstateState.objects.select_for_update().get(pk=1).generation


def load_estate() -> Estate:
    """The whole estate at one generation: rows that were changed while they were read are read again."""
    while True:
        generation = generation_now()
        estate = _read(generation)
        if generation_now() == generation:
            return estate


def load_part_of(node: str) -> Estate:
    """What a node's desired state is made from: its fragments, their tasks, those that they read and that read them.

    Read again where it changed meanwhile, as the whole is.
    """
    while True:
        generation = generation_now()
        part = _read_part(node, generation)
        if generation_now() == generation:
            return part


def stored_estate() -> StoredEstate:
    """The estate as it stands, for planning: read in part, as it is looked up."""
    return StoredEstate(generation_now())


def current_estate() -> Estate:
    """The estate for reading, kept by this process until its generation changes: live pages ask twice a second."""
    global _kept
    key = EstateState.objects.filter(pk=1).values_list("generation", "changed").first()
    kept_key, estate = _kept
    if key is None or kept_key != key:
        estate = load_estate()
        _kept = (key, estate)
    return estate


def store_plan(plan: Plan) -> None:
    """Take a plan into the estate: its next generation.

    Raises
    ------
    StalePlan
        The estate is of another generation than the plan; nothing is stored.
    """
    state = _state_for_update()
    plan.require_generation(state.generation)
    generation = plan.generation + 1
    before, after = plan.fragments_before, plan.fragments_after
    loads = _loads(before, after, plan.started)  # while the tasks that stop are still there
    _store_started(plan.started, after, generation)
    _store_entry(plan.removes, plan.submits)
    RunningTaskRow.objects.filter(pk__in=[task.id for task in plan.stopped]).delete()
    _store_fragments(before, after, generation)
    _store_places(before, after, besides={task.id for task in plan.started})
    _store_loads(loads)
    _advance(state)


def store_slots(node: NodeRow, *, generation: int) -> int:
    """Offer as many slots of a node as it has now, and move the fragments of those that it has no more.

    They move to its other slots, in order of slot; their queries go on there from their checkpoints.

    Returns
    -------
    int
        How many fragments moved.
    """
    state = _state_for_update()
    if state.generation != generation:
        raise StalePlan(
            "The estate moved on.", remedy="Register the node again.",
            planned=generation, generation=state.generation)
    lost = node.slot_rows.filter(index__gte=node.slots)
    before = fragments_on(list(lost.values_list("name", flat=True)))
    after = {fragment_id: _moved(fragment, node) for fragment_id, fragment in before.items()}
    SlotRow.objects.bulk_create(
        (SlotRow(node=node, index=index, name=Slot(node.name, index).name) for index in range(node.slots)),
        ignore_conflicts=True)
    _store_fragments(before, after, generation + 1)
    _store_loads(_loads(before, after, ()))
    lost.delete()
    _advance(state)
    return len(after)


def drop_bundles(bundle_ids: Collection[str]) -> list[str]:
    """Take bundles that were leaving and have left out of the estate; which of these there were."""
    state = _state_for_update()
    fragments = BundleSlot.objects.filter(bundle__in=bundle_ids).values_list("fragment", flat=True)
    before = _fragments(pk__in=set(fragments))
    gone = {
        one: [bundle.id for bundle in fragment.bundles if bundle.leaving and bundle.id in bundle_ids]
        for one, fragment in before.items()}
    before = {one: fragment for one, fragment in before.items() if gone[one]}
    if not before:
        return []
    after = {
        one: replace(fragment, bundles=tuple(bundle for bundle in fragment.bundles if bundle.id not in gone[one]))
        for one, fragment in before.items()}
    _store_fragments(before, after, state.generation + 1)
    _store_loads(_loads(before, after, ()))
    _advance(state)
    return sorted(bundle for those in gone.values() for bundle in those)


def _read(generation: int) -> Estate:
    return Estate(
        generation=generation,
        tasks={row.pk: task_of(row) for row in RunningTaskRow.objects.order_by("fingerprint")},
        submitted=submitted_of(),
        fragments={row.pk: fragment_of(row) for row in FragmentRow.objects.order_by("id")},
        slots=tuple(Slot(node=node.name, index=i) for node in NodeRow.objects.all() for i in range(node.slots)),
    )


def _read_part(node: str, generation: int) -> Estate:
    slots = tuple(Slot(row.node_id, row.index) for row in SlotRow.objects.filter(node=node))
    own = fragments_on([slot.name for slot in slots])
    tasks = {
        row.pk: task_of(row)
        for row in RunningTaskRow.objects.filter(pk__in={one for fragment in own.values() for one in fragment.tasks})
    }
    parents = {parent for task in tasks.values() for parent in task.parents}
    places = dict(RunningTaskRow.objects.filter(pk__in=parents).values_list("pk", "fragment"))
    readers = {
        reader for fragment in own.values() for readers in fragment.outlets.values() for reader in readers}
    others = {*places.values(), *readers}.difference(own)
    return Estate(generation=generation, tasks=tasks, fragments=own | _fragments(pk__in=others), slots=slots)


def fragments_on(slots: Collection[str]) -> dict[str, Fragment]:
    """The fragments that have a query on any of these slots."""
    divided = BundleSlot.objects.filter(slot__in=slots).values_list("fragment", flat=True)
    return _fragments(slot__in=slots) | _fragments(pk__in=set(divided))


def _fragments(**where: object) -> dict[str, Fragment]:
    return {row.pk: fragment_of(row) for row in FragmentRow.objects.filter(**where).order_by("pk")}


def _state_for_update() -> EstateState:
    if not inside_command():
        raise RuntimeError("the estate changes inside an audited command only")
    return EstateState.objects.select_for_update().get(pk=1)


def _advance(state: EstateState) -> None:
    state.generation += 1
    state.save()
    moved.send(sender=None, generation=state.generation)


def _store_entry(removed: Submitted | None, submitted: Submitted | None) -> None:
    """Take a dataflow out, bring one in, or renew an entry: only whether it is paused changes then."""
    if removed is not None:
        _count_uses(removed, -1)
    if removed is not None and submitted is not None:
        Use.objects.filter(dataflow_id=submitted.id).update(paused=submitted.paused)
    elif removed is not None:
        Use.objects.filter(dataflow_id=removed.id).delete()
    elif submitted is not None:
        Use.objects.bulk_create(
            Use(dataflow_id=submitted.id, task_id=task_id, position=position, is_sink=task_id in submitted.sinks,
                running_task_id=running, paused=submitted.paused)
            for position, (task_id, running) in enumerate(submitted.running.items())
        )
    if submitted is not None:
        _count_uses(submitted, 1)


def _count_uses(submitted: Submitted, by: int) -> None:
    """Keep how many dataflows of its team use each of its tasks."""
    team = Team.objects.get(slug=submitted.team)
    task_ids = set(submitted.running.values())
    if by > 0:
        TeamUse.objects.bulk_create(
            (TeamUse(running_task_id=task_id, team=team) for task_id in task_ids), ignore_conflicts=True)
    counts = TeamUse.objects.filter(running_task__in=task_ids, team=team)
    counts.update(dataflows=F("dataflows") + by, paused=F("paused") + (by if submitted.paused else 0))
    if by < 0:
        counts.filter(dataflows=0).delete()


def _store_started(tasks: Iterable[RunningTask], fragments: Mapping[str, Fragment], generation: int) -> None:
    places = _places(fragments)
    RunningTaskRow.objects.bulk_create(
        RunningTaskRow(
            fingerprint=task.id, type=task.type, config=dict(task.config), parents=list(task.parents),
            scope=task.scope, cores=task.cores, started_generation=generation, fragment=places[task.id][0],
            position=places[task.id][1], kin=kin_of(task))
        for task in tasks
    )


def _store_places(before: Mapping[str, Fragment], after: Mapping[str, Fragment], *, besides: Collection[str]) -> None:
    """Tasks that go on in another fragment, or at another position."""
    known = _places(before)
    moved_tasks = {
        task_id: place for task_id, place in _places(after).items()
        if task_id not in besides and known.get(task_id) != place
    }
    RunningTaskRow.objects.bulk_update(
        (RunningTaskRow(pk=task_id, fragment=fragment, position=position)
         for task_id, (fragment, position) in moved_tasks.items()),
        ["fragment", "position"])


def _places(fragments: Mapping[str, Fragment]) -> dict[str, tuple[str, int]]:
    return {
        task_id: (fragment.id, position)
        for fragment in fragments.values() for position, task_id in enumerate(fragment.kept_tasks)
    }


def _store_fragments(before: Mapping[str, Fragment], after: Mapping[str, Fragment], generation: int) -> None:
    FragmentRow.objects.filter(pk__in=set(before) - set(after)).delete()
    FragmentRow.objects.bulk_create(
        FragmentRow(id=fragment_id, started_generation=generation, **fragment_fields(fragment))
        for fragment_id, fragment in after.items() if fragment_id not in before
    )
    changed = [FragmentRow(id=fragment_id, **fragment_fields(after[fragment_id]))
               for fragment_id in after if before.get(fragment_id, after[fragment_id]) != after[fragment_id]]
    if changed:
        FragmentRow.objects.bulk_update(changed, list(fragment_fields(after[changed[0].id])))
    _store_bundle_slots(before, after)


def _store_bundle_slots(before: Mapping[str, Fragment], after: Mapping[str, Fragment]) -> None:
    """Where divided fragments have bundles; those of a fragment that is no more go with it."""
    old, new = ({one: _bundle_slots(fragment) for one, fragment in those.items()} for those in (before, after))
    changed = [one for one in after if old.get(one, []) != new[one]]
    if any(old.get(one) for one in changed):
        BundleSlot.objects.filter(fragment__in=changed).delete()
    BundleSlot.objects.bulk_create(
        BundleSlot(fragment_id=one, bundle=bundle, slot=slot) for one in changed for bundle, slot in new[one])


def _bundle_slots(fragment: Fragment) -> list[tuple[str, str]]:
    return [(bundle.id, bundle.slot) for bundle in fragment.bundles]


def fragment_fields(fragment: Fragment) -> dict[str, object]:
    return {
        "tasks": list(fragment.tasks), "slot": fragment.slot, "active": fragment.active, "resting": fragment.resting,
        "outlets": {task: list(readers) for task, readers in fragment.outlets.items()},
        "channels": dict(fragment.channels), "inherits": list(fragment.inherits), "joins": dict(fragment.joins),
        "bundles": [asdict(bundle) for bundle in fragment.bundles],
    }


def _loads(
    before: Mapping[str, Fragment], after: Mapping[str, Fragment], started: Iterable[RunningTask]
) -> dict[str, SlotLoad]:
    """What changes of each slot's load, by slot name; the tasks of the fragments before are in the estate still."""
    tasks = {task.id: task for task in started}
    there = {task_id for fragment in before.values() for task_id in fragment.active_tasks}
    there |= {task_id for fragment in after.values() for task_id in fragment.active_tasks if task_id not in tasks}
    tasks |= {row.pk: task_of(row) for row in RunningTaskRow.objects.filter(pk__in=there)}
    loads: dict[str, SlotLoad] = {}
    for fragment in after.values():
        for slot, load in loads_of(fragment, tasks).items():
            loads[slot] = loads.get(slot, SlotLoad()) + load
    for fragment in before.values():
        for slot, load in loads_of(fragment, tasks).items():
            loads[slot] = loads.get(slot, SlotLoad()) - load
    return {slot: load for slot, load in loads.items() if load != SlotLoad()}


def _store_loads(loads: Mapping[str, SlotLoad]) -> None:
    rows = list(SlotRow.objects.filter(name__in=loads))
    for row in rows:
        row.queries += loads[row.name].queries
        row.task_nanocores += loads[row.name].task_nanocores
        row.bundles += loads[row.name].bundles
    SlotRow.objects.bulk_update(rows, ["queries", "task_nanocores", "bundles"])


def _moved(fragment: Fragment, node: NodeRow) -> Fragment:
    """The fragment with all that it has on slots beyond the node's moved to those that are there."""
    if node.slots == 0:
        raise NodeInUse(f"{node.name} still runs {fragment.id}.", remedy="Remove its dataflows first.", node=node.name)

    def kept(slot: str) -> str:
        of, _, index = slot.rpartition("/")
        return Slot(node=of, index=int(index) % node.slots).name if of == node.name else slot

    bundles = tuple(replace(bundle, slot=kept(bundle.slot)) for bundle in fragment.bundles)
    return replace(fragment, slot=kept(fragment.slot), bundles=bundles)
