"""A dataflow whose tasks have profiles, in figures of our own, for the tests of the pages of schedules."""

from __future__ import annotations

import json
from itertools import pairwise

from dashboard.operations.services import register_node
from dashboard.profiles.services.importing import import_profiles
from tests.dashboard.building import World

# One thread of π is nearly what a slot sustains; parsing takes memory; the download does best with many threads.
PROFILES = """task,threads,peak_rate_tuples_s,cpu_pct,mem_pct,origin
pi_viete,1,100,92,2,measured here
pi_viete,2,110,95,3,measured here
senml_parse,1,300,85,35,measured here
http_get,1,2,7,20,measured here
http_get,8,12,40,25,measured here
http_get,16,20,70,30,measured here
"""


def linear(name: str = "linear", *, rate: float = 50, get: bool = False, **extra: object) -> str:
    """sense → parse → pi → out, or with a download between: nothing of it has state."""
    middle = [{"id": "get", "type": "http_get", "config": {"url": "http://localhost/{sensor_id}"}}] if get else []
    tasks = [
        {"id": "sense", "type": "urban_sensing"}, {"id": "parse", "type": "senml_parse"},
        {"id": "pi", "type": "pi_viete", "config": {"iterations": 900}}, *middle,
        {"id": "out", "type": "output", "config": {"name": f"{name}-out"}},
    ]
    ids = [task["id"] for task in tasks]
    return json.dumps({
        "name": name, "tasks": tasks, "rates": {"sense": rate},
        "streams": [{"from": one, "to": other} for one, other in pairwise(ids)]} | extra)


def two_sources(name: str = "two", *, rates: tuple[float, float] = (10, 40)) -> str:
    """The same with two sources, ``slow`` and ``fast``."""
    document = json.loads(linear(name))
    _, *others = document["tasks"]
    tasks = [{"id": "slow", "type": "urban_sensing"}, {"id": "fast", "type": "urban_sensing"}, *others]
    streams = [{"from": source, "to": "parse"} for source in ("slow", "fast")] + document["streams"][1:]
    return json.dumps(document | {
        "tasks": tasks, "streams": streams, "rates": dict(zip(("slow", "fast"), rates, strict=True))})


def measured(world: World, *, slots: int = 8) -> None:
    """Profiles of all its tasks, and a node with so many slots."""
    import_profiles(actor=world.carla, text=PROFILES)
    register_node(name="n1", slots=slots)
