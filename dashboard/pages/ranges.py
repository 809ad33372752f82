"""The range of time that a page's charts show, and the earlier one that is laid over it, by the words of its address.

``?range=1h`` ends now and moves on; ``?from=…&to=…`` (ISO 8601, UTC) stands still; ``&over=day`` lays the same time a
day before over it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import urlencode

from dashboard.operations.live_view.estate_history import InvalidRange, Range
from scheduler.history.series import GRAINS, MINUTE, SECOND, TEN_SECONDS, Grain, grain_for

DAY_S = 24 * 3600
POINTS = 720  # of a line where nothing else is said: nobody sees more on a chart
EARLIEST, LATEST = datetime(2000, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class LiveRange:
    """A range up to now: so many seconds, read in a grain, drawn as so many points, fetched anew every so often."""

    name: str
    title: str
    length_s: int
    grain: Grain
    points: int
    every_s: int


# A day in minutes is 1,440 points; nobody sees more on a chart, and ten times as many are read and sent for it.
RANGES: Mapping[str, LiveRange] = {chosen.name: chosen for chosen in (
    LiveRange("5m", "5 min", 5 * 60, SECOND, 300, 2),
    LiveRange("15m", "15 min", 15 * 60, SECOND, 450, 5),
    LiveRange("1h", "1 h", 3600, TEN_SECONDS, 360, 10),
    LiveRange("6h", "6 h", 6 * 3600, MINUTE, 360, 30),
    LiveRange("1d", "1 day", DAY_S, MINUTE, 720, 60),
    LiveRange("7d", "7 days", 7 * DAY_S, MINUTE, 840, 300),
    LiveRange("30d", "30 days", 30 * DAY_S, MINUTE, 1080, 600),
    LiveRange("90d", "90 days", 90 * DAY_S, MINUTE, 1080, 900))}
DEFAULT = RANGES["15m"]
OVERLAYS: Mapping[str, str] = {"day": "a day before", "week": "a week before", "before": "the range before"}


@dataclass(frozen=True, slots=True)
class ChosenRange:
    """The range that an address asks for: from when until when (seconds since the epoch), and what lies over it.

    ``name`` is a live range's, or empty for one that stands still; ``every_s`` is 0 for that. ``over`` is a word of
    ``OVERLAYS`` or empty.
    """

    name: str
    begin_s: int
    end_s: int
    every_s: int
    over: str
    grain: Grain | None = None
    points: int = POINTS

    @property
    def title(self) -> str:
        """The range in words."""
        if self.name:
            return f"Last {RANGES[self.name].title}"
        return f"{_minute(self.begin_s)} to {_minute(self.end_s)} UTC"

    @property
    def query(self) -> str:
        """The range in a page's address."""
        span = {"range": self.name} if self.name else {"from": iso_minute(self.begin_s), "to": iso_minute(self.end_s)}
        return urlencode(span | ({"over": self.over} if self.over else {}))

    @property
    def offset_s(self) -> int:
        """The offset in seconds of the time that lies over it; 0 where none does."""
        offsets = {"day": DAY_S, "week": 7 * DAY_S, "before": self.end_s - self.begin_s}
        return offsets.get(self.over, 0)

    def span(self, *, now_s: int, most_points: int = 0) -> Range:
        """The range to read of history; an absolute range in the finest grain that still has it."""
        points = min(self.points, most_points or self.points)
        grain = self.grain or _grain(self.begin_s, self.end_s, now_s)
        return Range(self.begin_s, self.end_s, grain, points)

    def earlier(self, *, now_s: int, most_points: int = 0) -> Range:
        """The same of the time that lies over it."""
        begin_s, end_s = self.begin_s - self.offset_s, self.end_s - self.offset_s
        return Range(begin_s, end_s, _grain(begin_s, end_s, now_s), min(self.points, most_points or self.points))


def chosen(address: Mapping[str, str], *, now_s: int) -> ChosenRange:
    """The range that an address asks for; the default if it asks for none, or for an unknown one.

    Raises
    ------
    InvalidRange
        It names two moments of which one cannot be read, or that are in the wrong order.
    """
    over = address.get("over", "")
    over = over if over in OVERLAYS else ""
    if address.get("from") or address.get("to"):
        begin_s = _moment(address.get("from", ""), "from")
        end_s = _moment(address["to"], "to") if address.get("to") else now_s
        if end_s <= begin_s:
            raise InvalidRange("The range ends before it begins.", remedy="Choose an end after the beginning.")
        if end_s - begin_s > GRAINS[-1].keep_s:
            raise InvalidRange("The range is longer than 90 days.", remedy="Choose at most 90 days.")
        return ChosenRange("", begin_s, end_s, 0, over)
    live = RANGES.get(address.get("range", ""), DEFAULT)
    return ChosenRange(
        live.name, now_s - live.length_s, now_s, live.every_s, over, grain=live.grain, points=live.points)


def chosen_or_default(address: Mapping[str, str], *, now_s: int) -> ChosenRange:
    """The same, for the frame of a page: what the address has wrong, its charts say."""
    try:
        return chosen(address, now_s=now_s)
    except InvalidRange:
        return chosen({}, now_s=now_s)


def iso_minute(at_s: int) -> str:
    """A moment as an input of a browser has it, in UTC; with seconds only where there are some."""
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%S" if at_s % 60 else "%Y-%m-%dT%H:%M")


def _grain(begin_s: int, end_s: int, now_s: int) -> Grain:
    # A finer grain than can be drawn is read for nothing, up to six points in one.
    return grain_for(begin_s, end_s, now_s=now_s, most_points=6 * POINTS)


def _moment(text: str, name: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is not None and moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    if moment is None or not EARLIEST <= moment < LATEST:
        raise InvalidRange(f"“{name}” is no moment.", remedy="Write it in ISO 8601, such as 2026-11-24T12:00.")
    return int(moment.timestamp())


def _minute(at_s: int) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%d %b %Y %H:%M")
