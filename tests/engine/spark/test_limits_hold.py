"""Latency limits while what runs changes at random: intervals are chosen anew each time, and no output is another."""

from __future__ import annotations

import json
import random
import time
from dataclasses import dataclass, field

import pytest

from scheduler.changing import plan_change
from scheduler.contracts.reports import RUNNING
from scheduler.latency.batch_costs import BatchesSeen, batch_cost
from scheduler.latency.limits_met import TOLERATED
from scheduler.latency.pacing import LimitOnWay, Queries, pace
from scheduler.latency.ways import way_of
from scheduler.model.costs import DECLARED
from scheduler.model.dataflow import Dataflow
from scheduler.model.errors import WeirError
from scheduler.model.latency_limits import LatencyLimit
from scheduler.model.prices import Prices
from scheduler.moving import plan_move
from workers.engine import observed

from .planned import PlannedEstate
from .rig import Rig

pytestmark = [
    pytest.mark.spark, pytest.mark.broker, pytest.mark.long, pytest.mark.timeout(3_600),
    pytest.mark.usefixtures("afterwards_nothing")]

CHANGES = 20
LIMITS_S = (2.0, 4.0, 8.0)
MOST_FLOWS = 4
ROOM = 2.0  # cores of a slot: other work on the machine is none of theirs


@dataclass
class Flow:
    """A dataflow that runs: its document, its limit, and what it shifts by."""

    dataflow: Dataflow
    limit: LatencyLimit
    by: int


@dataclass
class Changing:
    """Dataflows that share a source and a sum come, go, move and get other rates; each has a limit."""

    rig: Rig
    chance: random.Random
    flows: dict[str, Flow] = field(default_factory=dict)
    made: int = 0
    seen: dict[str, tuple[int, int]] = field(default_factory=dict)  # batches and busy ms, by query

    def __post_init__(self) -> None:
        self.planned = PlannedEstate(self.rig)
        self._by = {"task_types": self.rig.task_types, "prices": Prices()}

    def document(self, name: str, *, by: int, rate_per_s: int) -> Dataflow:
        return self.planned.read(json.dumps({
            "name": name,
            "tasks": [
                {"id": "count", "type": "numbers"}, {"id": "t1", "type": "total", "config": {"name": "t1"}},
                {"id": "shift", "type": "shift", "config": {"by": by}},
                {"id": "t2", "type": "total", "config": {"name": "t2"}},
                {"id": "out", "type": "output", "config": {"name": name, "keep_events": 1_000_000}}],
            "streams": [{"from": one, "to": other} for one, other in (
                ("count", "t1"), ("t1", "shift"), ("shift", "t2"), ("t2", "out"))],
            "rates": {"count": rate_per_s}}))

    def submit(self) -> str:
        self.made += 1
        name, by = f"flow{self.made}", self.chance.randint(1, 2)
        dataflow = self.document(name, by=by, rate_per_s=self.chance.choice([10, 20]))
        self.flows[name] = Flow(dataflow, LatencyLimit(self.chance.choice(LIMITS_S)), by)
        self.planned.submit(dataflow, name)
        return f"{name} comes"

    def remove(self) -> str:
        name = self.chance.choice(sorted(self.flows))
        self.check(name)
        self.planned.remove(name)
        del self.flows[name]
        return f"{name} goes"

    def move(self) -> str:
        estate = self.planned.estate
        query = self.chance.choice(sorted(name for name, part in estate.fragments.items() if part.active))
        user = estate.users[estate.fragments[query].tasks[0]][0]
        slot = next(slot.name for slot in self.rig.slots if slot.name != estate.fragments[query].slot)
        try:
            self.planned.carry_out(plan_move(estate, user, query=query, slot=slot, **self._by))
        except WeirError as refused:
            return f"{query} stays: {refused}"
        return f"{query} moves to {slot}"

    def change_rate(self) -> str:
        """Another version: its source makes more or fewer, so it is another stream from there on."""
        name = self.chance.choice(sorted(self.flows))
        self.check(name)
        flow = self.flows[name]
        rate_per_s = 30 - round(flow.dataflow.rates_per_s["count"])
        dataflow = self.document(name, by=flow.by, rate_per_s=rate_per_s)
        self.planned.carry_out(plan_change(
            self.planned.estate, dataflow, former=flow.dataflow, dataflow_id=name, team="city", **self._by))
        self.flows[name] = Flow(dataflow, flow.limit, flow.by)
        return f"{name} has {rate_per_s}/s"

    def step(self) -> str:
        """One change at random, in force."""
        kinds = [self.submit] if not self.flows else [self.move, self.change_rate, self.remove, self.submit]
        if len(self.flows) >= MOST_FLOWS:
            kinds.remove(self.submit)
        change = self.chance.choice(kinds)()
        self.rig.wait_running(*self.working())
        return change

    def working(self) -> list[str]:
        return sorted(name for name, part in self.planned.estate.fragments.items() if part.active)

    def repace(self) -> None:
        """Choose intervals for all limits, by what batches were seen to take, and want them."""
        estate, reports = self.planned.estate, dict(self.rig.reports().queries())
        costs = {}
        for name in self.working():
            part, report = estate.fragments[name], reports[name]
            before = self.seen.get(name, (0, 0))
            done, busy_ms = report.batches - before[0], report.busy_ms - before[1]
            self.seen[name] = (report.batches, report.busy_ms)
            rate_per_s = estate.tasks[part.tasks[0]].rate_per_s or 0.0
            seen = BatchesSeen(done, busy_ms / 1000, 0.0) if done > 2 else None
            types = [(self.rig.task_types[estate.tasks[task].type], 1.0) for task in part.active_tasks]
            costs[name] = batch_cost(types, costs=DECLARED, rate_per_s=rate_per_s, batches_seen=seen)
        reads = {
            name: tuple({estate.places[parent][0] for parent in estate.tasks[estate.fragments[name].tasks[0]].parents})
            for name in costs}
        wants = [LimitOnWay(name, way_of(estate, name, flow.limit), flow.limit.limit_s)
                 for name, flow in self.flows.items()]
        paced = pace(Queries(
            costs, reads, slot_of={name: estate.fragments[name].slot for name in costs},
            capacity={slot.name: ROOM for slot in self.rig.slots}, largest_s=10.0), wants)
        self.rig.paces_ms = {name: round(1000 * seconds) for name, seconds in paced.interval_s.items()}
        self.rig.want(estate)

    def late(self) -> dict[str, float | None]:
        """The dataflows whose mean latency of the last seconds is above their limit, or not known, in ms."""
        estate = self.planned.estate
        parts = list(estate.fragments.values())
        before = observed.read_meters(self.rig.broker, observed.queries_of(parts))
        time.sleep(max(3.0, 2 * max(self.rig.paces_ms.values(), default=0) / 1000))
        after = observed.read_meters(self.rig.broker, observed.queries_of(parts))
        flows = observed.flows(before, after, parts, {name: task.parents for name, task in estate.tasks.items()})
        ages = {name: flows.tasks[estate.submitted[name].running["out"]].latency_mean_ms for name in self.flows}
        return {name: age for name, age in ages.items()
                if age is None or age > 1000 * TOLERATED * self.flows[name].limit.limit_s}

    def hold(self, *, rounds: int = 12) -> dict[str, float | None]:
        """Choose intervals until all limits hold; those that do not after so many rounds."""
        late: dict[str, float | None] = {}
        for _ in range(rounds):
            self.repace()
            wanted = dict(self.rig.paces_ms)
            self.rig.wait(lambda wanted=wanted: all(
                report.state == RUNNING and report.trigger_ms == wanted[name]
                for name, report in self.rig.reports().queries() if name in wanted), what="the intervals in force")
            late = self.late()
            if not late:
                return late
        return late

    def check(self, name: str) -> None:
        """Every number from its first on, once and in order, with the sums up to it."""
        events = self.rig.wait(lambda: self.planned.output(name), what=f"events of {name}")
        by = self.flows[name].by
        self.rig.wait(lambda: len(self.planned.output(name)) > len(events), what=f"more of {name}")
        seqs = [event["_seq"] for event in events]
        assert seqs == list(range(seqs[0], seqs[0] + len(seqs)))
        shifted = None
        for event in events:
            total = event["_seq"] * (event["_seq"] + 1) / 2
            # Its own second sum began with its first event, or that of who came before it with number 0.
            begun = (event["_seq"] + by, total + by * (event["_seq"] + 1))
            assert float(event["t1"]) == total
            assert event["t2"] in (begun if shifted is None else (shifted + event["_seq"] + by,))
            shifted = event["t2"]


@pytest.mark.parametrize("seed", [1])
def test_limits_hold_while_dataflows_come_go_move_and_get_other_rates(rig: Rig, seed: int) -> None:
    changing = Changing(rig, random.Random(seed))
    history = [changing.submit()]
    rig.wait_running(*changing.working())
    for _ in range(CHANGES):
        history.append(changing.step())
        late = changing.hold()
        assert not late, f"after {history}: later than they may be: {late}"
    for name in changing.flows:
        changing.check(name)
