"""Planning: what a submission or a removal would change, composed into one frozen plan before anything changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from .enactment import LaidOut, bundle_ids, lay_out, notes_of, promise_of
from .mapping.least_loaded import place_least_loaded
from .model.dataflow import Dataflow
from .model.encoding import freeze_plan
from .model.errors import AlreadySubmitted, NotSubmitted
from .model.estate import Submitted
from .model.fragment import RunningTask
from .model.plan import Plan, Price
from .model.plan_kinds import REMOVE, SUBMIT
from .model.ports import EstateView
from .model.prices import Prices
from .model.secrets import with_scoped_secrets
from .model.task_types import TaskTypes, require_types
from .model.usage import NAMED, SlotLoad, growth_of
from .performance.pricing import in_slots, price_of, query_cores
from .performance.rates import task_cores
from .reuse.containment import Containment, contain
from .reuse.fragments import NOW, attach, cut_into_chains
from .reuse.merge import Merge, merge
from .reuse.order import order_note, reads_divided
from .reuse.standing import (
    FragmentChange,
    adjust,
    crowding_note,
    is_working,
    queries_begun,
    queries_ceased,
)
from .reuse.unmerge import unmerge
from .scheduling import Schedule


def plan_submission(
    estate: EstateView,
    dataflow: Dataflow,
    *,
    dataflow_id: str,
    team: str,
    task_types: TaskTypes,
    prices: Prices,
    longest_chain: int | None = None,
    fresh: bool = False,
    begin: str = NOW,
    containment: Containment | None = None,
    schedule: Schedule | None = None,
    remarks: Sequence[str] = (),
) -> Plan:
    """Plan the merge of a submitted dataflow into the estate.

    Parameters
    ----------
    estate : EstateView
        What runs now, by look-ups; it is not changed.
    dataflow : Dataflow
        Valid, as `read_document` returns it.
    dataflow_id, team : str
        The submission's id, and the team whose private tasks it may share where the dataflow is private.
    task_types : TaskTypes
        Declarations of all its types.
    prices : Prices
        What a core and hour costs, and how often queries run batches.
    longest_chain : int, optional
        Most tasks in a new fragment; None for no limit.
    fresh : bool
        Join no stateful task that runs already, but start it anew with all that is downstream of it.
    begin : str
        Where new fragments begin in the streams of running tasks: ``now``, ``oldest`` (the oldest event that the
        channel still holds) or a time in ms since the epoch.
    containment : Containment, optional
        Where the team wants it: a task that is contained in one that runs becomes a refinement of that one. Not with a
        schedule, which is of the tasks as they were submitted.
    schedule : Schedule, optional
        Of all that is new (`merged_plainly`): each becomes a fragment of its own, with the bundles that it gets there.
    remarks : sequence of str
        What else reviewers should know of the schedule.

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
        Something has to start and there is no slot.
    StalePlan
        The schedule is of other tasks than are new.
    InsufficientSlots
        Some of its slots are on machines that would have to be bought.
    """
    _check_plannable(estate, dataflow, dataflow_id, task_types)
    scope = team if dataflow.visibility == "private" else ""
    alone = with_scoped_secrets(dataflow, team=team, task_types=task_types)
    contained = contain(
        estate.tasks, alone, task_types=task_types, containment=None if schedule else containment, scope=scope,
        stateful=not fresh)
    dataflow = contained.dataflow
    cores_of = partial(task_cores, task_types=task_types, trigger_ms=prices.trigger_ms)
    expected = cores_of(dataflow)
    cores_alone = sum((expected if dataflow is alone else cores_of(alone)).values())

    def merged_as(fresh: bool) -> Merge:
        return merge(
            estate.tasks, dataflow, task_types=task_types, scope=scope, fresh_for=dataflow_id if fresh else "")

    def chains_of(tasks: Sequence[RunningTask]) -> tuple[tuple[str, ...], ...]:
        # Profiles are of tasks: one that is scheduled has a query to itself.
        return cut_into_chains(tasks, task_types=task_types, longest_chain=1 if schedule else longest_chain)

    queries_alone = len(chains_of(_as_running(alone)))

    def price_as(merged: Merge, change: FragmentChange, chains: int) -> Price:
        cores = {running_id: expected[task_id] for task_id, running_id in merged.running.items()}
        working = (*(task.id for task in merged.started), *_resumed(estate, merged.reused))
        return price_of(
            prices=prices, tasks_started=len(merged.started), tasks_reused=len(merged.reused),
            queries_started=chains + queries_begun(change), task_cores_alone=cores_alone,
            task_cores_delta=sum(cores[task_id] for task_id in working), queries_alone=queries_alone,
        )

    merged, other = merged_as(fresh), merged_as(not fresh)
    cores = {running_id: expected[task_id] for task_id, running_id in merged.running.items()}
    started = {task.id: replace(task, cores=cores[task.id]) for task in merged.started}
    chains = chains_of(tuple(started.values()))
    laid_out = LaidOut() if schedule is None else lay_out(schedule, merged.running, started)
    slots = (
        _least_loaded(estate, chains, cores, query_cores=query_cores(prices)) if schedule is None
        else [laid_out.slots[chain[0]] for chain in chains])
    resumed = adjust(estate, dict.fromkeys(_resumed(estate, merged.reused), "works"))
    change = attach(
        estate, chains, slots, started=started, resumed=resumed, begin=begin, bundles=laid_out.bundles)
    otherwise = None
    if other.running != merged.running and schedule is None:
        begun = adjust(estate, dict.fromkeys(_resumed(estate, other.reused), "works"))
        otherwise = price_as(other, begun, len(chains_of(other.started)))
    price = price_as(merged, resumed, laid_out.queries or len(chains))
    disordered = reads_divided(estate, started, task_types=task_types)
    return freeze_plan(
        Plan(
            kind=SUBMIT.name,
            generation=estate.generation,
            dataflow=Submitted(
                id=dataflow_id, name=dataflow.name, team=team, running=merged.running,
                sinks=tuple(task.id for task in dataflow.tasks if task_types[task.type].kind == "sink"),
                scheduled=schedule is not None,
            ),
            reused=merged.reused,
            started=tuple(started.values()),
            stopped=(),
            resumed=_resumed(estate, merged.reused),
            fresh=merged.fresh,
            refined=contained.refinements,
            steps=change.steps,
            fragments_before=change.before,
            fragments_after=change.after,
            # Whoever uses a task uses all that is upstream of it: the users of the sources are all there are.
            **touched_by(estate, (task_id for task_id in merged.reused if not estate.tasks[task_id].parents)),
            price=price if schedule is None else in_slots(price, prices=prices, slots=laid_out.all_slots),
            otherwise=otherwise,
            promise=schedule and promise_of(
                schedule, currency=prices.currency, id_of=bundle_ids(change.after.values(), merged.running)),
            notes=(
                *filter(None, [
                    order_note(disordered, started), crowding_note(estate, resumed, own=merged.reused)]),
                *(notes_of(schedule, task_types=task_types) if schedule else ()), *remarks),
        )
    )


def merged_plainly(
    estate: EstateView, dataflow: Dataflow, *, dataflow_id: str, team: str, task_types: TaskTypes, fresh: bool = False
) -> Merge:
    """What a dataflow would find and add with a schedule: its tasks are as they were submitted, none is contained."""
    scope = team if dataflow.visibility == "private" else ""
    return merge(
        estate.tasks, with_scoped_secrets(dataflow, team=team, task_types=task_types), task_types=task_types,
        scope=scope, fresh_for=dataflow_id if fresh else "")


def woken(estate: EstateView, merged: Merge) -> dict[str, SlotLoad]:
    """What the paused tasks that a merge joins will take of their slots, by slot name: they work again with it."""
    change = adjust(estate, dict.fromkeys(_resumed(estate, merged.reused), "works"))
    return growth_of(change.before.values(), change.after.values(), estate.tasks)


def plan_removal(estate: EstateView, dataflow_id: str, *, task_types: TaskTypes, prices: Prices) -> Plan:
    """Plan the removal of a submitted dataflow from the estate.

    Stops the fragments that nobody else needs, closes the tails of those needed in part, and closes the outlets that
    thereby lose their last reader; nothing that keeps running is restarted. ``reused`` of the plan are the tasks that
    stay for others.

    Raises
    ------
    NotSubmitted
        The estate has no dataflow of that id.
    """
    submitted = submitted_in(estate, dataflow_id)
    unmerged = unmerge(estate, dataflow_id)
    stopped = tuple(estate.tasks[task_id] for task_id in unmerged.stopped)
    change = adjust(estate, unmerged.standing)
    rested = unmerged.rested(estate)
    ceased = [*rested, *(task_id for task_id in unmerged.stopped if is_working(estate, task_id))]
    own = tuple(estate.tasks[task_id] for task_id in (*unmerged.kept, *unmerged.stopped))
    return freeze_plan(
        Plan(
            kind=REMOVE.name,
            generation=estate.generation,
            dataflow=submitted,
            reused=unmerged.kept,
            started=(),
            stopped=stopped,
            rested=rested,
            steps=change.steps,
            fragments_before=change.before,
            fragments_after=change.after,
            # A fragment's first task is upstream of all its others, so whoever uses them uses it.
            **touched_by(estate, (fragment.tasks[0] for fragment in change.after.values()), besides=submitted),
            price=price_of(
                prices=prices,
                tasks_reused=len(unmerged.kept),
                tasks_stopped=len(stopped),
                queries_stopped=queries_ceased(change),
                task_cores_delta=-sum(estate.tasks[task_id].cores for task_id in ceased),
                task_cores_alone=sum(task.cores for task in own),
                queries_alone=len(cut_into_chains(own, task_types=task_types)),
            ),
        )
    )


def _as_running(dataflow: Dataflow) -> tuple[RunningTask, ...]:
    """The dataflow's tasks as if they ran under their own ids: enough to cut them into chains."""
    parents = dataflow.parents()
    return tuple(
        RunningTask(id=task.id, type=task.type, config={}, parents=tuple(parents[task.id])) for task in dataflow.tasks)


def _least_loaded(
    estate: EstateView, chains: Sequence[Sequence[str]], cores: Mapping[str, float], *, query_cores: float
) -> list[str]:
    """A slot for each chain: the one that has least to do, and that no schedule counts on where there is another.

    More slots than chains are never needed.
    """
    least = estate.least_loaded(len(chains), query_cores=query_cores, apart=True)
    return place_least_loaded(
        [query_cores + sum(cores[task_id] for task_id in chain) for chain in chains],
        slots=[slot for slot, _ in least],
        load={slot.name: spent for slot, spent in least},
    )


def _check_plannable(estate: EstateView, dataflow: Dataflow, dataflow_id: str, task_types: TaskTypes) -> None:
    if dataflow_id in estate.submitted:
        raise AlreadySubmitted(
            f"Dataflow {dataflow_id} is submitted already",
            remedy="Remove it first, or submit it under another id.", dataflow=dataflow_id,
        )
    require_types(dataflow, task_types=task_types)


def submitted_in(estate: EstateView, dataflow_id: str) -> Submitted:
    """The dataflow's entry; ``NotSubmitted`` where the estate has none."""
    if dataflow_id not in estate.submitted:
        raise NotSubmitted(
            f"Dataflow {dataflow_id} does not run", remedy="Look up the id in the list of dataflows.",
            dataflow=dataflow_id,
        )
    return estate.submitted[dataflow_id]


def _resumed(estate: EstateView, reused: Iterable[str]) -> tuple[str, ...]:
    return tuple(task_id for task_id in reused if not is_working(estate, task_id))


def touched_by(estate: EstateView, task_ids: Iterable[str], *, besides: Submitted | None = None) -> dict[str, Any]:
    """Who else uses any of the running tasks, in the fields of a plan; ``besides`` uses them all and does not count."""
    users = [estate.users_of(task_id) for task_id in task_ids]
    own, left = (0, "") if besides is None else (1, besides.id)
    team = "" if besides is None else besides.team
    named = sorted({user for one in users for user in one.first} - {left})[:NAMED]
    teams = {of for one in users for of, number in one.by_team.items() if number > (own if of == team else 0)}
    return {
        "touched": tuple(named),
        "touched_teams": tuple(sorted(teams)),
        "touched_count": max((len(named), *(one.count - own for one in users))),
    }
