"""Changing: the plan by which another version of a dataflow takes the place of the one that runs.

Tasks that are the same in both versions, ancestors included, go on untouched: in the same query, with their state and
their offsets in channels. So a sink that does not change gets exactly the events that it would have got. Tasks of the
new version alone join running ones or start, as in a submission; tasks of the old one alone stop, as in a removal. Both
are one plan, so there is no moment without either version.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from types import MappingProxyType

from .exact_savepoints import beginning_note, identity_apart, restored
from .model.dataflow import Dataflow
from .model.errors import InvalidTransition
from .model.estate import Submitted
from .model.plan import BillChange, Plan, Price
from .model.plan_kinds import CHANGE
from .model.ports import EstateView
from .model.prices import Prices
from .model.saved_states import SavedStates, SavedTask
from .model.secrets import with_scoped_secrets
from .model.settings_of_fragments import FragmentSettings, first_settings
from .model.task_types import TaskTypes, require_types
from .newcomer import Newcomer, resting
from .performance.running_costs import turned_cost
from .plan_building import heads_of, plan_of_change, submitted_in
from .reuse.activity import Activity, FragmentChange, adjust, crowding_note, is_working, queries_ceased
from .reuse.bill_changes import LEAST, bill_changes
from .reuse.fingerprint import fingerprints
from .reuse.fragments import NOW, attach, chained_note
from .reuse.merge import Merge
from .reuse.order import order_note, reads_divided
from .reuse.unmerge import unmerge


def plan_change(
    estate: EstateView, dataflow: Dataflow, *, former: Dataflow, dataflow_id: str, team: str, task_types: TaskTypes,
    prices: Prices, fresh: bool = False, begin: str = NOW, remarks: Sequence[str] = (),
    settings: Mapping[str, FragmentSettings] = MappingProxyType({}), begin_from: SavedStates | None = None,
    anew: bool = False,
) -> Plan:
    """Plan that another version of a dataflow takes the place of the one that runs.

    Parameters
    ----------
    dataflow_id, team : str
        The dataflow's id in the estate, and its team by its short name.
    fresh : bool
        True if no new task joins a running stateful one: it is started anew, with all that is downstream of it.
    begin : str
        The beginning of new fragments in the streams of running tasks: ``now``, ``oldest``, or a time in ms since the
        epoch.
    settings : mapping of str to FragmentSettings, optional
        By task of the dataflow: the first settings of its query, without usual ones. They do not count if the running
        version has a schedule.
    begin_from : SavedStates, optional
        The named savepoint from which the new version begins. Then all of its tasks start, on the savepoint's node, and
        the running ones stop unless others need them.
    anew : bool, optional
        True if no task of the running version goes on, even equal ones: that version began from a savepoint, and is
        taken back.

    Returns
    -------
    Plan
        Frozen; ``replaced`` is the entry of the running version. Equal tasks keep their query and state without a
        restart.

    Raises
    ------
    NotSubmitted
        The estate has no dataflow of that id.
    InvalidTransition
        It is paused.
    UnknownTaskType
        A task's type is not installed.
    NoSlots
        Something has to start and there is no slot.
    SavepointDiffers
        Its tasks are others than those of the savepoint from which it is to begin.
    """
    before = submitted_in(estate, dataflow_id)
    if before.paused:
        raise InvalidTransition(
            f"{before.name} is paused.", remedy="Resume it first, or remove it and submit the new version.",
            dataflow=dataflow_id)
    require_types(dataflow, task_types=task_types)
    scope = team if dataflow.visibility == "private" else ""
    alone = with_scoped_secrets(dataflow, team=team, task_types=task_types)
    newcomer = Newcomer(
        estate, alone, dataflow_id=dataflow_id, team=team, scope=scope, task_types=task_types, prices=prices,
        unchanged={} if begin_from or anew else _unchanged(
            alone, with_scoped_secrets(former, team=team, task_types=task_types), before, scope=scope,
            task_types=task_types))
    if begin_from is not None:
        newcomer = _begun_apart(newcomer, begin_from)
    version = _Version(estate, before, newcomer, newcomer.merged(fresh=fresh), begin_from)
    return version.plan(dataflow, begin=begin, otherwise=not fresh, remarks=remarks, settings=settings)


def _begun_apart(newcomer: Newcomer, saved: SavedStates) -> Newcomer:
    """The same with a past of its own: also where the version that runs began from that savepoint, too."""
    apart = identity_apart(newcomer.dataflow_id, saved)
    tried = (replace(newcomer, restored=f"{apart}:{again}" if again else apart) for again in count())
    return next(newer for newer in tried if not newer.merged(fresh=False).reused)


def _unchanged(
    dataflow: Dataflow, former: Dataflow, before: Submitted, *, scope: str, task_types: TaskTypes
) -> dict[str, str]:
    """The tasks that are the same in the version that runs, upstream included, with what executes each.

    By the documents, not by what runs: a task that was started fresh, or is made from a wider one, stays what it is.
    """
    if former.visibility != dataflow.visibility or any(
            task.type not in task_types or task.id not in before.running for task in former.tasks):
        return {}  # what is equivalent by what runs is found by the merge all the same
    old, new = (fingerprints(version, task_types=task_types, scope=scope) for version in (former, dataflow))
    runs = {identity: before.running[task_id] for task_id, identity in old.items() if task_id in before.running}
    return {task_id: runs[identity] for task_id, identity in new.items() if identity in runs}


@dataclass(frozen=True)
class _Version:
    """Another version of a dataflow, and how it takes the place of the one that runs."""

    estate: EstateView
    before: Submitted
    newcomer: Newcomer
    merged: Merge
    begin_from: SavedStates | None = None

    @cached_property
    def running(self) -> Mapping[str, str]:
        """The running task of each task: of the document, and what the version that runs has besides to make those
        from."""
        running = dict(self.merged.running)
        named = {running_id: task_id for task_id, running_id in sorted(self.before.running.items())}
        running_ids, unseen = set(running.values()), [task_id for task_id in running.values() if task_id in named]
        while unseen:
            for parent in self.estate.tasks[unseen.pop()].parents:
                if parent not in running_ids:
                    running_ids.add(parent)
                    unseen.append(parent)
                    running[_free(named[parent], running)] = parent
        return running

    @cached_property
    def reused(self) -> tuple[str, ...]:
        """The parts that execute it and run already."""
        started = {task.id for task in self.merged.started}
        return tuple(dict.fromkeys(task_id for task_id in self.running.values() if task_id not in started))

    @cached_property
    def joined(self) -> tuple[str, ...]:
        """The reused parts that the running version does not use: it is others'."""
        used = set(self.before.running.values())
        return tuple(task_id for task_id in self.reused if task_id not in used)

    @cached_property
    def left(self) -> Mapping[str, Activity]:
        """The activity of each running task that only the running version uses."""
        used = set(self.running.values())
        return {
            task_id: stands for task_id, stands in unmerge(self.estate, self.before.id).activities.items()
            if task_id not in used}

    @cached_property
    def ceased(self) -> tuple[str, ...]:
        """Running tasks that cease to work."""
        return tuple(
            task_id for task_id, stands in self.left.items() if stands != "works" and is_working(self.estate, task_id))

    def plan(
        self, dataflow: Dataflow, *, begin: str, otherwise: bool, remarks: Sequence[str],
        settings: Mapping[str, FragmentSettings],
    ) -> Plan:
        """The plan; ``otherwise`` is the other choice of starting fresh, for its price."""
        estate, newcomer = self.estate, self.newcomer
        started = newcomer.started(self.merged)
        chains, saved = newcomer.chains(self.merged), self.begin_from
        resumed = resting(estate, self.reused)
        adjusted = adjust(estate, {**dict.fromkeys(resumed, "works"), **self.left})
        change = attach(
            estate, chains, newcomer.least_loaded(chains, started, node=saved.node if saved else ""),
            team=newcomer.team, started=started, resumed=adjusted, begin=begin)
        stopped = tuple(estate.tasks[task_id] for task_id, stands in self.left.items() if stands == "leaves")
        return plan_of_change(
            CHANGE, estate,
            Submitted(
                id=self.before.id, name=dataflow.name, team=self.before.team, running=self.running,
                sinks=tuple(task.id for task in dataflow.tasks if newcomer.task_types[task.type].kind == "sink"),
                scheduled=self.before.scheduled, unchained=dataflow.unchained),
            change,
            heads=self._noticed(change), reused=self.reused, started=tuple(started.values()), stopped=stopped,
            rested=tuple(task_id for task_id in self.ceased if self.left[task_id] == "rests"), resumed=resumed,
            fresh=self.merged.fresh, replaced=self.before,
            settings_after=first_settings(
                change.before, change.after, self.running, {} if self.before.scheduled else settings,
                restores=self._restores()),
            price=self._price(adjusted, queries=len(chains), stopped=len(stopped)),
            otherwise=None if saved else self._price_otherwise(fresh=otherwise),
            bill_changes=self._bill_changes(),
            notes=tuple(filter(None, [
                beginning_note(saved, newcomer.dataflow, newcomer.task_types) if saved else "",
                order_note(reads_divided(estate, started, task_types=newcomer.task_types), started),
                crowding_note(estate, adjusted, tasks=self.reused), self._state_note(), self._schedule_note(),
                chained_note(estate, {task: self.running[task] for task in dataflow.unchained}), *remarks])))

    def _restores(self) -> Mapping[str, SavedTask]:
        if self.begin_from is None:
            return {}
        return restored(self.begin_from, self.newcomer.dataflow, self.running, task_types=self.newcomer.task_types)

    def _noticed(self, change: FragmentChange) -> list[str]:
        """Running tasks whose users notice: what is joined, most upstream, and the heads of fragments that change."""
        joined = set(self.joined)
        return [
            *(task_id for task_id in self.joined if joined.isdisjoint(self.estate.tasks[task_id].parents)),
            *heads_of(fragment for fragment_id, fragment in change.before.items() if fragment_id in change.after)]

    def _price(self, adjusted: FragmentChange, *, queries: int, stopped: int) -> Price:
        newcomer = self.newcomer
        freed = turned_cost(self.estate, self.ceased, task_types=newcomer.task_types, prices=newcomer.prices)
        return newcomer.price(
            replace(self.merged, reused=self.reused), adjusted, queries=queries, freed=freed,
            tasks_reused=len(self.reused), tasks_stopped=stopped, queries_stopped=queries_ceased(adjusted))

    def _price_otherwise(self, *, fresh: bool) -> Price | None:
        alternative = _Version(self.estate, self.before, self.newcomer, self.newcomer.merged(fresh=fresh))
        if alternative.merged.running == self.merged.running:
            return None
        adjusted = adjust(
            self.estate, {**dict.fromkeys(resting(self.estate, alternative.reused), "works"), **alternative.left})
        return alternative._price(
            adjusted, queries=len(self.newcomer.chains(alternative.merged)),
            stopped=sum(stands == "leaves" for stands in alternative.left.values()))

    def _bill_changes(self) -> tuple[BillChange, ...]:
        """The changes of others' bills for tasks that the new version joins, and for tasks that it leaves to them."""
        others = [task_id for task_id, stands in self.left.items() if stands == "works"]
        totals: dict[str, float] = {}
        for shared, comes in ((self.joined, True), (others, False)):
            for entry in bill_changes(
                    self.estate, shared, team=self.before.team, comes=comes, task_types=self.newcomer.task_types,
                    prices=self.newcomer.prices):
                totals[entry.team] = totals.get(entry.team, 0.0) + entry.money_per_hour_delta
        return tuple(
            BillChange(name, round(money, 6)) for name, money in sorted(totals.items()) if abs(money) >= LEAST)

    def _state_note(self) -> str:
        """A note about state that stops: another change back would not find it."""
        types = self.newcomer.task_types
        names = sorted(
            task_id for task_id, running_id in self.before.running.items()
            if self.left.get(running_id) == "leaves" and (task_type := types.get(self.estate.tasks[running_id].type))
            and task_type.stateful)
        if not names:
            return ""
        return (
            f"State that ends with the version that runs: {', '.join(names)}. Going back to it starts that from "
            "nothing.")

    def _schedule_note(self) -> str:
        if not self.before.scheduled or not self.merged.started:
            return ""
        return (
            "What starts is in no schedule, and what the schedule that runs promised no longer counts: schedule the "
            "dataflow again for another promise.")


def _free(name: str, taken: Iterable[str]) -> str:
    """An id that is not taken: of what a document does not name, so that only that can be in the way."""
    return name if name not in taken else _free(f"{name}~", taken)
