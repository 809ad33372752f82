"""Turns of teams where policies are looked at: however much those of one team take, others are looked at each second.

A team's policies may take `EACH_S` of CPU a look on average, and `BURST_S` at once. What they take beyond that they
wait for: those that waited longest are looked at first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator

from scheduler.model.estate import Estate

EACH_S, BURST_S = 0.1, 3.0


class TeamTurns:
    """Gives tasks one by one, and counts the CPU time of this thread until the next is asked for."""

    def __init__(self, spent_s: Callable[[], float] = time.thread_time) -> None:
        self._spent_s = spent_s
        self._left_s: dict[str, float] = {}
        self._last_looks: dict[str, int] = {}  # at which look each task was given last
        self._look = 0

    def of(self, estate: Estate, tasks: Collection[str]) -> Iterator[str]:
        """The running tasks that are to be looked at now; of several teams that share one the first pays for it."""
        teams: dict[str, str] = {}
        for entry in estate.submitted.values():
            for running in entry.running.values():
                if running in tasks:
                    teams.setdefault(running, entry.team)
        self._look += 1
        self._last_looks = {task: self._last_looks.get(task, 0) for task in tasks}
        self._left_s = {
            team: min(BURST_S, self._left_s.get(team, BURST_S) + EACH_S)
            for team in {teams.get(task, "") for task in tasks}}
        for task in sorted(tasks, key=self._last_looks.__getitem__):
            team = teams.get(task, "")
            if self._left_s[team] <= 0:
                continue
            begun_s, self._last_looks[task] = self._spent_s(), self._look
            yield task
            self._left_s[team] -= self._spent_s() - begun_s
