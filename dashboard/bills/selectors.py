"""Reading bills, as far as they are the viewer's.

For pages and API:

- ``bills(viewer, period, team)``: a row for each dataflow that paid, with its amounts
- ``bill_of(viewer, dataflow_id, period)``: a row for each task of one dataflow, with its share
- ``cost_history(viewer, period, team, dataflow_id)``: columns over time for a plot
- ``changes_by_others(viewer, period, team)``: bills that others' plans changed
- ``nobodys(viewer, period)``: what slots used for nobody, for administrators

Amounts are whole numbers (``scheduler.model.amounts``), so that rows add up to totals exactly.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import QuerySet, Sum

from dashboard.audit.models import AuditEntry
from dashboard.audit.selectors import entries_for
from dashboard.bills.models import SUMMED, NeedRow, UsageHour
from dashboard.bills.periods import Period
from dashboard.bills.permissions import bill_for, billed_to
from dashboard.catalog.models import DataflowRecord
from dashboard.catalog.permissions import visible_to
from dashboard.teams.permissions import Viewer
from scheduler.model.amounts import Amounts

BY_HOUR_UP_TO = timedelta(days=2)
_AMOUNTS = ("cpu_us", "memory_mb_s", "traffic_bytes", "disk_kb_s", "cost_nanos")
_SUMS = {name: Sum(name) for name in SUMMED}


@dataclass(frozen=True, slots=True)
class ForLatency:
    """The part of batches in a charge, and the part of latency limits in that: CPU and money.

    ``known_ms`` is for how much of the time that is known; hours from before it was told apart have nothing of it.
    """

    batches: Amounts = field(default_factory=Amounts)
    for_limit: Amounts = field(default_factory=Amounts)
    known_ms: int = 0

    def __add__(self, other: ForLatency) -> ForLatency:
        return ForLatency(
            self.batches + other.batches, self.for_limit + other.for_limit, self.known_ms + other.known_ms)


@dataclass(frozen=True, slots=True)
class Charge:
    """A share in a cost: the usage, its price, the price if it had been alone, and the part of it for latency."""

    used: Amounts = field(default_factory=Amounts)
    alone_nanos: int = 0
    needed_ms: int = 0
    user_ms: int = 0
    latency: ForLatency = field(default_factory=ForLatency)

    def __add__(self, other: Charge) -> Charge:
        return Charge(
            self.used + other.used, self.alone_nanos + other.alone_nanos, self.needed_ms + other.needed_ms,
            self.user_ms + other.user_ms, self.latency + other.latency)

    @property
    def pays_nanos(self) -> int:
        return self.used.cost_nanos

    @property
    def saved_nanos(self) -> int:
        return self.alone_nanos - self.used.cost_nanos

    @property
    def saved_share(self) -> float:
        """The saving by sharing, as a part of the cost alone."""
        return self.saved_nanos / self.alone_nanos if self.alone_nanos else 0.0

    @property
    def limit_nanos(self) -> int:
        """The payment for its latency limits, as far as that is known."""
        return self.latency.for_limit.cost_nanos

    @property
    def limit_share(self) -> float:
        """The part of its latency limits in its payment."""
        return self.limit_nanos / self.pays_nanos if self.pays_nanos else 0.0

    @property
    def latency_known(self) -> float:
        """The part of the time for which the part for latency is known, from 0 to 1;"""
        return self.latency.known_ms / self.needed_ms if self.needed_ms else 1.0

    @property
    def users(self) -> float:
        """The mean number of users over the time that this one did; 0 where it is not one task's."""
        return self.user_ms / self.needed_ms if self.needed_ms else 0.0


@dataclass(frozen=True, slots=True)
class DataflowBill:
    """A dataflow's part of a bill."""

    dataflow: DataflowRecord
    charge: Charge


@dataclass(frozen=True, slots=True)
class TaskBill:
    """A task's part of a dataflow's bill; ``others`` are the dataflows that needed it too and that the viewer may
    know of, ``needed`` whether it still runs for this one."""

    task: str
    type: str
    fingerprint: str
    charge: Charge
    needed: bool
    others: tuple[DataflowRecord, ...] = ()


def bills(viewer: Viewer, period: Period, *, team: str = "") -> list[DataflowBill]:
    """A row for each dataflow that had a part in anything, the dearest first."""
    sums = _usage(viewer, period, team=team).values("dataflow").annotate(**_SUMS).order_by()
    charges = {row["dataflow"]: _charge(row) for row in sums}
    records = DataflowRecord.objects.filter(pk__in=charges).select_related("team")
    rows = [DataflowBill(record, charges[record.pk]) for record in records]
    return sorted(rows, key=lambda row: (-row.charge.pays_nanos, row.dataflow.name))


def bill_of(viewer: Viewer, dataflow_id: UUID | str, period: Period) -> tuple[DataflowRecord, list[TaskBill]]:
    """A dataflow and a row for each of its tasks, the dearest first; ``NotFound`` where it is not the viewer's."""
    record = bill_for(viewer, dataflow_id)
    sums = _in(period).filter(dataflow=record).values("fingerprint").annotate(**_SUMS).order_by()
    charges = {row["fingerprint"]: _charge(row) for row in sums}
    needs: dict[str, NeedRow] = {need.fingerprint: need for need in record.needs.order_by("since")}
    others = _other_dataflows(viewer, record, charges, period)
    rows = [
        TaskBill(
            task=needs[fingerprint].task_id, type=needs[fingerprint].type, fingerprint=fingerprint, charge=charge,
            needed=needs[fingerprint].until is None, others=others.get(fingerprint, ()))
        for fingerprint, charge in charges.items() if fingerprint in needs
    ]
    return record, sorted(rows, key=lambda row: (-row.charge.pays_nanos, row.task))


def total(charges: Iterable[Charge]) -> Charge:
    """Charges together."""
    return sum(charges, Charge())


def cost_history(
    viewer: Viewer, period: Period, *, team: str = "", dataflow_id: UUID | str | None = None
) -> dict[str, list[Any]]:
    """Columns over time: ``at`` in ISO 8601, ``pays_nanos``, ``alone_nanos``, and ``latency_nanos`` of what is paid.

    From the first charge to the last, by the hour, or by the day where that is more than two days; a time without any
    charge is zero. The part for latency is None if it was not measured.
    """
    usage = _usage(viewer, period, team=team)
    if dataflow_id is not None:
        usage = _in(period).filter(dataflow=bill_for(viewer, dataflow_id))
    rows = list(usage.values("hour").annotate(
        pays=Sum("cost_nanos"), alone=Sum("alone_nanos"), limit=Sum("limit_nanos"), known_ms=Sum("limit_known_ms"),
    ).order_by("hour"))
    moments: list[datetime] = []
    sums: dict[datetime, tuple[int, int, int, int]] = {}
    if rows:
        # Of old days there is nothing but their sums.
        by_day = rows[-1]["hour"] - rows[0]["hour"] > BY_HOUR_UP_TO or all(row["hour"].hour == 0 for row in rows)
        for row in rows:
            at = row["hour"].replace(hour=0) if by_day else row["hour"]
            pays, alone, limit, known_ms = sums.get(at, (0, 0, 0, 0))
            sums[at] = pays + row["pays"], alone + row["alone"], limit + row["limit"], known_ms + row["known_ms"]
        step, at = timedelta(days=1) if by_day else timedelta(hours=1), min(sums)
        while at <= max(sums):
            moments.append(at)
            at += step
    columns = [sums.get(at, (0, 0, 0, 1)) for at in moments]
    return {
        "at": [at.isoformat() for at in moments],
        "pays_nanos": [pays for pays, _, _, _ in columns],
        "alone_nanos": [alone for _, alone, _, _ in columns],
        "latency_nanos": [limit if known_ms else None for _, _, limit, known_ms in columns],
    }


def nobodys(viewer: Viewer, period: Period) -> Charge:
    """The use of slots while no dataflow needed it; nothing for anybody but administrators of the installation."""
    if not viewer.superuser:
        return Charge()
    sums = _in(period).filter(dataflow=None).aggregate(**_SUMS)
    return _charge({name: value or 0 for name, value in sums.items()})


def changes_by_others(viewer: Viewer, period: Period, *, team: str = "") -> QuerySet[AuditEntry]:
    """The changes by others' plans in the bills of the viewer's teams, newest first: ``team``, ``details.of`` (whose
    plan it was) and ``details.money_per_hour``, as it was estimated."""
    entries = entries_for(viewer).filter(verb="bill.change", at__gte=period.since, at__lt=period.until)
    return entries.filter(team__slug=team) if team else entries


def _in(period: Period) -> QuerySet[UsageHour]:
    return UsageHour.objects.filter(hour__gte=period.since, hour__lt=period.until)


def _usage(viewer: Viewer, period: Period, *, team: str) -> QuerySet[UsageHour]:
    hours = _in(period).filter(billed_to(viewer))
    return hours.filter(dataflow__team__slug=team) if team else hours


def _charge(row: dict[str, Any]) -> Charge:
    return Charge(
        used=Amounts(*(row[name] for name in _AMOUNTS)), alone_nanos=row["alone_nanos"], needed_ms=row["needed_ms"],
        user_ms=row["user_ms"], latency=ForLatency(
            Amounts(cpu_us=row["batches_cpu_us"], cost_nanos=row["batches_nanos"]),
            Amounts(cpu_us=row["limit_cpu_us"], cost_nanos=row["limit_nanos"]), row["limit_known_ms"]))


def _other_dataflows(
    viewer: Viewer, record: DataflowRecord, fingerprints: Iterable[str], period: Period
) -> dict[str, tuple[DataflowRecord, ...]]:
    """The other dataflows that had a part in each running task, as far as the viewer may know of them."""
    rows = _in(period).filter(
        visible_to(viewer, through="dataflow__"), fingerprint__in=list(fingerprints), dataflow__isnull=False
    ).exclude(dataflow=record).values_list("fingerprint", "dataflow").distinct()
    pairs = list(rows)
    records = {
        record.pk: record
        for record in DataflowRecord.objects.filter(pk__in={pk for _, pk in pairs}).select_related("team")
    }
    users_by_key: dict[str, list[DataflowRecord]] = {}
    for fingerprint, pk in pairs:
        users_by_key.setdefault(fingerprint, []).append(records[pk])
    return {
        fingerprint: tuple(sorted(users, key=lambda user: (user.name, str(user.pk))))
        for fingerprint, users in users_by_key.items()
    }
