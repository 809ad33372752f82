"""Modes of batches that would be chosen if they were free.

The pacer keeps to the modes that queries are set to, and notes here what it would choose. Whether that is done is
decided by the controller of open batches, whose plans set queries. In one case the pacer sets a mode itself: a query
that can no longer be worked on in open batches has micro-batches at once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from dashboard.operations.estate import current_estate
from dashboard.operations.models import ModesWanted
from dashboard.operations.open_batches import may_be_open
from scheduler.latency.pacing import Queries, Wanted
from scheduler.latency.real_time import Chosen, choose_modes
from scheduler.model.estate import Estate
from scheduler.model.settings import USUAL

FRESH = timedelta(minutes=1)  # what was noted longer ago is of a recorder that is away


@dataclass(frozen=True, slots=True)
class WantedModes:
    """What was noted: by query whether its batches would be open, and how far apart; see `ModesWanted`."""

    opens: Mapping[str, bool] = field(default_factory=dict)
    trigger_ms: Mapping[str, int] = field(default_factory=dict)
    cores: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    limits: Mapping[tuple[str, int], tuple[float, bool]] = field(default_factory=dict)

    def meets(self, dataflow: str, number: int) -> bool:
        """Whether a limit of a dataflow would be met so, by batches that are not open yet."""
        return any(self.opens.values()) and self.limits.get((dataflow, number), (0.0, False))[1]


def wanted_modes(*, at: datetime | None = None) -> WantedModes | None:
    """What the pacer would choose, as it noted last, without what is so by now; None where that was long before
    ``at``."""
    row = ModesWanted.objects.filter(pk=1).first()
    if row is None or not row.queries:
        return WantedModes()
    if at is not None and abs(at - row.at) > FRESH:
        return None
    estate = current_estate()
    return WantedModes(
        {query: wanted["open"] for query, wanted in row.queries.items()
         if query in estate.fragments and estate.settings.get(query, USUAL).real_time != wanted["open"]},
        {query: wanted["trigger_ms"] for query, wanted in row.queries.items()},
        {query: (before, after) for query, (before, after) in row.cores.items()},
        {(key.rpartition("/")[0], int(key.rpartition("/")[2])): (then_s, is_met)
         for key, (then_s, is_met) in row.limits.items()})


def is_still_wanted(opens: Mapping[str, bool], *, at: datetime) -> bool:
    """Whether these modes would still be chosen, and are not in force; while nobody notes it they are taken to be."""
    wanted = wanted_modes(at=at)
    return wanted is None or all(wanted.opens.get(name) == is_open for name, is_open in opens.items())


def note_wanted(
    now: Chosen, queries: Queries, wants: Sequence[Wanted], refusals: Mapping[str, str], *, at: datetime
) -> Chosen:
    """Choose as if modes were free, and keep where that is not what is in force; what would be chosen.

    Parameters
    ----------
    wants : sequence of Wanted
        The limits; their keys are those of what is kept.
    refusals : mapping of str to str
        Why queries cannot leave their batches open, empty where they can.
    """
    free = now
    if now.open or "" in refusals.values():
        free = choose_modes(
            queries, wants, refusals, before=now.open, micro=None if now.open else now.paced)
    others = now.open ^ free.open
    if not others:
        ModesWanted.objects.exclude(queries={}).update(at=at, queries={}, cores={}, limits={})
        return free
    readers = {name for name, writers in queries.reads.items() if not others.isdisjoint(writers)}
    ModesWanted.objects.update_or_create(pk=1, defaults={
        "at": at,
        "queries": {name: {"open": name in free.open, "trigger_ms": round(1000 * free.interval_s[name])}
                    for name in sorted(others)},
        "cores": {name: [round(chosen.cores(name, queries.costs[name]), 6) for chosen in (now, free)]
                  for name in sorted(others | readers) if name in queries.costs},
        "limits": {want.key: [round(free.paced.expected[want.key].latency_s, 4),
                              free.paced.expected[want.key].least_s is None]
                   for want in wants if not others.isdisjoint(want.way.writers)}})
    return free


def no_longer_open(opened: Collection[str], refusals: Mapping[str, str], estate: Estate) -> frozenset[str]:
    """Those of these queries that can be worked on in open batches no more: their slot refuses it, they are divided, or
    no batches stay open here."""
    return frozenset(
        name for name in opened if name in estate.fragments and (
            not may_be_open() or refusals.get(name) or estate.fragments[name].divided))
