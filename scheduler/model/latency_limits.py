"""Latency limits, as a team asks for them: of a whole dataflow, or along a part of it (paper [5], 3.2)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .figure_words import in_digits

SHORTEST_S = 0.02  # a batch without any event takes longer than that on every machine that was measured
LONGEST_S = 3600.0
OVER_S = 60.0  # the span of a mean, where a limit says none
SHORTEST_SPAN_S = 10.0  # there is a measurement each second, and a few are needed before they say anything
PERCENTILES = (50, 95, 99)  # those that are measured
FRESHNESS_S = 5.0  # of a team that has chosen nothing
ARROW = "->"  # between the ends of a stream; no id of a task has such a character as it ends with


@dataclass(frozen=True, slots=True)
class LatencyLimit:
    """The mean latency along ``along`` is at most ``limit_s``, over any ``over_s`` seconds; or a percentile of it.

    Parameters
    ----------
    limit_s : float
        Seconds, from `SHORTEST_S` to `LONGEST_S`.
    along : tuple of str, optional
        Tasks of the dataflow, each joined to the next by a stream; before the first and after the last one may stand a
        stream, as ``a -> b``: `canonical` makes this form. Empty for each path from a source to a sink.
    over_s : float, optional
        The span over which it is measured, in seconds. Only spans from `SHORTEST_SPAN_S` are accepted by now.
    percentile : float, optional
        Such a part of all events, in percent, is no later; None where the mean counts. Only `PERCENTILES` are accepted
        by now.
    """

    limit_s: float
    along: tuple[str, ...] = ()
    over_s: float = OVER_S
    percentile: float | None = None

    def __post_init__(self) -> None:
        if not SHORTEST_S <= self.limit_s <= LONGEST_S:
            raise ValueError(f"a latency limit is from {SHORTEST_S:g} to {LONGEST_S:g} s, not {self.limit_s!r}")
        if not (math.isfinite(self.over_s) and 1 <= self.over_s <= LONGEST_S):
            raise ValueError(f"the span of a latency limit is from 1 to {LONGEST_S:g} s, not {self.over_s!r}")
        if self.percentile is not None and not 50 <= self.percentile < 100:
            raise ValueError(f"a percentile of latency is from 50 to below 100, not {self.percentile!r}")

    @property
    def share(self) -> float:
        """The part of a wait for the next batch that counts: events come at any time, so half of it in the mean."""
        return 0.5 if self.percentile is None else self.percentile / 100

    @property
    def begins_with_stream(self) -> bool:
        """True if it begins when events have left the writer of its first stream."""
        return bool(self.along) and stream_ends(self.along[0]) is not None

    @property
    def ends_with_stream(self) -> bool:
        """True if it ends when the reader of its last stream takes the events."""
        return bool(self.along) and stream_ends(self.along[-1]) is not None

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks of its part; empty for a limit of the whole, or of one stream."""
        return tuple(element for element in self.along if stream_ends(element) is None)

    @property
    def path(self) -> tuple[str, ...]:
        """Its tasks, with those at the far ends of its first and last stream."""
        return path_along(self.along)

    @property
    def words(self) -> str:
        """The limit in a few words."""
        statistic = "mean" if self.percentile is None else f"p{self.percentile:g}"
        where = ""
        if self.along:
            where = f" along {self.along[0]}" if len(self.along) == 1 else f" from {self.along[0]} to {self.along[-1]}"
        return f"{statistic} of at most {in_words(self.limit_s)}{where}"


Limits = tuple[LatencyLimit, ...]


def stream_ends(element: str) -> tuple[str, str] | None:
    """The tasks at the ends of a stream that is written as ``a -> b``; None for a task.

    Examples
    --------
    >>> stream_ends("parse -> filter"), stream_ends("parse")
    (('parse', 'filter'), None)
    """
    source, arrow, target = element.partition(ARROW)
    return (source.strip(), target.strip()) if arrow else None


def stream_text(source: str, target: str) -> str:
    """A stream as limits name it."""
    return f"{source} {ARROW} {target}"


def path_along(along: Sequence[str]) -> tuple[str, ...]:
    """The tasks that a sequence of tasks and streams goes through, with those at the far ends of its streams.

    Examples
    --------
    >>> path_along(["city -> parse", "parse", "filter"])
    ('city', 'parse', 'filter')
    """
    path: list[str] = []
    is_open = False  # whether a stream has led to the last task, which may be the next element
    for element in along:
        ends = stream_ends(element)
        tasks = ends or (element,)
        path += tasks[1:] if path and path[-1] == tasks[0] and (is_open or ends) else tasks
        is_open = ends is not None
    return tuple(path)


def canonical(along: Sequence[str]) -> tuple[str, ...]:
    """A sequence with its tasks and, of its streams, only a first and a last one: others go without saying.

    Examples
    --------
    >>> canonical(["city->parse", "parse", "parse -> filter", "filter"])
    ('city -> parse', 'parse', 'filter')
    """
    first, last = (stream_ends(along[at]) for at in (0, -1))
    path = path_along(along)
    if first and len(path) == 2 and last:
        return (stream_text(*first),)
    tasks = path[1 if first else 0: -1 if last else None]
    return (*([stream_text(*first)] if first else []), *tasks, *([stream_text(*last)] if last else []))


def in_words(seconds: float) -> str:
    """A latency as people write it: ``400 ms``, ``2 s``.

    Examples
    --------
    >>> in_words(0.4), in_words(2.0), in_words(2.5)
    ('400 ms', '2 s', '2.5 s')
    """
    return f"{seconds * 1000:.4g} ms" if seconds < 1 else f"{seconds:.4g} s"


def figure_in_words(seconds: float, *, most: int = 3) -> str:
    """A time that was measured or is expected, in so many digits that count; from two minutes on in minutes, from two
    hours on in hours.

    Examples
    --------
    >>> figure_in_words(0.012345), figure_in_words(830.4), figure_in_words(830.4, most=2), figure_in_words(12_600)
    ('12.3 ms', '13.8 min', '14 min', '3.5 h')
    """
    if seconds < 120:
        return in_words(float(f"{seconds:.{most}g}"))
    size_s, unit = (60, "min") if seconds < 7200 else (3600, "h")
    return f"{in_digits(seconds / size_s, most=most)} {unit}"


def to_json(limits: Limits) -> Any:
    """Limits as a document has them: ``none``, a number of seconds, or a list of mappings."""
    if not limits:
        return "none"
    if limits == (LatencyLimit(limits[0].limit_s),):
        return limits[0].limit_s
    return [_mapping(limit) for limit in limits]


def from_json(value: Any) -> Limits | None:
    """The limits from the JSON of `to_json`; None where nothing was said."""
    if value is None:
        return None
    if value == "none":
        return ()
    if isinstance(value, int | float):
        return (LatencyLimit(float(value)),)
    return tuple(_limit(entry) for entry in value)


def _mapping(limit: LatencyLimit) -> dict[str, Any]:
    entry: dict[str, Any] = {"limit": limit.limit_s}
    if limit.along:
        entry["along"] = list(limit.along)
    if limit.over_s != OVER_S:
        entry["over"] = limit.over_s
    if limit.percentile is not None:
        entry["percentile"] = limit.percentile
    return entry


def _limit(entry: Mapping[str, Any]) -> LatencyLimit:
    return LatencyLimit(
        float(entry["limit"]), tuple(entry.get("along", ())), float(entry.get("over", OVER_S)), entry.get("percentile"))
