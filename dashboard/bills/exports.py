"""Bills as other programs take them: exact amounts by name, and CSV files. Pure: values in, values out."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from typing import Any

from dashboard.bills.periods import Period
from dashboard.bills.selectors import Charge, DataflowBill, TaskBill
from dashboard.core.spreadsheets import harmless
from dashboard.operations.latency_control.latency_view import limits_in_words
from scheduler.model.amounts import Amounts

NANO = 1_000_000_000


def bills_csv(rows: Iterable[DataflowBill], *, period: Period, currency: str) -> str:
    """One line a dataflow; money exact to the billionth."""
    return _csv(
        {"from": str(period.first), "to": str(period.last), "team": row.dataflow.team.slug,
         "dataflow": row.dataflow.name, "dataflow_id": str(row.dataflow.pk), **amounts_of(row.charge),
         "latency_limit": limits_in_words(row.dataflow), "currency": currency}
        for row in rows)


def bill_csv(rows: Iterable[TaskBill], *, period: Period, currency: str) -> str:
    """One line a task of a dataflow."""
    return _csv(
        {"from": str(period.first), "to": str(period.last), "task": row.task, "type": row.type,
         "users": round(row.charge.users, 3), **amounts_of(row.charge), "currency": currency}
        for row in rows)


def amounts_of(charge: Charge) -> dict[str, Any]:
    """A charge by the names that files and the API have for its parts; what is not known is None."""
    latency = charge.latency if charge.latency_known else None
    return {
        "core_hours": _core_hours(charge.used),
        "memory_gib_hours": round(charge.used.memory_mb_s / 1024 / 3600, 9),
        "traffic_bytes": charge.used.traffic_bytes,
        "disk_gb_hours": round(charge.used.disk_kb_s / 1_000_000 / 3600, 9),
        "pays": exact(charge.pays_nanos), "alone": exact(charge.alone_nanos), "saved": exact(charge.saved_nanos),
        "batches_core_hours": latency and _core_hours(latency.batches),
        "batches_pays": latency and exact(latency.batches.cost_nanos),
        "latency_core_hours": latency and _core_hours(latency.for_limit),
        "latency_pays": latency and exact(latency.for_limit.cost_nanos),
        "latency_known": round(charge.latency_known, 4),
    }


def _core_hours(used: Amounts) -> float:
    return round(used.cpu_us / 3_600_000_000, 9)


def exact(nanos: int) -> str:
    """Billionths as a decimal, all nine digits."""
    sign, nanos = ("-" if nanos < 0 else ""), abs(nanos)
    return f"{sign}{nanos // NANO}.{nanos % NANO:09d}"


def _csv(rows: Iterable[Mapping[str, Any]]) -> str:
    rows = list(rows)
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]) if rows else ["from", "to"])
    writer.writeheader()
    for row in rows:
        writer.writerow({name: harmless(value) for name, value in row.items()})
    return text.getvalue()
