"""Some of a task's bundles die: how soon the results of their keys go on, by how many they are.

A task that is divided by key has twelve bundles, some on each slot; its source and its output are on a slot of their
own. All processes of some of these slots are killed at the same time. Their agent starts new drivers, whose queries go
on from their checkpoints. A bundle is back when it has written a block.
"""

from __future__ import annotations

import itertools
import sys
import time
from contextlib import suppress
from statistics import median
from typing import Any

import psutil

from scheduler.model.fragment import Slot
from workers.engine.channels import keys
from workers.engine.observed import read_meters, read_reports

from .engine import _until, bench
from .key_moves import NODE, WITHIN_S, KeyedFlow

BUNDLES = 12
SETTLE_S = 10.0
LOOK_S = 0.02
STATE_MB, KEY_KB = 2, 1


def recoveries(*, slots: int, repeats: int, rate_per_s: float) -> list[dict[str, Any]]:
    """A line for each number of slots that die, up to half of them: until the first and the last bundle was back.

    Parameters
    ----------
    slots : int
        That the bundles are on, the same number on each.
    rate_per_s : float
        Events/s for all bundles together.
    """
    homes = [Slot(NODE, index) for index in range(1, slots + 1)]
    with bench() as at:
        flow = KilledFlow(at, STATE_MB, key_kb=KEY_KB, rate_per_s=rate_per_s, bundles=BUNDLES, homes=homes,
                          out=Slot(NODE, 0))
        try:
            flow.begin()
            lines, turn = [], itertools.cycle(home.name for home in homes)  # who dies often is started late
            for dead in range(1, slots // 2 + 1):
                runs = [flow.kill(list(itertools.islice(turn, dead))) for _ in range(repeats)]
                lines.append({
                    "bundles dead": dead * BUNDLES // slots, "of": BUNDLES,
                    "events/s": round(median(run["events/s"] for run in runs)),
                    "first back, s": median(run["first"] for run in runs),
                    "last back, s": median(run["last"] for run in runs),
                    "worst, s": max(run["last"] for run in runs)})
                print(lines[-1], file=sys.stderr, flush=True)
            return lines
        finally:
            flow.end()


class KilledFlow(KeyedFlow):
    """The flow, whose slots die."""

    def kill(self, slots: list[str]) -> dict[str, float]:
        """Kill these slots, and wait until all of their bundles have written again."""
        rate_per_s = self._settle()
        dead = [bundle.id for bundle in self._held.bundles if bundle.slot in slots]
        processes = [psutil.Process(read_reports(self._broker).slot(slot).pid) for slot in slots]
        for process in [each for own in processes for each in (own, *own.children(recursive=True))]:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        began_s, before, back_s = time.monotonic(), self._newest(dead), {}
        while len(back_s) < len(dead):
            if time.monotonic() - began_s > WITHIN_S:
                raise TimeoutError(f"of {dead} only {sorted(back_s)} are back after {WITHIN_S:.0f} s")
            for name, newest in self._newest(dead).items():
                if newest != before[name]:
                    back_s.setdefault(name, time.monotonic() - began_s)
            time.sleep(LOOK_S)
        return {"events/s": rate_per_s, "first": min(back_s.values()), "last": max(back_s.values())}

    def _settle(self) -> float:
        """Wait until all run and write, and for a while; the rate meanwhile."""
        names = {bundle.id for bundle in self._held.bundles}
        _until(lambda: self._runs() >= names, within_s=WITHIN_S)
        time.sleep(SETTLE_S)
        counts = []
        for wait_s in (SETTLE_S, 0):
            meters = read_meters(self._broker, sorted(names))
            counts.append((sum(own.get("0:n", 0) for own in meters.counts.values()), meters.at_ms))
            time.sleep(wait_s)
        return 1000 * (counts[1][0] - counts[0][0]) / (counts[1][1] - counts[0][1])

    def _newest(self, bundles: list[str]) -> dict[str, bytes]:
        """The newest block of each."""
        pipeline = self._broker.pipeline(transaction=False)
        for name in bundles:
            pipeline.xrevrange(keys.channel(f"{name}.0"), count=1)
        return {name: entries[0][0] if entries else b"" for name, entries in zip(bundles, pipeline.execute(),
                                                                                strict=True)}
