"""Running costs: what each running task costs an hour. Whatever tells, plans or draws such a cost takes it from here.

A task costs what is charged for it: its own CPU, an even part of what its query takes for being there, and a part of
its slot's driver. That is an estimate until it has been metered for some minutes, then what was metered, smoothed; and
from the first whole hour what was billed, as long as what is metered agrees with that. A dynamic task costs what it
does with the alternate that is on: each of them is metered apart, and billed are hours in which no other was on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from math import exp, sqrt

from scheduler.model.cost_figures import BILLED, ESTIMATED, MEASURED, CostFigure, CostMeter, total_cost
from scheduler.model.fragment import node_of
from scheduler.model.ports import EstateView, expect
from scheduler.model.prices import Prices
from scheduler.model.task_types import TaskTypes

from .alternates_at_work import LEAST_METERED_S, AlternatesAtWork
from .pricing import charged_query_cores, cores_of_steps
from .rates import MICROSECONDS_PER_S

SMOOTHED_OVER_S = 300.0
SAME_COST = 0.25  # relative: two figures that differ by less are of the same cost


@dataclass(frozen=True, slots=True)
class RunningCost:
    """The cost of a running task; which part of it, from 0 to 1, goes only with its query, and which batches take,
    whatever is in them (that of its query included); and how many CPU cores they are expected to take."""

    figure: CostFigure
    query_part: float
    batch_part: float
    batch_cores: float

    def at_times(self, factor: float) -> CostFigure:
        """The cost for so many times as many events; what batches take stays."""
        return self.figure.times(self.batch_part + (1 - self.batch_part) * factor)


def metered(
    meter: CostMeter | None, *, cores: float, per_hour: float, seconds: float, at_ms: int,
    in_per_s: float | None = None, out_per_s: float | None = None,
) -> CostMeter:
    """A meter with one more reading: an exponential mean, which begins as the plain mean of the first minutes.

    Parameters
    ----------
    meter : CostMeter, optional
        As it was; None of a task that was not metered before.
    cores, per_hour : float
        CPU cores and money an hour of the task over the reading.
    in_per_s, out_per_s : float, optional
        Events per second that it took and gave; None where that was not read.
    seconds : float
        The length of the reading, above 0.
    at_ms : int
        The end of the reading, in ms since the epoch.
    """
    if meter is None or not meter.seconds:
        return replace(
            meter or CostMeter(), seconds=seconds, cores=cores, per_hour=per_hour, variance=0.0,
            since_ms=at_ms - round(1000 * seconds), in_per_s=in_per_s, out_per_s=out_per_s)
    whole_s = meter.seconds + seconds
    weight = max(1 - exp(-seconds / SMOOTHED_OVER_S), seconds / whole_s)
    off = cores - meter.cores
    return replace(
        meter, seconds=whole_s, cores=meter.cores + weight * off,
        variance=(1 - weight) * (meter.variance + weight * off * off),
        per_hour=meter.per_hour + weight * (per_hour - meter.per_hour),
        in_per_s=_moved(meter.in_per_s, in_per_s, weight), out_per_s=_moved(meter.out_per_s, out_per_s, weight))


def _moved(before: float | None, now: float | None, weight: float) -> float | None:
    if before is None or now is None:
        return before if now is None else now
    return before + weight * (now - before)


def cost_told(estimate: CostFigure, meter: CostMeter | None) -> CostFigure:
    """The cost to show: what was billed, else what was metered, else the estimate.

    What was billed is told only while what is metered agrees with it: where a limit, a rate or a version is another,
    hours that are over say nothing of what it costs now.
    """
    if meter is None or meter.seconds < LEAST_METERED_S:
        return estimate
    spread = sqrt(meter.variance)
    if meter.billed_s and abs(meter.billed_cores - meter.cores) <= max(
            spread, SAME_COST * max(meter.billed_cores, meter.cores)):
        return _ranged(meter.billed_cores, spread, meter.billed_per_hour, since_ms=meter.billed_since_ms, billed=True)
    return _ranged(meter.cores, spread, meter.per_hour, since_ms=meter.since_ms, billed=False)


def running_cost(
    estate: EstateView, task_id: str, *, task_types: TaskTypes, prices: Prices, beside: Collection[str] = (),
    at_work: AlternatesAtWork | None = None,
) -> RunningCost:
    """The cost of a running task, or its cost if it worked.

    Parameters
    ----------
    beside : collection of str, optional
        For a resting task: the tasks that would begin to work with it, and share its query.
    prices : Prices
        With meters and intervals; a query without a known interval counts with that of a new one.
    at_work : AlternatesAtWork, optional
        The alternates that count as on; by default those that are on.
    """
    at_work = at_work or AlternatesAtWork(estate, task_types=task_types, prices=prices)
    task, fragment = estate.tasks[task_id], estate.fragments[estate.places[task_id][0]]
    paced = at_work.paced(fragment.id)
    steps, rate_per_s = at_work.steps(task), at_work.rate_per_s(task)
    cores, for_events = task.cores, 0.0  # of an older version, or without its type: as it was expected when it started
    if rate_per_s is not None and steps:
        cores = cores_of_steps(steps, rate_per_s, prices=paced)
        for_events = min(cores, rate_per_s * prices.costs.steps_event_us(steps) / MICROSECONDS_PER_S)
    sharing = set(fragment.active_tasks)
    if task_id not in sharing:
        sharing |= {task_id, *beside} & {task_id, *fragment.kept_tasks}
    of_query = len(fragment.queries) * charged_query_cores(paced) / len(sharing)
    whole = cores + of_query
    estimate = estimated_cost(whole, prices=prices, core_hour=prices.slot_hour(node_of(fragment.slot)))
    meter = prices.meters.get(at_work.meter_key(task))
    return RunningCost(
        cost_told(estimate, meter), of_query / whole if whole else 0.0,
        (whole - for_events) / whole if whole else 0.0, whole - for_events)


def estimated_cost(cores: float, *, prices: Prices, core_hour: float | None = None) -> CostFigure:
    """The cost of cores as an estimate, with the usual error of estimates."""
    error = prices.costs.error * cores
    return CostFigure(
        cores, max(0.0, cores - error), cores + error, cores * (prices.core_hour if core_hour is None else core_hour),
        ESTIMATED)


def running_costs(
    estate: EstateView, task_ids: Collection[str], *, task_types: TaskTypes, prices: Prices
) -> dict[str, RunningCost]:
    """The costs of running tasks, each once, by id; what is read for that is read together."""
    task_ids = list(dict.fromkeys(task_ids))
    for rows in (estate.tasks, estate.places):
        expect(rows, task_ids)
    fragments = dict.fromkeys(estate.places[task_id][0] for task_id in task_ids)
    for of_fragments in (estate.fragments, estate.settings, prices.paces_ms):
        expect(of_fragments, fragments)
    at_work = AlternatesAtWork(estate, task_types=task_types, prices=prices)
    expect(prices.meters, (at_work.meter_key(estate.tasks[task_id]) for task_id in task_ids))
    beside = frozenset(task_ids)
    return {
        task_id: running_cost(
            estate, task_id, task_types=task_types, prices=prices, beside=beside, at_work=at_work)
        for task_id in task_ids}


def turned_cost(
    estate: EstateView, task_ids: Iterable[str], *, task_types: TaskTypes, prices: Prices
) -> CostFigure:
    """The cost of running tasks that begin to work together, or cease to: a query of which others work on stays, with
    what it takes for being there."""
    costs = running_costs(estate, list(task_ids), task_types=task_types, prices=prices)
    return total_cost(
        cost.figure if set(estate.fragments[estate.places[task_id][0]].active_tasks) <= costs.keys()
        else cost.figure.times(1 - cost.query_part)
        for task_id, cost in costs.items())


def _ranged(cores: float, spread: float, per_hour: float, *, since_ms: int, billed: bool) -> CostFigure:
    return CostFigure(
        cores, max(0.0, cores - spread), cores + spread, per_hour, BILLED if billed else MEASURED, since_ms)
