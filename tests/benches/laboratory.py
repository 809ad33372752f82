"""Where schedules are tried: an empty estate whose slots are held to cores, and the services that tasks ask."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from scheduler.model.estate import Estate
from scheduler.model.fragment import Slot
from scheduler.model.prices import Prices
from scheduler.model.profile import Profiles
from scheduler.model.resources import Node, Supply
from scheduler.scheduling import Job, Schedule, SchedulingOptions, prepare
from workers.engine import sealed_secrets
from workers.library.registry import task_types

from . import services
from .climbing import Base, Climb, Slots, StairFound, base_of, clear, document
from .estate import NODE, RunningEstate, running
from .experiment_dataflows import (
    KEYS,
    OBJECT_BYTES,
    RECORDING,
    SECRET,
    SERVICE_S,
    TEAM,
    Kind,
    dataflow,
    kinds,
    parts,
    write_recording,
)
from .experiments import Stair, due_ms, loads_at

CALM_S = 5.0
DRIVER_THREADS = 64


class Laboratory:
    """Runs schedules one after the other on the same slots."""

    def __init__(self, estate: RunningEstate, tasks: Mapping[str, Kind], folder: Path) -> None:
        self.estate = estate
        self.tasks = tasks
        self.supply = supply_of(estate.estate.slots)
        self._folder = folder
        self._slots: Slots | None = None
        self._base_cpu: Mapping[str, float] = {}
        self._number = 0

    def run(self, planned: Schedule, name: str, climb: Sequence[Stair]) -> dict[str, Any]:
        """Enact a schedule of one of the dataflows, take it up its stairs, and say what was measured."""
        if self._slots is None:
            self._slots = Slots(self.estate)
            self._base_cpu = base_of(self._slots).cpu
        # What drivers hold for good grows from run to run.
        base = Base(dict(self._base_cpu), self._slots.memory_mb())
        self._number += 1
        recording = self._folder / "replay" / f"run-{self._number}.parquet"
        write_recording(recording, due_ms(climb))
        flow = dataflow(name, self.tasks, path=recording.name, run=str(self._number))
        print(f"{name} by {'+'.join(planned.pair)}: {planned.allocation.threads} threads on {planned.slots} slots, "
              f"planned {planned.rate_per_s:.4g}, predicted {planned.sustained_per_s:.4g} events/s", flush=True)
        runner = Climb(
            self.estate, self._slots, base, task_types=task_types(), prices=Prices(trigger_ms=self.estate.trigger_ms),
            parts=parts(name))
        try:
            stairs_found = runner.run(replace(planned, job=replace(planned.job, dataflow=flow)), climb, on_stair=_print)
        finally:
            recording.unlink()
            clear(self._folder)
        return _facts(planned, base) | {"stairs": [with_loads(planned, document(stair)) for stair in stairs_found]}


def supply_of(slots: Sequence[Slot]) -> Supply:
    """What schedules of the experiments are planned for: these slots and nothing else."""
    return Supply(free=(Node(NODE, tuple(slots)),), threads={NODE: DRIVER_THREADS})


@contextmanager
def laboratory(*, slots: int, trigger_ms: int) -> Iterator[Laboratory]:
    """A broker, an agent with slots and the services, from nothing; afterwards nothing of them is left."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="weir-bench-")))
        store, _ = stack.enter_context(services.object_store(service_s=SERVICE_S["download"], size=OBJECT_BYTES))
        database, _ = stack.enter_context(services.database(rows=KEYS))
        write_recording(folder / "replay" / RECORDING, [2 * number for number in range(2_000)])
        settings = {
            "WEIR_PIN": "always", "WEIR_SLOT_THREADS": str(DRIVER_THREADS),
            "WEIR_HTTP_HOSTS": urlsplit(store).netloc, "WEIR_DATABASE_HOSTS": _host(database),
            "WEIR_REPLAY_DIRS": str(folder / "replay"),
        }
        empty = Estate(1, slots=tuple(Slot(NODE, index) for index in range(slots)))
        estate = stack.enter_context(running(empty, folder, trigger_ms=trigger_ms, settings=settings))
        sealed_secrets.publish(estate.client, {f"{TEAM}/{SECRET}": sealed_secrets.Vault(folder).seal(database)})
        estate.wait_slots()
        time.sleep(CALM_S)
        yield Laboratory(estate, kinds(store), folder)


def _host(address: str) -> str:
    return urlsplit(address).netloc.rpartition("@")[2]


def _print(stair: StairFound) -> None:
    carried = stair.carried
    loads = ", ".join(f"{load.cpu:.0%}" for _, load in sorted(stair.loads.items()))
    print(
        f"  {carried.rate_per_s:7.1f} events/s: {carried.carried_per_s:7.1f} carried ({carried.slowest}), CPU {loads}, "
        f"others {stair.others_cores:.2f} cores, {stair.stolen:.0%} of the CPU asked for went elsewhere",
        flush=True,
    )


def _facts(planned: Schedule, base: Base) -> dict[str, Any]:
    return placement_document(planned) | {
        "load": os.getloadavg()[0], "base": {"cpu": base.cpu, "memory_mb": base.memory_mb}, "runs_as": runs_as(planned)}


def runs_as(planned: Schedule) -> dict[str, dict[str, list[float]]]:
    """What of a schedule runs: by task and slot the threads, and their part of the events."""
    shares = planned.prediction.routed.shares
    return {
        task: {planned.placement.slots[at].name: [threads, round(shares[task][at], 6)]
               for at, threads in counts.items()}
        for task, counts in planned.placement.counts.items()}


def placement_document(planned: Schedule) -> dict[str, Any]:
    """What is planned and predicted of a schedule."""
    limit = planned.prediction.routed.limit
    return {
        "planned_per_s": planned.rate_per_s, "predicted_per_s": planned.sustained_per_s,
        "threads": planned.allocation.threads, "slots": planned.slots, "predicted_latency_s": planned.latency_s,
        "limit": limit.reason if limit else "",
        "placement": {task: {planned.placement.slots[at].name: threads for at, threads in counts.items()}
                      for task, counts in planned.placement.counts.items()},
    }


def with_loads(planned: Schedule, stair: dict[str, Any]) -> dict[str, Any]:
    """A stair with the loads of its slots that are predicted for its rate."""
    loads = loads_at(planned, stair["rate_per_s"])
    return stair | {"predicted": {slot: {"cpu": cpu, "memory": memory} for slot, (cpu, memory) in loads.items()}}


def job_of(tasks: Mapping[str, Kind], trigger_ms: int, name: str, profiles: Profiles, rate_per_s: float) -> Job:
    """One of the dataflows, to be scheduled.

    Parameters
    ----------
    tasks : mapping of str to Kind
        The tasks, by their names in dataflows.
    trigger_ms : int
        Milliseconds between two batches.
    name : str
        The dataflow's.
    profiles : Profiles
        Of its tasks.
    rate_per_s : float
        Events/s at the source.
    """
    flow = dataflow(name, tasks, path=RECORDING, run="planned")
    return prepare(flow, task_types=task_types(), profiles=profiles, rate_per_s=rate_per_s, trigger_s=trigger_ms / 1000)


def options_of(trigger_ms: int) -> SchedulingOptions:
    """How the experiments are scheduled."""
    return SchedulingOptions(routing="slot_aware", trigger_s=trigger_ms / 1000)
