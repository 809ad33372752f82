"""What adaptation is tried with: Linear Road and a synthetic dataflow as the thesis has them, machines, loads.

What Kumbhare 2016 does not publish is our own, and said here: costs of Linear Road's tasks but P2 and P7, its streams
between P2, P3 and P4, all alternates of the synthetic dataflow, bandwidths, and how machines vary.
"""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from scheduler.adaptation.adaptation_port import AdaptationProblem
from scheduler.adaptation.greedy_deployment import deploy_centrally
from scheduler.simulation.elastic import Alternate, ElasticDataflow, VmClass
from scheduler.simulation.loads import Rates, speed_traces, waves
from scheduler.simulation.problem import BreakEven

MINUTES_A_STEP = 5
HOURS = 12.0
STEPS = int(HOURS * 60 / MINUTES_A_STEP)
STARTS_S = 120.0
# Amazon's first generation (m1.*), as the thesis takes: cores, each one's compute units, and what an hour cost.
CLASSES = (
    VmClass("m1.small", 1, 1.0, 12.5e6, 0.06), VmClass("m1.medium", 1, 2.0, 25e6, 0.12),
    VmClass("m1.large", 2, 2.0, 62.5e6, 0.24), VmClass("m1.xlarge", 4, 2.0, 125e6, 0.48))


def _only(event_s: float, selectivity: float = 1.0) -> dict[str, Alternate]:
    return {"1": Alternate("1", 1.0, event_s, selectivity)}


# Figure 4.5. Its table is garbled: P2 is as there, P7 taken as 1/1/1 and 0.6/0.3/1. P0 tells the weather, a hundredth
# of the reports that P1 parses; P3 passes on a tenth, for accidents are rare.
LINEAR_ROAD = ElasticDataflow(
    {"P0": _only(0.1), "P1": _only(0.1),
     "P2": {"1": Alternate("1", 1.0, 1.2), "2": Alternate("2", 0.8, 0.8), "3": Alternate("3", 0.5, 0.8, 0.5)},
     "P3": _only(0.1, 0.1), "P4": _only(0.1), "P5": _only(0.05), "P6": _only(0.05),
     "P7": {"1": Alternate("1", 1.0, 1.0), "2": Alternate("2", 0.6, 0.3)}},
    (("P0", "P2"), ("P1", "P2"), ("P1", "P3"), ("P2", "P4"), ("P3", "P4"), ("P2", "P7"), ("P3", "P7"), ("P4", "P5"),
     ("P4", "P6")))


def linear_road(rate_per_s: float, *, dataflow: ElasticDataflow = LINEAR_ROAD) -> AdaptationProblem:
    """Linear Road with the break-even costs of section 4.9.2: hours times a tenth of the rate, and half of it."""
    most = HOURS * rate_per_s / 10
    return AdaptationProblem(dataflow, CLASSES, BreakEven(most, most / 2), HOURS, starts_s=STARTS_S)


def reports(rate_per_s: float | Rates) -> dict[str, float | Rates]:
    """What comes to the sources of Linear Road."""
    return {"P1": rate_per_s, "P0": rate_per_s / 100}


def without_alternates(dataflow: ElasticDataflow) -> ElasticDataflow:
    """Each task's best alternate alone."""
    best = {task: max(alternates.values(), key=lambda alternate: alternate.worth)
            for task, alternates in dataflow.tasks.items()}
    return ElasticDataflow({task: {alternate.name: alternate} for task, alternate in best.items()}, dataflow.streams)


def synthetic(chance: np.random.Generator, *, stages: int = 10, lanes: int = 3) -> ElasticDataflow:
    """Stages of tasks, each with one to three alternates (figure 5.2): here lanes that do not cross."""
    tasks: dict[str, dict[str, Alternate]] = {}
    for stage in range(stages):
        for lane in range(lanes):
            worth, event_s = 1.0, float(chance.uniform(0.02, 0.1))
            alternates = {}
            for number in range(1, int(chance.integers(3)) + 2):
                alternates[str(number)] = Alternate(
                    str(number), worth, event_s, float(chance.uniform(0.95, 1.05)))
                worth, event_s = (figure * float(chance.uniform(least, 0.95))
                                  for figure, least in ((worth, 0.7), (event_s, 0.4)))
            tasks[f"s{stage}-{lane}"] = alternates
    streams = tuple((f"s{stage}-{lane}", f"s{stage + 1}-{lane}") for stage in range(stages - 1)
                    for lane in range(lanes))
    return ElasticDataflow(tasks, streams)


def sinusoids(dataflow: ElasticDataflow, chance: np.random.Generator) -> dict[str, Rates]:
    """From 75 down to 2 events a second over half of a day's wave, up to 20% off in each minute; means of the steps."""
    return {source: waves(2.0, 75.0, STEPS * MINUTES_A_STEP, chance, period=24 * 60).reshape(
        STEPS, MINUTES_A_STEP).mean(axis=1) for source in dataflow.sources}


def synthetic_problem(dataflow: ElasticDataflow, mean_per_s: float) -> AdaptationProblem:
    """Break-even costs: what CE's deployment at the mean rate costs over the time with the best alternates; half of it.
    """
    rates = dict.fromkeys(dataflow.sources, mean_per_s)
    best = AdaptationProblem(without_alternates(dataflow), CLASSES, BreakEven(2.0, 1.0), HOURS)
    deployed = deploy_centrally(best, rates, rng=np.random.default_rng(0))
    most = HOURS * sum(vm.kind.per_hour for vm in deployed.vms.values())
    return AdaptationProblem(dataflow, CLASSES, BreakEven(most, most / 2), HOURS, starts_s=STARTS_S)


def machine_traces(chance: np.random.Generator, recorded: Path | None) -> Sequence[Rates]:
    """How quick machines are, step by step: made up, or by recorded machines, of which each keeps two thirds at least.

    Parameters
    ----------
    recorded : Path, optional
        Compressed lines of a name and then the CPU use of a machine in percent, each five minutes.
    """
    if recorded is None:
        return speed_traces(200, STEPS, chance)
    rows = [line.split(",")[1:] for line in gzip.decompress(recorded.read_bytes()).decode().splitlines()]
    return [1 - np.array([float(cell) for cell in row if cell]) / 300 for row in rows]
