"""A small catalogue of task types and short ways to write dataflows, for the tests of the science."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from scheduler.applying import apply_plan
from scheduler.model.dataflow import Dataflow, Stream, Task
from scheduler.model.estate import Estate
from scheduler.model.fragment import Slot
from scheduler.model.prices import Prices
from scheduler.model.task_types import Parameter, TaskType, TaskTypes
from scheduler.planning import plan_removal, plan_submission
from scheduler.rearranging import plan_pause, plan_resumption

TYPES = TaskTypes(
    [
        TaskType(
            "sensors", "source", "Generates readings.", "none:none",
            (
                Parameter("city", "string", "Where.", default="delft", choices=("delft", "turin", "lille")),
                Parameter("seed", "integer", "Which readings.", default=0, minimum=0),
            ),
            cost_us=8,
        ),
        TaskType(
            "scale", "transform", "Multiplies.", "none:none",
            (
                Parameter("by", "number", "Factor.", required=True, minimum=-1000, maximum=1000),
                Parameter("label", "string", "Shown beside it.", pattern="[a-z]+"),
                Parameter("weights", "list", "One for each column.", default=[], items="number"),
                Parameter("options", "object", "Anything else.", default={}),
                Parameter("exact", "boolean", "Keep all digits.", default=False),
            ),
            cost_us=10, effects=(),
        ),
        TaskType("thin", "transform", "Keeps one in ten.", "none:none", selectivity=0.1, cost_us=2, effects=()),
        TaskType("alone", "transform", "A query of its own.", "none:none", chain="never"),
        TaskType("count", "transform", "Counts so far.", "none:none", stateful=True, movable_state=True, cost_us=6),
        TaskType("into_port", "transform", "In.", "none:none",
                 (Parameter("port", "string", "Its name.", required=True),), effects=(), cost_us=2),
        TaskType("from_port", "transform", "Out.", "none:none",
                 (Parameter("port", "string", "Its name.", required=True),), effects=(), selectivity=0.5, cost_us=2),
        TaskType("window", "transform", "Averages windows.", "none:none", stateful=True, cost_us=12),
        TaskType("archive", "sink", "Keeps.", "none:none", (Parameter("name", "string", "Output.", default="out"),),
                 terminal="output"),
        TaskType("alarm", "sink", "Warns.", "none:none", (Parameter("level", "integer", "When.", default=3),)),
    ]
)
PRICES = Prices(core_hour=0.10, currency="EUR", trigger_ms=200)
SLOTS = (Slot("n1", 0), Slot("n1", 1), Slot("n2", 0))
EMPTY = Estate(slots=SLOTS)


def flow(
    name: str,
    tasks: Mapping[str, str | tuple[str, Mapping[str, Any]]],
    *streams: str,
    rates: Mapping[str, float] | None = None,
    visibility: str = "shared",
) -> Dataflow:
    """A dataflow from ``{id: type or (type, config)}`` and chains of streams like ``"a > b > c"``."""
    edges = [
        (source.strip(), target.strip())
        for stream in streams
        for source, target in zip(stream.split(">"), stream.split(">")[1:], strict=False)
    ]
    return Dataflow(
        name=name,
        tasks=tuple(
            Task(task_id, *(what if isinstance(what, tuple) else (what,))) for task_id, what in tasks.items()
        ),
        streams=tuple(Stream(*edge) for edge in dict.fromkeys(edges)),
        rates_per_s=rates or {},
        visibility=visibility,
    )


def unchained(dataflow: Dataflow, *task_ids: str) -> Dataflow:
    """The dataflow with some tasks in queries of their own."""
    return replace(dataflow, tasks=tuple(
        replace(task, chain="never") if task.id in task_ids else task for task in dataflow.tasks))


def submit(estate: Estate, dataflow: Dataflow, dataflow_id: str | None = None, team: str = "water") -> Estate:
    """The estate after a submission is planned and applied."""
    plan = plan_submission(
        estate, dataflow, dataflow_id=dataflow_id or dataflow.name, team=team, task_types=TYPES, prices=PRICES
    )
    return apply_plan(estate, plan)


def remove(estate: Estate, dataflow_id: str) -> Estate:
    """The estate after a removal is planned and applied."""
    return apply_plan(estate, plan_removal(estate, dataflow_id, task_types=TYPES, prices=PRICES))


def pause(estate: Estate, dataflow_id: str) -> Estate:
    """The estate after a pause is planned and applied."""
    return apply_plan(estate, plan_pause(estate, dataflow_id, task_types=TYPES, prices=PRICES))


def resume(estate: Estate, dataflow_id: str) -> Estate:
    """The estate after a resumption is planned and applied."""
    return apply_plan(estate, plan_resumption(estate, dataflow_id, task_types=TYPES, prices=PRICES))
