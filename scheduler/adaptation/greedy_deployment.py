"""The initial deployment, sharded (SH) and centralized (CE): Kumbhare 2016, algorithm 3 and table 4.1.

First alternates, by what they are worth for their cost; then cores, one after the other for the task that is shortest
of them, on machines of the largest class; CE packs them again onto fewer and smaller machines.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from scheduler.simulation.elastic import Alternate, ElasticPlacement
from scheduler.simulation.loads import Chance

from .adaptation_port import AdaptationProblem
from .placement_draft import PlacementDraft, draft_of
from .vm_repacking import move_to_smallest, repack

SLACK = 1e-9  # of a throughput: what rounding takes of it


def deploy_greedily(
    problem: AdaptationProblem, rates_per_s: Mapping[str, float], *, rng: Chance, central: bool
) -> ElasticPlacement:
    """The initial deployment; nothing is drawn.

    Parameters
    ----------
    central : bool
        CE, which counts in what is downstream and packs again; else SH.
    """
    draft = draft_of(problem.dataflow, choose_alternates(problem, central=central), problem.conditions(rates_per_s))
    add_cores(draft, problem)
    if not central:
        return draft.finished()
    packed, moved = (PlacementDraft(problem.dataflow, draft.finished(), draft.conditions) for _ in range(2))
    move_to_smallest(moved, problem)
    for repacked in (packed, moved):
        repack(repacked, problem)
    return max((packed.finished(), moved.finished()), key=problem.profit)


def costs_of_alternates(problem: AdaptationProblem, *, central: bool) -> dict[str, dict[str, float]]:
    """Seconds of a standard core that an event costs by task and alternate: CE adds what it makes of work downstream,
    at the alternate that is chosen there (table 4.1)."""
    dataflow = problem.dataflow
    children: dict[str, list[str]] = {task: [] for task in dataflow.tasks}
    for source, target in dataflow.streams:
        children[source].append(target)
    costs: dict[str, dict[str, float]] = {}
    chosen: dict[str, float] = {}
    for task in reversed(dataflow.upstream_first):
        downstream = sum(chosen[child] for child in children[task]) if central else 0.0
        costs[task] = {name: alternate.event_s + alternate.selectivity * downstream
                       for name, alternate in dataflow.tasks[task].items()}
        chosen[task] = costs[task][_best(dataflow.tasks[task], costs[task])]
    return costs


def choose_alternates(problem: AdaptationProblem, *, central: bool) -> dict[str, str]:
    """The alternate of each task that is worth most for its cost."""
    costs = costs_of_alternates(problem, central=central)
    return {task: _best(alternates, costs[task]) for task, alternates in problem.dataflow.tasks.items()}


def add_cores(draft: PlacementDraft, problem: AdaptationProblem, *, at_s: float = 0.0) -> None:
    """Give each task a core and then the shortest one another, until Ω is Ω̂; machines are rented where none is free."""
    free = [vm for vm, cores in draft.free.items() if cores]
    free.sort(key=draft.speed)  # the quickest last, for it is taken first

    def with_free_core() -> str:
        while free and not draft.free[free[-1]]:
            free.pop()
        if not free:
            free.append(draft.rent(problem.largest, at_s=at_s))
        return free[-1]

    for task in problem.depth_first:
        if not draft.cores[task]:
            draft.give(task, with_free_core())
    while draft.throughput < problem.least - SLACK:
        task = min(problem.depth_first, key=draft.throughput_of)
        if draft.done[task] < draft.events[task]:
            draft.give(task, with_free_core())
        else:
            draft.give(task, _beside_writer(draft, problem, task, at_s))


def _beside_writer(draft: PlacementDraft, problem: AdaptationProblem, task: str, at_s: float) -> str:
    """Machine for a task that does all that the network lets through: a machine of who writes for it, or one more."""
    for parent in problem.dataflow.parents[task]:
        for vm in draft.cores[parent]:
            if draft.free[vm] and vm not in draft.cores[task]:
                return vm
    return draft.rent(problem.largest, at_s=at_s)


def _best(alternates: Mapping[str, Alternate], costs: Mapping[str, float]) -> str:
    return max(alternates, key=lambda name: (alternates[name].worth / costs[name], alternates[name].worth))


deploy_sharded = partial(deploy_greedily, central=False)
deploy_centrally = partial(deploy_greedily, central=True)
