"""The video job as it runs on an agent: its queries, their intervals and batches, and its latency of late."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from scheduler.contracts.reports import RUNNING, QueryReport
from scheduler.latency.breakdown import Breakdown, Hop, broken_down
from scheduler.latency.pacing import Queries
from scheduler.latency.triggers import BatchCost
from scheduler.latency.ways import Way
from scheduler.model.estate import Estate
from scheduler.model.fragment import Fragment, RunningTask, Slot
from scheduler.model.settings_of_fragments import FragmentSettings
from scheduler.reuse.handover import CutPiece, recut_in
from tests.benches.estate import NODE, RunningEstate
from workers.engine import desired_publishing, observed
from workers.library import registry

CHAIN = ("packets", "decode", "merge", "overlay", "encode", "out")
EVERY_S = 10  # between two decisions
LOOKED_S = 5.0  # over which rates and latencies are measured
SLOT_CORES = 0.95
KEPT_EVENTS = 1_000_000


@dataclass
class BatchesOf:
    """What batches of a query were seen to take, by how many events they had."""

    windows: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=6))  # events, seconds; of a batch
    _last: tuple[int, int] | None = None
    _over_s: float = 0.0  # since then

    def look(self, batches: int, busy_ms: int, *, events_per_s: float, over_s: float) -> None:
        """Take in what was counted over a time; it counts as soon as there were two batches.

        Parameters
        ----------
        batches, busy_ms : int
            Of the query so far, and for how long it was at work on them.
        events_per_s : float
            Events that came to it.
        over_s : float
            Since it was looked at last, in seconds.
        """
        last = self._last
        self._over_s += over_s
        if last is not None and 0 <= (done := batches - last[0]) < 2:
            return
        if last is not None and done > 0:
            self.windows.append((events_per_s * self._over_s / done, (busy_ms - last[1]) / 1000 / done))
        self._last, self._over_s = (batches, busy_ms), 0.0

    def cost(self, rate_per_s: float) -> BatchCost | None:
        """What a batch takes, and an event in it as far as batches of two sizes tell; None where nothing was seen.

        A batch is at work on a core for about as long as it takes.
        """
        if not self.windows:
            return None
        events, batch_s = self.windows[-1]
        least, most = min(self.windows), max(self.windows)
        slope_s = (most[1] - least[1]) / (most[0] - least[0]) if most[0] > 1.3 * least[0] + 1 else 0.0
        event_s = min(max(0.0, slope_s), 0.8 * batch_s / max(events, 1e-9))
        fixed_s = max(0.002, batch_s - event_s * events)
        return BatchCost(fixed_s, fixed_s, rate_per_s, event_s, event_s)


@dataclass
class Job:
    """The job as it runs: its queries, their intervals, and the latency of the last seconds."""

    at: RunningEstate
    apart_ms: int
    paces_ms: dict[str, int] = field(default_factory=dict)
    seen: dict[str, BatchesOf] = field(default_factory=dict)
    looked_s: float = 0.0  # at batches
    meters: deque[observed.Meters] = field(default_factory=lambda: deque(maxlen=round(LOOKED_S) + 1))

    @property
    def path(self) -> tuple[Fragment, ...]:
        """Its queries, upstream first."""
        estate = self.at.estate
        return tuple(estate.fragments[name] for name in dict.fromkeys(estate.places[task][0] for task in CHAIN))

    def look(self) -> tuple[Breakdown, float] | None:
        """Where the latency goes, and pictures per second at the end; None while too little is known."""
        self.meters.append(self.at.meters())
        flows = self._flows()
        if flows is None:
            return None
        hops = []
        for before, fragment in zip((None, *self.path), self.path, strict=False):
            age_ms = flows.tasks[fragment.tasks[-1]].latency_mean_ms
            if age_ms is None:
                return None
            stream = None if before is None else flows.streams.get((before.tasks[-1], fragment.tasks[0]))
            hops.append(Hop(age_ms, stream and stream.channel_mean_ms, stream and stream.wait_mean_ms))
        parts = broken_down(hops, first_interval_ms=self.interval_ms(self.path[0].id))
        return parts, flows.tasks[CHAIN[-1]].rate_per_s

    def look_at_batches(self, now_s: float) -> None:
        """Take in what batches took since it was called last; ``now_s`` is by any clock."""
        over_s, self.looked_s = now_s - self.looked_s, now_s
        flows, reports = self._flows(), self.at.fragments()
        for fragment in self.path:
            report = reports.get(fragment.id)
            if flows is not None and report is not None:
                self.seen.setdefault(fragment.id, BatchesOf()).look(
                    report.batches, report.busy_ms, events_per_s=flows.queries.get(fragment.id, 0.0), over_s=over_s)

    def interval_ms(self, name: str) -> int:
        """How far apart batches of a query begin."""
        return self.paces_ms.get(name, self.apart_ms)

    def queries(self) -> Queries | None:
        """What intervals are chosen from; None while the batches of a query were not seen."""
        flows, names = self._flows(), [fragment.id for fragment in self.path]
        costs = {} if flows is None else {
            name: cost for name in names
            if name in self.seen and (cost := self.seen[name].cost(flows.queries.get(name, 0.0))) is not None}
        if len(costs) < len(names):
            return None
        slots = {fragment.id: fragment.slot for fragment in self.path}
        return Queries(
            costs, {reader: (writer,) for writer, reader in pairwise(names)},
            {name: self.interval_ms(name) / 1000 for name in names}, slots,
            dict.fromkeys(slots.values(), SLOT_CORES), largest_s=self.apart_ms / 1000)

    def way(self) -> Way:
        """From the packets to the end."""
        names = [fragment.id for fragment in self.path]
        writers = {names[0]: (), **{reader: (writer,) for writer, reader in pairwise(names)}}
        return Way(writers, frozenset(names[:1]), frozenset(names[-1:]))

    def pace(self, interval_s: Mapping[str, float]) -> bool:
        """Let batches begin so far apart; whether that is new."""
        paces_ms = {name: round(1000 * seconds) for name, seconds in interval_s.items()}
        if paces_ms == {name: self.interval_ms(name) for name in paces_ms}:
            return False
        self.paces_ms = paces_ms
        self.at.estate = replace(self.at.estate, generation=self.at.estate.generation + 1)
        self.publish()
        return True

    def publish(self) -> None:
        """Tell the agent what is to run."""
        estate = self.at.estate
        paced = estate.set_to({
            name: FragmentSettings(self.paces_ms.get(name)) for name in estate.fragments}, estate.revision)
        desired_publishing.publish(self.at.client, desired_publishing.desired_of(
            paced, NODE, registry.task_types(), self.apart_ms))

    def fuse(self, names: Sequence[str]) -> None:
        """Make one query of a series of neighbours, by a handover; back when it has begun.

        As any new one it has batches half a second apart at most, until it is known what they take.
        """
        estate = self.at.estate
        path = [estate.fragments[name] for name in names]
        change = recut_in(
            estate, path, [CutPiece(sum(part.active for part in path), path[0].slot)], outputs={CHAIN[-1]})
        fragments = {name: part for name, part in estate.fragments.items() if name not in change.before}
        self.at.estate = replace(
            estate, generation=estate.generation + 1, fragments={**fragments, **change.after})
        (made,) = set(change.after) - set(estate.fragments)
        self.paces_ms[made] = min(desired_publishing.DEFAULT_TRIGGER_MS, *map(self.interval_ms, names))
        self.publish()
        self.at.wait(
            lambda: self.at.fragments().get(made, QueryReport()).state == RUNNING, what=f"{made} runs",
            within_s=120)
        self.meters.clear()

    def _flows(self) -> observed.Flows | None:
        if len(self.meters) < 2 or self.meters[-1].at_ms <= self.meters[0].at_ms:
            return None
        parents = {name: task.parents for name, task in self.at.estate.tasks.items()}
        return observed.flows(self.meters[0], self.meters[-1], self.path, parents)


def estate_of(*, rate_per_s: float, width: int, height: int, slots: int) -> Estate:
    """The job with a query for each task, over some slots of a node, neighbours together.

    Parameters
    ----------
    rate_per_s : float
        Pictures of each camera per second.
    width, height : int
        Of a camera's picture, in pixels.
    slots : int
        Drivers on the node.
    """
    size = {"width": width, "height": height}
    tasks = {}
    for number, name in enumerate(CHAIN):
        config: dict[str, Any] = {"name": "live", "keep_events": KEPT_EVENTS} if name == "out" else dict(size)
        if number == 0:
            config["rate_per_s"] = rate_per_s
        type_name = "output" if name == "out" else f"video_{name}"
        tasks[name] = RunningTask(name, type_name, config, CHAIN[number - 1: number] if number else ())
    fragments = {}
    for number, name in enumerate(CHAIN):
        after = {name: (f"f1-{number + 1}",)} if number + 1 < len(CHAIN) else {}
        fragments[f"f1-{number}"] = Fragment(
            f"f1-{number}", (name,), f"{NODE}/{number * slots // len(CHAIN)}", 1, after)
    return Estate(1, tasks, fragments=fragments, slots=tuple(Slot(NODE, index) for index in range(slots)))


def installed_in(folder: Path) -> Path:
    """A package that names the job's task types, for this process and those that it starts."""
    info = folder / "weir_bench_video-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: weir-bench-video\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[weir.task_types]\nvideo = tests.benches.video_tasks:TASK_TYPES\n")
    sys.path.insert(0, str(folder))
    registry.refresh()
    return folder
