"""`./weir bench prices`: what plans say that dataflows take, against what these are measured to take ten minutes later.

One slot runs all of them until its driver has warmed up. Then two at a time are taken away, and what the slot takes for
the rest is measured, down to nothing; and once more in the reverse order, so that each dataflow is missing in as many
windows. Only slots with few and with many queries tell apart what a driver, a query, a task and an event take. And only
queries that have run for minutes are measured, as on a site.

Then all are approved at once. Each is estimated with the costs that are fitted to the windows *without* it, as a plan
for one of a new kind would be. Ten minutes later its estimate is held to what was metered of it meanwhile, as its page
would tell it. What was not metered for long enough is held to nothing. The bench ends within half an hour, and fails
where fewer than nine of ten estimates are within 30%.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import psutil

from scheduler.applying import apply_plan
from scheduler.model.cost_figures import ESTIMATED, CostFigure, CostMeter, total_cost
from scheduler.model.costs import DECLARED, Costs
from scheduler.model.dataflow import Dataflow
from scheduler.model.documents import read_document
from scheduler.model.estate import Estate
from scheduler.model.fragment import Slot
from scheduler.model.prices import Prices
from scheduler.performance.alternates_at_work import LEAST_METERED_S
from scheduler.performance.attribution import Counters, attribute, grown, query_work
from scheduler.performance.cost_model import QuerySeen, SlotSeen, expected_cores, fit_costs
from scheduler.performance.running_costs import metered, running_costs
from scheduler.planning import plan_removal, plan_submission
from workers.engine.counters import read_counters
from workers.engine.measuring.load import Compilers
from workers.engine.measuring.machine_class import machine_class
from workers.library.registry import task_types

from . import results
from .arguments import count, positive
from .estate import NODE, RunningEstate, running

SLOT = f"{NODE}/0"
CHAIN = """
name: chain-of-five
tasks:
  - {id: stations, type: urban_sensing, config: {sensors: 20}}
  - {id: parse, type: senml_parse, config: {schema: urban}}
  - {id: in_range, type: range_filter, config: {ranges: {temperature: [-10, 40]}}}
  - {id: smooth, type: kalman_filter}
  - {id: out, type: output, config: {name: smoothed}}
streams:
  - {from: stations, to: parse}
  - {from: parse, to: in_range}
  - {from: in_range, to: smooth}
  - {from: smooth, to: out}
rates: {stations: 10}
"""
PAIR = """
name: two-tasks
tasks:
  - {id: meters, type: smart_meter, config: {sensors: 20}}
  - {id: out, type: output, config: {name: meters}}
streams: [{from: meters, to: out}]
rates: {meters: 10}
"""
SAMPLES = (
    "urban_variability", "wearable_motion", "meter_forecast", "urban_clean_averages", "taxi_stats", "urban_stats",
    "urban_etl", "urban_hot_minutes")
LATER_S = 600.0
READ_EVERY_S = 15.0
SETTLED_S = 180.0  # from then on a query is measured and its tasks are metered, as on a site
AFTER_REMOVAL_S = 5.0
TOGETHER = 2  # dataflows that are taken away at a time
GOAL, OF_ALL = 0.3, 0.9  # how far an estimate may be off, for so large a part of them


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print the tables, write JSON; or fit anew to what a file keeps."""
    parser = argparse.ArgumentParser(prog="weir bench prices", description=__doc__)
    parser.add_argument("--dataflows", nargs="+", metavar="NAME", choices=sorted(dataflows()),
                        default=list(dataflows()), help=f"some of {', '.join(dataflows())}")
    parser.add_argument("--warm-up", type=positive, default=240.0, help="seconds in which all run together")
    parser.add_argument("--settle", type=positive, default=SETTLED_S, help="seconds that new queries run unmeasured")
    parser.add_argument("--seconds", type=positive, default=40.0, help="that each window lasts")
    parser.add_argument("--later", type=float, default=LATER_S, metavar="SECONDS",
                        help="after which estimates are held to what was metered; 0 leaves that out")
    parser.add_argument("--trigger-ms", type=count, default=2000, help="between two batches of a query")
    parser.add_argument("--again", type=Path, metavar="FILE", help="measure nothing: fit anew to what FILE keeps")
    parser.add_argument("--out", type=Path, default=Path("bench-results/prices.json"))
    given = parser.parse_args(argv)
    measured = _content_of(given.again) if given.again else measure(given)
    windows = measured["windows"]
    fitted = fit_costs(_lasting(windows), task_types=task_types(), machine=machine_class(1))
    rows = [_row(window, fitted or DECLARED) for window in windows]
    print(results.table(rows))
    for name in ("declared", "fitted"):
        off = [abs(row[name] / row["measured"] - 1) for row in rows if row["queries"]]
        if off:
            print(f"{name}: off by {100 * sum(off) / len(off):.0f}% in the mean, {100 * max(off):.0f}% at worst")
    if fitted is not None:
        print(f"A query {1000 * fitted.query_batch_s:.1f} ms a batch, a slot {fitted.slot_cores:.4f} cores, what is "
              f"declared {fitted.scale:.2f} times; ± {fitted.error:.0%}")
        for name, batch_s in fitted.batch_s.items():
            print(f"  {name}: {1000 * batch_s:.1f} ms a batch, {fitted.event_us[name]:.0f} µs an event")
    later = beside_estimates(measured)
    is_met = _print_later(later)
    results.write(given.out, {
        "bench": "prices", "machine": results.machine(), **measured, "later": later, "rows": rows,
        "fitted": None if fitted is None else _as_object(fitted)})
    return 0 if is_met else 1


def dataflows() -> dict[str, Dataflow]:
    """What is measured, by name: two small ones, and samples of the library."""
    folder = resources.files("workers.library").joinpath("samples")
    texts = {"two-tasks": PAIR, "chain-of-five": CHAIN} | {
        name: folder.joinpath(f"{name}.yaml").read_text(encoding="utf-8") for name in SAMPLES}
    return {name: read_document(text, task_types=task_types()) for name, text in texts.items()}


def windows_of(names: Sequence[str]) -> list[tuple[str, ...]]:
    """Which dataflows run in each window: fewer and fewer, down to none; then the others of them, down to few.

    Within both halves dataflows are only taken away, so that the queries of the rest go on.
    """
    mixed = [*names[::2], *names[1::2]]  # so that two which are alike are seldom taken away at once
    ends = range(TOGETHER, len(mixed) + TOGETHER, TOGETHER)
    return [tuple(mixed[end:]) for end in ends] + [tuple(mixed[:-end]) for end in ends if end < len(mixed)]


def measure(given: argparse.Namespace) -> dict[str, Any]:
    """What the slot took in each window, and what was metered of each dataflow after all were approved together."""
    chosen = {name: dataflow for name, dataflow in dataflows().items() if name in given.dataflows}
    with tempfile.TemporaryDirectory(prefix="weir-prices-") as folder:
        estate = _changed(Estate(slots=(Slot(NODE, 0),)), chosen, chosen, given.trigger_ms)
        with running(estate, Path(folder), trigger_ms=given.trigger_ms) as runs:
            runs.wait_running(within_s=400)
            print(f"{len(chosen)} dataflows run together for {given.warm_up:g} s …", flush=True)
            time.sleep(given.warm_up)
            windows = []
            for names in windows_of(list(chosen)):
                has_new = not set(names) <= runs.estate.submitted.keys()
                runs.enact(_changed(runs.estate, names, chosen, given.trigger_ms), within_s=400)
                time.sleep(given.settle if has_new else AFTER_REMOVAL_S)
                windows.append({"dataflows": list(names), **_window(runs, given.seconds)})
                print(f"{', '.join(names) or 'nothing'}: {windows[-1]['cores']:.3f} cores", flush=True)
            return {
                "trigger_ms": given.trigger_ms, "windows": windows,
                "later": _approve_together(runs, chosen, given) if given.later else []}


def _approve_together(
    runs: RunningEstate, chosen: Mapping[str, Dataflow], given: argparse.Namespace
) -> list[dict[str, Any]]:
    """Start all at once; what was metered of each until later."""
    estate = _changed(_changed(runs.estate, (), chosen, given.trigger_ms), chosen, chosen, given.trigger_ms)
    runs.enact(estate, within_s=400)
    print(f"{len(chosen)} dataflows are approved; what they cost is looked at {given.later:g} s later …", flush=True)
    meters, compilers = _metered(runs, given.later)
    prices = Prices(trigger_ms=given.trigger_ms, meters=meters)
    figures = {name: _cost(estate, name, prices) for name in chosen}
    return [{"dataflow": name, "measured": round(figure.cores, 4), "rests on": figure.basis,
             "compilers of all": compilers} for name, figure in figures.items()]


def beside_estimates(measured: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What was metered of each dataflow later, beside what it was estimated at: with declared costs, and with those
    that are fitted to the windows without it."""
    chosen = {entry["dataflow"]: dataflows()[entry["dataflow"]] for entry in measured["later"]}
    estate = _changed(Estate(slots=(Slot(NODE, 0),)), chosen, chosen, measured["trigger_ms"])
    rows = []
    for entry in measured["later"]:
        name = entry["dataflow"]
        others = [window for window in measured["windows"] if name not in window["dataflows"]]
        costs = fit_costs(_lasting(others), task_types=task_types()) or DECLARED
        # The driver is one for all of them: each is priced with its part of that, as the site learns it.
        estimate, declared = (
            _cost(estate, name, Prices(trigger_ms=measured["trigger_ms"], costs=replace(
                assumed, fixed_cores=assumed.slot_cores / len(estate.fragments)))) for assumed in (costs, DECLARED))
        rows.append({
            "dataflow": name, "declared": round(declared.cores, 4), "estimated": round(estimate.cores, 4),
            "low": round(estimate.low, 4), "high": round(estimate.high, 4),
            **{key: entry[key] for key in ("measured", "rests on", "compilers of all")}})
    return rows


def _metered(runs: RunningEstate, seconds: float) -> tuple[dict[str, CostMeter], float]:
    """Meters of all tasks after so many seconds; and CPU cores of the compilers, while they were metered."""
    types, meters, begin_s = task_types(), dict[str, CostMeter](), time.monotonic()
    while time.monotonic() < begin_s + min(SETTLED_S, seconds / 2):
        time.sleep(1.0)
    compiling_s = _compiling_s(runs)
    before, at_s = _counters(runs)
    first_s = at_s
    while time.monotonic() < begin_s + seconds:
        time.sleep(READ_EVERY_S)
        after, now_s = _counters(runs)
        growth = grown({SLOT: before}, {SLOT: after})[SLOT]
        work = [
            query_work(growth.queries[name], [
                (task, types[runs.estate.tasks[task].type].cost_us, fragment.channel_of(task))
                for task in fragment.active_tasks])
            for name, fragment in runs.queries().items()]
        for task, used in attribute(cpu_us=1000 * growth.cpu_ms, memory_mb_s=0, queries=work).items():
            meters[task] = metered(
                meters.get(task), cores=used.cpu_us / 1e6 / (now_s - at_s), per_hour=0.0, seconds=now_s - at_s,
                at_ms=round(1000 * now_s))
        before, at_s = after, now_s
    return meters, round((_compiling_s(runs) - compiling_s) / (at_s - first_s), 4)


def _print_later(later: Sequence[Mapping[str, Any]]) -> bool:
    """What was estimated and metered of each, and whether enough of the estimates come near enough."""
    metered_later = [entry for entry in later if entry["rests on"] != ESTIMATED]
    if len(metered_later) < len(later):
        print(f"{len(later) - len(metered_later)} of {len(later)} were not metered for {LEAST_METERED_S:g} s, from "
              f"{SETTLED_S:g} s after their approval on, or half of --later: give a longer one")
    rows = [{**entry, "off by": round(entry["estimated"] / entry["measured"] - 1, 2)} for entry in metered_later]
    near = sum(abs(row["off by"]) <= GOAL for row in rows)
    if rows:
        print(results.table(rows))
        print(f"{near} of {len(rows)} estimates are within {GOAL:.0%} of what was metered later")
    return near >= OF_ALL * len(rows)


def _changed(estate: Estate, names: Iterable[str], chosen: Mapping[str, Dataflow], trigger_ms: int) -> Estate:
    """The estate with these dataflows and no others; they share nothing."""
    names = list(names)
    by = {"task_types": task_types(), "prices": Prices(trigger_ms=trigger_ms)}
    for name in sorted(set(estate.submitted) - set(names)):
        estate = apply_plan(estate, plan_removal(estate, name, **by))
    for name in names:
        if name not in estate.submitted:
            alone = replace(chosen[name], visibility="private")
            estate = apply_plan(estate, plan_submission(estate, alone, dataflow_id=name, team=name, **by))
    return estate


def _cost(estate: Estate, name: str, prices: Prices) -> CostFigure:
    tasks = list(estate.submitted[name].running.values())
    costs = running_costs(estate, tasks, task_types=task_types(), prices=prices)
    return total_cost(cost.figure for cost in costs.values())


def _window(runs: RunningEstate, seconds: float) -> dict[str, Any]:
    """What the slot takes and does over some seconds."""
    fragments = runs.queries()
    before, compiling_s = _counters(runs), _compiling_s(runs)
    time.sleep(seconds)
    after, at_end_s = _counters(runs), _compiling_s(runs)
    passed_s = after[1] - before[1]
    growth = grown({SLOT: before[0]}, {SLOT: after[0]})[SLOT]
    tasks = runs.estate.tasks
    queries = [
        {"id": name, "batches": growth.queries[name]["batches"], "busy_ms": growth.queries[name]["busy_ms"],
         "tasks": [[tasks[work.id].type, work.events] for work in query_work(
             growth.queries[name], [(task, 0.0, "") for task in fragment.active_tasks]).tasks]}
        for name, fragment in fragments.items()]
    return {
        "seconds": round(passed_s, 3), "cpu_ms": growth.cpu_ms, "cores": round(growth.cpu_ms / 1000 / passed_s, 4),
        "compilers": round((at_end_s - compiling_s) / passed_s, 4), "queries": queries,
        "load": round(psutil.getloadavg()[0], 1)}


def _counters(runs: RunningEstate) -> tuple[Counters, float]:
    """The slot's counters, and when they were read: just after a report, which comes every second."""
    reported = read_counters(runs.client, lambda _: runs.queries())[SLOT]
    for _ in range(200):
        fresh = read_counters(runs.client, lambda _: runs.queries())[SLOT]
        if fresh["cpu_ms"] != reported["cpu_ms"]:
            return Counters(**fresh), time.monotonic()
        time.sleep(0.05)
    raise TimeoutError(f"{SLOT} has not reported for 10 s")


def _compiling_s(runs: RunningEstate) -> float:
    """CPU seconds of the compilers of the slot's JVM so far."""
    total_s = 0.0
    for process in psutil.Process(runs.agent_pid).children(recursive=True):
        with suppress(psutil.Error):
            total_s += Compilers().cpu_s(process)
    return total_s


def _slot_seen(window: Mapping[str, Any]) -> SlotSeen:
    return SlotSeen(window["seconds"], 1000 * window["cpu_ms"], tuple(
        QuerySeen(query["id"], query["batches"], tuple((name, events) for name, events in query["tasks"]))
        for query in window["queries"]))


def _lasting(windows: Iterable[Mapping[str, Any]]) -> list[SlotSeen]:
    """As if each had been seen for long enough: a bench measures for seconds what an estate shows for hours."""
    return [SlotSeen(1000 * slot.seconds, 1000 * slot.cpu_us, tuple(
        QuerySeen(query.id, 1000 * query.batches, tuple((name, 1000 * events) for name, events in query.tasks))
        for query in slot.queries)) for slot in map(_slot_seen, windows)]


def _row(window: Mapping[str, Any], fitted: Costs) -> dict[str, Any]:
    slot, types = _slot_seen(window), task_types()
    declared, by_all = (
        round(expected_cores(slot, costs=costs, task_types=types), 3) for costs in (DECLARED, fitted))
    return {
        "dataflows": len(window["dataflows"]), "tasks": sum(len(query.tasks) for query in slot.queries),
        "queries": len(slot.queries),
        "batches/s": round(sum(query.batches for query in slot.queries) / slot.seconds, 2),
        "measured": round(slot.cores, 3), "of it compilers": window["compilers"], "declared": declared,
        "fitted": by_all, "load": window["load"]}


def _content_of(path: Path) -> dict[str, Any]:
    content = results.read(path)
    return {key: content[key] for key in ("trigger_ms", "windows", "later")}


def _as_object(costs: Costs) -> dict[str, Any]:
    return {
        "query_batch_s": costs.query_batch_s, "slot_cores": costs.slot_cores, "scale": costs.scale,
        "batch_s": dict(costs.batch_s), "event_us": dict(costs.event_us), "queries": costs.queries,
        "error": costs.error}
