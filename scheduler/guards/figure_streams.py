"""The streams that a policy names: tasks, dataflows, outputs, posted events; and the figures of a dataflow.

A policy stores each under the name that its guards use (`ElementPolicy.streams`), so that they mean the same for all
who share the element.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from ..history.series import DATAFLOW, SLOT, Series
from .guard_values import NUMBER, TEXT, TRUTH, FigureValue
from .task_figures import TASK_FIGURES, TaskFigure

OF_TASK, OF_DATAFLOW, OF_OUTPUT, OF_EVENTS = "task", "dataflow", "output", "events"
MEASURED = (OF_TASK, OF_DATAFLOW)  # have a value at each second; events of the others come when they come
NUMBERS = frozenset({"tinyint", "smallint", "int", "bigint", "float", "double", "decimal"})  # Spark's types

DATAFLOW_FIGURES: Mapping[str, TaskFigure] = {
    "rate_in": TaskFigure(DATAFLOW, "events_in_per_s", "events per second that its sources emit"),
    "rate_out": TaskFigure(DATAFLOW, "events_out_per_s", "events per second that reach its sinks"),
    "latency_ms": TaskFigure(DATAFLOW, "latency_mean_ms", "mean age of events at its slowest sink, in ms"),
    "latency_p95_ms": TaskFigure(DATAFLOW, "latency_p95_ms", "95th percentile of that age, in ms"),
    "latency_p99_ms": TaskFigure(DATAFLOW, "latency_p99_ms", "99th percentile of that age, in ms"),
    "lag_ms": TaskFigure(DATAFLOW, "watermark_lag_ms", "how far event time is behind the clock, in ms"),
    "backlog_blocks": TaskFigure(DATAFLOW, "backlog_blocks", "blocks that wait in its fullest channel"),
    "cpu": TaskFigure(DATAFLOW, "cpu", "cores that its tasks take, its part of what it shares"),
    "price_per_h": TaskFigure(DATAFLOW, "cpu", "what these cores cost an hour"),
    "limits_missed": TaskFigure(DATAFLOW, "limits_missed", "how many of its latency limits are missed or impossible"),
    "slots_lost": TaskFigure(SLOT, "cpu", "how many of its slots do not report"),
}


class FigureSubject(Protocol):
    """The subject of figures: the series that they are made of, and their values at a moment."""

    def series_of_all(self) -> tuple[Series, ...]:
        """The series of all figures."""
        ...

    def figures(self, values: Mapping[Series, float]) -> dict[str, FigureValue]:
        """Each figure from the values of one moment; None where it is not known."""
        ...


@dataclass(frozen=True, slots=True)
class DataflowSubject:
    """A dataflow in the estate: its id, the slots of its queries, and what a core costs an hour."""

    dataflow: str
    slots: tuple[str, ...] = ()
    core_hour: float = 0.0

    def series_of_all(self) -> tuple[Series, ...]:
        """The series of all figures."""
        metrics = dict.fromkeys(figure.metric for figure in DATAFLOW_FIGURES.values() if figure.kind == DATAFLOW)
        return (*(Series(DATAFLOW, self.dataflow, metric) for metric in metrics),
                *(Series(SLOT, slot, "cpu") for slot in self.slots))

    def figures(self, values: Mapping[Series, float]) -> dict[str, FigureValue]:
        """Each figure from the values of one moment; None where nothing of it was measured."""
        def value_of(metric: str) -> float | None:
            return values.get(Series(DATAFLOW, self.dataflow, metric))

        simple = {name: value_of(figure.metric) for name, figure in DATAFLOW_FIGURES.items() if figure.kind == DATAFLOW}
        cores = simple["cpu"]
        heard = [Series(SLOT, slot, "cpu") in values for slot in self.slots]
        return simple | {
            "price_per_h": None if cores is None else cores * self.core_hour,
            "slots_lost": heard.count(False) if values else None}


def figures_in(stream: Mapping[str, Any]) -> Mapping[str, str]:
    """The figures of a stored stream with their kinds."""
    if stream["of"] == OF_TASK:
        return dict.fromkeys(TASK_FIGURES, NUMBER)
    if stream["of"] == OF_DATAFLOW:
        return dict.fromkeys(DATAFLOW_FIGURES, NUMBER)
    return stream["figures"]


def kind_of_column(spark_type: str | None) -> str | None:
    """The kind of figure that a column of Spark's type is; None where guards cannot read it.

    >>> kind_of_column("decimal(9,2)"), kind_of_column("string"), kind_of_column("array<int>")
    ('number', 'text', None)
    """
    name = (spark_type or "").partition("(")[0].strip().lower()
    if name in NUMBERS:
        return NUMBER
    return {"string": TEXT, "boolean": TRUTH}.get(name)
