"""`./weir bench reuse-traces`: Default against Reuse along the paper's traces, in numbers of tasks and on Spark.

Two workloads, 35 scientific workflows and 21 IoT dataflows, are submitted and removed as paper [1], 5, does it: one
after the other until all are there and then drained (SEQ), and in two random walks (RW1, RW2). Planning alone says
what runs at each step. ``--pairs`` runs all IoT dataflows on Spark by Default and with Reuse and compares CPU and
outputs; ``--walk`` makes every change of a trace of theirs on Spark and measures the cores in use.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from random import Random
from typing import Any

from scheduler.model.dataflow import Dataflow
from scheduler.model.errors import NotFound
from workers.engine.worker_settings import ROOT
from workers.library.registry import task_types

from . import results, sides, traces_on_spark
from .arguments import count, positive
from .trace_figures import write_spark_page, write_traces_page
from .trace_replay import STRATEGIES, moments, reuse_histogram, saving
from .traces import Trace, draw_traces
from .traces_on_spark import Sizes
from .workloads import opmw, riotbench

OPMW = ROOT.parent / "shared" / "data" / "opmw"
NEARLY = 0.15  # of what is due: a batch more or less falls into the window
PUBLISHED = "published: 38–46% fewer running tasks, 36–51% less CPU"


def main(argv: Sequence[str] | None = None) -> int:
    """Replay, measure what is asked for, print tables, write JSON and plots; 1 where outputs on Spark differ."""
    given = _arguments(argv)
    document: dict[str, Any] = {"bench": "reuse-traces", "machine": results.machine(), "seed": given.seed}
    document["workloads"] = {
        name: _replayed(dataflows, seed=given.seed, walk_steps=given.walk_steps)
        for name, dataflows in _workloads(given.opmw, given.seed).items()
    }
    if "OPMW" not in document["workloads"]:
        print(f"OPMW is left out: there is no {opmw.FILE} in {given.opmw}; --opmw names another folder.")
    rows = [row for name, workload in document["workloads"].items() for row in _rows(name, workload)]
    print(results.table(rows))
    print(PUBLISHED)
    if given.draws > 1:
        document["draws"] = _draws(given)
        print(results.table(document["draws"]))
    page = write_traces_page(given.output / "traces.html", document["workloads"])
    print(f"Plots: {page}")
    equal = _on_spark(given, document) if given.pairs or given.walk else True
    results.write(given.output / "reuse-traces.json", document)
    return 0 if equal else 1


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="weir bench reuse-traces", description=__doc__)
    parser.add_argument("--seed", type=int, default=2017, help="draws the workflows and the traces")
    parser.add_argument("--opmw", type=Path, default=OPMW, help="folder of the OPMW templates")
    parser.add_argument("--walk-steps", type=count, default=100, help="steps of a random walk")
    parser.add_argument("--draws", type=count, default=1, help="repeat with so many seeds: how savings spread")
    parser.add_argument(
        "--pairs", type=count, help="all IoT dataflows at once on Spark, so many times by Default and with Reuse"
    )
    parser.add_argument("--walk", action="store_true", help="a trace of IoT dataflows on Spark, step by step")
    parser.add_argument("--trace", choices=("SEQ", "RW1", "RW2"), default="SEQ", help="which one")
    parser.add_argument("--dataflows", type=count, help="how many IoT dataflows run on Spark: 21, in a walk 7")
    parser.add_argument("--rate", type=positive, help="events/s at each source on Spark: 40, in a walk 10")
    parser.add_argument("--trigger-ms", type=count, help="between batches on Spark: 10000, in a walk 2000")
    parser.add_argument("--warm-up", type=float, help="seconds: 60, in a walk 20")
    parser.add_argument("--seconds", type=positive, help="measured: 50, in a walk 6 at each step")
    parser.add_argument("--slots", type=count, default=2)
    parser.add_argument("--output", type=Path, default=Path("bench-results/reuse-traces"), help="folder")
    return parser.parse_args(argv)


def _workloads(folder: Path, seed: int) -> dict[str, tuple[Dataflow, ...]]:
    dataflows = {"RIoTBench": riotbench.dataflows()}
    with suppress(NotFound):
        dataflows["OPMW"] = opmw.dataflows(folder, rng=Random(f"{seed}/OPMW"), task_types=task_types())
    return dataflows


def _replayed(dataflows: Sequence[Dataflow], *, seed: int, walk_steps: int) -> dict[str, Any]:
    """A workload's size, and for each trace what runs at each step and what that saves."""
    names = [dataflow.name for dataflow in dataflows]
    drawn = draw_traces(names, seed=seed, walk_steps=walk_steps)
    return {"dataflows": len(dataflows), "traces": {trace.name: _replayed_trace(trace, dataflows) for trace in drawn}}


def _replayed_trace(trace: Trace, dataflows: Sequence[Dataflow]) -> dict[str, Any]:
    walked = {strategy: moments(trace, dataflows, strategy=strategy) for strategy in STRATEGIES}
    return {
        "changes": [f"{change.kind} {change.dataflow}" for change in trace.changes],
        "walk": [trace.walk.start, trace.walk.stop],
        **{strategy: [asdict(moment) for moment in strategy_moments] for strategy, strategy_moments in walked.items()},
        "saving": asdict(saving(trace, walked["default"], walked["reuse"])),
        "histogram": reuse_histogram(walked["reuse"]),
    }


def _rows(name: str, workload: dict[str, Any]) -> list[dict[str, Any]]:
    rows = []
    for trace, by_strategy in workload["traces"].items():
        walk = range(*by_strategy["walk"])
        queries = {
            strategy: results.mean(by_strategy[strategy][step]["queries"] for step in walk) for strategy in STRATEGIES
        }
        rows.append(
            {
                "workload": name,
                "trace": trace,
                "steps": len(by_strategy["changes"]),
                **{
                    f"most tasks, {side}": max(moment["tasks"] for moment in by_strategy[side])
                    for side in ("default", "reuse")
                },
                "fewer on average": f"{by_strategy['saving']['mean']:.0%}",
                "at the peak": f"{by_strategy['saving']['peak']:.0%}",
                "serve several": f"{1 - by_strategy['histogram'].get(1, 0):.0%}",
                **{f"queries, {strategy}": mean for strategy, mean in queries.items()},
            }
        )
    return rows


def _draws(given: argparse.Namespace) -> list[dict[str, Any]]:
    """How the average saving spreads over draws of the workload and of its traces."""
    savings: dict[tuple[str, str], list[float]] = {}
    for seed in range(given.seed, given.seed + given.draws):
        for name, dataflows in _workloads(given.opmw, seed).items():
            for trace in draw_traces([dataflow.name for dataflow in dataflows], seed=seed, walk_steps=given.walk_steps):
                default = moments(trace, dataflows, strategy="default")
                reuse = moments(trace, dataflows, strategy="reuse")
                savings.setdefault((name, trace.name), []).append(saving(trace, default, reuse).mean)
    return [
        {"workload": name, "trace": trace, "draws": len(saving), "least": f"{min(saving):.0%}",
         "median": f"{results.median(saving):.0%}", "most": f"{max(saving):.0%}"}
        for (name, trace), saving in savings.items()
    ]


def _on_spark(given: argparse.Namespace, document: dict[str, Any]) -> bool:
    equal = True
    if given.pairs:
        document["pair"] = _pair(given)
        equal = document["pair"]["outputs_equal"]
    if given.walk:
        document["walk"] = _walk(given)
    page = write_spark_page(given.output / "spark.html", pair=document.get("pair"), walk=document.get("walk"))
    print(f"Plots: {page}")
    return equal


def _pair(given: argparse.Namespace) -> dict[str, Any]:
    sizes = _sizes(given, Sizes(rate_per_s=40, trigger_ms=10_000, warm_up_s=60, measured_s=50, slots=given.slots))
    dataflows = riotbench.dataflows(rate_per_s=sizes.rate_per_s)[: given.dataflows]
    runs, compared = [], []
    for pair in range(given.pairs):
        outputs = {}
        for side in ("default", "reuse") if pair % 2 == 0 else ("reuse", "default"):
            print(f"On Spark, pair {pair + 1} of {given.pairs}, all at once: {side} …", flush=True)
            figures, outputs[side] = traces_on_spark.measure(side, dataflows, sizes)
            runs.append({"pair": pair + 1, "side": side, **figures})
        compared.append(traces_on_spark.compare(outputs["default"], outputs["reuse"]))
    rows = [sides.summary(side, runs) for side in ("default", "reuse")]
    saved = 1 - rows[1]["CPU s"] / rows[0]["CPU s"]
    different = [difference for comparison in compared for difference in comparison["different"]]
    print(results.table(rows))
    for row in rows:
        if abs(row["kept up"] - 1) > NEARLY:
            print(f"{row['side']} did not keep up ({row['kept up']:.0%} of its input): CPU cannot be compared. Scale "
                  "both sides down: --dataflows, --rate, or longer --trigger-ms and --warm-up.")
    for difference in different:
        print(f"  {difference}")
    print(
        f"Reuse takes {saved:.0%} less CPU than Default; "
        f"{sum(comparison['events'] for comparison in compared)} events of {compared[0]['outputs']} outputs compared, "
        f"{'DIFFERENT' if different else 'all equal'}."
    )
    return {
        "sizes": asdict(sizes), "runs": runs, "medians": rows, "saved": saved, "compared": compared,
        "outputs_equal": not different,
    }


def _walk(given: argparse.Namespace) -> dict[str, Any]:
    sizes = _sizes(given, Sizes(rate_per_s=10, trigger_ms=2_000, warm_up_s=20, measured_s=6, slots=given.slots))
    dataflows = riotbench.dataflows(rate_per_s=sizes.rate_per_s)[: given.dataflows or len(riotbench.PERMUTATIONS)]
    drawn = draw_traces([dataflow.name for dataflow in dataflows], seed=given.seed, walk_steps=given.walk_steps)
    (trace,) = (candidate for candidate in drawn if candidate.name == given.trace)
    walked = {strategy: traces_on_spark.walk(trace, strategy, dataflows, sizes) for strategy in STRATEGIES}
    rows = [
        {"side": side, "cores, mean": results.mean(step["cores"] for step in steps),
         "cores, most": max(step["cores"] for step in steps), "at the end": steps[-1]["cores"],
         "most queries": max(step["queries"] for step in steps),
         "enacting a step takes s": results.median([step["enacted in s"] for step in steps])}
        for side, steps in walked.items()
    ]
    print(results.table(rows))
    return {"trace": trace.name, "sizes": asdict(sizes), "steps": walked, "summary": rows}


def _sizes(given: argparse.Namespace, usual: Sizes) -> Sizes:
    """The usual sizes, but for what the command line says."""
    figures = {
        "rate_per_s": given.rate, "trigger_ms": given.trigger_ms, "warm_up_s": given.warm_up,
        "measured_s": given.seconds,
    }
    return replace(usual, **{name: value for name, value in figures.items() if value is not None})
