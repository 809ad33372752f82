"""Streaming word count of real text on a slot, with copies of its state on other nodes: what these cost its peak.

A dataflow of shipped types in one query: ``replay`` gives words, more than a core can take, and a window counts each.
So batches are as large as sources make them, 100,000 events, and a core has as many, whatever else runs beside it.
``total`` is one window that has all of the text; windows of 15 minutes, an hour or 12 hours of the events' time overlap
three times. A line of text is a tenth of a second of that, and a last one lets all windows end. Each run is the whole
text once. What comes out is compared with counts in plain Python, word by word and window by window.

Holders of copies are agents of their own on this machine, each with a folder of its own. One whose process is stopped
counts as gone once its report is over. So one query after the other, in one warm driver, has copies or none.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain, cycle, islice
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from scheduler.model.estate import Estate
from scheduler.model.fragment import Fragment, RunningTask, Slot, channel_id
from tests.written_blocks import read_blocks
from workers.engine import desired_publishing
from workers.engine.channels import keys
from workers.engine.measuring.load import TreeLoad
from workers.engine.observed import read_reports
from workers.engine.worker_settings import ROOT
from workers.library.registry import task_types
from workers.processes import spawn, stop

from .copied_counts import LINE_MS, WINDOWS_S
from .engine import _defaults
from .estate import NODE, RunningEstate, running
from .real_text import lines_of_text
from .recordings import BEGAN_MS
from .sides import ALL_EVENTS
from .tree_usage import used_s

HOLDERS = ("holder-1", "holder-2")
DAY_S = 86_400
TOTAL_S = 31 * DAY_S  # the longest window that there is
OVERLAPS = 3
WORDS_PER_S = 500_000.0
TRIGGER_MS = 500
COPY_S = 2.0
LOOK_S = 0.1
ROWS_S = 20.0  # how long rows may come after the last word has been counted
TOLD = 5  # differences that an error names

Key = tuple[str, int, int]  # a word, and start and end of a window in ms


class WrongCounts(RuntimeError):
    """What came out is not what plain Python counts."""


@dataclass(frozen=True)
class CountedText:
    """Lines of words, a tenth of a second of the events' time apart."""

    lines: tuple[str, ...]

    @classmethod
    def of(cls, lines: int) -> CountedText:
        """So many lines of the real text, which begins again at its end."""
        return cls(tuple(islice(cycle(lines_of_text()), lines)))

    @property
    def words(self) -> int:
        """How many words it has, with the one of the line that ends all windows."""
        return sum(line.count(" ") + 1 for line in self.lines) + 1

    def write(self, path: Path) -> None:
        """Write it as a recording."""
        timed = [(word, BEGAN_MS + LINE_MS * number)
                 for number, line in enumerate(self.lines) for word in line.split(" ")]
        timed.append(("closing", BEGAN_MS + 2 * 1000 * TOTAL_S))
        pq.write_table(pa.table({"word": [word for word, _ in timed], "at": [at_ms for _, at_ms in timed]}), path)

    def counted(self, count: str) -> Counter[Key]:
        """How often each word is in each window, by going through the lines of one window after the other."""
        size_ms, slide_ms = window_ms(count)
        began_ms, counts = BEGAN_MS - BEGAN_MS % slide_ms - size_ms + slide_ms, Counter[Key]()
        for start_ms in range(began_ms, BEGAN_MS + LINE_MS * len(self.lines), slide_ms):
            # A line is in it from its start on, until before its end.
            first, behind = (max(0, -((BEGAN_MS - edge) // LINE_MS)) for edge in (start_ms, start_ms + size_ms))
            words = Counter(chain.from_iterable(line.split(" ") for line in self.lines[first:behind]))
            counts.update({(word, start_ms, start_ms + size_ms): times for word, times in words.items()})
        return counts


def window_ms(count: str) -> tuple[int, int]:
    """How long a window is, and how often one begins, in ms."""
    size_ms = 1000 * WINDOWS_S.get(count, TOTAL_S)
    return size_ms, size_ms // OVERLAPS if count in WINDOWS_S else size_ms


def compare(expected: Mapping[Key, int], rows: Iterable[Mapping[str, Any]]) -> int:
    """How many counts are as expected, which is all.

    Raises
    ------
    WrongCounts
        One is missing, another one, not expected, there twice, or tells of late words. The first few are named.
    """
    counts: dict[Key, list[tuple[int, int]]] = {}
    for row in rows:
        counts.setdefault((row["word"], row["window_start"], row["window_end"]), []).append((row["times"], row["late"]))
    wrong = [key for key in {**expected, **counts} if counts.get(key) != [(expected.get(key, 0), 0)]]
    if wrong:
        raise WrongCounts(f"{len(wrong)} of {len(expected)} counts are wrong: " + "; ".join(
            f"“{word}” from {start_ms} to {end_ms} is {expected.get((word, start_ms, end_ms), 0)} times in the text, "
            f"and came as (times, late) {counts.get((word, start_ms, end_ms), [])}"
            for word, start_ms, end_ms in sorted(wrong)[:TOLD]))
    return len(expected)


def tasks_of(count: str) -> dict[str, RunningTask]:
    """The dataflow, upstream first."""
    size_ms, slide_ms = window_ms(count)
    overlapping = {"kind": "sliding", "slide": slide_ms / 1000} if slide_ms < size_ms else {}
    types: tuple[tuple[str, str, dict[str, Any]], ...] = (
        ("words", "replay", {"path": "words.parquet", "time_column": "at", "rate_per_s": WORDS_PER_S}),
        ("counts", "window", {
            "size": size_ms / 1000, "by": ["word"], "aggregates": ["times=count(*)"], **overlapping}),
        ("out", "output", {"name": "counts", "keep_events": ALL_EVENTS}))
    parents = [(), *((name,) for name, _, _ in types)]
    return {name: RunningTask(name, type_name, {**_defaults(type_name), **config}, before)
            for (name, type_name, config), before in zip(types, parents, strict=False)}


WORDS_AT, OUT_AT = 0, 2  # places of tasks


@dataclass(frozen=True)
class CountingRun:
    """What counting the text once took; CPU is in seconds, without compilers for the node that counts.

    ``other_cpu_s`` is that of holders and broker, ``whole`` how many copies became whole.
    """

    words: int
    cpu_s: float
    other_cpu_s: float
    whole: int
    state_kb: int
    rows: int


@dataclass
class CountingNodes:
    """The node that counts, and those that hold copies; ``stopped`` are those of them that do not work just now."""

    estate: RunningEstate
    text: CountedText
    holders: dict[str, int]  # their agents' processes
    until_s: float  # on the monotonic clock: by when all has to be done
    stopped: set[str] = field(default_factory=set)
    _expected_counts: dict[str, Counter[Key]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._load = TreeLoad(self.estate.agent_pid)

    def _have_holders(self, copies: int) -> None:
        """Let so many holders work, and wait until these report and no other one does."""
        for place, (node, pid) in enumerate(self.holders.items()):
            if (place < copies) is (node in self.stopped):
                os.kill(pid, signal.SIGCONT if place < copies else signal.SIGSTOP)
                self.stopped ^= {node}
        wanted = {NODE, *self.holders} - self.stopped
        self._wait(lambda: {name for name, _ in read_reports(self.estate.client).items()} == wanted,
                   what=f"{wanted} report")

    def run(self, count: str, copies: int) -> CountingRun:
        """Count the text once with so many copies, and compare what comes out.

        What is measured begins with a batch, once the copies are there, and ends with the last batch.

        Raises
        ------
        WrongCounts
            A count differs.
        TimeoutError
            It is not done in time, or before there are copies.
        """
        self._have_holders(copies)
        self.estate.enact(_estate(count, self.estate.estate.generation + 1), within_s=self._left_s)
        query, = self.estate.queries()
        self._wait(lambda: self._words(query) > 0 and len(self._copies(query)) == copies, what=f"{copies} copies")
        if self._words(query) >= self.text.words:
            raise TimeoutError(f"all was counted before there were {copies} copies: take a longer text")
        words, copies_seen, state_kb = self._next_words(query), self._copies(query), 0
        began, cpu_s, other_s = words, self._load.cpu_s(), self._other_s()
        before = len(copies_seen)
        while words < self.text.words:
            words = self._next_words(query)
            copies_seen |= self._copies(query)
            report = self.estate.fragments().get(query)
            state_kb = max(state_kb, report.state_kb or 0) if report else state_kb
        run = CountingRun(words - began, self._load.cpu_s() - cpu_s, self._other_s() - other_s,
                          len(copies_seen) - before, state_kb, 0)
        return replace(run, rows=self._compared(count, query))

    def _compared(self, count: str, query: str) -> int:
        expected = self._expected_counts.setdefault(count, self.text.counted(count))
        ends_s = time.monotonic() + ROWS_S  # rows that do not come are told as such
        while self._meter(query, OUT_AT) < len(expected) and time.monotonic() < ends_s:
            time.sleep(LOOK_S)
        blocks = read_blocks(self.estate.channels, channel_id(query, OUT_AT), count=ALL_EVENTS)
        return compare(expected, chain.from_iterable(rows for _, rows in blocks))

    def _next_words(self, query: str) -> int:
        """Wait until a batch more is counted; how many words there have been."""
        before = self._words(query)
        self._wait(lambda: self._words(query) > before, what=f"more than {before} words come")
        return self._words(query)

    def _words(self, query: str) -> int:
        return self._meter(query, WORDS_AT)

    def _meter(self, query: str, place: int) -> int:
        return int(self.estate.client.hget(keys.meter(query), f"{place}:n") or 0)

    def _copies(self, query: str) -> set[tuple[bytes, bytes]]:
        """By node, what it says of its whole copy."""
        return set(self.estate.client.hgetall(keys.copies(query)).items())

    def _other_s(self) -> float:
        return used_s(self.estate.broker_pid, *self.holders.values())

    def _wait(self, is_so: Any, *, what: str) -> None:
        ends_s = time.monotonic() + self._left_s
        while not is_so():
            if time.monotonic() > ends_s:
                raise TimeoutError(f"{what}: not in time; the agent reports {self.estate.fragments()}")
            time.sleep(LOOK_S)

    @property
    def _left_s(self) -> float:
        return max(0.0, self.until_s - time.monotonic())


def _estate(count: str, generation: int) -> Estate:
    """The dataflow in a query that goes on with nothing."""
    tasks = tasks_of(count)
    fragment = Fragment(f"f{generation}-0", tuple(tasks), f"{NODE}/0", len(tasks))
    return Estate(generation, tasks, fragments={fragment.id: fragment}, slots=(Slot(NODE, 0),))


@contextmanager
def counting_nodes(text: CountedText, *, holders: int, within_s: float) -> Iterator[CountingNodes]:
    """A broker, a node whose slot is warm and runs nothing, and agents beside it that may hold copies of its state."""
    until_s = time.monotonic() + within_s
    with tempfile.TemporaryDirectory(prefix="weir-words-") as name, ExitStack() as stack:
        folder = Path(name)
        for part in (NODE, "replay"):
            (folder / part).mkdir()
        text.write(folder / "replay" / "words.parquet")
        settings = {
            "WEIR_COPIES": str(len(HOLDERS)), "WEIR_COPY_S": f"{COPY_S:g}", "WEIR_SPARES": "0", "WEIR_PIN": "never",
            "WEIR_REPLAY_DIRS": str(folder / "replay")}
        nothing = Estate(1, slots=(Slot(NODE, 0),))
        counting = stack.enter_context(running(nothing, folder / NODE, trigger_ms=TRIGGER_MS, settings=settings))
        nodes = CountingNodes(counting, text, {}, until_s)
        for node in HOLDERS[:holders]:
            desired_publishing.publish(
                counting.client, desired_publishing.desired_of(nothing, node, task_types(), TRIGGER_MS))
            process = spawn(
                [sys.executable, "-m", "workers.engine.agents.node_agent", "--node", node, "--slots", "1",
                 "--data-dir", str(folder / node)],
                cwd=ROOT, stdout=stack.enter_context((folder / f"{node}.log").open("ab")),
                env={**os.environ, **settings, "REDIS_URL": counting.url, "PYTHONPATH": str(ROOT)})
            stack.callback(stop, process, timeout_s=15)
            nodes.holders[node] = process.pid
        stack.callback(lambda: [os.kill(nodes.holders[node], signal.SIGCONT) for node in nodes.stopped])
        counting.wait_slots(within_s=within_s)
        yield nodes


def cost_of_copies(
    counts: Sequence[str], *, copies: Sequence[int], rounds: int, lines: int, within_s: float
) -> list[dict[str, Any]]:
    """A line for each count and number of copies: how many words a core-second of the node that counts does, and by how
    much that is less than with the first number, round by round; medians.

    The rate at which all of a core is the node's is its peak. Where time runs out there are fewer rounds, and no
    lines of counts without one.

    Raises
    ------
    WrongCounts
        A count differs from that in plain Python.
    TimeoutError
        There was no time for a round of any count.
    """
    runs: dict[tuple[str, int], list[CountingRun]] = {(count, number): [] for count in counts for number in copies}
    with counting_nodes(CountedText.of(lines), holders=max(copies), within_s=within_s) as nodes:
        try:
            for count in counts:
                nodes.run(count, max(copies))  # code is compiled
            downwards = sorted(copies, reverse=True)
            for turn in range(rounds):
                # Holders take a while to count as gone, so numbers go down, then up; copied count has both in turn.
                for place, count in enumerate(counts[::-1 if turn % 2 else 1]):
                    for number in downwards[::-1 if (turn * len(counts) + place) % 2 else 1]:
                        run = nodes.run(count, number)
                        runs[count, number].append(run)
                        print(f"{count}, {number} copies: {run.words / run.cpu_s:,.0f} words a core-second, {run}",
                              file=sys.stderr, flush=True)
        except TimeoutError as late:
            print(f"No time for more rounds: {late}", file=sys.stderr)
            if not lines_of(runs, copies):
                raise
    return lines_of(runs, copies)


def lines_of(runs: Mapping[tuple[str, int], Sequence[CountingRun]], copies: Sequence[int]) -> list[dict[str, Any]]:
    """The lines of counts that have had a round, of whole rounds alone."""
    lines = []
    for (count, number), turns in runs.items():
        if whole := min(len(runs[count, copied]) for copied in copies):
            lines.append(_line(count, number, turns[:whole], runs[count, copies[0]][:whole]))
    return lines


def _line(count: str, copies: int, turns: Sequence[CountingRun], base: Sequence[CountingRun]) -> dict[str, Any]:
    rates, without = ([run.words / run.cpu_s for run in runs] for runs in (turns, base))
    less = f"{100 * median(1 - rate / before for rate, before in zip(rates, without, strict=True)):.0f}%"
    return {
        "count": count, "copies": copies, "rounds": len(turns), "state, KB": max(run.state_kb for run in turns),
        "words a core-second": round(median(rates)), "least": round(min(rates)), "most": round(max(rates)),
        "less": less if not copies or all(run.whole for run in turns) else None,  # none was made that costs anything
        "with holders and broker": round(median(run.words / (run.cpu_s + run.other_cpu_s) for run in turns)),
        "copies a core-second": round(median(run.whole / run.cpu_s for run in turns), 1),
        "counts compared": sum(run.rows for run in turns)}
