"""`./weir bench schedules --on-spark`: paper [2]'s experiments for real: profiles, schedules, and what they sustain.

Five tasks are measured on a slot of this machine, or read from ``--profiles``. Dataflows of them are scheduled by the
five pairs of the paper for the slots that there are, run on Spark, and driven up in stairs until they do not keep up.
Planned, predicted and actual rates, CPU and memory of slots and latencies go to a table, to JSON and to a page with
figures. What is in the JSON is not measured again: a run that was ended goes on, and what is predicted of schedules
that ran is told by the profiles as they are now.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from scheduler.model.errors import WeirError
from scheduler.model.profile import Profiles
from scheduler.model.profile_csv import ProfileEntry, read_entries, write_entries
from scheduler.pairs import MODEL_BASED, Pair
from scheduler.performance.modelling import Sweep
from scheduler.scheduling import Job, Schedule, schedule
from workers.engine.measuring.machine_class import machine_class

from . import ends, profiling, results
from .arguments import count, file, positive
from .experiment_dataflows import ENDS, SERVICE_S, SHAPES
from .experiments import Stair, plan, stairs
from .laboratory import Laboratory, job_of, laboratory, options_of
from .predict_again import at_their_speed, predict_again, retold
from .published_pairs import BASELINE, PUBLISHED_PAIRS
from .schedules_page import page
from .schedules_summary import DEFINITION, MOST_RUNS, better, fits, is_to_repeat, shown, summary

ORIGIN = "bench schedules --on-spark"
FIRST_S = 25.0  # of a run, while its queries and their Python workers start
WARM_S = 100.0  # for each dataflow, whose queries the drivers compile for minutes where they have not run them before
WARM_PART = 0.4  # of its predicted rate
COLD_S = 60.0  # of the run of source and sink, the first of all
LARGEST_PER_S = 4_000.0
WAITING = 3  # times the budget, for a task that asks a service
ALIKE = ("slots", "trigger_ms", "trial_s", "stair_s", "cores", "memory_gib")  # in all that one file holds
Measured = list[tuple[ProfileEntry, float | None]]  # with the speed of the core that each is of, where that is known


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large the measurement is."""

    slots: int
    trigger_ms: int
    budget_s: float  # for a profile
    trial_s: float
    stair_s: float
    largest_threads: int
    dataflows: tuple[str, ...]
    fractions: tuple[float, ...]
    pairs: tuple[Pair, ...]


def sizes_of(given: argparse.Namespace) -> Sizes:
    """What the options ask for."""
    if given.quick:
        return Sizes(given.slots, given.trigger_ms, 90.0, 2.5, 6.0, 8, ("fetch",), (1.0,),
                     (BASELINE, MODEL_BASED))
    return Sizes(given.slots, given.trigger_ms, given.budget, 4.0, given.stair, 16, tuple(given.dataflows),
                 tuple(given.fractions), PUBLISHED_PAIRS)


def unlike(earlier: Mapping[str, Any], sizes: Sizes) -> str:
    """In what the measurement of a file differs from this one so that they do not go together; empty where they do."""
    then = {**earlier.get("sizes", {}), **earlier.get("machine", {})}
    now = {name: value for name, value in {**asdict(sizes), **results.machine()}.items() if name in ALIKE}
    return ", ".join(
        f"{name} {then[name]}, not {value}" for name, value in now.items() if name in then and then[name] != value)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure what is missing, print the tables, write JSON, CSV and the page."""
    given = _options(argv)
    if given.predict_again:
        return predict_again(given.predict_again, given.out)
    sizes = sizes_of(given)
    document = json.loads(given.out.read_text()) if given.out.exists() and not given.anew else {}
    if differs := unlike(document, sizes):
        raise SystemExit(
            f"What is in {given.out} was measured otherwise ({differs}), and makes no experiment with what is to be "
            "measured now. Give the options of then, --anew to measure all again, or another file with --out.")
    document.setdefault("trials", {})
    document.setdefault("set_aside", {})
    document.setdefault("runs", [])
    document |= {"bench": "schedules --on-spark", "machine": results.machine(), "sizes": asdict(sizes),
             "definition": DEFINITION}
    given.out.parent.mkdir(parents=True, exist_ok=True)
    began_s = time.monotonic()
    read = _read(given.profiles) if given.profiles else []

    def save() -> None:
        results.write(given.out, document)

    with laboratory(slots=sizes.slots, trigger_ms=sizes.trigger_ms) as lab:
        measured = read or [*_tasks(lab, sizes, document, save), *_ends(lab, sizes, document, save)]
        entries = [entry for entry, _ in measured]
        given.out.with_suffix(".csv").write_text(write_entries(entries), encoding="utf-8")
        document["speeds"] = {entry.profile.task_type: speed for entry, speed in measured}
        print(results.table(profiling.rows(entry.profile for entry in entries)), flush=True)
        _experiments(lab, sizes, measured, document, save, most_s=60 * given.minutes)
    document["fits"] = fits(document["runs"])
    results.write(given.out, document)
    if document["runs"]:
        print("", results.table([summary(run) for run in document["runs"]]), "", shown(document), sep="\n")
        given.out.with_suffix(".html").write_text(page(document), encoding="utf-8")
    print(f"Took {(time.monotonic() - began_s) / 60:.1f} minutes; load of the machine over the last minute "
          f"{os.getloadavg()[0]:.1f}. Written to {given.out}, .csv and .html.")
    return 0


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="weir bench schedules --on-spark", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two schedules and rough profiles, in some five minutes")
    parser.add_argument("--predict-again", type=file, metavar="FILE",
                        help="measure nothing: what is predicted now of the runs that FILE keeps, against then")
    parser.add_argument("--profiles", type=file, help="CSV of profiles that were measured before")
    parser.add_argument("--dataflows", nargs="+", default=["linear", "diamond", "fetch", "enrich"],
                        choices=sorted(set(SHAPES) - {ENDS}))
    parser.add_argument("--fractions", type=positive, nargs="+", default=[1.0, 0.6],
                        help="of the highest rate that a pair plans for the slots")
    parser.add_argument("--slots", type=count, default=2, help="of this machine, each held to a core of its own")
    parser.add_argument("--budget", type=positive, default=180.0, help="seconds for a profile")
    parser.add_argument("--stair", type=positive, default=20.0, help="seconds at a rate")
    parser.add_argument("--minutes", type=float, default=20.0, help="after which no further schedule is run")
    parser.add_argument("--trigger-ms", type=count, default=500)
    parser.add_argument("--anew", action="store_true", help="measure again what is in the JSON already")
    parser.add_argument("--out", type=Path, default=Path("bench-results/schedules-on-spark.json"))
    return parser.parse_args(argv)


def _read(path: Path) -> Measured:
    return [(entry, None) for entry in read_entries(path.read_text(encoding="utf-8"))]


def _tasks(lab: Laboratory, sizes: Sizes, document: dict[str, Any], save: Callable[[], None]) -> Measured:
    """Profiles of the tasks, from trials that were made before or are made now."""
    needed = dict.fromkeys(task for name in sizes.dataflows for stream in SHAPES[name] for task in stream)
    tasks_measured: Measured = []
    for number, name in enumerate(needed):
        if name in lab.tasks:
            sweep = Sweep(
                smallest_rate_per_s=lab.tasks[name].first_per_s, largest_rate_per_s=LARGEST_PER_S,
                largest_threads=sizes.largest_threads, rate_precision=0.1, thread_precision=0.6, window=2,
                rate_slope=0.1, trial_s=sizes.trial_s + 3.0,
                # What waits for a service does so on many threads, each of which is measured.
                budget_s=sizes.budget_s * (WAITING if name in SERVICE_S else 1))
            tasks_measured.append(profiling.measured(
                lab.estate.client, lab.tasks[name], sweep, trials=document["trials"].setdefault(name, []),
                aside=document["set_aside"].setdefault(name, []), save=save, warm_up_s=2.0, seconds=sizes.trial_s,
                slot=str(number % sizes.slots),  # so that all drivers are warm
                slots=sizes.slots, origin=ORIGIN))
    return tasks_measured


def _ends(lab: Laboratory, sizes: Sizes, document: dict[str, Any], save: Callable[[], None]) -> Measured:
    """Profiles of the source and the sink."""
    job = job_of(lab.tasks, sizes.trigger_ms, ENDS, Profiles([]), max(ends.RATES_PER_S))
    apart = ends.apart(job, supply=lab.supply, options=options_of(sizes.trigger_ms))
    climb = ends.climb(first_s=COLD_S, stair_s=2 * sizes.stair_s)
    for attempt in range(MOST_RUNS):  # one bad moment at the source would limit every schedule
        if ENDS in document and ends.reached(document[ENDS]["stairs"]):
            break
        if attempt == 0:  # what a driver's first run leaves in its memory for good is none of the source's
            print("The drivers warm up; this run does not count.")
            lab.run(apart, ENDS, (climb[0], climb[-1]))
        document[ENDS] = lab.run(apart, ENDS, climb)
        save()
    slot_of = {end: next(iter(document[ENDS]["placement"][end])) for end in ends.TYPES}
    speeds = ends.speeds(document[ENDS]["stairs"], slot_of=slot_of)
    profiles = ends.profiles(
        document[ENDS]["stairs"], slot_of=slot_of, machine=machine_class(sizes.slots), origin=ORIGIN
    )
    return [(ProfileEntry(profile), speeds.get(profile.task_type)) for profile in profiles]


def _experiments(
    lab: Laboratory, sizes: Sizes, measured: Measured, document: dict[str, Any], save: Callable[[], None],
    *, most_s: float,
) -> None:
    """Run what has not been run, until the time is over."""
    began_s, warm = time.monotonic(), set[str]()
    profiles = Profiles([entry.profile for entry, _ in measured])
    speeds = {entry.profile.task_type: speed for entry, speed in measured}

    options = options_of(sizes.trigger_ms)

    def job_at(name: str, rate_per_s: float) -> Job:
        return job_of(lab.tasks, sizes.trigger_ms, name, profiles, rate_per_s)

    def scheduled(name: str, pair: Pair, rate_per_s: float) -> Schedule:
        return schedule(job_at(name, rate_per_s), pair, supply=lab.supply, options=options)

    told_anew = [retold(run, scheduled, speeds, supply=lab.supply) for run in document["runs"]]
    document["runs"] = [run for run in told_anew if run is not None]
    planned = list(plan(
        sizes.dataflows, sizes.pairs, sizes.fractions, job_at=job_at, supply=lab.supply, slots=sizes.slots,
        options=options))
    for name, pair, fraction, outcome in planned * MOST_RUNS:
        key = f"{name}, {'+'.join(pair)}, {fraction:g}"
        if any(run["key"] == key and not is_to_repeat(run) for run in document["runs"]):
            continue
        if time.monotonic() - began_s > most_s:
            print("The time is over; the rest is measured by the same command another time.")
            return
        facts: dict[str, Any] = {"key": key, "dataflow": name, "pair": list(pair), "fraction": fraction}
        if isinstance(outcome, WeirError):
            print(f"{key}: {outcome}")
            facts["error"] = str(outcome)
        else:
            climb = stairs(outcome.rate_per_s, outcome.sustained_per_s, first_s=FIRST_S, stair_s=sizes.stair_s)
            try:
                if name not in warm:
                    print("The drivers warm up; this run does not count.")
                    lab.run(outcome, name, (climb[0], Stair(WARM_PART * outcome.sustained_per_s, WARM_S)))
                    warm.add(name)
                facts |= lab.run(outcome, name, climb)
                at_their_speed(facts, outcome, speeds, supply=lab.supply)
            except TimeoutError as error:  # one that does not come to run must not take the others along
                print(f"{key}: {error}")
                facts["error"] = str(error)
        before = next((run for run in document["runs"] if run["key"] == key), {})
        document["runs"] = [run for run in document["runs"] if run["key"] != key] + [better(before, facts)]
        save()
