"""Dataflows with goals as adaptation looks at them, what an algorithm answers for one, and the slots that they want."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from scheduler.adaptation.adaptation_port import AdaptationProblem, Forecast
from scheduler.adaptation.adaptation_registry import ADAPTATIONS
from scheduler.adaptation.shared_slots import AdaptationAnswer, AdaptationRoom, choose_on_slots, slot_class
from scheduler.model.checks import FiniteFigures
from scheduler.model.dataflow_goals import DataflowGoals
from scheduler.simulation.elastic import ElasticDataflow
from scheduler.simulation.problem import BreakEven, Conditions, price_of_value

from .bundle_adaptation import OfferedBundles
from .loop_values import ACTS, Policy

STEP_S = 60.0  # Ω is of so long a step


@dataclass(frozen=True)
class AdaptedDataflow(FiniteFigures):
    """A dataflow with goals, as adaptation looks at it.

    Parameters
    ----------
    elastic : ElasticDataflow
        Its running tasks, each with the alternates that may be on now, including the present one.
    names : mapping of str to str
        The id in the document, by running task that may be switched.
    sharers : mapping of str to tuple of str
        The other teams of each such task, and of each task that a schedule divides.
    rates_per_s, waiting : mapping of str to float
        By running task: the events a second expected from outside, and the number of waiting events.
    room : AdaptationRoom
        The slots of its tasks, and their part of each core.
    slot_hour : float
        The price of a slot for an hour.
    event_us : float, optional
        The CPU of its queries for each event from outside, in µs; None if unknown.
    left_alone : tuple of str
        Sentences on dynamic tasks that are left alone.
    forecast : Forecast, optional
        Of the next steps, for algorithms that look ahead.
    expects : tuple of str
        Sentences on the expected rates, and on why averages are used where they are.
    bundles : OfferedBundles, optional
        The schedule that it runs by, and the one for the expected rate; None without a schedule.
    """

    id: str
    team: str
    goals: DataflowGoals
    elastic: ElasticDataflow
    active: Mapping[str, str]
    names: Mapping[str, str]
    sharers: Mapping[str, tuple[str, ...]]
    rates_per_s: Mapping[str, float]
    waiting: Mapping[str, float]
    room: AdaptationRoom
    slot_hour: float
    event_us: float | None = None
    left_alone: tuple[str, ...] = ()
    forecast: Forecast | None = None
    expects: tuple[str, ...] = ()
    bundles: OfferedBundles | None = None

    @property
    def load_tasks(self) -> tuple[str, ...]:
        """Its sources, whose rate is its load."""
        return self.elastic.sources

    @property
    def sharing_teams(self) -> tuple[str, ...]:
        """The other teams that run any of its tasks."""
        return tuple(sorted({team for teams in self.sharers.values() for team in teams}))

    @property
    def problem(self) -> AdaptationProblem:
        """The problem of adaptation, with slots as machines that are paid by the second."""
        goals = self.goals
        return AdaptationProblem(
            self.elastic, (slot_class(self.slot_hour, tasks=len(self.elastic.tasks)),),
            BreakEven(goals.most_per_hour * goals.hours, goals.least_per_hour * goals.hours), hours=goals.hours,
            least=goals.throughput, tolerance=goals.tolerance, step_s=STEP_S, billing="seconds")

    @property
    def value_per_hour(self) -> float:
        """The value that a unit of money an hour has to bring, over the time of its goals (4.9)."""
        return price_of_value(self.elastic, self.problem.goal) * self.goals.hours

    @property
    def conditions(self) -> Conditions:
        """The step to come, as it is expected."""
        return Conditions(self.rates_per_s, STEP_S, self.waiting)


@dataclass(frozen=True)
class Adaptations:
    """The evidence: dataflows with goals, by which algorithm is decided, and in which currency."""

    dataflows: tuple[AdaptedDataflow, ...] = ()
    algorithm: str = "CE"
    currency: str = ""

    def __post_init__(self) -> None:
        if self.algorithm not in ADAPTATIONS:
            raise ValueError(f"{self.algorithm} does not decide at run time; name one of {', '.join(ADAPTATIONS)}")


def answer_for(dataflow: AdaptedDataflow, algorithm: str) -> AdaptationAnswer:
    """The choice of an algorithm of the registry, and the other candidates; the same for the same."""
    return choose_on_slots(
        dataflow.problem, dataflow.conditions, dataflow.active, dataflow.room, kind=ADAPTATIONS[algorithm],
        forecast=dataflow.forecast)


def slots_wanted(evidence: Adaptations, policies: Mapping[str, Policy], *, mode: str = ACTS) -> int:
    """Slots that dataflows of teams where adaptation has this mode would take besides: of those that no alternate
    brings to their throughput, each as many as its goals pay for (``most_per_hour``)."""
    slots = 0
    for dataflow in evidence.dataflows:
        if policies.get(dataflow.team, Policy()).mode != mode:
            continue
        answer = answer_for(dataflow, evidence.algorithm)
        if answer.chosen.throughput >= dataflow.goals.throughput:
            continue
        if dataflow.bundles is not None:
            other_bundles = dataflow.bundles.other
            if other_bundles is not None and other_bundles.per_hour <= dataflow.goals.most_per_hour and (
                    other_bundles.sustained_per_s > dataflow.bundles.now.sustained_per_s):
                slots += other_bundles.to_buy
        elif answer.more_slots:
            remaining_per_hour = dataflow.goals.most_per_hour - answer.chosen.per_hour
            paid = math.floor(remaining_per_hour / dataflow.slot_hour) if dataflow.slot_hour > 0 else answer.more_slots
            slots += max(0, min(answer.more_slots, paid))
    return slots
