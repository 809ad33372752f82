"""Columns through a document: what each task reads and gives, and what is wrong with its place and the nearest name."""

from __future__ import annotations

import pytest

from scheduler.model.columns import (
    STREAM_TYPES,
    AmbiguousColumns,
    Columns,
    ColumnsInConflict,
    UnknownColumn,
    WrongColumnType,
    interleaved,
)
from scheduler.model.documents import columns_of_document, read_document
from scheduler.model.errors import InvalidDataflow
from scheduler.model.task_types import Parameter, TaskType, TaskTypes

TYPES = TaskTypes([
    TaskType("readings", "source", "Gives readings.", "none:none"),
    TaskType("labels", "source", "Gives text as value.", "none:none"),
    TaskType("shouts", "source", "Gives VALUE.", "none:none"),
    TaskType("keep", "transform", "Keeps columns.", "none:none", (
        Parameter("columns", "list", "Which.", required=True, items="string"),
        Parameter("number", "string", "A column of numbers.", default="value"))),
    TaskType("plug_in", "transform", "Declares nothing.", "none:none"),
    TaskType("out", "sink", "Takes all.", "none:none"),
])


def columns_of(task_type, inputs, config):
    match task_type.name:
        case "readings":
            return Columns.stream({"sensor": "string", "value": "double"})
        case "shouts":
            return Columns.stream({"VALUE": "double"})
        case "labels":
            return Columns.stream({"sensor": "string", "value": "string"})
        case "keep":
            inputs.require_number(config["number"], parameter="number")
            return Columns.stream({name: inputs.require(name, parameter="columns") for name in config["columns"]})
        case "plug_in":
            return Columns.unknown()
    return inputs


def document(*tasks: str, streams: str) -> str:
    return "name: d\ntasks:\n" + "\n".join(f"  - {task}" for task in tasks) + f"\nstreams: [{streams}]\n"


def problems_of(text: str):
    with pytest.raises(InvalidDataflow) as caught:
        read_document(text, task_types=TYPES, columns_of=columns_of)
    return caught.value.problems


CHAIN = "{from: r, to: k}, {from: k, to: o}"


def test_a_wrong_column_is_told_where_it_stands_with_the_nearest_name():
    text = document("{id: r, type: readings}", "{id: k, type: keep, config: {columns: [sensor, valeu]}}",
                    "{id: o, type: out}", streams=CHAIN)
    [problem] = problems_of(text)
    assert (problem.code, problem.task_id) == ("unknown_column", "k")
    assert text.splitlines()[problem.line - 1][problem.column - 1:].startswith("valeu")
    assert problem.path == "/tasks/1/config/columns/1"
    assert "no column valeu" in problem.message and "Did you mean value?" in problem.remedy


def test_a_wrong_type_is_told_where_its_parameter_or_else_its_task_stands():
    text = document("{id: r, type: readings}", "{id: k, type: keep, config: {columns: [sensor], number: sensor}}",
                    "{id: o, type: out}", streams=CHAIN)
    [problem] = problems_of(text)
    assert problem.code == "wrong_column_type" and problem.path == "/tasks/1/config/number"
    text = document("{id: r, type: labels}", "{id: k, type: keep, config: {columns: [sensor]}}", "{id: o, type: out}",
                    streams=CHAIN)
    [problem] = problems_of(text)
    assert problem.path == "/tasks/1/id" and "value is string" in problem.message


def test_one_mistake_is_told_once_and_what_is_not_declared_is_left_alone():
    text = document(
        "{id: r, type: readings}", "{id: k, type: keep, config: {columns: [sensr]}}",
        "{id: k2, type: keep, config: {columns: [whatever]}}", "{id: o, type: out}",
        streams="{from: r, to: k}, {from: k, to: k2}, {from: k2, to: o}")
    assert [problem.task_id for problem in problems_of(text)] == ["k"]
    behind = document(
        "{id: r, type: readings}", "{id: p, type: plug_in}", "{id: k, type: keep, config: {columns: [anything]}}",
        "{id: o, type: out}", streams="{from: r, to: p}, {from: p, to: k}, {from: k, to: o}")
    assert read_document(behind, task_types=TYPES, columns_of=columns_of).name == "d"


def test_streams_that_interleave_must_agree():
    text = document("{id: r, type: readings}", "{id: l, type: labels}", "{id: o, type: out}",
                    streams="{from: r, to: o}, {from: l, to: o}")
    [problem] = problems_of(text)
    assert problem.code == "columns_in_conflict" and problem.task_id == "o"
    assert "double from r" in problem.message and "string from l" in problem.message


def test_interleaved_streams_have_the_columns_of_all():
    one, other = Columns.stream({"a": "int", "b": "string"}), Columns.stream({"c": "boolean", "a": "bigint"})
    assert interleaved([("x", one), ("y", other)]) == Columns.stream({"a": "bigint", "b": "string", "c": "boolean"})
    assert not interleaved([("x", one), ("y", Columns.unknown())]).complete
    assert interleaved([("x", Columns({"a": None})), ("y", Columns({"a": "int"}))]).type_of("a") == "int"
    with pytest.raises(ColumnsInConflict):
        interleaved([("x", one), ("y", Columns({"b": "double"}))])


def test_columns_of_a_text_that_is_not_right_yet_are_told_as_far_as_they_are_known():
    text = document("{id: r, type: readings}", "{id: k, type: keep, config: {columns: [sensr]}}", "{id: x, type: kepe}",
                    streams="{from: r, to: k}, {from: k, to: x}, {from: r, to: nowhere}")
    columns = columns_of_document(text, task_types=TYPES, columns_of=columns_of)
    assert list(columns["k"].inputs) == [*STREAM_TYPES, "sensor", "value"]
    assert not columns["k"].outputs.complete and not columns["x"].outputs.complete
    assert columns_of_document("tasks: [", task_types=TYPES, columns_of=columns_of) == {}
    cyclic = document("{id: k, type: plug_in}", "{id: k2, type: plug_in}",
                      streams="{from: k, to: k2}, {from: k2, to: k}")
    assert columns_of_document(cyclic, task_types=TYPES, columns_of=columns_of) == {}


def test_open_columns_refuse_nothing_and_know_what_was_added():
    columns = Columns.unknown().plus({"n": "string"})
    assert columns.require("anything") is None
    with pytest.raises(WrongColumnType):
        columns.require_number("n")
    with pytest.raises(UnknownColumn) as caught:
        Columns.stream({}).require("n")
    assert "no columns but Weir's own" in caught.value.remedy
    assert list(Columns.stream({"a": "int", "b": "int"}).renewed({"a": "string"})) == [*STREAM_TYPES, "b", "a"]


@pytest.mark.parametrize("names", [
    ("id", "ID"), ("id", "Id", "other"), ("_SEQ",), ("a.b",), ("a`b",), ("*",), ("",),
    ("_Weir_marks",)])
def test_columns_that_spark_does_not_tell_apart_are_refused_wherever_they_come_from(names):
    with pytest.raises(AmbiguousColumns) as refused:
        Columns.stream(dict.fromkeys(names, "string"))
    assert refused.value.remedy and refused.value.facts["column"] in names
    with pytest.raises(AmbiguousColumns):
        interleaved([(str(number), Columns.stream({name: "string"})) for number, name in enumerate(names)])


def test_of_two_streams_that_meet_columns_that_differ_by_case_are_told_at_the_task_that_reads_both():
    text = document("{id: r, type: readings}", "{id: s, type: shouts}", "{id: o, type: out}",
                    streams="{from: r, to: o}, {from: s, to: o}")
    [problem] = problems_of(text)
    assert problem.code == "ambiguous_columns" and "value and VALUE differ by case only" in problem.message
    assert "another name" in problem.remedy and problem.task_id == "o"
