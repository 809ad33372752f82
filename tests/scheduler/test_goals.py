"""The goals that a document states: read and written again, and every mistake told where it is."""

from __future__ import annotations

import pytest

from scheduler.model.dataflow_goals import DataflowGoals
from scheduler.model.documents import dataflow_from_json, dump_document, read_document, to_document
from scheduler.model.errors import InvalidDataflow
from workers.library.registry import task_types

from .test_latency_limits import HEAD


def read(goals: str):
    return read_document(f"{HEAD}goals: {goals}\n", task_types=task_types())


@pytest.mark.parametrize(("written", "goals"), [
    ("null", None),
    ("{most_per_hour: 0.5}", DataflowGoals(0.5)),
    ("{most_per_hour: 2, least_per_hour: 1, throughput: 0.9, tolerance: 0.1, hours: 24}",
     DataflowGoals(2.0, 1.0, 0.9, 0.1, 24.0)),
    ("{most_per_hour: 2, least_per_hour: null}", DataflowGoals(2.0))])
def test_goals_are_read_and_written_again(written: str, goals: DataflowGoals | None) -> None:
    dataflow = read(written)
    assert dataflow.goals == goals
    assert read_document(dump_document(dataflow), task_types=task_types()) == dataflow
    assert dataflow_from_json(to_document(dataflow)) == dataflow


@pytest.mark.parametrize(("written", "words"), [
    ("{}", "most_per_hour"), ("{most_per_hour: much}", "must be a number"), ("{most_per_hour: true}", "a number"),
    ("{most_per_hour: 0}", "most_per_hour is 0"), ("{most_per_hour: 1, least_per_hour: -1}", "is -1"),
    ("{most_per_hour: 1, least_per_hour: 1}", "not less than most_per_hour"),
    ("{most_per_hour: 1, throughput: 0.1, tolerance: 0.2}", "not less than throughput"),
    ("{most_per_hour: 1, throughput: 1.5}", "is 1.5"), ("{most_per_hour: 1, speed: 2}", "no key speed"),
    ("{most_per_hour: 1, hours: .inf}", ""), ("much", "goals must be")])
def test_each_mistake_is_told_with_its_place(written: str, words: str) -> None:
    with pytest.raises(InvalidDataflow) as caught:
        read(written)
    problems = caught.value.problems
    assert len(problems) == 1 and words in problems[0].message, problems
    assert problems[0].path.startswith("/goals") and problems[0].remedy


@pytest.mark.parametrize("given", [
    {"most_per_hour": 0.0}, {"most_per_hour": 1.0, "least_per_hour": 1.0}, {"most_per_hour": float("nan")},
    {"most_per_hour": 1.0, "throughput": 0.0}, {"most_per_hour": 1.0, "tolerance": 0.0},
    {"most_per_hour": 1.0, "throughput": 0.3, "tolerance": 0.3}, {"most_per_hour": 1.0, "hours": 0.0}])
def test_goals_that_cannot_be_are_no_value(given: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"(above|from|finite|more may be)"):
        DataflowGoals(**given)
