"""Schedules of a dataflow: all pairs side by side, what a rate would take, and the one that a plan is made of.

For pages and API, with a dataflow that the viewer may know of:

- ``problem_of(record, routing=…)``: what is to be scheduled on what, read from the database once; then, without it,
- ``problem.compare(rate_per_s)``: a ``scheduler.scheduling.Comparison``: schedules, and an error for each other pair
- ``problem.schedule(pair, rate_per_s)``: one of them
- ``problem.require(pair, rate_per_s)``: the error that would keep it from a plan, as far as that is found at once
- ``problem.what_if(rates_per_s, pairs)``: rows of slots, price and predicted rate, fast enough for a slider

To propose one: ``dashboard.approvals.services.propose_schedule``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from django.conf import settings as site

from dashboard import jobs
from dashboard.catalog.document_checks import stored_dataflow
from dashboard.catalog.models import DataflowRecord, DataflowVersion
from dashboard.operations.estate_store.estate_loader import stored_estate
from dashboard.operations.live_view.learned_costs import costs_here
from dashboard.operations.live_view.measured_keys import divided_keys
from dashboard.operations.live_view.schedulable_slots import supply
from dashboard.plans.defragment_evidence import measured_selectivities
from dashboard.plans.joining_options import last_options
from dashboard.profiles.selectors import profiles_for
from dashboard.teams.models import Team
from scheduler.assignment import SlotAssigner
from scheduler.enactment import require_room, require_slots
from scheduler.model.costs import DECLARED, Costs
from scheduler.model.dataflow import Dataflow
from scheduler.model.errors import NotEnactable, WeirError
from scheduler.model.fragment import Fragment, RunningTask
from scheduler.model.key_loads import DividedKeys
from scheduler.model.ports import EstateView
from scheduler.model.profile import Profiles
from scheduler.model.resources import Supply
from scheduler.model.usage import SlotLoad, loads_of
from scheduler.pairs import PAIRS, QUICK_PAIRS, Pair, quick_pair
from scheduler.performance.routing import Routing
from scheduler.planning import merged_plainly, woken
from scheduler.rescheduling import bound, schedulable
from scheduler.scheduling import Comparison, Job, Schedule, SchedulingOptions, compare, prepare, schedule

MOST_THREADS = 10_000  # of a dataflow: planned within half a second, and far beyond what an estate runs
MOST_THREADS_AT_ONCE = 200_000  # of all rates and pairs of one call




@dataclass(frozen=True)
class SchedulingProblem:
    """The dataflow and the slots to schedule, read once; its answers are pure."""

    dataflow: Dataflow
    profiles: Profiles
    supply: Supply
    options: SchedulingOptions
    among: frozenset[str] | None = None  # only these tasks; the others run already
    running: Mapping[str, Fragment] = field(default_factory=dict)  # by task: what is scheduled anew
    measured: Mapping[tuple[str, str], float] = field(default_factory=dict)  # selectivities that differ, by stream
    blocked: str = ""  # why none of its schedules can be proposed; empty where they can
    team: str = ""  # short name of the team whose own profiles count, too
    costs: Costs = DECLARED  # of sources and sinks without a profile
    keys: Mapping[str, DividedKeys] = field(default_factory=dict)  # by task: how those that run divided by key are

    @property
    def cut(self) -> int:
        """The number of queries that run several of its tasks, and would be cut by a schedule."""
        return len({fragment.id for fragment in self.running.values() if len(fragment.tasks) > 1})

    def job(self, rate_per_s: float | None = None) -> Job:
        """Rates, streams and profiles at a rate; each source's own without one."""
        return prepare(
            self.dataflow, task_types=jobs.task_types(), profiles=self.profiles, rate_per_s=rate_per_s,
            measured=self.measured, among=self.among, trigger_s=self.options.trigger_s, costs=self.costs,
            keys=self.keys, columns_of=jobs.columns_of)

    def compare(self, rate_per_s: float | None = None, *, pairs: Iterable[Pair] = PAIRS) -> Comparison:
        """A schedule for each pair, with its slots chosen so that most of what runs stays; an error for each other."""
        job = self.job(rate_per_s)
        return compare(job, supply=self.supply, pairs=pairs, options=self.options, arrange=self._assigner(job))

    def schedule(self, pair: Pair, rate_per_s: float | None = None) -> Schedule:
        """One schedule; raises the errors of its parts."""
        job = self.job(rate_per_s)
        return schedule(job, pair, supply=self.supply, options=self.options, arrange=self._assigner(job))

    def require_open(self) -> None:
        """Raise where none of its schedules can be proposed, or planned."""
        if self.blocked:
            raise NotEnactable(self.blocked, remedy="Let it run without a schedule of its own.")

    def require(self, pair: Pair, rate_per_s: float | None = None) -> None:
        """Raise what a plan of this schedule would fail with, here and now; the solver is not asked.

        Before anything is proposed: the plan, which is computed later, decides by the estate of then.

        Raises
        ------
        MissingProfile, RateNotHeld, InvalidResources
            There is no such schedule, on however many slots.
        InsufficientSlots
            It takes more than are free.
        NotEnactable
            It moves what cannot leave its node, or there is nothing that it could be of.
        """
        self.require_open()
        if pair in QUICK_PAIRS:
            require_slots(self.schedule(pair, rate_per_s))
            return
        # One that is not quick takes no more slots than this one, and no fewer than are allocated.
        scheduled = schedule(self.job(rate_per_s), quick_pair(pair), supply=self.supply, options=self.options)
        require_room(scheduled.allocation, self.supply)

    def what_if(self, rates_per_s: Iterable[float], *, pairs: Iterable[Pair] = QUICK_PAIRS) -> list[dict[str, Any]]:
        """The cost and rate of each pair at each rate, as `dashboard.api.answers.schedules.WhatIf`."""
        rates, pairs, rows = list(rates_per_s), tuple(pairs), []
        # Each has its share of what one call may cost: two hundred rates of thousands of threads take minutes.
        most_threads = min(self.options.most_threads, MOST_THREADS_AT_ONCE // max(1, len(rates) * len(pairs)))
        options = replace(self.options, most_threads=most_threads)
        for rate_per_s in rates:
            try:
                comparison = compare(self.job(rate_per_s), supply=self.supply, pairs=pairs, options=options)
            except WeirError as error:
                rows.extend({"rate_per_s": rate_per_s, "pair": pair, "error": error.as_dict()} for pair in pairs)
                continue
            rows.extend(_row(scheduled, rate_per_s) for scheduled in comparison.schedules)
            rows.extend(
                {"rate_per_s": rate_per_s, "pair": pair, "error": error.as_dict()}
                for pair, error in comparison.errors.items())
        return rows

    def _assigner(self, job: Job) -> SlotAssigner:
        return SlotAssigner(
            running={task: fragment.queries for task, fragment in self.running.items()},
            pinned=bound(self.running, job), supply=self.supply)


def problem_of(
    record: DataflowRecord, *, routing: Routing = "slot_aware", version: int | None = None,
    estate: EstateView | None = None, fresh: bool | None = None,
) -> SchedulingProblem:
    """Build the scheduling problem: a running dataflow's tasks that a schedule may change, or those that a submission
    would start.

    Parameters
    ----------
    fresh : bool, optional
        True if a submission joins nothing that runs; as it was planned last without it.
    """
    estate = estate or stored_estate()
    stored = DataflowVersion.objects.get(dataflow=record, number=version or record.version)
    dataflow = stored_dataflow(stored.document)
    if str(record.pk) not in estate.submitted:
        joined = bool(last_options(record).get("fresh")) if fresh is None else fresh
        return problem_of_new(
            dataflow, team=record.team, routing=routing, fresh=joined, estate=estate, dataflow_id=str(record.pk))
    running, blocked = schedulable(estate, str(record.pk), dataflow, task_types=jobs.task_types())
    among = frozenset(running) if not blocked else None
    ids = estate.submitted[str(record.pk)].running
    return SchedulingProblem(
        **_common_parts(dataflow, record.team, routing), supply=supply(
            estate, team=record.team.slug, dataflow_loads=_own_loads(running, ids, estate.tasks)),
        among=among, running=running, blocked=blocked, measured=measured_selectivities(estate, ids, dataflow),
        keys=divided_keys(estate, running))


def problem_of_new(
    dataflow: Dataflow, *, team: Team, routing: Routing = "slot_aware", fresh: bool = False,
    estate: EstateView | None = None, dataflow_id: str = "new",
) -> SchedulingProblem:
    """Build the scheduling problem of a dataflow that does not run, stored or not: the tasks that it would start."""
    estate = estate or stored_estate()
    merged = merged_plainly(
        estate, dataflow, dataflow_id=dataflow_id, team=team.slug, task_types=jobs.task_types(), fresh=fresh)
    new = frozenset(merged.new)
    blocked = "" if new else f"All tasks of {dataflow.name} run already, for others: there is nothing to schedule."
    return SchedulingProblem(
        **_common_parts(dataflow, team, routing), supply=supply(estate, team=team.slug, besides=woken(estate, merged)),
        among=new or None, blocked=blocked,
        measured=measured_selectivities(estate, merged.joined, dataflow))


def _common_parts(dataflow: Dataflow, team: Team, routing: Routing) -> dict[str, Any]:
    """The common parts of every problem of a dataflow: its profiles and options."""
    owner = owner_of(dataflow, team)
    return {
        "dataflow": dataflow, "team": owner, "profiles": profiles_for(dataflow.tasks, team=owner),
        "costs": costs_here(),
        "options": SchedulingOptions(routing=routing, trigger_s=site.TRIGGER_MS / 1000, most_threads=MOST_THREADS),
    }


def owner_of(dataflow: Dataflow, team: Team) -> str:
    """The team whose own profiles count: measurements of a private dataflow must not show in a shared one's
    schedule."""
    return team.slug if dataflow.visibility == "private" else ""


def _own_loads(
    running: Mapping[str, Fragment], ids: Mapping[str, str], tasks: Mapping[str, RunningTask]
) -> dict[str, SlotLoad]:
    """The load of these tasks alone on their slots; a query in which others go on stays there, with what they take."""
    tasks_by_fragment: dict[str, dict[str, None]] = {}
    for task, fragment in running.items():
        tasks_by_fragment.setdefault(fragment.id, {})[ids[task]] = None
    fragments = {fragment.id: fragment for fragment in running.values()}
    loads: dict[str, SlotLoad] = {}
    for task_id, slots in tasks_by_fragment.items():
        part = replace(fragments[task_id], tasks=tuple(slots), active=len(slots), resting=0, outlets={}, channels={})
        for slot, load in loads_of(part, tasks).items():
            free = load if len(slots) == fragments[task_id].active else replace(load, queries=0)
            loads[slot] = loads.get(slot, SlotLoad()) + free
    return loads


def _row(scheduled: Schedule, rate_per_s: float) -> dict[str, Any]:
    return {
        "rate_per_s": rate_per_s,
        "pair": scheduled.pair,
        "slots": scheduled.slots,
        "per_hour": scheduled.acquisition.per_hour,
        "per_month": scheduled.acquisition.per_month,
        "sustained_per_s": scheduled.sustained_per_s,
        "keeps": scheduled.prediction.keeps,
        "latency_s": scheduled.latency_s,
        "free": not any(node.new for node in scheduled.acquisition.nodes),
    }
