"""Answers about adaptation: goals of dataflows, what they cost and bring."""

from __future__ import annotations

from dashboard.api.answers.common import Answer, answer_of
from scheduler.model.dataflow_goals import DataflowGoals

GoalsFigures = answer_of(DataflowGoals, name="GoalsFigures")


class AdaptationFigures(Answer):
    """Value Γ and throughput Ω as parts, cores that the tasks take, what these cost an hour, and profit Θ."""

    value: float
    throughput: float
    cores: float
    per_hour: float
    profit: float


class GoalsAnswer(Answer):
    """The goals of adaptation for a dataflow, as ``chosen``, by its ``document``, or by ``nobody``.

    ``now``: what it reaches now, null without measurements; ``switchable``: its tasks that may be switched; ``mode``:
    what its team lets adaptation do; ``why``: the reason why it is left alone, or the last decision.
    """

    id: str
    goals: GoalsFigures | None
    said_by: str
    currency: str
    algorithm: str
    mode: str
    now: AdaptationFigures | None
    switchable: list[str]
    why: str


class GoalsOffer(AdaptationFigures):
    """The alternates for some goals if slots were made for the dataflow: ``alternates`` by task."""

    id: str
    goals: GoalsFigures
    currency: str
    alternates: dict[str, str]
