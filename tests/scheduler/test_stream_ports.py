"""Several streams that enter and leave a dynamic task: the tasks that they are read into, and what is refused."""

from __future__ import annotations

import json
from copy import deepcopy

import pytest
from hypothesis import example, given, settings

from scheduler.model.alternates import alternates_in, selectivity_at_work
from scheduler.model.documents import dump_document, read_document
from scheduler.model.errors import InvalidDataflow
from scheduler.model.task_types import Parameter, TaskType, TaskTypes
from scheduler.performance.rates import input_rates_per_s
from scheduler.reuse.fingerprint import fingerprints

from .catalogue import TYPES as PLAIN_TYPES
from .strategies import with_ports

TYPES = TaskTypes([
    *PLAIN_TYPES.values(),
    TaskType("key_split", "transform", "By key.", "none:none", (
        Parameter("by", "list", "Key.", required=True, items="string"), Parameter("of", "integer", "How many."),
        Parameter("part", "integer", "Which.")), effects=()),
])


def stream(text: str, **more) -> dict:
    source, target = text.split()
    return {"from": source, "to": target, **more}


def path(name: str, *streams: dict, by: float = 2) -> dict:
    return {"name": name, "streams": list(streams), "tasks": [
        {"id": "a", "type": "scale", "config": {"by": by}}, {"id": "b", "type": "scale", "config": {"by": by + 1}}]}


SHORT = {
    "name": "x",
    "tasks": [
        {"id": "s", "type": "sensors"}, {"id": "z", "type": "sensors", "config": {"seed": 3}},
        {"id": "work", "alternates": [
            path("one", stream("input a", input="left"), stream("input b", input="right"),
                 stream("a output", output="high"), stream("b output", output="low")),
            path("two", stream("input a", input="left"), stream("input b", input="left"),
                 stream("input b", input="right"), stream("a output", output="high"),
                 stream("b output", output="high"), stream("b output", output="low"), by=5)]},
        {"id": "out", "type": "archive"}, {"id": "more", "type": "archive", "config": {"name": "more"}},
        {"id": "all", "type": "alarm"}],
    "streams": [
        stream("s work", input="left"), stream("z work", input="right"), stream("work out", output="high"),
        stream("work more", output="low"), stream("work all", output="high"), stream("z all")]}


def read(document: dict):
    return read_document(json.dumps(document), task_types=TYPES)


def port(task_id: str, kind: str) -> dict:
    return {"id": task_id, "type": kind, "config": {"port": task_id.rpartition(".")[2]}}


def changed(*where, to=None, **keys) -> dict:
    """The document with something else at a place, or other keys there."""
    whole = deepcopy(SHORT)
    *above, last = where
    at = whole
    for step in above:
        at = at[step]
    at[last] = to if to is not None else {
        key: value for key, value in {**at[last], **keys}.items() if value is not None}
    return whole


def written_out(document: dict) -> dict:
    """The document with the task at each port written out."""
    def expanded(tasks: list, streams: list, ends_of: list) -> tuple[list, list]:
        tasks, flat = [*tasks], []
        for stream in streams:
            ends = {"from": stream["from"], "to": stream["to"]}
            for side, kind, end in ends_of:
                if side in stream:
                    name = f"{stream[end]}.{stream[side]}"
                    if port(name, kind) not in tasks:
                        tasks.append(port(name, kind))
                        whole = {"from": stream["from"], "to": stream["to"]}
                        flat.append({**whole, "to" if end == "from" else "from": name})
                    ends[end] = name
            flat.append(ends)
        return tasks, flat

    tasks = []
    for task in document["tasks"]:
        ways = [dict(way) for way in task.get("alternates", ())]
        for way in ways:
            way["tasks"], way["streams"] = expanded(
                way["tasks"], way["streams"], [("input", "from_port", "from"), ("output", "into_port", "to")])
        tasks.append({**task, "alternates": ways} if ways else task)
    around = [("output", "from_port", "from"), ("input", "into_port", "to")]
    tasks, streams = expanded(tasks, document["streams"], around)
    return {**document, "tasks": tasks, "streams": streams}


@settings(max_examples=60, deadline=None)
@given(with_ports())
@example(SHORT)
def test_ports_are_tasks_that_somebody_could_have_written(document) -> None:
    written, dataflow = written_out(document), read(document)
    assert fingerprints(dataflow, task_types=TYPES) == fingerprints(read(written), task_types=TYPES)
    assert {task.id for task in dataflow.tasks} == {task["id"] for task in written["tasks"]}
    assert read(json.loads(dump_document(dataflow, "json"))) == dataflow


def test_an_alternate_says_its_ports() -> None:
    work = read(SHORT).task("work")
    assert alternates_in(work.type, work.config)[0].summary == (
        "from_port left + from_port right → scale + scale → into_port high + into_port low")


def test_ports_and_parts_of_a_stream_go_together() -> None:
    dataflow = read(changed("streams", 4, split={"of": 2, "part": 1, "by": ["value"]}))
    joined = {(stream.source, stream.target) for stream in dataflow.streams}
    assert joined >= {("work", "work.high"), ("work.high", "work.high.part1of2"), ("work.high.part1of2", "all")}


def test_what_a_stream_says_of_its_selectivity_counts_behind_the_port() -> None:
    dataflow = read(changed("streams", 2, selectivity=0.25))
    rates = input_rates_per_s(dataflow, task_types=TYPES)
    work = dataflow.task("work")
    assert selectivity_at_work(work.type, work.config, TYPES) == 1.0, "each event leaves by one of two outputs"
    assert rates["out"] == 0.25 * rates["work"]
    assert rates["more"] == 0.5 * rates["work"], "each of two outputs has half, where nothing is said"


@pytest.mark.parametrize(("wrong", "code", "place", "words", "remedy"), [
    (changed("streams", 3, output=None), "missing_port", "/streams/3", "by which output of work", "Say which"),
    (changed("streams", 0, input=None), "missing_port", "/streams/0", "by which input of work", "Say which"),
    (changed("streams", 3, output="lwo"), "unknown_port", "/streams/3/output", "has an output lwo", "you mean low?"),
    (changed("streams", 0, input="lfet"), "unknown_port", "/streams/0/input", "has an input lfet", "you mean left?"),
    (changed("streams", 5, output="high"), "unknown_port", "/streams/5/output", "Only a task with alternates", "Leave"),
    (changed("streams", 5, input="high"), "unknown_port", "/streams/5/input", "Only a task with alternates", "Leave"),
    (changed("streams", 0, input="a b"), "invalid_id", "/streams/0/input", "a b", "letters"),
    (changed("streams", 0, input=3), "ill_typed", "/streams/0/input", "must be text", "Write text"),
    (changed("tasks", 2, "alternates", 0, "streams", 2, output="hgih"), "unknown_port",
     "/tasks/2/alternates/0/streams/2/output", "alternate one: No stream leaves work by the output hgih", "mean high?"),
    (changed("tasks", 2, "alternates", 0, "streams", 3, output="high"), "missing_port", "/tasks/2/alternates/0/name",
     "Nothing leaves by the output low", "same outputs"),
    (changed("tasks", 2, "alternates", 0, "streams", 0, input=None), "missing_port",
     "/tasks/2/alternates/0/streams/0", "by which input of work", "Say which"),
    (changed("tasks", 2, "alternates", 0, "streams", 2, input="left"), "unknown_port",
     "/tasks/2/alternates/0/streams/2/input", "Only a task with alternates", "Leave input out"),
    (changed("tasks", 2, "alternates", 1, to={"name": "two", "type": "thin"}), "missing_port",
     "/tasks/2/alternates/1/name", "It has no output with a name", "give it tasks"),
    (changed("tasks", 2, "alternates", 1, "tasks", 0, to={"id": "a", "loop": {
        "times": 2, "tasks": [{"id": "t", "type": "scale", "config": {"by": 2}}],
        "streams": [stream("input t", input="left"), stream("t output")]}}), "unknown_port",
     "/loop/streams/0/input", "Only a task with alternates", "Leave input out"),
])
def test_a_port_that_is_none_is_told_with_its_place(wrong, code, place, words, remedy) -> None:
    with pytest.raises(InvalidDataflow) as refused:
        read(wrong)
    problems = refused.value.problems
    assert any(
        problem.code == code and problem.path.endswith(place) and words in problem.message
        and remedy in problem.remedy for problem in problems), problems


def test_one_wrong_name_is_told_once() -> None:
    with pytest.raises(InvalidDataflow) as refused:
        read(changed("streams", 3, output="lwo"))
    assert [problem.path for problem in refused.value.problems] == ["/streams/3/output"]
