"""Task types of which one contains another, and dataflows of them, played by definition: for tests of containment."""

from __future__ import annotations

import operator
from itertools import pairwise

from scheduler.applying import apply_plan
from scheduler.model.alternates import alternates_in
from scheduler.model.dataflow import Dataflow, Stream, Task
from scheduler.model.estate import Estate
from scheduler.model.refinement import Refined
from scheduler.model.task_types import Parameter, TaskType, TaskTypes
from scheduler.planning import plan_removal, plan_submission
from scheduler.reuse.containment import Containment, contain
from tests.scheduler.sibling_index import SiblingIndex

from .catalogue import PRICES, flow

WINDOW = Parameter("window", "integer", "How many.", default=1, minimum=1)
TYPES = TaskTypes([
    TaskType("source", "source", "Numbers.", "none:none", (Parameter("seed", "integer", "", default=1),), cost_us=5),
    TaskType("band", "transform", "Those in a range.", "none:none",
             (Parameter("low", "integer", ""), Parameter("high", "integer", "")), selectivity=0.5, cost_us=5,
             effects=()),
    TaskType("total", "transform", "Sums of blocks.", "none:none", (WINDOW,), stateful=True, selectivity=0.2,
             cost_us=9),
    TaskType("totals", "transform", "Sums of sums.", "none:none", (WINDOW,), stateful=True, cost_us=3),
    TaskType("union", "transform", "Passes on.", "none:none", cost_us=1, effects=()),
    TaskType("end", "sink", "Keeps.", "none:none", (Parameter("name", "string", "", default="a"),), cost_us=1),
])


def rule(task_type, wide, narrow):
    if task_type.name == "band" and wide != narrow:
        return Refined("band", narrow) if wide["low"] <= narrow["low"] and narrow["high"] <= wide["high"] else None
    if task_type.name == "total" and narrow["window"] % wide["window"] == 0 and wide != narrow:
        return Refined("totals", {"window": narrow["window"] // wide["window"]})
    return None


def containment(estate):
    return Containment(SiblingIndex(estate.tasks.values()), rule)


def contained(estate, dataflow, **options):
    return contain(estate.tasks, dataflow, task_types=TYPES, containment=containment(estate), **options)


def submit(estate, dataflow, dataflow_id, *, on=True, team="water", fresh=False):
    plan = plan_submission(
        estate, dataflow, dataflow_id=dataflow_id, team=team, task_types=TYPES, prices=PRICES, fresh=fresh,
        containment=containment(estate) if on else None)
    return apply_plan(estate, plan), plan


def remove(estate, dataflow_id):
    return apply_plan(estate, plan_removal(estate, dataflow_id, task_types=TYPES, prices=PRICES))


def band(name, low, high, **options):
    tasks = {"s": "source", "f": ("band", {"low": low, "high": high}), "o": "end"}
    return flow(name, tasks, "s > f > o", **options)


def in_a_row(*configs):
    """A path of bands, one behind the other, as the keys of an alternate."""
    ids = [f"b{number}" for number in range(len(configs))]
    return {
        "tasks": [{"id": name, "type": "band", "config": config} for name, config in zip(ids, configs, strict=True)],
        "streams": [
            {"from": source, "to": target} for source, target in pairwise(["input", *ids, "output"])]}


def dynamic(name, *ways, **options):
    """A dataflow with a task of these alternates, each the range of a band or the keys of a path."""
    alternates = [
        {"name": f"w{number}", "value": len(ways) - number, **(
            way if isinstance(way, dict) else {"type": "band", "config": dict(zip(("low", "high"), way, strict=True))})}
        for number, way in enumerate(ways)]
    return flow(
        name, {"s": "source", "f": ("dynamic", {"alternates": alternates, **options}), "o": "end"}, "s > f > o")


def simulated(dataflow):
    """What each sink gets: events of sixty numbers, through every task by its definition."""
    parents, tasks = dataflow.parents(), {task.id: task for task in dataflow.tasks}
    streams = {}

    def stream(task_id):
        if task_id not in streams:
            streams[task_id] = list(events(tasks[task_id], sorted(
                (event for parent in parents[task_id] for event in stream(parent)), key=lambda event: event[0])))
        return streams[task_id]

    def events(task, inputs):
        config = task.config
        if alternates := alternates_in(task.type, config):  # switched every seven events
            ways = sorted(alternates, key=lambda way: way.name)
            for seq, value in inputs:
                yield from through(ways[seq // 7 % len(ways)], [(seq, value)])
        elif task.type == "source":
            yield from ((seq, (seq * 37 + config.get("seed", 1)) % 50) for seq in range(60))
        elif task.type == "band":
            yield from ((seq, value) for seq, value in inputs if config["low"] <= value <= config["high"])
        elif task.type in ("total", "totals"):
            size = config.get("window", 1)
            for start in range(0, len(inputs) - size + 1, size):
                block = inputs[start:start + size]
                yield block[-1][0], sum(value for _, value in block)
        else:
            yield from inputs

    def through(way, inputs):
        if way.path is None:
            return list(events(way, inputs))
        return way.path.follow(inputs, work=lambda task, read: list(events(task, read)), join=operator.add)

    return {task.id: stream(task.id) for task in dataflow.tasks if task.type == "end"}


def as_it_runs(estate: Estate, dataflow_id: str) -> Dataflow:
    """A submitted dataflow rebuilt from nothing but running tasks."""
    submitted = estate.submitted[dataflow_id]
    used = set(submitted.running.values())
    tasks = tuple(Task(task_id, estate.tasks[task_id].type, estate.tasks[task_id].config) for task_id in sorted(used))
    streams = tuple(Stream(parent, task_id) for task_id in sorted(used) for parent in estate.tasks[task_id].parents)
    return Dataflow("x", tasks, streams)
