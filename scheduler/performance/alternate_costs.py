"""Alternate costs: what each alternate of a running dynamic task is worth, takes and gives, and what a switch changes.

After Kumbhare, "Adaptive and Resilient Stream Processing on Cloud Infrastructure", 2016, definition 1: relative value
(γ), cost (c) and selectivity (s) of an alternate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
    estate: EstateView, task_id: str, *, to: str, task_types: TaskTypes, prices: Prices
) -> tuple[CostFigure, CostFigure]:
    """What a dynamic task and all that works behind it cost now, and what they would with another alternate on: that
    takes what it takes, and what is behind gets more events or fewer."""
    task = estate.tasks[task_id]
    expect(prices.meters, (meter_key(task_id, each.name) for each in alternates_in(task.type, task.config)))
    now, then = (
        AlternatesAtWork(estate, task_types=task_types, prices=prices, on=on) for on in ({}, {task_id: to}))
    costs = [
        running_cost(estate, task_id, task_types=task_types, prices=prices, at_work=at_work).figure
        for at_work in (now, then)]
    behind = running_costs(estate, _working_behind(estate, task_id), task_types=task_types, prices=prices)
    for reader, cost in behind.items():
        before = now.times_rate(reader)
        after = cost.at_times(then.times_rate(reader) / before) if before else cost.figure
        costs = [total_cost([costs[0], cost.figure]), total_cost([costs[1], after])]
    return costs[0], costs[1]


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
    """What each alternate of a running dynamic task is worth, takes and gives, in the order of its config; none of
    another task."""
    task = estate.tasks[task_id]
    alternates = alternates_in(task.type, task.config)
    expect(prices.meters, (meter_key(task_id, each.name) for each in alternates))
    numbers = [each.value for each in alternates if not isinstance(each.value, str)]
    on = AlternatesAtWork(estate, task_types=task_types, prices=prices).alternate(task)
    figures = []
    for each in alternates:
        at_work = AlternatesAtWork(estate, task_types=task_types, prices=prices, on={task_id: each.name})
        cost = running_cost(estate, task_id, task_types=task_types, prices=prices, at_work=at_work)
        selectivity, is_measured = at_work.selectivity(task, each.name)
        figures.append(AlternateFigures(
            each.name, each.name == on, _worth(each, numbers), _event_s(task, cost, at_work), selectivity, is_measured,
            cost.figure))
    return tuple(figures)


def _worth(alternate: TaskAlternate, numbers: Sequence[float]) -> float | None:
    return None if isinstance(alternate.value, str) else alternate.value / max(numbers)


def _event_s(task: RunningTask, cost: RunningCost, at_work: AlternatesAtWork) -> float:
    """Core-seconds for an event: an estimate, until it was metered. Then it is what was metered beyond what batches are
    expected to take, as `attribution` divides it; where less was metered than expected, both parts shrink alike."""
    meter = at_work.prices.meters.get(meter_key(task.id, at_work.alternate(task)))
    if cost.figure.basis != ESTIMATED and meter is not None and meter.in_per_s:
        for_events = max(cost.figure.cores - cost.batch_cores, (1 - cost.batch_part) * cost.figure.cores)
        return for_events / meter.in_per_s
    return at_work.prices.costs.steps_event_us(at_work.steps(task)) / MICROSECONDS_PER_S
