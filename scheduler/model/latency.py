"""Latency limits, as a team asks for them: of a whole dataflow, or along some of its tasks (paper [5], 3.2)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

SHORTEST_S = 0.02  # a batch without any event takes longer than that on every machine that was measured
LONGEST_S = 3600.0
OVER_S = 60.0  # the span of a mean, where a limit says none
SHORTEST_SPAN_S = 10.0  # there is a measurement each second, and a few are needed before they say anything
PERCENTILES = (50, 95, 99)  # those that are measured
FRESHNESS_S = 5.0  # of a team that has chosen nothing


@dataclass(frozen=True, slots=True)
class LatencyLimit:
    """The mean latency along ``along`` is at most ``limit_s``, over any ``over_s`` seconds; or a percentile of it.

    Parameters
    ----------
    limit_s : float
        Seconds, from `SHORTEST_S` to `LONGEST_S`.
    along : tuple of str, optional
        Tasks of the dataflow, each joined to the next by a stream. Empty for each path from a source to a sink.
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
        """Which part of a wait for the next batch counts: events come at any time, so half of it in the mean."""
        return 0.5 if self.percentile is None else self.percentile / 100

    @property
    def words(self) -> str:
        """The limit in a few words."""
        what = "mean" if self.percentile is None else f"p{self.percentile:g}"
        where = f" from {self.along[0]} to {self.along[-1]}" if self.along else ""
        return f"{what} of at most {in_words(self.limit_s)}{where}"


Limits = tuple[LatencyLimit, ...]


def in_words(seconds: float) -> str:
    """A latency as people write it: ``400 ms``, ``2 s``.

    Examples
    --------
    >>> in_words(0.4), in_words(2.0), in_words(2.5)
    ('400 ms', '2 s', '2.5 s')
    """
    return f"{seconds * 1000:.4g} ms" if seconds < 1 else f"{seconds:.4g} s"


def to_json(limits: Limits) -> Any:
    """Limits as a document has them: ``none``, a number of seconds, or a list of mappings."""
    if not limits:
        return "none"
    if limits == (LatencyLimit(limits[0].limit_s),):
        return limits[0].limit_s
    return [_mapping(limit) for limit in limits]


def from_json(value: Any) -> Limits | None:
    """What `to_json` made; None where nothing was said."""
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
