"""Which queries' states are copied to other nodes, and why others' are not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from scheduler.contracts.desired import Input, WantedFragment
from scheduler.elasticity.copied_queries import why_not_copied
from scheduler.model.dataflow import Task
from scheduler.model.task_types import Parameter, TaskType

TYPES = {
    "plain": TaskType("plain", "transform", "Adds.", "x:y", effects=()),
    "calls": TaskType("calls", "transform", "Calls.", "x:y", effects=("network",)),
    "unsaid": TaskType("unsaid", "transform", "Says nothing of its effects.", "x:y"),
    "stuck": TaskType("stuck", "transform", "Keeps.", "x:y", effects=(), stateful=True),
    "topic": TaskType("topic", "source", "Reads.", "x:y", (Parameter("path", "string", "Where.", is_file=True),),
                      connector="x:y", effects=("network", "files")),
    "to_topic": TaskType(
        "to_topic", "sink", "Writes.", "x:y", effects=("network",), terminal="connector", writer="x:y"),
    "spark": TaskType("spark", "source", "Reads.", "x:y", effects=("network",), connector="x:y", keeps_on_node=True),
    "files": TaskType("files", "sink", "Files.", "x:y", effects=(), terminal="parquet"),
}
QUERY = WantedFragment("f1-1", (Task("t", "plain"),), inputs=(Input("f1-0.0", "s"),))


@pytest.mark.parametrize(("change", "why"), [
    ({}, ""),
    ({"real_time": True}, "open"),
    ({"threads": 2}, ""),
    ({"inputs": (Input("f1-0.0@f1-1", "s"),)}, ""),
    ({"key_ranges": ((0, 9),), "routes": {0: {"f1-7": {"f1-7": 1.0}}}}, ""),
    ({"inputs": (Input("f1-0.0", "s"), Input("f1-3.0", "r"))}, ""),
    ({"inputs": (Input("f1-0.0", "s"), Input("f1-9.0", "s"))}, ""),
    ({"inputs": (Input("in-s.0", "s"),), "tasks": (Task("s", "topic"), Task("t", "plain"), Task("w", "to_topic"))}, ""),
    ({"inputs": (Input("in-s.0", "s"),), "tasks": (Task("s", "topic"),), "real_time": True}, "open"),
    ({"tasks": (Task("s", "topic", {"path": "s3://bucket/part"}),)}, ""),
    ({"inputs": (Input("f1-0.0", "s", when_behind="lose_oldest"),)}, "oldest"),
    *(({"tasks": (Task("t", name),)}, why) for name, why in (
        ("calls", ""), ("unsaid", "beyond Weir"), ("stuck", "cannot be handed"),
        ("files", "writes files on its"), ("nowhere", "cannot be handed"), ("spark", "how far it has read"))),
    ({"tasks": (Task("s", "topic", {"path": "here/part"}),)}, "topic reads a file on its node"),
    ({"tasks": (Task("t", "plain", {"idle": 3}),)}, "by the clock"),
])
def test_what_does_not_repeat_itself_from_a_copy_is_not_copied(change: Mapping, why: str) -> None:
    reason = why_not_copied(replace(QUERY, **change), TYPES)
    assert why in reason and bool(why) is bool(reason)
