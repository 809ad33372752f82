"""Inputs and results of a replay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

import numpy as np
from numpy.typing import NDArray

from scheduler.controllers.changes import AspectChange
from scheduler.controllers.evidence.world import UsedProfile
from scheduler.controllers.loop_values import HOUR_S, Policy, Round
from scheduler.deployment.online import Thresholds
from scheduler.latency.limits_met import TOLERATED
from scheduler.latency.pacing_problem import IntervalBounds
from scheduler.model.checks import require_finite
from scheduler.model.costs import DECLARED, Costs
from scheduler.model.dataflow_goals import DataflowGoals
from scheduler.model.estate import Estate
from scheduler.model.latency_limits import Limits
from scheduler.model.prices import Prices
from scheduler.model.profile import Profile
from scheduler.model.task_types import TaskTypes
from scheduler.reuse.defragment import DefragmentRule

USUAL_INTERVALS = IntervalBounds(0.5, 60.0)
SWEEP_S = 600.0  # that a profile takes to be measured, where nobody knows how long it took
LimitName = tuple[str, int]  # a dataflow, and the number of its limit
Figures = NDArray[np.float64]  # one for each step


@dataclass(frozen=True, slots=True)
class PlayedProfile:
    """A measured profile in use when a replay begins.

    ``tasks`` are the running tasks that are held to it, ``nodes`` those on which it could be measured again, which
    takes ``sweep_s``; ``why_not`` says why it cannot be, empty where it can.
    """

    used: UsedProfile
    profile: Profile
    tasks: frozenset[str]
    nodes: frozenset[str]
    sweep_s: float = SWEEP_S
    why_not: str = ""


@dataclass(frozen=True)
class ReplaySetup:
    """An estate, the load that comes, and what controllers may do.

    Attributes
    ----------
    estate : Estate
        As it is at the beginning; of a plan that is looked at, as it would be after it.
    rates_per_s : mapping of str to sequence of float
        By running source task: events a second, step by step; as many of each. Others stay at what they were planned
        for.
    task_types, prices
        The catalogue, and what CPU costs.
    policies : mapping of str to mapping of str to Policy
        By controller and team; a controller that is not named is off.
    goals : mapping of str to DataflowGoals
        Of submitted dataflows, for adaptation.
    algorithm : str
        By which one adaptation decides.
    selectivity : mapping of str to float
        Events out of a running task for each event in, as measured; else what its type declares.
    refusals : mapping of str to str
        By type of task why its queries cannot leave batches open; those of others can.
    profiles : sequence of PlayedProfile
        Measured profiles that running tasks are held to.
    hold_s : float
        For how long a slow query may hold others up.
    event_bytes : float
        How large an event is between queries.
    step_s : float
        How long a step is: 10 s, as kept history has it, or a multiple.
    enacts_s : float
        From when a plan is enacted until it is in force.
    approved_after_s : float, optional
        After how long people approve what they are asked; None: never.
    """

    estate: Estate
    rates_per_s: Mapping[str, Sequence[float]]
    task_types: TaskTypes
    prices: Prices
    policies: Mapping[str, Mapping[str, Policy]] = field(default_factory=dict)
    limits: Mapping[str, Limits] = field(default_factory=dict)
    goals: Mapping[str, DataflowGoals] = field(default_factory=dict)
    algorithm: str = "CE"
    selectivity: Mapping[str, float] = field(default_factory=dict)
    refusals: Mapping[str, str] = field(default_factory=dict)
    costs: Costs = DECLARED
    intervals: IntervalBounds = USUAL_INTERVALS
    thresholds: Thresholds = field(default_factory=Thresholds)
    fusing_rule: DefragmentRule = field(default_factory=DefragmentRule)
    profiles: Sequence[PlayedProfile] = ()
    hold_s: float = 10.0
    event_bytes: float = 100.0
    begin_s: float = 1_700_000_000.0  # any moment: of a round ten seconds
    step_s: float = 10.0
    enacts_s: float = 20.0
    approved_after_s: float | None = None

    def __post_init__(self) -> None:
        require_finite(self)
        if self.step_s < 10 or self.step_s % 10:
            raise ValueError(f"a step is 10 s or a multiple of that, not {self.step_s:g} s")
        if len({len(rates) for rates in self.rates_per_s.values()}) != 1:
            raise ValueError("the rates of all sources are of as many steps, and there is one source at least")
        unknown = sorted(task for task in self.rates_per_s if task not in self.estate.tasks)
        if unknown:
            raise ValueError(f"there is no running task {unknown[0]}")

    @property
    def steps(self) -> int:
        """The number of steps it has."""
        return len(next(iter(self.rates_per_s.values())))


@dataclass(frozen=True, slots=True)
class ChangeMade:
    """A change as it came into force: when, by which round, and whether it took that round's change back."""

    at_s: float
    round: str
    change: AspectChange
    is_back: bool = False


@dataclass(frozen=True)
class Replayed:
    """The results of a replay, step by step.

    ``cores`` is the CPU of all queries and trials together, ``waiting`` the events that wait in front of them;
    ``latency_s`` is by limit, NaN while its dataflow rests.
    """

    estate: Estate
    step_s: float
    core_hour: float
    currency: str
    cores: Figures
    waiting: Figures
    latency_s: Mapping[LimitName, Figures]
    limit_s: Mapping[LimitName, float]
    rounds: tuple[Round, ...]
    changes: tuple[ChangeMade, ...]
    why_not: tuple[tuple[float, str, str], ...] = ()  # when a controller left what as it is, the newest of each alone

    @property
    def core_hours(self) -> float:
        """CPU over the whole time."""
        return float(self.cores.sum()) * self.step_s / HOUR_S

    @property
    def cost(self) -> float:
        """The cost of that CPU."""
        return self.core_hours * self.core_hour

    def missed(self, limit: LimitName) -> float:
        """The part of the time in which a limit was missed."""
        measured = self.latency_s[limit][np.isfinite(self.latency_s[limit])]
        return float((measured > TOLERATED * self.limit_s[limit]).mean()) if len(measured) else 0.0

    def middle_s(self, limit: LimitName) -> float | None:
        """The median latency of a limit; None where its dataflow rested all the time."""
        measured = self.latency_s[limit][np.isfinite(self.latency_s[limit])]
        return float(median(measured)) if len(measured) else None
