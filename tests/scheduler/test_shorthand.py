"""Loops and streams that are split: they are the tasks and streams that somebody could have written out."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.model.columns import Columns
from scheduler.model.documents import columns_of_document, dump_document, read_document
from scheduler.model.editing import with_values
from scheduler.model.errors import InvalidDataflow, WeirError
from scheduler.model.task_types import Parameter, TaskType, TaskTypes
from scheduler.reuse.fingerprint import fingerprints

from .catalogue import TYPES as PLAIN_TYPES

_PARTS = (Parameter("of", "integer", "How many.", required=True, minimum=2),
          Parameter("part", "integer", "Which.", required=True, minimum=1))
TYPES = TaskTypes([
    *PLAIN_TYPES.values(),
    TaskType("round_robin", "transform", "By turns.", "none:none", _PARTS, stateful=True, effects=()),
    TaskType("key_split", "transform", "By key.", "none:none",
             (Parameter("by", "list", "Key.", required=True, items="string", column="names"), *_PARTS), effects=()),
])


def read(document: dict, **checks):
    return read_document(json.dumps(document), task_types=TYPES, **checks)


def problems_of(document: dict, **checks) -> list:
    with pytest.raises(InvalidDataflow) as refused:
        read(document, **checks)
    return refused.value.problems


def task(name: str, type: str = "scale", **config) -> dict:
    return {"id": name, "type": type} | ({"config": config} if config else {})


def joining(*chains: str) -> list[dict]:
    return [{"from": source, "to": target} for chain in chains for source, target in pairwise(chain.split())]


def document(*tasks: dict, streams: list[dict]) -> dict:
    return {"name": "x", "tasks": [task("s", "sensors"), *tasks, task("out", "archive")], "streams": streams}


def same(one: dict, other: dict) -> bool:
    return sorted(fingerprints(read(one), task_types=TYPES).values()) == sorted(
        fingerprints(read(other), task_types=TYPES).values())


# -- loops -------------------------------------------------------------------------------------------------------------


def loop(times: object, *tasks: dict, streams: list[dict] | None = None, name: str = "again") -> dict:
    return {"id": name, "loop": {
        "times": times, "tasks": list(tasks or [task("a", by=1)]), "streams": streams or joining("input a output")}}


def test_a_loop_is_its_turns_written_out() -> None:
    looped = document(loop(3, task("a", by=1), task("b", "count"), task("c", "thin"),
                           streams=joining("input a b output", "input c output")), streams=joining("s again out"))
    dataflow = read(looped)
    assert [task.id for task in dataflow.tasks] == [
        "s", *(f"again.{iteration}.{name}" for iteration in (1, 2, 3) for name in "abc"), "out"]
    iterations = [task(f"{name}{iteration}", kind, **config) for iteration in (1, 2, 3)
             for name, kind, config in (("a", "scale", {"by": 1}), ("b", "count", {}), ("c", "thin", {}))]
    written = joining("s a1 b1 a2 b2 a3 b3 out", "s c1 a2", "b1 c2", "c1 c2 a3", "b2 c3", "c2 c3 out")
    assert same(looped, document(*iterations, streams=written))
    assert read(json.loads(dump_document(dataflow, "json"))) == dataflow, "written down it is unrolled"
    looped["tasks"][1]["chain"] = "never"
    assert set(read(looped).unchained) == {task.id for task in dataflow.tasks} - {"s", "out"}


@settings(max_examples=40, deadline=None)
@given(times=st.integers(1, 5), more=st.integers(1, 4))
def test_two_loops_on_end_are_one_longer(times: int, more: int) -> None:
    two = document(loop(times), loop(more, name="then"), streams=joining("s again then out"))
    assert same(two, document(loop(times + more), streams=joining("s again out")))


def test_a_loop_within_a_path_is_unrolled_there() -> None:
    def dynamic(tasks: list[dict], streams: list[dict]) -> dict:
        return document({"id": "work", "alternates": [
            {"name": "one", "type": "thin"}, {"name": "many", "tasks": tasks, "streams": streams}]},
            streams=joining("s work out"))

    assert same(
        dynamic([loop(2), task("z", "thin")], joining("input again z output")),
        dynamic([task("x", by=1), task("y", by=1), task("z", "thin")], joining("input x y z output")))


@pytest.mark.parametrize(("wrong", "code", "place", "words"), [
    (loop(0), "out_of_range", "/tasks/1/loop/times", "0"), (loop(101), "out_of_range", "/tasks/1/loop/times", "101"),
    (loop(1.5), "ill_typed", "/tasks/1/loop/times", "whole number"),
    (loop("3"), "ill_typed", "/tasks/1/loop/times", "whole number"),
    ({"id": "again", "loop": 3}, "ill_typed", "/tasks/1/loop", "a mapping"),
    ({"id": "again", "loop": {"times": 2}}, "missing_key", "/tasks/1/loop", "needs tasks"),
    ({**loop(2), "type": "scale"}, "type_beside_alternates", "/tasks/1/type", "no type of its own"),
    ({**loop(2), "rate": 3}, "type_beside_alternates", "/tasks/1/rate", "no rate of its own"),
    ({**loop(2), "alternates": []}, "type_beside_alternates", "/tasks/1/loop", "no loop of its own"),
    (loop(2, task("a", "scael")), "unknown_task_type", "/tasks/1/loop/tasks/0/type", "scael"),
    (loop(2, task("a")), "missing_parameter", "/tasks/1/loop/tasks/0", "by"),
    (loop(2, {"id": "a", "alternates": []}), "unknown_key", "/tasks/1/loop/tasks/0/alternates", "alternates"),
    (loop(2, streams=joining("input a aa output")), "unknown_task", "", "aa"),
    (loop(2, streams=joining("input a")), "missing_input", "", "Nothing leaves"),
    (loop(2, streams=joining("input output", "input a output")), "passes_by", "/tasks/1/loop/streams/0", "past"),
    (loop(2, name="s"), "duplicate_id", "/tasks/1/id", "id s"),
    (loop(2, name="x" * 63), "invalid_id", "/tasks/1/id", "too long"),
])
def test_a_mistake_in_a_loop_is_told_once_with_its_place(wrong: dict, code: str, place: str, words: str) -> None:
    problems = problems_of(document(wrong, streams=joining(f"s {wrong['id']} out")))
    matching = [problem for problem in problems if problem.code == code and words in problem.message]
    assert matching, problems
    problem = matching[0]
    assert problem.remedy and len({(problem.path, problem.message) for problem in matching}) == len(matching)
    assert problem.path.startswith("/tasks/1") and problem.path.endswith(place)


def test_a_config_that_cannot_be_is_told_once() -> None:
    def check_config(kind, config):
        return WeirError("Never.", remedy="Leave it.") if kind.name == "scale" else None

    [wrong] = problems_of(document(loop(3), streams=joining("s again out")), check_config=check_config)
    assert wrong.path == "/tasks/1/loop/tasks/0/id"


def test_iterations_must_not_take_the_ids_of_others() -> None:
    [taken] = problems_of(document(task("again.2.a", by=2), loop(2), streams=joining("s again.2.a again out")))
    assert taken.code == "invalid_id" and "taken" in taken.message


def test_loops_make_no_more_than_a_document_may_have() -> None:
    many = [loop(100, *(task(f"t{n}", by=1) for n in range(50)), name=f"l{n}", streams=[
        stream for n in range(50) for stream in joining(f"input t{n} output")]) for n in range(40)]
    [*_, last] = problems_of(document(*many, streams=joining("s l0 out")))
    assert last.code in ("too_many_tasks", "too_many_streams") and last.remedy
    wide = loop(20, *(task(f"t{n}", by=n) for n in range(50)), name="l", streams=[
        stream for n in range(50) for stream in joining(f"input t{n} output")])
    assert [problem.code for problem in problems_of(document(wide, streams=joining("s l out")))] == ["too_many_streams"]


def test_tasks_that_deal_streams_out_count_as_tasks_do() -> None:
    parts = [{"from": "s", "to": f"t{n}", "split": {"of": 2000, "part": n + 1}} for n in range(1000)]
    tasks = [task(f"t{n}", by=n) for n in range(1000)]
    [*_, last] = problems_of(document(*tasks, streams=[*parts, *joining(*(f"t{n} out" for n in range(1000)))]))
    assert last.code == "too_many_tasks"


def test_what_is_wrong_in_a_turn_names_it() -> None:
    def columns_of(kind, inputs: Columns, config) -> Columns:
        if kind.name == "scale":
            inputs.require("reading")
            return Columns.stream({"other": "double"})
        return Columns.stream({"reading": "double"})

    [wrong] = problems_of(document(loop(2), streams=joining("s again out")), columns_of=columns_of)
    assert wrong.message.startswith("Task again.2.a:") and wrong.path == "/tasks/1/loop/tasks/0/id"


# -- streams that are split --------------------------------------------------------------------------------------------


def split(source: str, target: str, **stated) -> dict:
    return {"from": source, "to": target, "split": stated}


def test_a_split_stream_is_a_task_at_its_head() -> None:
    branches = [task("a", by=1), task("b", by=2), task("c", by=3)]
    ends = joining("a out", "b out", "c out")
    short = document(*branches, streams=[
        split("s", "a", of=2, part=1), split("s", "b", of=2, part=1), split("s", "c", of=2, part=2), *ends])
    written = document(
        *branches, task("one", "round_robin", of=2, part=1), task("two", "round_robin", of=2, part=2),
        streams=[*joining("s one a", "one b", "s two c"), *ends])
    assert same(short, written)
    assert [task.id for task in read(short).tasks[-2:]] == ["s.part1of2", "s.part2of2"]
    keyed = document(*branches[:2], streams=[
        split("s", "a", by=["city"], of=2, part=1), split("s", "b", of=2, part=1), *ends[:2]])
    assert [(task.id, task.type) for task in read(keyed).tasks[-2:]] == [
        ("s.part1of2", "key_split"), ("s.part1of2.2", "round_robin")]


def test_streams_into_a_loop_and_out_of_it_may_be_split() -> None:
    short = document(loop(2), task("b", by=2), streams=[
        split("s", "again", of=2, part=1), split("again", "b", of=3, part=2), *joining("b out")])
    written = document(
        task("x", by=1), task("y", by=1), task("b", by=2), task("p", "round_robin", of=2, part=1),
        task("q", "round_robin", of=3, part=2), streams=joining("s p x y q b out"))
    assert same(short, written)
    inner = document(loop(2, streams=[split("input", "a", of=2, part=1), *joining("a output")]),
                     streams=joining("s again out"))
    outer = document(loop(1, streams=[split("input", "a", of=2, part=1), *joining("a output")]),
                     streams=[split("s", "again", of=2, part=2), *joining("again out")])
    assert same(outer, document(
        task("p", "round_robin", of=2, part=2), task("q", "round_robin", of=2, part=1), task("x", by=1),
        streams=joining("s p q x out")))
    assert same(inner, document(
        task("p", "round_robin", of=2, part=1), task("x", by=1), task("q", "round_robin", of=2, part=1),
        task("y", by=1), streams=joining("s p x q y out")))


@pytest.mark.parametrize(("stated", "code", "place", "words"), [
    ({"of": 2}, "missing_parameter", "/streams/0/split", "part"),
    ({"of": 1, "part": 1}, "out_of_range", "/streams/0/split/of", "1"),
    ({"of": "two", "part": 1}, "ill_typed", "/streams/0/split/of", "of is text"),
    ({"off": 2, "part": 1}, "unknown_parameter", "/streams/0/split/off", "off"),
    ({"of": 2, "part": 1, "by": "city"}, "ill_typed", "/streams/0/split/by", "by is text"),
])
def test_a_mistake_in_a_split_is_told_with_its_place(stated: dict, code: str, place: str, words: str) -> None:
    problems = {problem.code: problem for problem in problems_of(
        document(task("a", by=1), streams=[split("s", "a", **stated), *joining("a out")]))}
    assert code in problems, problems
    assert problems[code].path == place and words in problems[code].message and problems[code].remedy


def test_a_split_that_contradicts_another_is_told() -> None:
    branches = [task("a", by=1), task("b", by=2)]
    [two] = problems_of(document(*branches, streams=[
        {**split("s", "a", of=2, part=1), "selectivity": 1}, {**split("s", "b", of=2, part=1), "selectivity": 2},
        *joining("a out", "b out")]))
    assert (two.code, two.path) == ("two_selectivities", "/streams/1")
    unsplit = TaskTypes(list(PLAIN_TYPES.values()))
    with pytest.raises(InvalidDataflow) as refused:
        read_document(json.dumps(document(task("a", by=1), streams=[split("s", "a", of=2, part=1), *joining("a out")])),
                      task_types=unsplit)
    assert [problem.code for problem in refused.value.problems] == ["unknown_task_type"]


@pytest.mark.parametrize("stated", [3, [], {}, {"of": {}, "part": []}, {"by": 3}, None])
def test_what_is_half_written_has_columns_where_it_can(stated: object) -> None:
    text = json.dumps(document(task("a", by=1), loop(2), streams=[
        {"from": "s", "to": "a", "split": stated}, {"to": "again", "split": stated}, *joining("a again out")]))
    columns = columns_of_document(text, task_types=TYPES, columns_of=lambda kind, inputs, config: inputs)
    assert columns["s"].outputs.types


def test_a_value_of_a_turn_is_edited_by_writing_the_document_out() -> None:
    text = dump_document(read(document(task("a", by=1), streams=joining("s a out"))), "json")
    whole = json.loads(text)
    whole["tasks"][1] = loop(2)
    whole["streams"] = joining("s again out")
    meant = read(document(task("again.1.a", by=7), task("again.2.a", by=1), streams=joining(
        "again.1.a again.2.a", "s again.1.a", "again.2.a out")))
    edited = with_values(
        json.dumps(whole), {"again.1.a": {"by": 7}}, meant=meant, format="json", task_types=TYPES)
    assert not edited.in_place and same(json.loads(edited.text), json.loads(dump_document(meant, "json")))
