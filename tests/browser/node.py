"""A node that is played: it reads its desired state and writes reports, meters and events as docs/architecture.md says.

Nothing of Spark runs, so pages can be driven in a second; ``test_first_light.py`` drives them over the real engine.
"""

from __future__ import annotations

import json
import math
import threading
import time
from typing import Any

import pyarrow as pa
import redis

from workers.engine.agents.supervising.log_keeper import LogAnswers, LogKeeper
from workers.engine.channels import block_codec, keys

EVERY_S = 0.25
OUTPUT_TYPES = {"output"}
LOGS_EVERY = 40  # turns
TRACEBACK = """org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/opt/packages/sensors/checks.py", line 40, in cleaned
    value = float(text)
ValueError: could not convert string to float: 'a-rather-long-value-without-any-space-in-it-that-goes-on-and-on'"""


class PlayedNode(threading.Thread):
    """Runs whatever is desired of ``name``; fragments in ``failing`` report that cause instead, and what is in
    ``failures`` of them besides, and what is in ``told`` in place of its own. Who is to be tried again runs again."""

    def __init__(self, url: str, name: str = "n1", *, rate_per_s: float = 40.0) -> None:
        super().__init__(daemon=True)
        self.broker = redis.Redis.from_url(url)
        self.node = name
        self.rate_per_s = rate_per_s
        self.failing: dict[str, str] = {}
        self.failures: dict[str, dict[str, Any]] = {}
        self.told: dict[str, dict[str, Any]] = {}
        self._end_event = threading.Event()
        self._begins_ms: dict[str, int] = {}
        self._emitted: dict[str, int] = {}
        self._batch = 0
        self._logs = LogKeeper(data_folder="/nowhere", echo=lambda _: None)
        self._answers = LogAnswers(self.broker, name, self._logs)

    def stop(self) -> None:
        """Stop reporting; the last report expires."""
        self._end_event.set()
        self._answers.stop()
        self.join(5)
        self.broker.close()

    def fragments(self) -> list[str]:
        """What is desired of it, by id."""
        desired = json.loads(self.broker.get(keys.desired(self.node)) or '{"slots": {}}')
        return [fragment["id"] for slot in desired["slots"].values() for fragment in slot["fragments"]]

    def run(self) -> None:
        self._answers.start()
        while not self._end_event.wait(EVERY_S):
            try:
                self.turn()
            except redis.RedisError:
                continue  # the broker is away: a node goes on

    def turn(self) -> None:
        """One report of what is desired, as if it ran."""
        text = self.broker.get(keys.desired(self.node))
        desired = json.loads(text) if text else {"version": 0, "slots": {"0": {"fragments": []}}}
        self._batch += 1
        report = {
            "node": self.node, "version": desired["version"], "at_ms": _now_ms(), "cores": 2, "memory_mb": 8192,
            "slots": {index: self._slot(slot) for index, slot in desired["slots"].items()},
        }
        self.broker.set(keys.observed(self.node), json.dumps(report), ex=15)
        if self._batch % LOGS_EVERY == 1:
            self._log(desired)

    def _log(self, desired: dict[str, Any]) -> None:
        for index, slot in desired["slots"].items():
            for fragment in slot["fragments"]:
                for line in (
                    {"event": f"batch {self._batch} was late", "level": "warning", "fragment": fragment["id"]},
                    {"event": f"read {self._batch} rows", "level": "info", "fragment": fragment["id"],
                     "task": fragment["tasks"][0]["id"]},
                    {"event": "Exception in task 0.0 in stage 12.0 (TID 12)", "level": "ERROR", "logger": "Executor",
                     "fragment": fragment["id"], "exception": TRACEBACK}):
                    self._logs.take(index, json.dumps(line).encode())
            self._logs.take(index, b"a line of the process itself")

    def _slot(self, slot: dict[str, Any]) -> dict[str, Any]:
        fragments = {fragment["id"]: self._fragment(fragment) for fragment in slot["fragments"]}
        busy = 0.06 + 0.07 * len(fragments) + 0.02 * math.sin(self._batch / 7)
        return {"state": "running", "pid": 1, "cpu": round(min(busy, 0.97), 3), "memory_mb": 610 + 24 * len(fragments),
                "restarts": 0, "since_ms": _now_ms(), "fragments": fragments}

    def _fragment(self, fragment: dict[str, Any]) -> dict[str, Any]:
        key = fragment["id"]
        if key in self.failing and self.broker.getdel(keys.try_again(key)):
            del self.failing[key]
        cause = self.failing.get(key)
        since = self._begins_ms.setdefault(key, _now_ms())
        if cause is None:
            self._meter(fragment)
        return {
            "state": "backoff" if cause else "running", "batch": self._batch, "batch_ms": 30, "trigger_ms": 500,
            "rows_per_s": self.rate_per_s, "rate_per_s": self.rate_per_s, "cpu": 0.07, "memory": 0.02,
            "since_ms": since, "restarts": 3 if cause else 0, "error": cause,
            "committed_at_ms": _now_ms() - 300, "state_kb": 2_048, "phases_ms": {"logging": 9, "committing": 12},
            "retry_at_ms": _now_ms() + 4000 if cause else None, "throttled_by": None,
            "outlets": fragment["outlets"], "active": fragment["active"],
            **(self.failures.get(key, {}) if cause else {}), **self.told.get(key, {}),
        }

    def _meter(self, fragment: dict[str, Any]) -> None:
        wave = 1 + 0.2 * math.sin(self._batch / 9)
        events = max(1, round(self.rate_per_s * wave * EVERY_S))
        meter = keys.meter(fragment["id"])
        tapped = self.broker.exists(keys.tap(fragment["id"]))
        pipe = self.broker.pipeline(transaction=False)
        for position, task in enumerate(fragment["tasks"][: fragment["active"]]):
            pipe.hincrby(meter, f"{position}:n", events)
            pipe.hset(meter, f"{position}:time", _now_ms() - 900 - 200 * position)
            latency_ms = 20 + 14 * position + 6 * math.sin(self._batch / 5)
            pipe.hincrby(meter, f"{position}:lat:{int(4 * math.log2(latency_ms + 1))}", events)
            if task["type"] in OUTPUT_TYPES:
                self._publish(pipe, f"{fragment['id']}.{position}", events)
            elif tapped:
                self._copy(pipe, fragment["id"], task["id"], events)
        if fragment["inputs"]:
            pipe.hincrby(meter, "in:n", events)
            pipe.hincrby(meter, f"in:chan:{int(4 * math.log2(13))}", events)
            pipe.hincrby(meter, f"in:wait:{int(4 * math.log2(90))}", events)
        pipe.execute()

    def _publish(self, pipe: redis.client.Pipeline, channel: str, events: int) -> None:
        block, now = self._block(channel, events)
        pipe.xadd(keys.channel(channel), {"b": block, "n": events, "t": now}, maxlen=50)

    def _copy(self, pipe: redis.client.Pipeline, fragment: str, task: str, events: int) -> None:
        key = keys.tapped(task, fragment)
        block, _ = self._block(key, events)
        pipe.lpush(key, block).ltrim(key, 0, 9).expire(key, 60)

    def _block(self, stream: str, events: int) -> tuple[bytes, int]:
        """The next events of a stream as a block, and when that was (ms)."""
        first = self._emitted.get(stream, 0)
        self._emitted[stream] = first + events
        numbers, now = range(first, first + events), _now_ms()
        return block_codec.encode_block(pa.record_batch({
            "_seq": pa.array(numbers, pa.int64()), "_time": pa.array([now] * events, pa.int64()),
            "_born": pa.array([now - 40] * events, pa.int64()),
            "sensor_id": [f"sensor-{number % 7}" for number in numbers],
            "temperature": [round(21 + 3 * math.sin(number / 11), 2) for number in numbers],
        })), now


def _now_ms() -> int:
    return int(time.time() * 1000)
