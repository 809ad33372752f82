"""Brute force (BR) with pruning: the placement of the greatest profit, for small cases (Kumbhare 2016, section 4.9.2).

Sets of machines are looked at from the cheapest on, with each the alternates that are worth most first. Pruned are
alternates that went with cheaper machines already, sets that cannot bring more than what is known, machines of a class
in more than one order, and cores given so that Ω̂ is out of reach even if each task had all that are left.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from itertools import product

from scheduler.adaptation.adaptation_port import AdaptationProblem
from scheduler.adaptation.greedy_deployment import SLACK, deploy_centrally
from scheduler.adaptation.placement_draft import PlacementDraft
from scheduler.simulation.elastic import ElasticPlacement, RentedVm, VmClass
from scheduler.simulation.loads import Chance
from scheduler.simulation.problem import Conditions, value_of, work_out

MOST_LOOKS = 5_000_000  # ways to give out cores that are looked at


class TooManyPlacements(ValueError):
    """A case is too large for brute force."""


def deploy_by_brute_force(
    problem: AdaptationProblem, rates_per_s: Mapping[str, float], *, rng: Chance
) -> ElasticPlacement:
    """The placement of the greatest profit; nothing is drawn.

    Raises
    ------
    TooManyPlacements
        More than `MOST_LOOKS` would have to be looked at.
    ValueError
        A class costs nothing: there is no end of machines.
    """
    if any(not kind.per_hour for kind in problem.classes):
        raise ValueError("Brute force has no end where machines cost nothing. Give each class a price")
    search = _Enumeration(problem, problem.conditions(rates_per_s))
    best = deploy_centrally(problem, rates_per_s, rng=rng)
    tasks = problem.dataflow.tasks
    ways = [dict(zip(tasks, names, strict=True)) for names in product(*tasks.values())]
    ways.sort(key=lambda active: value_of(problem.dataflow, active), reverse=True)
    for kinds in _by_price(problem.classes):
        vms = {f"{kind.name}-{at}": RentedVm(kind) for at, kind in enumerate(kinds)}
        for active in list(ways):
            if problem.profit(ElasticPlacement(active, vms)) <= problem.profit(best) + 1e-12:
                break
            if (candidate := search.placed(active, vms)) is not None:
                best = candidate
                ways.remove(active)
        if not ways or problem.profit(ElasticPlacement(ways[0], vms)) <= problem.profit(best) + 1e-12:
            return best
    raise AssertionError("there is always a dearer set of machines")


def _by_price(classes: tuple[VmClass, ...]) -> Iterator[tuple[VmClass, ...]]:
    """All sets of machines, from the cheapest on, each with its classes in their order."""
    waiting: list[tuple[float, int, tuple[int, ...]]] = [
        (kind.per_hour, number, (at,)) for number, (at, kind) in enumerate(enumerate(classes))]
    heapq.heapify(waiting)
    number = len(waiting)
    while True:
        price, _, chosen = heapq.heappop(waiting)
        yield tuple(classes[at] for at in chosen)
        for at in range(chosen[-1], len(classes)):
            number += 1
            heapq.heappush(waiting, (price + classes[at].per_hour, number, (*chosen, at)))


class _Enumeration:
    """Ways to give out the cores of machines."""

    def __init__(self, problem: AdaptationProblem, conditions: Conditions) -> None:
        self._problem, self._conditions, self._looks = problem, conditions, 0
        self._tasks = tuple(problem.dataflow.tasks)
        alone = {task: RentedVm(VmClass(task, 1, 1.0, 1e18, 0.0)) for task in self._tasks}
        self._apart = ElasticPlacement({}, alone, {task: {task: 1} for task in self._tasks})

    def placed(self, active: Mapping[str, str], vms: Mapping[str, RentedVm]) -> ElasticPlacement | None:
        """A placement with such alternates on these machines that has throughput enough, if there is one."""
        if sum(vm.kind.cores for vm in vms.values()) < len(self._tasks):
            return None
        return self._filled(dict(active), vms, list(vms), [])

    def _filled(
        self, active: dict[str, str], vms: Mapping[str, RentedVm], names: list[str], counts: list[tuple[int, ...]]
    ) -> ElasticPlacement | None:
        self._looks += 1
        if self._looks > MOST_LOOKS:
            raise TooManyPlacements(
                f"More than {MOST_LOOKS:,} placements of {len(self._tasks)} tasks. Take fewer, or another algorithm")
        if not self._within_reach(active, vms, names, counts):
            return None
        if len(counts) == len(names):
            cores = {task: {name: row[at] for name, row in zip(names, counts, strict=True) if row[at]}
                     for at, task in enumerate(self._tasks)}
            placement = ElasticPlacement(active, vms, cores)
            draft = PlacementDraft(self._problem.dataflow, placement, self._conditions)
            enough = all(cores.values()) and draft.throughput >= self._problem.least - SLACK
            return placement if enough else None
        kind = vms[names[len(counts)]].kind
        for row in _shared_out(kind.cores, len(self._tasks)):
            if counts and vms[names[len(counts) - 1]].kind == kind and row > counts[-1]:
                continue
            if candidate := self._filled(active, vms, names, [*counts, row]):
                return candidate
        return None

    def _within_reach(
        self, active: dict[str, str], vms: Mapping[str, RentedVm], names: list[str], counts: list[tuple[int, ...]]
    ) -> bool:
        """Whether Ω̂ is reached if each task gets all cores that are left, and no network is in the way."""
        left = sum(vms[name].kind.cores * vms[name].kind.speed for name in names[len(counts):])
        powers = {task: left + sum(vms[name].kind.speed * row[at] for name, row in zip(names, counts, strict=False))
                  for at, task in enumerate(self._tasks)}
        ideal = ElasticPlacement(active, self._apart.vms, self._apart.cores)
        conditions = Conditions(self._conditions.rates_per_s, self._conditions.seconds, speeds=powers)
        reached = work_out(self._problem.dataflow, ideal, conditions).reached
        short = sum(not left and not power for power in powers.values())
        return not short and reached >= self._problem.least - SLACK


def _shared_out(cores: int, tasks: int) -> Iterator[tuple[int, ...]]:
    """All ways to give so many cores to tasks, all of them: one more does no harm."""
    if tasks == 1:
        yield (cores,)
        return
    for first in range(cores, -1, -1):
        for others in _shared_out(cores - first, tasks - 1):
            yield (first, *others)
