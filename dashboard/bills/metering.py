"""Metering: what running tasks are charged, reading by reading, once it says what they cost for good."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

from django.db.models import Max, Sum

from dashboard.bills.models import UsageHour
from dashboard.operations.live_view.cost_learning import SETTLED, WARM
from dashboard.operations.live_view.task_meters import BilledHours, TaskReading, note_meters
from dashboard.operations.models import TaskMeter
from scheduler.model.amounts import Amounts
from scheduler.model.warm_up import warming_of
from scheduler.reuse.cost_shares import Need

BILLED_OVER = timedelta(hours=24)


def readings_of(
    used: Mapping[str, Amounts], costs: Mapping[str, int], needs: Mapping[str, Iterable[Need]],
    events: Mapping[str, tuple[int, int]], on: Mapping[str, str], was_on: Mapping[str, str], *, driver_since_ms: int,
    begun: datetime, until: datetime,
) -> list[TaskReading]:
    """The charges of needed tasks of a slot, and whether they have settled on a driver that is warm.

    Compilers work for minutes after a driver's start, and after that of a query: bills have that, and what a task costs
    for good has not.

    Parameters
    ----------
    used, costs : mapping
        The amounts and the cost (billionths of the currency) of each running task between the two moments.
    on, was_on : mapping of str to str
        The alternates of dynamic tasks that are on, and those that were at the first moment: what was switched has not
        settled, nor has what warms another one up.
    driver_since_ms : int
        The start of the slot's process, in ms since the epoch.
    """
    is_warm = begun - datetime.fromtimestamp(driver_since_ms / 1000, UTC) >= WARM
    seconds, settled_ms = (until - begun).total_seconds(), int((begun - SETTLED).timestamp() * 1000)
    return [
        TaskReading(
            task, amounts.cpu_us / 1e6 / seconds, costs[task] / 1e9 * 3600 / seconds, seconds,
            is_warm and on.get(task) == was_on.get(task) and not warming_of(on.get(task))
            and any(need.since_ms <= settled_ms and need.until_ms is None for need in needs[task]),
            *(count / seconds for count in events[task]), on.get(task, ""))
        for task, amounts in used.items() if needs.get(task)]


def note_readings(readings: Iterable[TaskReading], *, at: datetime) -> int:
    """Take readings into the meters of their tasks, once an hour with what was billed of these; how many were."""
    readings = list(readings)
    hour = at.replace(minute=0, second=0, microsecond=0)
    keys = {reading.key: reading for reading in readings}
    for noted in TaskMeter.objects.filter(pk__in=keys, at__gte=hour).values_list("pk", flat=True):
        del keys[noted]
    alone_since = {reading.task_id: _alone_since(reading) for reading in keys.values()}
    billed = _billed(alone_since, until=hour)
    return note_meters(
        readings, at=at, billed={key: billed[task.task_id] for key, task in keys.items() if task.task_id in billed})


def _alone_since(reading: TaskReading) -> datetime | None:
    """The last time when another alternate of a dynamic task was metered; None where none was."""
    if not reading.alternate:
        return None
    others = TaskMeter.objects.filter(pk__startswith=f"{reading.task_id}/").exclude(pk=reading.key)  # of `meter_key`
    return others.aggregate(newest=Max("at"))["newest"]


def _billed(alone_since: Mapping[str, datetime | None], *, until: datetime) -> dict[str, BilledHours]:
    """The billed amounts of tasks in the clock hours of the last day that are over, by all who needed them; of a
    dynamic one in those since another alternate was on."""
    sums: dict[str, list[tuple[datetime, int, int, int]]] = {}
    rows = UsageHour.objects.filter(
        fingerprint__in=list(alone_since), hour__lt=until, hour__gte=until - BILLED_OVER, dataflow__isnull=False)
    for task, hour, needed_ms, cpu_us, nanos in rows.values_list("fingerprint", "hour").annotate(
            needed=Max("needed_ms"), cpu=Sum("cpu_us"), cost=Sum("cost_nanos")).order_by():
        if (since := alone_since[task]) is None or hour > since:
            sums.setdefault(task, []).append((hour, needed_ms, cpu_us, nanos))
    return {
        task: BilledHours(
            needed_ms / 1000, sum(row[2] for row in hours) / 1000 / needed_ms,
            sum(row[3] for row in hours) / 1e9 * 3_600_000 / needed_ms, min(row[0] for row in hours))
        for task, hours in sums.items() if (needed_ms := sum(row[1] for row in hours))}
