"""Local search over alternates, with the least cores for each choice by linear programming; ours, not of the thesis.

For chosen alternates a linear program gives the least power with which Ω is Ω̂: the share of its input that each task
processes. It cuts where that saves most, while the greedy algorithms treat all tasks alike. The search starts from CE's
alternates and from those of most worth, and switches one task after another while that brings profit. The best choice
is rounded up to cores, trimmed (Ω is computed anew only where a core is taken), and packed as CE's.

At run time, when Ω leaves its band, each switch of a single alternate is compared with none, each with cores added or
removed. The one with the most profit over the next hour is done: machines whose hour is paid cost nothing, a change
costs a little. With hundreds of cores the linear program judges alternates, and cores are given by the dozen.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import itemgetter

from scheduler.simulation.elastic import Alternate, ElasticPlacement, RentedVm
from scheduler.simulation.loads import Chance
from scheduler.simulation.problem import Conditions, value_of

from .adaptation_port import AdaptationProblem, AdaptationStep, hour_ends
from .bulk_cores import bring_near
from .exact_cores import is_small, most_profitable
from .greedy_adaptation import remove_cores
from .greedy_deployment import SLACK, add_cores, choose_alternates, deploy_centrally
from .least_powers import least_powers
from .placement_draft import PlacementDraft
from .scenarios import ScenarioDraft, expected_scenarios
from .vm_repacking import give_back, move_to_smallest, repack

FEW = 200  # cores: below, CE's own answer is looked at as well, for rounding to cores decides there
CHANGE = 0.02  # of an hour's profit at the greatest value: what a switch of an alternate has to bring


def deploy_by_local_search(
    problem: AdaptationProblem, rates_per_s: Mapping[str, float], *, rng: Chance
) -> ElasticPlacement:
    """The initial deployment: exact where the case is small and the network enough, else by local search; nothing is
    drawn."""
    conditions = problem.conditions(rates_per_s)
    exact = most_profitable(problem, conditions) if is_small(problem, conditions) else None
    if exact is not None and PlacementDraft(problem.dataflow, exact, conditions).throughput >= problem.least - SLACK:
        return exact
    best = {task: _worthiest(alternates) for task, alternates in problem.dataflow.tasks.items()}
    active, powers, _ = max(
        (_climbed(problem, conditions, start) for start in (choose_alternates(problem, central=True), best)),
        key=itemgetter(2))
    draft = _rounded(problem, conditions, active, powers)
    remove_cores(draft, problem, at_s=0.0)
    give_back(draft, problem)
    candidates = [draft.finished()]
    for pack in (False, True):
        tried = PlacementDraft(problem.dataflow, candidates[0], conditions)
        if pack:
            move_to_smallest(tried, problem)
        repack(tried, problem)
        candidates.append(tried.finished())
    if sum(draft.instances.values()) < FEW:
        candidates.append(deploy_centrally(problem, rates_per_s, rng=rng))
    return max(candidates, key=problem.profit)


def _worthiest(alternates: Mapping[str, Alternate]) -> str:
    return max(alternates, key=lambda name: alternates[name].worth)


def _climbed(
    problem: AdaptationProblem, conditions: Conditions, start: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, float], float]:
    """Alternates from where no switch of one brings profit, their powers, and the profit if cores could be divided."""
    price = min(kind.per_hour / (kind.cores * kind.speed) for kind in problem.classes) * problem.paid_hours

    def judged(active: Mapping[str, str]) -> tuple[dict[str, float], float]:
        powers = least_powers(problem, conditions, active)
        worth = value_of(problem.dataflow, active) - problem.value_of_money * price * sum(powers.values())
        return powers, worth

    active = dict(start)
    powers, worth = judged(active)
    improved = True
    while improved:
        improved = False
        for task, alternates in problem.dataflow.tasks.items():
            for name in alternates:
                if name == active[task]:
                    continue
                others = {**active, task: name}
                powers_then, worth_then = judged(others)
                if worth_then > worth + 1e-12:
                    active, powers, worth, improved = others, powers_then, worth_then, True
    return active, powers, worth


def _rounded(
    problem: AdaptationProblem, conditions: Conditions, active: Mapping[str, str], powers: Mapping[str, float]
) -> PlacementDraft:
    """The cores for each task on machines of the class whose power costs least, and more if Ω is not Ω̂ by them."""
    kind = min(problem.classes, key=lambda vm_class: (
        vm_class.per_hour / (vm_class.cores * vm_class.speed), -vm_class.cores * vm_class.speed))
    vms: dict[str, RentedVm] = {}
    cores: dict[str, dict[str, int]] = {task: {} for task in problem.depth_first}
    free = 0
    for task in problem.depth_first:
        remaining_cores = max(1, math.ceil(powers[task] / kind.speed - 1e-9))
        while remaining_cores:
            if not free:
                vm, free = f"{kind.name}-{len(vms)}", kind.cores
                vms[vm] = RentedVm(kind)
            count = min(remaining_cores, free)
            cores[task][vm] = count
            remaining_cores, free = remaining_cores - count, free - count
    draft = PlacementDraft(problem.dataflow, ElasticPlacement(active, vms, cores), conditions)
    add_cores(draft, problem)
    return draft


def adapt_by_local_search(problem: AdaptationProblem, step: AdaptationStep, *, rng: Chance) -> ElasticPlacement:
    """The placement to run, by local search, from the forecast and its error; nothing is drawn."""
    scenarios, at_s = expected_scenarios(problem, step), step.now.at_s
    running = step.now.placement
    draft: PlacementDraft = ScenarioDraft(problem.dataflow, running, scenarios)
    is_off = abs(draft.throughput - problem.least) >= problem.tolerance
    if is_off and sum(draft.instances.values()) >= FEW:
        draft = _adapted_in_bulk(problem, running, scenarios, at_s)
    elif is_off:
        selections = [dict(running.active)]
        selections += [{**running.active, task: name} for task, alternates in problem.dataflow.tasks.items()
                 for name in alternates if name != running.active[task]]
        best = (-math.inf, draft)
        for active in selections:
            tried = ScenarioDraft(problem.dataflow, ElasticPlacement(
                active, running.vms, running.cores), scenarios)
            if tried.throughput < problem.least - SLACK:
                add_cores(tried, problem, at_s=at_s)
            else:
                remove_cores(tried, problem, at_s=at_s)
            worth = _worth_ahead(tried, problem, running, at_s)
            best = max(best, (worth, tried), key=lambda judged: judged[0])
        draft = best[1]
        repack(draft, problem, at_s=at_s)
    give_back(draft, problem, at_s=at_s)
    return draft.finished()


def _adapted_in_bulk(
    problem: AdaptationProblem, running: ElasticPlacement, scenarios: Sequence[Conditions], at_s: float
) -> PlacementDraft:
    """The result of the search where each candidate is judged by the linear program, and the best alone is done."""
    middle = replace(scenarios[0], rates_per_s={
        source: sum(scenario.rates_per_s[source] for scenario in scenarios) / len(scenarios)
        for source in scenarios[0].rates_per_s})
    price = min(kind.per_hour / (kind.cores * kind.speed) for kind in problem.classes)
    rented = sum(vm.kind.cores * middle.speeds.get(name, vm.kind.speed) for name, vm in running.vms.items())
    kind = problem.largest

    def worth(active: Mapping[str, str], powers: Mapping[str, float]) -> float:
        power = sum(powers.values())
        new = max(0, math.ceil((power - rented) / (kind.cores * kind.speed))) * kind.per_hour
        switched = sum(name != running.active[task] for task, name in active.items())
        value = value_of(problem.dataflow, active) / problem.hours * (1 - CHANGE * switched / len(active))
        return value - problem.value_of_money * max(power * price, new)

    active = {task: running.active[task] for task in problem.dataflow.tasks}
    selections = [active] + [{**active, task: name} for task, alternates in problem.dataflow.tasks.items()
                       for name in alternates if name != active[task]]
    judged = [(way, least_powers(problem, middle, way)) for way in selections]
    active, powers = max(judged, key=lambda way_and_powers: worth(*way_and_powers))
    draft = ScenarioDraft(problem.dataflow, ElasticPlacement(active, running.vms, running.cores), scenarios)
    bring_near(draft, problem, powers, at_s=at_s)
    add_cores(draft, problem, at_s=at_s)
    return draft


def _worth_ahead(draft: PlacementDraft, problem: AdaptationProblem, running: ElasticPlacement, at_s: float) -> float:
    """Profit of the hour ahead: what alternates are worth, less what is paid for power, and for machines that are new.

    Power counts at its price though its machine is paid, for the next hour it is not; a machine more counts whole.
    """
    used = sum(draft.instances[task] and draft.power(task) for task in draft.instances)
    price = min(kind.per_hour / (kind.cores * kind.speed) for kind in problem.classes)
    new = sum(vm.kind.per_hour for name, vm in draft.vms.items() if name not in running.vms)
    ending = sum(vm.kind.per_hour for name, vm in running.vms.items()
               if draft.on.get(name) and hour_ends(problem, vm.begun_s, at_s))
    switched = sum(map(str.__ne__, draft.active.values(), (running.active[task] for task in draft.active)))
    value = value_of(problem.dataflow, draft.active) / problem.hours * (1 - CHANGE * switched / len(draft.active))
    return value - problem.value_of_money * max(used * price, new + ending)
