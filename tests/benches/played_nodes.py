"""Nodes that are played: what agents and drivers would tell through the broker, without a slot behind it.

    python -m tests.benches.played_nodes SLOTS NODE...     (with REDIS_URL of a system that runs)

Each second every node reports of what its desired state asks for, as if that ran, and the meters of its queries count.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import redis

from scheduler.contracts.desired import DESIRED_STATES, DesiredState, WantedFragment
from scheduler.contracts.reports import NODE_REPORTS, NodeReport, QueryReport, SlotReport, SlotUse
from workers.engine.channels import keys

EVENTS_PER_S = 20  # of each task
BATCH_MS = 31
PHASES_MS = {"asking": 2.0, "planning": 9.0, "working": 16.0, "logging": 4.0}
BUCKETS = range(24, 36)  # of latencies around half a second
REPORT_LIVES_S = 15
SLOT_MB = 900.0


@dataclass
class PlayedNode:
    """One node: what it is asked to run it says that it runs. Batches end as often as is asked for."""

    name: str
    slots: int
    broker: redis.Redis
    _desired: DesiredState = field(default_factory=DesiredState)
    _since_ms: int = field(default_factory=lambda: int(time.time() * 1000))
    _debt_ms: Counter[str] = field(default_factory=Counter)  # of each query, since the end of its last batch
    _batches: Counter[str] = field(default_factory=Counter)
    _chance: random.Random = field(default_factory=lambda: random.Random(1))

    def second(self) -> int:
        """A second goes by; how many queries it has."""
        text = self.broker.get(keys.desired(self.name))
        if text is not None:
            self._desired = DESIRED_STATES.loads(text)
        now_ms, pipeline = int(time.time() * 1000), self.broker.pipeline(transaction=False)
        slots = {}
        for index in map(str, range(self.slots)):
            wanted = self._desired.of_slot(index)
            lived_ms = now_ms - self._since_ms
            used = SlotUse(self._since_ms, lived_ms // 4, int(SLOT_MB * lived_ms / 1000))
            slots[index] = SlotReport(
                state="running", cpu=self._chance.random(), memory_mb=SLOT_MB, used=used,
                fragments={fragment.id: self._query(fragment, pipeline) for fragment in wanted})
        report = NodeReport(
            self.name, version=self._desired.version, at_ms=now_ms, cores=self.slots, memory_mb=64_000.0,
            machine="bench", threads=64, disk_free_mb=9_000.0, disk_total_mb=90_000.0, slots=slots)
        pipeline.set(keys.observed(self.name), NODE_REPORTS.dumps(report), ex=REPORT_LIVES_S)
        pipeline.execute()
        return len(self._desired.wanted)

    def _query(self, fragment: WantedFragment, pipeline: redis.client.Pipeline) -> QueryReport:
        if fragment.paused:
            return QueryReport(state="waiting", active=0, trigger_ms=fragment.trigger_ms)
        self._debt_ms[fragment.id] += 1000
        ended, left_ms = divmod(self._debt_ms[fragment.id], max(fragment.trigger_ms, 1))
        self._debt_ms[fragment.id] = left_ms
        self._batches[fragment.id] += ended
        if ended:
            self._count(fragment, ended * fragment.trigger_ms / 1000, pipeline)
        batches = self._batches[fragment.id]
        return QueryReport(
            state="running", batch=batches, batch_ms=float(BATCH_MS), phases_ms=PHASES_MS, batches=batches,
            busy_ms=BATCH_MS * batches, rows_per_s=float(EVENTS_PER_S), rate_per_s=float(EVENTS_PER_S),
            cpu=self._chance.random() / 10, memory=0.02, active=fragment.active, threads=fragment.threads,
            outlets={position: tuple(sorted(readers)) for position, readers in fragment.outlets.items()},
            routes=fragment.routes, trigger_ms=fragment.trigger_ms, since_ms=self._since_ms)

    def _count(self, fragment: WantedFragment, over_s: float, pipeline: redis.client.Pipeline) -> None:
        """The meters of a query after a batch: events and their latencies of each task, and of what it reads."""
        meter, events, now_ms = keys.meter(fragment.id), round(EVENTS_PER_S * over_s), int(time.time() * 1000)
        grown: dict[str, int] = {}
        for position in range(fragment.active):
            grown |= {f"{position}:n": events, f"{position}:age": 400 * events, f"{position}:aged": events}
            grown |= {f"{position}:lat:{bucket}": self._chance.randrange(3) for bucket in BUCKETS}
            pipeline.hset(meter, f"{position}:time", now_ms)
        if fragment.inputs:
            grown |= {"in:n": events, "in:bytes": 100 * events}
            for kind in ("chan", "wait"):
                grown |= {f"in:{kind}:{bucket}": self._chance.randrange(3) for bucket in BUCKETS}
        for name, count in grown.items():
            pipeline.hincrby(meter, name, count)


def play(broker: redis.Redis, nodes: Mapping[str, int]) -> None:
    """Play nodes, by name and slots, until this process is ended."""
    played = [PlayedNode(name, slots, broker) for name, slots in nodes.items()]
    while True:
        for node in played:
            node.second()
        time.sleep(1.0 - time.time() % 1.0)


def main(argv: Iterable[str] | None = None) -> None:
    """Play the nodes that are named, of so many slots each."""
    slots, *names = sys.argv[1:] if argv is None else argv
    play(redis.Redis.from_url(os.environ["REDIS_URL"]), dict.fromkeys(names, int(slots)))


if __name__ == "__main__":
    main()
