"""What the recorder takes while many dataflows run: on a database and a broker of the bench's own, second by second."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import redis

from scheduler.contracts.reports import NODE_REPORTS, NodeReport, QueryReport, SlotReport
from workers.engine.channels import keys

from .planning_workload import Residents, temporary_database, write_rows
from .what_if_workload import own_broker

EVENTS = 20  # of each task in a second
PHASES_MS = {"asking": 2.0, "planning": 9.0, "working": 16.0, "logging": 4.0}
BUCKETS = range(24, 36)  # of latencies around half a second


@dataclass(frozen=True, slots=True)
class RecorderCost:
    """CPU of a tick in ms: in the middle and at most; how many values one had, of how many queries."""

    median_ms: float
    mean_ms: float
    most_ms: float
    values: int
    queries: int


def recorder_cost(*, dataflows: int, seconds: int) -> RecorderCost:
    """Let so many dataflows of some tasks run, as their node would tell, and record so many seconds of them."""
    with (
        TemporaryDirectory(prefix="weir-recorder-") as folder, temporary_database(Path(folder)),
        own_broker(Path(folder)),
    ):
        return _cost(dataflows, seconds)


def _cost(dataflows: int, seconds: int) -> RecorderCost:
    from django.conf import settings  # here, and below: Django is set up by the command

    from dashboard.operations.estate_store.estate_loader import load_estate
    from dashboard.tasks.recording import Recorder

    residents, tasks = Residents(), 0
    while len(residents.prefixes) < dataflows:
        residents.grow(tasks := tasks + 4)
    write_rows(residents.index, after=0)
    broker = redis.Redis.from_url(settings.REDIS_URL)
    queries = {
        bundle.id: (bundle.slot, len(fragment.tasks))
        for fragment in load_estate().fragments.values() for bundle in fragment.queries}
    recorder, spent_ms, values = Recorder(), [], 0
    for _ in range(seconds + 3):
        _observe(broker, queries)
        began_s = time.process_time()
        values = recorder.tick(int(time.time()))
        spent_ms.append((time.process_time() - began_s) * 1_000)
        time.sleep(1.0 - time.time() % 1.0)
    recorder.stop()
    spent_ms = sorted(spent_ms[3:])  # the first look series up that nobody knew
    return RecorderCost(
        spent_ms[len(spent_ms) // 2], sum(spent_ms) / len(spent_ms), spent_ms[-1], values, len(queries))


def _observe(broker: redis.Redis, queries: dict[str, tuple[str, int]]) -> None:
    """A second goes by: each task counts events and their latencies, and the node reports."""
    chance, pipeline = random.Random(1), broker.pipeline(transaction=False)
    nodes: dict[str, dict[str, dict[str, QueryReport]]] = {}  # node -> slot's index -> query
    for query, (slot, tasks) in queries.items():
        meter = keys.meter(query)
        for position in range(tasks):
            pipeline.hincrby(meter, f"{position}:n", EVENTS)
            for bucket in BUCKETS:
                pipeline.hincrby(meter, f"{position}:lat:{bucket}", chance.randrange(3))
        for name in ("in:n", "in:bytes", *(f"in:chan:{bucket}" for bucket in BUCKETS)):
            pipeline.hincrby(meter, name, EVENTS)
        node, _, index = slot.rpartition("/")
        nodes.setdefault(node, {}).setdefault(index, {})[query] = QueryReport(
            state="running", batch_ms=31.0, phases_ms=PHASES_MS, rate_per_s=float(EVENTS), cpu=chance.random(),
            memory=0.02)
    for node, slots in nodes.items():
        report = NodeReport(
            node, cores=len(slots), memory_mb=64_000.0, at_ms=int(time.time() * 1000), disk_free_mb=9_000.0,
            slots={index: SlotReport(state="running", cpu=chance.random(), memory_mb=900.0, fragments=runs)
                   for index, runs in slots.items()})
        pipeline.set(keys.observed(node), NODE_REPORTS.dumps(report), ex=15)
    pipeline.execute()
