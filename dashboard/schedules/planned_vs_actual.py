"""Planned, predicted and measured side by side, from values alone: of a dataflow, its tasks, its slots, their bundles.

A figure counts as missed where it is part of a promise that was not kept, so that each has its reason there: a bundle
that gets less while its dataflow keeps its rate, or a task that takes more while its slots do not, has broken none.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from scheduler.model.promise import BundlePromise, Load, Promise
from scheduler.performance.outcome import LATENCY_BOUND, Miss, over, promised_of, taken_of
from scheduler.performance.rates import falls_short
from scheduler.performance.seen import BundleSeen, DataflowSeen

Missed = Collection[tuple[str, str]]  # what, and of which slot; of the dataflow where that is empty


@dataclass(frozen=True, slots=True)
class Figure:
    """A promise beside its outcome; ``missed`` if it is part of a broken one."""

    planned: float | None
    predicted: float | None
    measured: float | None
    missed: bool = False


NOTHING = Figure(None, None, None)


@dataclass(frozen=True, slots=True)
class BundleOutcome:
    """One bundle: what was promised and what was seen."""

    promise: BundlePromise
    seen: BundleSeen
    rate: Figure
    cpu: Figure
    memory: Figure


@dataclass(frozen=True, slots=True)
class FigureRow:
    """A task or a slot as a whole, with its bundles."""

    name: str
    rate: Figure | None
    cpu: Figure
    memory: Figure
    bundles: tuple[BundleOutcome, ...]
    whole: Load = field(default_factory=Load)  # of a slot, with what else runs there
    latency: Figure | None = None  # of a task: from the source until it is done with an event


@dataclass(frozen=True, slots=True)
class ScheduleFigures:
    """All figures of one schedule."""

    rate: Figure = NOTHING
    latency: Figure = NOTHING
    tasks: tuple[FigureRow, ...] = ()
    slots: tuple[FigureRow, ...] = ()


def figures_of(promise: Promise, dataflow_seen: DataflowSeen, misses: Sequence[Miss]) -> ScheduleFigures:
    """The promised figures beside the measured ones; ``misses`` are the promises that were not kept."""
    missed = {(miss.what, miss.where) for miss in misses}
    bundles = [_bundle(bundle, dataflow_seen, missed) for bundle in promise.bundles]
    return ScheduleFigures(
        Figure(promise.rate_per_s, promise.sustained_per_s, dataflow_seen.rate_per_s, ("rate", "") in missed),
        Figure(None, promise.latency_s, dataflow_seen.latency_s, ("latency", "") in missed),
        tuple(_task(task, promise, dataflow_seen, bundles, missed) for task in _upstream_first(promise)),
        tuple(_slot(slot, promise, dataflow_seen, bundles, missed) for slot in promise.slots))


def _upstream_first(promise: Promise) -> list[str]:
    """Its tasks in the order of its bundles: that of a JSON object is lost."""
    return list(dict.fromkeys(bundle.task for bundle in promise.bundles))


def _bundle(promise: BundlePromise, dataflow_seen: DataflowSeen, missed: Missed) -> BundleOutcome:
    bundle_seen = dataflow_seen.bundles.get(promise.id, BundleSeen())
    load = bundle_seen.load
    return BundleOutcome(
        promise, bundle_seen,
        Figure(None, promise.rate_per_s, bundle_seen.rate_per_s,
               ("rate", "") in missed and _is_less(bundle_seen.rate_per_s, promise.rate_per_s, dataflow_seen)),
        Figure(None, promise.cpu, load.cpu, ("CPU", promise.slot) in missed and _is_more(load.cpu, promise.cpu)),
        Figure(None, promise.memory, load.memory,
               ("memory", promise.slot) in missed and _is_more(load.memory, promise.memory)))


def _task(
    task: str, promise: Promise, dataflow_seen: DataflowSeen, bundles: Sequence[BundleOutcome], missed: Missed
) -> FigureRow:
    task_bundles = tuple(bundle for bundle in bundles if bundle.promise.task == task)
    planned = promise.rates_per_s[task]
    predicted = planned * min(1.0, promise.sustained_per_s / promise.rate_per_s)
    read = dataflow_seen.read_per_s.get(task)
    cpu, memory = promise.allocated.get(task, (None, None))
    return FigureRow(
        task, Figure(planned, predicted, read, ("rate", "") in missed and _is_less(read, predicted, dataflow_seen)),
        _sum([bundle.cpu for bundle in task_bundles], planned=cpu),
        _sum([bundle.memory for bundle in task_bundles], planned=memory), task_bundles,
        latency=_latency(promise.latencies_s.get(task), dataflow_seen.latencies_s.get(task), missed))


def _slot(
    slot: str, promise: Promise, dataflow_seen: DataflowSeen, bundles: Sequence[BundleOutcome], missed: Missed
) -> FigureRow:
    slot_bundles = tuple(bundle for bundle in bundles if bundle.promise.slot == slot)
    expected, actual = promised_of(promise, dataflow_seen, slot), taken_of(promise, dataflow_seen, slot)
    alone = promise.own_load_of(slot)  # what is expected with others' is for what is measured with them
    return FigureRow(
        slot,
        None,
        Figure(None, alone.cpu if actual.cpu is None else expected.cpu, actual.cpu, ("CPU", slot) in missed),
        Figure(
            None, alone.memory if actual.memory is None else expected.memory, actual.memory, ("memory", slot) in missed
        ),
        slot_bundles,
        whole=dataflow_seen.slots.get(slot, Load()),
    )


def _latency(predicted_s: float | None, measured_s: float | None, missed: Missed) -> Figure:
    """The latency of one task. The prediction is an estimate, so a task is late beyond 1.5 times of it, if its dataflow
    is."""
    late = None not in (predicted_s, measured_s) and measured_s > predicted_s * (1 + LATENCY_BOUND)
    return Figure(None, predicted_s, measured_s, late and ("latency", "") in missed)


def _sum(figures: Sequence[Figure], *, planned: float | None) -> Figure:
    """Predicted and measured of all bundles together; measured only where it is of all of them."""
    measured = [figure.measured for figure in figures]
    predicted = sum(figure.predicted or 0.0 for figure in figures)
    total = None if None in measured or not measured else sum(value or 0.0 for value in measured)
    return Figure(
        planned, predicted, total, any(figure.missed for figure in figures) and _is_more(total, predicted))


def _is_less(measured_per_s: float | None, promised_per_s: float, dataflow_seen: DataflowSeen) -> bool:
    return measured_per_s is not None and falls_short(measured_per_s, promised_per_s, over_s=dataflow_seen.over_s)


def _is_more(measured: float | None, promised: float) -> bool:
    return measured is not None and over(measured, promised)
