"""A node that measures by a formula instead of by Spark, behind the same functions as the real one's broker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest

from dashboard import jobs
from dashboard.jobs import TrialOrder, TrialProgress, TrialResult
from dashboard.profiles.models import SweepRecord
from dashboard.profiles.services.sweep_driver import advance_sweeps

START = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def saturating(threads: int) -> float:
    """A peak rate that grows up to 4 threads and then falls a little."""
    return 100.0 * min(threads, 4) - 2.0 * threads


@dataclass
class Node:
    """Orders that came, what it answers to each, and the time, which a test moves on.

    ``dies`` is how many of the next orders are lost after they were taken; ``away`` makes the broker be so. Its feeder
    writes at most ``feeds`` events/s; its drivers have ``threads``, which it tells where ``tells``. Its first trial
    takes ``warms_s`` longer than the others.
    """

    peak: Callable[[int], float] = saturating
    now: datetime = START
    orders: list[TrialOrder] = field(default_factory=list)
    results: dict[str, TrialResult] = field(default_factory=dict)
    under_way: dict[str, TrialProgress] = field(default_factory=dict)
    cancelled: list[str] = field(default_factory=list)
    dies: int = 0
    away: bool = False
    machine: str = "cpu-a"
    answers: list[TrialResult] = field(default_factory=list)
    feeds: float = float("inf")
    threads: int = 1_000
    tells: bool = True
    code: str = ""
    warms_s: float = 0.0

    def order(self, order: TrialOrder) -> None:
        self._need()
        self.orders.append(order)
        self.under_way[order.id] = TrialProgress("ordered")

    def progress(self, trial_id: str) -> TrialProgress | None:
        self._need()
        return self.under_way.get(trial_id)

    def result(self, trial_id: str) -> TrialResult | None:
        self._need()
        return self.results.get(trial_id)

    def work(self) -> None:
        """Measure what was ordered and not cancelled."""
        for order in self.orders:
            if order.id not in self.under_way or order.id in self.cancelled:
                continue
            if self.dies:
                self.dies -= 1
                del self.under_way[order.id]
                continue
            del self.under_way[order.id]
            given = self.answers.pop(0) if self.answers else None
            self.results[order.id] = given or self.measure(order)

    def measure(self, order: TrialOrder) -> TrialResult:
        if order.threads > self.threads:
            return TrialResult(
                order.id, ok=False, code="too_few_threads", remedy="Sweep up to fewer threads.",
                message=f"{order.threads} threads were asked for, and the slots of node n1 have {self.threads}")
        peak, fed = self.peak(order.threads), min(order.rate_per_s, self.feeds)
        load = min(1.0, fed / peak) if peak > 0 else 1.0
        return TrialResult(
            order.id, ok=True, threads=order.threads, rate_per_s=order.rate_per_s, offered_per_s=fed,
            achieved_per_s=min(fed, peak), latency_slope=0.0 if fed <= peak else 1.0,
            cpu=0.1 + 0.8 * load, memory=0.05 + 0.1 * load, idle_cpu=0.02, idle_memory=0.05, base_cpu=0.01,
            base_memory=0.3, took_s=10.0 + self.warms_s * (len(self.orders) == 1), latency_s={"p50": 0.2, "p99": 0.4},
            machine={"class": self.machine, "cores": 2, "cpu": "A",
                     "slot_threads": self.threads if self.tells else None},
            versions={"python": "3.11", "type": 1, "code": self.code})

    def run(self, *, steps: int = 1, seconds: float = 2.0) -> None:
        """Let the driver and the node take turns."""
        for _ in range(steps):
            self.now += timedelta(seconds=seconds)
            advance_sweeps(at=self.now)
            self.work()

    def finish(self, sweep: SweepRecord, *, most: int = 300) -> SweepRecord:
        """Until the sweep is no longer open."""
        for _ in range(most):
            self.run()
            sweep.refresh_from_db()
            if sweep.status not in ("queued", "running"):
                return sweep
        raise AssertionError(f"the sweep is still {sweep.status} after {most} turns")

    def _need(self) -> None:
        if self.away:
            raise jobs.BrokerAway("The broker does not answer.")


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Node:
    """A node in the place of the broker."""
    stand_in = Node()
    monkeypatch.setattr(jobs, "order_trial", stand_in.order)
    monkeypatch.setattr(jobs, "trial_progress", stand_in.progress)
    monkeypatch.setattr(jobs, "trial_result", stand_in.result)
    monkeypatch.setattr(jobs, "cancel_trial", stand_in.cancelled.append)
    return stand_in
