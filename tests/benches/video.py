"""The citizen-journalism job of paper [5], 4.1, with real frames: its latency as the job runs and is optimised.

Four cameras' H.264 packets are decoded, put together, given a banner, and encoded. The job begins with a query for each
task and batches as far apart as a dataflow has them that asks for nothing; then a limit is chosen, and batches adapt to
it; then queries may be chained, by the handover that the site uses. Intervals are those of the site's program
(``scheduler.latency.pacing``), from what batches were seen to take, and the longest series that may be one query is
fused in one step, as its controller does; here both are looked at every ten seconds. What comes out is compared with
the same steps done without Spark.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import redis

from scheduler.controllers.chaining import FUSES_BELOW
from scheduler.latency.limits_met import MET, WAITING, Settled, corrected, state_of
from scheduler.latency.pacing import Expected, LimitOnWay, Queries, pace
from scheduler.latency.runtime_graph import Channel, RuntimeGraph, Vertex
from scheduler.latency.task_chaining import ChainingFacts, chainable_series
from tests.benches import video_tasks
from tests.benches.arguments import positive
from tests.benches.estate import NODE, running
from tests.benches.results import machine, table, write
from tests.benches.video_job import CHAIN, EVERY_S, Job, estate_of, installed_in
from tests.written_blocks import read_blocks
from workers.engine.worker_settings import ROOT

ALONE, BATCHES, CHAINS = PHASES = ("unoptimised", "batches", "batches and chaining")


@dataclass(frozen=True, slots=True)
class Second:
    """One second of the job: where its latency went, in ms, pictures per second at its end, and what was done."""

    at_s: float
    phase: str
    waiting_ms: float
    transport_ms: float
    working_ms: float
    pictures_per_s: float
    queries: int
    action: str = ""

    @property
    def latency_ms(self) -> float:
        """The mean age of pictures at the end."""
        return self.waiting_ms + self.transport_ms + self.working_ms


class Optimiser:
    """Chooses intervals as soon as there is a limit and every ten seconds, and fuses where none hold it."""

    def __init__(self, job: Job, *, limit_s: float) -> None:
        self._job, self._limit_s = job, limit_s
        self._other_s = 0.0
        self._latencies = Settled()
        self._expectation: Expected | None = None

    def look(self, now_s: float, latency_ms: float | None) -> None:
        """Take a second's latency in."""
        intervals_s = [self._job.interval_ms(fragment.id) / 1000 for fragment in self._job.path]
        self._latencies.look(
            now_s, intervals_s, None if latency_ms is None else latency_ms / 1000, over_s=60.0)

    def decide(self, *, chains: bool) -> str:
        """Do what there is to do; in words, empty where that is nothing."""
        job = self._job
        queries = job.queries()
        if queries is None:
            return ""
        measured_s = self._latencies.recent_s
        if measured_s is not None and self._expectation is not None:
            modelled_s = self._expectation.latency_s - self._other_s
            self._other_s = corrected(
                self._other_s, measured_s=measured_s, modelled_s=modelled_s, limit_s=self._limit_s)
        want = LimitOnWay("video", job.way(), self._limit_s, other_s=self._other_s)
        paced = pace(queries, [want])
        self._expectation = paced.expected["video"]
        state = state_of(self._limit_s, self._expectation, measured_s)
        if chains and state not in (MET, WAITING) and (series := self._series(queries)):
            job.fuse(series)
            self._expectation, self._latencies = None, Settled()
            return f"{', '.join(series[:-1])} and {series[-1]} become one query"
        if not job.pace(paced.interval_s):
            return ""
        middle_ms = statistics.median(job.paces_ms.values())
        return f"batches {middle_ms:.0f} ms apart"

    def _series(self, queries: Queries) -> tuple[str, ...]:
        """The longest series that may be one query."""
        names = [fragment.id for fragment in self._job.path]
        graph = RuntimeGraph([Vertex(name, name, NODE) for name in names], [Channel(*pair) for pair in pairwise(names)])
        # What a query takes when its batches come so often is mostly what they take for being batches: of those of a
        # chain one is left.
        cores = {name: cost.rate_per_s * cost.event_cpu_s for name, cost in queries.costs.items()}
        facts = ChainingFacts(dict.fromkeys(names, NODE), cores)
        return next(iter(chainable_series(names, graph, facts, capacity=FUSES_BELOW)), ())


def followed(job: Job, optimiser: Optimiser, phase: str, *, seconds: float, began_s: float) -> list[Second]:
    """Watch the job through a phase, second by second, and optimise it as far as the phase allows.

    Parameters
    ----------
    job, optimiser : Job, Optimiser
        What runs, and what decides.
    phase : str
        One of `PHASES`.
    seconds : float
        How long it takes.
    began_s : float
        When the first phase began, by the monotonic clock.
    """
    rows: list[Second] = []
    end_s = time.monotonic() + seconds
    decided_s = time.monotonic() - EVERY_S  # what a phase allows is done at once
    while time.monotonic() < end_s:
        time.sleep(1)
        now_s = time.monotonic()
        parts = None
        with suppress(redis.TimeoutError):  # beside other work the broker may be late: that second says nothing
            parts = job.look()
        latency_ms = None if parts is None else sum(asdict(parts[0]).values())
        optimiser.look(now_s, latency_ms)
        action = ""
        if now_s - decided_s >= EVERY_S:
            decided_s = now_s
            with suppress(redis.TimeoutError):
                job.look_at_batches(now_s)
                action = "" if phase == ALONE else optimiser.decide(chains=phase == CHAINS)
        if parts is not None:
            rows.append(Second(round(now_s - began_s, 1), phase, round(parts[0].waiting_ms, 1), round(
                parts[0].transport_ms, 1), round(parts[0].working_ms, 1), round(parts[1], 2), len(job.path), action))
            if action:
                print(f"{rows[-1].at_s:7.1f} s  {rows[-1].latency_ms:7.0f} ms  {action}", flush=True)
    return rows


def summary(rows: Sequence[Second], *, limit_s: float) -> list[dict[str, Any]]:
    """A row for each phase: the medians of its last half, as what came before is on the way there."""
    lines = []
    for phase in PHASES:
        seconds = [row for row in rows if row.phase == phase]
        if not seconds:
            continue
        late = seconds[len(seconds) // 2:]

        def middle(name: str, late: Sequence[Second] = late) -> float:
            return round(statistics.median(getattr(row, name) for row in late), 1)

        lines.append({
            "phase": phase, "queries": late[-1].queries, "latency ms": middle("latency_ms"),
            "least": min(row.latency_ms for row in late), "most": max(row.latency_ms for row in late),
            "waiting": middle("waiting_ms"), "transport": middle("transport_ms"), "work": middle("working_ms"),
            "pictures/s": middle("pictures_per_s"),
            "of seconds within": f"{sum(row.latency_ms <= 1000 * limit_s for row in late) / len(late):.0%}"})
    return lines


def met_after_s(rows: Sequence[Second], *, limit_s: float, chosen_s: float, over: int = 10) -> float | None:
    """How long after a limit was chosen the mean of so many seconds was first within it; None where it never was.

    Parameters
    ----------
    rows : sequence of Second
        All phases.
    limit_s : float
        The limit, in seconds.
    chosen_s : float
        When it was chosen, as the rows count.
    over : int, optional
        How many seconds make a mean.
    """
    after = [row for row in rows if row.at_s >= chosen_s]
    for end in range(over, len(after) + 1):
        if statistics.fmean(row.latency_ms for row in after[end - over: end]) <= 1000 * limit_s:
            return round(after[end - 1].at_s - chosen_s, 1)
    return None


def times_less(phases: Sequence[Mapping[str, Any]]) -> float | None:
    """How many times less latency the last phase has than the unoptimised; None where one of them had no reading."""
    by_name = {phase["phase"]: phase["latency ms"] for phase in phases}
    if ALONE not in by_name or len(by_name) < 2:
        return None
    return round(by_name[ALONE] / phases[-1]["latency ms"], 1)


def checked(job: Job, *, width: int, height: int) -> dict[str, Any]:
    """What came out against the same steps without Spark: each picture once, in order, and the same."""
    channel = job.at.estate.channel_of(CHAIN[-1])
    numbers, differing, after = [], 0, "0-0"
    while blocks := read_blocks(job.at.channels, channel, after=after, count=50):
        after = blocks[-1][0]
        for _, events in blocks:
            for event in events:
                numbers.append(event["_seq"])
                differing += event["checksum"] != video_tasks.checksum(
                    video_tasks.picture_of(event["_seq"], width, height))
    return {
        "pictures": len(numbers), "each once and in order": numbers == list(range(len(numbers))),
        "differing": differing}


def measure(
    *, limit_s: float, rate_per_s: float, size: tuple[int, int], apart_ms: int, slots: int, seconds: Sequence[float]
) -> dict[str, Any]:
    """Run the job through its phases.

    Parameters
    ----------
    limit_s : float
        On the mean latency, in seconds.
    rate_per_s : float
        Pictures of each camera per second.
    size : (int, int)
        Width and height of a camera's picture, in pixels.
    apart_ms : int
        Between batches before a limit is chosen.
    slots : int
        Drivers that the queries are spread over.
    seconds : sequence of float
        How long each phase takes.
    """
    width, height = size
    estate = estate_of(rate_per_s=rate_per_s, width=width, height=height, slots=slots)
    with tempfile.TemporaryDirectory(prefix="weir-bench-") as name:
        plugin = installed_in(Path(name) / "plugin")
        paths = os.pathsep.join([str(plugin), str(ROOT)])
        with running(estate, Path(name) / "data", trigger_ms=apart_ms, settings={"PYTHONPATH": paths}) as at:
            at.wait_running(within_s=600)
            job, rows = Job(at, apart_ms), []
            optimiser = Optimiser(job, limit_s=limit_s)
            began_s = chosen_s = time.monotonic()
            for phase, length_s in zip(PHASES, seconds, strict=True):
                if phase == BATCHES:
                    chosen_s = time.monotonic()
                    print(f"{chosen_s - began_s:7.1f} s  limit of {1000 * limit_s:.0f} ms", flush=True)
                rows += followed(job, optimiser, phase, seconds=length_s, began_s=began_s)
            outputs = checked(job, width=width, height=height)
    chosen_at_s = chosen_s - began_s
    phases = summary(rows, limit_s=limit_s)
    return {
        "phases": phases, "met after s": met_after_s(rows, limit_s=limit_s, chosen_s=chosen_at_s),
        "times less": times_less(phases), "outputs": outputs,
        "seconds": [{**asdict(row), "latency_ms": round(row.latency_ms, 1), "limit_ms": None if row.phase == ALONE else
                     1000 * limit_s} for row in rows]}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print a table, write JSON."""
    parser = argparse.ArgumentParser(
        description="The citizen-journalism job of paper [5] with real frames (H.264): its latency, stacked, while it "
                    "runs unoptimised, with batches that adapt to a limit, and with chaining besides. Needs PyAV "
                    "(the package av), which nothing else of Weir does.")
    parser.add_argument("--limit-ms", type=positive, default=300.0, help="on the mean latency")
    parser.add_argument("--rate", type=positive, default=10.0, help="pictures of each camera a second")
    parser.add_argument("--size", nargs=2, type=int, default=(192, 144), metavar=("WIDTH", "HEIGHT"),
                        help="of a camera's picture; what comes out is twice as wide and high")
    parser.add_argument("--apart-ms", type=int, default=8_000, help="between batches before a limit is chosen")
    parser.add_argument("--slots", type=int, default=2)
    parser.add_argument("--seconds", nargs=3, type=positive, default=(60.0, 90.0, 180.0),
                        help="of each phase: " + ", ".join(PHASES))
    parser.add_argument("--json", type=Path, default=Path("video.json"))
    given = parser.parse_args(arguments)
    if find_spec("av") is None:
        print("This needs PyAV: install the package av beside Weir (its extra “video”).", file=sys.stderr)
        return 2
    before = os.getloadavg()[0]
    results = measure(
        limit_s=given.limit_ms / 1000, rate_per_s=given.rate, size=tuple(given.size), apart_ms=given.apart_ms,
        slots=given.slots, seconds=given.seconds)
    write(given.json, {"machine": machine(), "load_before": before, "load_after": os.getloadavg()[0], **results})
    print(table(results["phases"]))
    print(f"limit met after {results['met after s']} s; {results['times less']} times less; {results['outputs']}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
