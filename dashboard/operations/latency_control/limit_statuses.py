"""The states of latency limits, as rows: their state, since when they are not met, and whether they can be at all.

A limit is *hopeless* where the model alone says that neither intervals nor open batches would meet it, by far, and it
is known of each query on its way what its batches take and whether they may stay open. Then nothing is waited for.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from django.db import transaction

from dashboard.operations.latency_control.latency_problem import Measure, measure_of
from dashboard.operations.live_view.cost_learning import WARM
from dashboard.operations.models import LatencyStatus
from scheduler.contracts.reports import Reports
from scheduler.latency import limits_met
from scheduler.latency.limits_met import LimitStatus, Settled, is_beyond, state_of
from scheduler.latency.pacing import Expected, LimitOnWay, Pacing
from scheduler.latency.pacing_problem import LimitKey, Wants
from scheduler.latency.real_time import BatchModes
from scheduler.model.estate import Estate
from scheduler.model.fragment import Slot
from scheduler.model.latency_limits import LatencyLimit, from_json, to_json

TOLD_AGAIN_S = 60.0  # the latency of a limit is written so often, though nothing has changed


def beyond_reach(
    wants: Wants, now: BatchModes, free: BatchModes, *, measured: Collection[str]
) -> dict[LimitKey, bool | None]:
    """The limits that are beyond what intervals and open batches can do; None where not enough is known.

    Parameters
    ----------
    now, free : BatchModes
        With the modes in force, and with those that would be chosen. Where these differ on a limit's way they come
        first, whether they meet it or only help.
    measured : collection of str
        Queries of which it is known what their batches take, and whether they may stay open.
    """
    others, measured = now.open ^ free.open, frozenset(measured)
    return {
        key: is_beyond(limit.limit_s, free.paced.expected[want.key], other_s=want.other_s)
        and others.isdisjoint(want.way.writers) if measured.issuperset(want.way.writers) else None
        for key, (limit, want) in wants.items()}


def rows_before(wants: Wants, rows: Mapping[LimitKey, LatencyStatus]) -> dict[LimitKey, LatencyStatus]:
    """Known state of each limit: its row, wherever it stood in the list; of a new one the row that is in its place."""
    by_limit: dict[tuple[str, str], LatencyStatus] = {}
    for (name, _), row in rows.items():
        by_limit.setdefault((name, json.dumps(row.limit)), row)
    by_key = {}
    for key, (limit, _) in wants.items():
        in_place, written = rows.get(key), to_json((limit,))
        row = in_place if in_place is not None and in_place.limit == written else by_limit.get(
            (key[0], json.dumps(written)), in_place)
        if row is not None:
            by_key[key] = row
    return by_key


def store_statuses(
    wants: Wants, paced: Pacing, rows: Mapping[LimitKey, LatencyStatus], *, settled: Mapping[Measure, Settled],
    beyond: Mapping[LimitKey, bool | None], at: datetime,
) -> list[LatencyStatus]:
    """Write what has changed of the limits, and forget those that are gone; gives the rows as they are now stored.

    Parameters
    ----------
    paced : Pacing
        The intervals that were chosen, and the latencies of limits with them.
    """
    fresh, stored, before = [], [], rows_before(wants, rows)
    for key, (limit, want) in wants.items():
        expected, row = paced.expected[want.key], before.get(key)
        made = _status(key, limit, want, expected, settled[measure_of(key[0], limit)], row, beyond.get(key), at)
        if row is None or row.number != made.number or _differ(row, made):
            fresh.append(made)
            row = made
        stored.append(row)
    gone = [row.pk for key, row in rows.items() if key not in wants]
    if not fresh and not gone:
        return stored
    names = [name.name for name in LatencyStatus._meta.fields if name.name not in ("id", "dataflow", "number")]
    with transaction.atomic():
        LatencyStatus.objects.filter(pk__in=gone).delete()
        LatencyStatus.objects.bulk_create(
            fresh, update_conflicts=True, unique_fields=["dataflow", "number"], update_fields=names)
    return stored


def _status(
    key: LimitKey, limit: LatencyLimit, want: LimitOnWay, expected: Expected, settled: Settled,
    row: LatencyStatus | None, is_beyond_reach: bool | None, at: datetime,
) -> LatencyStatus:
    same_limit = row is not None and row.limit == to_json((limit,))
    measured_s, is_whole = settled.mean_s, settled.is_whole
    if measured_s is None and same_limit:
        measured_s, is_whole = row.measured_s, False  # while a change settles, what was known counts
    state = state_of(
        limit.limit_s, expected, measured_s, is_whole=is_whole, is_proven=same_limit and is_met_by_measurement(row))
    late_since = row.late_since if same_limit and row.late_since is not None else at
    if is_beyond_reach is None:  # batches have other intervals since, and none was seen yet: what was known counts
        is_beyond_reach = same_limit and row.hopeless and [part[0] for part in row.path] == list(expected.path)
    return LatencyStatus(
        dataflow_id=key[0], number=key[1], limit=to_json((limit,)), state=state,
        expected_s=round(expected.latency_s, 4), measured_s=None if measured_s is None else round(measured_s, 4),
        least_s=None if expected.least_s is None else round(expected.least_s, 4), other_s=round(want.other_s, 4),
        path=[[query, round(wait, 4), round(batch, 4)]
              for query, (wait, batch) in zip(expected.path, expected.parts_s, strict=True)],
        full=list(expected.full),
        since=row.since if same_limit and row.state == state else at,
        late_since=late_since if state in limits_met.LATE else None, at=at,
        hopeless=state == limits_met.IMPOSSIBLE and is_beyond_reach)


def status_of(row: LatencyStatus) -> LimitStatus | None:
    """The value that a row stands for; None of one whose limit cannot be read any more."""
    (limit,) = from_json(row.limit) or (None,)
    return limit and LimitStatus(
        str(row.dataflow_id), row.number, limit, row.state, row.expected_s, row.measured_s, row.least_s,
        tuple((query, wait_s, batch_s) for query, wait_s, batch_s in row.path),
        None if row.late_since is None else row.late_since.timestamp(), row.hopeless)


def warm_moments(reports: Reports) -> dict[str, datetime]:
    """The time when each young driver will have warmed up, by slot; drivers that have are left out."""
    moments = {}
    for node, report in reports.items():
        for index, slot in report.slots.items():
            warm_ms = (slot.since_ms or 0) + 1000 * WARM.total_seconds()
            if slot.since_ms is not None and warm_ms > report.at_ms:
                moments[Slot(node, int(index)).name] = datetime.fromtimestamp(warm_ms / 1000, UTC)
    return moments


def young_drivers(row: LatencyStatus, estate: Estate, warm_at: Mapping[str, datetime]) -> dict[str, datetime]:
    """The drivers on the slowest way of a limit that still compile, by slot, and when each will have warmed up."""
    return {bundle.slot: warm_at[bundle.slot] for query, _, _ in row.path if query in estate.fragments
            for bundle in estate.fragments[query].queries if bundle.slot in warm_at}


def told_state(row: LatencyStatus, young: Mapping[str, datetime]) -> str:
    """The state that people are told: a limit is not called impossible while a driver is young, whose batches become
    shorter. Controllers go by the row itself, for they may act at once.
    """
    return limits_met.WAITING if row.state == limits_met.IMPOSSIBLE and young else row.state


def late_limits(estate: Estate, reports: Reports) -> dict[str, LatencyStatus]:
    """The worst limit of each dataflow that is missed for as long as it is measured over, or that nothing meets."""
    worst: dict[str, LatencyStatus] = {}
    warm_at = warm_moments(reports)
    for row in LatencyStatus.objects.filter(state__in=limits_met.LATE).order_by("number"):
        if is_told_late(row, young_drivers(row, estate, warm_at)):
            key = str(row.dataflow_id)
            if key not in worst or (worst[key].state, row.state) == (limits_met.MISSED, limits_met.IMPOSSIBLE):
                worst[key] = row
    return worst


def missed_limits(rows: Iterable[LatencyStatus], estate: Estate, reports: Reports) -> dict[str, int]:
    """The number of missed or impossible limits of each dataflow that has any, as pages say."""
    warm_at = warm_moments(reports)
    counts: Counter[str] = Counter()
    for row in rows:
        counts[str(row.dataflow_id)] += is_told_late(row, young_drivers(row, estate, warm_at))
    return dict(counts)


def is_told_late(row: LatencyStatus, young: Mapping[str, datetime]) -> bool:
    """True if people are told that a limit is not met: it is missed for long, or impossible with drivers that have
    warmed up."""
    return told_state(row, young) == limits_met.IMPOSSIBLE or is_lasting(row)


def is_lasting(row: LatencyStatus) -> bool:
    """True if a limit has been missed for as long as it is measured over."""
    (limit,) = from_json(row.limit) or (None,)
    return limit is not None and row.state == limits_met.MISSED and row.late_since is not None and (
        (row.at - row.late_since).total_seconds() >= limit.over_s)


def is_met_by_measurement(row: LatencyStatus) -> bool:
    """True if a limit is met by what was measured alone: by the model it cannot be."""
    return row.state == limits_met.MET and row.least_s is not None


def _differ(row: LatencyStatus, made: LatencyStatus) -> bool:
    """True if a row is worth writing again."""
    if (row.limit, row.state, row.hopeless, row.least_s is None, [part[0] for part in row.path]) != (
            made.limit, made.state, made.hopeless, made.least_s is None, [part[0] for part in made.path]):
        return True
    if (made.at - row.at).total_seconds() >= TOLD_AGAIN_S:
        return True
    pairs: list[tuple[Any, Any]] = [
        (row.expected_s, made.expected_s), (row.measured_s, made.measured_s), (row.other_s, made.other_s)]
    return any((old is None) != (new is None) or (old is not None and abs(new - old) > 0.05 * max(abs(old), 0.05))
               for old, new in pairs)
