"""Answers about controllers: what teams let them do, their rounds, and dry runs."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from scheduler.controllers.loop_values import Policy, PromiseBound

from .common import Answer, answer_of

TeamPolicy = answer_of(
    Policy, name="TeamPolicy", team=str, left_in_hour=int, left_in_day=int,
    about="What a team (its short name; empty for what belongs to all) lets a controller do, and what is left of its "
    "budget.")


class ControllerRow(Answer):
    """A controller; promises are those of the last 30 days."""

    name: str
    title: str
    about: str
    every_s: float = Field(description="How often it decides")
    decided: str | None = Field(description="When it did last, ISO 8601")
    promises_kept: int
    promises_broken: int
    in_flight: int
    teams: list[TeamPolicy]


BoundRow = answer_of(PromiseBound, name="BoundRow", about="A figure that is promised.", without=("hard",))


class RoundAnswer(Answer):
    """One turn of the loop for one decision."""

    key: str | None
    controller: str
    team: str
    target: str = Field(description="Id of the dataflow or profile that it is about")
    mode: str
    phase: str
    reason: str = Field(description="Why it was decided")
    promise: str
    bounds: list[BoundRow]
    within_s: float
    why: str = Field(description="The outcome, with its figures")
    begun: str
    changed: str | None = Field(description="When its change was in force")
    ended: str | None
    proposal: str | None
    digest: str | None = Field(description="Of the proposal's plan as it is now: what approving it names")
    sweep: str | None


class ReasonAnswer(Answer):
    """The reason why a controller left something as it is."""

    team: str
    target: str
    why: str
    since: str
    until: str
    times: int


class DryRunAnswer(Answer):
    """The decisions that a controller would have made over kept history, had it acted."""

    frames: int = Field(description="Moments at which it would have decided")
    rounds: list[RoundAnswer]
    reasons: list[ReasonAnswer]


class MachineAnswer(Answer):
    """A machine that was ordered, by the name of its node: what it costs an hour, and what all its begun hours do.

    ``state`` is ``recommended``, ``declined``, ``ordered``, ``starting``, ``serving``, ``leaving``, ``stopped`` or
    ``gone``; the first two cost nothing. ``error`` is what the provider said that failed last; empty for whoever does
    not administer the installation.
    """

    node: str
    size: str
    slots: int
    per_hour: float
    state: str
    ordered: datetime
    reported: datetime | None
    ended: datetime | None
    paid_until: datetime
    cost: float
    gave_up: bool
    why: str
    why_back: str
    error: str


class MachinesAnswer(Answer):
    """The provider of machines (``command``, ``webhook`` or ``none``), their bounds, and the newest orders."""

    provider: str
    most_slots: int
    most_per_hour: float
    currency: str
    machines: list[MachineAnswer]
