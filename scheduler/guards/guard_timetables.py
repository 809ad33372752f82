"""Hours, weekdays and named days on the clocks of a time zone: whether it is so at a moment, and until when."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, date, datetime, time, timedelta
from math import inf
from typing import Any
from zoneinfo import ZoneInfo

from .guard_reading import WEEKDAYS
from .guard_tree import DAY_MS, GuardNode


class Timetable:
    """A condition on the local time of a zone: hours, weekdays or days. It follows from the moment alone.

    ``due`` is a moment up to which the answer holds, in ms since the epoch; a day ahead at most.
    """

    def __init__(self, node: GuardNode, days: Collection[date]) -> None:
        *written, zone = node.value if isinstance(node.value, tuple) else ()
        self.word, self.days, self.zone = node.word, days, ZoneInfo(str(zone))
        self.first, self.last = (written[0], written[1]) if len(written) == 2 else ("", "")
        self.due: float = -inf
        self.is_on = False

    def refresh(self, values: Sequence[Any], now_ms: int) -> bool:
        """True if it is so at a moment."""
        if self.due <= now_ms:
            local = datetime.fromtimestamp(now_ms / 1000, UTC).astimezone(self.zone)
            self.is_on = self._is_on(local)
            self.due = min(at_ms for at_ms in self._changes(local, now_ms) if at_ms > now_ms)
        return self.is_on

    def _is_on(self, local: datetime) -> bool:
        if self.word == "days":
            return local.date() in self.days
        if self.word == "weekdays":
            first, last = WEEKDAYS.index(self.first), WEEKDAYS.index(self.last)
            return (local.weekday() - first) % 7 <= (last - first) % 7
        clock = f"{local:%H:%M}"
        if self.first < self.last:
            return self.first <= clock < self.last
        return clock >= self.first or clock < self.last  # over midnight; all day where both are equal

    def _changes(self, local: datetime, now_ms: int) -> list[int]:
        """Moments at which it may change: times of day, midnights, and where clocks are set; the last one is a day
        ahead."""
        moments = [now_ms + DAY_MS]
        clocks = [self.first, self.last] if self.word == "hours" else []
        for day in range(-1, 3):
            for clock in {"00:00", *clocks} - {"24:00"}:
                at = datetime.combine(
                    local.date() + timedelta(days=day), time.fromisoformat(clock), tzinfo=self.zone)
                moments += [_ms(at), _ms(at.replace(fold=1))]
        if self._offset(now_ms) != self._offset(now_ms + DAY_MS):
            before, after = now_ms, now_ms + DAY_MS
            while after - before > 1:
                middle = (before + after) // 2
                if self._offset(middle) == self._offset(now_ms):
                    before = middle
                else:
                    after = middle
            moments.append(after)
        return moments

    def _offset(self, at_ms: int) -> timedelta | None:
        return datetime.fromtimestamp(at_ms / 1000, self.zone).utcoffset()

    def dump(self) -> list[Any]:
        """The empty state."""
        return []

    def load(self, state: Sequence[Any]) -> None:
        """Load nothing: it has no state."""


def _ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)
