"""Answers for the page of a schedule: pairs at a rate, the curve over rates, and the profiles behind both."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import log10
from time import monotonic
from typing import Any

from django.db.models import Max

from dashboard import jobs
from dashboard.catalog.models import DataflowRecord
from dashboard.explorer.generation_cache import cached
from dashboard.plans.choices import LEAST_RATE_PER_S, MOST_RATE_PER_S
from dashboard.plans.models import PlanRecord
from dashboard.plans.scheduling_problem import SchedulingProblem, problem_of
from dashboard.profiles.models import ProfileRecord
from dashboard.profiles.warnings import ProfileWarning, WarningNote, warning_notes, warnings_about
from dashboard.schedules.comparison import ComparisonRow, Today, rows_of
from scheduler.model.errors import InvalidResources, WeirError
from scheduler.model.profile import Point
from scheduler.pairs import PAIRS, QUICK_PAIRS, Pair, quick_pair
from scheduler.performance.declared import DECLARED, LEARNED
from scheduler.performance.rates import input_rates_per_s
from scheduler.performance.routing import Routing
from scheduler.scheduling import Job

POINTS = 32  # of the curve
KEPT_S = 5.0
ORIGINS = {
    DECLARED: "declared by its type, not measured", LEARNED: "what such tasks were seen to take; no trial was made"}


@dataclass(frozen=True, slots=True)
class TaskBasis:
    """The profile behind a task's figures; ``warnings`` say why these may be wrong."""

    id: str
    type: str
    rate_per_s: float
    origin: str
    peak: Point | None  # None where one thread does at any rate
    warnings: tuple[ProfileWarning, ...]
    divided: str


@dataclass(frozen=True)
class ScheduleOptions:
    """A dataflow's problem at one rate: its rows, or the error that all pairs share."""

    problem: SchedulingProblem
    rate_per_s: float | None
    rows: tuple[ComparisonRow, ...] = ()
    job: Job | None = None
    failure: WeirError | None = None


@dataclass(frozen=True, slots=True)
class SlotRoom:
    """The number of slots that a schedule may take: free ones, those that only its own dataflow runs on, and parts of
    others'."""

    free: int
    own_slots: int
    shared: int


def rate_of(text: str) -> float | None:
    """The rate that a form or an address gives; None where it gives none."""
    if not text.strip():
        return None
    try:
        rate_per_s = float(text)
    except ValueError:
        rate_per_s = float("nan")
    if not LEAST_RATE_PER_S <= rate_per_s <= MOST_RATE_PER_S:
        raise InvalidResources(
            f"{text[:40]!r} is no rate",
            remedy=f"Give events a second, a number from {LEAST_RATE_PER_S:f} to {MOST_RATE_PER_S:g}.", rate=text[:40])
    return rate_per_s


def ask(
    record: DataflowRecord, rate_per_s: float | None, *, pairs: Iterable[Pair] = QUICK_PAIRS,
    routing: Routing = "slot_aware",
) -> ScheduleOptions:
    """All pairs at a rate, or at the sources' own rates; pairs that were not asked for have an empty row.

    Parameters
    ----------
    rate_per_s : float
        Events per second of each source.
    """
    return answer(_problem(record, routing), rate_per_s, pairs=pairs)


def answer(problem: SchedulingProblem, rate_per_s: float | None, *, pairs: Iterable[Pair] = PAIRS) -> ScheduleOptions:
    """All pairs at a rate, as in `ask`, for a problem that was read already."""
    pairs = tuple(pairs)
    try:
        comparison = problem.compare(rate_per_s, pairs=pairs)
        job = comparison.schedules[0].job if comparison.schedules else problem.job(rate_per_s)
    except WeirError as error:
        return ScheduleOptions(problem, rate_per_s, failure=error)
    rows = {row.pair: row for row in rows_of(comparison, today=today_of(problem))}
    return ScheduleOptions(problem, rate_per_s, tuple(rows.get(pair) or ComparisonRow(pair) for pair in PAIRS), job)


def _problem(record: DataflowRecord, routing: Routing) -> SchedulingProblem:
    """The dataflow's scheduling problem, cached for some seconds: a slider asks many times."""
    profile = ProfileRecord.objects.aggregate(changed=Max("changed"))["changed"]
    plan = PlanRecord.objects.filter(dataflow=record).order_by("-created").values_list("pk", flat=True).first()
    key = ("problem", record.pk, record.version, routing, profile, plan, int(monotonic() / KEPT_S))
    return cached(key, lambda: problem_of(record, routing=routing))


def today_of(problem: SchedulingProblem) -> Today:
    """The bundles that run now, by submitted task; none for tasks of a chain, which a schedule cuts."""
    return {
        task: fragment.queries if len(fragment.tasks) == 1 else () for task, fragment in problem.running.items()}


def curve(
    record: DataflowRecord, pair: Pair, *, most_per_s: float, routing: Routing = "slot_aware"
) -> list[dict[str, Any]]:
    """Slots, price and predicted rate of a pair over rates up to ``most_per_s``, as rows of ``what_if``.

    A pair that is not quick gets the rows of the quick pair that bounds it.
    """
    rates = [most_per_s * number / POINTS for number in range(1, POINTS + 1)]
    return _problem(record, routing).what_if(rates, pairs=[quick_pair(pair)])


def room_of(problem: SchedulingProblem) -> SlotRoom:
    """The slots that a schedule of the dataflow may take."""
    supply = problem.supply
    offered = {slot.name for node in supply.free for slot in node.slots}
    whole = offered - {slot.name for slot in supply.taken}
    slots = {bundle.slot for fragment in problem.running.values() if not fragment.paused for bundle in fragment.queries}
    return SlotRoom(len(whole - slots), len(whole & slots), len(supply.taken))


def scale_of(rate_per_s: float) -> float:
    """The end of the slider: the first round number from four times the rate on, `MOST_RATE_PER_S` at the most."""
    power = 10.0 ** int(log10(rate_per_s * 4) // 1)
    return min(MOST_RATE_PER_S, next(power * step for step in (1, 2, 5, 10) if power * step >= rate_per_s * 4))


def basis_of(problem: SchedulingProblem, job: Job) -> list[TaskBasis]:
    """The profile of each task, its rate, and how far it may be divided; upstream first."""
    types = {task.id: task.type for task in job.dataflow.tasks}
    warnings = warnings_about(job.profiles.values(), team=problem.team)
    rows = []
    for task, rate_per_s in job.rates_per_s.items():
        profile = job.profiles[task]
        rows.append(TaskBasis(
            task, types[task], rate_per_s,
            ORIGINS.get(profile.origin, profile.origin) or "imported",
            None if profile.static else profile.peak, warnings.get(profile, ()), _divided(job, task)))
    return rows


def notes_of(basis: Iterable[TaskBasis]) -> list[WarningNote]:
    """Warnings about the profiles, each one once where it concerns several tasks."""
    return warning_notes((profiled.id, profiled.type, profiled.warnings) for profiled in basis)


def own_rates(problem: SchedulingProblem) -> tuple[float, ...]:
    """Events/s of each source as its config has them; no profile is needed, and a slot may be too small for them."""
    rates = input_rates_per_s(problem.dataflow, task_types=jobs.task_types())
    return tuple(rates[task] for task, parents in problem.dataflow.parents().items() if not parents)


def _divided(job: Job, task: str) -> str:
    if task in job.one_thread:
        return "one thread"
    if task in job.by_key:
        return "over slots, by key"
    return "on one slot" if task in job.one_slot else "over slots"
