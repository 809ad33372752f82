"""The valve in Python: a ``mapInArrow`` that counts, publishes and passes on, as ``Valve.java`` does."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame

from . import codec, histogram, keys, scripts
from .config import ChannelConfig
from .connections import client
from .control import Control
from .rotation import Rotation


@dataclass(frozen=True, slots=True)
class ValveSpec:
    """What does not change while a query runs."""

    redis_url: str
    fragment: str
    position: int
    channel: str
    fence: int
    base: int
    block_rows: int
    columns: tuple[str, ...]


def valve_in_python(
    events: DataFrame, config: ChannelConfig, *, fragment: str, position: int, channel: str, fence: int,
    base: int = 0,
) -> DataFrame:
    """Put a valve behind a task; see :func:`workers.engine.channels.spark.valve`."""
    spec = ValveSpec(
        redis_url=config.redis_url, fragment=fragment, position=position, channel=channel, fence=fence,
        base=base, block_rows=config.block_rows, columns=tuple(events.columns),
    )
    # mapInArrow does not find a column whose name needs quoting.
    plain = events.coalesce(1).toDF(*(f"c{index}" for index in range(len(spec.columns))))
    return plain.mapInArrow(_task(spec), plain.schema).toDF(*spec.columns)


def _task(spec: ValveSpec) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        batch_id = TaskContext.get().getLocalProperty("streaming.sql.batchId")
        if batch_id is None:  # not a streaming query: there is no batch to publish or to count
            return batches
        return _valve(spec, int(batch_id), batches)

    return run


def _valve(spec: ValveSpec, batch_id: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    control: Control | None = None
    outlets: list[Outlet] = []
    meter = histogram.Meter(spec.fragment)
    for batch in batches:
        if control is None:  # a batch without events changes nothing and asks nothing
            control = Control.read(client(spec.redis_url), spec.fragment, batch_id)
            outlets = [Outlet(spec, batch_id)] if control.publishes(spec.position) else []
            outlets += [Outlet(spec, batch_id, rotation) for rotation in control.routes(spec.position)]
        meter.add(f"{spec.position}:n", batch.num_rows)
        _sample_latency(meter, spec, batch)
        for outlet in outlets:
            outlet.add(batch)
        if control.passes(spec.position):
            yield batch
    for outlet in outlets:
        outlet.finish()
    meter.flush(client(spec.redis_url))


def _sample_latency(meter: histogram.Meter, spec: ValveSpec, batch: pa.RecordBatch) -> None:
    """The first and the last event of a batch stand for it."""
    if "_born" not in spec.columns or batch.num_rows == 0:
        return
    born = batch.column(spec.columns.index("_born"))
    now_ms = time.time() * 1000
    for row in {0, batch.num_rows - 1}:
        if born[row].is_valid:
            meter.sample(f"{spec.position}:lat", now_ms - born[row].as_py())


class Outlet:
    """Where the events of one batch are published: whole in the stream's channel, or dealt out to a reader's parts."""

    def __init__(self, spec: ValveSpec, batch_id: int, rotation: Rotation | None = None) -> None:
        self._batch_id = batch_id
        self._rotation = rotation
        channels = rotation.parts if rotation else (spec.channel,)
        self._writers = [BlockWriter(spec, channel, batch_id) for channel in channels]
        self._events = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Take events."""
        if self._rotation is None:
            self._writers[0].add(batch)
            return
        turns = np.asarray(self._rotation.turns(self._batch_id, self._events, batch.num_rows))
        self._events += batch.num_rows
        for index, writer in enumerate(self._writers):
            writer.add(batch.take(pa.array(np.flatnonzero(turns == index))))

    def finish(self) -> None:
        """Write what is left."""
        for writer in self._writers:
            writer.finish()


class BlockWriter:
    """Writes one batch of a stream, or of a part of it, in blocks; a block that is sent twice is written once.

    The token is that of the stream: whoever may write its channel may write its parts.
    """

    def __init__(self, spec: ValveSpec, channel: str, batch_id: int) -> None:
        self._spec = spec
        self._channel = channel
        self._batch_id = batch_id
        self._buffer: list[pa.RecordBatch] = []
        self._rows = 0
        self._n = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Take events, and write a block as soon as there are enough."""
        while batch.num_rows:
            room = self._spec.block_rows - self._rows
            self._buffer.append(batch.slice(0, room))
            self._rows += min(room, batch.num_rows)
            batch = batch.slice(room)
            if self._rows == self._spec.block_rows:
                self._send()

    def finish(self) -> None:
        """Write what is left."""
        if self._rows:
            self._send()

    def _send(self) -> None:
        channel = self._channel
        batch = self._spec.base + self._batch_id + 1
        block = codec.encode_block(pa.concat_batches(self._buffer).rename_columns(list(self._spec.columns)))
        scripts.run(
            client(self._spec.redis_url), "write",
            [keys.channel(channel), keys.meta(channel), keys.readers(channel), keys.meta(self._spec.channel)],
            [self._spec.fence, batch, self._n, self._rows, block, int(time.time() * 1000)],
        )
        self._n += 1
        self._rows = 0
        self._buffer.clear()
