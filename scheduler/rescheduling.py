"""Rescheduling: a plan that gives a running dataflow's divided fragments the bundles of another schedule."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import count

from .applying import reversed_plan
from .enactment import bundle_ids, notes_of, parts_of, parts_of_slots, promise_of
from .model.dataflow import Dataflow
from .model.encoding import freeze_plan
from .model.errors import NotEnactable, NothingToChange
from .model.estate import Fragment, Submitted
from .model.plan import Plan, Price
from .model.ports import EstateView
from .model.prices import Prices
from .model.task_types import TaskTypes
from .performance.pricing import in_slots, price_of
from .planning import submitted_in, touched_by
from .reuse.division import divided_anew, divided_back, live, together
from .reuse.order import order_note, stateful_downstream
from .reuse.standing import FragmentChange
from .scheduling import Job, Schedule

__all__ = ["bound", "plan_schedule", "plan_schedule_back", "schedulable"]


def schedulable(
    estate: EstateView, dataflow_id: str, dataflow: Dataflow
) -> tuple[dict[str, Fragment], str]:
    """The fragments that a schedule of a running dataflow may change, by task of its document; and why none may.

    A schedule gives each task a fragment of its own. Tasks that run fused in one query with others stay as they are:
    they were submitted without a schedule, or by others.
    """
    submitted = submitted_in(estate, dataflow_id)
    found = {}
    for task in dataflow.tasks:
        running = submitted.running.get(task.id)
        if running is None:
            continue
        fragment = estate.fragments[estate.places[running][0]]
        if fragment.tasks == (running,) and not fragment.paused:
            found[task.id] = fragment
    if any(fragment.divided for fragment in found.values()):
        return found, ""
    return {}, (
        f"{submitted.name} was submitted without a schedule: its queries read whole streams and cannot be divided "
        "while they run. Remove it, then submit it again with a schedule; what others use of it runs on meanwhile.")


def bound(running: Mapping[str, Fragment], job: Job) -> dict[str, str]:
    """The tasks that cannot leave their node, and its name: a checkpoint stays, and so does an order of events."""
    return {
        task: fragment.slot.rpartition("/")[0] for task, fragment in running.items()
        if task in job.whole or not fragment.divided}


def plan_schedule(
    estate: EstateView,
    dataflow_id: str,
    schedule: Schedule,
    *,
    task_types: TaskTypes,
    prices: Prices,
    left: Collection[str] = (),
    remarks: Sequence[str] = (),
) -> Plan:
    """Plan that a running dataflow's bundles become those of another schedule; what need not change stays untouched.

    A bundle that stays on its slot with its threads keeps running. One that gets other threads, or another slot of its
    node, is stopped cleanly and goes on from its checkpoint under its own id. Others begin anew and those they replace
    get nothing more, read what they have to its end and are gone.

    Parameters
    ----------
    schedule : Schedule
        Of tasks that `schedulable` allows.
    left : collection of str
        Bundles that have come to their end by the nodes' reports; they are dropped.
    remarks : sequence of str
        What else reviewers should know of the schedule.

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
    wanted = parts_of(schedule)
    running, why_not = schedulable(estate, dataflow_id, schedule.job.dataflow)
    if why_not:
        raise NotEnactable(why_not, remedy="Remove it and submit it with a schedule.", dataflow=dataflow_id)
    if fixed := sorted(set(wanted) - set(running)):
        raise NotEnactable(
            f"{', '.join(fixed[:5])} cannot be scheduled: fused with others, paused, or no longer there",
            remedy="Ask for the schedule again.", tasks=fixed)
    ids = (f"f{estate.generation + 1}-{number}" for number in count())
    changes = [
        divided_anew(task, running[task], parts, ids=ids, left=left, whole=task in schedule.job.whole)
        for task, parts in wanted.items()
    ]
    changes = [change for change in changes if change.steps]
    if not changes:
        raise NothingToChange(
            f"{submitted.name} runs as this schedule has it: the same threads on the same slots, the same weights.",
            remedy="There is nothing to do.", dataflow=dataflow_id)
    change = together(changes)
    now = {task: change.after.get(fragment.id, fragment) for task, fragment in running.items()}
    price = _price(estate, submitted, change, prices=prices, schedule=schedule, running=running, now=now)
    plan = _plan(estate, submitted, change, price, schedule, now, task_types, prices)
    return freeze_plan(replace(plan, notes=(*plan.notes, *remarks)))


def _plan(
    estate: EstateView, submitted: Submitted, change: FragmentChange, price: Price, schedule: Schedule,
    now: Mapping[str, Fragment], task_types: TaskTypes, prices: Prices,
) -> Plan:
    # Beside a new bundle another one works on, or drains what it has: order is not kept, for a while or for good.
    begun = sorted({step.fragment for step in change.steps if step.kind == "start_bundle"})
    others = stateful_downstream(estate, begun, task_types=task_types)
    return Plan(
        kind="schedule",
        generation=estate.generation,
        dataflow=submitted,
        reused=tuple(sorted(set(submitted.running.values()))),
        started=(),
        stopped=(),
        steps=change.steps,
        fragments_before=change.before,
        fragments_after=change.after,
        **touched_by(estate, (fragment.tasks[0] for fragment in change.after.values()), besides=submitted),
        price=price,
        promise=promise_of(
            schedule, currency=prices.currency,
            id_of=bundle_ids(now.values(), submitted.running)),
        notes=(*filter(None, [order_note(others, estate.tasks)]), *notes_of(schedule, task_types=task_types)),
    )


def plan_schedule_back(estate: EstateView, plan: Plan) -> Plan:
    """Plan that what an earlier plan of a schedule changed is as it was before it, as far as it runs.

    Raises
    ------
    NotSubmitted
        The dataflow is gone.
    NotEnactable
        Its queries have been fused or stopped since.
    """
    submitted = submitted_in(estate, plan.dataflow.id)
    now = {}
    for one, fragment in plan.fragments_before.items():
        found = estate.places.get(fragment.tasks[0])
        if found is None or found[0] != one or estate.fragments[one].paused:
            raise NotEnactable(
                f"{submitted.name} has changed since: {one} is no longer what this plan changed",
                remedy="Ask for another schedule instead.", fragment=one)
        now[one] = estate.fragments[one]
    change = divided_back(plan.fragments_before, now, generation=estate.generation)
    back = reversed_plan(plan, change)
    return freeze_plan(replace(
        back, generation=estate.generation, dataflow=submitted,
        reused=tuple(sorted(set(submitted.running.values())))))


def _price(
    estate: EstateView, submitted: Submitted, change: FragmentChange, *, prices: Prices, schedule: Schedule,
    running: Mapping[str, Fragment], now: Mapping[str, Fragment],
) -> Price:
    """What its slots cost more or less than before, and by CPU alone its queries."""
    queries = _queries(change.after.values()) - _queries(change.before.values())
    own = set(submitted.running.values())
    by_cpu = price_of(
        prices=prices, tasks_reused=len(own), queries_started=max(queries, 0), queries_stopped=max(-queries, 0),
        task_cores_delta=0.0, task_cores_alone=sum(estate.tasks[task_id].cores for task_id in sorted(own)),
        queries_alone=_queries(now.values()))
    return in_slots(by_cpu, prices=prices, slots=parts_of_slots(schedule), before=_counted_on(running, schedule))


def _queries(fragments: Iterable[Fragment]) -> int:
    return sum(len(live(fragment)) for fragment in fragments)


def _counted_on(running: Mapping[str, Fragment], schedule: Schedule) -> dict[str, float]:
    """The slots that it runs on, and the part of each that it counts on: of one that it keeps, as much as then."""
    after = parts_of_slots(schedule)
    used = {one.slot for fragment in running.values() for one in live(fragment)}
    return {slot: after.get(slot, 1.0) for slot in sorted(used)}
