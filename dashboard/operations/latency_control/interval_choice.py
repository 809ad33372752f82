"""The choice of batch intervals: a plan of the site, or managers on the nodes. A port with two implementations.

Which counts is a setting of the estate (`pacing_choice`). The pacer asks it each round and knows
neither.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from dashboard.operations.latency_control.batch_modes import note_wanted
from dashboard.operations.latency_control.limit_statuses import beyond_reach
from dashboard.operations.latency_control.pacing_choice import PACING_CHOICE
from dashboard.operations.latency_control.qos_setup import NodesSetUp, as_it_is, end_all
from dashboard.operations.live_view.estate_view import View
from scheduler.latency.limit_turns import as_they_are
from scheduler.latency.pacing import LimitOnWay, Pacing, Queries
from scheduler.latency.pacing_problem import LimitKey, Wants
from scheduler.latency.real_time import BatchModes, keep_modes
from scheduler.model.standing_answers import StandingAnswers


@dataclass(frozen=True, slots=True)
class PacingProblem:
    """The inputs of one round of choosing intervals.

    Attributes
    ----------
    view : View
        The estate with its reports.
    wants, corrected : mapping
        All limits; and those of this round, corrected by what was measured beyond the model.
    waiting : mapping
        The limits of later rounds: intervals of their queries are not made longer.
    queries : Queries
        The working queries, with the costs of batches.
    in_force : mapping of str to float
        The intervals that nodes report, in seconds, by fragment.
    opened, closed : collection of str
        The fragments that are set to open batches; those of them that can no longer have any.
    refusals : mapping of str to str
        The reasons why queries cannot leave their batches open; empty if they can.
    well_known : collection of str
        The fragments whose batch costs are known, and whether their batches may stay open.
    may_open : bool
        True if the installation allows open batches.
    standing : StandingAnswers
        The choices of earlier rounds.
    """

    view: View
    wants: Wants
    corrected: Wants
    waiting: Mapping[LimitKey, LimitOnWay]
    queries: Queries
    in_force: Mapping[str, float]
    opened: frozenset[str]
    closed: frozenset[str]
    refusals: Mapping[str, str]
    well_known: Collection[str]
    may_open: bool
    standing: StandingAnswers[Pacing]


class IntervalChoice(Protocol):
    """Chooses how far apart batches are.

    Attributes
    ----------
    is_published : bool
        Whether the site brings the intervals into force; else nodes have done so already, and they are noted.
    """

    is_published: bool

    def choose(self, problem: PacingProblem, *, at: datetime) -> tuple[BatchModes, Mapping[LimitKey, bool]]:
        """Intervals and modes, with the latency of each limit; and which limits are far out of reach."""


class ByPlan:
    """The site solves for all intervals, from measured costs: each round for those whose choice stands no longer."""

    is_published = True

    def choose(self, problem: PacingProblem, *, at: datetime) -> tuple[BatchModes, Mapping[LimitKey, bool]]:
        """Intervals for the modes that queries are set to; notes which modes would be chosen if they were free."""
        end_all(problem.view, at=at)
        limits = [want for _, want in problem.corrected.values()]
        queries = as_they_are(problem.queries, problem.waiting)
        chosen = keep_modes(
            queries, limits, problem.opened - problem.closed, before=problem.opened,
            standing=problem.standing)
        free = note_wanted(
            chosen, queries, limits, problem.refusals if problem.may_open else {}, at=at,
            standing=problem.standing)
        return chosen, beyond_reach(problem.corrected, chosen, free, measured=problem.well_known)


class ByManagers:
    """Managers in the node agents size intervals in steps, as paper [5] sizes buffers; the site sets them up."""

    is_published = False

    def __init__(self) -> None:
        self._nodes = NodesSetUp()

    def choose(self, problem: PacingProblem, *, at: datetime) -> tuple[BatchModes, Mapping[LimitKey, bool]]:
        """The intervals that managers chose, as nodes report them."""
        self._nodes.publish(problem.view, problem.wants, problem.queries, at=at)
        limits = [want for _, want in problem.corrected.values()]
        return as_it_is(problem.queries, limits, problem.in_force, standing=problem.standing), {}


INTERVAL_CHOICES: Mapping[str, type[IntervalChoice]] = {"planned": ByPlan, "steps": ByManagers}


class ChosenInForce:
    """The choice in force; made anew where that is another."""

    def __init__(self) -> None:
        self._name, self._choice = "", None

    def now(self) -> IntervalChoice:
        """The one that counts now."""
        name = PACING_CHOICE.in_force().kind.name
        if self._choice is None or self._name != name:
            self._name, self._choice = name, INTERVAL_CHOICES[name]()
        return self._choice
