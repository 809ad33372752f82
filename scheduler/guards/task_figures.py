"""The figures of a running task that its guards may name, and the series of history that each is made of.

An element is a running task, which several dataflows may share: so its figures are those of the task itself and of the
query and slot that work on it, and mean the same for all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..history.series import QUERY, SLOT, STREAM, TASK, Series
from ..model.estate import Estate
from .guard_compiling import CompiledElement
from .guard_values import NUMBER, FigureValue, GuardCatalog, GuardEvent


@dataclass(frozen=True, slots=True)
class TaskFigure:
    """A figure: the metric of the kind of subject that it is of, and what it says, with its unit."""

    kind: str
    metric: str
    doc: str


TASK_FIGURES: Mapping[str, TaskFigure] = {
    "rate": TaskFigure(STREAM, "rate_per_s", "events per second that reach the task"),
    "rate_out": TaskFigure(TASK, "rate_per_s", "events per second that leave it"),
    "latency_ms": TaskFigure(TASK, "latency_mean_ms", "mean age of the events that leave it, in ms"),
    "latency_p95_ms": TaskFigure(TASK, "latency_p95_ms", "95th percentile of that age, in ms"),
    "latency_p99_ms": TaskFigure(TASK, "latency_p99_ms", "99th percentile of that age, in ms"),
    "lag_ms": TaskFigure(TASK, "watermark_lag_ms", "how far event time is behind the clock, in ms"),
    "backlog_blocks": TaskFigure(QUERY, "backlog_blocks", "blocks that wait for readers of the task's query"),
    "batch_ms": TaskFigure(QUERY, "batch_ms", "how long the newest batch of the query took, in ms"),
    "cpu": TaskFigure(QUERY, "cpu", "cores that the query takes"),
    "slot_cpu": TaskFigure(SLOT, "cpu", "cores in use on its slot"),
}
KEPT_MS = 30_000
TASK_CATALOG = GuardCatalog({"": dict.fromkeys(TASK_FIGURES, NUMBER)})


@dataclass(frozen=True, slots=True)
class TaskSubject:
    """A running task: its id, its query and slot, and the running tasks that it reads."""

    task: str
    query: str
    slot: str
    parents: tuple[str, ...] = ()

    def series(self, figure: str) -> tuple[Series, ...]:
        """The series whose sum a figure is."""
        stated = TASK_FIGURES[figure]
        subjects = {
            STREAM: [f"{parent}>{self.task}" for parent in self.parents], TASK: [self.task], QUERY: [self.query],
            SLOT: [self.slot]}[stated.kind]
        return tuple(Series(stated.kind, subject, stated.metric) for subject in subjects)

    def series_of_all(self) -> tuple[Series, ...]:
        """The series of all figures."""
        return tuple(dict.fromkeys(line for figure in TASK_FIGURES for line in self.series(figure)))

    def figures(self, values: Mapping[Series, float]) -> dict[str, FigureValue]:
        """Each figure from the values of one moment; None where nothing of it was measured."""
        return {figure: _sum(values.get(line) for line in self.series(figure)) for figure in TASK_FIGURES}


def subject_of(estate: Estate, task_id: str) -> TaskSubject:
    """The subject of a running task's figures."""
    query, _ = estate.places[task_id]
    return TaskSubject(task_id, query, estate.fragments[query].slot, tuple(estate.tasks[task_id].parents))


class KeptFigures:
    """Figures moment by moment: one that is not measured for `KEPT_MS` keeps its value, for readings have holes."""

    def __init__(self) -> None:
        self._known_ms: dict[str, int] = {}

    def take(self, at_ms: int, figures: Mapping[str, FigureValue]) -> dict[str, FigureValue]:
        """The changes of all figures at a moment: new values, and NULL for figures that have lost theirs."""
        for figure, value in figures.items():
            if value is not None or figure not in self._known_ms:
                self._known_ms[figure] = at_ms
        return {figure: value for figure, value in figures.items()
                if value is not None or at_ms - self._known_ms[figure] >= KEPT_MS}


def is_known(compiled: CompiledElement, event: GuardEvent) -> bool:
    """True if an event of `KeptFigures` says something of every figure of its stream that guards name: it is known, or
    has been waited for. Before that an element does not begin, else it would switch because nothing is measured yet.
    """
    return {figure.figure for figure in compiled.figures.get(event.stream, ())} <= event.values.keys()


def _sum(values: Iterable[float | None]) -> float | None:
    measured = [value for value in values if value is not None]
    return sum(measured) if measured else None
