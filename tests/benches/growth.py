"""Measure what grows while dataflows run: database, broker, checkpoints, files; and what that comes to in a week.

A whole system runs with four dataflows, one of which writes files of each kind. What is bounded is said with its
bound: a table of which six hours are kept does not grow for a week.
"""

from __future__ import annotations

import argparse
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis

from tests.benches.arguments import positive
from tests.benches.results import machine, table, write
from workers.engine.worker_settings import ROOT
from workers.launcher.broker import free_port
from workers.processes import spawn, stop

WEEK_S = 7 * 86_400.0
READY_S, SETTLE_S, EVERY_S = 600.0, 120.0, 30.0
HOUR_S = 3600.0
# For how long rows of these tables are kept, where that is less than a week.
KEPT_S = {
    "history_block": 1_860.0,  # of seconds, of which nearly all its rows are; what the others come to: docs/history.md
    "schedules_schedulereading": 900.0, "profiles_observationrow": 24 * HOUR_S}
LOGS = 4 * 40 * 2**20  # broker, agent, web, worker: four files of 10 MB each
DATABASE = "folder weir.sqlite3"
PLAN_TABLES = ("plans_planrecord", "approvals_proposal", "approvals_review", "approvals_ask",
               "approvals_proposal_teams", "audit_auditentry", "catalog_dataflowversion")


@dataclass(frozen=True, slots=True)
class Sizes:
    """What there was at one moment, in bytes by part; ``rows`` of tables."""

    at_s: float
    parts: Mapping[str, int]
    rows: Mapping[str, int]


def parts_of(data: Path) -> dict[str, int]:
    """Bytes of each folder of the state folder; of outputs what users read, and what is Weir's own apart."""
    sizes: dict[str, int] = {}
    for path in data.rglob("*"):
        try:
            size = path.lstat().st_size if path.is_file() and not path.is_symlink() else 0
        except OSError:  # it was removed meanwhile
            continue
        top = path.relative_to(data).parts[0]
        if top == "outputs":
            top = "outputs: staged and state" if ".weir" in path.parts else "outputs: files"
        sizes[top] = sizes.get(top, 0) + size
    return sizes


def tables_of(database: Path) -> tuple[dict[str, int], dict[str, int]]:
    """Bytes of each table with its indexes, and its rows; no bytes where SQLite was built without ``dbstat``."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=30)) as connection:
        of_table = dict(connection.execute("SELECT name, tbl_name FROM sqlite_master"))
        sizes: dict[str, int] = {}
        try:
            pages = connection.execute("SELECT name, SUM(pgsize) FROM dbstat GROUP BY name").fetchall()
        except sqlite3.OperationalError:
            pages = []
        for name, size in pages:
            owner = of_table.get(name, name)
            sizes[owner] = sizes.get(owner, 0) + size
        names = [name for name, owner in of_table.items() if name == owner and not name.startswith("sqlite_")]
        rows = {name: connection.execute(f'SELECT COUNT(*) FROM "{name}"').fetchone()[0] for name in names}
    return sizes, rows


def keys_of(client: redis.Redis) -> tuple[dict[str, int], int]:
    """Bytes of the broker's keys by kind, such as ``weir:ch``, and how many keys never expire."""
    sizes: dict[str, int] = {}
    lasting = 0
    for key in client.scan_iter(count=1_000):
        kind = ":".join(key.decode().split(":")[:2])
        sizes[kind] = sizes.get(kind, 0) + int(client.memory_usage(key) or 0)
        lasting += client.ttl(key) == -1
    return sizes, lasting


def look(data: Path, client: redis.Redis) -> Sizes:
    """All sizes now."""
    tables, rows = tables_of(data / "weir.sqlite3")
    kinds, lasting = keys_of(client)
    parts = {
        **{f"folder {name}": size for name, size in parts_of(data).items()},
        **{f"table {name}": size for name, size in tables.items()},
        **{f"keys {kind}": size for kind, size in kinds.items()}}
    files = [path for path in (data / "outputs").rglob("*") if path.is_file() and ".weir" not in path.parts]
    rows |= {"keys that never expire": lasting, "files of outputs": len(files),
             "files of checkpoints": sum(path.is_file() for path in (data / "checkpoints").rglob("*"))}
    return Sizes(time.monotonic(), parts, rows)


def week_of(looks: Sequence[Sizes]) -> list[dict[str, Any]]:
    """What each part has, its most, how fast it grew, and what it comes to in a week at that rate, or to its bound.

    Folders and keys rise and fall as logs of batches are written and cleared. Their growth is the slope of a line
    through all looks, and none where that is below twice its standard error: then they count as their most.
    """
    first, last = looks[0], looks[-1]
    rows = []
    for part, size in sorted(last.parts.items(), key=lambda item: -item[1]):
        kind, _, name = part.partition(" ")
        sizes = [sizes.parts.get(part, 0) for sizes in looks]
        slope, error = slope_of([sizes.at_s for sizes in looks], sizes)
        is_level = slope < 2 * error
        week, bound = (max(sizes), "level") if is_level else (size + slope * WEEK_S, "")
        if kind == "table":
            week, bound = _table_in_a_week(name, size, first, last)
        elif part == "folder logs":
            week, bound = min(week, LOGS), "40 MB a process"
        rows.append({
            "part": part, "MB": size / 2**20, "most MB": max(sizes) / 2**20, "MB in a week": week / 2**20,
            "bound": bound})
    tables = sum(row["MB in a week"] for row in rows if row["part"].startswith("table "))
    return [
        {**row, "MB in a week": max(tables, row["MB"]), "bound": "its tables"} if row["part"] == DATABASE else row
        for row in rows]


def slope_of(times_s: Sequence[float], sizes: Sequence[float]) -> tuple[float, float]:
    """The slope of the line through these by least squares, and its standard error; bytes a second."""
    count = len(times_s)
    centre_s, mean = sum(times_s) / count, sum(sizes) / count
    spread = sum((at_s - centre_s) ** 2 for at_s in times_s)
    if count < 3 or not spread:
        return 0.0, 0.0
    slope = sum((at_s - centre_s) * (size - mean) for at_s, size in zip(times_s, sizes, strict=True)) / spread
    left = sum((size - mean - slope * (at_s - centre_s)) ** 2 for at_s, size in zip(times_s, sizes, strict=True))
    return slope, (left / (count - 2) / spread) ** 0.5


def _table_in_a_week(name: str, size: int, first: Sizes, last: Sizes) -> tuple[float, str]:
    """By its rows, since pages come in steps."""
    count = last.rows.get(name, 0)
    if not count:
        return size, ""
    row, per_s = size / count, (count - first.rows.get(name, 0)) / (last.at_s - first.at_s)
    if name == "bills_usagehour":  # a row an hour for each dataflow and task: what there is is of an hour or two
        return count * row * WEEK_S / HOUR_S, "days after 35 days, gone after 400"
    kept_s = KEPT_S.get(name)
    if kept_s is None:
        return size + per_s * row * WEEK_S, ""
    return per_s * row * kept_s, f"kept for {kept_s / HOUR_S:g} h"


def run(*, minutes: float, rate_per_s: float, slots: int) -> dict[str, Any]:
    """Start a system, run the dataflows, look every half a minute.

    Parameters
    ----------
    minutes : float
        For how long growth is measured, after two minutes in which what is bounded fills.
    rate_per_s : float
        Events/s of the dataflow that writes files.
    slots : int
        Of the system.
    """
    with tempfile.TemporaryDirectory(prefix="weir-growth-") as name:
        data = Path(name)
        variables = {key: value for key, value in os.environ.items() if key not in ("REDIS_URL", "DATABASE_URL")}
        environment = {**variables, "PYTHONPATH": str(ROOT), "WEIR_DATA_DIR": str(data)}
        with (data / "up.log").open("ab") as log:
            system = spawn(
                [sys.executable, "-P", "-m", "workers.launcher", "--slots", str(slots), "--port", str(free_port()),
                 "--data-dir", str(data)], env=environment, cwd=ROOT, stdout=log)
        try:
            _until_ready(data / "up.log")
            url = (data / "broker" / "url").read_text().strip()
            subprocess.run(
                (sys.executable, "-P", "-m", "tests.benches.growth_estate", str(rate_per_s)), check=True, cwd=ROOT,
                env={**environment, "REDIS_URL": url})
            time.sleep(SETTLE_S)
            with redis.Redis.from_url(url) as client:
                looks = [look(data, client)]
                end_s = time.monotonic() + minutes * 60
                while time.monotonic() < end_s:
                    time.sleep(min(EVERY_S, max(0.0, end_s - time.monotonic())))
                    looks.append(look(data, client))
        finally:
            stop(system, timeout_s=30)
    first, last = looks[0], looks[-1]
    plans = last.rows["plans_planrecord"]
    return {
        "machine": machine(), "minutes": minutes, "rate_per_s": rate_per_s, "parts": week_of(looks),
        "bytes_a_plan": round(sum(last.parts.get(f"table {name}", 0) for name in PLAN_TABLES) / plans),
        "counts": {name: [first.rows[name], last.rows[name]] for name in (
            "keys that never expire", "files of outputs", "files of checkpoints")},
        "looks": [{"at_s": round(sizes.at_s - first.at_s, 1), **sizes.parts} for sizes in looks]}


def _until_ready(log: Path) -> None:
    deadline = time.monotonic() + READY_S
    while "ready after" not in (text := log.read_text()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"the system is not ready after {READY_S:.0f} s: {text[-2000:]}")
        time.sleep(0.5)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print tables, write JSON."""
    parser = argparse.ArgumentParser(
        description="Measure what grows while four dataflows run, one of which writes files, and what it comes to in "
                    "a week: tables of the database, kinds of keys in the broker, folders of the state folder.")
    parser.add_argument("--minutes", type=positive, default=10.0)
    parser.add_argument("--rate", type=positive, default=50.0, help="events/s of the dataflow that writes files")
    parser.add_argument("--slots", type=int, default=2)
    parser.add_argument("--json", type=Path, default=Path("growth.json"))
    given = parser.parse_args(arguments)
    results = {"load_before": os.getloadavg()[0]}
    results |= run(minutes=given.minutes, rate_per_s=given.rate, slots=given.slots)
    results["load_after"] = os.getloadavg()[0]
    write(given.json, results)
    print(table([
        {**row, **{name: round(row[name], 2) for name in ("MB", "most MB", "MB in a week")}}
        for row in results["parts"] if row["MB"] >= 0.05 or row["MB in a week"] >= 0.5]))
    print("\n".join(f"{name}: {before} -> {after}" for name, (before, after) in results["counts"].items()))
    print(f"a plan, with its proposal, reviews and entries of the trail: {results['bytes_a_plan']} bytes")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
