"""What walls and bounds cost, each side in turn with the other: a start, a hop at the broker, reading a document."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import redis
from sqlglot.parser import Parser

from scheduler.contracts.desired import DESIRED_STATES
from scheduler.model.documents import read_document
from scheduler.model.sql_dialect import BoundedParser
from workers.engine.agents.node_files.node_store import NodeStore
from workers.engine.agents.supervising.broker_users import LOOKS, SLOTS
from workers.engine.agents.supervising.confinement import Confinement
from workers.engine.channels import keys
from workers.engine.worker_settings import Settings
from workers.library import registry

FRAGMENTS = (10, 100)
PROGRAM = [sys.executable, "-c", "pass"]


def measure_walls(settings: Settings, *, pairs: int = 60) -> dict[str, Any]:
    """Milliseconds with and without, medians over pairs, and the median of their differences."""
    store = NodeStore(settings.data_dir, settings.node)
    results = {}
    for count in FRAGMENTS:
        fragments = [{"id": f"f{number}-0", "tasks": [], "inputs": [], "outlets": {}, "active": 1, "trigger_ms": 500}
                     for number in range(count)]
        store.write_desired(DESIRED_STATES.read({
            "version": count, "node": settings.node, "generation": count, "slots": {"0": {"fragments": fragments}}}))
        walls = Confinement.of(settings)
        hops = [partial(_hops, redis.Redis.from_url(url)) for url in (walls.users.url(SLOTS), settings.redis_url)]
        results[f"100 hops, {count} fragments"] = _paired(*hops, pairs)
    results["start of a process"] = _paired(
        lambda: _start_within(walls), lambda: subprocess.run(PROGRAM, check=True), pairs)
    results["reading a document of 100 queries"] = _paired(_read, _read_unbounded, pairs)
    return {"walls": str(walls.means), **results}


def _start_within(walls: Confinement) -> None:
    argv, env = walls.enclosed("look-1", PROGRAM, role=LOOKS)
    subprocess.run(argv, env=env, check=True)
    walls.clear("look-1")


def _hops(client: redis.Redis) -> None:
    """A block written and read, a hundred times."""
    key = keys.channel("f1-0.0")
    for number in range(100):
        client.xadd(key, {"n": number})
        client.xrange(key, "-", "+", count=1)
        client.delete(key)


def _read() -> None:
    queries = [f"SELECT *, CASE WHEN value > {number} THEN value * 2 ELSE 0 END AS c{number} FROM input"
               for number in range(100)]
    tasks = [{"id": "s", "type": "urban_sensing"}, {"id": "p", "type": "senml_parse"},
             *({"id": f"t{number}", "type": "sql", "config": {"query": query}} for number, query in enumerate(queries)),
             {"id": "o", "type": "output", "config": {"name": "o"}}]
    streams = [{"from": before["id"], "to": after["id"]} for before, after in pairwise(tasks)]
    read_document(json.dumps({"name": "x", "tasks": tasks, "streams": streams}), task_types=registry.task_types(),
                  check_config=registry.check, columns_of=registry.columns_of)


def _read_unbounded() -> None:
    with patch.object(BoundedParser, "_advance", Parser._advance):
        _read()


def _paired(one: Callable[[], object], other: Callable[[], object], pairs: int) -> dict[str, float]:
    """The sides in turn, which is first changing from pair to pair."""
    took: dict[Callable[[], object], list[float]] = {one: [], other: []}
    for number in range(pairs + 1):
        for side in (one, other) if number % 2 else (other, one):
            began_s = time.perf_counter()
            side()
            took[side].append((time.perf_counter() - began_s) * 1000)
    with_ms, without_ms = took[one][1:], took[other][1:]  # the first pair warms up
    differences = [a - b for a, b in zip(with_ms, without_ms, strict=True)]
    return {
        "with": round(statistics.median(with_ms), 2), "without": round(statistics.median(without_ms), 2),
        "difference": round(statistics.median(differences), 2),
        "quartiles of differences": [round(part, 2) for part in statistics.quantiles(differences)[::2]]}
