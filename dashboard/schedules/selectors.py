"""Reading schedules, as far as the viewer may know of them.

- ``outcome_of(viewer, dataflow_id)``: planned, predicted and measured, and which promise was missed and why
- slots with their bundles: ``slots.slots_grid``
- pairs side by side: ``asking.ask``, with ``comparison.rows_of``
- loads that schedules promised: ``promises.promised_loads``
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from dashboard.catalog.models import DataflowRecord
from dashboard.catalog.permissions import dataflow_for
from dashboard.schedules.models import Reading
from dashboard.schedules.observing import typical
from dashboard.schedules.promises import InForce, in_force
from dashboard.teams.permissions import Viewer
from scheduler.model.promise import BundlePromise, Load, Promise
from scheduler.performance.outcome import (
    LATENCY_BOUND,
    RATE_BOUND,
    BundleSeen,
    Miss,
    Seen,
    misses,
    over,
    promised_of,
    taken_of,
)

SETTLES = timedelta(seconds=45)  # after a schedule came into force, what is measured is that of its beginning
WINDOW = timedelta(minutes=15)
ENOUGH = 3  # readings: fewer are chance


@dataclass(frozen=True, slots=True)
class Figure:
    """A promise beside what came of it; ``missed`` where it was not kept."""

    planned: float | None
    predicted: float | None
    measured: float | None
    missed: bool = False


@dataclass(frozen=True, slots=True)
class BundleOutcome:
    """One bundle: what was promised and what was seen."""

    promise: BundlePromise
    seen: BundleSeen
    rate: Figure
    cpu: Figure
    memory: Figure


@dataclass(frozen=True, slots=True)
class Part:
    """A task or a slot as a whole, with its bundles."""

    name: str
    rate: Figure | None
    cpu: Figure
    memory: Figure
    bundles: tuple[BundleOutcome, ...]
    whole: Load = field(default_factory=Load)  # of a slot, with what else runs there
    latency: Figure | None = None  # of a task: from the source until it is done with an event


@dataclass(frozen=True)
class Outcome:
    """What came of a dataflow's schedule; without ``kept`` it runs by none, and few ``readings`` say nothing yet."""

    record: DataflowRecord
    kept: InForce | None = None
    readings: int = 0
    begins: datetime | None = None
    ends: datetime | None = None
    seen: Seen = field(default_factory=Seen)
    rate: Figure = Figure(None, None, None)
    latency: Figure = Figure(None, None, None)
    tasks: tuple[Part, ...] = ()
    slots: tuple[Part, ...] = ()
    missed: tuple[Miss, ...] = ()

    @property
    def judged(self) -> bool:
        """Whether there is enough to say something."""
        return self.readings >= ENOUGH


def outcome_of(viewer: Viewer, dataflow_id: UUID | str) -> Outcome:
    """Planned against actual of a dataflow, over the last minutes in which its schedule was in force.

    Raises
    ------
    NotFound
        The viewer may not know of it.
    """
    record = dataflow_for(viewer, dataflow_id)
    kept = in_force([record.pk]).get(str(record.pk))
    if kept is None:
        return Outcome(record)
    found = _readings(record, kept)
    seen = typical(reading.seen for reading in found)
    missed = misses(kept.promise, seen) if len(found) >= ENOUGH else ()
    what = {(miss.what, miss.where) for miss in missed}
    promise = kept.promise
    bundles = [_bundle(bundle, seen.bundles.get(bundle.id, BundleSeen())) for bundle in promise.bundles]
    return Outcome(
        record, kept, len(found), found[0].at if found else None, found[-1].at if found else None, seen,
        rate=Figure(promise.rate_per_s, promise.sustained_per_s, seen.rate_per_s, ("rate", "") in what),
        latency=Figure(None, promise.latency_s, seen.latency_s, ("latency", "") in what),
        tasks=tuple(_task(task, planned, promise, seen, bundles) for task, planned in _upstream_first(promise)),
        slots=tuple(_slot(slot, promise, seen, bundles, what) for slot in promise.slots), missed=missed)


def history_of(outcome: Outcome) -> dict[str, list[Any]]:
    """What was measured from moment to moment, as columns: ``at``, ``rate_per_s``, ``latency_s``."""
    found = _readings(outcome.record, outcome.kept) if outcome.kept else []
    return {
        "at": [reading.at.isoformat() for reading in found],
        "rate_per_s": [reading.seen["rate_per_s"] for reading in found],
        "latency_s": [reading.seen["latency_s"] for reading in found],
    }


def _readings(record: DataflowRecord, kept: InForce) -> list[Reading]:
    """The readings of the last minutes since the schedule has settled, oldest first."""
    found = Reading.objects.filter(dataflow=record, at__gte=kept.since + SETTLES)
    newest = found.order_by("-at").values_list("at", flat=True).first()
    return [] if newest is None else list(found.filter(at__gte=newest - WINDOW).order_by("at"))


def _upstream_first(promise: Promise) -> list[tuple[str, float]]:
    """Its tasks with their planned rates, in the order of its bundles: that of a JSON object is lost."""
    return [(task, promise.rates_per_s[task]) for task in dict.fromkeys(one.task for one in promise.bundles)]


def _bundle(promise: BundlePromise, seen: BundleSeen) -> BundleOutcome:
    kept = promise.rate_per_s * (1 - RATE_BOUND)
    return BundleOutcome(
        promise, seen,
        Figure(None, promise.rate_per_s, seen.rate_per_s, seen.rate_per_s is not None and seen.rate_per_s < kept),
        _load(promise.cpu, seen.load.cpu), _load(promise.memory, seen.load.memory))


def _load(predicted: float | None, measured: float | None, *, planned: float | None = None) -> Figure:
    return Figure(planned, predicted, measured, measured is not None and over(measured, predicted or 0.0))


def _task(
    task: str, planned: float, promise: Promise, seen: Seen, bundles: list[BundleOutcome]
) -> Part:
    own = tuple(bundle for bundle in bundles if bundle.promise.task == task)
    predicted = planned * min(1.0, promise.sustained_per_s / promise.rate_per_s)
    read = seen.read_per_s.get(task)
    cpu, memory = promise.allocated.get(task, (None, None))
    return Part(
        task, Figure(planned, predicted, read, read is not None and read < predicted * (1 - RATE_BOUND)),
        _load(*_sums(own, "cpu"), planned=cpu), _load(*_sums(own, "memory"), planned=memory), own,
        latency=_latency(promise.latencies_s.get(task), seen.latencies_s.get(task)))


def _slot(
    slot: str, promise: Promise, seen: Seen, bundles: list[BundleOutcome], missed: set[tuple[str, str]]
) -> Part:
    own = tuple(bundle for bundle in bundles if bundle.promise.slot == slot)
    expected, found = promised_of(promise, seen, slot), taken_of(promise, seen, slot)
    return Part(
        slot, None, Figure(None, expected.cpu, found.cpu, ("CPU", slot) in missed),
        Figure(None, expected.memory, found.memory, ("memory", slot) in missed), own,
        whole=seen.slots.get(slot, Load()))


def _latency(predicted_s: float | None, measured_s: float | None) -> Figure:
    """Of one task: an estimate, so what is over it by half is late."""
    late = None not in (predicted_s, measured_s) and measured_s > predicted_s * (1 + LATENCY_BOUND)
    return Figure(None, predicted_s, measured_s, late)


def _sums(own: tuple[BundleOutcome, ...], field: str) -> tuple[float | None, float | None]:
    """Predicted and measured of all bundles together; measured only where it is of all of them."""
    figures: list[Figure] = [getattr(bundle, field) for bundle in own]
    measured = [figure.measured for figure in figures]
    return (
        sum(figure.predicted or 0.0 for figure in figures),
        None if None in measured or not measured else sum(value or 0.0 for value in measured))
