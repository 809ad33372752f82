"""Exact deployment where a case is small: of alternates that are chosen the cheapest cores, by CP-SAT; and over all
alternates the most profit, those first that could bring most.

Cores of a class are counted, not given to machines: so many of them fit on so many machines however they are shared
out. What a task does of what reaches it is a variable beside them, as in the linear program of ``local_search``, which
bounds from above what a choice of alternates can bring. The network is taken as enough; whoever asks looks at that.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import product

from scheduler.simulation.elastic import ElasticPlacement, RentedVm
from scheduler.simulation.problem import Conditions, value_of

from .adaptation_port import AdaptationProblem
from .least_powers import least_powers, reaching

PARTS = 10**9  # of what reaches a task, in the whole numbers of CP-SAT
SPEEDS = 10**6  # of a standard core
PRICES = 10**6  # of the currency
EFFORT = 0.05  # of CP-SAT's deterministic seconds, for one choice of alternates
MOST_CHOICES = 16  # of alternates: with more the search is no longer exact
MOST_POWER = 12.0  # standard cores, likewise


def cheapest_cores(
    problem: AdaptationProblem, conditions: Conditions, active: Mapping[str, str]
) -> ElasticPlacement | None:
    """The cheapest placement with these alternates for which Ω is Ω̂; None where the effort did not do."""
    from ortools.sat.python import cp_model  # here, not above: the solver takes a moment to import

    dataflow, model = problem.dataflow, cp_model.CpModel()
    alternates = {task: dataflow.tasks[task][active[task]] for task in dataflow.tasks}
    most = reaching(problem, conditions, active)
    bound = {task: math.ceil(alternates[task].event_s * most[task] / min(kind.speed for kind in problem.classes)) + 1
             for task in alternates}
    parts = {task: model.new_int_var(0, PARTS, task) for task in alternates}
    cores = {(task, at): model.new_int_var(0, bound[task], f"{task} on {kind.name}")
             for task in alternates for at, kind in enumerate(problem.classes)}
    machines = [model.new_int_var(0, sum(bound.values()), kind.name) for kind in problem.classes]
    for at, kind in enumerate(problem.classes):
        model.add(sum(cores[task, at] for task in alternates) <= kind.cores * machines[at])
    for task, alternate in alternates.items():
        task_cores = [cores[task, at] for at in range(len(problem.classes))]
        model.add(sum(task_cores) >= 1)
        needs = round(SPEEDS * alternate.event_s * most[task])
        model.add(PARTS * sum(round(SPEEDS * kind.speed) * count for kind, count in zip(
            problem.classes, task_cores, strict=True)) >= needs * parts[task])
        if most[task] > 0:
            shares = {parent: round(PARTS * most[parent] * alternates[parent].selectivity / most[task])
                      for parent in dataflow.parents[task]}
            model.add(PARTS * parts[task] <= sum(share * parts[parent] for parent, share in shares.items())
                      + PARTS * max(0, PARTS - sum(shares.values())))
    outputs = dataflow.outputs
    model.add(sum(parts[task] for task in outputs) >= math.floor(problem.least * PARTS * len(outputs)))
    model.minimize(sum(round(PRICES * kind.per_hour) * machine_count for kind, machine_count in zip(
        problem.classes, machines, strict=True)))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers, solver.parameters.random_seed = 1, 0
    solver.parameters.max_deterministic_time = EFFORT
    if solver.solve(model) not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None
    return _placed(problem, active, {key: solver.value(variable) for key, variable in cores.items()})


def _placed(
    problem: AdaptationProblem, active: Mapping[str, str], counts: Mapping[tuple[str, int], int]
) -> ElasticPlacement:
    """Counted cores on machines, task by task: readers are beside their writers as far as possible."""
    vms: dict[str, RentedVm] = {}
    cores: dict[str, dict[str, int]] = {task: {} for task in problem.dataflow.tasks}
    for at, kind in enumerate(problem.classes):
        vm, free = "", 0
        for task in problem.depth_first:
            remaining_cores = counts[task, at]
            while remaining_cores:
                if not free:
                    vm, free = f"{kind.name}-{len(vms)}", kind.cores
                    vms[vm] = RentedVm(kind)
                taken = min(remaining_cores, free)
                cores[task][vm] = cores[task].get(vm, 0) + taken
                remaining_cores, free = remaining_cores - taken, free - taken
    return ElasticPlacement(dict(active), vms, cores)


def is_small(problem: AdaptationProblem, conditions: Conditions) -> bool:
    """True if all choices of alternates can be looked at."""
    choices = math.prod(map(len, problem.dataflow.tasks.values()))
    if choices > MOST_CHOICES:
        return False
    first = {task: next(iter(alternates)) for task, alternates in problem.dataflow.tasks.items()}
    return sum(least_powers(problem, conditions, first).values()) <= MOST_POWER


def most_profitable(problem: AdaptationProblem, conditions: Conditions) -> ElasticPlacement | None:
    """The placement of the greatest profit over all alternates; None where the effort did not do for one of them."""
    tasks = problem.dataflow.tasks
    price = min(kind.per_hour / (kind.cores * kind.speed) for kind in problem.classes) * problem.paid_hours
    bounds = []
    for names in product(*tasks.values()):
        active = dict(zip(tasks, names, strict=True))
        power = sum(least_powers(problem, conditions, active).values())
        bounds.append((value_of(problem.dataflow, active) - problem.value_of_money * price * power, active))
    constant = 1 + problem.value_of_money * problem.goal.at_most_value  # what Θ has beyond Γ − σμ
    best: ElasticPlacement | None = None
    for bound, active in sorted(bounds, key=lambda bound: -bound[0]):
        if best is not None and bound + constant <= problem.profit(best) + 1e-9:
            break
        candidate = cheapest_cores(problem, conditions, active)
        if candidate is None:
            return None
        if best is None or problem.profit(candidate) > problem.profit(best):
            best = candidate
    return best
