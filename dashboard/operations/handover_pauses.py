"""For how long handovers here let tasks stand, as nodes told, and for how long another is expected to."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from django.conf import settings

from dashboard.operations.models import HandoverPause

HANDED_OVER = "handed_over"  # what nodes and history call it
KEPT = 100  # the newest
LEAST = 20  # fewer say nothing of those to come
SHARE = 0.95  # of the handovers that took no longer than is expected
USUAL_MS = 300.0  # the median of `./weir bench handover`, and a little more


def note_pauses(events: Iterable[Mapping[str, Any]]) -> None:
    """Keep the pauses that nodes told of; one that was told before changes nothing."""
    pauses = [
        HandoverPause(query=event["fragment"], at_ms=event["at_ms"], gap_ms=event["gap_ms"])
        for event in events if event["kind"] == HANDED_OVER]
    if not pauses:
        return
    HandoverPause.objects.bulk_create(pauses, ignore_conflicts=True)
    oldest = HandoverPause.objects.order_by("-at_ms").values_list("at_ms", flat=True)[KEPT:KEPT + 1].first()
    if oldest is not None:
        HandoverPause.objects.filter(at_ms__lte=oldest).delete()


def expected_pause_ms() -> float:
    """For how long nothing works at tasks that are handed over, in ms: what all but one in twenty of the newest hundred
    handovers here took at most, and ``WEIR_DEFRAGMENT_GAP_S`` until twenty were measured."""
    return _quantile(SHARE, settings.DEFRAGMENT_GAP_S * 1000)


def usual_pause_ms() -> float:
    """The median of the newest hundred handovers here, in ms; what the bench measures until twenty were measured."""
    return _quantile(0.5, USUAL_MS)


def _quantile(share: float, unknown_ms: float) -> float:
    pauses = sorted(HandoverPause.objects.values_list("gap_ms", flat=True))
    return float(pauses[math.ceil(share * len(pauses)) - 1]) if len(pauses) >= LEAST else unknown_ms
