"""The process that feeds a trial: writes events into a channel at a rate, so lightly that it is no bottleneck.

    python -m workers.engine.measuring.feeder      (started by the node agent; a line of JSON says what to do)

It reads what to feed, says ``ready``, waits for ``go``, writes gently until it is told ``faster``, and then at the
rate, until its input ends. It says when it began, and ten times a second how many events it has written and how often
it was held back: a channel whose reader has fallen far behind is left alone. What could not be written is then missing,
and the trial is unstable anyway; where it is missing otherwise, the feeder is the bottleneck.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import redis

from workers import broker_client
from workers.engine.channels import block_codec, keys, scripts
from workers.engine.channels.channel_config import BLOCK_ROWS

from .feed import EventFeed, read

TICK_S = 0.05
SAY_S = 0.1
FULL_BLOCKS = 4_000  # of what nobody has read yet
GENTLY = 0.1  # of the rate


@dataclass(frozen=True, slots=True)
class Assignment:
    """An order to feed: a file of events into a channel, with its fencing token, at a rate, off a slot's core."""

    redis_url: str
    channel: str
    fence: int
    feed: str
    rate_per_s: float
    threads: int = 1
    avoid_core: int | None = None

    def due(self, passed_s: float, *, gently_s: float) -> int:
        """The number of events that are due after so many seconds, ``gently_s`` of them gently.

        It begins with an event for each thread and a tenth of the rate: the first batch of a query starts its Python
        workers and compiles its code, and what piled up behind it at a high rate would take as long to go away as the
        trial lasts.
        """
        return self.threads + int(self.rate_per_s * (gently_s * GENTLY + passed_s - gently_s))


class Feeder:
    """Writes the events that are due. ``write_due`` takes the time that has passed, so that tests need no clock.

    It is ``faster`` once that is set.
    """

    def __init__(self, broker: redis.Redis, assignment: Assignment, feed: EventFeed) -> None:
        self._broker = broker
        self._assignment = assignment
        self._feed = feed
        self._tick = 0
        self._gently_s: float | None = None  # how long it began gently, once that is over
        self.held_back = 0  # how often it has left a full channel alone
        self.faster = threading.Event()
        self.sent = 0
        channel = assignment.channel
        self._keys = [keys.channel(channel), keys.meta(channel), keys.readers(channel)]
        self._write = scripts.source("write")
        self._digest = broker.script_load(self._write)

    def write_due(self, passed_s: float, *, now_ms: int) -> None:
        """Write all events that are due after so many seconds, in one round trip."""
        if self._gently_s is None and self.faster.is_set():
            self._gently_s = passed_s
        due = self._assignment.due(passed_s, gently_s=passed_s if self._gently_s is None else self._gently_s)
        if due <= self.sent:
            return
        if self._broker.xlen(self._keys[0]) > FULL_BLOCKS:
            self.held_back += 1
            return
        self._tick += 1
        pipeline = self._broker.pipeline(transaction=False)
        blocks = self._feed.between(self.sent, due, now_ms=now_ms, most=BLOCK_ROWS)
        for number, block in enumerate(blocks):
            payload = block_codec.encode_block(block)
            pipeline.evalsha(self._digest, 3, *self._keys, self._assignment.fence, self._tick, number,
                             block.num_rows, payload, now_ms)
        pipeline.execute()
        self.sent = due


def feed_until(feeder: Feeder, ended: Callable[[], bool], say: Callable[..., None]) -> None:
    """Write the events that are due, every tick until the input ends."""
    began, spent = time.monotonic(), 0.0
    say(began_ms=_now_ms())
    while not ended():
        passed_s = time.monotonic() - began
        feeder.write_due(passed_s, now_ms=_now_ms())
        if passed_s - spent >= SAY_S:
            spent = passed_s
            say(sent=feeder.sent, passed_s=passed_s, held_back=feeder.held_back)
        time.sleep(TICK_S)


def main(commands: TextIO = sys.stdin, answers: TextIO = sys.stdout) -> None:
    """Feed one trial."""
    def say(**answer: object) -> None:
        answers.write(json.dumps(answer) + "\n")
        answers.flush()

    line = commands.readline()
    if not line:
        return  # it ended before there was anything to feed
    assignment = Assignment(**json.loads(line))
    cores = os.sched_getaffinity(0) - {assignment.avoid_core}
    if cores:
        os.sched_setaffinity(0, cores)
    over = threading.Event()
    with broker_client.connect(assignment.redis_url) as broker:
        feeder = Feeder(broker, assignment, read(Path(assignment.feed)))
        say(ready=True)
        if commands.readline().strip() != "go":
            return
        threading.Thread(target=_obey, args=(commands, feeder.faster, over), daemon=True).start()
        feed_until(feeder, over.is_set, say)


def _obey(commands: TextIO, faster: threading.Event, over: threading.Event) -> None:
    for command in commands:
        if command.strip() == "faster":
            faster.set()
    over.set()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # the thread that waits for the end of the input has nothing left to say
