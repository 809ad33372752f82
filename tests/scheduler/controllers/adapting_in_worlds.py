"""Adaptation among the controllers of the played worlds: the real one, over dataflows of two dynamic tasks each.

What it answers to the same load is kept, for the worlds ask it many thousand times.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from scheduler.adaptation.adaptation_port import Forecast
from scheduler.adaptation.shared_slots import AdaptationRoom
from scheduler.controllers.alternate_adaptation import Adaptations, AdaptedDataflow, Adapting
from scheduler.controllers.changes import Aspect, AspectChange
from scheduler.controllers.controller_port import Effect, Evaluation, Verdict
from scheduler.controllers.evidence.expected_rates import expected_course
from scheduler.controllers.evidence.minute_forecasts import MinuteForecast
from scheduler.controllers.loop_values import OFF, ControllerPromise, Decision, Policy
from scheduler.model.dataflow_goals import DataflowGoals
from scheduler.simulation.elastic import Alternate, ElasticDataflow

from .followers import TEAMS

DATAFLOWS = tuple(f"d{number}" for number in range(3))
OWNERS = dict(zip(DATAFLOWS, TEAMS, strict=True))
DEAR = "all"
WAYS = {name: Alternate(name, worth, event_s, 1.0) for name, worth, event_s in (
    (DEAR, 1.0, 1 / 30_000), ("some", 0.8, 1 / 50_000), ("few", 0.5, 1 / 100_000))}
PER_LOAD, MOST = 300.0, 10_000.0  # events a second for one of load; and what load is taken for that is more
ALONE = Policy()


def tasks_of(dataflow: str) -> tuple[str, str]:
    """Its dynamic tasks."""
    return f"{dataflow}-a", f"{dataflow}-b"


class WorldAdaptation:
    """Adaptation as the worlds play it: it is told loads, and which alternates are on."""

    about = reads = ""
    name = title = "adaptation"
    subjects = DATAFLOWS
    alongside = True
    every_s, usual = 60.0, Policy()

    def __init__(self) -> None:
        self._controller = Adapting()

    def on(self, values: Mapping[tuple[str, str], str], subject: str) -> tuple[str, ...]:
        """The alternates of a dataflow that are on."""
        return tuple(values[Aspect.ALTERNATE, task] for task in tasks_of(subject))

    def evaluate(self, evidence: Mapping[str, Any], policies: Mapping[str, Policy]) -> Evaluation:
        decisions, reasons = [], []
        for subject, (load, ways) in sorted(evidence.items()):
            if policies[OWNERS[subject]].mode != OFF:
                answer = _evaluated(subject, _rounded(load), ways)
                decisions += answer.decisions
                reasons += answer.reasons
        return Evaluation(tuple(decisions), tuple(reasons))

    def check(self, promise: ControllerPromise, effect: Effect) -> tuple[Verdict, str]:
        return self._controller.check(promise, effect)

    def rollback(self, decision: Decision) -> tuple[AspectChange, ...]:
        return self._controller.rollback(decision)


def _rounded(load: float) -> float:
    """A load in tens; what is none counts as nothing."""
    return min(MOST, max(0.0, 10.0 * round(load / 10))) if math.isfinite(load) else 0.0


@lru_cache(maxsize=100_000)
def _evaluated(subject: str, load: float, ways: tuple[str, str]) -> Evaluation:
    return Adapting().evaluate(Adaptations((dataflow_of(subject, load, ways),)), {OWNERS[subject]: ALONE})


def dataflow_of(subject: str, load: float, ways: tuple[str, str]) -> AdaptedDataflow:
    """A dataflow of the worlds at a load; at times more is foreseen than comes."""
    first, second = tasks_of(subject)
    others = tuple(team for team in TEAMS if team != OWNERS[subject])[: load > 120.0]
    seen = PER_LOAD * load
    foreseen = MinuteForecast(0.0, seen, (1.2 * seen,) * 7, (0.1,) * 7, 0.1, "season") if load % 20 else None
    course = expected_course(foreseen, seen, 0.0)
    return AdaptedDataflow(
        subject, OWNERS[subject], DataflowGoals(most_per_hour=0.4, least_per_hour=0.04),
        ElasticDataflow({"s": {"": Alternate("", 1.0, 1e-9, 1.0)}, first: WAYS, second: WAYS},
                        (("s", first), (first, second))),
        {"s": "", first: ways[0], second: ways[1]}, {first: "a", second: "b"}, {first: others, second: others},
        {"s": sum(course) / len(course)}, {},
        AdaptationRoom({"n/0": 1.0, "n/1": 1.0}, {"s": {"n/0": 1.0}, first: {"n/0": 1.0}, second: {"n/1": 1.0}}),
        0.1, 1e6 * sum(WAYS[way].event_s for way in ways), (), Forecast({"s": course}))
