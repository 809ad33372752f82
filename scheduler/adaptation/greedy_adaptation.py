"""Adaptation at run time, sharded (SH) and centralized (CE): Kumbhare 2016, algorithm 4 and equation 4.10.

Every so many decisions alternates are looked at, with the cores as they are; at the others cores, with the alternates
as they are. A centralized scheduler sees the dataflow; a sharded one has a scheduler for each task, which sees its own
queue, input and cores. As the text does not say how these hold Ω together, each is given an equal part of what may be
lost on the longest way: Ω̂ to the power of one by its length. What is expected need not be what was seen last: chapter
5's averages (WAAF, WPA, WPO, WPP) are CE with other expectations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from statistics import fmean

from scheduler.simulation.elastic import ElasticPlacement
from scheduler.simulation.loads import Chance
from scheduler.simulation.problem import Conditions

from .adaptation_port import AdaptationProblem, AdaptationStep, left_of_hour, seen
from .greedy_deployment import SLACK, add_cores, costs_of_alternates
from .placement_draft import PlacementDraft
from .vm_repacking import give_back, repack

ALTERNATES_EVERY = 4  # decisions (m); cores at all others (n), and at these too where no alternate is switched
WINDOW = 6  # decisions that are averaged (WAAF)

Summary = Callable[[Sequence[float]], float]
Expectation = Callable[[AdaptationProblem, AdaptationStep], Conditions]


def adapt_centrally(
    problem: AdaptationProblem, step: AdaptationStep, *, rng: Chance,
    expects: Expectation = lambda problem, step: seen(problem, step.now),
) -> ElasticPlacement:
    """CE at run time; nothing is drawn.

    Parameters
    ----------
    expects : callable, optional
        The expectation of the step to come; as the one before, if not said (CAF).
    """
    draft, at_s = PlacementDraft(problem.dataflow, step.now.placement, expects(problem, step)), step.now.at_s
    below, above = (_is_below(problem, draft.throughput), _is_above(problem, draft.throughput))
    if (below or above) and not (step.number % ALTERNATES_EVERY == 0 and _switch(draft, problem, cheaper=below)):
        if below:
            add_cores(draft, problem, at_s=at_s)
        else:
            remove_cores(draft, problem, at_s=at_s)
        repack(draft, problem, at_s=at_s)
    give_back(draft, problem, at_s=at_s)
    return draft.finished()


def adapt_sharded(problem: AdaptationProblem, step: AdaptationStep, *, rng: Chance) -> ElasticPlacement:
    """SH at run time: each task by itself; nothing is drawn."""
    draft, at_s = PlacementDraft(problem.dataflow, step.now.placement, seen(problem, step.now)), step.now.at_s
    events = dict(draft.events)  # what a task sees, whatever the schedulers of others do meanwhile
    least = problem.least ** (1 / _longest_way(problem))

    def part(task: str) -> float:
        able = draft.power(task) * draft.conditions.seconds / draft.alternate(task).event_s
        return able / events[task] if events[task] > 0 else math.inf

    for task, alternates in problem.dataflow.tasks.items():
        below, above = part(task) <= least - problem.tolerance, part(task) >= least + problem.tolerance
        before = draft.active[task]
        if step.number % ALTERNATES_EVERY == 0 and (below or above):
            for name in _by_worth(problem, task, draft.active[task], cheaper=below, central=False):
                able = draft.power(task) * draft.conditions.seconds / alternates[name].event_s
                if able >= least * events[task]:
                    draft.switch(task, name)
                    break
        if draft.active[task] != before:
            continue
        while below and part(task) < least - SLACK:
            free = max((vm for vm, cores in draft.free.items() if cores), key=draft.speed, default="")
            draft.give(task, free or draft.rent(problem.largest, at_s=at_s))
        while above and draft.instances[task] > 1:
            vm = lightest(draft, problem, task, at_s)
            draft.give(task, vm, -1)
            if part(task) < least - SLACK:
                draft.give(task, vm)
                break
    give_back(draft, problem, at_s=at_s)
    return draft.finished()


def remove_cores(draft: PlacementDraft, problem: AdaptationProblem, *, at_s: float) -> None:
    """Take cores from the task that has most for what it has to do, as long as Ω is Ω̂ at least; each keeps one."""
    fixed: set[str] = set()
    while able := [task for task in problem.depth_first
                   if task not in fixed and draft.instances[task] > 1]:
        task = max(able, key=draft.ratio_of)
        vm = lightest(draft, problem, task, at_s)
        draft.give(task, vm, -1)
        if draft.throughput < problem.least - SLACK:
            draft.give(task, vm)
            fixed.add(task)


def weight_of(draft: PlacementDraft, problem: AdaptationProblem, task: str, vm: str, at_s: float) -> float:
    """The weight of a machine, for a task that is to lose a core (4.10): the least is taken from."""
    rented = draft.vms[vm]
    kind = rented.kind
    per_price = kind.cores * draft.speed(vm) / kind.per_hour if kind.per_hour else math.inf
    free, others = draft.free[vm] / kind.cores, 1 - draft.cores[task][vm] / draft.instances[task]
    part = left_of_hour(problem, rented.begun_s, at_s) * free * others
    return part * per_price if part else 0.0


def lightest(draft: PlacementDraft, problem: AdaptationProblem, task: str, at_s: float) -> str:
    """The machine that a task is to lose a core of."""
    return min(draft.cores[task], key=lambda vm: (weight_of(draft, problem, task, vm, at_s), -draft.free[vm], vm))


def _switch(draft: PlacementDraft, problem: AdaptationProblem, *, cheaper: bool) -> bool:
    """Switch alternates, the shortest task first or the one with most to spare, until Ω is within its band; whether one
    was."""
    switched = False
    for task in sorted(problem.depth_first, key=draft.ratio_of, reverse=not cheaper):
        if not (_is_below if cheaper else _is_above)(problem, draft.throughput):
            break
        active = draft.active[task]
        for name in _by_worth(problem, task, active, cheaper=cheaper, central=True):
            able = draft.power(task) * draft.conditions.seconds / problem.dataflow.tasks[task][name].event_s
            draft.switch(task, name)
            if able >= problem.least * draft.events[task] and (cheaper or draft.throughput >= problem.least - SLACK):
                switched = True
                break
            draft.switch(task, active)
    return switched


def _by_worth(
    problem: AdaptationProblem, task: str, active: str, *, cheaper: bool, central: bool
) -> Iterable[str]:
    """Alternates of a task that cost less than the active one, or more, by what they are worth for it."""
    costs = costs_of_alternates(problem, central=central)[task]
    alternates = problem.dataflow.tasks[task]
    feasible = [name for name in alternates
                if (costs[name] < costs[active] if cheaper else costs[name] > costs[active])]
    return sorted(feasible, key=lambda name: alternates[name].worth / costs[name], reverse=True)


def _longest_way(problem: AdaptationProblem) -> int:
    depth: dict[str, int] = {}
    for task in problem.dataflow.upstream_first:
        depth[task] = 1 + max((depth[parent] for parent in problem.dataflow.parents[task]), default=0)
    return max(depth.values())


def _is_below(problem: AdaptationProblem, throughput: float) -> bool:
    return throughput <= problem.least - problem.tolerance


def _is_above(problem: AdaptationProblem, throughput: float) -> bool:
    return throughput >= problem.least + problem.tolerance


def expect_recent(problem: AdaptationProblem, step: AdaptationStep) -> Conditions:
    """WAAF: the mean of what was seen at the last decisions."""
    instants = [*(instant for instant in step.history if instant.worked), step.now][-WINDOW:]
    now = seen(problem, step.now)
    rates = {source: sum(instant.rates_per_s[source] for instant in instants) / len(instants)
             for source in now.rates_per_s}
    speeds_by_instant = [seen(problem, instant).speeds for instant in instants]
    speeds = {}
    for vm in now.speeds:
        ever = [speeds_seen[vm] for speeds_seen in speeds_by_instant if vm in speeds_seen]
        speeds[vm] = sum(ever) / len(ever)
    return replace(now, rates_per_s=rates, speeds=speeds)


def expect_forecast(
    problem: AdaptationProblem, step: AdaptationStep, *, of_rates: Summary, of_speeds: Summary
) -> Conditions:
    """One figure for each course of the forecast; what was seen where there is none."""
    now = seen(problem, step.now)
    if step.forecast is None:
        return now
    return replace(
        now, rates_per_s={source: float(of_rates(course)) for source, course in step.forecast.rates_per_s.items()},
        speeds={vm: float(of_speeds(course)) for vm, course in step.forecast.speeds.items()})


expect_forecast_mean = partial(expect_forecast, of_rates=fmean, of_speeds=fmean)
adapt_by_recent_mean = partial(adapt_centrally, expects=expect_recent)
adapt_by_forecast_mean = partial(adapt_centrally, expects=expect_forecast_mean)
adapt_optimistically = partial(adapt_centrally, expects=partial(expect_forecast, of_rates=min, of_speeds=max))
adapt_pessimistically = partial(adapt_centrally, expects=partial(expect_forecast, of_rates=max, of_speeds=min))
