"""Modes of batches that would be chosen if they were free, where these differ from the modes in force."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from scheduler.model.standing_answers import StandingAnswers

from .pacing import LimitOnWay, Pacing, Queries
from .real_time import BatchModes, choose_modes


@dataclass(frozen=True, slots=True)
class WantedModes:
    """Queries that would have the other mode, and what comes of it.

    ``opens`` says by query whether its batches would be open, ``trigger_ms`` how far apart they or their groups would
    begin. ``cores`` is by query, with readers: what it takes now and would take. ``limits`` is by dataflow and number
    of a limit: the latency then, in seconds, and whether that meets it.
    """

    opens: Mapping[str, bool] = field(default_factory=dict)
    trigger_ms: Mapping[str, int] = field(default_factory=dict)
    cores: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    limits: Mapping[tuple[str, int], tuple[float, bool]] = field(default_factory=dict)

    def meets(self, dataflow: str, number: int) -> bool:
        """True if a limit of a dataflow would be met so, by batches that are not open yet."""
        return any(self.opens.values()) and self.limits.get((dataflow, number), (0.0, False))[1]


def choose_freely(
    now: BatchModes, queries: Queries, wants: Sequence[LimitOnWay], refusals: Mapping[str, str], *,
    standing: StandingAnswers[Pacing] | None = None,
) -> tuple[BatchModes, WantedModes]:
    """Choose as if modes were free; and what of that is not in force.

    Parameters
    ----------
    refusals : mapping of str to str
        The reasons why queries cannot leave their batches open, empty where they can.
    standing : StandingAnswers, optional
        As of `pace`.
    """
    free = now
    if now.open or "" in refusals.values():
        free = choose_modes(
            queries, wants, refusals, before=now.open, micro=None if now.open else now.paced, standing=standing)
    others = now.open ^ free.open
    readers = {name for name, writers in queries.reads.items() if not others.isdisjoint(writers)}
    limits = {}
    for want in wants:
        if not others.isdisjoint(want.way.writers):
            dataflow, _, number = want.key.rpartition("/")
            expected = free.paced.expected[want.key]
            limits[dataflow, int(number)] = (round(expected.latency_s, 4), expected.least_s is None)
    return free, WantedModes(
        {name: name in free.open for name in sorted(others)},
        {name: round(1000 * free.interval_s[name]) for name in sorted(others)},
        {name: (round(now.cores(name, queries.costs[name]), 6), round(free.cores(name, queries.costs[name]), 6))
         for name in sorted(others | readers) if name in queries.costs}, limits)
