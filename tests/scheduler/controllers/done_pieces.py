"""What a played world changed, piece by piece, from its log: when, by which round, whether forward, and what."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.controllers.changes import AspectChange

Log = Sequence[tuple[float, str, bool, AspectChange]]


def first_pieces(log: Log) -> dict[str, float]:
    """When a round changed something for the first time."""
    first: dict[str, float] = {}
    for at_s, key, forward, _ in log:
        if forward:
            first.setdefault(key, at_s)
    return first


def spans_of_pieces(log: Log) -> dict[str, tuple[float, float]]:
    """From when until when each round changed one thing after the other."""
    spans: dict[str, tuple[float, float]] = {}
    for at_s, key, forward, _ in log:
        if forward:
            spans[key] = (spans.get(key, (at_s, at_s))[0], at_s)
    return spans
