"""A schedule that is observed as a test wants it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone

from dashboard import jobs
from dashboard.catalog.models import DataflowRecord
from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.schedules.outcome_store import record_readings
from scheduler.contracts.reports import Reports
from scheduler.model.promise import BundlePromise, Promise
from workers.engine.observed import Flows, TaskFlow

RATE = 190


@dataclass
class Observed:
    """A node that does as a promise says, but for what a test changes; the tests' clock moves on by readings."""

    record: DataflowRecord
    promise: Promise
    patch: Callable[[jobs.LiveReading], None]
    at: datetime = field(default_factory=lambda: timezone.now() + timedelta(minutes=2))
    over_s: float = 0.0  # for how long each reading has counted; 0 does not tell
    silent: bool = False  # nothing is heard of the node
    states: Mapping[str, str] = field(default_factory=dict)  # of slots whose driver does not serve, by index
    beside: float | None = None  # the CPU that another's query takes on each slot, where one is there

    def keep(self, *, factor: float = 1.0, count: int = 4, **bundles: dict[str, Any]) -> None:
        """Some readings at so many times the promised rate; ``bundles`` are changes by task."""
        for _ in range(count):
            self.patch(self._reading(factor, bundles))
            record_readings(at=self.at)
            self.at += timedelta(seconds=10)

    def _reading(self, factor: float, changes: dict[str, dict[str, Any]]) -> jobs.LiveReading:
        slots: dict[str, dict[str, Any]] = {}
        estate = load_estate()
        submitted = estate.submitted[str(self.record.pk)].running
        runs = {  # what was rolled back runs under another id
            (task, bundle.slot): bundle.id for task, running in submitted.items()
            for bundle in estate.fragments[estate.places[running][0]].queries if not bundle.leaving}
        for bundle in self.promise.bundles:
            index = bundle.slot.rpartition("/")[2]
            slot = slots.setdefault(index, {"state": "running", "cpu": 0.0, "memory_mb": 900, "fragments": {}})
            report = self._report_of(bundle, factor) | changes.get(bundle.task, {})
            slot["fragments"][runs.get((bundle.task, bundle.slot), bundle.id)] = report
            slot["cpu"] = min(1.0, slot["cpu"] + report["cpu"])
        for slot in slots.values() if self.beside is not None else ():
            slot["fragments"]["f999-0"] = {"state": "running", "rate_per_s": 1.0, "cpu": self.beside, "memory": 0.0}
            slot["cpu"] += self.beside
        for index, state in self.states.items():
            slots[index] |= {"state": state, "fragments": {}}
        reports = {} if self.silent else {"n1": {"node": "n1", "memory_mb": 8192, "slots": slots}}
        rates = {task: rate * factor for task, rate in self.promise.rates_per_s.items()}
        return jobs.LiveReading(
            measured=True, reports=Reports.of(reports),
            flows=Flows(tasks={
                running: TaskFlow(self._output_rate(task, rates, changes), 0, 800.0, 900.0)
                for task, running in submitted.items()}, over_s=self.over_s))

    def _report_of(self, bundle: BundlePromise, factor: float) -> dict[str, Any]:
        return {"state": "running", "rate_per_s": bundle.rate_per_s * factor, "cpu": bundle.cpu * factor,
                "memory": bundle.memory, "throttled_by": None, "error": None}

    def _output_rate(self, task: str, rates: dict[str, float], changes: dict[str, dict[str, Any]]) -> float:
        """What leaves a task: of a source what it makes, else all that its reader is to get."""
        readers = {"parse": "pi", "pi": "out", "get": "out"}
        made = rates[readers.get(task, task)]
        return changes.get(task, {}).get("made", made)
