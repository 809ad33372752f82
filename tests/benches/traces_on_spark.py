"""The RIoTBench-style workload on Spark: Default and Reuse with all dataflows at once, and along a trace.

A *pair* runs the same recordings through both, one after the other on the same slots, and compares what every sink of
every dataflow delivered, event by event over what both have delivered. A *walk* makes each change of a trace while the
estate runs and measures the cores it takes between changes.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from scheduler.model.dataflow import Dataflow
from scheduler.model.estate import Estate
from scheduler.model.prices import Prices
from workers.library.event_schemas import SCHEMAS

from . import sides
from .estate import RunningEstate, running
from .recordings import write_recording
from .trace_replay import Side, Strategy, all_submitted, moment_of
from .traces import Change, Trace
from .workloads.riotbench import DOMAINS, SENSORS

SETTLING_S = 3.0  # after a change of a walk, before it is measured: a query's first batches are dear
STARTING_S = 240.0  # for how much longer than the rest of a run a recording lasts, while queries start


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large a run on Spark is. A walk measures ``measured_s`` at each step and warms up only once."""

    rate_per_s: float
    trigger_ms: int
    warm_up_s: float
    measured_s: float
    slots: int

    @property
    def events(self) -> int:
        return int(self.rate_per_s * (STARTING_S + self.warm_up_s + self.measured_s))


def recorded(dataflow: Dataflow) -> Dataflow:
    """The dataflow with a recording in its source's place, and outputs that keep all events."""
    schemas = {domain.source: domain.schema for domain in DOMAINS}

    def changed(task):
        if task.type in schemas:
            return replace(task, type="replay", config={"path": f"{schemas[task.type]}.senml"})
        if task.type == "output":
            return replace(task, config={**task.config, "keep_events": sides.ALL_EVENTS})
        return task

    return replace(dataflow, tasks=tuple(changed(task) for task in dataflow.tasks))


def write_recordings(folder: Path, *, count: int) -> None:
    """Write what `recorded` dataflows replay: a tenth of the readings lies outside of the usual ranges."""
    for number, domain in enumerate(DOMAINS):
        beyond = {name: (high - low) / 18 for name, (low, high) in domain.ranges.items()}
        ranges = {
            name: (low - beyond[name], high + beyond[name], 2) for name, (low, high) in domain.ranges.items()
        }
        schema = SCHEMAS[domain.schema]
        others = {name: (0.0, 10.0, 2) for name in schema.fields if name not in ranges}
        write_recording(
            folder / f"{schema.name}.senml", schema, {**ranges, **others}, count=count, sensors=SENSORS, seed=number
        )


def measure(
    strategy: Strategy, dataflows: Sequence[Dataflow], sizes: Sizes
) -> tuple[dict[str, Any], dict[str, list[Mapping[str, Any]]]]:
    """Run all dataflows by a strategy: its figures, and the events of each dataflow's outputs.

    ``kept up`` is what the sources emitted of what was due in the window: well below 1 the side got less CPU than it
    needed, and more than 1 where it was making up for that.
    """
    with tempfile.TemporaryDirectory(prefix="weir-bench-") as folder:
        data_dir = Path(folder)
        write_recordings(data_dir / "replay", count=sizes.events)
        estate = all_submitted(
            [recorded(dataflow) for dataflow in dataflows], strategy=strategy, slots=sizes.slots,
            prices=Prices(trigger_ms=sizes.trigger_ms),
        )
        with running(estate, data_dir, trigger_ms=sizes.trigger_ms) as running_estate:
            began = time.monotonic()
            running_estate.wait_running(within_s=STARTING_S)
            started_s = time.monotonic() - began
            time.sleep(sizes.warm_up_s)
            figures = sides.window(running_estate, sizes.measured_s)
            outputs = dict(sides.outputs(running_estate))
    reached = moment_of(estate)
    due_per_s = sizes.rate_per_s * sum(not task.parents for task in estate.tasks.values())
    return {
        "dataflows": reached.dataflows, "tasks": reached.tasks, "queries": reached.queries, **figures,
        "kept up": figures["events/s in"] / due_per_s, "cores": figures["CPU s"] / sizes.measured_s,
        "started in s": started_s, "load": os.getloadavg()[0],
    }, outputs


def compare(
    default: Mapping[str, Sequence[Mapping[str, Any]]], reuse: Mapping[str, Sequence[Mapping[str, Any]]]
) -> dict[str, Any]:
    """Hold the outputs of both sides against each other, over the input that both have wholly delivered.

    Both get the same input but not at the same moment, so one is further on at the end. An output is compared up to
    the last but one source event that either side has delivered there: a batch may end within an event's readings.
    """
    different, compared = [], 0
    for output, events in default.items():
        others = reuse.get(output, ())
        last = [max((event["_seq"] for event in side), default=-1) for side in (events, others)]
        common = [
            Counter(sides.comparable(event) for event in side if event["_seq"] < min(last)) for side in (events, others)
        ]
        compared += common[0].total()
        if common[0] != common[1] or not common[0]:
            different.append({
                "output": output, "events": common[0].total(), "only default": (common[0] - common[1]).total(),
                "only reuse": (common[1] - common[0]).total(),
            })
    return {"outputs": len(default), "events": compared, "different": different}


def walk(trace: Trace, strategy: Strategy, dataflows: Sequence[Dataflow], sizes: Sizes) -> list[dict[str, Any]]:
    """Make each change of a trace while the estate runs: the cores that it takes after each.

    First all dataflows run at once for as long as warming up takes, and leave again: a driver whose code is not yet
    compiled takes several times the CPU, which would fall to the first steps.

    Parameters
    ----------
    trace : Trace
        The changes.
    strategy : Strategy
        How dataflows are merged.
    dataflows : sequence of Dataflow
        The dataflows that it names.
    sizes : Sizes
        Rates and times of the measurement.
    """
    side = Side(strategy, dataflows, slots=sizes.slots, prices=Prices(trigger_ms=sizes.trigger_ms))
    steps = []
    with (
        tempfile.TemporaryDirectory(prefix="weir-bench-") as folder,
        running(side.estate, Path(folder), trigger_ms=sizes.trigger_ms) as running_estate,
    ):
        running_estate.wait_slots()
        side.estate = _warmed(running_estate, dataflows, sizes)
        for change in trace.changes:
            began = time.monotonic()
            for estate in side.take(change):
                running_estate.enact(estate)
            enacted_s = time.monotonic() - began
            time.sleep(SETTLING_S)
            figures = sides.window(running_estate, sizes.measured_s)
            reached = moment_of(side.estate)
            steps.append({
                "change": f"{change.kind} {change.dataflow}", "dataflows": reached.dataflows, "tasks": reached.tasks,
                "paused": reached.paused, "queries": reached.queries, "enacted in s": enacted_s,
                "cores": figures["CPU s"] / sizes.measured_s, "p50 ms": figures["p50 ms"],
            })
            print(f"  {strategy} {len(steps)}/{len(trace.changes)}: {steps[-1]['cores']:.2f} cores, "
                  f"{reached.tasks} tasks, {reached.queries} queries after {steps[-1]['change']}", flush=True)
    return steps


def _warmed(running_estate: RunningEstate, dataflows: Sequence[Dataflow], sizes: Sizes) -> Estate:
    """Run all dataflows once; the empty estate that is left."""
    side = Side("reuse", dataflows, slots=sizes.slots, prices=Prices(trigger_ms=sizes.trigger_ms))
    for kind in ("submit", "remove"):
        for dataflow in dataflows:
            deque(side.take(Change(kind, dataflow.name)), maxlen=0)
        running_estate.enact(side.estate, within_s=STARTING_S)
        time.sleep(sizes.warm_up_s if kind == "submit" else 0)
    return side.estate
