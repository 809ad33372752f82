"""Slots that work in tests: their counters grow by what their queries are said to take, and are charged."""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone

from dashboard import jobs
from dashboard.bills.charging import record_usage
from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.operations.models import NodeRow
from scheduler.model.costs import DECLARED, Costs
from scheduler.model.prices import Prices
from scheduler.performance.alternates_at_work import AlternatesAtWork
from scheduler.performance.cost_model import QuerySeen, SlotSeen, expected_cores

NOON = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
_LOOKS = itertools.count()  # no two moments are the same: estates of two tests are told apart by when they changed
MACHINE = "cpu-a, 2 cores, 8 GiB, 2 slots"
TRUTH = Costs(query_batch_s=2.5 * DECLARED.query_batch_s, slot_cores=2.5 * DECLARED.slot_cores, scale=2.5)


@dataclass
class Slots:
    """Slots that take, for what they do, what ``truth`` says; two batches a second and ten events. Of an alternate of a
    dynamic task, by its name, ``event_us`` is what it takes besides for each event, and ``gives`` how many it gives."""

    cpu_ms: dict[str, float] = field(default_factory=lambda: {"n1/0": 0.0, "n1/1": 0.0})
    since: datetime = NOON - timedelta(hours=2)
    seconds: float = 0.0
    started: dict[str, float] = field(default_factory=dict)
    open: set[str] = field(default_factory=set)  # queries whose batches stay open
    truth: Costs = TRUTH
    event_us: dict[str, float] = field(default_factory=dict)
    gives: dict[str, float] = field(default_factory=dict)
    given: dict[tuple[str, str], float] = field(default_factory=lambda: defaultdict(float))  # by query and task

    def read(self, look_up) -> dict:
        estate = load_estate()
        look_up(list(estate.fragments))
        readings = {}
        for slot, cpu_ms in self.cpu_ms.items():
            queries = {}
            for fragment in estate.fragments.values():
                if fragment.slot == slot:
                    if fragment.id not in self.started:
                        self.given |= {(fragment.id, task): 0.0 for task in fragment.tasks}
                    seconds = self.seconds - self.started.setdefault(fragment.id, self.seconds)
                    queries[fragment.id] = {
                        "busy_ms": round(100 * seconds), "batches": round(2 * seconds),
                        "in:n": round(10 * seconds),
                        **{f"{n}:n": round(self.given[fragment.id, task]) for n, task in enumerate(fragment.tasks)},
                        **({"apart_ms": 50} if fragment.id in self.open else {})}
            readings[slot] = {
                "since_ms": round(self.since.timestamp() * 1000), "cpu_ms": round(cpu_ms), "memory_mb_s": 0,
                "queries": queries}
        return readings

    def work(self, seconds: float) -> None:
        estate = load_estate()
        self.seconds += seconds
        at_work = AlternatesAtWork(estate, task_types=jobs.task_types(), prices=Prices())
        for slot in self.cpu_ms:
            queries = []
            for fragment in estate.fragments.values():
                if fragment.slot == slot:
                    tasks, comes = [], 10 * seconds
                    for task in fragment.tasks:
                        on = at_work.alternate(estate.tasks[task])
                        tasks.append((at_work.steps(estate.tasks[task])[0][0].name, round(comes)))
                        self.cpu_ms[slot] += comes * self.event_us.get(on, 0.0) / 1000
                        comes *= self.gives.get(on, 1.0)
                        self.given[fragment.id, task] += comes
                    queries.append(QuerySeen(
                        fragment.id, round(2 * seconds), tuple(tasks),
                        10 * seconds if fragment.id in self.open else None))
            self.cpu_ms[slot] += 1000 * seconds * expected_cores(
                SlotSeen(seconds, 0, tuple(queries)), costs=self.truth, task_types=jobs.task_types())


def slots_at_work(monkeypatch: pytest.MonkeyPatch) -> Slots:
    """Slots whose counters the site reads instead of the broker's; it is as late as they have worked."""
    NodeRow.objects.update(machine=MACHINE)
    made = Slots()
    monkeypatch.setattr(jobs, "slot_counters", made.read)
    monkeypatch.setattr(timezone, "now", lambda: NOON + timedelta(
        seconds=made.seconds, microseconds=next(_LOOKS)))
    return made


def passes(slots: Slots, *, minutes: int, since: datetime) -> datetime:
    """So many minutes, each read at its end; when that was."""
    for minute in range(minutes):
        slots.work(60)
        record_usage(at=since + (minute + 1) * MINUTE)
    return since + minutes * MINUTE
