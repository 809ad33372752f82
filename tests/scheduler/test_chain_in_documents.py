"""A document may keep a task in a query of its own."""

from __future__ import annotations

import pytest

from scheduler.model.documents import dataflow_from_json, dump_document, read_document, to_document
from scheduler.model.errors import InvalidDataflow

from .catalogue import TYPES
from .test_documents import VALID, problems_of


def test_a_task_may_say_that_it_has_a_query_of_its_own():
    dataflow = read_document(VALID.replace("keep, type", "keep, chain: never, type"), task_types=TYPES)
    assert dataflow.unchained == ("keep",)
    for format in ("yaml", "json"):
        assert read_document(dump_document(dataflow, format), task_types=TYPES) == dataflow
    assert dataflow_from_json(to_document(dataflow)) == dataflow
    explicit = read_document(VALID.replace("keep, type", "keep, chain: allowed, type"), task_types=TYPES)
    assert explicit == read_document(VALID, task_types=TYPES), "what is the default needs no saying"


def test_of_equivalent_tasks_the_strictest_chain_is_suggested():
    text = VALID.replace(
        "  - {id: keep", "  - {id: again, type: scale, config: {by: 0.01}, chain: never}\n  - {id: keep").replace(
        "streams:\n", "streams:\n  - {from: levels, to: again}\n  - {from: again, to: keep}\n")
    with pytest.raises(InvalidDataflow) as problem:
        read_document(text, task_types=TYPES)
    assert read_document(problem.value.suggestion, task_types=TYPES).unchained == ("metres",)


@pytest.mark.parametrize("value", ["nevr", "[never]", "true", ""])
def test_there_are_two_choices(value: str) -> None:
    (problem,) = problems_of(VALID.replace("keep, type", f"keep, chain: {value}, type"))
    assert (problem.code, problem.task_id) == ("not_a_choice", "keep")
    assert "allowed or never" in problem.remedy
