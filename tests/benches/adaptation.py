"""Adaptation of elastic dataflows in a simulated cloud: table 4.2 and figures 4.6, 4.7, 5.3 to 5.5 of Kumbhare 2016.

Nothing runs: Linear Road and a synthetic dataflow are played for twelve hours by each algorithm, with published figures
beside. Inputs that are not published are our own (`adaptation_workloads`). Profit is Γ − σμ, as section 5.2 has it;
(4.8) is that and a constant.
"""

from __future__ import annotations

import argparse
import itertools
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from scheduler.adaptation.adaptation_port import AdaptationProblem
from scheduler.adaptation.adapted_course import AdaptationOutcome, OracleForecasts, adapting, outcome_of
from scheduler.adaptation.least_powers import least_powers
from scheduler.adaptation.side_by_side import OFFERED
from scheduler.simulation.cloud import Cloud, simulate
from scheduler.simulation.elastic import ElasticPlacement
from scheduler.simulation.loads import Rates, constant, wandering
from scheduler.simulation.problem import value_of
from tests.benches.adaptation_ahead import as_autoscalers, random_dataflows, shapes_of
from tests.benches.adaptation_workloads import (
    LINEAR_ROAD,
    MINUTES_A_STEP,
    STARTS_S,
    STEPS,
    linear_road,
    machine_traces,
    reports,
    sinusoids,
    synthetic,
    synthetic_problem,
    without_alternates,
)
from tests.benches.arguments import count, file
from tests.benches.results import machine, mean, table, write
from tests.benches.slow_adaptations import COMPARED

STEADY, MACHINES, RATES, BOTH = "neither", "machines", "rates", "both"
# Table 4.2: profit, and Ω without variability, with that of machines, of rates, and of both.
PUBLISHED = {
    "BR": (0.67, 0.80, 0.68, 0.59, 0.44), "GA": (0.65, 0.79, 0.67, 0.48, 0.37), "SH": (0.45, 0.81, 0.60, 0.40, 0.29),
    "CE": (0.58, 0.81, 0.66, 0.42, 0.31)}
STATIC = ("GA", "SH", "CE", "local")
ADAPTED = ("GA", "SH", "CE", "hybrid", "local")
AHEAD = ("PLAStiCC", "CE", "WAAF", "WPA", "WPO", "WPP", "local")
SHOWN = {"CE": "CAF (CE)"}


@dataclass(frozen=True)
class Extent:
    """How much is measured."""

    seeds: int
    rates: Sequence[int]
    genetic_up_to: int
    decided: Sequence[int]
    genetic_decides_up_to: int
    horizons: Sequence[int]
    errors: Sequence[float]
    dataflows: int  # random ones
    worlds: int  # loads and machines of each
    traces: Path | None = None


SHORT = Extent(1, (10, 50, 200, 1000), 50, (10, 100, 1000, 8000), 100, (10, 20, 40, 60), (0.0, 0.05, 0.1, 0.2),
               10, 1)
LONG = Extent(5, (10, 20, 50, 100, 500, 1000, 2000), 200, (10, 50, 100, 500, 1000, 2000, 4000, 8000), 1000,
              (10, 20, 30, 40, 50, 60), (0.0, 0.05, 0.1, 0.15, 0.2), 100, 10)


def linear_road_course(
    problem: AdaptationProblem, name: str, rate_per_s: float, varies: str, seed: int, *, traces: Path | None,
    adapts: bool = True, keeps_s: float | None = None, deployed: ElasticPlacement | None = None,
) -> AdaptationOutcome:
    """Twelve hours of Linear Road; the rates and machines of a seed are the same for every algorithm."""
    chance = np.random.default_rng(seed)
    rates = wandering(rate_per_s, STEPS, chance) if varies in (RATES, BOTH) else constant(rate_per_s, STEPS)
    speeds = machine_traces(chance, traces) if varies in (MACHINES, BOTH) else ()
    kind, rng = COMPARED[name], np.random.default_rng(seed)
    problem = replace(problem, keeps_s=keeps_s)
    course = simulate(
        problem.dataflow, adapting(
            problem, kind.deploy if deployed is None else _as_deployed(deployed), kind.adapt if adapts else None,
            expected_per_s=reports(rate_per_s), rng=rng),
        rates_per_s=reports(rates), step_s=problem.step_s, rng=rng,
        cloud=Cloud(starts_s=STARTS_S if adapts else 0.0, traces=speeds, keeps_s=keeps_s))
    return outcome_of(problem, course)


def _as_deployed(placement: ElasticPlacement) -> Callable[..., ElasticPlacement]:
    return lambda problem, rates_per_s, *, rng: placement


def variability(extent: Extent) -> list[dict[str, Any]]:
    """Table 4.2, twice: all that waits is kept, as (4.4) has it, and what a step leaves is dropped."""
    rows = []
    problem = linear_road(50)
    deployed = {name: COMPARED[name].deploy(problem, reports(50), rng=np.random.default_rng(1)) for name in STATIC}
    for name, queues in itertools.product(STATIC, ("kept", "dropped")):
        published = PUBLISHED.get(name, (None,) * 5)
        row: dict[str, Any] = {
            "algorithm": name, "queues": queues, "profit": _shown_profit(problem, deployed[name]),
            "published": published[0]}
        for at, varies in enumerate((STEADY, MACHINES, RATES, BOTH), start=1):
            row[f"Ω {varies}"] = mean([linear_road_course(
                problem, name, 50, varies, seed, traces=extent.traces, adapts=False,
                keeps_s=0.0 if queues == "dropped" else None, deployed=deployed[name]).throughput
                for seed in range(extent.seeds + 2)])
            row[f"pub. {varies}"] = published[at]
        rows.append(row)
    rows.append({**dict.fromkeys(rows[0]), "algorithm": "bound", "queues": "–", "profit": profit_bound(problem, 50)})
    brute = PUBLISHED["BR"]
    rows.append({**dict.fromkeys(rows[0]), "algorithm": "BR", "queues": "–", "published": brute[0], **{
        f"pub. {varies}": brute[at] for at, varies in enumerate((STEADY, MACHINES, RATES, BOTH), start=1)}})
    return rows


def profit_bound(problem: AdaptationProblem, rate_per_s: float) -> float:
    """More profit has no placement: of all alternates the best, with cores that can be divided at the least price."""
    price = min(kind.per_hour / (kind.cores * kind.speed) for kind in problem.classes) * problem.paid_hours
    tasks, conditions = problem.dataflow.tasks, problem.conditions(reports(rate_per_s))
    return max(
        value_of(problem.dataflow, active) - problem.value_of_money * price * sum(
            least_powers(problem, conditions, active).values())
        for names in itertools.product(*tasks.values()) for active in [dict(zip(tasks, names, strict=True))])


def _shown_profit(problem: AdaptationProblem, placement: ElasticPlacement) -> float:
    cost = sum(vm.kind.per_hour for vm in placement.vms.values()) * problem.paid_hours
    return value_of(problem.dataflow, placement.active) - problem.value_of_money * cost


def adapted(extent: Extent) -> list[dict[str, Any]]:
    """Figure 4.6: Ω and profit with adaptation, rates and machines varying."""
    rows = []
    for rate in extent.rates:
        outcomes: dict[str, AdaptationOutcome] = {}
        for name in ADAPTED:
            if name in OFFERED or rate <= extent.genetic_up_to:
                outcomes[name] = _mean_outcome(linear_road_course(
                    linear_road(rate), name, rate, BOTH, seed, traces=extent.traces) for seed in range(extent.seeds))
        best = outcomes.get("GA")
        rows += [{
            "msg/s": rate, "algorithm": name, "Ω": outcome.throughput, "Γ": outcome.value,
            "cost": outcome.cost, "profit": outcome.shown_profit,
            "of GA's": outcome.shown_profit / best.shown_profit if best else None, "χ": outcome.outside}
            for name, outcome in outcomes.items()]
    return rows


def decisions(extent: Extent) -> list[dict[str, Any]]:
    """Figure 4.7 (a, b): how long an initial deployment takes to decide, and how many cores it has."""
    rows = []
    COMPARED["local"].deploy(linear_road(10), reports(10), rng=np.random.default_rng(1))  # imports its solver
    for rate, name in itertools.product(extent.decided, STATIC):
        if name in OFFERED or rate <= extent.genetic_decides_up_to:
            problem, taken = linear_road(rate), []
            for _ in range(3 if name in OFFERED else 1):
                began_s = time.perf_counter()
                placement = COMPARED[name].deploy(problem, reports(rate), rng=np.random.default_rng(1))
                taken.append(time.perf_counter() - began_s)
            bound = profit_bound(problem, rate)
            rows.append({
                "msg/s": rate, "algorithm": name, "seconds": min(taken), "machines": len(placement.vms),
                "cores": sum(sum(on.values()) for on in placement.cores.values()),
                "profit": _shown_profit(problem, placement), "of bound": _shown_profit(problem, placement) / bound})
    return rows


def alternates(extent: Extent) -> list[dict[str, Any]]:
    """Figure 4.7 (c): what alternates save of cost with adaptation; published 6.9 to 27.5%."""
    rows = []
    for rate, name in itertools.product(extent.rates, ("CE", "SH", "local")):
        costs = [mean([linear_road_course(
            linear_road(rate, dataflow=dataflow), name, rate, BOTH, seed, traces=extent.traces).cost
            for seed in range(extent.seeds)]) for dataflow in (LINEAR_ROAD, without_alternates(LINEAR_ROAD))]
        rows.append({"msg/s": rate, "algorithm": name, "with": costs[0], "without": costs[1],
                     "saved %": 100 * (1 - costs[0] / costs[1]), "published %": "6.9–27.5"})
    return rows


def synthetic_course(
    name: str, seed: int, *, minutes: int, error: float, bias: float, traces: Path | None
) -> AdaptationOutcome:
    """Twelve hours of the synthetic dataflow under a forecast of so many minutes with such errors."""
    chance = np.random.default_rng(seed)
    dataflow = synthetic(chance)
    rates = sinusoids(dataflow, chance)
    problem = synthetic_problem(dataflow, mean([float(np.mean(course)) for course in rates.values()]))
    speeds: Sequence[Rates] = machine_traces(chance, traces)
    rng = np.random.default_rng(seed)
    oracle = OracleForecasts(minutes // MINUTES_A_STEP, error, bias, np.random.default_rng(seed + 1000))
    kind = COMPARED[name]
    course = simulate(
        dataflow, adapting(problem, kind.deploy, kind.adapt, rng=rng, oracle=oracle, expected_per_s={
            source: float(course[0]) for source, course in rates.items()}),
        rates_per_s=rates, step_s=problem.step_s, cloud=Cloud(starts_s=STARTS_S, traces=speeds), rng=rng)
    return outcome_of(problem, course)


def _ahead(extent: Extent, names: Iterable[str], **how: Any) -> dict[str, AdaptationOutcome]:
    return {name: _mean_outcome(
        synthetic_course(name, seed, traces=extent.traces, **how) for seed in range(2 * extent.seeds))
        for name in names}


def perfect_forecasts(extent: Extent) -> list[dict[str, Any]]:
    """Figure 5.3: Ω, profit and χ by how far a perfect forecast reaches."""
    blind = _ahead(extent, [name for name in AHEAD if not COMPARED[name].foresees],
                   minutes=MINUTES_A_STEP, error=0.0, bias=0.0)
    return [{"minutes": minutes, **_figures(name, outcome)} for minutes in extent.horizons for name, outcome in {
        **_ahead(extent, [name for name in AHEAD if COMPARED[name].foresees], minutes=minutes, error=0.0, bias=0.0),
        **blind}.items()]


def wrong_forecasts(extent: Extent) -> list[dict[str, Any]]:
    """Figure 5.4: profit of PLAStiCC, and of local search, by how far and how wrong the forecast is."""
    return [{"algorithm": name, "minutes": minutes, **{
        f"error {error:.0%}": _ahead(extent, [name], minutes=minutes, error=error, bias=0.0)[name].shown_profit
        for error in extent.errors}} for name in ("PLAStiCC", "local") for minutes in extent.horizons]


def biased_forecasts(extent: Extent) -> list[dict[str, Any]]:
    """Figure 5.5: profit by error and bias of forecasts over 20 minutes."""
    rows = []
    for bias, error in itertools.product((0.0, -0.05, 0.05), extent.errors):
        outcomes = _ahead(
            extent, ("PLAStiCC", "WPA", "WPO", "WPP", "local"), minutes=20, error=error, bias=bias)
        rows.append({"bias": f"{bias:+.0%}", "error": f"{error:.0%}",
                     **{name: outcome.shown_profit for name, outcome in outcomes.items()},
                     **{f"Ω {name}": outcome.throughput for name, outcome in outcomes.items()}})
    return rows


def against_others(extent: Extent) -> list[dict[str, Any]]:
    """Ours against PLAStiCC and CAF on random dataflows, paired."""
    return random_dataflows(extent.dataflows, extent.worlds, (*extent.errors, 0.5))


def as_others_measure(extent: Extent) -> list[dict[str, Any]]:
    """Steps to settle, changes a day, core-hours, misses."""
    return as_autoscalers(extent.dataflows, 0.1)


def _figures(name: str, outcome: AdaptationOutcome) -> dict[str, Any]:
    return {"algorithm": SHOWN.get(name, name), "Ω": outcome.throughput, "Γ": outcome.value,
            "cost": outcome.cost, "profit": outcome.shown_profit, "χ": outcome.outside}


def _mean_outcome(outcomes: Iterable[AdaptationOutcome]) -> AdaptationOutcome:
    some = list(outcomes)
    return AdaptationOutcome(
        *(mean([getattr(outcome, name) for outcome in some])
          for name in ("value", "throughput", "cost", "profit", "shown_profit")),
        round(mean([outcome.outside for outcome in some])))


MEASURED: dict[str, tuple[str, Callable[[Extent], list[dict[str, Any]]]]] = {
    "4.2": ("Table 4.2: Linear Road at 50 msg/s without adaptation; bound: no placement has more profit", variability),
    "4.6": ("Figure 4.6: with adaptation, rates and machines varying (published: Ω at least 0.8, CE 60–80% of GA's "
            "profit)", adapted),
    "4.7": ("Figure 4.7 a, b: seconds to decide (published at 8,000: CE, SH 2.5, GA over 1,000), cores (published at "
            "8,000: about 5,000)", decisions),
    "4.7c": ("Figure 4.7 c: cost that alternates save", alternates),
    "5.3": ("Figure 5.3: perfect forecasts (published: PLAStiCC 0.6 to 0.7, most profit and least χ; WPP least profit)",
            perfect_forecasts),
    "5.4": ("Figure 5.4: profit by error of forecasts (published: 0.6 to 0.7 at none, less the more errors)",
            wrong_forecasts),
    "5.5": ("Figure 5.5: profit by error and bias, 20 minutes (published: PLAStiCC best at small errors, WPA flat, WPP "
            "worst)", biased_forecasts),
    "ours": ("Ours against PLAStiCC and CAF on random dataflows, the same load and errors for each, 20 minutes: profit",
             against_others),
    "autoscalers": ("As autoscalers are measured; forecasts over 20 minutes with 10% of error", as_others_measure),
}


def shapes(results: Mapping[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Which of the published shapes hold in what was measured."""
    shown: list[dict[str, Any]] = []

    def tell(place: str, shape: str, holds: Callable[[list[dict[str, Any]]], bool]) -> None:
        if place in results:
            shown.append({"of": place, "shape": shape, "holds": "yes" if holds(results[place]) else "no"})

    tell("4.2", "Ω falls with machines that vary, and most where both vary", lambda rows: all(
        row["Ω neither"] > row["Ω machines"] > row["Ω both"] for row in rows if row["Ω both"] is not None))
    tell("4.2", "profit: SH < CE <= GA", lambda rows: _pick(rows, "SH") < _pick(rows, "CE") <= _pick(rows, "GA") + 1e-9)
    tell("4.6", "Ω >= 0.8 at every rate", lambda rows: all(row["Ω"] >= 0.8 for row in rows))
    tell("4.6", "Ω >= 0.8 less the tolerance at every rate", lambda rows: all(row["Ω"] >= 0.75 for row in rows))
    tell("4.6", "profit: SH < CE < GA where GA ran", lambda rows: all(
        _pick(some, "SH") < _pick(some, "CE") < _pick(some, "GA") for some in _grouped(rows, "msg/s")
        if any(row["algorithm"] == "GA" for row in some)))
    tell("4.6", "local search: 95% of GA's profit at least", lambda rows: all(
        row["of GA's"] >= 0.95 for row in rows if row["algorithm"] == "local" and row["of GA's"]))
    tell("4.7", "SH has at least CE's cores", lambda rows: all(
        _pick(some, "SH", "cores") >= _pick(some, "CE", "cores") for some in _grouped(rows, "msg/s")))
    tell("4.7", "local search: 95% of the bound at 1,000 msg/s and more", lambda rows: all(
        row["of bound"] >= 0.95 for row in rows if row["algorithm"] == "local" and row["msg/s"] >= 1000))
    tell("4.7c", "alternates save something at every rate", lambda rows: all(row["saved %"] > 0 for row in rows))
    tell("5.3", "PLAStiCC has more profit than CAF at each horizon", lambda rows: all(
        _pick(some, "PLAStiCC") > _pick(some, "CAF (CE)") for some in _grouped(rows, "minutes")))
    tell("5.3", "PLAStiCC has the most profit of the published at each horizon", lambda rows: all(
        _pick(some, "PLAStiCC") == max(row["profit"] for row in some if row["algorithm"] != "local")
        for some in _grouped(rows, "minutes")))
    tell("5.3", "PLAStiCC's profit rises with the horizon", lambda rows: _rises(
        [row["profit"] for row in rows if row["algorithm"] == "PLAStiCC"]))
    tell("5.3", "WPP has the least profit at each horizon", lambda rows: all(
        _pick(some, "WPP") == min(row["profit"] for row in some) for some in _grouped(rows, "minutes")))
    tell("5.4", "PLAStiCC: the larger the error, the less profit", lambda rows: all(
        _rises([-value for key, value in row.items() if key.startswith("error")]) for row in rows
        if row["algorithm"] == "PLAStiCC"))
    tell("5.5", "PLAStiCC has the most profit of the published without error, at each bias", lambda rows: all(
        row["PLAStiCC"] >= max(row[name] for name in ("WPA", "WPO", "WPP")) for row in rows if row["error"] == "0%"))
    tell("5.5", "WPA is flat: within 0.03 over all errors and biases", lambda rows: (
        max(row["WPA"] for row in rows) - min(row["WPA"] for row in rows) <= 0.03))
    tell("5.5", "WPP is worst wherever there is an error", lambda rows: all(
        row["WPP"] == min(row[name] for name in ("PLAStiCC", "WPA", "WPO", "WPP")) for row in rows
        if row["error"] != "0%"))
    tell("5.5", "local search has more profit than PLAStiCC at every error and bias", lambda rows: all(
        row["local"] > row["PLAStiCC"] for row in rows))
    for shape, holds in shapes_of(results["ours"]) if "ours" in results else ():
        shown.append({"of": "ours", "shape": shape, "holds": "yes" if holds else "no"})
    return shown


def _pick(rows: Iterable[Mapping[str, Any]], algorithm: str, figure: str = "profit") -> float:
    return next(row[figure] for row in rows if row["algorithm"] == algorithm)


def _grouped(rows: Sequence[dict[str, Any]], key: str) -> list[list[dict[str, Any]]]:
    return [list(some) for _, some in itertools.groupby(rows, key=lambda row: row[key])]


def _rises(figures: Sequence[float]) -> bool:
    return all(after >= before for before, after in itertools.pairwise(figures))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print tables, write JSON."""
    parser = argparse.ArgumentParser(
        description="Adapt elastic dataflows in a simulated cloud by each algorithm, with published figures beside: "
                    "table 4.2, figures 4.6, 4.7, 5.3 to 5.5 of Kumbhare 2016; and ours on random dataflows. Nothing "
                    "runs.")
    parser.add_argument(
        "--only", nargs="+", choices=MEASURED, default=list(MEASURED), help="of these tables and figures")
    parser.add_argument("--long", action="store_true", help="more rates, horizons, errors and seeds: half an hour")
    parser.add_argument("--seeds", type=count, help="other than 1, or 5 of the long form")
    parser.add_argument(
        "--vm-traces", type=file, help="compressed CSV of machines' CPU use, in place of what is made up")
    parser.add_argument("--json", type=Path, default=Path("adaptation.json"))
    given = parser.parse_args(arguments)
    extent = replace(LONG if given.long else SHORT, traces=given.vm_traces)
    if given.seeds:
        extent = replace(extent, seeds=given.seeds)
    results: dict[str, list[dict[str, Any]]] = {}
    keep = partial(write, given.json)
    for name in given.only:
        title, measure = MEASURED[name]
        began_s = time.perf_counter()
        results[name] = measure(extent)
        print(f"\n{title} ({time.perf_counter() - began_s:.0f} s)\n\n{table(results[name])}", flush=True)
        keep({"machine": machine(), "load": os.getloadavg()[0], "extent": repr(extent), "results": results,
              "shapes": shapes(results)})
    print(f"\n{table(shapes(results))}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
