"""Profiles and sweeps as the tests make them."""

from __future__ import annotations

from dashboard.operations.models import SlotRow
from dashboard.profiles.models import SweepRecord
from dashboard.profiles.services.sweeps import start_sweep
from dashboard.profiles.targets import SweepTarget, target_of_type
from scheduler.performance.modelling import Sweep
from tests.dashboard.building import World

HEADER = "task,threads,peak_rate_tuples_s,cpu_pct,mem_pct"


BOUNDS = Sweep(largest_threads=8, budget_s=3600.0)


def parsing() -> SweepTarget:
    return target_of_type("senml_parse", {}, feed_key="source:urban_sensing")


def started(world: World, **given) -> SweepRecord:
    return start_sweep(**{"actor": world.carla, "target": parsing(), "slot": "n1/1", "bounds": BOUNDS} | given)


def slot(name: str = "n1/1") -> SlotRow:
    return SlotRow.objects.get(name=name)
