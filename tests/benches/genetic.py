"""Genetic algorithm (GA) for deployment and adaptation: Kumbhare 2016, section 4.7.

A chromosome has two strands: the active alternate of each task, and for each machine that might be rented how many
cores of it each task has; one that nobody has cores of is not rented. Fitness is Θ with a penalty that grows as the
search goes on. In the first population are what the greedy algorithms answer, at run time also what runs: the others
are drawn, or mutated from these. What the thesis does not have: those answers, and that a mutation may empty a machine,
for without that the search does not get rid of one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from scheduler.adaptation.adaptation_port import AdaptationProblem, AdaptationStep, seen
from scheduler.adaptation.greedy_adaptation import adapt_centrally
from scheduler.adaptation.greedy_deployment import SLACK, deploy_centrally, deploy_sharded
from scheduler.adaptation.placement_draft import PlacementDraft
from scheduler.adaptation.vm_repacking import give_back
from scheduler.simulation.elastic import ElasticPlacement, RentedVm
from scheduler.simulation.loads import Chance
from scheduler.simulation.problem import Conditions

KEPT = 0.05  # of a population, the fittest (4.7)
ALPHA = 1.0  # what a unit of missing throughput is fined an iteration
ALPHA_CHANGE = 1e-4  # what a core is fined that is not where it was, an iteration


@dataclass(frozen=True, slots=True)
class GeneticEffort:
    """How long is searched: chromosomes in a population, populations at most, and after how many without a better one
    it ends."""

    population: int = 60
    generations: int = 150
    patience: int = 50


AT_RUN_TIME = GeneticEffort(population=20, generations=12, patience=6)


@dataclass(frozen=True, slots=True)
class Chromosome:
    """The active alternate of each task, and of each machine the cores that each task has, all in the problem's order.
    """

    active: tuple[str, ...]
    cores: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class _Search:
    problem: AdaptationProblem
    conditions: Conditions
    machines: Mapping[str, RentedVm]
    running: ElasticPlacement | None = None

    @property
    def tasks(self) -> tuple[str, ...]:
        return tuple(self.problem.dataflow.tasks)

    def placement(self, chromosome: Chromosome) -> ElasticPlacement:
        cores: dict[str, dict[str, int]] = {task: {} for task in self.tasks}
        vms = {}
        for (name, vm), counts in zip(self.machines.items(), chromosome.cores, strict=True):
            for task, count in zip(self.tasks, counts, strict=True):
                if count:
                    cores[task][name], vms[name] = count, vm
        return ElasticPlacement(dict(zip(self.tasks, chromosome.active, strict=True)), vms, cores)

    def encoded(self, placement: ElasticPlacement) -> Chromosome:
        return Chromosome(
            tuple(placement.active[task] for task in self.tasks),
            tuple(tuple(placement.cores.get(task, {}).get(name, 0) for task in self.tasks) for name in self.machines))

    def judged(self, chromosome: Chromosome) -> tuple[float, float]:
        """Profit, and by how much the throughput is missed; a task without a core misses by 1."""
        placement = self.placement(chromosome)
        draft = PlacementDraft(self.problem.dataflow, placement, self.conditions)
        missing = sum(not on for on in draft.cores.values())
        return self.problem.profit(placement), missing + max(0.0, self.problem.least - SLACK - draft.throughput)

    def changes(self, chromosome: Chromosome) -> int:
        """Cores that are not where they were, and alternates that are others."""
        if self.running is None:
            return 0
        before = self.encoded(self.running)
        moved = sum(abs(some - others) for now, then in zip(chromosome.cores, before.cores, strict=True)
                    for some, others in zip(now, then, strict=True))
        return moved + sum(map(str.__ne__, chromosome.active, before.active))


def deploy_genetically(
    problem: AdaptationProblem, rates_per_s: Mapping[str, float], *, rng: Chance,
    effort: GeneticEffort | None = None,
) -> ElasticPlacement:
    """The initial deployment by the genetic algorithm."""
    seeds = [deploy(problem, rates_per_s, rng=rng) for deploy in (deploy_centrally, deploy_sharded)]
    machines = {f"{kind.name}-{at}": RentedVm(kind) for kind in problem.classes for at in range(max(
        2, *(sum(vm.kind == kind for vm in seed.vms.values()) for seed in seeds)))}
    search = _Search(problem, problem.conditions(rates_per_s), machines)
    return search.placement(_evolve(
        search, [search.encoded(_renamed(seed, machines)) for seed in seeds], rng, effort or GeneticEffort()))


def adapt_genetically(
    problem: AdaptationProblem, step: AdaptationStep, *, rng: Chance, effort: GeneticEffort = AT_RUN_TIME
) -> ElasticPlacement:
    """What is to run by the genetic algorithm, where Ω is outside of its band."""
    conditions, running, at_s = seen(problem, step.now), step.now.placement, step.now.at_s
    draft = PlacementDraft(problem.dataflow, running, conditions)
    if abs(draft.throughput - problem.least) >= problem.tolerance:
        greedily = adapt_centrally(problem, step, rng=rng)
        machines = {**running.vms, **greedily.vms}
        for kind in problem.classes:
            for at in range(max(1, len(running.vms) // 10)):
                machines[f"{kind.name}-more-{at}-{at_s:.0f}"] = RentedVm(kind, at_s)
        search = _Search(problem, conditions, machines, running)
        fittest = search.placement(_evolve(search, [search.encoded(running), search.encoded(greedily)], rng, effort))
        draft = PlacementDraft(
            problem.dataflow, ElasticPlacement(
                fittest.active, {**running.vms, **fittest.vms}, fittest.cores), conditions)
    give_back(draft, problem, at_s=at_s)
    return draft.finished()


def _renamed(placement: ElasticPlacement, machines: Mapping[str, RentedVm]) -> ElasticPlacement:
    """The same on machines of other names, of each class as many."""
    ahead = {kind: iter([name for name, vm in machines.items() if vm.kind == kind])
             for kind in {vm.kind for vm in machines.values()}}
    names = {name: next(ahead[vm.kind]) for name, vm in placement.vms.items()}
    return ElasticPlacement(
        placement.active, {names[name]: vm for name, vm in placement.vms.items()},
        {task: {names[vm]: count for vm, count in on.items()} for task, on in placement.cores.items()})


def _evolve(search: _Search, seeds: list[Chromosome], rng: Chance, effort: GeneticEffort) -> Chromosome:
    """The best chromosome that is found: the most profit of those with enough throughput, else the least that is
    missing."""
    worths: dict[Chromosome, tuple[float, float]] = {}

    def judged(chromosome: Chromosome) -> tuple[float, float]:
        if chromosome not in worths:
            worths[chromosome] = search.judged(chromosome)
        return worths[chromosome]

    def rank(chromosome: Chromosome) -> tuple[float, float]:
        profit, missing = judged(chromosome)
        return -missing, profit

    population = seeds + [_drawn(search, rng) for _ in range(effort.population // 4)]
    while len(population) < effort.population:
        population.append(_mutated(search, seeds[rng.integers(len(seeds))], rng))
    best, since = max(population, key=rank), 0
    for iteration in range(1, effort.generations + 1):
        def fitness(chromosome: Chromosome, iteration: int = iteration) -> float:
            profit, missing = judged(chromosome)
            return profit - (ALPHA * missing + ALPHA_CHANGE * search.changes(chromosome)) * iteration

        population.sort(key=fitness, reverse=True)
        following = population[: max(1, round(KEPT * len(population)))]
        chances = list(accumulate(range(len(population), 0, -1)))
        while len(following) < len(population):
            one, other = (population[bisect_right(chances, draw)] for draw in rng.uniform(0.0, chances[-1], 2))
            following.append(_mutated(search, _crossed(one, other, rng), rng))
        population = following
        fittest = max(population, key=rank)
        since = 0 if rank(fittest) > rank(best) else since + 1
        best = max(best, fittest, key=rank)
        if since >= effort.patience:
            break
    return best


def _drawn(search: _Search, rng: Chance) -> Chromosome:
    tasks = search.tasks
    cores = []
    for vm in search.machines.values():
        counts = [0] * len(tasks)
        for _ in range(rng.integers(vm.kind.cores + 1)):
            counts[rng.integers(len(tasks))] += 1
        cores.append(tuple(counts))
    return Chromosome(tuple(_any(tuple(search.problem.dataflow.tasks[task]), rng) for task in tasks), tuple(cores))


def _crossed(one: Chromosome, other: Chromosome, rng: Chance) -> Chromosome:
    """Uniform crossover: of each gene a bit says from whom it is."""
    genes = len(one.active) + len(one.cores)
    mask = [draw < 0.5 for draw in rng.uniform(0.0, 1.0, genes)]
    some, others = (*one.active, *one.cores), (*other.active, *other.cores)
    mixed = [left if bit else right for bit, left, right in zip(mask, some, others, strict=True)]
    return Chromosome(tuple(mixed[: len(one.active)]), tuple(mixed[len(one.active):]))  # type: ignore[arg-type]


def _mutated(search: _Search, chromosome: Chromosome, rng: Chance) -> Chromosome:
    """Each strand by itself: alternates are switched, an instance is added to machines or taken away."""
    active, cores = list(chromosome.active), list(chromosome.cores)
    for at, draw in enumerate(rng.uniform(0.0, 1.0, len(active))):
        if draw < 0.5 / len(active):
            active[at] = _any(tuple(search.problem.dataflow.tasks[search.tasks[at]]), rng)
    kinds = [vm.kind for vm in search.machines.values()]
    for at, draw in enumerate(rng.uniform(0.0, 1.0, len(cores))):
        if draw < max(0.01, 1.5 / len(cores)):
            counts, task = list(cores[at]), rng.integers(len(active))
            if rng.integers(4) == 0:
                counts = [0] * len(counts)
            elif rng.integers(2) and counts[task]:
                counts[task] -= 1
            elif sum(counts) < kinds[at].cores:
                counts[task] += 1
            else:
                counts[next(index for index, count in enumerate(counts) if count)] -= 1
                counts[task] += 1
            cores[at] = tuple(counts)
    return Chromosome(tuple(active), tuple(cores))


def _any(names: Sequence[str], rng: Chance) -> str:
    return names[rng.integers(len(names))]
