"""`./weir bench reuse-planning`: what planning costs in a growing estate, against matching that looks at all of it.

One run, one workload, the same newcomers of 50 tasks: planned on the index in memory; through a database made for it,
plan and storing of the plan; matched by comparing the ancestors of all pairs of tasks, as paper [1] (4.1) starts from,
and of those in running dataflows with a source in common, as it goes on; and by NetworkX's isomorphism. Removal
likewise: on the index, through the database, and by the ancestors of the sinks that remain (4.2). A way that takes
longer than the bound at one size is left out at the larger ones. Besides the time that passes, the CPU time of this
process is told: on a busy machine the one grows with what else runs, the other hardly does.
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import plotly.graph_objects as go

from scheduler.model.dataflow import Dataflow
from scheduler.planning import plan_removal, plan_submission
from tests.benches import results
from tests.benches.arguments import count
from tests.benches.baselines import as_graph, match_ancestors, match_isomorphic, own_tasks, unmerge_by_ancestors
from tests.scheduler.estate_index import EstateIndex
from tests.scheduler.running_dataflows import running_dataflows
from workers.engine.desired_publishing import desired_of
from workers.library.registry import task_types

from .planning_workload import PRICES, Residents, dataflow_id, temporary_database, write_rows

FIRST_NEWCOMER = 1_000_000  # numbers of newcomers begin here, so that none is a resident's
NODES_PUBLISHED = 20
TEAM = "team-0"
WAYS = {
    "submit, index": "#0a7d92", "remove, index": "#5fb3c2", "submit, database": "#2f5d50",
    "remove, database": "#86b09f", "submit, all pairs": "#8c3b12", "submit, ancestors": "#c4701c",
    "remove, ancestors": "#e0ad78", "submit, isomorphism": "#8a99a0",
}


@dataclass
class Samples:
    """Milliseconds by way, at one size: passed, and of this process's CPU."""

    of: dict[str, list[float]] = field(default_factory=dict)
    cpu: dict[str, list[float]] = field(default_factory=dict)

    def take(self, way: str, act: Callable[[], Any]) -> Any:
        began, spent = time.perf_counter(), time.process_time()
        result = act()
        self.cpu.setdefault(way, []).append((time.process_time() - spent) * 1000)
        self.of.setdefault(way, []).append((time.perf_counter() - began) * 1000)
        return result

    def rows(self, tasks: int, dataflows: int) -> list[dict[str, Any]]:
        return [
            {"running tasks": tasks, "dataflows": dataflows, "way": way, "median ms": statistics.median(taken),
             "p99 ms": _p99(taken), "max ms": max(taken), "CPU median ms": statistics.median(self.cpu[way]),
             "CPU p99 ms": _p99(self.cpu[way]), "samples": len(taken)}
            for way, taken in self.of.items()
        ]


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print a table, write JSON and a page with the curve; 1 where two ways disagree."""
    parser = argparse.ArgumentParser(prog="weir bench reuse-planning", description=__doc__)
    parser.add_argument("--sizes", type=count, nargs="+", default=[100, 1_000, 10_000, 100_000], help="running tasks")
    parser.add_argument("--samples", type=count, default=300, help="plans on the index, at each size")
    parser.add_argument("--database-samples", type=int, default=100)
    parser.add_argument("--bound", type=float, default=10.0, help="seconds that one matching may take")
    parser.add_argument("--out", type=Path, default=Path("bench-results/reuse-planning.json"))
    options = parser.parse_args(argv)
    residents, rows, slow = Residents(), [], set()
    with tempfile.TemporaryDirectory() as folder, temporary_database(Path(folder)):
        written = 0
        for size in sorted(options.sizes):
            residents.grow(size)
            samples = Samples()
            newcomers = [residents.newcomer(FIRST_NEWCOMER + number)
                         for number in range(max(options.samples, options.database_samples))]
            write_rows(residents.index, after=written)
            written = len(residents.prefixes)
            gc.collect()
            gc.freeze()  # as a server does that holds much for long: not gone through again and again
            _on_the_index(samples, residents.index, newcomers[:options.samples])
            _through_the_database(samples, residents.index, newcomers[:options.database_samples])
            _by_looking_at_all(samples, residents.index, newcomers[0], slow, bound_ms=options.bound * 1000)
            gc.unfreeze()
            rows += samples.rows(len(residents.index.tasks), len(residents.index.submitted))
            print(results.table(rows[-len(samples.of):]), flush=True)
    load = os.getloadavg()
    print(f"load {load[0]:.1f} on {os.cpu_count()} cores; left out as over {options.bound:g} s: "
          f"{', '.join(sorted(slow)) or 'none'}")
    results.write(options.out, {
        "machine": results.machine(), "load": load, "rows": rows, "over the bound": sorted(slow)})
    page = _write_page(options.out.with_suffix(".html"), rows)
    print(f"written: {options.out}, {page}")
    return 0


def _on_the_index(samples: Samples, index: EstateIndex, newcomers: Sequence[Dataflow]) -> None:
    for number, dataflow in enumerate(newcomers):
        new = dataflow_id(FIRST_NEWCOMER + number)
        plan = samples.take("submit, index", lambda d=dataflow, n=new: _submission(index, d, n))
        samples.take("apply, index", lambda p=plan: index.apply(p))
        plan = samples.take("remove, index", lambda n=new: plan_removal(
            index, n, task_types=task_types(), prices=PRICES))
        index.apply(plan)


def _submission(index: EstateIndex, dataflow: Dataflow, new: str) -> Any:
    return plan_submission(index, dataflow, dataflow_id=new, team=TEAM, task_types=task_types(), prices=PRICES)


def _through_the_database(samples: Samples, index: EstateIndex, newcomers: Sequence[Dataflow]) -> None:
    """From the stored document to the frozen plan; the plan into the rows, committed; and what a node is told then."""
    from dashboard.audit.trail import audited  # here: Django is set up by the command
    from dashboard.catalog.models import DataflowRecord, DataflowVersion
    from dashboard.operations.estate_store.estate_loader import load_estate, stored_estate
    from dashboard.operations.estate_store.estate_writer import store_plan
    from dashboard.operations.models import EstateState
    from dashboard.plans.computing import compute
    from dashboard.plans.models import PlanRecord
    from dashboard.teams.models import Team, User
    from scheduler.model.documents import to_document
    from tests.dashboard.node_parts import load_part_of

    def store(plan: Any) -> None:
        with audited(actor=None, verb="bench.store", subject=state):
            store_plan(plan)

    state, author = EstateState.objects.get(pk=1), User.objects.get(username="author")
    for number, dataflow in enumerate(newcomers):
        new = dataflow_id(FIRST_NEWCOMER + number)
        record, _ = DataflowRecord.objects.get_or_create(pk=new, defaults={
            "team": Team.objects.get(slug=TEAM), "author": author, "name": f"{dataflow.name} among {len(index.tasks)}",
            "visibility": "shared", "tasks": 50})
        DataflowVersion.objects.get_or_create(dataflow=record, number=1, defaults={
            "text": "", "format": "json", "document": to_document(dataflow), "author": author})
        for kind in ("submit", "remove"):
            plan_record = PlanRecord(kind=kind, dataflow=record, version=1)
            plan = samples.take(f"{kind}, database", lambda a=plan_record: compute(a, stored_estate()))
            samples.take(f"store {kind}", lambda p=plan: store(p))
        DataflowVersion.objects.filter(dataflow=record).delete()
        record.delete()
    for node in index.slots[:: -(-len(index.slots) // NODES_PUBLISHED)]:
        samples.take("desired state of a node", lambda n=node.node: desired_of(load_part_of(n), n, task_types()))
    samples.take("whole estate, database", load_estate)


def _by_looking_at_all(
    samples: Samples, index: EstateIndex, dataflow: Dataflow, slow: set[str], *, bound_ms: float
) -> None:
    """The ways that go through what runs, each until it is over the bound; what they find is held against the index."""
    plan = _submission(index, dataflow, "newcomer")
    expected = {task_id: running for task_id, running in plan.dataflow.running.items() if running in index.tasks}
    submitted = own_tasks(dataflow, task_types=task_types())
    estate = index.estate()
    parts = running_dataflows(estate)
    running = [{task_id: estate.tasks[task_id] for task_id in part.tasks} for part in parts]
    graph, submitted_graph = as_graph(estate.tasks), as_graph(submitted)
    largest = max(parts, key=lambda part: len(part.tasks))
    leaving = largest.serves[len(largest.serves) // 2]
    tasks = next(tasks for tasks in running if largest.id in tasks)
    stopped = {task.id for task in plan_removal(index, leaving, task_types=task_types(), prices=PRICES).stopped}
    ways = {
        "submit, all pairs": (lambda: match_ancestors(running, submitted, all_pairs=True), expected),
        "submit, ancestors": (lambda: match_ancestors(running, submitted), expected),
        "submit, isomorphism": (lambda: match_isomorphic(graph, submitted_graph), expected),
        "remove, ancestors": (lambda: unmerge_by_ancestors(
            tasks, (estate.submitted[user] for user in largest.serves if user != leaving)), stopped),
    }
    for way, (act, right) in ways.items():
        for _ in range(3 if way not in slow else 0):
            if samples.take(way, act) != right:
                raise AssertionError(f"{way}: finds something else than the index")
            if samples.of[way][-1] > bound_ms:
                slow.add(way)
                break


def _write_page(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    """The curve of cost over the estate's size, as a page that opens without a network."""
    figure = go.Figure()
    for way, colour in WAYS.items():
        way_rows = [row for row in rows if row["way"] == way]
        figure.add_trace(go.Scatter(
            x=[row["running tasks"] for row in way_rows], y=[row["median ms"] for row in way_rows], name=way,
            mode="lines+markers", line={"color": colour}, customdata=[row["p99 ms"] for row in way_rows],
            hovertemplate="%{x} running tasks: median %{y:.3g} ms, p99 %{customdata:.3g} ms"))
    figure.update_layout(
        title="Planning a dataflow of 50 tasks, by how much runs already", template="plotly_white",
        xaxis={"type": "log", "title": "running tasks"}, yaxis={"type": "log", "title": "ms, median"})
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.write_html(path, include_plotlyjs=True)
    return path


def _p99(values: Sequence[float]) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * 0.99))]
