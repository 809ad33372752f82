"""Meters of a fragment: counts and latency histograms, added to the broker's running totals."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

import redis

from . import keys


def bucket(latency_ms: float) -> int:
    """The histogram bucket of a latency: quarter octaves of ms + 1."""
    return math.floor(4 * math.log2(max(0.0, latency_ms) + 1) + 1e-9)


def histogram_of(meters: Mapping[str, object], prefix: str) -> dict[int, int]:
    """The histogram that meters hold under ``prefix``: ``3:lat``, ``in:chan`` or ``in:wait``."""
    start = f"{prefix}:"
    return {
        int(name[len(start):]): int(count)  # type: ignore[call-overload]
        for name, count in meters.items()
        if name.startswith(start)
    }


class Meter:
    """What one task counted, sent to the broker when it has done."""

    def __init__(self, fragment: str) -> None:
        self._key = keys.meter(fragment)
        self._counts: Counter[str] = Counter()

    def add(self, name: str, count: int) -> None:
        """Count."""
        self._counts[name] += count

    def sample(self, name: str, latency_ms: float) -> None:
        """Note a latency."""
        self._counts[f"{name}:{bucket(latency_ms)}"] += 1

    def flush(self, client: redis.Redis) -> None:
        """Add the counts to the broker's."""
        pipe = client.pipeline(transaction=False)
        for name, count in self._counts.items():
            pipe.hincrby(self._key, name, count)
        if self._counts:
            pipe.execute()
        self._counts.clear()
