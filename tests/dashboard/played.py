"""An estate that does as the pacer and the controller of open batches tell it, second by second, without Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from graphlib import TopologicalSorter

import pytest

from dashboard import jobs
from dashboard.approvals.lifecycle import COMPUTING
from dashboard.approvals.models import Proposal
from dashboard.approvals.services import prepare_proposal
from dashboard.approvals.services.following import follow_plans
from dashboard.catalog.models import DataflowRecord
from dashboard.controllers import loop_runner
from dashboard.controllers.site_world import StoredWorld
from dashboard.history.history_store import DatabaseHistory
from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.operations.latency_control.pacer import Pacer
from dashboard.operations.live_view.estate_view import view_for
from dashboard.operations.live_view.recording import values_of
from dashboard.operations.live_view.telemetry import EVERYTHING
from dashboard.operations.models import EstateState, FragmentRow, LatencyStatus
from dashboard.tasks.controlling import ACTUATORS
from scheduler.contracts.desired import WantedFragment
from scheduler.contracts.reports import STAYS_OPEN, Reports
from scheduler.controllers.controller_registry import CONTROLLERS
from scheduler.history.series import Annotation
from scheduler.model.estate import Estate
from scheduler.model.fragment import Slot
from tests.dashboard.node_parts import load_part_of
from workers.engine.desired_publishing import desired_of
from workers.engine.observed import Flows, StreamFlow, TaskFlow

BEGIN_S = 1_800_000_000
RATE = 50.0
OPEN_BATCHES = "open_batches"


@dataclass
class Played:
    """An estate that does as it is told: each query's batches take ``batch_s``; events wait half an interval for the
    first of them, and ``beyond_s`` that no model knows of."""

    patch: pytest.MonkeyPatch
    now_s: int = BEGIN_S
    batch_s: float = 0.1
    beyond_s: float = 0.0
    counted: dict[str, tuple[float, float]] = field(default_factory=dict)  # by query: batches, busy ms
    available: bool = True
    state: str = "running"  # of every query
    copies: int | None = None  # that each query's state is to have; of one whose batches are open there are none
    refusal: str = "it is played"  # why batches cannot stay open; empty where they can: then all takes 5 ms
    open_ms: float = 5.0
    began_s: int | None = None  # when the drivers of its slots began; None: long ago
    threads: int = 64  # of a slot's driver
    by_managers_ms: int | None = None  # how far apart batches are, as managers on the nodes chose it
    qos: int = 0  # the version of the set-up that the node works by
    steps: bool = True  # whether the loop of controllers takes its turns
    kept: tuple[object, Estate, Mapping[str, WantedFragment]] | None = None  # until the estate changes

    def __post_init__(self) -> None:
        self.pacer, self.history = Pacer(lambda: self.at), DatabaseHistory()
        self.patch.setattr(jobs, "read_live", lambda *_: self.reading())
        self.patch.setattr(jobs, "channel_blocks", lambda names: dict.fromkeys(names, 0))  # nothing waits in a channel

    def run(self, seconds: int) -> list[Annotation]:
        notes: list[Annotation] = []
        view = None
        for _ in range(seconds):
            self.now_s += 1
            view = view_for(EVERYTHING) if view is None else replace(view, observed=self.reading)
            acts = self.now_s % 10 in (0, 5)  # the estate changes in no other second, unless a limit is another
            if self.now_s % 10 == 0:
                self.history.append(self.now_s, values_of(view))
                self.history.flush()
            changed = self.pacer.look(view, self.now_s)
            notes += changed
            if self.steps and self.now_s % 10 == 5:
                self.turn()
            if acts or changed:
                view = None
        return notes

    def turn(self) -> None:
        """The loop's turn of open batches, and what workers do of what it asks for."""
        if Proposal.objects.under_way().exists():
            follow_plans(self.reading().reports, at=self.at)
        loop_runner.take_turn(CONTROLLERS[OPEN_BATCHES], ACTUATORS[OPEN_BATCHES], StoredWorld(self.at))
        for proposal in Proposal.objects.filter(status=COMPUTING).exclude(round=None):
            prepare_proposal(proposal_id=proposal.pk)

    @property
    def at(self) -> datetime:
        """The present moment."""
        return datetime.fromtimestamp(self.now_s, UTC)

    def wanted(self) -> tuple[Estate, Mapping[str, WantedFragment]]:
        """The estate, and what its node is to run."""
        stamp = EstateState.objects.filter(pk=1).values_list("generation", "changed", "revision").first()
        if self.kept is None or self.kept[0] != stamp:
            self.kept = stamp, load_estate(), {fragment.id: fragment for fragment in desired_of(
                load_part_of("n1"), "n1", jobs.task_types(), 500).wanted.values()}
        return self.kept[1:]

    def reading(self) -> jobs.LiveReading:
        estate, part = self.wanted()
        slots: dict[str, dict[str, object]] = {}
        tasks: dict[str, TaskFlow] = {}
        age_ms: dict[str, float] = {}
        queries: dict[str, float] = {}
        streams: dict[tuple[str, str], StreamFlow] = {}
        reads = {name: {estate.places[parent][0] for parent in estate.tasks[estate.fragments[name].tasks[0]].parents}
                 for name in sorted(part, key=lambda query: int(query.partition("-")[0][1:]))}
        for name in TopologicalSorter(reads).static_order():
            fragment = estate.fragments[name]
            trigger_ms = self.by_managers_ms or part[name].trigger_ms
            interval_s = trigger_ms / 1000
            batches, busy_ms = self.counted.get(name, (0.0, 0.0))
            is_open = part[name].real_time and not self.refusal
            batches += 1 / interval_s
            busy_ms += 1000 * self.batch_s / interval_s
            self.counted[name] = (batches, busy_ms)
            slots.setdefault(str(Slot.of(fragment.slot).index), self._slot())["fragments"][
                name] = {"state": self.state, "batches": int(batches), "busy_ms": int(busy_ms),
                         "trigger_ms": trigger_ms, "rate_per_s": RATE,
                         "real_time": is_open, "not_real_time": self.refusal,
                         "copies": self.copies and (0 if is_open else self.copies),
                         "not_copied": STAYS_OPEN if self.copies and is_open else None}
            parents = estate.tasks[fragment.tasks[0]].parents
            before = max((age_ms[parent] for parent in parents), default=None)
            streams |= {(parent, fragment.tasks[0]): StreamFlow(RATE, channel_mean_ms=0.0, wait_mean_ms=0.0)
                        for parent in parents}
            waited_ms = 500 * interval_s + 1000 * self.beyond_s if before is None else before
            for task in fragment.active_tasks:
                age_ms[task] = self.open_ms + (before or 0.0) if is_open else waited_ms + 1000 * self.batch_s
                tasks[task] = TaskFlow(RATE, 0, age_ms[task], age_ms[task], age_ms[task], None, age_ms[task])
            queries[name] = RATE
        return jobs.LiveReading(
            available=self.available, measured=True, flows=Flows(tasks, streams, queries),
            reports=Reports.of({
                "n1": {"node": "n1", "threads": self.threads, "qos": self.qos, "at_ms": 1000 * self.now_s,
                       "slots": slots}}))

    def _slot(self) -> dict[str, object]:
        return {"state": "running", "fragments": {}} | (
            {} if self.began_s is None else {"since_ms": 1000 * self.began_s})


def opened(record: DataflowRecord) -> frozenset[str]:
    return frozenset(row.pk for row in _fragments(record) if row.real_time)


def intervals(record: DataflowRecord) -> set[int]:
    """How far apart batches of its queries are to be, in ms."""
    return {row.trigger_ms or 500 for row in _fragments(record)}


def _fragments(record: DataflowRecord) -> list[FragmentRow]:
    estate = load_estate()
    return list(FragmentRow.objects.filter(
        pk__in={estate.places[task][0] for task in estate.submitted[str(record.pk)].running.values()}))


def status(record: DataflowRecord) -> LatencyStatus:
    """What is known of a dataflow's one limit."""
    return LatencyStatus.objects.get(dataflow=record)
