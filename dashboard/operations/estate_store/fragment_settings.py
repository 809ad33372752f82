"""The settings of fragments' queries: reading them, and changing them under the estate's lock.

Settings change by a plan (`estate_writer.store_plan`), or, for intervals alone, by the pacer (`set_intervals`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from django.utils import timezone

from dashboard.audit.models import AuditEntry
from dashboard.audit.trail import audited, inside_command
from dashboard.operations.estate_store.generation import lock_generation, revise
from dashboard.operations.models import FragmentRow
from scheduler.model.canonical import plain
from scheduler.model.fragment import Fragment
from scheduler.model.settings_of_fragments import (
    MOST_OPEN_A_SLOT,
    SETTINGS,
    USUAL,
    FragmentSettings,
    settings_of_new,
)

SET = "estate.set"  # in the audit trail
AUDITED_EVERY = timedelta(hours=1)


def columns_of_settings(settings: FragmentSettings) -> dict[str, Any]:
    """A row's columns that are settings."""
    return {name: plain(getattr(settings, name)) for name in SETTINGS}


def settings_of(fragments: Collection[str] | None = None) -> dict[str, FragmentSettings]:
    """The settings of these fragments, or of all; usual ones are left out."""
    rows = FragmentRow.objects.exclude(**columns_of_settings(USUAL))
    rows = rows if fragments is None else rows.filter(pk__in=fragments)
    return {name: FragmentSettings(*columns) for name, *columns in rows.values_list("pk", *SETTINGS)}


def open_in(slots: Collection[str], *, besides: Collection[str] = ()) -> Counter[str]:
    """The number of queries of each slot that are to leave their batches open, some fragments left out."""
    return Counter(FragmentRow.objects.filter(slot__in=slots, real_time=True).exclude(pk__in=besides).values_list(
        "slot", flat=True))


def slots_without_room(real_time: Mapping[str, bool]) -> list[str]:
    """The slots that would have more open batches than they hold, if these queries had theirs open or not."""
    slots = dict(FragmentRow.objects.filter(pk__in=list(real_time)).values_list("pk", "slot"))
    more = Counter(slot for name, slot in slots.items() if real_time[name])
    opened = open_in(more, besides=slots) + more
    return sorted(slot for slot in more if opened[slot] > MOST_OPEN_A_SLOT)


def settings_for(
    before: Mapping[str, Fragment], after: Mapping[str, Fragment], planned: Mapping[str, FragmentSettings],
) -> dict[str, FragmentSettings]:
    """The settings of new fragments, while the rows are still there of those whose work they go on with."""
    slots = {fragment.slot for name, fragment in after.items()
             if name not in before and (fragment.inherits or name in planned)}
    if not slots:
        return {}
    return settings_of_new(
        before, after, settings_of(before), open_in(slots, besides=before.keys() - after.keys()), planned)


def store_settings(settings: Mapping[str, FragmentSettings], columns: Sequence[str] = SETTINGS) -> None:
    """Set those of these fragments that exist; inside an audited command that holds the estate's lock.

    Parameters
    ----------
    columns : sequence of str
        The columns that may have changed: each takes its part of the time.
    """
    if not inside_command():
        raise RuntimeError("settings are changed inside an audited command only")
    FragmentRow.objects.bulk_update(
        [FragmentRow(pk=name, **columns_of_settings(chosen)) for name, chosen in settings.items()], columns)


def set_intervals(trigger_ms: Mapping[str, int], *, closed: Collection[str] = ()) -> bool:
    """Let batches begin so far apart; and let queries have micro-batches whose batches cannot stay open any more.

    This takes no proposal: limits that intervals follow were approved with their dataflows, and a query that cannot
    stay open runs in micro-batches already. Intervals follow rates all the time: the trail has the first change of each
    query in `AUDITED_EVERY`, and its history every one.
    """
    with audited(actor=None, verb=SET) as audit:
        lock_generation()
        names = {*trigger_ms, *closed}
        before = {row.pk: row.settings for row in FragmentRow.objects.filter(pk__in=names)}
        after = {
            name: replace(
                chosen, trigger_ms=trigger_ms.get(name, chosen.trigger_ms),
                real_time=chosen.real_time and name not in closed)
            for name, chosen in before.items()}
        after = {name: chosen for name, chosen in after.items() if chosen != before[name]}
        if not after:
            audit.nothing_changed()
            return False
        store_settings(after, ("trigger_ms", "real_time"))
        audit.subject = revise()
        entered = AuditEntry.objects.filter(verb=SET, at__gt=timezone.now() - AUDITED_EVERY)
        lately = {name for details in entered.values_list("details", flat=True) for name in details} - {*closed}
        audit.details = {
            name: _in_words(before[name], chosen) for name, chosen in sorted(after.items()) if name not in lately}
        if not audit.details:
            audit.nothing_changed()
        return True


def _in_words(before: FragmentSettings, after: FragmentSettings) -> str:
    words = [] if before.trigger_ms == after.trigger_ms else [f"{_ms(before)} → {_ms(after)}"]
    return ", ".join([*words, *["micro-batches"] * (before.real_time and not after.real_time)])


def _ms(settings: FragmentSettings) -> str:
    return "as usual" if settings == USUAL or settings.trigger_ms is None else f"{settings.trigger_ms} ms"
