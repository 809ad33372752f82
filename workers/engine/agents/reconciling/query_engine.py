"""The engine of a slot: what runs its queries. Spark does; the tests of agents play one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import redis
from pyspark.sql import SparkSession

from scheduler.contracts.desired import WantedFragment
from scheduler.model.dataflow import Task
from scheduler.model.task_types import TaskType
from workers.engine.channels import open_streams
from workers.engine.channels.channel_config import ChannelConfig
from workers.engine.channels.channel_registry import Channels
from workers.engine.files.staging import begin_run
from workers.engine.spark import queries
from workers.engine.spark.compile import Chain, CompiledQuery, StartPosition, compile_chain, due_ms
from workers.engine.spark.fold_states import read_states

from .started_fragments import SlotStore


class Engine(Protocol):
    """Compiles chains, and starts, holds and stops their queries."""

    def compile(self, whole: WantedFragment, beginning: StartPosition) -> CompiledQuery:
        """The chain as something to start, with new fencing tokens for its channels."""

    def start(self, compiled: CompiledQuery, fragment_id: str, *, trigger_ms: int) -> Any:
        """A query from the fragment's checkpoint; it has a ``runId``."""

    def stop(self, query: Any, fragment_id: str, *, drain_s: float = queries.DRAIN_S) -> bool:
        """Stop a query between two batches; False where a batch was still under way after ``drain_s``."""

    def kill(self, query: Any) -> None:
        """Stop a query at once."""

    def hold(self, query: Any, fragment_id: str) -> bool:
        """Bring a query to rest between two batches, until it is resumed; False where one is still under way."""

    def read(self, fragment_id: str, streams: Sequence[Sequence[str]]) -> None:
        """Let a query that rests read these channels of its streams from its next batch on."""

    def read_states(
        self, fragment_id: str, *, folds: int, batch: int, run_id: str | None = None
    ) -> Sequence[str | None]:
        """The state of each fold after a batch, in the order of the stream; None of one that had no event.

        Parameters
        ----------
        run_id : str, optional
            The run of its query where that is at rest and not stopped.
        """

    def due_ms(self, source: Task, number: int) -> int:
        """The time at which a source's number is due, in ms after its first."""


@dataclass(frozen=True, slots=True)
class SparkEngine:
    """Spark, by the session of the slot's driver."""

    spark: SparkSession
    channels: Channels
    channel_config: ChannelConfig
    task_types: Mapping[str, TaskType]
    store: SlotStore

    def compile(self, whole: WantedFragment, beginning: StartPosition) -> CompiledQuery:
        chain = Chain(
            whole.id, whole.tasks, whole.streams, whole.written, beginning=beginning, threads=whole.threads,
            real_time=whole.real_time, at_work=True, checkpoint=self.store.checkpoint(whole.id))
        return compile_chain(
            self.spark, chain, config=self.channel_config, task_types=self.task_types,
            take_fence=self.channels.take_fence, folder=self.store.data_dir)

    def start(self, compiled: CompiledQuery, fragment_id: str, *, trigger_ms: int) -> Any:
        sink, checkpoint = compiled.file_sink, self.store.checkpoint(fragment_id)
        if sink is not None:
            sink = replace(sink, run=begin_run(sink.folder, checkpoint))
        of_driver = (self.spark, self.channel_config.redis_url)
        times = open_streams.open_times(*of_driver)
        return queries.start(
            compiled.frame, name=fragment_id, checkpoint=checkpoint, trigger_ms=trigger_ms, file_sink=sink,
            rests=partial(open_streams.rests, *of_driver, fragment_id) if compiled.batch_mode.is_open else None,
            still_ms=partial(times.still_ms, fragment_id), busy_ms=partial(times.busy_ms, fragment_id))

    def stop(self, query: Any, fragment_id: str, *, drain_s: float = queries.DRAIN_S) -> bool:
        return queries.stop(query, pause=lambda: self._pause(fragment_id), drain_s=drain_s)

    def kill(self, query: Any) -> None:
        query.stop()

    def hold(self, query: Any, fragment_id: str) -> bool:
        return queries.rest(query, pause=lambda: self.channels.pause(fragment_id))

    def read(self, fragment_id: str, streams: Sequence[Sequence[str]]) -> None:
        """As ``Engine`` has it."""
        self.spark._jvm.weir.Inputs.read(self.channel_config.redis_url, fragment_id, json.dumps(streams))

    def read_states(
        self, fragment_id: str, *, folds: int, batch: int, run_id: str | None = None
    ) -> Sequence[str | None]:
        """As ``Engine`` has it."""
        return read_states(self.spark, self.store.checkpoint(fragment_id), folds=folds, batch=batch, run_id=run_id)

    def due_ms(self, source: Task, number: int) -> int:
        return due_ms(source, self.task_types[source.type], number, folder=self.store.data_dir)

    def _pause(self, fragment_id: str) -> None:
        try:
            self.channels.pause(fragment_id)
        except redis.RedisError:
            return  # no broker, no batch that could begin
