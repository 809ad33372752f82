"""Planning: what a submission or a removal would change, composed into one frozen plan before anything changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property, partial

from .enactment import LaidOut, bundle_ids, lay_out, notes_of, promise_of
from .mapping.least_loaded import place_least_loaded
from .model.dataflow import Dataflow
from .model.encoding import freeze_plan
from .model.errors import AlreadySubmitted
from .model.estate import Submitted
from .model.fragment import RunningTask
from .model.plan import Plan, Price
from .model.plan_kinds import REMOVE, SUBMIT
from .model.ports import EstateView
from .model.prices import Prices
from .model.secrets import with_scoped_secrets
from .model.task_types import TaskTypes, require_types
from .model.usage import SlotLoad, growth_of
from .performance.pricing import cores_at, in_slots, price_of, query_cores, running_cores
from .performance.rates import input_rates_per_s
from .plan_building import plan_of_change, submitted_in
from .reuse.activity import (
    FragmentChange,
    adjust,
    crowding_note,
    is_working,
    queries_begun,
    queries_ceased,
)
from .reuse.bill_changes import bill_changes
from .reuse.containment import Containment, contain
from .reuse.fragments import NOW, attach, cut_into_chains
from .reuse.merge import Merge, merge
from .reuse.order import order_note, reads_divided
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
    alone = with_scoped_secrets(dataflow, team=team, task_types=task_types)
    scope = team if dataflow.visibility == "private" else ""
    contained = contain(
        estate.tasks, alone, task_types=task_types, containment=None if schedule else containment, scope=scope,
        stateful=not fresh, works=partial(is_working, estate))
    submission = _Submission(
        estate, contained.dataflow, alone, dataflow_id=dataflow_id, scope=scope, task_types=task_types, prices=prices,
        # Profiles are of tasks: one that is scheduled has a query to itself.
        longest_chain=1 if schedule else longest_chain)
    merged = submission.merged(fresh=fresh)
    started = submission.started(merged)
    chains = submission.chains(tuple(started.values()))
    laid_out = LaidOut() if schedule is None else lay_out(schedule, merged.running, started)
    slots = submission.least_loaded(chains, started) if schedule is None else [
        laid_out.slots[chain[0]] for chain in chains]
    resumed = adjust(estate, dict.fromkeys(_resumed(estate, merged.reused), "works"))
    change = attach(
        estate, chains, slots, started=started, resumed=resumed, begin=begin, bundles=laid_out.bundles)
    price = submission.price(merged, resumed, queries=laid_out.queries or len(chains))
    return freeze_plan(plan_of_change(
        SUBMIT, estate,
        Submitted(
            id=dataflow_id, name=dataflow.name, team=team, running=merged.running,
            sinks=tuple(task.id for task in contained.dataflow.tasks if task_types[task.type].kind == "sink"),
            scheduled=schedule is not None),
        change,
        # Whoever uses a task uses all that is upstream of it: the users of the sources are all there are.
        heads=(task_id for task_id in merged.reused if not estate.tasks[task_id].parents), others_only=False,
        reused=merged.reused,
        started=tuple(started.values()),
        resumed=_resumed(estate, merged.reused),
        fresh=merged.fresh,
        refined=contained.refinements,
        price=price if schedule is None else in_slots(price, prices=prices, slots=laid_out.all_slots),
        otherwise=None if schedule else submission.price_otherwise(merged, fresh=not fresh),
        bill_changes=bill_changes(
            estate, merged.reused, team=team, comes=True, task_types=task_types, prices=prices),
        promise=schedule and promise_of(
            schedule, currency=prices.currency, id_of=bundle_ids(change.after.values(), merged.running)),
        notes=(
            *filter(None, [
                order_note(reads_divided(estate, started, task_types=task_types), started),
                crowding_note(estate, resumed, own=merged.reused)]),
            *(notes_of(schedule, task_types=task_types) if schedule else ()), *remarks),
    ))


@dataclass(frozen=True)
class _Submission:
    """A dataflow that is submitted, however it joins what runs: what its tasks merge into, and what they take."""

    estate: EstateView
    dataflow: Dataflow  # with the tasks that are made from wider ones
    alone: Dataflow  # as it would run by itself
    _: KW_ONLY
    dataflow_id: str
    scope: str
    task_types: TaskTypes
    prices: Prices
    longest_chain: int | None

    @cached_property
    def rates_per_s(self) -> Mapping[str, float]:
        """Events per second that each task is expected to work on, by its id in the dataflow."""
        return input_rates_per_s(self.dataflow, task_types=self.task_types)

    @cached_property
    def cores(self) -> Mapping[str, float]:
        """CPU cores that each task is expected to take, by its id in the dataflow."""
        return self._cores(self.dataflow, self.rates_per_s)

    @cached_property
    def cores_alone(self) -> float:
        """CPU cores of all tasks if the dataflow ran alone."""
        if self.dataflow is self.alone:
            return sum(self.cores.values())
        return sum(self._cores(self.alone, input_rates_per_s(self.alone, task_types=self.task_types)).values())

    def _cores(self, dataflow: Dataflow, rates_per_s: Mapping[str, float]) -> dict[str, float]:
        return {
            task.id: cores_at(self.task_types[task.type], rates_per_s[task.id], prices=self.prices)
            for task in dataflow.tasks}

    def merged(self, *, fresh: bool) -> Merge:
        """What it finds running and what it adds, with its stateful tasks joined or started anew."""
        return merge(
            self.estate.tasks, self.dataflow, task_types=self.task_types, scope=self.scope,
            fresh_for=self.dataflow_id if fresh else "")

    def started(self, merged: Merge) -> dict[str, RunningTask]:
        """The tasks that a merge starts, with the rate and the cores that they are expected to take, by running id."""
        named = {running_id: task_id for task_id, running_id in merged.running.items()}
        return {
            task.id: replace(task, cores=self.cores[named[task.id]], rate_per_s=self.rates_per_s[named[task.id]])
            for task in merged.started}

    def chains(self, tasks: Sequence[RunningTask]) -> tuple[tuple[str, ...], ...]:
        """Tasks cut into chains, each a query."""
        return cut_into_chains(tasks, task_types=self.task_types, longest_chain=self.longest_chain)

    def least_loaded(self, chains: Sequence[Sequence[str]], started: Mapping[str, RunningTask]) -> list[str]:
        """A slot for each chain: the one with least to do, and that no schedule counts on where there is another.

        More slots than chains are never needed.
        """
        for_query = query_cores(self.prices)
        least = self.estate.least_loaded(len(chains), query_cores=for_query, apart=True)
        return place_least_loaded(
            [for_query + sum(started[task_id].cores for task_id in chain) for chain in chains],
            slots=[slot for slot, _ in least], load={slot.name: spent for slot, spent in least})

    def price(self, merged: Merge, change: FragmentChange, *, queries: int) -> Price:
        """The price of a merge that starts so many queries and resumes others by a change."""
        cores = self._running_cores(merged)
        working = (*(task.id for task in merged.started), *_resumed(self.estate, merged.reused))
        return price_of(
            prices=self.prices, tasks_started=len(merged.started), tasks_reused=len(merged.reused),
            queries_started=queries + queries_begun(change), task_cores_alone=self.cores_alone,
            task_cores_delta=sum(cores[task_id] for task_id in working),
            queries_alone=len(self.chains(_as_running(self.alone))),
            types={task.type for task in self.alone.tasks})

    def price_otherwise(self, merged: Merge, *, fresh: bool) -> Price | None:
        """The price of the other choice: to start anew what this joins, or the reverse; None where it is the same."""
        other = self.merged(fresh=fresh)
        if other.running == merged.running:
            return None
        resumed = adjust(self.estate, dict.fromkeys(_resumed(self.estate, other.reused), "works"))
        return self.price(other, resumed, queries=len(self.chains(other.started)))

    def _running_cores(self, merged: Merge) -> dict[str, float]:
        return {running_id: self.cores[task_id] for task_id, running_id in merged.running.items()}


def merged_plainly(
    estate: EstateView, dataflow: Dataflow, *, dataflow_id: str, team: str, task_types: TaskTypes, fresh: bool = False
) -> Merge:
    """What a dataflow would find and add with a schedule: its tasks are as they were submitted, none is contained.

    Parameters
    ----------
    estate : EstateView
        What runs, for whom and where, as the decision sees it.
    dataflow : Dataflow
        The dataflow as submitted.
    dataflow_id : str
        The dataflow's id.
    team : str
        The team, by its short name.
    task_types : TaskTypes
        The catalogue, by type name.
    fresh : bool, optional
        Whether it joins nothing that runs.
    """
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

    Parameters
    ----------
    estate : EstateView
        What runs, for whom and where, as the decision sees it.
    dataflow_id : str
        The dataflow's id.
    task_types : TaskTypes
        The catalogue, by type name.
    prices : Prices
        What a core, a query and what they take cost an hour.

    Raises
    ------
    NotSubmitted
        The estate has no dataflow of that id.
    """
    submitted = submitted_in(estate, dataflow_id)
    unmerged = unmerge(estate, dataflow_id)
    stopped = tuple(estate.tasks[task_id] for task_id in unmerged.stopped)
    change = adjust(estate, unmerged.activities)
    rested = unmerged.rested(estate)
    ceased = [*rested, *(task_id for task_id in unmerged.stopped if is_working(estate, task_id))]
    own = tuple(estate.tasks[task_id] for task_id in (*unmerged.kept, *unmerged.stopped))
    return freeze_plan(plan_of_change(
        REMOVE, estate, submitted, change,
        # A fragment's first task is upstream of all its others, so whoever uses them uses it.
        heads=(fragment.tasks[0] for fragment in change.after.values()),
        reused=unmerged.kept,
        stopped=stopped,
        rested=rested,
        price=price_of(
            prices=prices,
            tasks_reused=len(unmerged.kept),
            tasks_stopped=len(stopped),
            queries_stopped=queries_ceased(change),
            task_cores_delta=-sum(
                running_cores(estate.tasks[task_id], task_types=task_types, prices=prices) for task_id in ceased),
            task_cores_alone=sum(running_cores(task, task_types=task_types, prices=prices) for task in own),
            queries_alone=len(cut_into_chains(own, task_types=task_types)),
            types={task.type for task in own},
        ),
        bill_changes=() if submitted.paused else bill_changes(
            estate, unmerged.kept, team=submitted.team, comes=False, task_types=task_types, prices=prices),
    ))


def _as_running(dataflow: Dataflow) -> tuple[RunningTask, ...]:
    """The dataflow's tasks as if they ran under their own ids: enough to cut them into chains."""
    parents = dataflow.parents()
    return tuple(
        RunningTask(id=task.id, type=task.type, config={}, parents=tuple(parents[task.id])) for task in dataflow.tasks)


def _check_plannable(estate: EstateView, dataflow: Dataflow, dataflow_id: str, task_types: TaskTypes) -> None:
    if dataflow_id in estate.submitted:
        raise AlreadySubmitted(
            f"Dataflow {dataflow_id} is submitted already",
            remedy="Remove it first, or submit it under another id.", dataflow=dataflow_id,
        )
    require_types(dataflow, task_types=task_types)


def _resumed(estate: EstateView, reused: Iterable[str]) -> tuple[str, ...]:
    return tuple(task_id for task_id in reused if not is_working(estate, task_id))
