"""Modes of batches: which are in force, which would be chosen if they were free, and changing them.

The pacer keeps to the modes in force and notes here what it would choose. Whether that is done is decided by the
controller of open batches; it alone changes modes, but for two cases: a query that can no longer be worked on in open
batches has micro-batches at once, and what goes on with the work of others goes on in their mode.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction

from dashboard.audit.trail import inside_command
from dashboard.operations.models import FragmentPace, FragmentRow, ModesWanted
from dashboard.operations.open_batches import may_be_open
from scheduler.latency.pacing import Queries, Wanted
from scheduler.latency.real_time import MOST_A_SLOT, Chosen, choose_modes
from scheduler.latency.triggers import SMALLEST_S
from scheduler.model.estate import Estate
from scheduler.model.fragment import Fragment

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
    now = in_force(row.queries)
    return WantedModes(
        {query: wanted["open"] for query, wanted in row.queries.items()
         if query in now and now[query] != wanted["open"]},
        {query: wanted["trigger_ms"] for query, wanted in row.queries.items()},
        {query: (before, after) for query, (before, after) in row.cores.items()},
        {(key.rpartition("/")[0], int(key.rpartition("/")[2])): (then_s, is_met)
         for key, (then_s, is_met) in row.limits.items()})


def in_force(queries: Iterable[str]) -> dict[str, bool]:
    """Whether the batches of these queries are to be open; those that have intervals at all."""
    return dict(FragmentPace.objects.filter(pk__in=list(queries)).values_list("pk", "real_time"))


def refusals_of(queries: Iterable[str]) -> dict[str, str]:
    """Why the batches of these queries cannot stay open, as their slots told last; empty where they can."""
    return dict(FragmentPace.objects.filter(pk__in=list(queries)).values_list("pk", "refusal"))


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
    now : Chosen
        With the modes in force.
    queries : Queries
        With what micro-batches cost.
    wants : sequence of Wanted
        The limits; their keys are those of what is kept.
    refusals : mapping of str to str
        Why queries cannot leave their batches open, empty where they can.
    at : datetime
        The present moment.
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


def close_at_once(queries: Collection[str]) -> None:
    """Let these queries have micro-batches, whoever wanted what: they cannot have others."""
    if queries:
        FragmentPace.objects.filter(pk__in=list(queries), real_time=True).update(real_time=False)


def keep_open(before: Mapping[str, Fragment], after: Mapping[str, Fragment]) -> None:
    """Let the batches of queries stay open that go on with what queries with open batches left: moved, fused or cut.

    Without this they would begin with micro-batches, and the controller would restart them a moment later. A slot that
    is full of open batches, or refuses some, gives its query micro-batches as ever.

    Parameters
    ----------
    before, after : mapping of str to Fragment
        Those that a plan touches, as they were and as they are.
    """
    heirs = [fragment for name, fragment in after.items()
             if name not in before and fragment.inherits and not fragment.divided]
    if not heirs:
        return
    old = {row.pk: row for row in FragmentPace.objects.filter(
        pk__in={name for heir in heirs for name in heir.inherits}, real_time=True)}
    heirs = [heir for heir in heirs if old.keys() >= set(heir.inherits)]
    if not heirs:
        return
    room = dict.fromkeys((heir.slot for heir in heirs), MOST_A_SLOT)
    open_now = FragmentPace.objects.filter(real_time=True).exclude(pk__in=before.keys() - after.keys()).values("pk")
    for slot in FragmentRow.objects.filter(slot__in=list(room), pk__in=open_now).values_list("slot", flat=True):
        room[slot] -= 1
    opened = []
    for heir in heirs:
        if room[heir.slot] > 0:
            room[heir.slot] -= 1
            rows = [old[name] for name in heir.inherits]
            opened.append(FragmentPace(
                fragment=heir.id, real_time=True, trigger_ms=min(row.trigger_ms for row in rows),
                since=max(row.since for row in rows), cost=rows[0].cost))
    FragmentPace.objects.bulk_create(opened, ignore_conflicts=True)


class CannotChange(Exception):
    """Why a mode cannot be changed as it was decided, in a sentence."""


def change_modes(
    wanted: Mapping[str, bool], *, trigger_ms: Mapping[str, int], estate: Estate, at: datetime
) -> None:
    """Let the batches of these queries be open, or not, all of them or none; inside an audited command.

    Parameters
    ----------
    wanted : mapping of str to bool
        By query: whether its batches are to be open.
    trigger_ms : mapping of str to int
        How far apart they or their groups begin until the pacer chooses again.
    estate : Estate
        Where the queries are.
    at : datetime
        The present moment.

    Raises
    ------
    CannotChange
        A query has gone or cannot have open batches, or its slot has no room for more of them.
    """
    if not inside_command():
        raise RuntimeError("modes are changed inside an audited command only")
    rows = {row.pk: row for row in FragmentPace.objects.select_for_update().filter(pk__in=list(wanted))}
    slots = {name: estate.fragments[name].slot for name in wanted if name in estate.fragments}
    for name, opens in wanted.items():
        if name not in rows or name not in slots:
            raise CannotChange(f"{name} has gone.")
        if opens and rows[name].refusal:
            raise CannotChange(f"The batches of {name} cannot stay open: {rows[name].refusal}.")
    opened = {name: rows[name].real_time for name in rows} | in_force(
        name for name, fragment in estate.fragments.items() if fragment.slot in set(slots.values())) | wanted
    for slot in {slots[name] for name, opens in wanted.items() if opens}:
        count = sum(is_open for name, is_open in opened.items()
                    if name in estate.fragments and estate.fragments[name].slot == slot)
        if count > MOST_A_SLOT:
            raise CannotChange(f"{slot} has {MOST_A_SLOT} queries with open batches already.")
    for name, opens in wanted.items():
        rows[name].real_time, rows[name].since, rows[name].unlimited_ms = opens, at, None
        usual_ms = round(1000 * SMALLEST_S) if opens else settings.TRIGGER_MS
        rows[name].trigger_ms = trigger_ms.get(name, usual_ms)
    with transaction.atomic():
        FragmentPace.objects.bulk_update(list(rows.values()), ["real_time", "trigger_ms", "since", "unlimited_ms"])
