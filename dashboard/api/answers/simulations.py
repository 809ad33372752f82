"""Answers about simulations."""

from __future__ import annotations

from dashboard.simulations.selectors import ReplayedSide
from dashboard.simulations.simulation_inputs import SourceForecast
from scheduler.adaptation.side_by_side import SimulatedAlgorithm

from .common import Answer, answer_of

AlgorithmAnswer = answer_of(SimulatedAlgorithm)
SideAnswer = answer_of(ReplayedSide)
SourceForecastAnswer = answer_of(SourceForecast)


class SimulationRow(Answer):
    """A simulation without its results; ``progress`` is from 0 to 1, ``reason`` why it failed."""

    id: str
    kind: str
    dataflow: str
    proposal: str | None
    status: str
    progress: float
    reason: str
    author: str
    created: str
    ended: str | None
    hours: int


class SimulationAnswer(SimulationRow):
    """A simulation with what is there of its results: of algorithms side by side, with forecasts of the
    sources; or of a replay."""

    algorithms: list[AlgorithmAnswer]
    sides: list[SideAnswer]
    forecasts: list[SourceForecastAnswer]
