"""`./weir bench profiles`: measures task types on a slot of this machine, without the site: table, CSV and JSON.

A broker and a node agent of its own with one slot, which trials hold to a core; Algorithm 1 of paper [2] asks for
trials until it has the profile. With ``--repeat`` each type is measured several times, and the spread of its peaks is
told.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import redis

from scheduler.contracts.trials import SECONDS, WARM_UP_S, TrialOrder, TrialResult
from scheduler.model.canonical import canonical_config, canonical_json
from scheduler.model.estate import Estate
from scheduler.model.fragment import Slot
from scheduler.model.profile import Profile
from scheduler.model.profile_csv import ProfileEntry, write_entries
from scheduler.performance.modelling import Sweep, SweepResult, Trial, Try, measured_profile, next_step
from scheduler.performance.sweep import often
from workers.engine import trial_store
from workers.engine.worker_settings import from_environment
from workers.library.registry import task_types

from . import results
from .arguments import count, positive
from .estate import NODE, running

# Short names of what is worth measuring on any machine: work for the CPU alone, and none but waiting.
KNOWN: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "pi": ("pi_viete", {"iterations": 20_000}), "wait": ("wait", {"pause": 50}),
}
FEED = ({"type": "urban_sensing", "config": {"rate_per_s": 100.0, "seed": 1}},)
SILENT_S = 180.0
TRIES = 3


class NotMeasured(RuntimeError):
    """A trial gave no figures."""


@dataclass(frozen=True)
class SweepTarget:
    """A task to measure, and the chain of tasks whose events it gets."""

    name: str
    task_type: str
    config: Mapping[str, Any]
    feed: tuple[Mapping[str, Any], ...] = FEED


@dataclass(frozen=True)
class Measured:
    """A finished sweep: what it found, why it ended, and the trials that it rests on."""

    target: SweepTarget
    done: SweepResult
    results: tuple[TrialResult, ...]
    took_s: float

    def profile(self) -> Profile:
        """The profile; ``RateNotHeld`` where no trial was stable."""
        task_type = task_types()[self.target.task_type]
        return measured_profile(
            self.done, task_type=task_type.name, version=task_type.version,
            machine=str(self.results[-1].machine["class"]), code=str(self.results[-1].versions.get("code", "")),
            config=canonical_json(canonical_config(task_type, self.target.config)))


def sweep(
    target: SweepTarget, bounds: Sweep, run: Callable[[TrialOrder], TrialResult], *, warm_up_s: float, seconds: float,
    say: Callable[[str], None] = print, pause: Callable[[float], None] = time.sleep,
) -> Measured:
    """Ask for trials until the profile is there or the budget is spent.

    Parameters
    ----------
    target : SweepTarget
        What is measured.
    bounds : Sweep
        The bounds of the sweep.
    run : Callable[[TrialOrder], TrialResult]
        Runs one trial.
    warm_up_s : float
        Seconds of each trial before it is measured.
    seconds : float
        Seconds of a trial.
    say : Callable[[str], None], optional
        Told of each step.
    pause : Callable[[float], None], optional
        Waits between two trials.
    """
    results_found: list[TrialResult] = []
    began = time.monotonic()
    while isinstance(step := next_step(map(trial_of, results_found), sweep=bounds), Try):
        order = TrialOrder(
            uuid.uuid4().hex, NODE, "0", target.task_type, target.config, step.threads, step.rate_per_s,
            warm_up_s=warm_up_s, seconds=seconds, feed=target.feed)
        pause(step.after_s)
        results_found.append(run(order))
        say(_line(results_found[-1], step, bounds))
    return Measured(target, step, tuple(results_found), time.monotonic() - began)


def trial_of(result: TrialResult) -> Trial:
    """A result as Algorithm 1 takes it."""
    return Trial(
        result.threads, result.rate_per_s, result.cpu, result.memory, result.latency_slope, result.took_s,
        achieved_per_s=result.achieved_per_s, idle_cpu=result.idle_cpu, idle_memory=result.idle_memory,
        # What is held back on purpose, or was not told, says nothing of what could be fed.
        offered_per_s=None if result.held_back or not result.offered_per_s else result.offered_per_s,
        often=often(result.batches_per_s, trigger_ms=result.machine.get("trigger_ms")),
        speed=result.machine.get("speed"))


def ordered(broker: redis.Redis, order: TrialOrder) -> TrialResult:
    """What comes of an order; it is given again where what hindered it may pass.

    Raises
    ------
    NotMeasured
        The trial failed, or nothing was heard of it.
    """
    why = ""
    for attempt in range(TRIES):
        again = replace(order, id=f"{order.id}-{attempt}")
        trial_store.order(broker, again)
        heard = time.monotonic()
        while (result := trial_store.result(broker, again.id)) is None and time.monotonic() - heard < SILENT_S:
            if trial_store.progress(broker, again.id) is not None:
                heard = time.monotonic()
            time.sleep(0.05)
        if result is not None and result.ok:
            return result
        trial_store.cancel(broker, again.id)
        why = "nothing was heard of it" if result is None else f"{result.message}. {result.remedy}"
        if result is not None and not result.passing:
            break
    raise NotMeasured(f"A trial of {order.task_type} with {order.threads} threads gave no figures: {why}")


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, write."""
    options = _parser().parse_args(argv)
    bounds = replace(
        Sweep(), largest_threads=options.threads, budget_s=60 * options.minutes,
        smallest_rate_per_s=options.from_rate)
    targets = [_target(name, options.config, options.feed) for name in options.type]
    estate = Estate(slots=(Slot(NODE, 0),))
    measured: list[Measured] = []
    with (
        tempfile.TemporaryDirectory(prefix="weir-bench-") as folder,
        running(estate, Path(folder), trigger_ms=from_environment().trigger_ms) as around,
    ):
        around.wait_slots()
        for target in targets:
            for number in range(options.repeat):
                print(f"{target.name}, sweep {number + 1} of {options.repeat}:", flush=True)
                measured.append(sweep(
                    target, bounds, lambda order: ordered(around.client, order), warm_up_s=options.warm_up,
                    seconds=options.seconds, say=lambda line: print(line, flush=True)))
                print(f"  {measured[-1].done.why} {len(measured[-1].results)} trials, {measured[-1].took_s:.0f} s\n")
    print(results.table([row for number, measured in enumerate(measured, 1) for row in _rows(number, measured)]))
    if options.repeat > 1:
        print("", results.table(_spreads(measured)), sep="\n")
    _write(options.out, measured)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="weir bench profiles", description=__doc__)
    parser.add_argument("--type", nargs="+", default=["pi", "wait"],
                        help="task types, or pi and wait for two that need nothing else")
    parser.add_argument("--config", type=json.loads, default={}, help="JSON, over the type's defaults")
    parser.add_argument("--feed", type=json.loads, default=list(FEED),
                        help='JSON list of the tasks upstream, source first: [{"type": …, "config": …}]')
    parser.add_argument("--threads", type=count, default=64, help="at most")
    parser.add_argument("--from-rate", type=positive, default=1.0, help="events/s of the first trial")
    parser.add_argument("--minutes", type=positive, default=15.0, help="budget of a sweep")
    parser.add_argument("--warm-up", type=float, default=WARM_UP_S, help="s of each trial")
    parser.add_argument("--seconds", type=positive, default=SECONDS, help="measured of each trial")
    parser.add_argument("--repeat", type=count, default=1)
    parser.add_argument("--out", type=Path, default=Path("bench-results/profiles"), help="without .json and .csv")
    return parser


def _target(name: str, config: Mapping[str, Any], feed: Sequence[Mapping[str, Any]]) -> SweepTarget:
    task_type, defaults = KNOWN.get(name, (name, {}))
    if task_type not in task_types():
        raise SystemExit(f"There is no task type {task_type}. Known: {', '.join(sorted(task_types()))}.")
    is_source = task_types()[task_type].kind == "source"
    return SweepTarget(name, task_type, {**defaults, **config}, () if is_source else tuple(feed))


def _line(result: TrialResult, step: Try, bounds: Sweep) -> str:
    return (
        f"  {step.threads:3} threads {step.rate_per_s:9.4g}/s  "
        f"{'stable    ' if bounds.stable(trial_of(result)) else 'not stable'} {result.achieved_per_s:9.4g}/s  "
        f"latency {result.latency_slope:+.3f} s/s, p50 {result.latency_s.get('p50', 0):.2f} s  "
        f"CPU {result.cpu:4.0%}  memory {result.memory:.2%}  {result.took_s:4.1f} s  load {result.machine['load']}  "
        f"({step.why})"
    )


def _rows(number: int, measured: Measured) -> list[dict[str, Any]]:
    return [
        {"task": measured.target.name, "sweep": number, "threads": point.threads, "peak/s": point.rate_per_s,
         "CPU %": 100 * point.cpu, "memory %": 100 * point.memory, "idle CPU %": 100 * point.idle_cpu,
         "idle memory %": 100 * point.idle_memory, "rough": "rough" if point.threads in measured.done.rough else ""}
        for point in measured.done.points
    ]


def _spreads(all_measured: Sequence[Measured]) -> list[dict[str, Any]]:
    """Of each task and thread count that was measured more than once, how far its peaks lie apart."""
    peaks: dict[tuple[str, int], list[float]] = {}
    for measured in all_measured:
        for point in measured.done.points:
            peaks.setdefault((measured.target.name, point.threads), []).append(point.rate_per_s)
    return [
        {"task": name, "threads": threads, "sweeps": len(rates), "least/s": min(rates), "most/s": max(rates),
         "apart %": 100 * (max(rates) - min(rates)) / results.mean(rates)}
        for (name, threads), rates in peaks.items() if len(rates) > 1
    ]


def _write(out: Path, all_measured: Sequence[Measured]) -> None:
    with_points = [measured for measured in all_measured if measured.done.points]
    out.parent.mkdir(parents=True, exist_ok=True)
    entries = [
        ProfileEntry(measured.profile(), measured.done.rough, measured.done.at_least) for measured in with_points]
    out.with_suffix(".csv").write_text(write_entries(entries), encoding="utf-8")
    results.write(
        out.with_suffix(".json"),
        {
            "machine": results.machine(),
            "load": os.getloadavg()[0],
            "sweeps": [
                {
                    "task": measured.target.name,
                    "type": measured.target.task_type,
                    "config": dict(measured.target.config),
                    "feed": list(measured.target.feed),
                    "why": measured.done.why,
                    "rough": list(measured.done.rough),
                    "took_s": measured.took_s,
                    "points": [asdict(point) for point in measured.done.points],
                    "trials": [asdict(trial) for trial in measured.results],
                }
                for measured in all_measured
            ],
        },
    )
    print(f"\nWritten to {out.with_suffix('.csv')} and {out.with_suffix('.json')}.")
