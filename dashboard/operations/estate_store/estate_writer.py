"""Storing what plans and nodes change of the estate: the rows that are named and no others, however much runs.

Figures that would have to be counted anew (who uses a task, what a slot has to do) are kept with the rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from types import MappingProxyType

from django.db.models import BooleanField, ExpressionWrapper, F, Q
from django.utils import timezone

from dashboard.history import query_lines
from dashboard.operations.estate_store.estate_loader import fragments_on, fragments_where
from dashboard.operations.estate_store.estate_reader import are_teams_apart, slots_gone, task_of
from dashboard.operations.estate_store.fragment_settings import (
    columns_of_settings,
    settings_for,
    settings_of,
    store_settings,
)
from dashboard.operations.estate_store.generation import advance, state_for_update
from dashboard.operations.estate_store.reservations import require_unreserved
from dashboard.operations.models import BundleSlot, FragmentRow, NodeRow, RunningTaskRow, SlotRow, TeamUse, Use
from dashboard.teams.models import Team
from scheduler.history.successions import successions
from scheduler.model.errors import StalePlan, WeirError
from scheduler.model.estate import Submitted
from scheduler.model.fragment import Fragment, RunningBundle, RunningTask, Slot
from scheduler.model.plan import Plan
from scheduler.model.settings_of_fragments import USUAL, FragmentSettings, changed_settings
from scheduler.model.tenancy import is_open_to, teams_by_slot
from scheduler.model.usage import SlotLoad, growth_of
from scheduler.reuse.siblings import kin_of


class NodeInUse(WeirError):
    """A node without slots still has fragments, and no other node could take them."""

    code = "node_in_use"


def store_plan(plan: Plan) -> None:
    """Take a plan into the estate: its next generation.

    Raises
    ------
    StalePlan
        The estate is of another generation than the plan; nothing is stored.
    SlotTaken
        It puts something on a slot that is reserved; nothing is stored.
    """
    state = state_for_update()
    plan.require_generation(state.generation)
    generation = plan.generation + 1
    before, after = plan.fragments_before, plan.fragments_after
    require_unreserved(before, after)
    loads = _loads(before, after, plan.started)  # while the tasks that stop are still there
    _store_started(plan.started, after, generation)
    _store_entry(plan.entry_before, plan.entry_after)
    RunningTaskRow.objects.filter(pk__in=[task.id for task in plan.stopped]).delete()
    _store_fragments(before, after, generation, team=plan.dataflow.team, planned=plan.settings_after)
    others = plan.settings_of_others
    store_settings(changed_settings(plan.settings_before, others, settings_of(list(others))))
    _store_places(before, after, besides={task.id for task in plan.started})
    _store_loads(loads)
    query_lines.store(successions(plan), at_s=int(timezone.now().timestamp()))
    advance(state)


def store_slots(node: NodeRow, *, generation: int) -> int:
    """Offer the present slots of a node, and move the fragments of its former slots.

    They move to the node's other slots in order, to reserved ones only if there are no others. Where teams are apart,
    they move to another team's slot only if no slot is empty or their own. Their queries go on from their checkpoints.

    Returns
    -------
    int
        How many fragments moved.
    """
    state = state_for_update()
    if state.generation != generation:
        raise StalePlan(
            "The estate has changed meanwhile.", remedy="Register the node again.",
            planned=generation, generation=state.generation)
    lost = node.slot_rows.filter(index__gte=node.slots)
    before = fragments_on(list(lost.values_list("name", flat=True)))
    reserved = set(node.slot_rows.exclude(reserved_for="").values_list("index", flat=True))
    free = [index for index in range(node.slots) if index not in reserved] or list(range(node.slots))
    teams = teams_by_slot(fragments_on([Slot(node.name, index).name for index in free]).values())
    after: dict[str, Fragment] = {}
    for fragment_id, fragment in before.items():
        offered = [
            index for index in free if is_open_to(fragment.team, teams.get(Slot(node.name, index).name, ()))
        ] if are_teams_apart() else free
        after[fragment_id] = _moved(fragment, node, offered or free)
        for slot, counts in teams_by_slot([after[fragment_id]]).items():
            teams.setdefault(slot, Counter()).update(counts)
    SlotRow.objects.bulk_create(
        (SlotRow(node=node, index=index, name=Slot(node.name, index).name) for index in range(node.slots)),
        ignore_conflicts=True)
    _store_fragments(before, after, generation + 1)
    _store_loads(_loads(before, after, ()))
    lost.delete()
    advance(state)
    return len(after)


def on_slots_there(fragments: Mapping[str, Fragment]) -> dict[str, Fragment]:
    """Fragments as they were once, for a plan that brings them back; bundles of slots that are gone get other slots.

    A slot of the same node comes first, as in `store_slots`, then any. Where teams are apart, slots that are empty or
    their team's come before others.
    """
    gone = slots_gone({bundle.slot for fragment in fragments.values() for bundle in fragment.queries})
    rows = list(SlotRow.objects.order_by("node_id", "index")) if gone else []
    if not rows:
        return dict(fragments)

    teams = teams_by_slot(fragments_on([row.name for row in rows]).values()) if are_teams_apart() else {}

    def slot_of(part: RunningBundle, team: str) -> str:
        if part.slot not in gone:
            return part.slot
        slot = Slot.of(part.slot)
        own_rows = [row for row in rows if row.node_id == slot.node] or rows
        free = [row for row in own_rows if not row.reserved_for] or own_rows
        free = [row for row in free if is_open_to(team, teams.get(row.name, ()))] or free
        return free[slot.index % len(free)].name

    return {
        fragment_id: fragment.placed(partial(slot_of, team=fragment.team))
        for fragment_id, fragment in fragments.items()}


def drop_bundles(bundle_ids: Collection[str]) -> list[str]:
    """Take bundles that were leaving and have left out of the estate; which of these there were."""
    state = state_for_update()
    fragments = BundleSlot.objects.filter(bundle__in=bundle_ids).values_list("fragment", flat=True)
    before = fragments_where(pk__in=set(fragments))
    gone = {
        fragment_id: [bundle.id for bundle in fragment.bundles if bundle.leaving and bundle.id in bundle_ids]
        for fragment_id, fragment in before.items()}
    before = {fragment_id: fragment for fragment_id, fragment in before.items() if gone[fragment_id]}
    if not before:
        return []
    after = {
        fragment_id: replace(
            fragment, bundles=tuple(bundle for bundle in fragment.bundles if bundle.id not in gone[fragment_id])
        )
        for fragment_id, fragment in before.items()
    }
    _store_fragments(before, after, state.generation + 1)
    _store_loads(_loads(before, after, ()))
    advance(state)
    return sorted(bundle for bundles in gone.values() for bundle in bundles)


def _store_entry(removed: Submitted | None, submitted: Submitted | None) -> None:
    """Take a dataflow out, bring one in, or renew an entry: whether it is paused changes, it has a schedule now, or
    another version of it runs.

    Plans that were frozen before the latter was kept do not know of it, so it never goes back.
    """
    if removed is not None:
        _count_uses(removed, -1)
    if removed is not None and submitted is not None and removed.running != submitted.running:
        _store_other_uses(removed, submitted)
    elif removed is not None and submitted is not None:
        uses = Use.objects.filter(dataflow_id=submitted.id)
        uses.update(paused=submitted.paused, **({"scheduled": True} if submitted.scheduled else {}))
        if removed.unchained != submitted.unchained:
            unchained = ExpressionWrapper(Q(task_id__in=submitted.unchained), output_field=BooleanField())
            uses.update(unchained=unchained)
    elif removed is not None:
        Use.objects.filter(dataflow_id=removed.id).delete()
    elif submitted is not None:
        Use.objects.bulk_create(_uses(submitted))
    if submitted is not None:
        _count_uses(submitted, 1)


def _uses(submitted: Submitted) -> list[Use]:
    return [
        Use(dataflow_id=submitted.id, task_id=task_id, position=position, is_sink=task_id in submitted.sinks,
            running_task_id=running, paused=submitted.paused, scheduled=submitted.scheduled,
            unchained=task_id in submitted.unchained)
        for position, (task_id, running) in enumerate(submitted.running.items())]


def _store_other_uses(removed: Submitted, submitted: Submitted) -> None:
    """Store the tasks of another version that are other tasks, or executed by others, than the former's were."""
    stored = Use.objects.filter(dataflow_id=submitted.id)
    unchanged_tasks = {task for task, running in submitted.running.items() if removed.running.get(task) == running}
    stored.exclude(task_id__in=unchanged_tasks).delete()
    uses = {use.task_id: use for use in _uses(submitted)}
    rows = list(stored)
    for row in rows:
        use = uses[row.task_id]
        row.position, row.is_sink, row.unchained = use.position, use.is_sink, use.unchained
    Use.objects.bulk_update(rows, ["position", "is_sink", "unchained"])
    Use.objects.bulk_create(use for task, use in uses.items() if task not in unchanged_tasks)


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
            scope=task.scope, cores=task.cores, rate_per_s=task.rate_per_s, started_generation=generation,
            fragment=places[task.id][0], position=places[task.id][1], kin=kin_of(task))
        for task in tasks
    )


def _store_places(before: Mapping[str, Fragment], after: Mapping[str, Fragment], *, besides: Collection[str]) -> None:
    """Tasks that go on in another fragment, or at another position."""
    places = _places(before)
    moved_tasks = {
        task_id: place for task_id, place in _places(after).items()
        if task_id not in besides and places.get(task_id) != place
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


def _store_fragments(
    before: Mapping[str, Fragment], after: Mapping[str, Fragment], generation: int, *, team: str = "",
    planned: Mapping[str, FragmentSettings] = MappingProxyType({}),
) -> None:
    """Store what fragments are. Plans of earlier versions do not say whose new ones are: ``team``'s."""
    settings = settings_for(before, after, planned)  # while those are there that they go on with
    FragmentRow.objects.filter(pk__in=set(before) - set(after)).delete()
    FragmentRow.objects.bulk_create(
        FragmentRow(id=fragment_id, started_generation=generation, team=fragment.team or team,
                    **fragment_fields(fragment), **columns_of_settings(settings.get(fragment_id, USUAL)))
        for fragment_id, fragment in after.items() if fragment_id not in before
    )
    changed = [FragmentRow(id=fragment_id, **fragment_fields(after[fragment_id]))
               for fragment_id in after if before.get(fragment_id, after[fragment_id]) != after[fragment_id]]
    if changed:
        FragmentRow.objects.bulk_update(changed, list(fragment_fields(after[changed[0].id])))
    _store_bundle_slots(before, after)


def _store_bundle_slots(before: Mapping[str, Fragment], after: Mapping[str, Fragment]) -> None:
    """Store the slots of divided fragments' bundles; those of a fragment that is no more go with it."""
    old, new = (
        {fragment_id: _bundle_slots(fragment) for fragment_id, fragment in fragments.items()}
        for fragments in (before, after)
    )
    changed = [fragment_id for fragment_id in after if old.get(fragment_id, []) != new[fragment_id]]
    if any(old.get(fragment_id) for fragment_id in changed):
        BundleSlot.objects.filter(fragment__in=changed).delete()
    BundleSlot.objects.bulk_create(
        BundleSlot(fragment_id=fragment_id, bundle=bundle, slot=slot)
        for fragment_id in changed
        for bundle, slot in new[fragment_id]
    )


def _bundle_slots(fragment: Fragment) -> list[tuple[str, str]]:
    return [(bundle.id, bundle.slot) for bundle in fragment.bundles]


def fragment_fields(fragment: Fragment) -> dict[str, object]:
    return {
        "tasks": list(fragment.tasks), "slot": fragment.slot, "active": fragment.active, "resting": fragment.resting,
        "outlets": {task: list(readers) for task, readers in fragment.outlets.items()},
        "channels": dict(fragment.channels), "inherits": list(fragment.inherits), "joins": dict(fragment.joins),
        "bundles": [asdict(bundle) for bundle in fragment.bundles], "origin": fragment.origin,
    }


def _loads(
    before: Mapping[str, Fragment], after: Mapping[str, Fragment], started: Iterable[RunningTask]
) -> dict[str, SlotLoad]:
    """The change of each slot's load, by slot name; the tasks of the fragments before are in the estate still."""
    tasks = {task.id: task for task in started}
    touched_tasks = {task_id for fragment in before.values() for task_id in fragment.active_tasks}
    touched_tasks |= {
        task_id for fragment in after.values() for task_id in fragment.active_tasks if task_id not in tasks
    }
    tasks |= {row.pk: task_of(row) for row in RunningTaskRow.objects.filter(pk__in=touched_tasks)}
    return growth_of(before.values(), after.values(), tasks)


def _store_loads(loads: Mapping[str, SlotLoad]) -> None:
    rows = list(SlotRow.objects.filter(name__in=loads))
    for row in rows:
        row.queries += loads[row.name].queries
        row.task_nanocores += loads[row.name].task_nanocores
        row.bundles += loads[row.name].bundles
    SlotRow.objects.bulk_update(rows, ["queries", "task_nanocores", "bundles"])


def _moved(fragment: Fragment, node: NodeRow, indices: Sequence[int]) -> Fragment:
    """The fragment with all that it has on slots beyond the node's moved to those that are there."""
    if not indices:
        raise NodeInUse(f"{node.name} still runs {fragment.id}.", remedy="Remove its dataflows first.", node=node.name)

    def slot_of(part: RunningBundle) -> str:
        slot = Slot.of(part.slot)
        lost = slot.node == node.name and slot.index >= node.slots
        return Slot(slot.node, indices[slot.index % len(indices)]).name if lost else part.slot

    return fragment.placed(slot_of)
