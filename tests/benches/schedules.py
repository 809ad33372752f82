"""`./weir bench schedules`: the dataflows of paper [2] by each pair of allocation and mapping, and what planning costs.

With ``--on-spark`` schedules run: see ``schedules_on_spark.py``.

Linear and Diamond are as published; of Star, Traffic and Smart Grid the structure is, and the labels are ours; of
Finance nothing is, and it is absent. The profiles are the published ones, and nothing runs: rates are predicted. The
second table plans random dataflows of up to thousands of tasks with profiles of our own, about ten threads a task, on
machines of four slots and once on a node of 500, and compares the growth of its CPU time with n log n. The command
fails where 1,000 tasks take more than a second, or the growth is over 2.5 times n log n.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import sys
import time
from collections.abc import Mapping, Sequence
from math import log2
from pathlib import Path
from typing import Any

from scheduler.model.dataflow import Dataflow, Stream, Task
from scheduler.model.fragment import Slot
from scheduler.model.profile import Point, Profile, Profiles
from scheduler.model.resources import Node, Supply
from scheduler.model.task_types import TaskType, TaskTypes
from scheduler.pairs import PAIRS, QUICK_PAIRS, Pair
from scheduler.performance.prediction import predict
from scheduler.scheduling import Job, Schedule, prepare, schedule

from . import results
from .arguments import count, positive
from .published_dataflows import MACHINES, STRUCTURES, TYPES, published_dataflows, published_profiles

# Five characters of task, in our own figures: CPU alone, CPU and memory, disk, a slow service, a quick one.
KINDS = (
    Profile("compute", (Point(1, 100, 0.9, 0.02), Point(2, 110, 0.95, 0.03))),
    Profile("parse", (Point(1, 300, 0.85, 0.35),)),
    Profile("write", (Point(1, 50_000, 0.6, 0.1), Point(2, 45_000, 0.5, 0.05))),
    Profile("download", (Point(1, 2, 0.07, 0.2), Point(8, 12, 0.4, 0.25), Point(16, 20, 0.7, 0.3))),
    Profile("query", (Point(1, 4, 0.02, 0.01), Point(10, 30, 0.2, 0.05), Point(30, 60, 0.5, 0.1))),
)
ENDS = Profile("source", (Point(1, 1, 0.1, 0.15),), static=True)
RANDOM_TYPES = TaskTypes([
    TaskType("source", "source", "Makes events.", "none:none"),
    *(TaskType(kind.task_type, "transform", "A kind of task.", "none:none") for kind in KINDS),
])
RANDOM_PROFILES = Profiles([ENDS, *KINDS])
THREADS_PER_TASK = 10
SUPPLY = Supply(catalogue=MACHINES)
LARGE = Supply((Node("large", tuple(Slot("large", index) for index in range(500))),), MACHINES)
OURS = (
    "labels ours: the structure is published, the task labels are our choice (Linear's five, again and again). The "
    "paper's Finance dataflow is absent: its structure is not published.")
LIMIT_TASKS, LIMIT_S = 1000, 1.0  # so many tasks of ten threads and more are planned within this time
LIMIT_GROWTH = 2.5  # times n log n of the threads
JUDGED_FROM = 100  # tasks; fewer are planned within milliseconds, and chance decides


def main(argv: Sequence[str] | None = None) -> int:
    """Plan, print the tables and what is over its limit, which is failing, write JSON; or measure on Spark."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if "--on-spark" in arguments:
        from .schedules_on_spark import main as measure  # what it imports takes seconds, and is not needed otherwise

        return measure([argument for argument in arguments if argument != "--on-spark"])
    parser = argparse.ArgumentParser(prog="weir bench schedules", description=__doc__)
    parser.add_argument("--published", type=Path, default=Path("../shared/data/performance_models"),
                        help="folder of the published profiles and dataflows, which are no part of Weir")
    parser.add_argument("--rates", type=positive, nargs="+", default=[50, 100, 200], help="events/s of the source")
    parser.add_argument("--sizes", type=count, nargs="+", default=[125, 250, 500, 1000, 2000, 4000], help="tasks")
    parser.add_argument("--repeat", type=count, default=5, help="times that each size is planned")
    parser.add_argument("--seed", type=int, default=2017)
    parser.add_argument("--out", type=Path, default=Path("bench-results/schedules.json"))
    options = parser.parse_args(arguments)
    published: list[dict[str, Any]] = []
    if (options.published / "dags.json").exists():
        published = _published(options.published, options.rates)
        print(results.table(published), OURS, sep="\n")
    else:
        print(f"The published dataflows are not at {options.published} (--published names another folder).")
    grown = _growth(options.sizes, repeat=options.repeat, seed=options.seed)
    over = over_limits(grown)
    print("", results.table(grown), *over, sep="\n")
    load = os.getloadavg()[0]
    print(f"\nLoad of the machine over the last minute: {load:.1f}")
    results.write(options.out, {
        "machine": results.machine(), "load": load, "seed": options.seed, "labels": OURS,
        "published": published, "growth": grown, "over limits": over})
    print(f"Written to {options.out}.")
    return 1 if over else 0


def _published(folder: Path, rates: Sequence[float]) -> list[dict[str, Any]]:
    """Each dataflow at each rate by each pair."""
    profiles, rows = published_profiles(folder), []
    for name, dataflow in published_dataflows(folder).items():
        for rate_per_s in rates:
            job = prepare(dataflow, task_types=TYPES, profiles=profiles, rate_per_s=rate_per_s)
            for pair in PAIRS:
                began = time.process_time()
                scheduled = schedule(job, pair, supply=SUPPLY)
                took_s = time.process_time() - began
                rows.append({
                    "dataflow": name, "labels": "ours" if name in STRUCTURES else "published", "events/s": rate_per_s,
                    **_row(job, scheduled), "plan CPU ms": took_s * 1000})
    return rows


def _row(job: Job, scheduled: Schedule) -> dict[str, Any]:
    shuffled = predict(scheduled.placement, job.profiles, rates_per_s=job.rates_per_s, routing="shuffle")
    bound = scheduled.placement.slots_bound
    return {
        "allocation": scheduled.pair[0], "mapping": scheduled.pair[1], "threads": scheduled.allocation.threads,
        "asked": scheduled.placement.allocated_slots, "extra": scheduled.placement.extra,
        "slots": scheduled.placement.needed,
        "bound": None if bound is None else bound.least,
        "machines": len(scheduled.acquisition.nodes), "per hour": round(scheduled.acquisition.per_hour, 3),
        "shuffle": shuffled.factor * scheduled.rate_per_s, "slot-aware": scheduled.sustained_per_s,
        "between nodes": scheduled.between_nodes_per_s,
    }


def random_question(tasks: int, *, seed: int) -> tuple[Dataflow, float]:
    """A random dataflow whose tasks read one of the twenty before, and a rate that gives ten threads a task by LSA."""
    rng = random.Random(seed)
    names = [f"t{number}" for number in range(tasks)]
    dataflow = Dataflow(
        "random", (Task("s", "source"), *(Task(name, rng.choice(KINDS).task_type) for name in names)),
        tuple(Stream("s" if at < 10 else names[rng.randrange(max(0, at - 20), at)], name)
              for at, name in enumerate(names)))
    at_one = _job(dataflow, 1.0)
    rates = {task: rate for task, rate in at_one.rates_per_s.items() if task != "s"}
    threads = sum(rate / at_one.profiles[task].one_thread.rate_per_s for task, rate in rates.items())
    return dataflow, max(1.0, THREADS_PER_TASK * tasks / threads)


def _job(dataflow: Dataflow, rate_per_s: float) -> Job:
    return prepare(dataflow, task_types=RANDOM_TYPES, profiles=RANDOM_PROFILES, rate_per_s=rate_per_s)


def _growth(sizes: Sequence[int], *, repeat: int, seed: int) -> list[dict[str, Any]]:
    """The median of what planning takes, rates included, and that by n log n against the smallest size."""
    rows: list[dict[str, Any]] = []
    first: dict[Pair, float] = {}
    questions = {size: random_question(size, seed=seed) for size in sorted(sizes)}
    large = max((size for size in questions if size <= LIMIT_TASKS), default=min(questions))
    for size, supply in (*((size, SUPPLY) for size in questions), (large, LARGE)):
        for pair in QUICK_PAIRS:
            passed, spent = [], []
            for _ in range(repeat):
                gc.collect()
                began, cpu = time.perf_counter(), time.process_time()
                scheduled = schedule(_job(*questions[size]), pair, supply=supply)
                passed.append(time.perf_counter() - began)
                spent.append(time.process_time() - cpu)
            threads = scheduled.allocation.threads
            cpu_s = results.median(spent) or 0.0
            unit = cpu_s / (threads * log2(threads))
            rows.append({
                "tasks": size, "largest node": max(len(node.slots) for node in scheduled.acquisition.nodes),
                "threads": threads, "allocation": pair[0], "mapping": pair[1], "slots": scheduled.placement.needed,
                "extra": scheduled.placement.extra, "s": results.median(passed), "CPU s": cpu_s,
                "of n log n": unit / first.setdefault(pair, unit),
            })
    return rows


def over_limits(growth: Sequence[Mapping[str, Any]]) -> list[str]:
    """What takes longer than it may, or grows faster against the smallest size that is judged: a line for each."""
    problems: list[str] = []
    first: dict[tuple[str, str], float] = {}
    for row in growth:
        pair = row["allocation"], row["mapping"]
        what = f"{row['tasks']:,} tasks by {pair[0]} with {pair[1]}, nodes of up to {row['largest node']} slots"
        if row["tasks"] == LIMIT_TASKS and row["s"] > LIMIT_S:
            problems.append(f"Over the limit: {what}, take {row['s']:.2f} s; {LIMIT_S:g} s at most.")
        if row["tasks"] >= JUDGED_FROM:
            grown = row["of n log n"] / first.setdefault(pair, row["of n log n"])
            if grown > LIMIT_GROWTH:
                problems.append(f"Over the limit: {what}, take {grown:.1f} times n log n; {LIMIT_GROWTH:g} at most.")
    return problems
