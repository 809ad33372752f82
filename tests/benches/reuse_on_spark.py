"""`./weir bench reuse-on-spark`: overlapping dataflows apart and merged on Spark, paired, outputs compared.

*Apart* is each dataflow alone, as Spark's users run them today: every one has its own source and its own queries
(kindly, in drivers that they share). *Merged* is the same dataflows through Weir's reuse. Both replay the same finite
file on the same number of slots, one side after the other, and the order changes from pair to pair.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scheduler.model.dataflow import Dataflow, Stream, Task
from scheduler.model.prices import Prices
from workers.library.event_schemas import URBAN

from . import results, sides
from .arguments import count, positive
from .estate import RunningEstate, running
from .recordings import write_recording
from .trace_replay import all_submitted

STATIONS = 50
FIELDS = {"temperature": (-5, 35, 1), "humidity": (20, 90, 1), "light": (0, 9000, 0), "dust": (200, 5000, 2),
          "airquality_raw": (17, 120, 0)}


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large a run is: dataflows, events/s, and seconds of warming up and of measuring."""

    dataflows: int
    rate_per_s: float
    warm_up_s: float
    measured_s: float
    slots: int
    trigger_ms: int

    @property
    def events(self) -> int:
        return int(self.rate_per_s * (self.warm_up_s + self.measured_s + 15))


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print a table, write JSON; 1 where outputs differ."""
    parser = argparse.ArgumentParser(prog="weir bench reuse-on-spark", description=__doc__)
    parser.add_argument("--dataflows", type=count, default=6)
    parser.add_argument("--rate", type=positive, default=100.0, help="events/s at the source")
    parser.add_argument("--seconds", type=positive, default=40.0, help="measured, after warming up")
    parser.add_argument("--warm-up", type=float, default=30.0, help="seconds")
    parser.add_argument("--pairs", type=count, default=2)
    parser.add_argument("--slots", type=count, default=2)
    parser.add_argument("--trigger-ms", type=count, default=500)
    parser.add_argument("--output", type=Path, default=Path("bench-results/reuse-on-spark.json"))
    given = parser.parse_args(argv)
    sizes = Sizes(given.dataflows, given.rate, given.warm_up, given.seconds, given.slots, given.trigger_ms)

    runs: list[dict[str, Any]] = []
    equal = True
    for pair in range(given.pairs):
        outputs: dict[str, dict[str, Counter]] = {}
        for side in ("apart", "merged") if pair % 2 == 0 else ("merged", "apart"):
            print(f"pair {pair + 1} of {given.pairs}: {side} …", flush=True)
            figures, outputs[side] = measure(side, sizes)
            runs.append({"pair": pair + 1, "side": side, **figures})
        equal &= _compare(outputs)

    rows = [sides.summary(side, runs) for side in ("apart", "merged")]
    print(results.table(rows))
    apart, merged = (row["CPU s"] for row in rows)
    print(f"Merged takes {1 - merged / apart:.0%} less CPU than apart; outputs {'equal' if equal else 'DIFFER'}.")
    results.write(given.output, {
        "bench": "reuse-on-spark", "machine": results.machine(),
        "sizes": {name: getattr(sizes, name) for name in Sizes.__slots__},
        "runs": runs, "medians": rows, "outputs_equal": equal,
    })
    return 0 if equal else 1


def measure(side: str, sizes: Sizes) -> tuple[dict[str, Any], dict[str, Counter]]:
    """Run one side: its figures, and by dataflow and sink the multiset of its output events."""
    with tempfile.TemporaryDirectory(prefix="weir-bench-") as folder:
        data_dir = Path(folder)
        write_recording(data_dir / "replay" / "city.senml", URBAN, FIELDS, count=sizes.events, sensors=STATIONS)
        estate = all_submitted(
            workload(sizes), strategy="default" if side == "apart" else "reuse", slots=sizes.slots,
            prices=Prices(trigger_ms=sizes.trigger_ms),
        )
        with running(estate, data_dir, trigger_ms=sizes.trigger_ms) as running_estate:
            running_estate.wait_running()
            time.sleep(sizes.warm_up_s)
            figures = sides.window(running_estate, sizes.measured_s)
            _wait_for_the_end(running_estate, sizes)
            outputs = {name: Counter(map(sides.comparable, events)) for name, events in sides.outputs(running_estate)}
    return {
        "dataflows": sizes.dataflows, "running tasks": len(estate.tasks), "queries": len(estate.fragments), **figures
    }, outputs


def workload(sizes: Sizes) -> list[Dataflow]:
    """Overlapping dataflows: every one replays and parses the city, and filters it; then they part.

    Of each three in a row, one smooths, one averages, one fills gaps and writes SenML again; a window that differs
    from dataflow to dataflow keeps their last tasks apart.
    """
    dataflows = []
    for number in range(sizes.dataflows):
        ends = (
            [Task("smooth", "kalman_filter", {"sensor_noise": 0.32 + number / 100})],
            [Task("average", "block_average", {"window": 5 + number})],
            [Task("fill", "interpolate", {"window": 5 + number})],
        )[number % 3]
        tasks = [
            Task("city", "replay", {"path": "city.senml"}),
            Task("parse", "senml_parse", {"schema": "urban"}),
            Task("clean", "range_filter", {"ranges": {name: [low, high] for name, (low, high, _) in FIELDS.items()}}),
            *ends,
            Task("out", "output", {"name": f"out-{number}", "keep_events": sides.ALL_EVENTS}),
        ]
        streams = tuple(Stream(upstream.id, other.id) for upstream, other in itertools.pairwise(tasks))
        dataflows.append(
            Dataflow(name=f"flow-{number}", tasks=tuple(tasks), streams=streams, rates_per_s={"city": sizes.rate_per_s})
        )
    return dataflows


def _wait_for_the_end(running_estate: RunningEstate, sizes: Sizes) -> None:
    """Wait until every source has emitted the whole file and no task has anything left to do."""
    estate = running_estate.estate
    sources = [estate.places[task.id] for task in estate.tasks.values() if not task.parents]
    seen: dict[str, Any] = {}

    def is_at_rest() -> bool:
        counts = running_estate.meters().counts
        done = all(counts.get(fragment, {}).get(f"{position}:n", 0) >= sizes.events for fragment, position in sources)
        unchanged = seen.get("counts") == counts
        seen["counts"] = counts
        time.sleep(2)
        return done and unchanged

    running_estate.wait(is_at_rest, what="the whole file has passed", within_s=600)


def _compare(outputs: dict[str, dict[str, Counter]]) -> bool:
    equal = True
    for sink, apart in outputs["apart"].items():
        merged = outputs["merged"][sink]
        if apart != merged or not apart:
            equal = False
            print(f"  {sink}: {(apart - merged).total()} events only apart, {(merged - apart).total()} only merged, "
                  f"{apart.total()} in all")
    print(f"  outputs compared: {sum(events.total() for events in outputs['apart'].values())} events, "
          f"{'equal' if equal else 'DIFFERENT'}", flush=True)
    return equal
