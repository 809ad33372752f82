"""Charging what was used: counters are read, their growth is divided, and each dataflow's part is added to its hour.

Measurements, so nothing is audited. Counters go on while the site or the broker is away: the next reading makes up for
the gap, divided by who needed which task when.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta

from django.db import transaction
from django.db.models import Q

from dashboard import jobs
from dashboard.bills.batches import Pace, batch_parts, paces_of
from dashboard.bills.charged_tasks import ChargedTask, charged_tasks
from dashboard.bills.metering import note_readings, readings_of
from dashboard.bills.models import SUMMED, NeedRow, SlotReading, UsageHour
from dashboard.bills.price_history import note_prices, prices_at
from dashboard.bills.settled import same_queries_since, settled_slots
from dashboard.bills.task_needs import note_needs_of
from dashboard.operations.estate_store.estate_reader import queries_of
from dashboard.operations.live_view.cost_learning import note_slots
from dashboard.operations.live_view.learned_costs import costs_here
from dashboard.operations.live_view.task_meters import TaskReading
from scheduler.model.amounts import Amounts
from scheduler.model.fragment import Fragment, node_of
from scheduler.performance.attribution import Counters, attribute, grown, query_work
from scheduler.performance.pricing import cost_nanos
from scheduler.reuse.cost_shares import BillShare, Need, divide

HOUR_MS = 3_600_000
KEPT = timedelta(days=400)
FORGOTTEN = timedelta(days=30)  # a slot that has not reported for so long
Tasks = Mapping[str, list[tuple[str, float, str]]]  # by fragment: running task, CPU microseconds an event, channel


def record_usage(*, at: datetime) -> int:
    """Charge what slots used since their last reading; how many slots were charged.

    Safe to repeat: what was charged is not charged again, and a reading older than the last one is left alone.

    Raises
    ------
    BrokerAway
        Nothing can be read; nothing is lost either.
    """
    fragments: dict[str, Fragment] = {}

    def look_up(ids: Collection[str]) -> Mapping[str, Fragment]:
        fragments.update(queries_of(ids))
        return fragments

    counters_now = {slot: Counters(**counters) for slot, counters in jobs.slot_counters(look_up).items()}
    with transaction.atomic():
        last = {reading.slot: reading for reading in SlotReading.objects.select_for_update()}
        fresh = {slot: counters for slot, counters in counters_now.items() if slot not in last or last[slot].at < at}
        charged = charged_tasks(fragments)
        tasks = {slot: _tasks_of(counters, fragments, charged, last.get(slot)) for slot, counters in fresh.items()}
        alternates = {
            slot: {task: charged[task].alternate for task in sorted(_ids(of_slot))
                   if task in charged and charged[task].alternate}
            for slot, of_slot in tasks.items()}
        begun = {slot: begin for slot, counters in fresh.items() if (begin := _begin(slot, counters, last, at))}
        note_needs_of(fingerprints={task for of_slot in tasks.values() for task in _ids(of_slot)}, at=at)
        growth = grown({slot: Counters(**reading.counters) for slot, reading in last.items()}, fresh)
        note_readings(
            _charge({slot: growth[slot] for slot in begun}, tasks, alternates, last, begun, until=at,
                    paces=paces_of(fragments)), at=at)
        same_since = {
            slot: same_queries_since(last.get(slot), counters, tasks[slot], alternates[slot], at=at)
            for slot, counters in fresh.items()}
        note_slots(settled_slots(
            {slot: growth[slot] for slot in begun}, tasks, fragments, charged, last, same_since, at=at), at=at)
        SlotReading.objects.bulk_create(
            [SlotReading(
                slot=slot, at=at, counters=asdict(counters), tasks=tasks[slot], alternates=alternates[slot],
                same_since=same_since[slot]) for slot, counters in fresh.items()],
            update_conflicts=True, unique_fields=["slot"],
            update_fields=["at", "counters", "tasks", "alternates", "same_since"])
        note_prices(at=at)
    return len(begun)


def _begin(
    slot: str, counters: Counters, last: Mapping[str, SlotReading], at: datetime
) -> datetime | None:
    """The moment from which a slot is charged; None for a slot that was there before the first reading."""
    began = datetime.fromtimestamp(counters.since_ms / 1000, UTC)
    if slot in last:
        is_same_process = last[slot].counters["since_ms"] == counters.since_ms
        begin = last[slot].at if is_same_process else max(last[slot].at, began)
    elif last and began >= max(reading.at for reading in last.values()):
        begin = began
    else:
        return None
    return min(begin, at - timedelta(milliseconds=1))  # a node's clock may be ahead


def _tasks_of(
    counters: Counters, fragments: Mapping[str, Fragment], charged: Mapping[str, ChargedTask], last: SlotReading | None
) -> Tasks:
    """The tasks of each query that reports: those that work or worked at the last reading, upstream first."""
    before: Tasks = {} if last is None else last.tasks
    taken: dict[str, list[tuple[str, float, str]]] = {}
    for name in counters.queries:
        fragment = fragments.get(name)
        if fragment is None:  # it is being stopped
            taken[name] = list(before.get(name, ()))
            continue
        active = max(fragment.active, len(before.get(name, ())))
        taken[name] = [
            (task, charged[task].cost_us if task in charged else 0.0, fragment.channel_of(task))
            for task in fragment.tasks[:active]
        ]
    return taken


def _charge(
    growth: Mapping[str, Counters], tasks: Mapping[str, Tasks], alternates: Mapping[str, Mapping[str, str]],
    last: Mapping[str, SlotReading], begun: Mapping[str, datetime], *, until: datetime, paces: Mapping[str, Pace],
) -> list[TaskReading]:
    """Charge what slots used; what that says of what tasks cost."""
    if not growth:
        return []
    earliest = min(begun.values())
    needs = _needs({task for slot in growth for task in _ids(tasks[slot])}, since=earliest, until=until)
    parts: list[tuple[str, BillShare]] = []
    readings: list[TaskReading] = []
    group_cpu_s = costs_here().group_cpu_s
    prices_since = {begin: prices_at(begin) for begin in set(begun.values())}
    for slot, counters in growth.items():
        prices, cpu_us = prices_since[begun[slot]], 1000 * counters.cpu_ms
        work = {query: query_work(counts, tasks[slot][query]) for query, counts in counters.queries.items()}
        used = attribute(cpu_us=cpu_us, memory_mb_s=counters.memory_mb_s, queries=list(work.values()))
        batches = batch_parts(
            work, needs, paces, cpu_us=cpu_us, over_s=(until - begun[slot]).total_seconds(), group_cpu_s=group_cpu_s)
        costs = {task: cost_nanos(amounts, node=node_of(slot), prices=prices) for task, amounts in used.items()}
        events = {task.id: (task.events, task.events_out) for done in work.values() for task in done.tasks}
        readings += readings_of(
            used, costs, needs, events, alternates[slot], last[slot].alternates if slot in last else {},
            driver_since_ms=counters.since_ms, begun=begun[slot], until=until)
        for task, amounts in used.items():
            cost = costs[task]
            of_cpu = cost_nanos(Amounts(cpu_us=amounts.cpu_us), node=node_of(slot), prices=prices)
            divided = divide(
                replace(amounts, cost_nanos=cost), needs.get(task, ()), since_ms=_ms(begun[slot]), until_ms=_ms(until),
                every_ms=HOUR_MS, batches=batches.get(task), cpu_part_of_cost=of_cpu / cost if cost else 1.0)
            parts += [(task, part) for part in divided]
    _add(parts)
    return readings


def _needs(fingerprints: Collection[str], *, since: datetime, until: datetime) -> dict[str, list[Need]]:
    rows = NeedRow.objects.filter(Q(until=None) | Q(until__gt=since), fingerprint__in=fingerprints, since__lt=until)
    needs: dict[str, list[Need]] = {}
    for row in rows:
        ended = None if row.until is None else _ms(row.until)
        needs.setdefault(row.fingerprint, []).append(Need(str(row.dataflow_id), _ms(row.since), ended))
    return needs


def _add(parts: Iterable[tuple[str, BillShare]]) -> None:
    """Add parts to the rows of their hours."""
    totals: dict[tuple[datetime, str | None, str], UsageHour] = {}
    for task, part in parts:
        hour = datetime.fromtimestamp(part.since_ms // HOUR_MS * HOUR_MS / 1000, UTC)
        fingerprint = task if part.dataflow else ""  # of what nobody needed, only the sum is kept
        key = (hour, part.dataflow, fingerprint)
        row = totals.setdefault(key, UsageHour(hour=hour, dataflow_id=part.dataflow, fingerprint=fingerprint))
        _add_to(row, part)
    rows = {
        (row.hour, str(row.dataflow_id) if row.dataflow_id else None, row.fingerprint): row
        for row in UsageHour.objects.filter(
            hour__in={key[0] for key in totals}, fingerprint__in={key[2] for key in totals})
    }
    grew = []
    for key, row in totals.items():
        if key in rows:
            for name in SUMMED:
                setattr(rows[key], name, getattr(rows[key], name) + getattr(row, name))
            grew.append(rows[key])
    # Rows that are there go through "insert or update", a tenth of the time that ``bulk_update`` takes.
    UsageHour.objects.bulk_create(
        grew, update_conflicts=True, unique_fields=["id"], update_fields=SUMMED, batch_size=1_000)
    UsageHour.objects.bulk_create((row for key, row in totals.items() if key not in rows), batch_size=1_000)


def _add_to(row: UsageHour, part: BillShare) -> None:
    ms = part.until_ms - part.since_ms
    row.cpu_us += part.pays.cpu_us
    row.memory_mb_s += part.pays.memory_mb_s
    row.traffic_bytes += part.pays.traffic_bytes
    row.disk_kb_s += part.pays.disk_kb_s
    row.cost_nanos += part.pays.cost_nanos
    row.alone_nanos += part.alone.cost_nanos
    row.needed_ms += ms
    row.user_ms += ms * part.users
    row.batches_cpu_us += part.batches.cpu_us
    row.batches_nanos += part.batches.cost_nanos
    if part.for_limit is not None:
        row.limit_cpu_us += part.for_limit.cpu_us
        row.limit_nanos += part.for_limit.cost_nanos
        row.limit_known_ms += ms


def forget_usage(at: datetime) -> int:
    """Drop what was used and needed long ago, and readings of slots that are gone; how many rows there were."""
    old = (UsageHour.objects.filter(hour__lt=at - KEPT), NeedRow.objects.filter(until__lt=at - KEPT),
           SlotReading.objects.filter(at__lt=at - FORGOTTEN))
    return sum(rows.delete()[0] for rows in old)


def _ids(tasks: Tasks) -> set[str]:
    return {task[0] for of_query in tasks.values() for task in of_query}


def _ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
