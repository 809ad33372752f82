"""Streaming word count of real text, with copies of its state on other nodes: and what they cost.

A dataflow of shipped types in one query of a real slot: ``replay`` gives lines, ``sql`` makes words of them, and
``total`` collects each word's times by the hundred, or a sliding window counts each word in 15 minutes, an hour or 12
hours of the events' time, of which three overlap. A line is a tenth of a second of that. Holders
of copies are agents of their own on this machine. One whose process is stopped counts as gone once its report is over:
so one query, in one warm driver, has copies in turn and has none.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from scheduler.model.estate import Estate
from scheduler.model.fragment import Fragment, RunningTask, Slot
from workers.engine import desired_publishing
from workers.engine.channels import keys
from workers.engine.measuring.load import TreeLoad
from workers.engine.worker_settings import ROOT
from workers.library.registry import task_types
from workers.processes import spawn, stop

from .copied_counts import LINE_MS, WINDOWS_S
from .engine import _defaults
from .estate import NODE, RunningEstate, running
from .real_text import lines_of_text
from .recordings import BEGAN_MS

HOLDERS = ("holder-1", "holder-2")
QUERY = "f1-0"
WORDS_AT = 1  # the place of the task that gives words
TRIGGER_MS = 500
WITHIN_S = 240.0
COPY_S = 2.0


def tasks_of(count: str, *, lines_per_s: float) -> dict[str, RunningTask]:
    """The dataflow, upstream first."""
    fold = ("accumulate", {"window": 100, "by": ["word"]})
    if count in WINDOWS_S:
        size_s = WINDOWS_S[count]
        fold = ("window", {
            "kind": "sliding", "size": size_s, "slide": size_s / 3, "by": ["word"], "aggregates": ["times=count(*)"]})
    words = "SELECT explode(split(line, ' ')) AS word, 1.0 AS value FROM input"
    types = (
        ("lines", "replay", {"path": "lines.parquet", "repeat": True, "time_column": "at", "rate_per_s": lines_per_s}),
        ("words", "sql", {"query": words}), ("counts", *fold), ("out", "output", {"name": "counts"}))
    parents = [(), *((name,) for name, _, _ in types)]
    return {name: RunningTask(name, type_name, {**_defaults(type_name), **config}, before)
            for (name, type_name, config), before in zip(types, parents, strict=False)}


@dataclass
class CountingNodes:
    """The node that counts, and those that hold copies; ``stopped`` are those of them that do not work just now."""

    estate: RunningEstate
    holders: dict[str, int]  # their agents' processes
    stopped: set[str]

    def have_copies(self, copies: int) -> None:
        """Let so many holders work, and wait until each of these has a whole copy, and no other one counts."""
        for place, (node, pid) in enumerate(self.holders.items()):
            if (place < copies) is (node in self.stopped):
                os.kill(pid, signal.SIGCONT if place < copies else signal.SIGSTOP)
                self.stopped ^= {node}
        self.estate.wait(
            lambda: self.estate.client.hlen(keys.copies(QUERY)) == copies, what=f"there are {copies} copies",
            within_s=WITHIN_S)

    def words(self) -> tuple[int, float]:
        """How many words there have been, and when that was."""
        meters = self.estate.meters()
        return meters.counts.get(QUERY, {}).get(f"{WORDS_AT}:n", 0), meters.at_ms / 1000

    def state_kb(self) -> int:
        """About how much state the query has."""
        return self.estate.fragments()[QUERY].state_kb or 0


@contextmanager
def counting_nodes(
    count: str, *, lines_per_s: float, holders: int, copy_s: float, copies: int = 2
) -> Iterator[CountingNodes]:
    """A broker, the dataflow on a slot, and agents beside it that may hold copies of its state."""
    tasks = tasks_of(count, lines_per_s=lines_per_s)
    estate = Estate(1, tasks, fragments={QUERY: Fragment(QUERY, tuple(tasks), f"{NODE}/0", len(tasks))},
                    slots=(Slot(NODE, 0),))
    with tempfile.TemporaryDirectory(prefix="weir-words-") as name, ExitStack() as stack:
        folder, lines = Path(name), lines_of_text()
        for part in (NODE, "replay"):
            (folder / part).mkdir()
        pq.write_table(pa.table({
            "line": lines, "at": [BEGAN_MS + LINE_MS * number for number in range(len(lines))]},
        ), folder / "replay" / "lines.parquet")
        settings = {
            "WEIR_COPIES": str(copies), "WEIR_COPY_S": f"{copy_s:g}", "WEIR_SPARES": "0", "WEIR_PIN": "never",
            "WEIR_REPLAY_DIRS": str(folder / "replay")}
        counting = stack.enter_context(running(estate, folder / NODE, trigger_ms=TRIGGER_MS, settings=settings))
        nodes = CountingNodes(counting, {}, set())
        for node in HOLDERS[:holders]:
            desired_publishing.publish(
                counting.client, desired_publishing.desired_of(estate, node, task_types(), TRIGGER_MS))
            process = spawn(
                [sys.executable, "-m", "workers.engine.agents.node_agent", "--node", node, "--slots", "1",
                 "--data-dir", str(folder / node)],
                cwd=ROOT, stdout=stack.enter_context((folder / f"{node}.log").open("ab")),
                env={**os.environ, **settings, "REDIS_URL": counting.url, "PYTHONPATH": str(ROOT)})
            stack.callback(stop, process, timeout_s=15)
            nodes.holders[node] = process.pid
        stack.callback(lambda: [os.kill(nodes.holders[node], signal.SIGCONT) for node in nodes.stopped])
        counting.wait_running()
        counting.wait(lambda: nodes.words()[0] > 0, what="words come", within_s=WITHIN_S)
        yield nodes


def cost_of_copies(
    count: str, *, copies: Sequence[int], repeats: int, lines_per_s: float, seconds: float
) -> list[dict[str, Any]]:
    """A line for each number of copies: how many words a core-second of the counting node does, and by how much that is
    less than with the first number, pair by pair.

    CPU is that of the agent, slot and driver of the node that counts, compilers left out. The rate at which that is all
    of the node's is its peak.
    """
    with counting_nodes(count, lines_per_s=lines_per_s, holders=max(copies), copy_s=COPY_S) as nodes:
        load = TreeLoad(nodes.estate.agent_pid)
        nodes.have_copies(max(copies))
        load.cpu_s()
        time.sleep(seconds)  # compilers
        runs: dict[int, list[float]] = {number: [] for number in copies}
        for turn in range(repeats):
            for number in copies[::-1 if turn % 2 else 1]:
                nodes.have_copies(number)
                runs[number].append(_words_a_core_s(nodes, load, seconds))
                print(f"{count}, {number} copies: {runs[number][-1]:,.0f} words a core-second", file=sys.stderr,
                      flush=True)
        state_kb = nodes.state_kb()
    return [{
        "count": count, "state KB": state_kb, "copies": number, "words a core-second": round(median(own)),
        "less": f"{100 * median(1 - own_run / base for own_run, base in zip(own, runs[copies[0]], strict=True)):.0f}%"}
        for number, own in runs.items()]


def _words_a_core_s(nodes: CountingNodes, load: TreeLoad, seconds: float) -> float:
    began, before_s = nodes.words(), load.cpu_s()
    time.sleep(seconds)
    ended, after_s = nodes.words(), load.cpu_s()
    return (ended[0] - began[0]) * seconds / (ended[1] - began[1]) / (after_s - before_s)
