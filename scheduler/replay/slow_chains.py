"""Chains in played time that are slow while others need a part of them, and which task makes them so.

A chain's events go through all of its tasks in one batch. So a batch takes as long as its events wait, or as they take,
and each task has as much of that as it takes CPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import accumulate

from scheduler.model.estate import Estate
from scheduler.reuse.isolation import SlowTask, is_needed_in_part, slow_task

from .flow import QueryLoad


@dataclass
class SlowChains:
    """The times since which chains are slow (s), and the latencies of events behind each of their tasks (ms)."""

    hold_s: float
    usual_interval_s: float
    _since_s: dict[str, float] = field(default_factory=dict)
    _latency_ms: dict[str, list[float]] = field(default_factory=dict)

    def watch(
        self, estate: Estate, loads: Mapping[str, QueryLoad], batch_s: Mapping[str, float], now_s: float
    ) -> None:
        """Note which chains are slow in a step; ``batch_s`` is how long a batch takes where no event waits."""
        slow: dict[str, float] = {}
        for name, load in loads.items():
            takes_s, cores = max(batch_s[name], load.waits_s), sum(load.tasks)
            if takes_s < self.hold_s or not cores or not is_needed_in_part(estate, estate.fragments[name]):
                continue
            slow[name] = self._since_s.get(name, now_s)
            self._latency_ms[name] = [1000 * takes_s * part / cores for part in accumulate(load.tasks)]
        self._since_s = slow

    def slow_tasks(self, estate: Estate, now_s: float) -> list[SlowTask]:
        """The tasks that have made chains slow for as long as others may be held up."""
        slow = [
            slow_task(estate.fragments[name], self._latency_ms[name], least_ms=2000 * self.usual_interval_s)
            for name, since_s in self._since_s.items()
            if now_s - since_s >= self.hold_s and name in estate.fragments]
        return [task for task in slow if task is not None]
