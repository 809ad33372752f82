"""The estate in played time as controllers' evidence sees it: the world port over a flow, a history and an actuator."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from scheduler.contracts.reports import NodeReport, QueryReport, Reports, SlotReport
from scheduler.controllers.bundle_adaptation import BundleOffer
from scheduler.controllers.evidence import placing
from scheduler.controllers.evidence.minute_forecasts import MinuteForecasts
from scheduler.controllers.evidence.world import (
    AdaptedElement,
    FusedByOthers,
    PacingFacts,
    PastProfile,
    QueryBatches,
    Stream,
    UsedProfile,
)
from scheduler.controllers.loop_values import LoopState, Round
from scheduler.deployment.deployed_bundles import Deployment
from scheduler.deployment.online import Thresholds
from scheduler.history.memory_history import MemoryHistory
from scheduler.history.series import DATAFLOW, QUERY, TASK, Series
from scheduler.latency.limit_points import metric_of
from scheduler.latency.limits_met import LATE, STATES, LimitStatus, state_of
from scheduler.latency.pacing import Expected, LimitOnWay, Queries, expected_at
from scheduler.latency.pacing_problem import MeasuredRates, Wants, queries_of, wants_of
from scheduler.latency.real_time import BatchModes, keep_modes, opening
from scheduler.latency.wanted_modes import WantedModes, choose_freely
from scheduler.latency.ways import way_of
from scheduler.model.costs import Costs
from scheduler.model.dataflow_goals import DataflowGoals
from scheduler.model.errors import WeirError
from scheduler.model.estate import Estate
from scheduler.model.fragment import Fragment, Slot
from scheduler.model.key_loads import KeyLoads
from scheduler.model.latency_limits import LatencyLimit
from scheduler.model.prices import Prices
from scheduler.model.task_types import TaskTypes
from scheduler.performance.drift import Drift
from scheduler.reuse.defragment import DefragmentRule
from scheduler.reuse.isolation import SlowTask
from scheduler.simulation.problem import Conditions

from .flow import EstateFlow, QueryLoad
from .played_elements import played_elements
from .played_enacting import PlayedActuator
from .played_profiles import PlayedProfiles, TaskCost
from .setup import LimitName, ReplaySetup
from .slow_chains import SlowChains

CHANGED = 0.1  # relative: intervals are chosen again where a rate differs by more from what they were chosen for
LATELY_S = 120.0  # over about so long rates are averaged, for what intervals are chosen from
WHOLE = LatencyLimit(3600.0)  # stands for the latency of a dataflow, whatever its limits are on


@dataclass(frozen=True)
class _Paced:
    """Intervals and modes for an estate at some rates, the latencies of limits so, and what would be chosen freely."""

    estate: Estate
    rates_per_s: Mapping[str, float]
    queries: Queries
    wants: Wants
    refusals: Mapping[str, str]
    chosen: BatchModes
    wanted: WantedModes
    fixed_cores: Mapping[str, float]
    whole: Mapping[str, Expected]  # by dataflow


class PlayedWorld:
    """An estate in played time, one step after the other."""

    def __init__(self, setup: ReplaySetup) -> None:
        self._setup = setup
        self.profiles = PlayedProfiles.of(setup.profiles)
        self.actuator = PlayedActuator(setup, setup.estate, self.profiles, self._cost_of)
        self._slow = SlowChains(setup.hold_s, setup.intervals.usual_s)
        self.history = MemoryHistory()
        self.minute_forecasts, self.overloaded = MinuteForecasts(), frozenset[str]()  # it decides when it is due
        self.state = LoopState(clock_s=setup.begin_s)
        self.now_s = setup.begin_s
        self.loads: Mapping[str, QueryLoad] = {}
        self.latency_s: dict[LimitName, float] = {}
        self.rates_per_s: Mapping[str, float] = {}
        self._flow = EstateFlow(setup.estate, setup.task_types, setup.costs, setup.selectivity)
        self._waiting: Mapping[str, float] = {}
        self._came_per_s: Mapping[str, float] = {}
        self._pacing: _Paced | None = None
        self._lately_per_s: dict[str, float] = {}
        self._late_since_s: dict[LimitName, float] = {}
        self._started_s = dict.fromkeys(setup.estate.fragments, setup.begin_s)

    # A step of time ---------------------------------------------------------------------------------------------------

    def pass_step(self, rates_per_s: Mapping[str, float]) -> None:
        """Let a step go by, at these events a second from sources; its results are in the history afterwards."""
        self._look_at_estate()
        asked_per_s = self._flow.unhindered(rates_per_s)
        part = min(1.0, self._setup.step_s / LATELY_S)
        self._lately_per_s = {
            task: rate if task not in self._lately_per_s else (1 - part) * self._lately_per_s[task] + part * rate
            for task, rate in asked_per_s.items()}
        paced = self._pace(self._lately_per_s)
        conditions = Conditions(rates_per_s, self._setup.step_s, {
            task: events for task, events in self._waiting.items() if task in asked_per_s})
        worked, self.loads = self._flow.work(conditions, asked_per_s, paced.fixed_cores, self._came_per_s)
        self._waiting, self._came_per_s, self.rates_per_s = worked.waiting, worked.in_per_s, worked.out_per_s
        for key, (_, want) in paced.wants.items():
            self._note_limit(key, want, paced.chosen.paced.expected[want.key])
        self._keep()
        self._slow.watch(self.estate, self.loads, {
            name: paced.queries.costs[name].duration_s(paced.chosen.interval_s[name]) for name in self.loads},
            self.now_s)
        self.now_s += self._setup.step_s
        self.profiles.observe(self.estate, self.loads, {
            task: rate / self._flow.selectivity_of(task) for task, rate in self.rates_per_s.items()},
            self._came_per_s, self.now_s)
        self.actuator.pass_until(self.now_s)

    def _cost_of(self, task: str) -> TaskCost | None:
        """The cost of a task that has a query of its own."""
        name, _ = self.estate.places.get(task, ("", 0))
        paced = self._pacing
        if paced is None or name not in paced.fixed_cores or self.estate.fragments[name].active_tasks != (task,):
            return None
        return TaskCost(self._flow.event_s(task), paced.fixed_cores[name])

    def _look_at_estate(self) -> None:
        if self._flow.estate is not self.estate:
            self._flow = replace(self._flow, estate=self.estate)
            self._started_s = {name: self._started_s.get(name, self.now_s) for name in self.estate.fragments}

    def _pace(self, asked_per_s: Mapping[str, float]) -> _Paced:
        """Choose intervals, as the site's pacer does, where rates or queries are others than when it chose last."""
        before = self._pacing
        if before is not None and before.estate is self.estate and all(
                abs(rate - before.rates_per_s[task]) <= CHANGED * before.rates_per_s[task]
                for task, rate in asked_per_s.items()):
            return before
        estate, setup = self.estate, self._setup
        intervals_ms = {} if before is None else {
            name: round(1000 * seconds) for name, seconds in before.chosen.interval_s.items()
            if name in estate.fragments}
        out_per_s = {task: rate * self._flow.selectivity_of(task) for task, rate in asked_per_s.items()}
        heads = {fragment.tasks[0]: fragment for fragment in estate.fragments.values() if fragment.active_tasks}
        into = {bundle.id: asked_per_s[head] * bundle.weight for head, fragment in heads.items()
                for bundle in fragment.queries}
        queries = queries_of(
            estate, task_types=setup.task_types, costs=setup.costs, rates=MeasuredRates(into, out_per_s),
            intervals=setup.intervals, batches_seen={}, trigger_ms=intervals_ms)
        wants = wants_of(estate, {name: limits for name, limits in setup.limits.items() if name in estate.submitted})
        refusals = {name: self._refusal(name) for name in queries.costs if not estate.fragments[name].divided}
        limits = [want for _, want in wants.values()]
        opened = frozenset(name for name, settings in estate.settings.items() if settings.real_time)
        was_open = frozenset() if before is None else before.chosen.open
        chosen = keep_modes(queries, limits, opened, before=was_open)
        _, modes = choose_freely(chosen, queries, limits, refusals)
        self._pacing = _Paced(
            estate, asked_per_s, queries, wants, refusals, chosen, modes,
            self._flow.fixed_cores(chosen, queries.costs, asked_per_s), self._expected_whole(queries, chosen))
        return self._pacing

    def _expected_whole(self, queries: Queries, chosen: BatchModes) -> dict[str, Expected]:
        ways = {name: way_of(self.estate, name, WHOLE) for name in self.running}
        wants = [LimitOnWay(name, way, WHOLE.limit_s) for name, way in ways.items() if way is not None]
        open_s = {name: chosen.interval_s[name] for name in chosen.open}
        return expected_at(opening(queries, open_s), wants, chosen.interval_s)

    def _refusal(self, query: str) -> str:
        types = [self.estate.tasks[task].type for task in self.estate.fragments[query].active_tasks]
        return next((self._setup.refusals[kind] for kind in types if kind in self._setup.refusals), "")

    def _with_queues_s(self, expected: Expected) -> float:
        """A latency with what events wait on the way because there is more to do than CPU."""
        return expected.latency_s + sum(self.loads[query].waits_s for query in expected.path if query in self.loads)

    def _note_limit(self, key: LimitName, want: LimitOnWay, expected: Expected) -> None:
        self.latency_s[key] = self._with_queues_s(expected)
        if state_of(want.limit_s, expected, self.latency_s[key]) in LATE:
            self._late_since_s.setdefault(key, self.now_s)
        else:
            self._late_since_s.pop(key, None)

    def _keep(self) -> None:
        paced, estate = self._pacing, self.estate
        assert paced is not None
        values = {Series(TASK, task, "rate_per_s"): rate for task, rate in self.rates_per_s.items()}
        for name, load in self.loads.items():
            interval_s = paced.chosen.interval_s[name]
            for bundle in estate.fragments[name].queries:
                values[Series(QUERY, bundle.id, "cpu")] = load.cores * bundle.weight
                values[Series(QUERY, bundle.id, "trigger_ms")] = 1000 * interval_s
                values[Series(QUERY, bundle.id, "backlog_blocks")] = load.waiting / max(
                    1.0, load.in_per_s * interval_s)
        for name, expected in paced.whole.items():
            values[Series(DATAFLOW, name, "latency_p50_ms")] = 1000 * self._with_queues_s(expected)
        for (name, number), (limit, _) in paced.wants.items():
            submitted = estate.submitted[name]
            for sink in () if limit.along else submitted.sinks:
                line = Series(TASK, submitted.running[sink], metric_of(limit))
                values[line] = max(values.get(line, 0.0), 1000 * self.latency_s[name, number])
        self.history.append(int(self.now_s), values)

    # What evidence is computed from -----------------------------------------------------------------------------------

    @property
    def is_heard(self) -> bool:
        """True if a step has passed."""
        return bool(self.loads)

    @property
    def estate(self) -> Estate:
        """The running estate."""
        return self.actuator.estate

    @property
    def running(self) -> Collection[str]:
        """The submitted dataflows that work."""
        return {name for name, submitted in self.estate.submitted.items() if not submitted.paused}

    @property
    def reports(self) -> Reports:
        """The reports of nodes: each query with its CPU."""
        slots: dict[str, dict[str, QueryReport]] = {slot.name: {} for slot in self.estate.slots}
        for name, load in self.loads.items():
            if name in self.estate.fragments:
                for bundle in self.estate.fragments[name].queries:
                    slots.setdefault(bundle.slot, {})[bundle.id] = QueryReport(
                        state="running", cpu=load.cores * bundle.weight)
        nodes: dict[str, dict[str, SlotReport]] = {}
        for slot, queries in slots.items():
            nodes.setdefault(Slot.of(slot).node, {})[slot] = SlotReport(fragments=queries)
        return Reports({node: NodeReport(node, slots=slots) for node, slots in nodes.items()})

    @property
    def task_types(self) -> TaskTypes:
        """The catalogue."""
        return self._setup.task_types

    @property
    def prices(self) -> Prices:
        """The prices of CPU."""
        return self._setup.prices

    @property
    def costs(self) -> Costs:
        """The costs of batches and events."""
        return self._setup.costs

    def rounds(self, controller: str, *, since_s: float = 0.0, phases: Collection[str] = ()) -> Sequence[Round]:
        """A controller's rounds, the oldest first."""
        return [loop_round for loop_round in self.state.rounds
                if loop_round.controller == controller and loop_round.begun_s >= since_s
                and (not phases or loop_round.phase in phases)]

    @property
    def channel_ms(self) -> Mapping[Stream, float]:
        """No latency: of a channel's latency the model has the reader's wait, which is in that of the dataflow."""
        return {}

    @property
    def started_s(self) -> Mapping[str, float]:
        """The start of each fragment."""
        return self._started_s

    @property
    def apart(self) -> frozenset[str]:
        """Tasks that were cut out for being slow."""
        return frozenset(self.actuator.apart)

    @property
    def fusing_rule(self) -> DefragmentRule:
        """The rule for worthwhile defragmentations."""
        return self._setup.fusing_rule

    def fused_by_others(self, controller: str, query: str) -> FusedByOthers | None:
        """The plan in force that made a query of others, where no round of this controller did."""
        for loop_round in reversed(self.state.rounds):
            plan = self.actuator.made_by(loop_round.key)
            if plan is not None and query in plan.fragments_after and query not in plan.fragments_before:
                if loop_round.controller == controller:
                    return None
                return FusedByOthers(loop_round.key, plan.dataflow.id, plan)
        return None

    @property
    def hold_s(self) -> float:
        """The time for which a slow query may hold others up, in seconds."""
        return self._setup.hold_s

    @property
    def usual_interval_s(self) -> float:
        """The usual interval of batches, in seconds."""
        return self._setup.intervals.usual_s

    def slow_tasks(self) -> Sequence[SlowTask] | None:
        """The slow tasks, by the part of each task in the time of its query's batches."""
        return self._slow.slow_tasks(self.estate, self.now_s) if self.is_heard else None

    def used_profiles(self) -> Sequence[UsedProfile]:
        """The used profiles, by what was played so far."""
        return list(self.profiles.used(self.now_s))

    def past_profiles(self, begin_s: float, end_s: float) -> Sequence[PastProfile]:
        """The past profiles, by what was played between two moments."""
        return list(self.profiles.past(begin_s, end_s))

    def where_measured(self, profile: str) -> tuple[str, str]:
        """A slot on which nothing runs."""
        return self.profiles.where_measured(profile, self.estate)

    def drifts_since(self, loop_round: Round) -> Sequence[Drift]:
        """The drifts of the profile that is in use since."""
        change = loop_round.decision.changes[0]
        return self.profiles.drifts_of(change.subject, self.now_s, besides=str(change.before))

    @property
    def thresholds(self) -> Thresholds:
        """The thresholds of high slots."""
        return self._setup.thresholds

    def deployment(self, cores: Mapping[str, float], behind: Collection[str]) -> Deployment:
        """The present deployment."""
        return placing.deployment_of(placing.DeploymentFacts(
            self.estate, self.task_types, self.reports, self.rates_per_s,
            {name: load.waiting for name, load in self.loads.items()}, self._event_bytes(None),
            [slot.name for slot in self.estate.slots if slot.name not in self.profiles.measured_on]), cores, behind)

    def bytes_between_nodes(self, tasks: Collection[str]) -> Mapping[str, float] | None:
        """The bytes that an event of each task sends between nodes."""
        return placing.bytes_between_nodes(self.estate, tasks, self._event_bytes(tasks))

    def _event_bytes(self, tasks: Collection[str] | None) -> dict[str, float]:
        return dict.fromkeys(placing.channels_between(self.estate, tasks), self._setup.event_bytes)

    @property
    def goals(self) -> Mapping[str, DataflowGoals]:
        """The goals of the dataflows that have any."""
        return self._setup.goals

    @property
    def algorithm(self) -> str:
        """The algorithm of adaptation that decides."""
        return self._setup.algorithm

    def elements(self) -> Mapping[str, AdaptedElement]:
        """Tasks whose policy names controllers: nobody holds them, and those without a guard are allowed."""
        return played_elements(self.estate)

    def schedule_in_force(self, dataflow: str) -> BundleOffer | None:
        """None: profiles are no part of a replay, so bundles stay as they are."""
        return None

    def schedule_for(self, dataflow: str, source_per_s: float) -> BundleOffer:
        """Always raises: there is none to begin with."""
        raise WeirError(f"{dataflow} runs without a schedule here.", remedy="Compare its schedules on its page.")

    def key_loads(self, fragments: Sequence[Fragment]) -> Mapping[str, KeyLoads]:
        """None: keys are no part of a replay."""
        return {}

    def limit_statuses(self, states: Collection[str] = STATES) -> Sequence[LimitStatus]:
        """The status of each limit in the last step."""
        paced = self._pacing
        statuses = [] if paced is None else [
            self._status(key, limit, paced.chosen.paced.expected[want.key])
            for key, (limit, want) in paced.wants.items() if key[0] in self.estate.submitted]
        return [status for status in statuses if status.state in states]

    def _status(self, key: LimitName, limit: LatencyLimit, expected: Expected) -> LimitStatus:
        measured_s = self.latency_s[key]
        return LimitStatus(
            *key, limit, state_of(limit.limit_s, expected, measured_s), expected.latency_s, measured_s,
            expected.least_s, tuple(
                (query, *parts) for query, parts in zip(expected.path, expected.parts_s, strict=True)),
            self._late_since_s.get(key))

    def wanted_modes(self) -> WantedModes | None:
        """Modes that would be chosen if they were free; None from when another plan is enacted until the next step."""
        return self._pacing.wanted if self._pacing is not None and self._pacing.estate is self.estate else None

    def batches(self, queries: Collection[str]) -> Mapping[str, QueryBatches]:
        """The batches of some queries."""
        paced = self._pacing
        return {} if paced is None else {
            name: QueryBatches(paced.queries.costs[name], paced.chosen.interval_s[name], name in paced.chosen.open)
            for name in queries if name in paced.queries.costs}

    def pacing_facts(self) -> PacingFacts:
        """The facts that intervals were chosen from last; raises `ValueError` before the first step."""
        if self._pacing is None:
            raise ValueError("no step has passed yet")
        paced = self._pacing
        return PacingFacts(
            paced.queries, [(name, limit, want) for (name, _), (limit, want) in paced.wants.items()], paced.refusals)
