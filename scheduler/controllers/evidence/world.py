"""Ports of the loop: the clock, and the world that evidence is computed from; and what a collector is.

Whoever runs the loop brings both: the site over its database and its nodes' reports, a replay in played time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from scheduler.contracts.reports import Reports
from scheduler.controllers.bundle_adaptation import BundleOffer
from scheduler.controllers.controller_port import Effect
from scheduler.controllers.dry_run import Frame
from scheduler.controllers.loop_values import Round
from scheduler.deployment.deployed_bundles import Deployment
from scheduler.deployment.online import Thresholds
from scheduler.guards.switched_tasks import SwitchedTask
from scheduler.history.port import History
from scheduler.latency.limits_met import STATES, LimitStatus
from scheduler.latency.pacing import LimitOnWay, Queries
from scheduler.latency.triggers import BatchCost
from scheduler.latency.wanted_modes import WantedModes
from scheduler.model.costs import Costs
from scheduler.model.dataflow_goals import DataflowGoals
from scheduler.model.estate import Estate
from scheduler.model.fragment import Fragment
from scheduler.model.key_loads import KeyLoads
from scheduler.model.latency_limits import LatencyLimit
from scheduler.model.plan import Plan
from scheduler.model.prices import Prices
from scheduler.model.profile import Profile
from scheduler.model.task_types import TaskTypes
from scheduler.performance.drift import Drift, Observation
from scheduler.reuse.defragment import DefragmentRule
from scheduler.reuse.isolation import SlowTask

from .minute_forecasts import MinuteForecasts

Stream = tuple[str, str]  # the running tasks that write and read it


class Clock(Protocol):
    """The time: of the site, or one that is played."""

    @property
    def now_s(self) -> float:
        """The present moment, in seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class QueryBatches:
    """A query's batches: what one takes, how far apart they begin (s), and whether they stay open.

    ``cost`` is None until it is computed.
    """

    cost: BatchCost | None
    interval_s: float
    real_time: bool = False


@dataclass(frozen=True, slots=True)
class PacingFacts:
    """The facts that intervals and modes are chosen from: queries, limits by dataflow, and why queries cannot have open
    batches (empty where they can)."""

    queries: Queries
    wants: Sequence[tuple[str, LatencyLimit, LimitOnWay]]
    refusals: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class FusedByOthers:
    """A plan in force that fused a query, where no round of the asking controller made it; and its id."""

    id: str
    dataflow: str
    plan: Plan


@dataclass(frozen=True, slots=True)
class AdaptedElement:
    """A dynamic task whose policy names controllers.

    ``allowed``: the alternates that its guards allow now; ``worth``: the worth of each, relative to the others, where
    it is known; ``why_not``: the reason why it is left alone, empty where it may be switched.
    """

    switched: SwitchedTask
    allowed: frozenset[str]
    worth: Mapping[str, float]
    why_not: str = ""


@dataclass(frozen=True, slots=True)
class UsedProfile:
    """A measured profile in use, and how far running bundles are from it.

    ``kind`` names what it is of: the next profile of the same has the same. ``team`` is whose settings count.
    """

    id: str
    kind: str
    title: str
    team: str
    drifts: tuple[Drift, ...] = ()


@dataclass(frozen=True, slots=True)
class PastProfile:
    """A profile in use since a moment (s), and what running bundles were seen to do when (s), the oldest first."""

    used: UsedProfile
    profile: Profile
    since_s: float
    observations: Sequence[tuple[float, Observation]]


class World(Clock, Protocol):
    """The estate at one moment, with measurements and kept history.

    Values are looked up when they are asked for; for one moment each answer stays the same.
    """

    @property
    def is_heard(self) -> bool:
        """True if anything is known of what runs: without it there is no evidence."""

    @property
    def estate(self) -> Estate:
        """The running estate."""

    @property
    def running(self) -> Collection[str]:
        """The submitted dataflows that work: neither paused nor on their way in or out."""

    @property
    def reports(self) -> Reports:
        """The reports of nodes."""

    @property
    def history(self) -> History:
        """The history of measurements."""

    @property
    def task_types(self) -> TaskTypes:
        """The catalogue."""

    @property
    def prices(self) -> Prices:
        """The prices of CPU, slots and traffic, with the present batches."""

    @property
    def costs(self) -> Costs:
        """The costs of batches and events here."""

    def rounds(self, controller: str, *, since_s: float = 0.0, phases: Collection[str] = ()) -> Sequence[Round]:
        """A controller's rounds that began since, the oldest first; where phases are named, those that are there."""

    # Defragmentation and chaining

    @property
    def rates_per_s(self) -> Mapping[str, float]:
        """Events a second that leave each running task now."""

    @property
    def channel_ms(self) -> Mapping[Stream, float]:
        """The latency that channels add to streams now, in milliseconds: on the way and in wait for a batch."""

    @property
    def started_s(self) -> Mapping[str, float]:
        """The start of each fragment, in seconds since the epoch."""

    @property
    def apart(self) -> frozenset[str]:
        """Running tasks that were cut out of a query because they were too slow for it."""

    @property
    def fusing_rule(self) -> DefragmentRule:
        """The rule for worthwhile defragmentations."""

    def fused_by_others(self, controller: str, query: str) -> FusedByOthers | None:
        """The plan that fused others into a query; None without one, or if a round of this controller made it."""

    # Isolation

    @property
    def hold_s(self) -> float:
        """The time for which a slow reader may hold back a stream that others need, in seconds."""

    @property
    def usual_interval_s(self) -> float:
        """The interval of batches where nobody has chosen another, in seconds."""

    def slow_tasks(self) -> Sequence[SlowTask] | None:
        """The tasks that have made chains slow for that long, of chains of which others need a part alone; None where
        nothing is known of what runs."""

    # Deployment

    @property
    def thresholds(self) -> Thresholds:
        """The thresholds of high and low slots."""

    def deployment(self, cores: Mapping[str, float], behind: Collection[str]) -> Deployment:
        """The deployment of these queries with their CPU, and the queries for which ever more events wait."""

    def bytes_between_nodes(self, tasks: Collection[str]) -> Mapping[str, float] | None:
        """Bytes that an event of each task sends between nodes, of the queries of some tasks; None where that is not
        known now."""

    # Adaptation

    @property
    def goals(self) -> Mapping[str, DataflowGoals]:
        """The goals of submitted dataflows that have any."""

    @property
    def algorithm(self) -> str:
        """The algorithm of adaptation that decides."""

    @property
    def minute_forecasts(self) -> MinuteForecasts:
        """Forecasts of sources, as whoever runs the loop keeps them from one turn to the next."""

    @property
    def overloaded(self) -> Collection[str]:
        """Dataflows with goals of which queries have had more to do than they can for some seconds."""

    def elements(self) -> Mapping[str, AdaptedElement]:
        """The dynamic tasks whose policy names controllers, by running task."""

    def schedule_in_force(self, dataflow: str) -> BundleOffer | None:
        """The schedule that a submitted dataflow runs by; None where it runs without one."""

    def schedule_for(self, dataflow: str, source_per_s: float) -> BundleOffer:
        """Schedule that such a dataflow would get by the same pair for a rate; a ``WeirError`` where there is none."""

    def key_loads(self, fragments: Sequence[Fragment]) -> Mapping[str, KeyLoads]:
        """The distribution of events over keys, by id of those of these fragments that are divided by key and were
        counted."""

    # Re-measuring

    def used_profiles(self) -> Sequence[UsedProfile]:
        """Measured profiles in use that were compared with what runs."""

    def past_profiles(self, begin_s: float, end_s: float) -> Sequence[PastProfile]:
        """The profiles in use, and what was seen of them between two moments."""

    def where_measured(self, profile: str) -> tuple[str, str]:
        """The slot on which a profile in use could be measured again now; or why on none."""

    def drifts_since(self, loop_round: Round) -> Sequence[Drift]:
        """The drift from the profile that a round had measured; nothing before that is known."""

    # Limits

    def limit_statuses(self, states: Collection[str] = STATES) -> Sequence[LimitStatus]:
        """The status of each latency limit that is in one of these states, by dataflow and number."""

    def wanted_modes(self) -> WantedModes | None:
        """The modes of batches that would be chosen if they were free; None where nobody has looked lately."""

    def batches(self, queries: Collection[str]) -> Mapping[str, QueryBatches]:
        """The batches of some queries; those that are not known are left out."""

    def pacing_facts(self) -> PacingFacts:
        """The facts that modes are chosen from: queries whose batches' cost is known, at the rates of now."""


W = TypeVar("W", bound=World)


@dataclass(frozen=True, slots=True)
class Collector(Generic[W]):
    """A collector of evidence, for all controllers that read it.

    Parameters
    ----------
    evidence : callable
        ``(world)``: the present evidence; None where there is none.
    frames : callable
        ``(world, begin_s, end_s)``: past evidence from kept history, the oldest first.
    effect : callable
        ``(round, world)``: the measurements since a round's change was in force.
    note : callable, optional
        ``(world, evidence)``: notes on it for people, which the site stores before the controller decides.
    is_urgent : callable, optional
        ``(world)``: True if its controllers are to decide at once, between two turns of the loop.
    """

    evidence: Callable[[W], Any]
    frames: Callable[[W, float, float], Iterator[Frame]]
    effect: Callable[[Round, W], Effect | None]
    note: Callable[[W, Any], None] = lambda world, evidence: None
    is_urgent: Callable[[W], bool] = lambda world: False
