"""The ranges of time that charts show, by the word in a page's address (``?range=``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dashboard.operations.history import Range
from scheduler.history.series import MINUTE, SECOND, Grain


@dataclass(frozen=True, slots=True)
class ChartRange:
    """A range up to now: so many seconds, read in a grain, drawn as so many points, fetched anew every so often."""

    name: str
    title: str
    length_s: int
    grain: Grain
    points: int
    every_s: int

    def until(self, now_s: int) -> Range:
        """The range that ends now."""
        return Range(now_s - self.length_s, now_s, self.grain, self.points)


# A day in minutes is 1,440 points; nobody sees more on a chart, and ten times as many are read and sent for it.
RANGES: Mapping[str, ChartRange] = {chosen.name: chosen for chosen in (
    ChartRange("15m", "15 minutes", 15 * 60, SECOND, 450, 5),
    ChartRange("24h", "24 hours", 24 * 3600, MINUTE, 720, 30),
    ChartRange("90d", "90 days", 90 * 24 * 3600, MINUTE, 1080, 300))}
DEFAULT = RANGES["15m"]


def range_named(name: str) -> ChartRange:
    """The range of a word in an address; the default where there is no such one."""
    return RANGES.get(name, DEFAULT)
