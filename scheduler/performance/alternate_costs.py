"""Alternate costs: what each alternate of a running dynamic task is worth, takes and gives, and what a switch changes.

After Kumbhare, "Adaptive and Resilient Stream Processing on Cloud Infrastructure", 2016, definition 1: relative value
(γ), cost (c) and selectivity (s) of an alternate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scheduler.model.alternates import TaskAlternate, alternates_in
from scheduler.model.cost_figures import ESTIMATED, CostFigure, total_cost
from scheduler.model.fragment import RunningTask
from scheduler.model.ports import EstateView, expect
from scheduler.model.prices import Prices
from scheduler.model.task_types import TaskTypes

from .alternates_at_work import AlternatesAtWork, meter_key
from .rates import MICROSECONDS_PER_S
from .running_costs import RunningCost, running_cost, running_costs


@dataclass(frozen=True, slots=True)
class AlternateFigures:
    """An alternate of a running dynamic task: what its results are worth against the best way (γ, from 0 to 1; None of
    one whose value is a function), core-seconds for each event (c), events out for each event in (s), and what the task
    costs with it on.

    What ``event_s`` rests on is what ``cost`` rests on; ``selectivity_is_measured`` says whether that was seen here, or
    is what its type declares.
    """

    name: str
    is_on: bool
    worth: float | None
    event_s: float
    selectivity: float
    selectivity_is_measured: bool
    cost: CostFigure


def switched_cost(
    estate: EstateView, chosen: Mapping[str, str], *, task_types: TaskTypes, prices: Prices
) -> tuple[CostFigure, CostFigure]:
    """The cost of dynamic tasks and of all that works behind them, now and with other alternates on: those take what
    they take, and what is behind gets more events or fewer. What rests costs nothing.

    Parameters
    ----------
    chosen : mapping of str to str
        The alternates, by running task.
    """
    working = [task_id for task_id in chosen if task_id in estate.fragments[estate.places[task_id][0]].active_tasks]
    for task_id in working:
        task = estate.tasks[task_id]
        expect(prices.meters, (meter_key(task_id, way.name) for way in alternates_in(task.type, task.config)))
    here: dict[str, Any] = {"task_types": task_types, "prices": prices}
    now = AlternatesAtWork(estate, **here)
    on_now = {task_id: now.alternate(estate.tasks[task_id]) for task_id in chosen}
    at_work = [AlternatesAtWork(estate, on=on, **here) for on in (on_now, chosen)]
    costs = [
        [running_cost(estate, task_id, at_work=then, **here).figure for task_id in working] for then in at_work]
    readers = dict.fromkeys(reader for task_id in working for reader in _working_behind(estate, task_id))
    for reader, cost in running_costs(estate, [reader for reader in readers if reader not in chosen], **here).items():
        before, after = (then.times_rate(reader) for then in at_work)
        costs[0].append(cost.figure)
        costs[1].append(cost.at_times(after / before) if before else cost.figure)
    ceases, begins = map(total_cost, costs)
    return ceases, begins


def _working_behind(estate: EstateView, task_id: str) -> list[str]:
    """The tasks downstream of one that work."""
    readers: dict[str, None] = {}
    ahead = [task_id]
    while ahead:
        last = ahead.pop()
        fragment = estate.fragments[estate.places[last][0]]
        position = fragment.tasks.index(last) + 1
        heads = [estate.fragments[reader].tasks[0] for reader in fragment.outlets.get(last, ())
                 if not estate.fragments[reader].paused]
        new = [reader for reader in (*fragment.active_tasks[position:position + 1], *heads) if reader not in readers]
        readers |= dict.fromkeys(new)
        ahead += new
    return list(readers)


def alternate_figures(
    estate: EstateView, task_id: str, *, task_types: TaskTypes, prices: Prices
) -> tuple[AlternateFigures, ...]:
    """The worth, cost and selectivity of each alternate of a running dynamic task, in the order of its config; none of
    another task."""
    task = estate.tasks[task_id]
    alternates = alternates_in(task.type, task.config)
    expect(prices.meters, (meter_key(task_id, way.name) for way in alternates))
    numbers = [way.value for way in alternates if not isinstance(way.value, str)]
    on = AlternatesAtWork(estate, task_types=task_types, prices=prices).alternate(task)
    figures = []
    for way in alternates:
        at_work = AlternatesAtWork(estate, task_types=task_types, prices=prices, on={task_id: way.name})
        cost = running_cost(estate, task_id, task_types=task_types, prices=prices, at_work=at_work)
        selectivity, is_measured = at_work.selectivity(task, way.name)
        figures.append(AlternateFigures(
            way.name, way.name == on, _worth(way, numbers), _event_s(task, cost, at_work), selectivity, is_measured,
            cost.figure))
    return tuple(figures)


def _worth(alternate: TaskAlternate, numbers: Sequence[float]) -> float | None:
    return None if isinstance(alternate.value, str) else alternate.value / max(numbers)


def _event_s(task: RunningTask, cost: RunningCost, at_work: AlternatesAtWork) -> float:
    """Core-seconds for an event: an estimate until it was metered. Then it is the metered CPU beyond the expected one
    of batches, divided as in `attribution`; if less was metered than expected, both parts shrink alike."""
    meter = at_work.prices.meters.get(at_work.meter_key(task))
    if cost.figure.basis != ESTIMATED and meter is not None and meter.in_per_s:
        for_events = max(cost.figure.cores - cost.batch_cores, (1 - cost.batch_part) * cost.figure.cores)
        return for_events / meter.in_per_s
    return at_work.prices.costs.steps_event_us(at_work.steps(task)) / MICROSECONDS_PER_S
