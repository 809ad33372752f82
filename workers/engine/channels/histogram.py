"""Latency histograms in the meters of a fragment. ``Meters.java`` writes them."""

from __future__ import annotations

from collections.abc import Mapping


def histogram_of(meters: Mapping[str, object], prefix: str) -> dict[int, int]:
    """The histogram that meters hold under ``prefix``: ``3:lat``, ``in:chan`` or ``in:wait``.

    Bucket ``b`` counts the latencies of which floor(4·log2(ms + 1)) is ``b``: quarter octaves.
    """
    start = f"{prefix}:"
    return {
        int(name[len(start):]): int(count)  # type: ignore[call-overload]
        for name, count in meters.items()
        if name.startswith(start)
    }
