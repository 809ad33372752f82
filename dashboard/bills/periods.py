"""Periods of bills: today, 7 days, this month, or two dates; all in UTC, whole days."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from dashboard.core.http_errors import BadInput

LONGEST_DAYS = 400  # as long as bills are kept
NAMES = {"today": "Today", "7d": "7 days", "month": "This month", "custom": "Other dates"}


@dataclass(frozen=True, slots=True)
class Period:
    """A period from the beginning of a day until before the beginning of another."""

    name: str
    since: datetime
    until: datetime

    @property
    def first(self) -> date:
        return self.since.date()

    @property
    def last(self) -> date:
        """The last day that belongs to it."""
        return (self.until - timedelta(days=1)).date()

    @property
    def query(self) -> str:
        """Its part of an address."""
        dates = f"&from={self.first}&to={self.last}" if self.name == "custom" else ""
        return f"period={self.name}{dates}"


def period_of(name: str, *, first: str = "", last: str = "", now: datetime) -> Period:
    """The period of a name, or between two dates, the last one included.

    Raises
    ------
    BadInput
        There is no such period; what is wrong and what would be right.
    """
    today = now.astimezone(UTC).date()
    name = name or ("custom" if first or last else "7d")
    if name == "custom":
        return _between(_day(first, "from"), _day(last, "to"))
    if name not in NAMES:
        raise BadInput(
            f"There is no period {name!r}.", remedy=f"Choose one of {', '.join(NAMES)}.", parameter="period")
    begin = {"today": today, "7d": today - timedelta(days=6), "month": today.replace(day=1)}[name]
    return Period(name, _midnight(begin), _midnight(today + timedelta(days=1)))


def _between(first: date, last: date) -> Period:
    if last < first:
        raise BadInput(
            f"The period ends ({last}) before it begins ({first}).", remedy="Exchange the two dates.", parameter="to")
    if (last - first).days >= LONGEST_DAYS:
        raise BadInput(
            f"The period is {(last - first).days + 1} days long.",
            remedy=f"Choose at most {LONGEST_DAYS} days: bills are kept that long.", parameter="from")
    return Period("custom", _midnight(first), _midnight(last + timedelta(days=1)))


def _day(text: str, parameter: str) -> date:
    try:
        day = date.fromisoformat(text)
        if not 2000 <= day.year < 9000:  # a day later must be a date, too
            raise ValueError
    except ValueError:
        raise BadInput(
            f"{parameter}={text!r} is no date." if text else f"The date {parameter} is missing.",
            remedy=f"Give {parameter} as year-month-day, such as 2026-01-31.", parameter=parameter) from None
    return day


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)
