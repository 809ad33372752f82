"""Measures what a handover costs on this machine: how long an output stands still, and how late its events come then.

    python -m workers.benches.handover [--between-nodes] [--repeats 6] [--warm-ups 0] [--rate 50] [--trigger 100]
        [--stateless | --state-mb 100] [--log FILE] [--json FILE]

A chain in two fragments on two slots is fused, moved to the other slot and cut, again and again, on a node of its own.
17 repeats are 51 handovers. With ``--between-nodes`` the chain, in one fragment, moves to another node and back: an
agent of its own on this machine. With ``--state-mb`` one of its tasks holds so much state, by key, from its first event
on.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import sys
import time
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import redis

from scheduler.model.dataflow import Task
from scheduler.model.estate import Estate
from scheduler.model.fragment import Fragment, RunningTask, Slot
from workers.engine import desired
from workers.engine.channels import codec, keys
from workers.engine.observed import read_reports
from workers.engine.settings import ROOT
from workers.library.registry import task_types
from workers.processes import spawn, stop

from .engine import Bench, _chain, _defaults, _until, bench
from .hoard import HOARD, offer_task_types

NODE, OTHER = "bench", "other"
FORMS = FUSED, MOVED, CUT = "fused", "moved", "cut"  # each from the one before
BETWEEN_NODES = THERE, BACK = "there", "back"
ALL = "all"
SETTLE_S = 5.0


class Chains:
    """An agent that runs one chain, in one fragment or in two."""

    forms: Sequence[str] = FORMS  # that follow each other; it begins with the last one
    slots: Sequence[Slot] = (Slot(NODE, 0), Slot(NODE, 1))
    out = "f1-1.1"  # where the output stays, whoever writes it

    def __init__(
        self, at: Bench, *, rate_per_s: float, trigger_ms: int, has_state: bool = True, state_mb: int = 0,
        log: Path | None = None,
    ) -> None:
        self._broker = redis.Redis.from_url(at.url)
        self._trigger_ms = trigger_ms
        chain = _every_event(_chain("state", rate_per_s), has_state=has_state, state_mb=state_mb)
        self.start_s = 60 + 5 * state_mb
        self._tasks = {
            task.id: RunningTask(task.id, task.type, task.config, (chain[n - 1].id,) if n else ())
            for n, task in enumerate(chain)
        }
        self._generation = 0
        self._inherits: tuple[str, ...] = ()
        paths = [str(ROOT), offer_task_types(at.folder / "types")]
        env = {"WEIR_SLOT_MEMORY_MB": str(max(1024, 20 * state_mb)), **os.environ, "REDIS_URL": at.url,
               "PYTHONPATH": os.pathsep.join(paths)}
        self._nodes = Counter(slot.node for slot in self.slots)
        self._agents = []
        with open(log or os.devnull, "ab") as output:
            for node, slots in self._nodes.items():
                argv = [sys.executable, "-m", "workers.engine.agents.node", "--node", node, "--slots", str(slots),
                        "--data-dir", str(at.folder / node)]
                self._agents.append(spawn(argv, env=env, stdout=output))

    def run(self, form: str) -> float:
        """Let the chain go on in this form; how long it took until it did, in seconds."""
        self._generation += 1
        fragments = {fragment.id: fragment for fragment in self._fragments(form, f"f{self._generation}")}
        estate = Estate(self._generation, self._tasks, fragments=fragments, slots=self.slots)
        began_s = time.monotonic()
        for node in self._nodes:
            desired.publish(self._broker, desired.desired_of(
                estate, node, {**task_types(), HOARD.name: HOARD}, self._trigger_ms))
        _until(lambda: self._is_done(fragments.keys()), within_s=600)
        self._inherits = tuple(sorted(fragments))
        return time.monotonic() - began_s

    def end(self) -> None:
        """End the agents."""
        for agent in self._agents:
            stop(agent, timeout_s=10)

    def _fragments(self, form: str, name: str) -> list[Fragment]:
        tasks, out = tuple(self._tasks), {"out": self.out}
        if form == CUT:
            return [
                Fragment(f"{name}-0", tasks[:2], f"{NODE}/0", 2, {tasks[1]: (f"{name}-1",)}, inherits=self._inherits),
                Fragment(f"{name}-1", tasks[2:], f"{NODE}/1", 2, channels=out, inherits=self._inherits),
            ]
        slot = f"{NODE}/{1 if form == MOVED else 0}"
        return [Fragment(f"{name}-0", tasks, slot, 4, channels=out, inherits=self._inherits)]

    def _is_done(self, fragments: Collection[str]) -> bool:
        """Whether these run, and nothing else does or has something left to do for them."""
        reports = read_reports(self._broker)
        running = {name for name, query in reports.queries() if query.state == "running"}
        leaving = {name for _, report in reports.items() for name in report.handing_over}
        return running == set(fragments) and not leaving

    def blocks(self) -> list[tuple[int, int]]:
        """When each block of the output was written, and how old its oldest event was then (ms)."""
        rows = []
        for _, fields in self._broker.xrange(keys.channel(self.out)):
            written_ms = int(fields[b"t"])
            rows.append((written_ms, written_ms - codec.block_rows(fields[b"b"])[0]["_born"]))
        return rows


class ChainsBetweenNodes(Chains):
    """Two agents, of which one or the other runs one chain in one fragment."""

    forms = BETWEEN_NODES
    slots = (Slot(NODE, 0), Slot(OTHER, 0))
    out = "f1-0.3"

    def _fragments(self, form: str, name: str) -> list[Fragment]:
        to, origin = (OTHER, NODE) if form == THERE else (NODE, OTHER)
        return [Fragment(
            f"{name}-0", tuple(self._tasks), f"{to}/0", 4, channels={"out": self.out}, inherits=self._inherits,
            origin=origin if self._inherits else "")]


def _every_event(chain: Sequence[Task], *, has_state: bool, state_mb: int) -> list[Task]:
    """The chain with a filter in the average's place, which gives an event for each; all of them are kept.

    Without state, a stage in Python that has none stands there; with much, one that has so much."""
    third = Task("average", "kalman_filter", _defaults("kalman_filter"))
    if state_mb:
        third = Task("average", HOARD.name, {"megabytes": state_mb})
    if not has_state:
        third = Task("average", "pi_viete", _defaults("pi_viete"))
    return [*chain[:2], third, Task("out", "output", {**chain[-1].config, "keep_events": 200_000})]


def measure(chains: Chains, *, repeats: int, warm_ups: int = 0) -> dict[str, Any]:
    """Bring the chain into each form so often; what the output shows of it.

    Parameters
    ----------
    chains : Chains
        What runs.
    repeats : int
        How often.
    warm_ups : int, optional
        How often before that, which is not measured: drivers compile what they do for the first times.

    Returns
    -------
    dict
        By form (and of all) and figure: median, the value that 95 of 100 do not exceed, worst, and how many there are.
    """
    results: dict[str, dict[str, list[float]]] = {form: {} for form in chains.forms}
    chains.run(chains.forms[-1])
    _until(chains.blocks, within_s=chains.start_s)
    time.sleep(2 * SETTLE_S)
    for form in [*chains.forms] * warm_ups:
        chains.run(form)
        time.sleep(SETTLE_S)
    for form in [*chains.forms] * repeats:
        quiet = chains.blocks()
        began_ms = time.time_ns() // 1_000_000
        took_s = chains.run(form)
        time.sleep(SETTLE_S)
        during = [quiet[-1], *(block for block in chains.blocks() if block[0] > quiet[-1][0])]
        lately = [age for written, age in quiet if began_ms - 10_000 < written < began_ms]
        usual_ms = statistics.median(lately or [quiet[-1][1]])
        stood_ms = max(later[0] - earlier[0] for earlier, later in itertools.pairwise(during))
        for name, value in (
            ("took_s", took_s),
            ("output_stood_still_s", stood_ms / 1000),
            ("latency_before_s", usual_ms / 1000),
            ("oldest_event_s", max(age for _, age in during) / 1000),
        ):
            results[form].setdefault(name, []).append(value)
            results.setdefault(ALL, {}).setdefault(name, []).append(value)
    return {form: {name: _summary(values) for name, values in figures.items()} for form, figures in results.items()}


def _summary(values: Sequence[float]) -> dict[str, float]:
    p95 = statistics.quantiles(values, n=20, method="inclusive")[-1] if len(values) > 1 else values[0]
    return {
        "median": round(statistics.median(values), 3), "p95": round(p95, 3), "worst": round(max(values), 3),
        "times": len(values)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Measure handovers on this machine.")
    parser.add_argument("--repeats", type=int, default=6)
    parser.add_argument(
        "--warm-ups", type=int, default=0, metavar="N", help="repeats before them that are not measured")
    parser.add_argument("--rate", type=float, default=50.0)
    parser.add_argument("--trigger", type=int, default=500, help="ms between batches")
    parser.add_argument("--between-nodes", action="store_true", help="the chain moves to another agent and back")
    sizes = parser.add_mutually_exclusive_group()
    sizes.add_argument("--stateless", action="store_true", help="no task has state")
    sizes.add_argument(
        "--state-mb", type=int, default=0, metavar="N", help="a task has state of N MB, by key, 1 kB each")
    parser.add_argument("--log", type=Path, help="what agent and slots log goes there")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments)
    load_before = os.getloadavg()
    with bench() as at:
        chains = (ChainsBetweenNodes if given.between_nodes else Chains)(
            at, rate_per_s=given.rate, trigger_ms=given.trigger, has_state=not given.stateless,
            state_mb=given.state_mb, log=given.log)
        try:
            results = measure(chains, repeats=given.repeats, warm_ups=given.warm_ups)
        finally:
            chains.end()
    results |= {"state_mb": given.state_mb, "between_nodes": given.between_nodes}
    results["load_average"] = {"before": load_before[0], "after": os.getloadavg()[0]}
    print(json.dumps(results, indent=2))
    if given.json:
        given.json.write_text(json.dumps(results, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
