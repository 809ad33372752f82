"""Measures how soon events flow again after a slot's driver was killed, with a spare driver and without.

    python -m tests.benches.recovery [--kills 20] [--dataflows 3] [--rate 50] [--only spare|none] [--json FILE]

An agent of its own runs some chains with state on one slot. Its driver is killed again and again, each time after all
of them have flowed for a while. A dataflow is back when its output has let an event pass. An agent waits longer before
each new start of a driver that dies again and again; that wait, which only the many kills cause, is told apart.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from scheduler.contracts.offsets import START, Offset
from scheduler.contracts.reports import SlotReport
from scheduler.model.estate import Estate
from scheduler.model.fragment import Fragment, RunningTask, Slot
from workers.engine import observed
from workers.engine.worker_settings import ROOT

from .engine import _chain, cpu_s
from .estate import NODE, RunningEstate, running
from .results import machine, table

SETTLE_S = 8.0  # flowing, before the next kill
LOOK_S = 0.02
PIN = "never"  # as where an installation has a slot for each core: one slot alone would be held to one core
PATIENCE_S = 240.0
PHASES = ("died", "started", "session", "queries", "flowing")


@dataclass
class Kill:
    """One kill: seconds until each dataflow's output had a block again, and until each phase was over; and the CPU that
    the driver took which came in the dead one's place, from then on until all flowed."""

    back_s: dict[str, float] = field(default_factory=dict)
    phases_s: dict[str, float] = field(default_factory=dict)
    cpu_s: float = 0.0

    @property
    def waited_s(self) -> float:
        """How long the agent waited with the new start, for earlier deaths."""
        return max(0.0, self.phases_s.get("started", 0.0) - self.phases_s.get("died", 0.0))

    def without_wait(self) -> Kill:
        """The same kill as the first death would have been."""
        later = {phase: round(time_s - self.waited_s, 2) for phase, time_s in self.phases_s.items() if phase != "died"}
        return Kill({name: time_s - self.waited_s for name, time_s in self.back_s.items()},
                    {**self.phases_s, **later}, self.cpu_s)


def estate_of(dataflows: int, rate_per_s: float) -> Estate:
    """So many chains of four tasks, one of them with state, each a query of its own on one slot."""
    tasks, fragments = {}, {}
    for number in range(dataflows):
        names = []
        for position, task in enumerate(_chain("state", rate_per_s, seed=number + 1)):
            name = f"{task.id}{number}"
            config = {**task.config, "name": f"out{number}"} if task.type == "output" else task.config
            tasks[name] = RunningTask(name, task.type, config, (names[-1],) if position else ())
            names.append(name)
        fragments[f"f{number}-0"] = Fragment(f"f{number}-0", tuple(names), f"{NODE}/0", len(names))
    return Estate(1, tasks, fragments=fragments, slots=(Slot(NODE, 0),))


def measure(*, kills: int, dataflows: int, rate_per_s: float, trigger_ms: int, spare: bool) -> Iterator[Kill]:
    """Kill a driver so often and look how soon what it ran is back; each kill as it was measured.

    Parameters
    ----------
    kills : int
        How often.
    dataflows : int
        How many run on the slot.
    rate_per_s : float
        Events/s of each.
    trigger_ms : int
        Milliseconds between two micro-batches.
    spare : bool
        Whether the agent keeps a spare driver.
    """
    with tempfile.TemporaryDirectory(prefix="weir-recovery-") as name:
        folder = Path(name)
        settings = {"WEIR_SPARES": "1" if spare else "0", "WEIR_CLASS_ARCHIVE": "0", "WEIR_PIN": PIN}
        with running(estate_of(dataflows, rate_per_s), folder, trigger_ms=trigger_ms, settings=settings) as estate:
            _archive_classes(folder, estate.url)
            estate.wait_running()
            for _ in range(kills):
                yield _kill(estate, folder / "agent.log", spare=spare)


def summary(kills: Sequence[Kill]) -> dict[str, Any]:
    """Medians over all kills: until the last dataflow flowed, and until each phase was over, each without the wait for
    earlier deaths; and the longest such wait."""
    longest_wait_s = max(kill.waited_s for kill in kills)
    kills = [kill.without_wait() for kill in kills]
    last = [max(kill.back_s.values()) for kill in kills]
    phases = {
        phase: round(statistics.median(values), 2) for phase in PHASES
        if (values := [kill.phases_s[phase] for kill in kills if phase in kill.phases_s])}
    return {
        "kills": len(kills), "median_s": round(statistics.median(last), 2), "worst_s": round(max(last), 2),
        "first_dataflow_median_s": round(statistics.median(min(kill.back_s.values()) for kill in kills), 2),
        "cpu_median_s": round(statistics.median(kill.cpu_s for kill in kills), 2), "phases_median_s": phases,
        "longest_wait_s": round(longest_wait_s, 2)}


def _kill(estate: RunningEstate, log: Path, *, spare: bool) -> Kill:
    _settle(estate, spare=spare)
    position = len(next(iter(estate.estate.fragments.values())).tasks) - 1
    read_from = log.stat().st_size
    pid = _slot(estate).pid
    os.kill(pid, signal.SIGKILL)
    began_s, began = time.monotonic(), time.time()
    kill, before = Kill(), _outputs(estate, position)
    is_gone, cpu_before_s = False, 0.0
    while len(kill.back_s) < len(before):
        if time.monotonic() - began_s > PATIENCE_S:
            raise TimeoutError(f"only {sorted(kill.back_s)} flow again after {PATIENCE_S:.0f} s; see {log}")
        time.sleep(LOOK_S)
        counts = _outputs(estate, position)
        if not is_gone:  # its JVM may have ended a batch meanwhile; the agent says that it is gone when all of it is
            before, new_pid = counts, _slot(estate).pid
            is_gone = new_pid not in (None, pid)
            cpu_before_s = cpu_s(new_pid) if is_gone else 0.0
            continue
        for name, count in counts.items():
            if count > before[name] and name not in kill.back_s:
                kill.back_s[name] = time.monotonic() - began_s
    kill.cpu_s = cpu_s(_slot(estate).pid) - cpu_before_s
    kill.phases_s = {**_phases(log, read_from, began), "flowing": max(kill.back_s.values())}
    return kill


def _archive_classes(folder: Path, url: str) -> None:
    """As an installation has it that runs for some minutes; between two kills there is no time to write it."""
    subprocess.run(
        [sys.executable, "-m", "workers.engine.spark.class_archive", "--data-dir", str(folder)], check=True, cwd=ROOT,
        env={**os.environ, "REDIS_URL": url}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _settle(estate: RunningEstate, *, spare: bool) -> None:
    """Wait until every dataflow has flowed for a while, and a spare is ready where there is to be one."""
    def is_ready() -> bool:
        node = observed.read_reports(estate.client).node(NODE)
        return not spare or bool(node and node.spare and node.spare.state == "ready")

    estate.wait_running()
    estate.wait(is_ready, what="a spare is ready", within_s=PATIENCE_S)
    time.sleep(SETTLE_S)


def _slot(estate: RunningEstate) -> SlotReport:
    return observed.read_reports(estate.client).slot(f"{NODE}/0") or SlotReport()


def _outputs(estate: RunningEstate, position: int) -> dict[str, Offset]:
    """The newest block of each output: meters tell of it a second later."""
    channels = [f"{name}.{position}" for name in estate.estate.fragments]
    infos, _ = estate.channels.look(channels)
    return {
        name: infos[channel].last if channel in infos else START
        for name, channel in zip(estate.estate.fragments, channels, strict=True)}


def _phases(log: Path, read_from: int, began: float) -> dict[str, float]:
    """When the agent's log says that each phase was over; of queries, the last that started.

    A session is that of the slot; the next spare opens its own later.
    """
    named = {"slot died": "died", "slot started": "started", "session open": "session", "fragment started": "queries"}
    phases: dict[str, float] = {}
    with log.open("rb") as file:
        file.seek(read_from)
        for line in file:
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            phase = named.get(entry.get("event"))
            if phase is not None and entry.get("slot") == "0" and (phase == "queries" or phase not in phases):
                at = datetime.fromisoformat(entry["timestamp"]).timestamp()
                phases[phase] = round(at - began, 2)
    return phases


def _measured(given: argparse.Namespace, *, spare: bool) -> list[Kill]:
    """All kills, or those before somebody pressed Ctrl-C."""
    kills: list[Kill] = []
    with suppress(KeyboardInterrupt):
        for kill in measure(kills=given.kills, dataflows=given.dataflows, rate_per_s=given.rate,
                            trigger_ms=given.trigger_ms, spare=spare):
            kills.append(kill)
            print(f"{'with a spare' if spare else 'without a spare'}, kill {len(kills)} of {given.kills}: "
                  f"all flow after {max(kill.back_s.values()):.1f} s, of which the agent waited "
                  f"{kill.waited_s:.1f} s for earlier deaths", file=sys.stderr, flush=True)
    return kills


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print a table, write JSON."""
    parser = argparse.ArgumentParser(description="Measure how soon events flow again after a driver died.")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--dataflows", type=int, default=3)
    parser.add_argument("--rate", type=float, default=50.0)
    parser.add_argument("--trigger-ms", type=int, default=500)
    parser.add_argument("--only", choices=("spare", "none"), help="one of the two")
    parser.add_argument("--json", type=Path, default=Path("recovery.json"))
    given = parser.parse_args(arguments)
    results: dict[str, Any] = {"machine": machine(), "load_before": os.getloadavg()[0]}
    for which in ("none", "spare"):
        if given.only in (None, which) and (kills := _measured(given, spare=which == "spare")):
            results[which] = summary(kills)
    results["load_after"] = os.getloadavg()[0]
    print(table([
        {"spare": "one" if which == "spare" else "none", "kills": row["kills"], "median s": row["median_s"],
         "worst s": row["worst_s"], "first dataflow s": row["first_dataflow_median_s"],
         "CPU s": row["cpu_median_s"],
         **{f"{phase} s": row["phases_median_s"].get(phase) for phase in PHASES}}
        for which, row in results.items() if which in ("none", "spare")]))
    given.json.write_text(json.dumps(results, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
