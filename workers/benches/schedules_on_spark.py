"""`./weir bench schedules --on-spark`: paper [2]'s experiments for real: profiles, schedules, and what they sustain.

Five tasks are measured on a slot of this machine, or read from ``--profiles``. Dataflows of them are scheduled by the
five pairs of the paper for the slots that there are, run on Spark, and driven up in stairs until they do not keep up.
Planned, predicted and actual rates, CPU and memory of slots and latencies go to a table, to JSON and to a page with
figures. What is in the JSON is not measured again: a run that was ended goes on.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from scheduler.model.errors import WeirError
from scheduler.model.estate import Estate, Slot
from scheduler.model.prices import Prices
from scheduler.model.profile import Profile, Profiles
from scheduler.model.profile_csv import read_profiles, write_profiles
from scheduler.model.resources import Node, Supply
from scheduler.performance.modelling import Sweep
from scheduler.scheduling import PAIRS, Pair, Schedule, Settings, prepare, schedule
from workers import secrets
from workers.library.registry import task_types

from . import profiling, results, services
from .climbing import Base, Climb, Slots, StairFound, base_of, clear, document
from .estate import NODE, RunningEstate, running
from .experiment_dataflows import (
    KEYS,
    OBJECT_BYTES,
    RECORDING,
    SECRET,
    SERVICE_S,
    SHAPES,
    TEAM,
    Kind,
    dataflow,
    kinds,
    parts,
    write_recording,
)
from .experiments import due_ms, loads_at, plan, stairs
from .schedules_page import page
from .schedules_summary import fits, shown, summary

PAPER = tuple(pair for pair in PAIRS if pair[1] != "exact")
BASE_S = 4.0
CALM_S = 5.0
FIRST_S = 12.0  # of a run, while its queries start
COLD_S = 25.0  # of the first run, while the drivers compile their code
DRIVER_THREADS = 64


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
        return Sizes(given.slots, given.trigger_ms, 60.0, 2.5, 6.0, 4, ("fetch",), (1.0,),
                     (("LSA", "RSM"), ("MBA", "SAM")))
    return Sizes(given.slots, given.trigger_ms, given.budget, 4.0, given.stair, 8, tuple(given.dataflows),
                 tuple(given.fractions), PAPER)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure what is missing, print the tables, write JSON, CSV and the page."""
    given = _options(argv)
    sizes = sizes_of(given)
    kept = json.loads(given.out.read_text()) if given.out.exists() and not given.anew else {}
    kept.setdefault("trials", {})
    kept.setdefault("runs", [])
    kept |= {"bench": "schedules --on-spark", "machine": results.machine()}
    began_s = time.monotonic()
    with _estate(sizes) as (estate, tasks, folder):
        def save() -> None:
            results.write(given.out, kept)

        profiles = _profiles(given, sizes, estate, tasks, kept, save)
        given.out.with_suffix(".csv").write_text(write_profiles(profiles), encoding="utf-8")
        print(results.table(profiling.rows(profiles)))
        _experiments(sizes, estate, tasks, profiles, kept, save, folder=folder, most_s=60 * given.minutes)
    kept["fits"] = fits(kept["runs"])
    results.write(given.out, kept)
    if kept["runs"]:
        print("", results.table([summary(run) for run in kept["runs"]]), "", shown(kept), sep="\n")
        given.out.with_suffix(".html").write_text(page(kept), encoding="utf-8")
    print(f"Took {(time.monotonic() - began_s) / 60:.1f} minutes; load of the machine over the last minute "
          f"{os.getloadavg()[0]:.1f}. Written to {given.out}, .csv and .html.")
    return 0


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="weir bench schedules --on-spark", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two schedules and rough profiles, in some five minutes")
    parser.add_argument("--profiles", type=Path, help="CSV of profiles that were measured before")
    parser.add_argument("--dataflows", nargs="+", default=["linear", "diamond", "fetch", "enrich"],
                        choices=sorted(SHAPES))
    parser.add_argument("--fractions", type=float, nargs="+", default=[1.0, 0.6],
                        help="of the highest rate that a pair plans for the slots")
    parser.add_argument("--slots", type=int, default=2, help="of this machine, each held to a core of its own")
    parser.add_argument("--budget", type=float, default=150.0, help="seconds for a profile")
    parser.add_argument("--stair", type=float, default=8.0, help="seconds at a rate")
    parser.add_argument("--minutes", type=float, default=20.0, help="after which no further schedule is run")
    parser.add_argument("--trigger-ms", type=int, default=500)
    parser.add_argument("--anew", action="store_true", help="measure again what is in the JSON already")
    parser.add_argument("--out", type=Path, default=Path("bench-results/schedules-on-spark.json"))
    return parser.parse_args(argv)


@contextmanager
def _estate(sizes: Sizes) -> Iterator[tuple[RunningEstate, Mapping[str, Kind], Path]]:
    """An empty estate whose slots are held to cores, with the services that its tasks ask."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="weir-bench-")))
        store, _ = stack.enter_context(services.object_store(service_s=SERVICE_S["download"], size=OBJECT_BYTES))
        database, _ = stack.enter_context(services.database(rows=KEYS))
        write_recording(folder / "replay" / RECORDING, [2 * number for number in range(2_000)])
        settings = {
            "WEIR_PIN": "always", "WEIR_SLOT_THREADS": str(DRIVER_THREADS),
            "WEIR_HTTP_HOSTS": urlsplit(store).netloc, "WEIR_DATABASE_HOSTS": _host(database),
            "WEIR_REPLAY_DIRS": str(folder / "replay"),
        }
        os.environ |= settings  # planning checks configs, too
        empty = Estate(1, slots=tuple(Slot(NODE, index) for index in range(sizes.slots)))
        estate = stack.enter_context(running(empty, folder, trigger_ms=sizes.trigger_ms, settings=settings))
        sealed = secrets.Vault(folder).seal(database)
        secrets.publish(estate.client, {f"{TEAM}/{SECRET}": sealed})
        estate.wait_slots()
        time.sleep(CALM_S)
        yield estate, kinds(store), folder


def _host(address: str) -> str:
    return urlsplit(address).netloc.rpartition("@")[2]


def _profiles(
    given: argparse.Namespace, sizes: Sizes, estate: RunningEstate, tasks: Mapping[str, Kind], kept: dict[str, Any],
    save: Any,
) -> list[Profile]:
    """Those of the file, if one is given; else what is measured now, or was before."""
    if given.profiles:
        return list(read_profiles(given.profiles.read_text(encoding="utf-8")))
    needed = dict.fromkeys(task for name in sizes.dataflows for stream in SHAPES[name] for task in stream)
    found = []
    for name in needed:
        if name not in tasks:
            continue
        sweep = Sweep(
            smallest_rate_per_s=tasks[name].first_per_s, largest_rate_per_s=4_000.0,
            largest_threads=sizes.largest_threads, rate_precision=0.1, thread_precision=0.6, window=2,
            rate_slope=0.1, trial_s=sizes.trial_s + 3.0, budget_s=sizes.budget_s)
        found.append(profiling.measured(
            estate.client, tasks[name], sweep, kept=kept["trials"].setdefault(name, []), save=save,
            warm_up_s=2.0, seconds=sizes.trial_s))
    return found


def _experiments(
    sizes: Sizes, estate: RunningEstate, tasks: Mapping[str, Kind], profiles: Sequence[Profile], kept: dict[str, Any],
    save: Any, *, folder: Path, most_s: float,
) -> None:
    """Run what has not been run, until the time is over."""
    began_s, types = time.monotonic(), task_types()
    supply = Supply(free=(Node(NODE, estate.estate.slots),))
    known = Profiles(profiles)
    settings = Settings(routing="slot_aware", trigger_s=sizes.trigger_ms / 1000)

    def scheduled(name: str, pair: Pair, rate_per_s: float) -> Schedule:
        flow = dataflow(name, tasks, path=RECORDING, run="planned")
        job = prepare(flow, task_types=types, profiles=known, rate_per_s=rate_per_s,
                      trigger_s=sizes.trigger_ms / 1000)
        return schedule(job, pair, supply=supply, settings=settings)

    slots = Slots(estate)
    base, number = base_of(slots, seconds=BASE_S), 0
    for name, pair, fraction, found in plan(
            sizes.dataflows, sizes.pairs, sizes.fractions, scheduled=scheduled, slots=sizes.slots):
        key = f"{name}, {'+'.join(pair)}, {fraction:g}"
        if any(run["key"] == key and run.get("stairs") for run in kept["runs"]):
            continue
        if time.monotonic() - began_s > most_s:
            print("The time is over; the rest is measured by the same command another time.")
            return
        facts: dict[str, Any] = {"key": key, "dataflow": name, "pair": list(pair), "fraction": fraction}
        if isinstance(found, WeirError):
            kept["runs"].append(facts | {"error": str(found)})
            print(f"{key}: {found}")
            continue
        here = Base(base.cpu, slots.memory_mb())  # what drivers hold for good grows from run to run
        run = _run(estate, slots, here, found, tasks, sizes, name=name, number=number, folder=folder)
        number += 1
        kept["runs"] = [one for one in kept["runs"] if one["key"] != key] + [facts | run]
        save()


def _run(
    estate: RunningEstate, slots: Slots, base: Base, planned: Schedule, tasks: Mapping[str, Kind], sizes: Sizes,
    *, name: str, number: int, folder: Path,
) -> dict[str, Any]:
    """Enact a schedule, climb its stairs, and say what was planned, predicted and measured."""
    first_s = FIRST_S if number else COLD_S
    climb = stairs(planned.rate_per_s, planned.sustained_per_s, first_s=first_s, stair_s=sizes.stair_s)
    path = f"run-{number}.parquet"
    write_recording(folder / "replay" / path, due_ms(climb))
    types, prices = task_types(), Prices(trigger_ms=sizes.trigger_ms)
    flow = dataflow(name, tasks, path=path, run=str(number))
    job = prepare(flow, task_types=types, profiles=_same(planned), rate_per_s=planned.rate_per_s,
                  trigger_s=sizes.trigger_ms / 1000)
    enacted = schedule(job, planned.pair, supply=Supply(free=(Node(NODE, estate.estate.slots),)),
                       settings=planned.settings)
    print(f"{name} by {'+'.join(planned.pair)}: {planned.allocation.threads} threads on {planned.slots} slots, planned "
          f"{planned.rate_per_s:.4g}, predicted {planned.sustained_per_s:.4g} events/s", flush=True)

    def told(stair: StairFound) -> None:
        one = stair.carried
        loads = ", ".join(f"{load.cpu:.0%}" for _, load in sorted(stair.loads.items()))
        print(f"  {one.rate_per_s:7.1f} events/s: {one.carried_per_s:7.1f} carried ({one.slowest}), CPU {loads}, "
              f"others {stair.others_cores:.2f} cores", flush=True)

    runner = Climb(estate, slots, base, task_types=types, prices=prices, parts=parts(name))
    try:
        found = runner.run(enacted, climb, told=told)
    finally:
        (folder / "replay" / path).unlink()
        clear(folder)
    return {
        "planned_per_s": planned.rate_per_s, "predicted_per_s": planned.sustained_per_s,
        "threads": planned.allocation.threads, "slots": planned.slots, "predicted_latency_s": planned.latency_s,
        "limit": planned.prediction.routed.limit.reason if planned.prediction.routed.limit else "",
        "load": os.getloadavg()[0], "base": {"cpu": base.cpu, "memory_mb": base.memory_mb},
        "placement": {task: {planned.placement.slots[at].name: threads for at, threads in counts.items()}
                      for task, counts in planned.placement.counts.items()},
        "stairs": [document(stair) | {"predicted": {
            slot: {"cpu": cpu, "memory": memory}
            for slot, (cpu, memory) in loads_at(planned, stair.carried.rate_per_s).items()}} for stair in found],
    }


def _same(planned: Schedule) -> Profiles:
    """The profiles that a schedule was made with."""
    return Profiles({profile.task_type: profile for profile in planned.job.profiles.values()}.values())
