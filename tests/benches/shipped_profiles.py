"""`./weir bench shipped-profiles`: measures the profiles that come with Weir, two short trials a task type, as CSV.

What a newcomer's first schedules are planned with, until types are measured where they run. So nothing here is as
exact as a sweep: one thread, at two rates, and the rate of a full core follows from what an event took. Figures are
told for a core of the speed ``shipped.SPEED``, by the speed at which they were taken.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from scheduler.contracts.trials import TrialOrder, TrialResult
from scheduler.model.canonical import plain
from scheduler.model.documents import dataflow_from_json
from scheduler.model.estate import Estate
from scheduler.model.fragment import Slot
from scheduler.model.profile import LEAST_OFTEN, Point, Profile
from scheduler.model.profile_csv import ProfileEntry, read_entries, write_entries
from scheduler.performance.feeding_chain import feed_of
from scheduler.performance.shipped import MARGIN, SPEED
from workers.engine.worker_settings import ROOT, from_environment
from workers.library.registry import task_types
from workers.library.samples import SAMPLES

from .arguments import positive
from .estate import NODE, running
from .profiles import NotMeasured, ordered

SHIPPED = ROOT / "workers" / "library" / "profiles.csv"
FULL = 0.6  # of a core that the second trial is aimed at
FIRST_PER_S, MOST_PER_S = 200.0, 20_000.0
SENSED = ({"type": "urban_sensing", "config": {"rate_per_s": 100.0, "seed": 1}},)
PARSED = (*SENSED, {"type": "senml_parse", "config": {"schema": "urban"}})
AVERAGED = (*PARSED, {"type": "exact_average", "config": {}})


def point_of_trial(
    *, achieved_per_s: float, cpu: float, idle_cpu: float, memory: float, idle_memory: float, holds: bool
) -> Point:
    """One thread at its peak, by what it took at one rate.

    Parameters
    ----------
    achieved_per_s : float
        Events per second that it got through.
    cpu, idle_cpu : float
        Shares of a slot's CPU at that rate, and without events.
    memory, idle_memory : float
        Likewise of its memory.
    holds : bool
        Whether it got through what it was fed; where it did not, that was its peak.
    """
    of_events = max(cpu - idle_cpu, 0.001)
    most = max(0.05, 1.0 - LEAST_OFTEN * idle_cpu)
    ratio = 1.0 if not holds else max(1.0, MARGIN * most / of_events)
    events = min(1.0, of_events * ratio)
    at_peak = min(1.0, events + LEAST_OFTEN * idle_cpu)
    return Point(
        1, max(1.0, achieved_per_s * ratio), at_peak, min(1.0, max(memory, idle_memory)), min(1.0, idle_cpu),
        min(idle_memory, memory, 1.0), min(events, at_peak))


def _written(name: str, expression: str) -> tuple[Mapping[str, Any], ...]:
    """Readings as text in a column, for what parses text."""
    return (*PARSED, {"type": "sql", "config": {
        "query": f"SELECT {expression} AS {name} FROM input WHERE value IS NOT NULL"}})


CSV = _written("csv", "concat_ws(',', sensor_id, obs, CAST(value AS STRING))")
JSON = _written("json", "to_json(named_struct('sensor_id', sensor_id, 'obs', obs, 'value', value))")
XML = _written("xml", "concat('<r sensor_id=\"', sensor_id, '\"><obs>', obs, '</obs><value>', value, '</value></r>')")
COLUMNS = ["sensor_id", "obs", "value:double"]
# Types that no sample has, and the config that says the least.
FURTHER: Mapping[str, tuple[Mapping[str, Any], tuple[Mapping[str, Any], ...]]] = {
    "sql": ({"query": "SELECT sensor_id, obs, value * 2 AS twice FROM input WHERE value IS NOT NULL"}, PARSED),
    "union": ({}, PARSED),
    "deduplicate": ({"key": ["sensor_id", "obs", "value"], "within": "10 s"}, PARSED),
    "window": ({"size": "10 s", "key": ["sensor_id", "obs"], "aggregates": {"mean": "avg(value)"}}, PARSED),
    "pi_viete": ({"iterations": 1_000}, SENSED),
    "wait": ({"pause": 20}, SENSED),
    "exact_average": ({}, PARSED),
    "roll_up": ({"blocks": 5}, AVERAGED),
    "csv_parse": ({"columns": COLUMNS}, CSV),
    "json_parse": ({"columns": COLUMNS}, JSON),
    "xml_parse": ({"columns": ["_sensor_id", "obs", "value:double"]}, XML),
    "forecast": ({"by": ["meter"], "value": "kwh", "at": "at", "holiday": "holiday", "interval": 300},
                 ({"type": "smart_meters", "config": {"rate_per_s": 100.0, "seed": 1}},)),
    "xml_document": ({"values": ["sensor_id=@sensor_id", "obs=obs", "value:double=value"]}, XML),
}


@dataclass(frozen=True)
class SweepTarget:
    """A task type with the config that is measured, and the chain that feeds it."""

    task_type: str
    config: Mapping[str, Any]
    feed: tuple[Mapping[str, Any], ...]


def subjects() -> Iterator[SweepTarget]:
    """Every type between source and sink that reaches nothing outside: as the samples have it, else as listed here."""
    types = task_types()
    seen: dict[str, SweepTarget] = {}
    for path in sorted(SAMPLES.glob("*.yaml")):
        dataflow = dataflow_from_json(yaml.safe_load(path.read_text()))
        for task in dataflow.tasks:
            if types[task.type].kind == "transform" and task.type not in seen:
                feed = tuple({"type": fed.type, "config": plain(fed.config)}
                             for fed in feed_of(dataflow, task.id, task_types=types))
                seen[task.type] = SweepTarget(task.type, plain(task.config), feed)
    for name, (config, feed) in FURTHER.items():
        seen.setdefault(name, SweepTarget(name, config, feed))
    yield from (subject for name, subject in sorted(seen.items()) if not types[name].approved_only)


def measured(
    subject: SweepTarget, run: Callable[[TrialOrder], TrialResult], *, warm_up_s: float, seconds: float
) -> tuple[Point, list[TrialResult]]:
    """One thread: a first trial says what an event takes, a second one is near a full core.

    Parameters
    ----------
    subject : SweepTarget
        What is measured.
    run : callable
        Runs one trial.
    warm_up_s, seconds : float
        Of each trial.
    """

    def trial(rate_per_s: float) -> TrialResult:
        return run(TrialOrder(
            uuid.uuid4().hex, NODE, "0", subject.task_type, subject.config, 1, rate_per_s, warm_up_s=warm_up_s,
            seconds=seconds, feed=subject.feed))

    first = trial(FIRST_PER_S)
    of_an_event = max(first.cpu - first.idle_cpu, 0.005) / max(first.achieved_per_s, 1.0)
    rate_per_s = min(MOST_PER_S, max(FIRST_PER_S, FULL * max(0.1, 1 - first.idle_cpu) / of_an_event))
    trials = [first] if rate_per_s < 1.5 * FIRST_PER_S else [first, trial(rate_per_s)]
    last = trials[-1]
    point = point_of_trial(
        achieved_per_s=last.achieved_per_s, cpu=last.cpu,
        idle_cpu=min(result.idle_cpu for result in trials),  # what seconds without events say is little sure
        memory=last.memory,
        idle_memory=last.idle_memory, holds=_holds(last))
    speeds = [speed for result in trials if (speed := result.machine.get("speed"))]
    return (point.at_speed(SPEED / (sum(speeds) / len(speeds))) if speeds else point), trials


def _holds(result: TrialResult) -> bool:
    """Whether it got through what it was fed, which may be less than was asked for."""
    fed_per_s = result.rate_per_s if result.held_back or not result.offered_per_s else result.offered_per_s
    return result.achieved_per_s >= 0.9 * min(result.rate_per_s, fed_per_s)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, write; what the file has of other types stays."""
    parser = argparse.ArgumentParser(prog="weir bench shipped-profiles", description=__doc__)
    parser.add_argument("--type", nargs="+", default=[], help="only these")
    parser.add_argument("--warm-up", type=float, default=3.0, help="s of each trial")
    parser.add_argument("--seconds", type=positive, default=6.0, help="measured of each trial")
    parser.add_argument("--out", type=Path, default=SHIPPED)
    options = parser.parse_args(argv)
    types = task_types()
    entries: dict[str, ProfileEntry] = {}
    with (
        tempfile.TemporaryDirectory(prefix="weir-bench-") as folder,
        running(Estate(slots=(Slot(NODE, 0),)), Path(folder), trigger_ms=from_environment().trigger_ms) as around,
    ):
        around.wait_slots()
        for subject in subjects():
            if options.type and subject.task_type not in options.type:
                continue
            try:
                point, trials = measured(
                    subject, lambda order: ordered(around.client, order), warm_up_s=options.warm_up,
                    seconds=options.seconds)
            except NotMeasured as error:
                print(f"{subject.task_type:<28} {error}", flush=True)
                continue
            config = json.dumps(subject.config, sort_keys=True)
            origin = f"two trials of {options.seconds:g} s, {config}"[:200]
            entries[subject.task_type] = ProfileEntry(Profile(
                subject.task_type, (point,), version=types[subject.task_type].version, origin=origin,
                code=str(trials[-1].versions.get("code", ""))))
            last = trials[-1]
            print(
                f"{subject.task_type:<28} {point.rate_per_s:>9.0f}/s  CPU at any rate {point.idle_cpu:.1%}  memory "
                f"{point.memory:.1%}  asked {last.rate_per_s:.0f} fed {last.offered_per_s:.0f} through "
                f"{last.achieved_per_s:.0f} CPU {last.cpu:.0%}  speed {last.machine.get('speed')}  load "
                f"{last.machine.get('load')}", flush=True)
            _write(options.out, entries)
    return 0


def _write(path: Path, entries: Mapping[str, ProfileEntry]) -> None:
    before = read_entries(path.read_text()) if path.exists() else []
    entries_by_type = {entry.profile.task_type: entry for entry in before} | dict(entries)
    path.write_text(write_entries([entries_by_type[name] for name in sorted(entries_by_type)]), encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main())
