"""Ticks from Python: sequence numbers on a schedule, deterministic from their offsets."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from .connections import client
from .gates import Gates
from .schedule import Schedule

SCHEMA = "_seq BIGINT NOT NULL, _time BIGINT NOT NULL, _born BIGINT NOT NULL"
BATCH_ROWS = 4_096
POLL_S = 0.02


class TicksSource(DataSource):
    """Sequence numbers on a schedule, as rows."""

    @classmethod
    def name(cls) -> str:
        return "weir-ticks"

    def schema(self) -> str:
        return SCHEMA

    def streamReader(self, schema: object) -> TicksStreamReader:
        return TicksStreamReader(dict(self.options))


class Numbers(InputPartition):
    """The numbers from ``start`` up to, but without, ``end``."""

    def __init__(self, *, t0: int, start: int, end: int) -> None:
        super().__init__(None)
        self.t0 = t0
        self.start = start
        self.end = end


class TicksStreamReader(DataSourceStreamReader):
    """Plans which numbers are due. The offset is ``{"t0", "next"}``; the clock is read only to plan."""

    def __init__(self, options: dict[str, str]) -> None:
        self._options = options
        self._url = options["redis_url"]
        self._gates = Gates.parse(options["reader"], options.get("gates", ""))
        self._wait_ms = int(options.get("wait_ms", 0))
        self._max_rows = int(options.get("max_rows", 100_000))
        self._catch_up_ms = int(options.get("catch_up_ms", 300_000))
        self._begin = json.loads(options["begin"]) if "begin" in options else None

    def _schedule(self) -> Schedule:
        options = self._options
        limit = int(options["limit"]) if "limit" in options else None
        if "schedule_file" not in options:
            return Schedule(rate_per_s=float(options["rate_per_s"]), limit=limit)
        return Schedule(
            file=Path(options["schedule_file"]), limit=limit, repeat_ms=int(options.get("repeat_ms", 0)),
            repeat_time_ms=int(options.get("repeat_time_ms", 0)),
        )

    def initialOffset(self) -> dict:
        return self._begin or {"t0": int(time.time() * 1000), "next": 0}

    def latestOffset(self, start: dict, limit: object) -> dict:
        schedule = self._schedule()
        if schedule.size is not None and start["next"] >= schedule.size:
            return start
        deadline_ms = time.time() * 1000 + self._wait_ms
        begin = self._moved(start)
        next_due_ms = begin["t0"] + schedule.due_of(begin["next"])
        while True:
            now_ms = int(time.time() * 1000)
            is_due = next_due_ms <= now_ms
            if is_due and self._gates.look(client(self._url)):
                return self._advance(schedule, begin, now_ms=now_ms, behind_ms=now_ms - next_due_ms)
            if now_ms >= deadline_ms or (is_due and self._gates.paused):
                return start
            until_ms = now_ms + POLL_S * 1000 if is_due else next_due_ms
            time.sleep(max(0.001, (min(until_ms, deadline_ms) - now_ms) / 1000))

    def _moved(self, start: dict) -> dict:
        """After a pause the next number is due later than the last batch's offset says; until it is planned."""
        begin = self._begin
        return begin if begin and begin["next"] == start["next"] and begin["t0"] > start["t0"] else start

    def _advance(self, schedule: Schedule, start: dict, *, now_ms: int, behind_ms: int) -> dict:
        # After a long pause a rate without an end goes on from now, instead of sending what it missed all at once.
        skip_ms = behind_ms if schedule.may_skip and behind_ms > self._catch_up_ms else 0
        t0 = start["t0"] + skip_ms
        end = schedule.due_by(now_ms - t0, start=start["next"], most=start["next"] + self._max_rows)
        return {"t0": t0, "next": end}

    def partitions(self, start: dict, end: dict) -> list[Numbers]:
        return [] if start == end else [Numbers(t0=end["t0"], start=start["next"], end=end["next"])]

    def read(self, partition: Numbers) -> Iterator[pa.RecordBatch]:
        schedule = self._schedule()
        for first in range(partition.start, partition.end, BATCH_ROWS):
            numbers = np.arange(first, min(first + BATCH_ROWS, partition.end), dtype=np.int64)
            columns = {
                "_seq": numbers,
                "_time": schedule.time_ms(numbers, t0=partition.t0),
                "_born": partition.t0 + schedule.due_ms(numbers),
            }
            yield pa.RecordBatch.from_arrays(
                [pa.array(values, pa.int64()) for values in columns.values()],
                schema=pa.schema([pa.field(name, pa.int64(), nullable=False) for name in columns]),
            )
