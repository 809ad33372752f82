"""Charts of where latency goes: one for each sequence of tasks that a dataflow has limits on, with all limits on it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from dashboard.catalog.models import DataflowRecord
from dashboard.catalog.permissions import is_uuid
from dashboard.pages.charts import CHARTS, PARTS, Chart
from scheduler.history.series import DATAFLOW, of_limit
from scheduler.model.latency_limits import Limits

TITLE = "Where mean latency goes"


def charts_of(kind: str, subject: str) -> Sequence[Chart]:
    """The charts of a subject; of a dataflow those of where latency goes are by the limits that hold for it now."""
    charts = CHARTS.get(kind, ())
    record = DataflowRecord.objects.select_related("team").filter(pk=subject).first() if (
        kind == DATAFLOW and is_uuid(subject)) else None
    if record is None or not record.latency_limits:
        return charts
    limit_charts = list(_of_limits(record.latency_limits))
    return [shown for chart in charts for shown in (limit_charts if chart.name == PARTS else [chart])]


def _of_limits(limits: Limits) -> Iterator[Chart]:
    sequences: dict[tuple[str, ...], list[int]] = {}
    for number, limit in enumerate(limits):
        sequences.setdefault(limit.along, []).append(number)
    (usual,) = (chart for chart in CHARTS[DATAFLOW] if chart.name == PARTS)
    for along, numbers in sequences.items():
        first = numbers[0]
        stacked = {of_limit(metric, first): usual.lines[metric] for metric in usual.stacked}
        limited = {
            of_limit("latency_limit_ms", number): f"limit: {replace(limits[number], along=()).words}"
            if len(numbers) > 1 else usual.lines["latency_limit_ms"] for number in numbers}
        ends = {metric: usual.lines[metric] for metric in ("latency_min_ms", "latency_max_ms") if not along}
        yield Chart(
            PARTS if first == 0 else f"{PARTS}_{first + 1}",
            f"{TITLE}, {_in_words(along)}" if along else TITLE, {**stacked, **limited, **ends},
            stacked=tuple(stacked), dashed=tuple(limited))


def _in_words(along: Sequence[str]) -> str:
    return along[0] if len(along) == 1 else f"{along[0]} to {along[-1]}"
