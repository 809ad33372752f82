"""Meters of running tasks: what each was charged, smoothed, and what was billed for it. Measurements, so not audited.

Whoever charges for slots reads them here, for the same counters tell both; whoever prices what runs looks them up.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta

from dashboard.operations.models import TaskMeter
from scheduler.model.cost_figures import CostMeter
from scheduler.performance.alternates_at_work import meter_key
from scheduler.performance.running_costs import metered

KEPT = timedelta(days=35)  # after the last reading: so long a pause may last, and its price is known still


@dataclass(frozen=True, slots=True)
class TaskReading:
    """The charge of a running task over some seconds on one slot: CPU cores and money an hour; whether that says what
    it costs for good; events per second that it took and gave; and of a dynamic one the alternate that was on."""

    task_id: str
    cores: float
    per_hour: float
    seconds: float
    has_settled: bool
    in_per_s: float | None = None
    out_per_s: float | None = None
    alternate: str = ""

    @property
    def key(self) -> str:
        """The key of its meter."""
        return meter_key(self.task_id, self.alternate)


@dataclass(frozen=True, slots=True)
class BilledHours:
    """The billed amounts of a running task in whole hours, by all who needed it: as an average, and since when."""

    seconds: float
    cores: float
    per_hour: float
    since: datetime


def meters_of(keys: Collection[str]) -> dict[str, CostMeter]:
    """Meters of running tasks, by what they are looked up by (`meter_key`); there is none of what was not metered."""
    rows = TaskMeter.objects.filter(pk__in=list(keys)).values_list("fingerprint", "meter")
    return {key: CostMeter(**meter) for key, meter in rows}


def note_meters(readings: Iterable[TaskReading], *, billed: Mapping[str, BilledHours], at: datetime) -> int:
    """Take readings in, with what was billed of these tasks since; how many were metered."""
    readings = _by_task(readings)
    if not readings:
        return 0
    before = meters_of({reading.key for reading in readings})
    rows = []
    for reading in readings:
        meter = metered(
            before.get(reading.key), cores=reading.cores, per_hour=reading.per_hour, seconds=reading.seconds,
            at_ms=_ms(at), in_per_s=reading.in_per_s, out_per_s=reading.out_per_s)
        hours = billed.get(reading.key)
        if hours is not None:
            meter = replace(
                meter, billed_s=hours.seconds, billed_cores=hours.cores, billed_per_hour=hours.per_hour,
                billed_since_ms=_ms(hours.since))
        rows.append(TaskMeter(fingerprint=reading.key, at=at, meter=asdict(meter)))
    TaskMeter.objects.bulk_create(
        rows, update_conflicts=True, unique_fields=["fingerprint"], update_fields=["at", "meter"], batch_size=1_000)
    TaskMeter.objects.filter(at__lt=at - KEPT).delete()
    return len(rows)


def _by_task(readings: Iterable[TaskReading]) -> list[TaskReading]:
    """One reading a task, of all slots that a schedule divides it among; none where it has not settled on all."""
    by_task: dict[str, list[TaskReading]] = {}
    for reading in readings:
        by_task.setdefault(reading.task_id, []).append(reading)
    return [
        TaskReading(
            task_id, sum(part.cores for part in parts), sum(part.per_hour for part in parts),
            max(part.seconds for part in parts), has_settled=True,
            in_per_s=_summed(part.in_per_s for part in parts), out_per_s=_summed(part.out_per_s for part in parts),
            alternate=parts[0].alternate)
        for task_id, parts in by_task.items() if all(part.has_settled for part in parts)]


def _summed(figures: Iterable[float | None]) -> float | None:
    listed = list(figures)
    return None if None in listed else sum(figure for figure in listed if figure is not None)


def _ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
