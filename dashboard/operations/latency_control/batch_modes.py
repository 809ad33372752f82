"""Modes of batches that would be chosen if they were free.

The pacer keeps to the modes that queries are set to, and notes here what it would choose. Whether that is done is
decided by the controller of open batches, whose plans set queries. In one case the pacer sets a mode itself: a query
that can no longer be worked on in open batches has micro-batches at once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta

from dashboard.operations.estate_store.estate_loader import current_estate
from dashboard.operations.models import ModesWanted
from scheduler.latency.pacing import LimitOnWay, Pacing, Queries
from scheduler.latency.real_time import BatchModes
from scheduler.latency.wanted_modes import WantedModes, choose_freely
from scheduler.model.estate import Estate
from scheduler.model.settings_of_fragments import USUAL
from scheduler.model.standing_answers import StandingAnswers

FRESH = timedelta(minutes=1)  # what was noted longer ago is of a recorder that is away


def wanted_modes(*, at: datetime | None = None) -> WantedModes | None:
    """The modes that the pacer would choose, as it noted last, without those that are in force by now; None where that
    was long before ``at``."""
    row = ModesWanted.objects.filter(pk=1).first()
    if row is None or not row.queries:
        return WantedModes()
    if at is not None and abs(at - row.at) > FRESH:
        return None
    estate = current_estate()
    return WantedModes(
        {query: wanted_mode["open"] for query, wanted_mode in row.queries.items()
         if query in estate.fragments and estate.settings.get(query, USUAL).real_time != wanted_mode["open"]},
        {query: wanted_mode["trigger_ms"] for query, wanted_mode in row.queries.items()},
        {query: (before, after) for query, (before, after) in row.cores.items()},
        {(key.rpartition("/")[0], int(key.rpartition("/")[2])): (then_s, is_met)
         for key, (then_s, is_met) in row.limits.items()})


def is_still_wanted(opens: Mapping[str, bool], *, at: datetime) -> bool:
    """True if these modes would still be chosen, and are not in force; while nobody notes it they are taken to be."""
    modes = wanted_modes(at=at)
    return modes is None or all(modes.opens.get(name) == is_open for name, is_open in opens.items())


def note_wanted(
    now: BatchModes, queries: Queries, wants: Sequence[LimitOnWay], refusals: Mapping[str, str], *, at: datetime,
    standing: StandingAnswers[Pacing] | None = None,
) -> BatchModes:
    """Choose as if modes were free, and keep where that is not what is in force; what would be chosen."""
    free, modes = choose_freely(now, queries, wants, refusals, standing=standing)
    if not modes.opens:
        ModesWanted.objects.exclude(queries={}).update(at=at, queries={}, cores={}, limits={})
        return free
    ModesWanted.objects.update_or_create(pk=1, defaults={
        "at": at,
        "queries": {name: {"open": is_open, "trigger_ms": modes.trigger_ms[name]}
                    for name, is_open in modes.opens.items()},
        "cores": {name: list(cores) for name, cores in modes.cores.items()},
        "limits": {f"{dataflow}/{number}": list(then) for (dataflow, number), then in modes.limits.items()}})
    return free


def no_longer_open(
    opened: Collection[str], refusals: Mapping[str, str], estate: Estate, *, may_open: bool
) -> frozenset[str]:
    """The queries that can be worked on in open batches no more: their slot refuses it, they are divided, or no batches
    stay open here."""
    return frozenset(
        name for name in opened if name in estate.fragments and (
            not may_open or refusals.get(name) or estate.fragments[name].divided))
