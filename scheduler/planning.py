"""Planning: what a submission or a removal would change, composed into one frozen plan before anything changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType

from .enactment import LaidOut, bundle_ids, lay_out, notes_of, promise_of
from .exact_savepoints import beginning_note, identity_apart, restored
from .model.dataflow import Dataflow
from .model.errors import AlreadySubmitted
from .model.estate import Submitted
from .model.plan import Plan
from .model.plan_kinds import REMOVE, SUBMIT
from .model.ports import EstateView
from .model.prices import Prices
from .model.saved_states import SavedStates
from .model.secrets import with_scoped_secrets
from .model.settings_of_fragments import FragmentSettings, first_settings
from .model.task_types import TaskTypes, require_types
from .model.usage import SlotLoad, growth_of
from .newcomer import Newcomer, resting
from .performance.pricing import in_slots
from .performance.running_costs import turned_cost
from .plan_building import heads_of, plan_of_change, price_of_rearrangement, submitted_in
from .reuse.activity import (
    adjust,
    crowding_note,
    is_working,
    queries_ceased,
)
from .reuse.bill_changes import bill_changes
from .reuse.containment import Contained, Containment, contain
from .reuse.fragments import LONGEST_CHAIN, NOW, attach, begun_note, chained_note
from .reuse.merge import Merge, merge
from .reuse.order import order_note, reads_divided
from .reuse.unmerge import unmerge
from .scheduling import Schedule


def plan_submission(
    estate: EstateView, dataflow: Dataflow, *, dataflow_id: str, team: str, task_types: TaskTypes, prices: Prices,
    longest_chain: int = LONGEST_CHAIN, fresh: bool = False, begin: str = NOW, containment: Containment | None = None,
    schedule: Schedule | None = None, remarks: Sequence[str] = (),
    settings: Mapping[str, FragmentSettings] = MappingProxyType({}), begin_from: SavedStates | None = None,
) -> Plan:
    """Plan the merge of a submitted dataflow into the estate.

    Parameters
    ----------
    dataflow : Dataflow
        Valid, as `read_document` returns it.
    dataflow_id, team : str
        The submission's id, and the team whose private tasks a private dataflow may share.
    fresh : bool
        True if it joins no running stateful task: such a task is started anew, with all that is downstream of it.
    begin : str
        The beginning of new fragments in the streams of running tasks: ``now``, ``oldest`` (the oldest event that the
        channel still holds) or a time in ms since the epoch.
    containment : Containment, optional
        For teams that turned it on: a task that is contained in a running one becomes a refinement of it. Not with a
        schedule, which is for the tasks as submitted.
    schedule : Schedule, optional
        Of all new tasks (`merged_plainly`): each becomes a fragment of its own, with its bundles of the schedule.
    remarks : sequence of str
        Further notes for reviewers of the schedule.
    settings : mapping of str to FragmentSettings, optional
        By task of the dataflow: the first settings of its query, without usual ones.
    begin_from : SavedStates, optional
        The named savepoint from which it begins. Then it joins nothing that runs, and runs on the savepoint's node.

    Returns
    -------
    Plan
        Frozen, with its digest; it starts new fragments, lets paused tasks work again and opens outlets of running
        ones, and changes nothing else.

    Raises
    ------
    AlreadySubmitted
        The estate has a dataflow of that id.
    UnknownTaskType
        A task's type is not installed.
    NoSlots
        Something has to start and there is no slot for it; if teams are apart, no empty slot and none of the team.
    StalePlan
        The new tasks are not those of the schedule.
    InsufficientSlots
        Some of its slots are on machines that would have to be bought.
    SavepointDiffers
        Its tasks are not those of the savepoint from which it is to begin.
    """
    _check_plannable(estate, dataflow, dataflow_id, task_types)
    alone = with_scoped_secrets(dataflow, team=team, task_types=task_types)
    scope = team if dataflow.visibility == "private" else ""

    def contained_in(*, fresh: bool) -> Contained:
        return contain(
            estate.tasks, alone, task_types=task_types, containment=None if schedule or begin_from else containment,
            scope=scope, fresh_for=dataflow_id if fresh else "", works=partial(is_working, estate))

    contained = contained_in(fresh=fresh)
    submission = Newcomer(
        estate, contained.dataflow, dataflow_id=dataflow_id, team=team, scope=scope, task_types=task_types,
        prices=prices,
        # Profiles are of tasks: one that is scheduled has a query to itself.
        longest_chain=1 if schedule else longest_chain,
        restored=identity_apart(dataflow_id, begin_from) if begin_from else "")
    otherwise = submission if containment is None else replace(submission, dataflow=contained_in(
        fresh=not fresh).dataflow)
    merged = submission.merged(fresh=fresh)
    started = submission.started(merged)
    chains = submission.chains(merged)
    laid_out = LaidOut() if schedule is None else lay_out(schedule, merged.running, started)
    restores = restored(begin_from, alone, merged.running, task_types=task_types) if begin_from else {}
    slots = submission.least_loaded(
        chains, started, node=begin_from.node if begin_from else "") if schedule is None else [
        laid_out.slots[chain[0]] for chain in chains]
    resumed = adjust(estate, dict.fromkeys(resting(estate, merged.reused), "works"))
    change = attach(
        estate, chains, slots, team=team, started=started, resumed=resumed, begin=begin, bundles=laid_out.bundles)
    price = submission.price(merged, resumed, queries=laid_out.queries or len(chains))
    return plan_of_change(
        SUBMIT, estate,
        Submitted(
            id=dataflow_id, name=dataflow.name, team=team, running=merged.running,
            sinks=tuple(task.id for task in contained.dataflow.tasks if task_types[task.type].kind == "sink"),
            scheduled=schedule is not None, unchained=contained.dataflow.unchained),
        change,
        # Whoever uses a task uses all that is upstream of it: the users of the sources are all there are.
        heads=(task_id for task_id in merged.reused if not estate.tasks[task_id].parents),
        reused=merged.reused,
        started=tuple(started.values()),
        resumed=resting(estate, merged.reused),
        fresh=merged.fresh,
        settings_after=first_settings(change.before, change.after, merged.running, settings, restores=restores),
        refined=contained.refinements,
        price=price if schedule is None else in_slots(price, prices=prices, slots=laid_out.all_slots),
        otherwise=None if schedule or begin_from else otherwise.price_otherwise(merged, fresh=not fresh),
        bill_changes=bill_changes(
            estate, merged.reused, team=team, comes=True, task_types=task_types, prices=prices),
        promise=schedule and promise_of(
            schedule, currency=prices.currency, id_of=bundle_ids(change.after.values(), merged.running)),
        notes=(
            *filter(None, [
                beginning_note(begin_from, alone, task_types) if begin_from else "",
                order_note(reads_divided(estate, started, task_types=task_types), started),
                crowding_note(estate, resumed, tasks=merged.reused),
                chained_note(estate, {task: merged.running[task] for task in contained.dataflow.unchained}),
                begun_note(estate, merged.running, reused=merged.reused, task_types=task_types)]),
            *(notes_of(schedule, task_types=task_types) if schedule else ()), *remarks),
    )


def merged_plainly(
    estate: EstateView, dataflow: Dataflow, *, dataflow_id: str, team: str, task_types: TaskTypes, fresh: bool = False
) -> Merge:
    """The tasks that a dataflow would reuse and add with a schedule: its tasks are as they were submitted, none is
    contained.

    Parameters
    ----------
    fresh : bool, optional
        True if it joins nothing that runs.
    """
    scope = team if dataflow.visibility == "private" else ""
    return merge(
        estate.tasks, with_scoped_secrets(dataflow, team=team, task_types=task_types), task_types=task_types,
        scope=scope, fresh_for=dataflow_id if fresh else "")


def woken(estate: EstateView, merged: Merge) -> dict[str, SlotLoad]:
    """The load of the paused tasks that a merge joins, by slot name: they work again with it."""
    change = adjust(estate, dict.fromkeys(resting(estate, merged.reused), "works"))
    return growth_of(change.before.values(), change.after.values(), estate.tasks)


def plan_removal(estate: EstateView, dataflow_id: str, *, task_types: TaskTypes, prices: Prices) -> Plan:
    """Plan the removal of a submitted dataflow from the estate.

    Stops the fragments that nobody else needs, closes the tails of those needed in part, and closes the outlets that
    thereby lose their last reader; nothing that keeps running is restarted. ``reused`` of the plan are the tasks that
    stay for others.
    """
    submitted = submitted_in(estate, dataflow_id)
    unmerged = unmerge(estate, dataflow_id)
    stopped = tuple(estate.tasks[task_id] for task_id in unmerged.stopped)
    change = adjust(estate, unmerged.activities)
    rested = unmerged.rested(estate)
    ceased = [*rested, *(task_id for task_id in unmerged.stopped if is_working(estate, task_id))]
    return plan_of_change(
        REMOVE, estate, submitted, change, heads=heads_of(change.after.values()),
        reused=unmerged.staying,
        stopped=stopped,
        rested=rested,
        price=price_of_rearrangement(
            estate, submitted, task_types=task_types, prices=prices, tasks_stopped=len(stopped),
            queries_stopped=queries_ceased(change),
            ceases=turned_cost(estate, ceased, task_types=task_types, prices=prices)),
        bill_changes=() if submitted.paused else bill_changes(
            estate, unmerged.staying, team=submitted.team, comes=False, task_types=task_types, prices=prices),
    )


def _check_plannable(estate: EstateView, dataflow: Dataflow, dataflow_id: str, task_types: TaskTypes) -> None:
    if dataflow_id in estate.submitted:
        raise AlreadySubmitted(
            f"Dataflow {dataflow_id} is submitted already",
            remedy="Remove it first, or submit it under another id.", dataflow=dataflow_id,
        )
    require_types(dataflow, task_types=task_types)
