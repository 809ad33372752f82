"""Pauses of queries that are handed over: a batch, and a gap that nodes measured of others.

The gap is from the last record of those that end until the heir runs, within a node or between two. An output comes
once a batch, so it stands still for one batch and the gap.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from django.conf import settings

from dashboard.operations.models import HandoverPause
from scheduler.contracts.reports import QueryReport, Reports
from scheduler.interruptions import interruptions_of
from scheduler.model.plan import Plan

HANDED_OVER = "handed_over"  # what nodes and history call it
AHEAD_MS = 60_000  # of the site's clock, by which a node's may be
KEPT = 100  # the newest, of handovers within a node and of those between nodes
LEAST = 20  # fewer say nothing of those to come
SHARE = 0.95  # of the handovers that took no longer than is expected
USUAL_MS = 100.0  # within a node: a little more than `./weir bench handover` measured
USUAL_BETWEEN_MS = 3_600.0  # the median that `./weir bench handover --between-nodes` measured
LONGEST_BETWEEN_MS = 6_300.0  # the longest that it measured


def note_pauses(events: Iterable[Mapping[str, Any]]) -> None:
    """Keep the gaps that nodes measured, where they say whether it was between nodes; of each query the first, which
    alone goes on with others' work, and none of a time to come: slots say these, and all teams' plans go by them."""
    latest_ms = 1000 * time.time() + AHEAD_MS
    handed_over = {event["fragment"]: event for event in reversed(list(events)) if event["kind"] == HANDED_OVER
                   and "between_nodes" in event and event["at_ms"] <= latest_ms}
    rows = HandoverPause.objects.filter(query__in=handed_over) if handed_over else HandoverPause.objects.none()
    stored = set(rows.values_list("query", flat=True))
    pauses = [
        HandoverPause(query=query, at_ms=event["at_ms"], gap_ms=event["gap_ms"], between_nodes=event["between_nodes"])
        for query, event in handed_over.items() if query not in stored]
    if not pauses:
        return
    HandoverPause.objects.bulk_create(pauses, ignore_conflicts=True)
    for between_nodes in {pause.between_nodes for pause in pauses}:
        of_kind = HandoverPause.objects.filter(between_nodes=between_nodes)
        oldest = of_kind.order_by("-at_ms").values_list("at_ms", flat=True)[KEPT:KEPT + 1].first()
        if oldest is not None:
            of_kind.filter(at_ms__lte=oldest).delete()


def expected_gap_ms(*, between_nodes: bool) -> float:
    """The duration in ms within which all but one in twenty of the newest hundred handovers of the kind were done.

    Until twenty were measured it is ``WEIR_DEFRAGMENT_GAP_S``, and between nodes no less than the longest that the
    bench measured.
    """
    unknown_ms = settings.DEFRAGMENT_GAP_S * 1000
    return _quantile(
        SHARE, max(unknown_ms, LONGEST_BETWEEN_MS) if between_nodes else unknown_ms, between_nodes=between_nodes)


def usual_gap_ms(*, between_nodes: bool) -> float:
    """The median of the newest hundred handovers of the kind, in ms; what the bench measured until twenty were
    measured here."""
    return _quantile(0.5, USUAL_BETWEEN_MS if between_nodes else USUAL_MS, between_nodes=between_nodes)


def batch_ms_of(query: QueryReport | None) -> float:
    """The wait of a query's output for the next batch, in ms: its interval, or a batch that takes longer."""
    trigger_ms = (query.trigger_ms if query is not None else None) or settings.TRIGGER_MS
    # An open batch ends at once where it is asked to.
    batch_ms = (query.batch_ms if query is not None and not query.real_time else None) or 0.0
    return max(trigger_ms, batch_ms)


def usual_pause_ms(plan: Plan, reports: Reports) -> float:
    """The usual pause of a plan for a query that runs, of several the longest, in ms: a batch and the usual gap; 0
    where it lets none."""
    return _longest_ms(plan, reports, usual_gap_ms)


def expected_pause_ms(plan: Plan, reports: Reports) -> float:
    """The expected pause of a plan for any query that runs, in ms: a batch and the gap that nearly all take at most; 0
    where it lets none."""
    return _longest_ms(plan, reports, expected_gap_ms)


def _longest_ms(plan: Plan, reports: Reports, gap_ms: Callable[..., float]) -> float:
    return max((
        max((batch_ms_of(reports.query(bundle.slot, bundle.id)) for bundle in interruption.queries),
            default=float(settings.TRIGGER_MS))
        + gap_ms(between_nodes=interruption.between_nodes)
        for interruption in interruptions_of(plan)), default=0.0)


def _quantile(share: float, unknown_ms: float, *, between_nodes: bool) -> float:
    pauses = sorted(HandoverPause.objects.filter(between_nodes=between_nodes).values_list("gap_ms", flat=True))
    return float(pauses[math.ceil(share * len(pauses)) - 1]) if len(pauses) >= LEAST else unknown_ms
