"""Predictive Look-Ahead Scheduling (PLAStiCC): Kumbhare 2016, algorithm 5, after Kumbhare et al., CCGrid 2014.

The farthest step is looked for up to which what runs holds by the forecast; from there it is changed, core by core or
alternate by alternate, whichever brings more profit, and again, up to the forecast's end. Only what is due is done: the
rest is planned anew with the next forecast. Machines that a later change wants are rented so early that they have
started.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from scheduler.simulation.elastic import ElasticPlacement
from scheduler.simulation.loads import Chance
from scheduler.simulation.problem import HOUR_S, work_out

from .adaptation_port import AdaptationProblem, AdaptationStep, Forecast, left_of_hour, seen
from .greedy_adaptation import lightest
from .greedy_deployment import SLACK
from .placement_draft import PlacementDraft
from .vm_repacking import give_back, repack


@dataclass(frozen=True, slots=True)
class PlannedPlacement:
    """A placement to run from a step of the forecast on."""

    step: int
    placement: ElasticPlacement


def adapt_ahead(problem: AdaptationProblem, step: AdaptationStep, *, rng: Chance) -> ElasticPlacement:
    """The part of a plan for the time ahead that is due; nothing is drawn. Without a forecast all goes on as it is."""
    conditions, at_s = seen(problem, step.now), step.now.at_s
    forecast = step.forecast or Forecast(
        {source: (rate,) for source, rate in conditions.rates_per_s.items()},
        {vm: (speed,) for vm, speed in conditions.speeds.items()})
    plan = plan_ahead(problem, step.now.placement, forecast, waiting=conditions.waiting, at_s=at_s)
    due = plan[0].placement
    draft = PlacementDraft(problem.dataflow, due, forecast.conditions(problem, 0, forecast.steps, conditions.waiting))
    if due != step.now.placement:
        repack(draft, problem, at_s=at_s)
    give_back(draft, problem, at_s=at_s)
    adapted, lead = draft.finished(), math.ceil(problem.starts_s / problem.step_s)
    early = {name: vm for later in plan[1:] if later.step <= lead for name, vm in later.placement.vms.items()
             if name not in due.vms}
    return replace(adapted, vms={**adapted.vms, **early})


def plan_ahead(
    problem: AdaptationProblem, placement: ElasticPlacement, forecast: Forecast, *, waiting: Mapping[str, float],
    at_s: float,
) -> list[PlannedPlacement]:
    """The placement to run now, and others from later steps of the forecast on (algorithm 5)."""
    plan, first, waits = [PlannedPlacement(0, placement)], 0, dict(waiting)
    changed_at = -1
    while first < forecast.steps:
        last = _farthest(problem, placement, forecast, first, waits)
        if last == forecast.steps:
            break
        if last == first == changed_at:  # no change brings Ω into its band: it is as near as it comes
            last += 1
        for step in range(first, last):
            conditions = forecast.conditions(problem, step, step + 1, waits)
            waits = dict(work_out(problem.dataflow, placement, conditions).waiting)
        first = last
        if first >= forecast.steps or first == changed_at:
            break
        changed_at = first
        draft = PlacementDraft(
            problem.dataflow, placement, forecast.conditions(problem, first, forecast.steps, waits))
        _scale(draft, problem, at_s=at_s, begins_s=first * problem.step_s, ends_s=forecast.steps * problem.step_s)
        placement = draft.finished()
        plan = [planned for planned in plan if planned.step < first] + [PlannedPlacement(first, placement)]
    return plan


def _farthest(
    problem: AdaptationProblem, placement: ElasticPlacement, forecast: Forecast, first: int,
    waiting: Mapping[str, float],
) -> int:
    """Up to which step Ω is within its band, from the first on as one; the first itself if from there on it is not."""
    for last in range(forecast.steps, first, -1):
        draft = PlacementDraft(problem.dataflow, placement, forecast.conditions(problem, first, last, waiting))
        if abs(draft.throughput - problem.least) < problem.tolerance:
            return last
    return first


def _scale(draft: PlacementDraft, problem: AdaptationProblem, *, at_s: float, begins_s: float, ends_s: float) -> None:
    """Bring Ω to Ω̂ over the time from ``begins_s`` after now to ``ends_s``."""
    hours = (ends_s - begins_s) / HOUR_S
    while draft.throughput < problem.least - SLACK:
        _scale_up(draft, problem, at_s, hours)
    fixed: set[str] = set()
    while able := [task for task in problem.depth_first if task not in fixed]:
        task = max(able, key=draft.ratio_of)
        if not _scale_down(draft, problem, task, at_s, hours, ends_s):
            fixed.add(task)


def _scale_up(draft: PlacementDraft, problem: AdaptationProblem, at_s: float, hours: float) -> None:
    """Add a core to the shortest task, or take the next cheaper alternate, whichever costs less profit.

    Against an alternate stand all cores that the task is short of: one core is always cheaper than a worse alternate.
    """
    task = min(problem.depth_first, key=draft.throughput_of)
    free = max((vm for vm, cores in draft.free.items() if cores), key=draft.speed, default="")
    kind = problem.largest
    paid = max(1.0, math.ceil(hours)) if problem.billing == "hours" else hours
    short = draft.needed(task, draft.alternate(task)) * problem.least - draft.power(task)
    cores = max(1, math.ceil(short / kind.speed)) - sum(draft.free.values())
    price = problem.value_of_money * kind.per_hour * paid * max(0, math.ceil(cores / kind.cores))
    cheaper = [name for name, alternate in problem.dataflow.tasks[task].items()
               if alternate.event_s < draft.alternate(task).event_s]
    if cheaper:
        name = max(cheaper, key=lambda alternate: problem.dataflow.tasks[task][alternate].event_s)
        if _worth_of(draft, problem, task, name) * hours / problem.hours > -price:
            draft.switch(task, name)
            return
    draft.give(task, free or draft.rent(kind, at_s=at_s))


def _scale_down(
    draft: PlacementDraft, problem: AdaptationProblem, task: str, at_s: float, hours: float, ends_s: float
) -> bool:
    """Take a core from a task, or the next dearer alternate, whichever brings more profit, if Ω stays; whether one."""
    active = draft.active[task]
    dearer = [name for name, alternate in problem.dataflow.tasks[task].items()
              if alternate.event_s > draft.alternate(task).event_s]
    gains: list[tuple[float, str]] = []
    if dearer:
        name = min(dearer, key=lambda alternate: problem.dataflow.tasks[task][alternate].event_s)
        gains.append((_worth_of(draft, problem, task, name) * hours / problem.hours, name))
    vm = lightest(draft, problem, task, at_s) if draft.instances[task] > 1 else ""
    if vm:
        kind = draft.vms[vm].kind
        unpaid_s = ends_s - left_of_hour(problem, draft.vms[vm].begun_s, at_s)
        unpaid = max(0.0, math.ceil(unpaid_s / HOUR_S) if problem.billing == "hours" else hours)
        gains.append((problem.value_of_money * kind.per_hour / kind.cores * unpaid, ""))
    for gain, name in sorted(gains, reverse=True):
        if gain < 0:
            break
        if name:
            draft.switch(task, name)
        else:
            draft.give(task, vm, -1)
        if draft.throughput >= problem.least - SLACK:
            return True
        if name:
            draft.switch(task, active)
        else:
            draft.give(task, vm)
    return False


def _worth_of(draft: PlacementDraft, problem: AdaptationProblem, task: str, name: str) -> float:
    """The rise of Γ with an alternate in place of the active one."""
    alternates = problem.dataflow.tasks[task]
    return (alternates[name].worth - alternates[draft.active[task]].worth) / len(problem.dataflow.tasks)
