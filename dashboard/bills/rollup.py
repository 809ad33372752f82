"""Rolling up charges: rows of hours become rows of days, with the same sums."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, time, timedelta

from django.db import transaction
from django.db.models import Sum

from dashboard.bills.models import SUMMED, UsageHour

BY_HOUR = timedelta(days=35)  # a month, by the hour: what bills show so is two days at most


def roll_up_days(at: datetime) -> int:
    """Make one row a day of the rows of its hours, for each dataflow and task; how many rows went.

    Whole days only, each in one transaction: a period of bills is of whole days, so no bill changes.
    """
    return sum(_roll_up(day) for day in _days_by_hour(before=at - BY_HOUR))


def _days_by_hour(*, before: datetime) -> Iterator[datetime]:
    end = datetime.combine(before.astimezone(UTC).date(), time(), UTC)
    yield from UsageHour.objects.filter(hour__lt=end).exclude(hour__hour=0).datetimes("hour", "day", tzinfo=UTC)


def _roll_up(day: datetime) -> int:
    with transaction.atomic():
        rows = UsageHour.objects.filter(hour__gte=day, hour__lt=day + timedelta(days=1))
        totals = list(rows.values("dataflow_id", "fingerprint").annotate(
            **{name: Sum(name) for name in SUMMED}).order_by())
        before = rows.delete()[0]
        UsageHour.objects.bulk_create((UsageHour(hour=day, **total) for total in totals), batch_size=1_000)
    return before - len(totals)
