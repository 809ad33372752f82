"""`./weir bench history`: what a kept history of thousands of series costs, and how soon a day of one is there.

A database of its own is written second by second, as the site does it: values of all series are taken in, flushed every
five seconds, and made coarser as windows end; only that is timed, in CPU seconds of this process. Three series of ten
stand still, the others move by some per cent from one second to the next. Bytes are those of the blocks that stay, and
of the database's file. Days that are not played are told as extrapolated. Last, dataflows run as far as reports
and meters say, and the recorder's own CPU is measured: reading what is observed is the larger part of it.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from scheduler.history.series import MINUTE, SECOND, TEN_SECONDS, Grain, Series
from tests.benches import results
from tests.benches.arguments import count

from .history_recorder import recorder_cost
from .planning_workload import temporary_database

BEGIN_S = 1_800_000_000
FLUSH_EVERY_S, TIDY_EVERY_S = 5, 60
HOUR_S, DAY_S = 3_600, 86_400
STILL = 0.3  # of the series do not move
METRICS = ("rate_per_s", "latency_p50_ms", "latency_p95_ms", "latency_p99_ms", "cpu")


def main(argv: Sequence[str] | None = None) -> int:
    """Play, print the table, write JSON; fails where a figure is worse than what was set out to reach."""
    parser = argparse.ArgumentParser(prog="weir bench history", description=__doc__)
    parser.add_argument("--series", type=count, default=5_000)
    parser.add_argument("--hours", type=count, default=24, help="that are played, from 7 on")
    parser.add_argument("--reads", type=count, default=40, help="of each kind")
    parser.add_argument("--dataflows", type=count, default=100, help="that run, to record them")
    parser.add_argument("--seconds", type=count, default=60, help="of them that are recorded")
    parser.add_argument("--seed", type=int, default=2027)
    parser.add_argument("--out", type=Path, default=Path("bench-results/history.json"))
    options = parser.parse_args(argv)
    if options.hours < 7:
        parser.error("--hours must be 7 or more: minutes are stored every six hours")
    with TemporaryDirectory(prefix="weir-history-") as folder, temporary_database(Path(folder)):
        figures = measured(options)
    figures |= _recorder(options)
    rows = [{"figure": name, "value": value, "to reach": limit, "basis": basis}
            for name, (value, limit, basis) in figures.items()]
    print(results.table(rows))
    load = os.getloadavg()[0]
    print(f"\nLoad of the machine over the last minute: {load:.1f}")
    results.write(options.out, {
        "machine": results.machine(), "load": load, "series": options.series, "hours": options.hours,
        "seed": options.seed, "figures": rows})
    print(f"Written to {options.out}.")
    return 1 if any(row["to reach"] is not None and row["value"] > row["to reach"] for row in rows) else 0


def measured(options: argparse.Namespace) -> dict[str, tuple[float, float | None, str]]:
    """Each figure: its value, what is to be reached, and whether it was measured or extrapolated."""
    from dashboard.history.history_store import DatabaseHistory  # here, and below: Django is set up by the command

    history = DatabaseHistory()
    lines = [Series("task", f"task-{number // len(METRICS):05}", METRICS[number % len(METRICS)])
             for number in range(options.series)]
    cpu_s, worst_s = _played(history, lines, options)
    end_s = BEGIN_S + options.hours * HOUR_S
    day = f"measured over {options.hours} h" if options.hours >= 24 else f"extrapolated from {options.hours} h"
    ten_mb, minute_mb = (_mb_a_day(grain) for grain in (TEN_SECONDS, MINUTE))
    seconds_mb, whole_mb = _stored_mb(SECOND), _file_mb()
    played_s = options.hours * HOUR_S
    chance = np.random.default_rng(options.seed)

    def read(grain: Grain, length_s: int, series: int = 1) -> Callable[[], object]:
        def act() -> object:
            some = [lines[number] for number in chance.choice(len(lines), series, replace=False)]
            return history.read(some, grain, begin_s=end_s - length_s, end_s=end_s)
        return act

    day_s = min(DAY_S, played_s)
    over = "a day" if day_s == DAY_S else f"{options.hours} h"
    readings = {
        f"{over} of one series at 10 s, ms": (read(TEN_SECONDS, day_s), 50.0),
        f"{over} of one series at 1 min, ms": (read(MINUTE, day_s), None),
        "15 min of one series at 1 s, ms": (read(SECOND, SECOND.keep_s), None),
        f"{over} of four series at 10 s, ms": (read(TEN_SECONDS, day_s, 4), None)}
    figures: dict[str, tuple[float, float | None, str]] = {
        "share of a core, %": (100 * cpu_s / played_s, 5.0, "measured: CPU of all calls by the time played"),
        "longest tidying, CPU s": (worst_s, None, "measured"),
        "MB a day": (ten_mb + minute_mb, 200.0, f"{day}: blocks of 10 s and of 1 min of one day"),
        "of them 1 min, MB a day": (minute_mb, None, day),
        "seconds that are kept, MB": (seconds_mb, None, "measured: does not grow"),
        "file of the database, MB": (whole_mb, None, f"measured after {options.hours} h"),
        "90 days, MB": (ten_mb + seconds_mb + 90 * minute_mb, None, "extrapolated")}
    for name, (act, limit) in readings.items():
        passed_ms, cpu_ms = _median_ms(act, options.reads)
        figures[name] = (passed_ms, limit, f"measured, median of {options.reads}; of it CPU {cpu_ms:.1f}")
    return figures


def _recorder(options: argparse.Namespace) -> dict[str, tuple[float, float | None, str]]:
    cost = recorder_cost(dataflows=options.dataflows, seconds=options.seconds)
    what = f"{options.dataflows} dataflows, {cost.queries} queries, {cost.values} values a second"
    return {
        "recorder, % of a core": (cost.mean_ms / 10, None, f"measured over {options.seconds} s: {what}"),
        "its longest second, CPU ms": (cost.most_ms, None, "measured")}


def _played(history: Any, lines: Sequence[Series], options: argparse.Namespace) -> tuple[float, float]:
    """Write so many hours; CPU seconds of the history's own calls, and of the longest tidying."""
    chance = np.random.default_rng(options.seed)
    base = chance.lognormal(3, 1.5, len(lines))
    moves = np.where(chance.random(len(lines)) < STILL, 0.0, 0.05)
    spent_s = worst_s = 0.0
    level = base
    for at_s in range(BEGIN_S, BEGIN_S + options.hours * HOUR_S):
        if at_s % 60 == 0:
            level = base * (1 + 0.3 * np.sin(at_s / 7_000 + base))
        values = np.where(moves > 0, level * (1 + moves * chance.standard_normal(len(lines))), base)
        measured_values = dict(zip(lines, values.tolist(), strict=True))
        began_s = time.process_time()
        history.append(at_s, measured_values)
        if at_s % FLUSH_EVERY_S == 0:
            history.flush()
        if at_s % TIDY_EVERY_S == 0:
            before_s = time.process_time()
            history.tidy(at_s)
            worst_s = max(worst_s, time.process_time() - before_s)
        spent_s += time.process_time() - began_s
    history.flush()
    return spent_s, worst_s


def _stored_mb(grain: Grain) -> float:
    return sum(_bytes_of(grain)) / 1e6


def _mb_a_day(grain: Grain) -> float:
    """Of whole windows: as many as a day has."""
    from dashboard.history.block_layout import LAYOUTS

    sizes = _bytes_of(grain)
    return sum(sizes) / len(sizes) * DAY_S / LAYOUTS[grain].span_s / 1e6 if sizes else 0.0


def _bytes_of(grain: Grain) -> list[int]:
    """Bytes of the blocks of each window."""
    from django.db.models import Sum
    from django.db.models.functions import Length

    from dashboard.history.models import Block

    rows = Block.objects.filter(grain_s=grain.step_s).values("begins_s").annotate(size=Sum(Length("payload")))
    return [row["size"] for row in rows]


def _file_mb() -> float:
    """The database with all of its tables, as the disk has it."""
    from django.db import connection

    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            pages, size = (cursor.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
            return pages * size / 1e6
        cursor.execute("SELECT pg_database_size(current_database())")
        return cursor.fetchone()[0] / 1e6


def _median_ms(act: Callable[[], object], times: int) -> tuple[float, float]:
    """How long it takes, and this process's CPU: on a busy machine the one grows with what else runs."""
    passed_ms, cpu_ms = [], []
    for _ in range(times):
        began_s, spent_s = time.perf_counter(), time.process_time()
        act()
        passed_ms.append((time.perf_counter() - began_s) * 1_000)
        cpu_ms.append((time.process_time() - spent_s) * 1_000)
    return statistics.median(passed_ms), statistics.median(cpu_ms)
