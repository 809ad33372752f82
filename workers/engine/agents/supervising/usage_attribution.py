"""The attribution of a slot's usage to its queries: events per second of each, and its share of the slot's CPU and
memory.

A slot's CPU (without that of the JVM's compilers) and memory are measured over its processes, and told above what its
driver takes without any query. That is known from when it had none; until then it is the least of the node's other
slots, for drivers are alike. Where none of them knows either, memory is not told, and CPU is from when the driver has
warmed up: what it takes by itself then, some hundredths of a core, is told of its queries. A query's part goes by the
time that it was busy: where a bundle has its slot to itself, as full ones do, that is no model but what was measured.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workers.engine.files.disk import text_of

from ..node_files.atomic_files import write_atomically
from ..reconciling.reconcile import FragmentState
from .slot_usage import Usage

WINDOW_MS = 10_000  # rates and shares are over this much
SHORTEST_MS = 2_500  # and are not told of less
RESTS_MS = 8_000  # a driver without queries for so long shows what it takes by itself
AT_REST = 0.1  # of a core: one that takes more is still warming up, or measuring something
WARM_AFTER_MS = 120_000  # a driver that has had queries for so long has warmed up


class Rates:
    """Counters that grow, by name, and how fast they did in the last seconds."""

    def __init__(self) -> None:
        self._counts: dict[str, deque[tuple[int, int]]] = {}
        self._grew_at_ms: dict[str, int] = {}

    def take(self, counts: Mapping[str, int], *, at_ms: int, held_back: Collection[str] = ()) -> None:
        """Note these counters, and forget all others; queries in ``held_back`` do not count as idle."""
        self._counts = {name: self._counts.get(name, deque()) for name in counts}
        self._grew_at_ms = {name: self._grew_at_ms.get(name, at_ms) for name in counts}
        for name, count in counts.items():
            taken = self._counts[name]
            if taken and count < taken[-1][1]:  # it was made anew
                taken.clear()
            if name in held_back or (taken and count > taken[-1][1]):
                self._grew_at_ms[name] = at_ms
            taken.append((at_ms, count))
            while len(taken) > 2 and at_ms - taken[1][0] >= WINDOW_MS:
                taken.popleft()

    def per_s(self, name: str) -> float | None:
        """The rate of a counter; None while too little is known of it."""
        taken = self._counts.get(name, ())
        if not taken or taken[-1][0] - taken[0][0] < SHORTEST_MS:
            return None
        (began_ms, before), (ended_ms, after) = taken[0], taken[-1]
        return round(1000 * (after - before) / (ended_ms - began_ms), 3)

    def idle_ms(self, name: str, *, now_ms: int) -> int | None:
        """For how long a counter has not grown, though it might, as far as it was watched; None where it was not."""
        grew_at_ms = self._grew_at_ms.get(name)
        return None if grew_at_ms is None else max(0, now_ms - grew_at_ms)


@dataclass(frozen=True, slots=True)
class _Sample:
    at_ms: int
    since_ms: int
    cpu_ms: int  # without the JVM's compilers, as profiles have it
    busy_ms: Mapping[str, int]
    is_idle: bool  # no query runs, or is about to


class UsageAttribution:
    """The parts of a slot's CPU and memory that its queries take.

    Parameters
    ----------
    base_path : Path
        The file for what the slot takes without any query: in its folder, beside those of the node's other slots. A
        slot that starts with queries cannot tell.
    """

    def __init__(self, *, slot_memory_mb: float, base_path: Path) -> None:
        self._slot_memory_mb = slot_memory_mb
        self._base_path = base_path
        self._base_cpu_path = base_path.with_name("base_cpu")
        self._base_mb, self._base_cpu = _stored_figure(base_path), _stored_figure(self._base_cpu_path)
        self._is_of_this_slot = False
        self._has_rested = False  # whether the CPU without queries is of this slot
        self._samples: deque[_Sample] = deque()
        self._busy_since_ms: int | None = None  # no longer without queries since

    def take(self, usage: Usage, report: Mapping[str, Any], *, now_ms: int) -> dict[str, dict[str, float]]:
        """``cpu`` and ``memory`` of each query of a slot's report, as shares of the slot, as far as they are known.

        As a profile has them: above what the slot takes without queries, memory as a share of what that leaves.
        """
        fragments = report.get("fragments", {})
        busy_ms = {name: report.get("busy_ms", 0) for name, report in fragments.items()}
        if self._samples and self._samples[-1].since_ms != usage.since_ms:
            self._samples.clear()
            self._is_of_this_slot = self._has_rested = False
            self._busy_since_ms = None
        # what is paused rests there
        is_idle = all(report["state"] == FragmentState.STOPPED for report in fragments.values())
        if is_idle or self._busy_since_ms is None:
            self._busy_since_ms = now_ms
        self._samples.append(
            _Sample(now_ms, usage.since_ms, usage.cpu_ms - usage.compiling_ms, busy_ms, is_idle))
        while len(self._samples) > 2 and now_ms - self._samples[1].at_ms >= WINDOW_MS:
            self._samples.popleft()
        in_use_mb = self._in_use_mb(usage, report)
        running = [name for name, report in fragments.items() if report["state"] == "running"]
        parts = self._parts(running)
        cpu, memory = self._cpu_above_base(), self._above_base(in_use_mb, is_idle=is_idle)
        return {
            name: {
                kind: round(part * whole, 4) for kind, whole in (("cpu", cpu), ("memory", memory)) if whole is not None
            }
            for name, part in parts.items()
        }

    def _parts(self, running: Collection[str]) -> dict[str, float]:
        """Each query's part of what the slot does, by the time that it was busy; evenly where none was."""
        first, last = self._samples[0].busy_ms, self._samples[-1].busy_ms
        grown = {name: max(0, last[name] - first.get(name, 0)) for name in running}
        whole = sum(grown.values())
        return {name: growth / whole if whole else 1 / len(running) for name, growth in grown.items()}

    def _cpu(self) -> float | None:
        first, last = self._samples[0], self._samples[-1]
        elapsed_ms = last.at_ms - first.at_ms
        return (last.cpu_ms - first.cpu_ms) / elapsed_ms if elapsed_ms >= SHORTEST_MS else None

    def _cpu_above_base(self) -> float | None:
        cpu = self._cpu()
        if cpu is None:
            return None
        rests = self._samples[-1].at_ms - self._samples[0].at_ms >= RESTS_MS and all(
            sample.is_idle for sample in self._samples)
        if rests and cpu <= AT_REST and (self._base_cpu is None or not self._has_rested or cpu < self._base_cpu):
            self._base_cpu, self._has_rested = cpu, True
            _keep(self._base_cpu_path, cpu)
        base = _of_the_node(self._base_cpu, self._base_cpu_path)
        if base is None and self._samples[-1].at_ms - self._busy_since_ms >= WARM_AFTER_MS:
            base = 0.0
        return None if base is None else max(0.0, cpu - base)

    @staticmethod
    def _in_use_mb(usage: Usage, report: Mapping[str, Any]) -> float | None:
        heap_mb = report.get("heap_mb")
        return None if heap_mb is None else heap_mb + usage.python_mb

    def _above_base(self, in_use_mb: float | None, *, is_idle: bool) -> float | None:
        if in_use_mb is None:
            return None
        # The least since the slot began: it may have been measuring since, which is not in its report.
        if is_idle and (not self._is_of_this_slot or in_use_mb < self._base_mb):
            self._base_mb, self._is_of_this_slot = in_use_mb, True
            _keep(self._base_path, in_use_mb)
        base_mb = _of_the_node(self._base_mb, self._base_path)
        return None if base_mb is None else max(0.0, in_use_mb - base_mb) / max(1.0, self._slot_memory_mb - base_mb)


def _of_the_node(slot_figure: float | None, path: Path) -> float | None:
    """A slot's own figure; while there is none the least that the node's slots keep of theirs, if any does."""
    if slot_figure is not None:
        return slot_figure
    histories = (_stored_figure(slot_path) for slot_path in path.parent.parent.glob(f"slot-*/{path.name}"))
    return min((figure for figure in histories if figure is not None), default=None)


def _stored_figure(path: Path) -> float | None:
    """The figure in a file; None if it has none that can be read: then the slot is measured anew."""
    try:
        figure = float(text_of(path, most_bytes=100))
    except (OSError, ValueError):
        return None
    return figure if math.isfinite(figure) else None


def _keep(path: Path, figure: float) -> None:
    """Keep a figure for the next start; on a full disk it is known until then."""
    with suppress(OSError):
        write_atomically(path, str(figure))
