"""`./weir bench health`: after how many seconds it is said that a driver died, or does not answer.

An estate with one slot and some dataflows of its own. The slot's process is killed (SIGKILL), or the JVM of its driver
is frozen (SIGSTOP), and what the site says of the estate's health is read ten times a second until it names the slot or
one of its queries. A page is told by the site's next look, half a second later at most.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import psutil

from scheduler.contracts.reports import Reports
from scheduler.model.estate import Estate
from tests.benches import results
from tests.benches.arguments import count
from tests.benches.estate import NODE, RunningEstate, running
from tests.benches.recovery import estate_of
from workers.engine import observed

from .planning_workload import temporary_database

if TYPE_CHECKING:
    from dashboard.operations.live_view.findings import Finding

KILLED, FROZEN = "killed", "frozen"
SLOT = f"{NODE}/0"
LOOK_S = 0.1
TOLD_WITHIN_S = 60.0
WELL_WITHIN_S = 240.0
LIMIT_S = 3.0


@dataclass(frozen=True, slots=True)
class Outage:
    """One outage: how it was made, what was said first and after how long, and after how long all was well again."""

    how: str
    told_s: float
    part: str
    state: str
    cause: str
    well_s: float


def findings_of(estate: Estate, reports: Reports) -> list[Finding]:
    """What the site finds wrong with the slots and queries of an estate."""
    from dashboard import jobs  # here: Django is set up by the command, not by whoever imports this module
    from dashboard.operations.diagnosis import health
    from dashboard.operations.live_view.estate_view import View

    reading = jobs.LiveReading(reports=reports)
    view = View(estate=estate, observed=lambda: reading, records={}, tasks=frozenset(estate.tasks))
    return [finding for finding in health.findings(view) if finding.part in ("node", "slot", "query")]


def measure(folder: Path, hows: Sequence[str], *, dataflows: int = 3, rate_per_s: float = 50.0) -> list[Outage]:
    """Make these outages, one after the other, each when all is well.

    Parameters
    ----------
    folder : Path
        A data folder for the estate.
    hows : sequence of str
        ``killed`` or ``frozen``.
    dataflows : int, optional
        How many queries the slot runs.
    rate_per_s : float, optional
        Events/s of each.
    """
    settings = {"WEIR_SPARES": "0", "WEIR_CLASS_ARCHIVE": "0"}
    with running(estate_of(dataflows, rate_per_s), folder, trigger_ms=500, settings=settings) as estate:
        return [_outage(estate, how) for how in hows]


def _outage(estate: RunningEstate, how: str) -> Outage:
    _until(estate, lambda wrong: not wrong, WELL_WITHIN_S)
    pid = _pid(estate)
    began_s = time.monotonic()
    if how == KILLED:
        os.kill(pid, signal.SIGKILL)
    else:
        _jvm(pid).suspend()
    first = _until(estate, lambda wrong: bool(wrong), TOLD_WITHIN_S)[0]
    told_s = time.monotonic() - began_s
    _until(estate, lambda wrong: not wrong and _pid(estate) not in (None, pid), WELL_WITHIN_S)
    return Outage(how, told_s, first.part, first.state, first.cause, time.monotonic() - began_s)


def _until(estate: RunningEstate, holds: Callable[[list[Finding]], bool], within_s: float) -> list[Finding]:
    """The findings, once they are so."""
    deadline_s = time.monotonic() + within_s
    while True:
        wrong = findings_of(estate.estate, observed.read_reports(estate.client))
        if holds(wrong):
            return wrong
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"not within {within_s:g} s; what is wrong: {wrong}")
        time.sleep(LOOK_S)


def _pid(estate: RunningEstate) -> int | None:
    slot = observed.read_reports(estate.client).slot(SLOT)
    return slot.pid if slot is not None else None


def _jvm(pid: int) -> psutil.Process:
    for process in psutil.Process(pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if process.name() == "java":
                return process
    raise RuntimeError(f"the slot's process {pid} has no JVM")


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print the table, write JSON; fails where something is said after three seconds or more."""
    parser = argparse.ArgumentParser(prog="weir bench health", description=__doc__)
    parser.add_argument("--times", type=count, default=3, help="how often a driver is killed, and one frozen")
    parser.add_argument("--only", choices=(KILLED, FROZEN), help="one of the two")
    parser.add_argument("--out", type=Path, default=Path("bench-results/health.json"))
    given = parser.parse_args(argv)
    hows = [how for how in (KILLED, FROZEN) if given.only in (None, how)]
    load_before = os.getloadavg()[0]
    with TemporaryDirectory(prefix="weir-health-") as folder, temporary_database(Path(folder)):
        outages = measure(Path(folder) / "data", hows * given.times)
    rows = [_row(how, [outage for outage in outages if outage.how == how]) for how in hows]
    print(results.table(rows))
    results.write(given.out, {
        "bench": "health", "machine": results.machine(), "load": [load_before, os.getloadavg()[0]], "rows": rows})
    return 0 if max(outage.told_s for outage in outages) < LIMIT_S else 1


def _row(how: str, outages: Sequence[Outage]) -> dict[str, Any]:
    return {
        "a driver is": how, "times": len(outages),
        "told after s": round(statistics.median(outage.told_s for outage in outages), 2),
        "worst s": round(max(outage.told_s for outage in outages), 2),
        "as": ", ".join(sorted({f"{outage.part} {outage.state}" for outage in outages})),
        "all well after s": round(statistics.median(outage.well_s for outage in outages), 1)}
