"""One dataflow by several algorithms, side by side: the same load and the same machines for each, in a cloud that is
chosen; the results of each, over time and as a whole, and what it decided."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal, Protocol

from scheduler.model.bounds import SIMULATED_CORES
from scheduler.model.checks import require_finite
from scheduler.simulation.cloud import Cloud, Instant, simulate
from scheduler.simulation.elastic import ElasticDataflow, ElasticPlacement, VmClass
from scheduler.simulation.loads import Chance, Rates, constant, recorded, speed_traces, wandering, waves
from scheduler.simulation.problem import Billing, BreakEven

from .adaptation_port import AdaptationProblem
from .adaptation_registry import ADAPTATIONS
from .adapted_course import (
    AdaptationOutcome,
    Drawn,
    Forecaster,
    LearnedForecasts,
    OracleForecasts,
    adapting,
    outcome_of,
)
from .greedy_deployment import deploy_centrally

LoadKind = Literal["constant", "walk", "sinusoid", "recorded"]
LOADS: tuple[LoadKind, ...] = ("constant", "walk", "sinusoid", "recorded")
MachineSpeeds = Literal["steady", "made", "recorded"]
MACHINE_SPEEDS: tuple[MachineSpeeds, ...] = ("steady", "made", "recorded")
STEP_S = 300.0
STEPS_AN_HOUR = 12
SEASON = 24 * STEPS_AN_HOUR
AHEAD = 4  # steps that forecasts reach
STARTS_S = 120.0
MOST_HOURS = 48
MOST_DECISIONS = 200  # that are kept of an algorithm
OFFERED = tuple(ADAPTATIONS)


@dataclass(frozen=True)
class SimulationSetup:
    """The set-up of a simulation. `ValueError` where it makes no sense, with what would.

    Parameters
    ----------
    machines : str
        The speeds of machines: ``steady``, as their class says; ``made``, by traces that are made up; or ``recorded``,
        as the cores of nodes were.
    forecast : str
        ``learned`` from the rates so far, as on a site, or ``known``, the rates that will be.
    error : float
        Mean error of a ``known`` forecast, relative to the rate.
    """

    algorithms: Sequence[str]
    load: LoadKind = "recorded"
    times: float = 1.0
    hours: int = 12
    billing: Billing = "hours"
    machines: MachineSpeeds = "made"
    least: float = 0.8
    forecast: Literal["learned", "known"] = "learned"
    error: float = 0.0
    seed: int = 1

    def __post_init__(self) -> None:
        require_finite(self)
        unknown = sorted(set(self.algorithms) - set(OFFERED))
        if unknown or not self.algorithms or len(set(self.algorithms)) != len(self.algorithms):
            raise ValueError(f"Algorithms are one or more of {', '.join(OFFERED)}, each once")
        if self.load not in LOADS or self.billing not in ("hours", "seconds") or self.forecast not in (
                "learned", "known"):
            raise ValueError(f"A load is one of {', '.join(LOADS)}, billing by hours or seconds, and a forecast "
                             "learned or known")
        if not (1 <= self.hours <= MOST_HOURS and 0 < self.times <= 1e6):
            raise ValueError(f"A simulation is of 1 to {MOST_HOURS} hours, at above 0 and up to 1,000,000 times the "
                             "rates")
        if self.machines not in MACHINE_SPEEDS:
            raise ValueError(f"Machines are one of {', '.join(MACHINE_SPEEDS)}")
        if not (0 < self.least <= 1 and 0 <= self.error <= 2 and 0 <= self.seed < 2**31):
            raise ValueError("Ω̂ is above 0 and at most 1, an error from 0 to 200%, a seed a whole number from 0 up")

    @property
    def steps(self) -> int:
        """The number of decisions."""
        return self.hours * STEPS_AN_HOUR


class SimulationChance(Drawn, Chance, Protocol):
    """A source of random numbers; a generator of numpy's is one."""


@dataclass(frozen=True, slots=True)
class DecisionMade:
    """The changes that an algorithm made at a moment, in seconds since the beginning."""

    at_s: float
    switched: tuple[str, ...]
    rented: tuple[str, ...]
    given_back: tuple[str, ...]
    cores: int


@dataclass(frozen=True)
class SimulatedAlgorithm:
    """The results of an algorithm: as a whole, step by step, and by its decisions, of which there were ``changes``.

    ``profits`` is the value so far on average less what was spent so far (Γ − σμ); ``forecast`` says by source by which
    method was forecast last, how wrong that was, and why averages decided where they did.
    """

    name: str
    outcome: AdaptationOutcome
    values: tuple[float, ...]
    reached: tuple[float, ...]
    costs: tuple[float, ...]
    profits: tuple[float, ...]
    cores: tuple[int, ...]
    decisions: tuple[DecisionMade, ...]
    changes: int
    forecast: tuple[str, ...]


@dataclass(frozen=True)
class SimulatedWorld:
    """The dataflow, what comes, on what machines, and what came before: the same for every algorithm.

    ``before_per_s`` is by source, in steps of `STEP_S`.
    """

    problem: AdaptationProblem
    rates_per_s: Mapping[str, Rates]
    speeds: Sequence[Rates]
    before_per_s: Mapping[str, Sequence[float]]


def world_of(
    setup: SimulationSetup, dataflow: ElasticDataflow, classes: Sequence[VmClass],
    recorded_per_s: Mapping[str, Sequence[float]], rng: SimulationChance, *, speeds: Sequence[Sequence[float]] = (),
) -> SimulatedWorld:
    """The world that every algorithm of a setup meets.

    Parameters
    ----------
    recorded_per_s : mapping of str to sequence of float
        By source the rates that were recorded, in steps of `STEP_S`, the newest last; one of each at least. Made loads
        have their mean.
    speeds : sequence of sequence of float, optional
        The speeds of nodes' cores, likewise, as a part of what their class says; a machine is as one of them.

    Raises
    ------
    ValueError
        Speeds are to be as recorded, and none were; or the load takes more cores than are played with.
    """
    if setup.machines == "recorded" and not speeds:
        raise ValueError("no speeds were recorded")
    rates, before = {}, {}
    for source in dataflow.sources:
        rates_per_s = [setup.times * rate for rate in recorded_per_s[source]]
        mean = sum(rates_per_s) / len(rates_per_s)
        newest = rates_per_s[-setup.steps:]
        if setup.load == "recorded":
            rates[source] = recorded(newest, setup.steps)
            before[source] = rates_per_s[:-len(newest)]
        else:
            rates[source] = {
                "constant": lambda mean=mean: constant(mean, setup.steps),
                "walk": lambda mean=mean: wandering(mean, setup.steps, rng),
                "sinusoid": lambda mean=mean: waves(0.05 * mean, 1.95 * mean, setup.steps, rng, period=SEASON),
            }[setup.load]()
            before[source] = []
    cores = _cores_at_most(dataflow, rates, max(classes, key=lambda kind: kind.cores))
    if not cores <= SIMULATED_CORES.most:  # each step places and keeps them, one by one, and looks at no clock
        raise ValueError(f"Its load takes up to {cores:,.0f} cores, and algorithms are played with "
                         f"{SIMULATED_CORES.most:,} at the most")
    return SimulatedWorld(
        _problem(setup, dataflow, classes, rates, rng), rates, _speeds(setup, speeds, rng), before)


def _cores_at_most(dataflow: ElasticDataflow, rates_per_s: Mapping[str, Rates], kind: VmClass) -> float:
    """Standard cores for the highest rates by the dearest alternates, and a machine for what its network carries."""
    cores, out_per_s = 0.0, dict[str, float]()
    for task in dataflow.upstream_first:
        alternates = dataflow.tasks[task].values()
        per_s = float(max(rates_per_s.get(task, (0.0,)))) + sum(out_per_s[parent] for parent in dataflow.parents[task])
        out_per_s[task] = per_s * max(alternate.selectivity for alternate in alternates)
        cores += per_s * max(alternate.event_s for alternate in alternates) + (
            out_per_s[task] * AdaptationProblem.message_bytes / kind.bytes_per_s * kind.cores)
    return cores


def _speeds(
    setup: SimulationSetup, recorded_speeds: Sequence[Sequence[float]], rng: SimulationChance
) -> Sequence[Rates]:
    """The speeds of machines step by step; none where they are as their class says."""
    if setup.machines == "recorded":
        return [recorded(speeds[-setup.steps:], setup.steps) for speeds in recorded_speeds]
    return speed_traces(50, setup.steps, rng) if setup.machines == "made" else ()


def _problem(
    setup: SimulationSetup, dataflow: ElasticDataflow, classes: Sequence[VmClass], rates: Mapping[str, Rates],
    rng: SimulationChance,
) -> AdaptationProblem:
    """Break-even costs: for the greatest value, what CE's deployment at the mean rate costs with the best alternates;
    for the least, half of that."""
    best = ElasticDataflow({task: {worthiest.name: worthiest} for task, alternates in dataflow.tasks.items()
                            for worthiest in [max(alternates.values(), key=lambda alternate: alternate.worth)]},
                           dataflow.streams)
    probe = AdaptationProblem(best, classes, BreakEven(2.0, 1.0), float(setup.hours), least=setup.least)
    deployed = deploy_centrally(probe, {source: float(course.mean()) for source, course in rates.items()}, rng=rng)
    most = setup.hours * sum(vm.kind.per_hour for vm in deployed.vms.values())
    return replace(probe, dataflow=dataflow, goal=BreakEven(most, most / 2) if most > 0 else BreakEven(1.0, 0.5),
                   starts_s=STARTS_S, billing=setup.billing, step_s=STEP_S)


def simulated(
    setup: SimulationSetup, world: SimulatedWorld, name: str, *, rng: SimulationChance,
    on_step: Callable[[int], None] = lambda step: None,
) -> SimulatedAlgorithm:
    """One algorithm in a world."""
    kind, problem = ADAPTATIONS[name], world.problem
    learned = LearnedForecasts(AHEAD, SEASON, world.before_per_s)
    forecaster: Forecaster | None = None
    if kind.foresees:
        forecaster = learned if setup.forecast == "learned" else OracleForecasts(AHEAD, setup.error, 0.0, rng)
    adapts = adapting(problem, kind.deploy, kind.adapt, rng=rng, oracle=forecaster, expected_per_s={
        source: float(course[0]) for source, course in world.rates_per_s.items()})
    placements: list[ElasticPlacement] = []

    def watched(now: Instant) -> ElasticPlacement:
        on_step(len(placements))
        placements.append(adapts(now))
        return placements[-1]

    course = simulate(
        problem.dataflow, watched, rates_per_s=world.rates_per_s, step_s=problem.step_s, rng=rng,
        cloud=Cloud(starts_s=problem.starts_s, traces=world.speeds, billing=problem.billing,
                    same_time=setup.machines == "recorded"))
    decisions = [made for at, pair in enumerate(pairwise(placements), start=1)
                 if (made := _decision(at * problem.step_s, *pair)) is not None]
    value, profits = 0.0, []
    for at, (step_value, cost) in enumerate(zip(course.values, course.costs, strict=True), start=1):
        value += step_value
        profits.append(value / at - problem.value_of_money * cost)
    return SimulatedAlgorithm(
        name, outcome_of(problem, course), course.values, course.reached, course.costs, tuple(profits),
        tuple(map(_cores, placements)), tuple(decisions[:MOST_DECISIONS]), len(decisions),
        tuple(_forecast_note(source, learned) for source in learned.stated))


def _cores(placement: ElasticPlacement) -> int:
    return sum(vm.kind.cores for vm in placement.vms.values())


def _decision(at_s: float, before: ElasticPlacement, after: ElasticPlacement) -> DecisionMade | None:
    switched = tuple(f"{task}: {after.active[task]}" for task in after.active
                     if after.active[task] != before.active.get(task))
    rented = tuple(sorted(after.vms.keys() - before.vms.keys()))
    given_back = tuple(sorted(before.vms.keys() - after.vms.keys()))
    if not switched and not rented and not given_back and after.cores == before.cores:
        return None
    return DecisionMade(at_s, switched, rented, given_back, _cores(after))


def _forecast_note(source: str, learned: LearnedForecasts) -> str:
    stated = learned.stated[source]
    wrong = "" if stated.errors is None else ", wrong by " + ", ".join(
        f"{error:.0%}" for error in stated.errors.by_step) + f" over {AHEAD} steps of {STEP_S / 60:.0f} minutes"
    return f"{source}: {stated.method}{wrong}. {stated.why_averages}".strip()
