"""Keeps the newest lines of what a node's processes write, whose each is, and gives those that somebody asks for.

All of it goes to the agent's own log, too, without secrets. What is kept is in memory: some lines of each query and
task, so that one that writes much takes no other's place.
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import IO

import redis

from scheduler.contracts.logs import LEVELS, MOST_LINES, LogAnswer, LogLine, LogOrder
from workers.engine.log_store import LOGS
from workers.engine.sealed_secrets import redacted

from .log_lines import line_of
from .order_answers import OrderAnswers
from .slot_lines import lines_of

KEPT_LINES, KEPT_CHARACTERS = 1_000, 128_000  # of a query's, a task's or a process's own
MOST_KEPT = 100  # such
ANSWERED = 500_000  # characters of an answer
LONGEST_BYTES = 65_536  # of a line as it is read
BYTES_PER_S = 1_000_000  # of a process; more is counted and left out, for it would take the agent's time


@dataclass(slots=True)
class _Kept:
    lines: deque[tuple[int, LogLine]] = field(default_factory=deque)
    characters: int = 0

    def add(self, number: int, line: LogLine) -> None:
        self.lines.append((number, line))
        self.characters += len(line.text)
        while len(self.lines) > KEPT_LINES or self.characters > KEPT_CHARACTERS:
            self.characters -= len(self.lines.popleft()[1].text)


class LogKeeper:
    """The lines of one node's processes; from any thread.

    Parameters
    ----------
    echo : callable
        Takes each line for the agent's own log, with its end.
    """

    def __init__(self, *, data_folder: str, echo: Callable[[str], None]) -> None:
        self._data_folder, self._echo = data_folder, echo
        self._logs: OrderedDict[tuple[str, str, str], _Kept] = OrderedDict()  # the one that was written last, last
        self._number, self._epoch = 0, secrets.token_hex(4)
        self._lock = threading.Lock()

    def listen(self, stream: IO[bytes], name_of: Callable[[], str]) -> None:
        """Take what a process writes to its standard error until it ends. A driver that was a spare is another's by
        and by: ``name_of`` says whose it is."""
        with stream:
            for line in _bounded(lines_of(stream, most_bytes=LONGEST_BYTES)):
                self.take(name_of(), line)

    def take(self, process: str, line: bytes) -> None:
        """A line that a process wrote, with its end."""
        text = self._for_teams(line.decode(errors="replace").rstrip("\r\n"))
        if not text:
            return
        self._echo(f"{text}\n")
        log_line = line_of(process, text, now_ms=time.time_ns() // 1_000_000)
        with self._lock:
            self._number += 1
            key = (log_line.process, log_line.query, log_line.task)
            self._logs.setdefault(key, _Kept()).add(self._number, log_line)
            self._logs.move_to_end(key)
            if len(self._logs) > MOST_KEPT:
                del self._logs[self._least_missed()]

    def read(self, order: LogOrder) -> LogAnswer:
        """The newest lines that an order asks for."""
        epoch, _, number = order.after.partition(":")
        behind = int(number) if epoch == self._epoch and number.isdecimal() else 0
        with self._lock:
            entries = [
                (at, line) for key, of_key in self._logs.items() if _is_asked_for(order, *key)
                for at, line in of_key.lines if at > behind]
            after = f"{self._epoch}:{self._number}"
        searched, levels = order.search.casefold(), LEVELS[LEVELS.index(order.level):]
        matching = [
            line for _, line in sorted(entries, key=lambda entry: entry[0])
            if line.level in levels and searched in line.text.casefold()]
        lines, characters = [], 0
        for line in reversed(matching[-min(order.count, MOST_LINES):]):
            characters += len(line.text)
            if characters > ANSWERED:
                break
            lines.append(line)
        return LogAnswer(tuple(reversed(lines)), after, len(matching) - len(lines))

    def _least_missed(self) -> tuple[str, str, str]:
        """The oldest of the process that has most: one that makes names up takes no place of the others."""
        [(process, _)] = Counter(process for process, _, _ in self._logs).most_common(1)
        return next(key for key in self._logs if key[0] == process)

    def _for_teams(self, text: str) -> str:
        return redacted(text).replace(self._data_folder, "<data folder>")


class LogAnswers(OrderAnswers):
    """Answers what the site asks of a node's logs."""

    def __init__(self, broker: redis.Redis, node: str, keeper: LogKeeper) -> None:
        super().__init__(broker, node, LOGS, keeper.read, name="log_answers")


def _is_asked_for(order: LogOrder, process: str, query: str, task: str) -> bool:
    if order.process:
        return process == order.process
    return task in order.tasks if task else query in order.queries


def _bounded(lines: Iterator[bytes]) -> Iterator[bytes]:
    """Lines, so many bytes of a second; in the place of others how many were left out."""
    second, taken, left_out = 0.0, 0, 0
    for line in lines:
        now_s = time.monotonic()
        if now_s - second >= 1.0:
            if left_out:
                yield f"{left_out} lines were left out: more than {BYTES_PER_S:,} bytes a second.{os.linesep}".encode()
            second, taken, left_out = now_s, 0, 0
        taken += len(line)
        if taken <= BYTES_PER_S:
            yield line
        else:
            left_out += 1
