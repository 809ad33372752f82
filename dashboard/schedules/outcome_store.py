"""Measurements of schedules: readings while one runs, and one row that stays when it has ended."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Max

from dashboard.catalog.lifecycle import RUNNING
from dashboard.catalog.models import DataflowRecord
from dashboard.operations.live_view.estate_view import View, view_for
from dashboard.operations.live_view.telemetry import EVERYTHING
from dashboard.schedules.measurements import driver_cpu, seen_now, typical
from dashboard.schedules.models import KeptOutcome, ScheduleReading
from dashboard.schedules.promised_bundles import fragments_of, stands
from dashboard.schedules.promises import PromiseInForce, in_force
from dashboard.schedules.schedule_status import steady_since, unsettled_fragments
from scheduler.performance.seen import DataflowSeen

SETTLES = timedelta(seconds=90)  # after a change, what is measured is that of its beginning: drivers compile their code
WINDOW = timedelta(minutes=15)
ENOUGH = 3  # readings: fewer are chance

Stretch = tuple[UUID, datetime]  # a proposal's schedule, and since when it has run unchanged


@dataclass(frozen=True)
class MeasuredOutcome:
    """The measurements of a schedule in the last minutes of one time that it ran.

    ``since``: the last change; ``begins``, ``ends``: of the readings; ``recent``: the newest few of them, None if
    unknown; ``history``: the columns ``at``, ``rate_per_s`` and ``latency_s``.
    """

    readings: int = 0
    since: datetime | None = None
    begins: datetime | None = None
    ends: datetime | None = None
    seen: DataflowSeen = field(default_factory=DataflowSeen)
    recent: DataflowSeen | None = None
    history: Mapping[str, Sequence[Any]] = field(
        default_factory=lambda: {"at": [], "rate_per_s": [], "latency_s": []})

    @property
    def judged(self) -> bool:
        """True if there are enough readings to judge by."""
        return self.readings >= ENOUGH


def record_readings(*, at: datetime) -> int:
    """Keep what is measured of each dataflow that runs by a schedule; how many were kept.

    Nothing is kept while its bundles differ from the schedule or are being changed, also by dataflows that share them.
    Readings older than the window are deleted, and stretches that have ended are folded.
    """
    going = [str(pk) for pk in DataflowRecord.objects.filter(status=RUNNING).values_list("pk", flat=True)]
    if not in_force(going) and not ScheduleReading.objects.exists():
        return 0  # nothing runs by a schedule: the estate need not be looked at
    view = view_for(EVERYTHING)
    running = [key for key, record in view.records.items() if record.status == RUNNING]
    # After the estate was read: a plan that comes in between is under way by now, and nothing is read of its dataflow.
    steady = steady_since(running)
    promised = _as_promised(view, {key: plan for key, plan in in_force(running).items() if key in steady}, at=at)
    readings = []
    if view.reading.measured:
        base_cpu = driver_cpu()
        readings = [
            ScheduleReading(proposal_id=plan.proposal_id, since=steady[key], at=at,
                    seen=asdict(seen_now(view, key, plan.promise, base_cpu=base_cpu)))
            for key, plan in promised.items() if at >= steady[key] + SETTLES]
    ScheduleReading.objects.bulk_create(readings)
    ScheduleReading.objects.filter(
        proposal__in=[reading.proposal_id for reading in readings], at__lt=at - WINDOW).delete()
    _fold_what_is_over({(plan.proposal_id, steady[key]) for key, plan in promised.items()})
    return len(readings)


def _as_promised(view: View, promised: Mapping[str, PromiseInForce], *, at: datetime) -> dict[str, PromiseInForce]:
    """The promises whose bundles run as promised, and were not changed within `SETTLES`."""
    unsettled = unsettled_fragments(since=at - SETTLES)
    adopted = {}
    for key, plan in promised.items():
        fragments = {fragment.id for fragment in fragments_of(view.estate, key, plan.promise).values()}
        if unsettled.isdisjoint(fragments) and stands(view.estate, key, plan.promise):
            adopted[key] = plan
    return adopted


def measured_of(proposal_id: UUID, *, since: datetime | None) -> MeasuredOutcome:
    """The measurements of a schedule.

    Taken from the stretch that began ``since``, if it has enough readings; else from the last stretch that had enough;
    without any of these, from the few readings that there are.
    """
    stretches: dict[datetime, list[ScheduleReading]] = {}
    for reading in ScheduleReading.objects.filter(proposal=proposal_id).order_by("at"):
        stretches.setdefault(reading.since, []).append(reading)
    going = stretches.get(since, []) if since else []
    enough = [stretch for stretch in stretches.values() if len(stretch) >= ENOUGH]
    if len(going) >= ENOUGH:
        return _measured(going)
    if enough:
        return _measured(enough[-1])
    row = KeptOutcome.objects.filter(proposal=proposal_id).first()  # last: what is folded meanwhile is there
    if row is not None and (row.readings >= ENOUGH or since is None):
        return kept_in(row)
    if since is None and stretches:
        return _measured(list(stretches.values())[-1])
    return _measured(going) if going else MeasuredOutcome(since=since)


def kept_in(row: KeptOutcome) -> MeasuredOutcome:
    """The outcome that a row keeps."""
    return MeasuredOutcome(row.readings, row.since, row.begins, row.ends, typical([row.seen]), history=row.history)


def _measured(readings: Sequence[ScheduleReading]) -> MeasuredOutcome:
    """The outcome of one stretch from its last readings; they come oldest first, and there is at least one."""
    shown = [reading for reading in readings if reading.at >= readings[-1].at - WINDOW]
    return MeasuredOutcome(
        len(shown), shown[-1].since, shown[0].at, shown[-1].at, typical(reading.seen for reading in shown),
        typical(reading.seen for reading in shown[-ENOUGH:]), {
            "at": [reading.at.isoformat() for reading in shown],
            "rate_per_s": [reading.seen["rate_per_s"] for reading in shown],
            "latency_s": [reading.seen["latency_s"] for reading in shown]})


def _fold_what_is_over(going: Collection[Stretch]) -> None:
    """Fold the readings of each stretch that has ended, oldest first: a schedule keeps its last one."""
    stretches = ScheduleReading.objects.order_by().values_list("proposal_id", "since").annotate(ends=Max("at"))
    for proposal_id, since, _ in sorted(stretches, key=lambda stretch: stretch[2]):
        if (proposal_id, since) not in going:
            _fold(proposal_id, since)


def _fold(proposal_id: UUID, since: datetime) -> None:
    """Replace the readings of an ended time by one row, in one transaction; an interrupted one is repeated.

    Too few readings do not replace an earlier time's row, unless that rests on too few itself.
    """
    with transaction.atomic():
        stretches = list(
            ScheduleReading.objects.select_for_update().filter(proposal=proposal_id, since=since).order_by("at"))
        if not stretches:  # somebody else was first
            return
        new, row = _measured(stretches), KeptOutcome.objects.filter(proposal=proposal_id).first()
        if row is None or new.judged or row.readings < ENOUGH:
            KeptOutcome.objects.update_or_create(proposal_id=proposal_id, defaults={
                "since": new.since, "begins": new.begins, "ends": new.ends, "readings": new.readings,
                "seen": asdict(new.seen), "history": dict(new.history)})
        ScheduleReading.objects.filter(pk__in=[reading.pk for reading in stretches]).delete()
