"""Rescheduling: a plan that gives a running dataflow the bundles of a schedule: of another one, or of its first."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import count

from .enactment import bundle_ids, notes_of, parts_of, parts_of_slots, promise_of
from .model.dataflow import Dataflow
from .model.errors import NotEnactable, NothingToChange
from .model.estate import Submitted
from .model.fragment import Fragment, node_of
from .model.plan import Plan, Price
from .model.plan_kinds import SCHEDULE
from .model.ports import EstateView
from .model.prices import Prices
from .model.task_types import TaskTypes
from .performance.pricing import in_slots
from .plan_building import heads_of, plan_of_change, plan_taking_back, price_of_rearrangement, running_of, submitted_in
from .reuse.activity import FragmentChange, is_working
from .reuse.cutting import TaskDivision, scheduled_anew, why_fused
from .reuse.division import WantedBundle, divided_back, working_bundles
from .reuse.order import order_note, stateful_downstream
from .scheduling import Job, Schedule
from .step_kinds import kind_of


def schedulable(
    estate: EstateView, dataflow_id: str, dataflow: Dataflow, *, task_types: TaskTypes
) -> tuple[dict[str, Fragment], str]:
    """The fragments that a schedule of a running dataflow may change, by task of its document; and why none may.

    A schedule gives each task a fragment of its own. Chains that were submitted without a schedule, or by others, are
    cut for that; tasks of a chain that cannot be cut stay as they are.
    """
    running, stuck = _schedulable(estate, dataflow_id, dataflow, task_types=task_types)
    if running:
        return running, ""
    name = submitted_in(estate, dataflow_id).name
    if not stuck:
        return {}, f"Nothing of {name} works that could be scheduled: resume it first."
    return {}, (
        f"The queries of {name} cannot be cut into tasks while they run: {'; '.join(dict.fromkeys(stuck.values()))}. "
        "Remove it, then submit it again with a schedule; what others use of it runs on meanwhile.")


def _schedulable(
    estate: EstateView, dataflow_id: str, dataflow: Dataflow, *, task_types: TaskTypes
) -> tuple[dict[str, Fragment], dict[str, str]]:
    """The fragments by task of the document: of those that may be scheduled, and why others that work
    may not."""
    submitted = submitted_in(estate, dataflow_id)
    schedulable, stuck = {}, {}
    for task in dataflow.tasks:
        running = submitted.running.get(task.id)
        # What is made from a wider task's stream is another task than the one that was measured.
        if running is None or not is_working(estate, running) or not _is_alike(
            estate.tasks[running].type, task.type, task_types
        ):
            continue
        fragment = estate.fragments[estate.places[running][0]]
        reason = why_fused(estate, fragment, task_types=task_types)
        if not reason and estate.teams_apart and fragment.team != submitted.team:
            reason = f"{fragment.id} is another team's, and teams have slots of their own here"
        is_scheduled = submitted.scheduled and len(fragment.tasks) > 1
        if not reason and is_scheduled and estate.users_of(fragment.tasks[0]).count > 1:
            reason = f"{fragment.id} runs them for others, too, as it did before this schedule"
        if reason:
            stuck[task.id] = reason
        else:
            schedulable[task.id] = fragment
    return schedulable, stuck


def _is_alike(running: str, wanted_type: str, task_types: TaskTypes) -> bool:
    return running == wanted_type or (
        running in task_types and wanted_type in task_types
        and task_types[running].name == task_types[wanted_type].name)


def bound(running: Mapping[str, Fragment], job: Job) -> dict[str, str]:
    """The tasks that cannot leave their node, and its name: a checkpoint stays, and so does an order of events. Keys
    may go anywhere, with their states."""
    return {task: node_of(fragment.slot) for task, fragment in running.items() if task in job.one_slot}


def _division_of(task: str, parts: tuple[WantedBundle, ...], fragment: Fragment, job: Job) -> TaskDivision:
    """The division of a task by a schedule. One with keys that fits one thread runs undivided, as it did."""
    if task not in job.by_key:
        return TaskDivision(task, parts, whole=task in job.one_slot, serial=task in job.one_thread)
    is_one = len(parts) == 1 and not fragment.divided
    return TaskDivision(task, parts, whole=is_one, serial=is_one, by_key=not is_one)


def plan_schedule(
    estate: EstateView,
    dataflow_id: str,
    schedule: Schedule,
    *,
    task_types: TaskTypes,
    prices: Prices,
    left_bundles: Collection[str] = (),
    remarks: Sequence[str] = (),
) -> Plan:
    """Plan that a running dataflow's bundles become those of another schedule; what need not change stays untouched.

    A bundle that stays on its slot with its threads keeps running. One that gets other threads, or another slot of its
    node, is stopped cleanly and goes on from its checkpoint under its own id. Others begin anew and those they replace
    get nothing more, read what they have to its end and are gone. Chains that ran without a schedule are cut: their
    tasks go on exactly where the chain ends, with its state.

    Parameters
    ----------
    schedule : Schedule
        Of tasks that `schedulable` allows.
    left_bundles : collection of str
        Bundles that have ended by the nodes' reports; they are dropped.
    remarks : sequence of str
        Further notes for reviewers of the schedule.

    Raises
    ------
    NotSubmitted
        The estate has no dataflow of that id.
    NotEnactable
        It asks for what cannot be done while the dataflow runs.
    InsufficientSlots
        Some of its slots are on machines that would have to be bought.
    NothingToChange
        All of it is so already.
    """
    submitted = submitted_in(estate, dataflow_id)
    wanted_parts = parts_of(schedule)
    job = schedule.job
    running, why_not = schedulable(estate, dataflow_id, job.dataflow, task_types=task_types)
    if why_not:
        raise NotEnactable(why_not, remedy="Remove it and submit it with a schedule.", dataflow=dataflow_id)
    if fixed := sorted(set(wanted_parts) - set(running)):
        raise NotEnactable(
            f"{', '.join(fixed[:5])} cannot be scheduled: paused, no longer there, or fused with what cannot be cut",
            remedy="Ask for the schedule again.", tasks=fixed)
    ids = (f"f{estate.generation + 1}-{number}" for number in count())
    tasks = submitted.running
    change = scheduled_anew(
        estate,
        {tasks[task]: _division_of(task, parts, running[task], job) for task, parts in wanted_parts.items()},
        ids=ids, task_types=task_types, left_bundles=left_bundles)
    if not change.steps:
        raise NothingToChange(
            f"{submitted.name} runs as this schedule has it: the same threads on the same slots, the same weights.",
            remedy="There is nothing to do.", dataflow=dataflow_id)
    of_task = {task_id: fragment for fragment in change.after.values() for task_id in fragment.tasks}
    now = {task: of_task.get(tasks[task], fragment) for task, fragment in running.items()}
    price = _price(
        estate, submitted, change, task_types=task_types, prices=prices, schedule=schedule, running=running)
    changed = {step.fragment for step in change.steps}
    return plan_of_change(
        SCHEDULE, estate, replace(submitted, scheduled=True), change, price=price,
        heads=heads_of(
            fragment for fragment_id, fragment in change.before.items()
            if fragment_id in changed or fragment_id not in change.after),
        promise=promise_of(schedule, currency=prices.currency, id_of=bundle_ids(now.values(), tasks)),
        notes=(
            *_cut_notes(change), *_order_notes(running, now), *_far_notes(now),
            *_stays_fused(estate, dataflow_id, job.dataflow, task_types),
            *filter(None, [_unordered_note(estate, change, task_types)]),
            *notes_of(schedule, task_types=task_types), *remarks))


def _unordered_note(estate: EstateView, change: FragmentChange, task_types: TaskTypes) -> str:
    """A note for reviewers about stateful tasks that no longer get events in order; empty where all do."""
    # Beside a new bundle another one works on, or drains what it has: order is not kept, for a while or for good.
    begun = sorted(
        {step.fragment for step in change.steps if kind_of(step).begins and step.bundle}
        | {
            fragment_id
            for fragment_id, fragment in change.after.items()
            if fragment_id not in change.before and len(working_bundles(fragment)) > 1
        }
    )
    others = stateful_downstream(
        ChainMap(dict(change.after), estate.fragments), begun, tasks=estate.tasks, task_types=task_types)
    return order_note(others, estate.tasks)


def plan_schedule_back(estate: EstateView, plan: Plan) -> Plan:
    """Plan that what an earlier plan of a schedule changed is as it was before it, as far as it runs."""
    submitted = submitted_in(estate, plan.dataflow.id)
    now = {}
    for fragment_id in dict.fromkeys(step.fragment for step in plan.steps):
        located = estate.places.get(plan.fragments_after[fragment_id].tasks[0])
        if located is None or located[0] != fragment_id or estate.fragments[fragment_id].paused:
            raise NotEnactable(
                f"{submitted.name} has changed since: {fragment_id} is no longer what this plan changed",
                remedy="Ask for another schedule instead.", fragment=fragment_id)
        now[fragment_id] = estate.fragments[fragment_id]
    change = divided_back(plan.fragments_before, now, generation=estate.generation)
    undivided = [
        fragment_id
        for fragment_id, fragment in now.items()
        if fragment.divided
        and (fragment_id not in plan.fragments_before or not plan.fragments_before[fragment_id].divided)
    ]
    notes = ("What ran without a schedule before is not fused again: each task goes back to the slot that it was on, "
             "in one bundle with one thread.",) if undivided else ()
    return plan_taking_back(
        estate, plan, change, heads=heads_of(now.values()), reused=running_of(submitted), notes=notes)


def _cut_notes(change: FragmentChange) -> list[str]:
    """Notes for reviewers about chains that are cut."""
    gone = [fragment_id for fragment_id in change.before if fragment_id not in change.after]
    if not gone:
        return []
    queries = sum(len(working_bundles(fragment)) for fragment_id, fragment in change.after.items()
                  if fragment_id not in change.before)
    return [
        f"{_named(gone)} {'end' if len(gone) > 1 else 'ends'}, and {queries} queries go on exactly there, with the "
        "same state: what comes out of them stands still for some seconds, and no event is lost or comes twice. Sinks "
        "that write files go on in new folders."]


def _order_notes(running: Mapping[str, Fragment], now: Mapping[str, Fragment]) -> list[str]:
    """Notes for reviewers about tasks that are divided over several slots for the first time."""
    several = [
        task
        for task, fragment in now.items()
        if len(working_bundles(fragment)) > 1 and len(working_bundles(running[task])) == 1
    ]
    by_key = [task for task in several if now[task].divided_by_key]
    others = [task for task in several if task not in by_key]
    return [
        f"{_named(tasks)} {'work' if len(tasks) > 1 else 'works'} on several slots from now on: events keep their "
        f"order within each {of}, not between {of}s." for tasks, of in ((by_key, "key"), (others, "slot")) if tasks]


def _far_notes(now: Mapping[str, Fragment]) -> list[str]:
    """Notes for reviewers about tasks whose keys go to other nodes."""
    far = [task for task, fragment in now.items() if fragment.far_takers]
    return [
        f"Keys of {_named(far)} continue on another node. Their states go there through the broker, so these keys "
        "stand still longer than keys that stay on their node."] if far else []


def _named(names: Sequence[str], most: int = 5) -> str:
    unnamed_count = len(names) - most
    return ", ".join(names[:most]) + (f" and {unnamed_count} more" if unnamed_count > 0 else "")


def _stays_fused(estate: EstateView, dataflow_id: str, dataflow: Dataflow, task_types: TaskTypes) -> list[str]:
    """Notes about tasks that stay as they are, with the reasons."""
    _, stuck = _schedulable(estate, dataflow_id, dataflow, task_types=task_types)
    if not stuck:
        return []
    reasons_text = "; ".join(dict.fromkeys(stuck.values()))
    return [f"{_named(list(stuck))} stay fused and without a schedule: {reasons_text}."]


def _price(
    estate: EstateView, submitted: Submitted, change: FragmentChange, *, task_types: TaskTypes, prices: Prices,
    schedule: Schedule, running: Mapping[str, Fragment],
) -> Price:
    """The change in cost of its queries, and the price of its slots besides."""
    before, after = _query_ids(change.before.values()), _query_ids(change.after.values())
    by_cpu = price_of_rearrangement(
        estate, submitted, task_types=task_types, prices=prices, queries_started=len(after - before),
        queries_stopped=len(before - after))
    return in_slots(by_cpu, prices=prices, slots=parts_of_slots(schedule), before=_counted_on(running, schedule))


def _query_ids(fragments: Iterable[Fragment]) -> set[str]:
    return {bundle.id for fragment in fragments for bundle in working_bundles(fragment)}


def _counted_on(running: Mapping[str, Fragment], schedule: Schedule) -> dict[str, float]:
    """The part of each slot (0 to 1) that a schedule keeps now; of slots that the new one keeps, its part."""
    after = parts_of_slots(schedule)
    used = {
        bundle.slot for fragment in running.values() if fragment.divided for bundle in working_bundles(fragment)}
    return {slot: after.get(slot, 1.0) for slot in sorted(used)}
