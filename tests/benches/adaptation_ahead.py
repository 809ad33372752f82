"""Ours against PLAStiCC and CAF on random dataflows, paired: each by the same load, machines and errors of forecasts.

Measured as work on autoscaling does (Kalavri et al., DS2, OSDI 2018; Lian et al., ContTune, VLDB 2023; Pfister et al.,
Daedalus, ICPE 2024): decisions until a step of the load has settled, changes a day, core-hours against the best fixed
placement that is found afterwards, the part of the time in which throughput is missed, what wrong forecasts cost.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scheduler.adaptation.adaptation_port import AdaptationProblem, AdaptFunction, DeployFunction
from scheduler.adaptation.adaptation_registry import ADAPTATIONS
from scheduler.adaptation.adapted_course import OracleForecasts, adapting, outcome_of
from scheduler.adaptation.local_search import deploy_by_local_search
from scheduler.simulation.cloud import Cloud, Instant, SimulatedCourse, simulate
from scheduler.simulation.elastic import ElasticDataflow, ElasticPlacement
from scheduler.simulation.loads import Rates, constant
from tests.benches.adaptation_workloads import (
    MINUTES_A_STEP,
    STARTS_S,
    STEPS,
    machine_traces,
    sinusoids,
    synthetic,
    synthetic_problem,
)
from tests.benches.results import mean

COMPARED = ("local", "PLAStiCC", "CE")
AHEAD_STEPS = 4
SETTLE_STEPS = 48  # of which the load is one rate in the first half, and three times that in the second
HOUR_S = 3600.0


@dataclass(frozen=True)
class PairedWorld:
    """A random dataflow with its load and machines."""

    problem: AdaptationProblem
    rates_per_s: Mapping[str, Rates]
    speeds: Sequence[Rates]
    seed: int


@dataclass(frozen=True)
class PlayedCourse:
    """What an algorithm did in a world."""

    course: SimulatedCourse
    placements: Sequence[ElasticPlacement]


def paired_world(dataflow: int, seed: int) -> PairedWorld:
    """The dataflow of a number, of one to four stages and one to three lanes, under the load and machines of a seed."""
    chance = np.random.default_rng(dataflow)
    made = synthetic(chance, stages=int(chance.integers(4)) + 1, lanes=int(chance.integers(3)) + 1)
    drawn = np.random.default_rng([dataflow, seed])
    rates = sinusoids(made, drawn)
    problem = synthetic_problem(made, mean([float(course.mean()) for course in rates.values()]))
    return PairedWorld(problem, rates, machine_traces(drawn, None), seed)


def played(world: PairedWorld, name: str, error: float, *, bias: float = 0.0) -> PlayedCourse:
    """An algorithm in a world, with a forecast over 20 minutes of which the mean error is so."""
    kind, problem = ADAPTATIONS[name], world.problem
    return _played(world, kind.deploy, kind.adapt, OracleForecasts(
        AHEAD_STEPS, error, bias, np.random.default_rng([world.seed, 1])) if kind.foresees else None, problem)


def _played(
    world: PairedWorld, deploy: DeployFunction, adapt: AdaptFunction | None, oracle: OracleForecasts | None,
    problem: AdaptationProblem,
) -> PlayedCourse:
    rng, placements = np.random.default_rng(world.seed), list[ElasticPlacement]()
    adapts = adapting(problem, deploy, adapt, rng=rng, oracle=oracle, expected_per_s={
        source: float(course[0]) for source, course in world.rates_per_s.items()})

    def watched(now: Instant) -> ElasticPlacement:
        placements.append(adapts(now))
        return placements[-1]

    course = simulate(
        problem.dataflow, watched, rates_per_s=world.rates_per_s, step_s=problem.step_s, rng=rng,
        cloud=Cloud(starts_s=STARTS_S if adapt else 0.0, traces=world.speeds))
    return PlayedCourse(course, placements)


def best_fixed_core_hours(world: PairedWorld) -> float:
    """Core-hours of the cheapest fixed placement with which mean Ω was Ω̂, looked for afterwards: ours, for so many
    times the mean rate as do; what waits is kept."""
    problem, hours = world.problem, STEPS * MINUTES_A_STEP / 60
    low, high, best = 0.25, 8.0, float("inf")
    for _ in range(8):
        times = (low * high) ** 0.5
        placement = deploy_by_local_search(problem, {
            source: times * float(course.mean()) for source, course in world.rates_per_s.items()},
            rng=np.random.default_rng(0))
        course = _played(world, _fixed(placement), None, None, problem).course
        if float(np.mean(course.reached)) >= problem.least - 1e-9:
            high, best = times, sum(vm.kind.cores for vm in placement.vms.values()) * hours
        else:
            low = times
    return best


def _fixed(placement: ElasticPlacement) -> DeployFunction:
    return lambda problem, rates_per_s, *, rng: placement


def core_hours(course: SimulatedCourse, end_s: float) -> float:
    """How long cores were rented."""
    return sum(vm.kind.cores * ((end_s if vm.ended_s is None else vm.ended_s) - vm.begun_s)
               for vm in course.vms.values()) / HOUR_S


def changes(placements: Sequence[ElasticPlacement]) -> int:
    """In how many decisions anything was changed."""
    return sum((before.active, before.cores) != (after.active, after.cores)
               for before, after in itertools.pairwise(placements))


def decisions_to_settle(dataflow: ElasticDataflow, name: str, rate_per_s: float) -> int:
    """Decisions from when the load is three times as much until throughput is never short again; machines do not vary,
    and forecasts are right."""
    rates = np.concatenate([constant(rate_per_s, SETTLE_STEPS // 2), constant(3 * rate_per_s, SETTLE_STEPS // 2)])
    problem = synthetic_problem(dataflow, rate_per_s)
    course = played(PairedWorld(problem, dict.fromkeys(dataflow.sources, rates), (), 0), name, 0.0).course
    short = np.array(course.reached[SETTLE_STEPS // 2:]) < problem.least - problem.tolerance - 1e-9
    return int(np.flatnonzero(short)[-1]) + 1 if short.any() else 0


def random_dataflows(dataflows: int, seeds: int, errors: Sequence[float]) -> list[dict[str, Any]]:
    """By error of forecasts: profit of each, and in how many pairs ours has more; Ω, and what the error costs."""
    worlds = [(dataflow, paired_world(dataflow, seed)) for dataflow in range(dataflows) for seed in range(seeds)]
    blind = [outcome_of(world.problem, played(world, "CE", 0.0).course) for _, world in worlds]
    rows, right = [], dict[str, float]()
    for error in errors:
        outcomes = {name: [outcome_of(world.problem, played(world, name, error).course) for _, world in worlds]
                    for name in COMPARED if name != "CE"}
        profits = {name: np.array([course.shown_profit for course in some])
                   for name, some in {**outcomes, "CE": blind}.items()}
        row: dict[str, Any] = {"error": f"{error:.0%}", "pairs": len(worlds)}
        for name, some in profits.items():
            row["CAF (CE)" if name == "CE" else name] = float(some.mean())
        for other in ("PLAStiCC", "CE"):
            more = profits["local"] - profits[other]
            row[f"over {other}"] = float(more.mean())
            row[f"± {other}"] = float(2 * more.std(ddof=1) / np.sqrt(len(more))) if len(more) > 1 else None
            row[f"more than {other} %"] = 100 * float((more > 0).mean())
        for name, some in outcomes.items():
            right.setdefault(name, row[name])
            row[f"error costs {name}"] = right[name] - row[name]
            row[f"Ω {name}"] = mean([course.throughput for course in some])
        rows.append(row)
    return rows


def as_autoscalers(dataflows: int, error: float) -> list[dict[str, Any]]:
    """As autoscalers are measured: each algorithm over random dataflows."""
    rows = []
    worlds = [paired_world(dataflow, 0) for dataflow in range(dataflows)]
    fixed = [best_fixed_core_hours(world) for world in worlds]
    days, end_s = STEPS * MINUTES_A_STEP / (24 * 60), STEPS * MINUTES_A_STEP * 60.0
    for name in COMPARED:
        courses = [played(world, name, error) for world in worlds]
        rows.append({
            "algorithm": "CAF (CE)" if name == "CE" else name,
            "decisions to settle": mean([float(decisions_to_settle(world.problem.dataflow, name, 20.0))
                                         for world in worlds]),
            "changes a day": mean([changes(course.placements) / days for course in courses]),
            "core-hours of best fixed": mean([core_hours(course.course, end_s) / most for course, most in zip(
                courses, fixed, strict=True) if np.isfinite(most)]),
            "missed %": 100 * mean([float(np.mean(
                np.array(course.course.reached) < world.problem.least - world.problem.tolerance - 1e-9))
                for course, world in zip(courses, worlds, strict=True)]),
            "Ω": mean([float(np.mean(course.course.reached)) for course in courses])})
    return rows


def shapes_of(rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, bool]]:
    """What was asked of ours, and whether it holds."""
    yield "local search has more profit than PLAStiCC at every error", all(row["over PLAStiCC"] > 0 for row in rows)
    yield "local search is never worse than CAF by more than noise", all(
        row["over CE"] > -(row["± CE"] or 0.0) for row in rows)
    yield "local search holds Ω >= 0.8", all(row["Ω local"] >= 0.8 for row in rows)
