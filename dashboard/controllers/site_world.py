"""The world of the site: what controllers' evidence is computed from, over rows, reports and kept history."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property

from django.conf import settings

from dashboard import jobs
from dashboard.catalog import lifecycle as dataflows
from dashboard.catalog.models import DataflowRecord
from dashboard.controllers.adapted_elements import adapted_elements
from dashboard.controllers.models import RoundRow
from dashboard.controllers.offered_schedules import schedule_for, schedule_in_force
from dashboard.controllers.overloads import OVERLOADED
from dashboard.controllers.stored_rounds import decided_s, followed_controllers, policies_of_all, round_of
from dashboard.controllers.used_profiles import drifts_since, free_slots, past_profiles, used_profiles, where_measured
from dashboard.history.history_store import DatabaseHistory
from dashboard.operations.diagnosis import slow_queries
from dashboard.operations.diagnosis.slow_queries import cut_tasks
from dashboard.operations.latency_control.batch_modes import wanted_modes
from dashboard.operations.latency_control.latency_problem import queries_of, wants_of
from dashboard.operations.latency_control.limit_statuses import status_of
from dashboard.operations.latency_control.open_batches import may_be_open, refusals_in
from dashboard.operations.live_view.deployment_reader import bytes_between_nodes, deployment_of, thresholds
from dashboard.operations.live_view.estate_view import View, view_for
from dashboard.operations.live_view.learned_costs import costs_here
from dashboard.operations.live_view.measured_keys import measured_key_loads
from dashboard.operations.live_view.telemetry import EVERYTHING
from dashboard.operations.models import BatchFigures, FragmentRow, LatencyStatus, SlotRow
from dashboard.plans.defragment_evidence import channel_latency_ms, rule
from dashboard.plans.models import PlanRecord
from dashboard.plans.price_settings import prices_in_force
from dashboard.plans.selectors import plan_of
from dashboard.profiles.models import ProfileRecord
from scheduler.contracts.reports import Reports
from scheduler.controllers.bundle_adaptation import BundleOffer
from scheduler.controllers.controller_registry import CONTROLLERS
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
from scheduler.controllers.loop_values import Policy, Round
from scheduler.deployment.deployed_bundles import Deployment
from scheduler.deployment.online import Thresholds
from scheduler.latency.limits_met import STATES, LimitStatus
from scheduler.latency.triggers import BatchCost
from scheduler.latency.wanted_modes import WantedModes
from scheduler.model.costs import Costs
from scheduler.model.dataflow_goals import DataflowGoals
from scheduler.model.estate import Estate
from scheduler.model.fragment import Fragment
from scheduler.model.key_loads import KeyLoads
from scheduler.model.plan_kinds import names_where
from scheduler.model.prices import Prices
from scheduler.model.task_types import TaskTypes
from scheduler.performance.drift import Drift
from scheduler.reuse.defragment import DefragmentRule
from scheduler.reuse.isolation import SlowTask

FORECASTS = MinuteForecasts()  # of this process: they are made again after two minutes at most


class StoredWorld:
    """The site's knowledge at one moment; each thing is looked up once, when it is first asked for."""

    def __init__(self, at: datetime, *, view: View | None = None) -> None:
        self.at = at
        if view is not None:
            self.view = view
        self.history = DatabaseHistory()
        self.minute_forecasts = FORECASTS

    @property
    def now_s(self) -> float:
        """The moment, in seconds since the epoch."""
        return self.at.timestamp()

    @cached_property
    def view(self) -> View:
        """The view of the whole estate, with a reading of it."""
        return view_for(EVERYTHING)

    @property
    def is_heard(self) -> bool:
        """True if the broker answered."""
        return self.view.reading.available

    @property
    def estate(self) -> Estate:
        """The running estate."""
        return self.view.estate

    @cached_property
    def running(self) -> frozenset[str]:
        """The submitted dataflows that work."""
        return frozenset(key for key, record in self.view.records.items() if record.status == dataflows.RUNNING)

    @cached_property
    def reports(self) -> Reports:
        """The reports of nodes."""
        return self.view.reading.reports if "view" in self.__dict__ else jobs.read_live((), {}).reports

    @property
    def task_types(self) -> TaskTypes:
        """The catalogue."""
        return jobs.task_types()

    @cached_property
    def prices(self) -> Prices:
        """The prices of the settings, for batches as they are."""
        return prices_in_force()

    @cached_property
    def costs(self) -> Costs:
        """The costs that were learned on the class of machine that is here."""
        return costs_here()

    @cached_property
    def policies(self) -> Mapping[str, dict[str, Policy]]:
        """Every team's permission for each controller, by the names of both."""
        return policies_of_all(CONTROLLERS.values())

    @cached_property
    def decided_s(self) -> Mapping[str, float]:
        """The last decision of each controller, in seconds since the epoch."""
        return decided_s()

    @cached_property
    def followed(self) -> frozenset[str]:
        """The controllers that have rounds of which there may be news."""
        return followed_controllers(at=self.at)

    def rounds(self, controller: str, *, since_s: float = 0.0, phases: Collection[str] = ()) -> Sequence[Round]:
        """A controller's rounds, the oldest first."""
        rows = RoundRow.objects.filter(controller=controller, begun__gte=datetime.fromtimestamp(since_s, UTC))
        if phases:
            rows = rows.filter(phase__in=phases)
        return [round_of(row) for row in rows.order_by("begun", "pk")]

    @property
    def rates_per_s(self) -> Mapping[str, float]:
        """Events a second that leave each running task now."""
        return {task: flow.rate_per_s for task, flow in self.view.reading.flows.tasks.items()}

    @property
    def channel_ms(self) -> Mapping[Stream, float]:
        """The latency that channels add to streams now."""
        return channel_latency_ms(self.view.reading.flows)

    @cached_property
    def started_s(self) -> Mapping[str, float]:
        """The start of each fragment."""
        return {name: started.timestamp() for name, started in FragmentRow.objects.values_list("pk", "started_at")}

    @cached_property
    def apart(self) -> frozenset[str]:
        """Running tasks that isolation has cut out."""
        return cut_tasks()

    @property
    def fusing_rule(self) -> DefragmentRule:
        """The rule of the settings."""
        return rule()

    def fused_by_others(self, controller: str, query: str) -> FusedByOthers | None:
        """The newest plan in force that made a query of others, where no round of this controller made it."""
        plans = PlanRecord.objects.filter(
            kind__in=names_where("fuses"), proposal__finished_at__isnull=False, proposal__rollback_plan=None,
            document__contains=f'"{query}"').select_related("proposal__round").order_by("-proposal__finished_at")
        for record in plans:
            plan = plan_of(record)
            if plan is not None and query in plan.fragments_after and query not in plan.fragments_before:
                by = record.proposal.round
                is_own = by is not None and by.controller == controller
                return None if is_own else FusedByOthers(str(record.pk), str(record.dataflow_id), plan)
        return None

    @property
    def hold_s(self) -> float:
        """The time of the settings, in seconds."""
        return float(settings.HOLD_S)

    @property
    def usual_interval_s(self) -> float:
        """The interval of the settings, in seconds."""
        return float(settings.TRIGGER_MS) / 1000

    def slow_tasks(self) -> Sequence[SlowTask] | None:
        """The slow tasks, by what passed since queries are slow; none where isolation is off."""
        return self._slow_tasks

    @cached_property
    def _slow_tasks(self) -> Sequence[SlowTask] | None:
        if not settings.ISOLATES or not slow_queries.is_due(at=self.at):
            return ()
        return slow_queries.slow_tasks(self.estate, at=self.at) if self.is_heard else None

    @property
    def thresholds(self) -> Thresholds:
        """The thresholds of the settings."""
        return thresholds()

    def deployment(self, cores: Mapping[str, float], behind: Collection[str]) -> Deployment:
        """The present deployment; raises ``BrokerAway``."""
        return deployment_of(self.view, cores, behind)

    def bytes_between_nodes(self, tasks: Collection[str]) -> Mapping[str, float] | None:
        """The bytes that an event of each task sends between nodes; None while the broker is away."""
        try:
            return bytes_between_nodes(self.view, tasks)
        except jobs.BrokerAway:
            return None

    @cached_property
    def goals(self) -> Mapping[str, DataflowGoals]:
        """The goals of dataflows that run: as they were chosen, or as their documents say."""
        rows = self.view.records.values() if "view" in self.__dict__ else DataflowRecord.objects.filter(
            status=dataflows.RUNNING).exclude(goals=None, goals_chosen=None)
        return {str(row.pk): goals for row in rows
                if row.status == dataflows.RUNNING and (goals := row.goals_in_force) is not None}

    @property
    def algorithm(self) -> str:
        """The algorithm of the settings."""
        return str(settings.ADAPTATION)

    @property
    def overloaded(self) -> Collection[str]:
        """As this process has looked for them lately."""
        return OVERLOADED.lasting(self.now_s)

    def elements(self) -> Mapping[str, AdaptedElement]:
        """The adapted elements, by the guards' newest values and the holds."""
        return adapted_elements(self.estate, at=self.at)

    def schedule_in_force(self, dataflow: str) -> BundleOffer | None:
        """The schedule by the newest plan in force that says how the dataflow runs."""
        return schedule_in_force(dataflow)

    def schedule_for(self, dataflow: str, source_per_s: float) -> BundleOffer:
        """The schedule by the same pair, from the profiles and slots of now."""
        return schedule_for(dataflow, source_per_s)

    def key_loads(self, fragments: Sequence[Fragment]) -> Mapping[str, KeyLoads]:
        """The distribution of events over keys, as their writers count them now."""
        return measured_key_loads(self.estate, fragments)

    def used_profiles(self) -> Sequence[UsedProfile]:
        """The used profiles, as they were compared last."""
        return [used for used, _ in self._used_profiles.values() if used.drifts]

    @cached_property
    def _used_profiles(self) -> Mapping[str, tuple[UsedProfile, ProfileRecord]]:
        return used_profiles()

    @cached_property
    def _free_slots(self) -> Sequence[SlotRow]:
        return free_slots()

    def past_profiles(self, begin_s: float, end_s: float) -> Sequence[PastProfile]:
        """Observations are kept for a day."""
        return past_profiles(begin_s, end_s)

    def where_measured(self, profile: str) -> tuple[str, str]:
        """An idle slot that nobody has reserved, of a machine of its class."""
        _, record = self._used_profiles[profile]
        return where_measured(record, self._free_slots)

    def drifts_since(self, loop_round: Round) -> Sequence[Drift]:
        """The drifts of the profile that the round's sweep has found."""
        return drifts_since(loop_round.key)

    def limit_statuses(self, states: Collection[str] = STATES) -> Sequence[LimitStatus]:
        """The status of each limit, as the pacer found last."""
        statuses = (status_of(row) for row in LatencyStatus.objects.filter(state__in=states))
        return [status for status in statuses if status is not None]

    def wanted_modes(self) -> WantedModes | None:
        """The modes that the pacer noted last."""
        return wanted_modes(at=self.at)

    def batches(self, queries: Collection[str]) -> Mapping[str, QueryBatches]:
        """The batches of some queries, as the pacer found last."""
        return {
            row.pk: QueryBatches(BatchCost(**row.cost) if row.cost else None, row.trigger_ms / 1000, row.real_time)
            for row in BatchFigures.objects.filter(pk__in=queries).select_related("fragment")}

    def pacing_facts(self) -> PacingFacts:
        """Queries with the costs that the pacer found last, their limits, and which may leave batches open."""
        view = self.view
        batches = {
            name: row for name, row in self.batches(list(view.estate.fragments)).items() if row.cost is not None}
        queries = queries_of(view, costs=self.costs, batches_seen={}, trigger_ms={})
        refusals = refusals_in(view.reading.reports, view.estate) | {
            name: "" for name, row in batches.items() if row.real_time}
        costs = {name: row.cost for name, row in batches.items() if row.cost is not None and name in queries.costs}
        return PacingFacts(
            replace(queries, costs=costs),
            [(dataflow, limit, want) for (dataflow, _), (limit, want) in wants_of(view).items()],
            refusals if may_be_open() else {})
