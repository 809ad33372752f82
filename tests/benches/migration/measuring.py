"""Runs the word count under one scheme: some time without moves, then moves of ever more bundles; what outputs show."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from scheduler.contracts.desired import DESIRED_STATES
from scheduler.contracts.reports import RUNNING
from tests.benches.estate import NODE, RunningEstate, running
from tests.written_blocks import read_blocks
from workers.engine import desired_publishing, observed
from workers.engine.channels import keys
from workers.engine.worker_settings import ROOT
from workers.library.registry import task_types

from .degradation import Block, Span, figures
from .redeployment import redeployed
from .schemes import Scheme
from .text import Comparison, compared, picked
from .topology import Topology, Workload, recording

SENTENCES_A_LANE = 2_000  # then they come again
WITHIN_S = 600.0  # a machine with much other work takes long to start drivers
DONE_WITHIN_S = 600.0
BLOCKS = 100_000
FLOWING = 5  # blocks of an output, after which it does


@dataclass(frozen=True, slots=True)
class Protocol:
    """How it is measured: the shape of the topology, and when how many bundles move."""

    workload: Workload
    lanes: int
    slots: int
    trigger_ms: int
    moved: tuple[int, ...]  # how many bundles at once, one after the other
    moves: int  # of each
    every_s: float
    quiet_s: float
    settle_s: float
    seed: int
    class_archive: bool = False
    warm_ups: int = 0  # moves of as many as ever move at once, before anything is measured: drivers compile meanwhile


class Run:
    """One scheme on one node, from nothing.

    Parameters
    ----------
    scheme : Scheme
        How bundles move.
    protocol : Protocol
        How it is measured.
    sentences : sequence of str
        The text.
    folder : Path
        The data folder; what an earlier run has left there but the drivers' jar and classes is deleted.
    """

    def __init__(self, scheme: Scheme, protocol: Protocol, *, sentences: Sequence[str], folder: Path) -> None:
        self._scheme, self._protocol, self._folder = scheme, protocol, folder
        self._lanes = [
            picked(sentences, count=SENTENCES_A_LANE, chance=random.Random(f"{protocol.seed}/{lane}"))
            for lane in range(protocol.lanes)]
        self._chance = random.Random(protocol.seed)
        self._topology = Topology.dealt_out(
            protocol.workload, node=NODE, slots=protocol.slots, lanes=protocol.lanes)

    def measure(self) -> dict[str, Any]:
        """By the number of bundles that move at once, the figures; and how all outputs compare with the reference."""
        protocol, scheme = self._protocol, self._scheme
        _clear(self._folder)
        replay = self._folder / "replay"
        replay.mkdir()
        for lane, sentences in enumerate(self._lanes):
            pq.write_table(pa.table({"sentence": sentences}), replay / recording(lane))
        settings = {
            "WEIR_REPLAY_DIRS": str(replay), "WEIR_CLASS_ARCHIVE": "0", "WEIR_PIN": "never", **scheme.settings}
        spans: dict[int, list[Span]] = {moved: [] for moved in protocol.moved}
        took_s: dict[int, list[float | None]] = {moved: [] for moved in protocol.moved}
        load = [os.getloadavg()[0]]
        with running(self._topology.estate, self._folder, trigger_ms=protocol.trigger_ms, settings=settings,
                     agent_module=scheme.agent) as estate:
            if protocol.class_archive:
                _archive_classes(self._folder, estate.url)
            estate.wait_running(within_s=WITHIN_S)
            estate.wait(lambda: all(len(self._blocks(estate, lane)) >= FLOWING for lane in range(protocol.lanes)),
                        what="every output flows", within_s=WITHIN_S)
            for _ in range(protocol.warm_ups):
                self._move(estate, max(protocol.moved))
            time.sleep(protocol.settle_s)
            quiet = [self._quiet(estate)]
            for moved in protocol.moved:
                for _ in range(protocol.moves):
                    span, seconds = self._move(estate, moved)
                    spans[moved].append(span)
                    took_s[moved].append(seconds)
                    load.append(os.getloadavg()[0])
            estate.wait(lambda: self._is_there(estate), what="the last move is done", within_s=DONE_WITHIN_S)
            time.sleep(protocol.trigger_ms / 1000 + 2)
            quiet.append(self._quiet(estate))
            outputs = {lane: self._blocks(estate, lane) for lane in range(protocol.lanes)}
            comparison = sum((self._compared(estate, lane) for lane in range(protocol.lanes)), Comparison())
        return {
            "scheme": scheme.name, "load": [min(load), max(load)],
            "by_moved": {moved: {**figures(outputs, quiet, spans[moved], usual_per_s=comparison.usual_per_s),
                                 "took_s": took_s[moved]}
                         for moved in protocol.moved},
            "outputs": {name: getattr(comparison, name) for name in comparison.__slots__}}

    def _quiet(self, estate: RunningEstate) -> Span:
        began_ms = _now_ms(estate)
        time.sleep(self._protocol.quiet_s)
        return Span(began_ms, _now_ms(estate))

    def _move(self, estate: RunningEstate, moved: int) -> tuple[Span, float | None]:
        """Move so many bundles, wait until the next move is due; when it was that, and how long until all ran (s)."""
        moves = redeployed(
            self._topology.placement, self._topology.slot_names, moved=moved, chance=self._chance)
        lanes = tuple(Topology.lane_of(bundle) for bundle in moves)
        touched = self._scheme.touched(self._topology, moves)
        self._topology = self._scheme.after(self._topology, moves)
        estate.estate = self._topology.estate
        began_ms, began_s = _now_ms(estate), time.monotonic()
        self._carry_out(estate, touched)
        done_s: float | None = None
        while (passed_s := time.monotonic() - began_s) < self._protocol.every_s:
            if done_s is None and self._is_there(estate):
                done_s = passed_s
            time.sleep(0.1)
        ended_ms = _now_ms(estate)
        if done_s is None:  # the next move waits, and this one's seconds are those until then
            estate.wait(lambda: self._is_there(estate), what="the move is done", within_s=DONE_WITHIN_S)
            done_s, ended_ms = time.monotonic() - began_s, _now_ms(estate)
        print(f"{self._scheme.name}: {moved} moved in {done_s:.1f} s", file=sys.stderr, flush=True)
        return Span(began_ms, ended_ms, lanes), done_s

    def _carry_out(self, estate: RunningEstate, touched: frozenset[str]) -> None:
        """Publish the plan and end the slots that are to start anew by it."""
        node = observed.read_reports(estate.client).node(NODE)
        for slot in sorted(touched):
            report = node.slots.get(slot.rpartition("/")[2]) if node is not None else None
            if report is not None and report.pid is not None:
                with suppress(ProcessLookupError):
                    os.kill(report.pid, signal.SIGTERM)
        wanted = desired_publishing.desired_of(estate.estate, NODE, task_types(), self._protocol.trigger_ms)
        if self._scheme.pushes:
            desired_publishing.publish(estate.client, wanted)
        else:
            estate.client.set(keys.desired(NODE), DESIRED_STATES.dumps(wanted))

    def _is_there(self, estate: RunningEstate) -> bool:
        """Whether every bundle runs in its slot, and in no other."""
        node = observed.read_reports(estate.client).node(NODE)
        if node is None or node.version != self._topology.generation:
            return False
        running_in: dict[str, set[str]] = {}
        for index, slot in node.slots.items():
            for name, query in slot.fragments.items():
                if query.state == RUNNING:
                    running_in.setdefault(name, set()).add(f"{NODE}/{index}")
        return all(
            running_in.get(fragment.id) == {fragment.slot} for fragment in self._topology.fragments.values())

    def _blocks(self, estate: RunningEstate, lane: int) -> list[Block]:
        entries = estate.client.xrange(keys.channel(self._topology.output(lane)))
        return [Block(int(fields[b"t"]), int(fields[b"n"])) for _, fields in entries]

    def _compared(self, estate: RunningEstate, lane: int) -> Comparison:
        workload = self._protocol.workload
        blocks = read_blocks(estate.channels, self._topology.output(lane), count=BLOCKS)
        return compared(
            [event for _, events in blocks for event in events], self._lanes[lane], gap_ms=workload.gap_ms,
            window_ms=workload.window_ms)


def _clear(folder: Path) -> None:
    """Delete all but the jar of the channels and the archive of classes, which the next run has again."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        if path.name != "jvm":
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def _archive_classes(folder: Path, url: str) -> None:
    """As an installation has it that has run for some minutes; where it is there, nothing is done."""
    subprocess.run(
        [sys.executable, "-m", "workers.engine.spark.class_archive", "--data-dir", str(folder)], check=True, cwd=ROOT,
        env={**os.environ, "REDIS_URL": url}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _now_ms(estate: RunningEstate) -> int:
    seconds, microseconds = estate.client.time()
    return seconds * 1_000 + microseconds // 1_000

