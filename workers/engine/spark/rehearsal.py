"""Rehearsal: a driver that waits to serve a slot does for nobody what it will have to do then.

Two queries of the library's tasks, the second of which reads what the first writes, run until the JVM has compiled what
every batch goes through: planning, generated code, Python workers, state, channels. They stop and go on from their
checkpoints once, as after a death. What stands of them on the disk and in the broker is removed.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import redis
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from scheduler.model.canonical import canonical_config
from scheduler.model.dataflow import Task
from scheduler.model.task_types import TaskTypes
from workers.engine.channels import keys
from workers.engine.channels.channel_config import ChannelConfig
from workers.engine.channels.channel_registry import Channels

from . import queries
from .compile import Chain, CompiledQuery, compile_chain

BATCHES = (40, 5)  # of each query, before its stop and behind it: by then the JVM has compiled what counts
WITHIN_S = 60.0  # where batches are slow it is not worth more
TRIGGER_MS = 100
KEYS_KEPT_S = 600  # of what a driver leaves in the broker that dies meanwhile
LOOK_S = 0.1
SOURCE = (("smart_meter", {"rate_per_s": 100.0}), ("senml_parse", {"schema": "meter"}), ("kalman_filter", {}),
          ("output", {"name": "rehearsed"}))
READER = (("block_average", {}), ("output", {"name": "rehearsed"}))


@dataclass(frozen=True, slots=True)
class RehearsalContext:
    """The parts of its driver that a rehearsal needs."""

    spark: SparkSession
    broker: redis.Redis
    config: ChannelConfig
    task_types: TaskTypes


class Rehearsal:
    """The two queries of one driver.

    Parameters
    ----------
    who : str
        A name of its own: two that rehearse at the same time have different ones.
    """

    def __init__(self, stage: RehearsalContext, *, who: str, folder: Path) -> None:
        self._stage = stage
        self._channels = Channels(stage.broker)
        self._folder = folder
        self._source, self._reader = f"rehearsal-{who}-0", f"rehearsal-{who}-1"
        self._chains = {self._source: self._tasks(SOURCE), self._reader: self._tasks(READER)}
        self._deadline_s = 0.0

    def run(self, batches: Sequence[int] = BATCHES) -> int:
        """Rehearse; how many batches were done by the slower of the two. Whatever fails on the way, nothing is left.

        ``batches`` are those of each start: the first is from nothing, the others from the checkpoints.
        """
        self._deadline_s = time.monotonic() + WITHIN_S
        self._clear()
        done = 0
        try:
            for events in batches:
                done += self._play(events)
        finally:
            self._clear()
        return done

    def _play(self, batches: int) -> int:
        """Start both queries, from their checkpoints where they have some, and stop them after so many batches."""
        running: dict[str, StreamingQuery] = {}
        try:
            running[self._source] = self._start(self._source, (), readers=(self._reader,))
            running[self._reader] = self._start(self._reader, (self._stream(self._source),))
            first = {name: self._batches(name) for name in running}
            return self._await(lambda: min(self._batches(name) - first[name] for name in running), batches, running)
        finally:
            for name, query in running.items():
                queries.stop(query, pause=partial(self._channels.pause, name))

    def _await(self, count: Callable[[], int], batches: int, running: dict[str, StreamingQuery]) -> int:
        while (done := count()) < batches and time.monotonic() < self._deadline_s:
            for query in running.values():
                if not query.isActive:
                    raise RuntimeError(f"the rehearsal failed: {queries.causes_of(query)}")
            time.sleep(LOOK_S)
        return done

    def _start(self, name: str, inputs: Sequence[str], *, readers: Sequence[str] = ()) -> StreamingQuery:
        compiled = self._compile(name, inputs)
        self._channels.open_channel(
            self._stream(name), schema_json=compiled.schemas[-1], retain=0 if readers else 100, readers=readers)
        self._channels.open_outlet(name, len(self._chains[name]) - 1, from_batch=0)
        self._channels.resume(name)
        for key in (keys.meter(name), *self._keys(name)):
            self._stage.broker.expire(key, KEYS_KEPT_S)
        return queries.start(
            compiled.frame, name=name, checkpoint=self._checkpoint(name), trigger_ms=TRIGGER_MS)

    def _compile(self, name: str, inputs: Sequence[str]) -> CompiledQuery:
        stage, tasks = self._stage, self._chains[name]
        written = [f"{name}.{position}" for position in range(len(tasks))]
        hosted = self._checkpoint(name) if name == self._reader else None  # the other one's fold is Spark's
        return compile_chain(
            stage.spark, Chain(name, tasks, inputs, written, approved=False, checkpoint=hosted), config=stage.config,
            task_types=stage.task_types, take_fence=self._channels.take_fence, folder=self._folder)

    def _tasks(self, chain: Sequence[tuple[str, dict[str, Any]]]) -> tuple[Task, ...]:
        return tuple(
            Task(f"rehearsed-{number}", name, canonical_config(self._stage.task_types[name], config))
            for number, (name, config) in enumerate(chain))

    def _stream(self, name: str) -> str:
        """The channel of what a query puts out."""
        return f"{name}.{len(self._chains[name]) - 1}"

    def _checkpoint(self, name: str) -> Path:
        return self._folder / name

    def _batches(self, name: str) -> int:
        """How many batches a query has done, by its checkpoint."""
        commits = self._checkpoint(name) / "commits"
        return 1 + max((int(path.name) for path in commits.glob("[0-9]*")), default=-1)

    def _keys(self, name: str) -> list[str]:
        channels = [f"{name}.{position}" for position in range(len(self._chains[name]))]
        return [keys.valve(name), *(
            key for channel in channels for key in (keys.channel(channel), keys.meta(channel), keys.readers(channel)))]

    def _clear(self) -> None:
        for name in self._chains:
            shutil.rmtree(self._checkpoint(name), ignore_errors=True)
            self._stage.broker.delete(*self._keys(name))
            # What the JVM counted last arrives within the second: it must find meters that will expire.
            self._stage.broker.hset(keys.meter(name), "0:n", 0)
            self._stage.broker.expire(keys.meter(name), KEYS_KEPT_S)
