"""The least power with which Ω is Ω̂ for alternates that are chosen, if cores could be divided: a linear program.

Where all is to be done (Ω̂ of 1) it is what one pass over the dataflow gives, from the sources on, as in Kalavri et al.,
"Three steps is all you need: fast, accurate, automatic scaling decisions for distributed streaming dataflows" (DS2),
OSDI 2018. Where a part may be lost it says at which tasks that saves most.
"""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.simulation.problem import Conditions

from .adaptation_port import AdaptationProblem

ROUNDING = 1e-7  # of Ω̂: without it there is no solution to a solver where Ω̂ is 1


def reaching(problem: AdaptationProblem, conditions: Conditions, active: Mapping[str, str]) -> dict[str, float]:
    """Events a second that reach each task, with what waits spread over the step, where nothing is short."""
    dataflow = problem.dataflow
    most: dict[str, float] = {}
    for task in dataflow.upstream_first:
        most[task] = conditions.waiting.get(task, 0.0) / conditions.seconds + conditions.rates_per_s.get(
            task, 0.0) + sum(most[parent] * dataflow.tasks[parent][active[parent]].selectivity
                             for parent in dataflow.parents[task])
    return most


def least_powers(
    problem: AdaptationProblem, conditions: Conditions, active: Mapping[str, str]
) -> dict[str, float]:
    """Standard cores of each task with which Ω is Ω̂ and all together are least, if cores could be divided.

    The network is taken as enough. What a task does is at most what waits, comes from outside and what its parents
    make; of what could reach each output a part does, and the mean of these parts is to be Ω̂.
    """
    # Here, not above: the solver takes a moment to import.
    from ortools.linear_solver import pywraplp

    dataflow, seconds = problem.dataflow, conditions.seconds
    solver = pywraplp.Solver.CreateSolver("GLOP")
    parts: dict[str, pywraplp.Variable] = {}
    most = reaching(problem, conditions, active)
    alternates = {task: dataflow.tasks[task][active[task]] for task in dataflow.tasks}
    for task in dataflow.upstream_first:
        source_per_s = conditions.waiting.get(task, 0.0) / seconds + conditions.rates_per_s.get(task, 0.0)
        by_parent = {parent: most[parent] * alternates[parent].selectivity for parent in dataflow.parents[task]}
        parts[task] = solver.NumVar(0.0, 1.0, task)
        if most[task] > 0:
            solver.Add(parts[task] - sum(
                parts[parent] * (events / most[task])
                for parent, events in by_parent.items()) <= source_per_s / most[task])
    outputs = dataflow.outputs  # to which nothing comes, those do all of it
    solver.Add(sum(parts[task] for task in outputs) >= (problem.least - ROUNDING) * len(outputs))
    solver.Minimize(sum(parts[task] * (alternates[task].event_s * most[task]) for task in parts))
    if solver.Solve() != pywraplp.Solver.OPTIMAL:  # by rounding alone, for to do all is a solution
        return {task: alternates[task].event_s * most[task] for task in parts}
    return {task: alternates[task].event_s * most[task] * parts[task].solution_value() for task in parts}
