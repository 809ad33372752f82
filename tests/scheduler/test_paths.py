"""Alternates of several tasks: how documents say them, what is refused, what makes two one, and what they cost."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.model.alternate_changes import alternate_changes
from scheduler.model.alternates import alternates_in, done_at_first, types_at_work
from scheduler.model.columns import Columns, UnknownColumn
from scheduler.model.dataflow import Task
from scheduler.model.documents import columns_of_document, dataflow_from_json, dump_document, read_document, to_document
from scheduler.model.errors import InvalidDataflow
from scheduler.model.paths import INPUT, OUTPUT
from scheduler.model.profile import Point, Profile, Profiles
from scheduler.model.task_types import PATH, TaskTypes
from scheduler.performance.pricing import cores_at, cores_at_work
from scheduler.performance.rates import input_rates_per_s
from scheduler.reuse.fingerprint import fingerprints

from .catalogue import PRICES
from .catalogue import TYPES as PLAIN_TYPES

TYPES = TaskTypes([
    replace(kind, effects=()) if kind.name == "count" else kind for kind in PLAIN_TYPES.values()])
DOCUMENT = """
name: Two ways
tasks:
  - {id: s, type: sensors}
  - id: work
    alternates:
      - {name: fast, type: thin}
      - name: careful
        value: 2
        tasks:
          - {id: first, type: scale, config: {by: 2}}
          - {id: less, type: thin}
          - {id: more, type: scale, config: {by: 3}}
        streams:
          - {from: input, to: first}
          - {from: first, to: less}
          - {from: first, to: more}
          - {from: less, to: output}
          - {from: more, to: output}
  - {id: out, type: archive}
streams:
  - {from: s, to: work}
  - {from: work, to: out}
"""


def read(text: str, **checks):
    return read_document(text, task_types=TYPES, **checks)


def problems_of(text: str, **checks) -> list:
    with pytest.raises(InvalidDataflow) as refused:
        read(text, **checks)
    return refused.value.problems


def task(name: str, type: str = "thin", **config) -> dict:
    return {"id": name, "type": type} | ({"config": config} if config else {})


def joining(*chains: str) -> list[dict]:
    return [{"from": source, "to": target} for chain in chains for source, target in pairwise(chain.split())]


def document(path: dict, other: dict | None = None) -> str:
    """The document with something else in the place of the path."""
    whole = json.loads(dump_document(read(DOCUMENT), "json"))
    careful = {"name": "careful", "value": 2, **path}
    whole["tasks"][1]["alternates"] = [other or {"name": "fast", "type": "thin"}, careful]
    return json.dumps(whole)


def id_of(path: dict) -> str:
    return fingerprints(read(document(path)), task_types=TYPES)["out"]


LINE = joining("input a output")


@pytest.mark.parametrize("format", ["json", "yaml"])
def test_a_path_is_read_and_written_in_every_form(format: str) -> None:
    dataflow = read(DOCUMENT)
    work = dataflow.task("work")
    _, careful = alternates_in(work.type, work.config)
    assert careful.type == PATH and [step.id for step in careful.tasks] == ["first", "less", "more"]
    assert careful.summary == "scale → scale + thin"
    assert read(dump_document(dataflow, format)) == dataflow
    assert dataflow_from_json(json.loads(json.dumps(to_document(dataflow)))) == dataflow
    assert PATH in TYPES and PATH not in list(TYPES)
    assert [problem.code for problem in problems_of(document(
        {"tasks": [task("a", PATH)], "streams": LINE}))] == ["unknown_task_type"]


@pytest.mark.parametrize(("path", "code", "place", "words"), [
    ({"tasks": [], "streams": []}, "no_tasks", "/tasks", "no tasks of the path"),
    ({"tasks": [task("a")]}, "missing_key", "", "needs streams"),
    ({"tasks": [task(f"a{n}") for n in range(51)], "streams": []}, "too_many_tasks", "", "51"),
    ({"tasks": [task("a")], "streams": LINE, "type": "thin"}, "type_beside_alternates", "/type", "no type of its own"),
    ({"tasks": [task("a", "thinn")], "streams": LINE}, "unknown_task_type", "/tasks/0/type", "thinn"),
    ({"tasks": [task("a", "count")], "streams": LINE}, "no_alternate", "/tasks/0/id", "keeps state"),
    ({"tasks": [task("a", "archive")], "streams": LINE}, "no_alternate", "/tasks/0/id", "is a sink"),
    ({"tasks": [task("a", "alone")], "streams": LINE}, "no_alternate", "/tasks/0/id", "beyond Weir"),
    ({"tasks": [task("a"), task("a")], "streams": LINE}, "duplicate_id", "/tasks/1/id", "id a"),
    ({"tasks": [task("input")], "streams": joining("input output")}, "invalid_id", "/tasks/0/id", "what enters"),
    ({"tasks": [task("a"), {"id": "b", "alternates": []}], "streams": LINE}, "unknown_key", "/tasks/1/alternates",
     "no key alternates"),
    ({"tasks": [task("a", "scale")], "streams": LINE}, "missing_parameter", "/tasks/0", "by"),
    ({"tasks": [task("a", "scale", by=1, bye=2)], "streams": LINE}, "unknown_parameter", "/tasks/0/config/bye", "bye"),
    ({"tasks": [task("a")], "streams": [*LINE, {"from": "inptu", "to": "a"}]}, "unknown_task", "/streams/2/from",
     "inptu"),
    ({"tasks": [task("a")], "streams": joining("s a output")}, "unknown_task", "/streams/0/from", "task s"),
    ({"tasks": [task("a")], "streams": [*LINE, {"from": "a", "to": "output"}]}, "duplicate_stream", "/streams/2",
     "twice"),
    ({"tasks": [task("a"), task("b", "scale", by=1)], "streams": joining("input a b output", "b a")}, "cycle", "",
     "a → b → a"),
    ({"tasks": [task("a"), task("b", "scale", by=1)], "streams": joining("input a output", "a b")}, "reaches_no_sink",
     "/tasks/1/id", "Task b reaches no sink"),
    ({"tasks": [task("a"), task("b", "scale", by=1)], "streams": joining("input a output", "b output")},
     "missing_input", "/tasks/1/id", "b has no input"),
    ({"tasks": [task("a")], "streams": joining("input a")}, "reaches_no_sink", "", "Task a"),
    ({"tasks": [task("a")], "streams": joining("input a")}, "missing_input", "", "no stream goes to output"),
    ({"tasks": [task("a"), task("b")], "streams": joining("input a output", "input b output")}, "equivalent_tasks",
     "/tasks/1/id", "Tasks a and b do the same"),
    ({"tasks": [task("a")], "streams": [{"from": "input", "to": "a", "selectivity": 2}, LINE[1]]}, "unknown_key",
     "/streams/0/selectivity", "no key selectivity"),
])
def test_a_mistake_in_a_path_is_told_with_its_place(path: dict, code: str, place: str, words: str) -> None:
    by_code = {problem.code: problem for problem in problems_of(document(path))}
    assert code in by_code, by_code
    problem = by_code[code]
    assert words in problem.message and problem.remedy
    assert problem.path.startswith("/tasks/1/alternates/1") and problem.path.endswith(place)
    assert problem.task_id == "work" or code == "too_many_tasks", "which ends the reading"


def test_what_is_wrong_along_a_path_names_it_and_the_nearest() -> None:
    misspelled = {"tasks": [task("first")], "streams": joining("input frist", "input first output")}
    [wrong] = problems_of(document(misspelled))
    assert wrong.message.startswith("Task work, alternate careful: ") and "Did you mean first?" in wrong.remedy


def columns_of(kind, inputs: Columns, config) -> Columns:
    if kind.name == "scale":
        if "reading" not in inputs.types and inputs.complete and inputs.types and config["by"] == 13:
            raise UnknownColumn("There is no column reading.", remedy="Did you mean readings?", parameter="by")
        return Columns.stream({"reading": "double", **({"label": "string"} if config["label"] else {})})
    return Columns.stream({"readings": "double"}) if kind.name in ("thin", "sensors") else inputs


def test_columns_follow_a_path() -> None:
    both = {"name": "fast", "type": "scale", "config": {"by": 1}}
    line = {"tasks": [task("a"), task("b", "scale", by=2)], "streams": joining("input a b output")}
    read(document(line, both), columns_of=columns_of)
    columns = columns_of_document(document(line, both), task_types=TYPES, columns_of=columns_of)
    assert columns["work"].outputs.types["reading"] == "double"
    [wrong] = problems_of(document({**line, "tasks": [task("a"), task("b", "scale", by=13)]}, both),
                          columns_of=columns_of)
    assert (wrong.code, wrong.path) == ("unknown_column", "/tasks/1/alternates/1/tasks/1/config/by")
    assert wrong.message == "Task work, alternate careful: Task b: There is no column reading."
    [differ] = problems_of(document({**line, "streams": joining("input b a output")}, both), columns_of=columns_of)
    assert differ.code == "alternates_differ" and "Did you mean readings?" in differ.remedy


@pytest.mark.parametrize("path", [
    {"tasks": 3, "streams": []}, {"tasks": [3, {"id": 4}], "streams": {}}, {"tasks": [task("a")]},
    {"tasks": [task("a")], "streams": [{"from": 3}, 4]}, {"tasks": [{"id": "a", "loop": 3}], "streams": LINE},
    {"tasks": [task("a", "thinn")], "streams": joining("a b a")}])
def test_what_is_half_written_has_columns_where_it_can(path: dict) -> None:
    assert problems_of(document(path))
    columns = columns_of_document(document(path), task_types=TYPES, columns_of=columns_of)
    assert columns["s"].outputs.types


# -- what makes two one ------------------------------------------------------------------------------------------------

KINDS = [("scale", {"by": 1}), ("scale", {"by": 2}), ("scale", {"by": 3}), ("thin", {})]


@st.composite
def paths(draw: st.DrawFn) -> dict:
    """A path whose tasks are all different, each of them fed and read."""
    number = draw(st.integers(1, 5))
    tasks = [{"id": f"t{n}", "type": "scale", "config": {"by": n + 1}} if draw(st.booleans())
             else {"id": f"t{n}", "type": "scale", "config": {"by": 1, "weights": [n]}} for n in range(number)]
    streams = []
    for n in range(number):
        above = draw(st.lists(st.sampled_from(["input", *(f"t{m}" for m in range(n))]), min_size=1, unique=True))
        streams += [{"from": source, "to": f"t{n}"} for source in above]
    read_by_some = {stream["from"] for stream in streams}
    streams += [{"from": f"t{n}", "to": "output"} for n in range(number)
                if f"t{n}" not in read_by_some or draw(st.booleans())]
    return {"tasks": tasks, "streams": streams}


@settings(max_examples=60, deadline=None)
@given(paths(), st.data())
def test_ids_and_order_do_not_count(path: dict, data) -> None:
    names = data.draw(st.permutations([f"n{n}" for n in range(len(path["tasks"]))]))
    new = {task["id"]: name for task, name in zip(path["tasks"], names, strict=True)}
    other = {
        "tasks": data.draw(st.permutations([{**task, "id": new[task["id"]]} for task in path["tasks"]])),
        "streams": data.draw(st.permutations([
            {key: new.get(end, end) for key, end in stream.items()} for stream in path["streams"]]))}
    assert id_of(path) == id_of(other)


def graph(path: dict) -> nx.DiGraph:
    made = nx.DiGraph()
    made.add_node("input", label="input")
    made.add_node("output", label="output")
    for step in path["tasks"]:
        made.add_node(step["id"], label=json.dumps(step["config"], sort_keys=True))
    made.add_edges_from((stream["from"], stream["to"]) for stream in path["streams"])
    return made


@settings(max_examples=60, deadline=None)
@given(paths(), paths())
def test_two_paths_are_one_just_when_their_graphs_are(one: dict, other: dict) -> None:
    isomorphic = nx.is_isomorphic(graph(one), graph(other), node_match=lambda left, right: left == right)
    assert (id_of(one) == id_of(other)) == isomorphic


def test_a_path_of_one_task_is_that_task() -> None:
    alone = {"type": "scale", "config": {"by": 2}}
    assert id_of(alone) == id_of({"tasks": [task("a", "scale", by=2.0)], "streams": LINE})
    beside = {"tasks": [task("a", "scale", by=2.0)], "streams": [*LINE, {"from": "input", "to": "output"}]}
    assert id_of(beside) != id_of(alone)


# -- what they cost ----------------------------------------------------------------------------------------------------


def test_rates_and_cost_are_those_of_the_tasks_chained() -> None:
    dataflow = read(DOCUMENT)  # 10/s enter: scale 10/s, then thin 10/s and scale 10/s; 1/s and 10/s leave
    assert input_rates_per_s(dataflow, task_types=TYPES)["out"] == pytest.approx(11)
    work = dataflow.task("work")
    at_work = types_at_work(work.type, work.config, TYPES)
    assert [(kind.name, share) for kind, share in at_work] == [("scale", 1), ("thin", 1), ("scale", 1)]
    cores = cores_at_work(work.type, work.config, 10.0, task_types=TYPES, prices=PRICES)
    assert cores == pytest.approx(2 * cores_at(TYPES["scale"], 10, prices=PRICES) + cores_at(
        TYPES["thin"], 10, prices=PRICES))
    line = read(document({"tasks": [task("a"), task("b", "scale", by=1)], "streams": joining("input a b output")}))
    work = line.task("work")
    assert [share for _, share in types_at_work(work.type, work.config, TYPES)] == pytest.approx([1, 0.1])
    assert input_rates_per_s(line, task_types=TYPES)["out"] == pytest.approx(1)


def test_the_profile_of_a_path_is_what_its_tasks_come_to_in_one_query() -> None:
    thin = Profile("thin", (Point(1, 1_000.0, 0.5, 0.2, idle_cpu=0.1), Point(2, 2_000.0, 0.6, 0.2)), machine="m")
    scale = Profile("scale", (Point(1, 100.0, 1.0, 0.1, idle_cpu=0.2),), machine="m", origin="estimated by trials")
    work = Task("work", "dynamic", {"alternates": [
        {"name": "p", "tasks": [task("a"), task("b", "scale", by=1)], "streams": joining("input a b output")},
        {"name": "z", "type": "thin", "value": 0.5}]})
    assert [(step.type, share) for step, share in done_at_first(work, TYPES)] == [("thin", 1.0), ("scale", 0.1)]
    profile = Profiles([thin, scale], task_types=TYPES).find(work)
    assert profile is not None and [point.threads for point in profile.points] == [1]
    assert profile.one_thread.rate_per_s == pytest.approx(1 / (1 / 1_000 + 0.1 / 100))  # 500/s: half of the time each
    assert profile.one_thread.cpu == pytest.approx(0.75) and profile.one_thread.memory == pytest.approx(0.3)
    assert (profile.machine, profile.origin) == ("m", "estimated by trials")
    assert Profiles([thin], task_types=TYPES).find(work) is None


# -- what differs ------------------------------------------------------------------------------------------------------


def test_what_differs_between_versions_is_told_down_to_parameters() -> None:
    def alternates(*listed: dict):
        return alternates_in("dynamic", {"alternates": listed})

    before = alternates(
        {"name": "fast", "type": "thin", "value": 1},
        {"name": "careful", "value": 2, "tasks": [task("a"), task("b", "scale", by=1)],
         "streams": joining("input a b output")},
        {"name": "old", "type": "thin"}, {"name": "same", "type": "scale", "config": {"by": 1}})
    after = alternates(
        {"name": "careful", "value": 4, "guard": "rate > 1",
         "tasks": [task("b", "scale", by=2), task("c", "scale", by=1)],
         "streams": joining("input b c output")},
        {"name": "fast", "type": "scale", "config": {"by": 1}, "value": 2}, {"name": "new", "type": "thin", "value": 2},
        {"name": "same", "type": "scale", "config": {"by": 1.0, "weights": []}, "value": 2})
    assert alternate_changes(before, before, task_types=TYPES) == []
    assert alternate_changes(before, after, task_types=TYPES) == [
        "Alternate fast: type scale instead of thin.",
        "Alternate careful may be on while rate > 1, not always.",
        "Alternate careful: task a is gone.", "Alternate careful: task b, by 2.0 instead of 1.0.",
        "Alternate careful: task c is new.", "Alternate careful: the stream input -> a is gone.",
        "Alternate careful: the stream a -> b is gone.", "Alternate careful: the stream b -> output is gone.",
        "Alternate careful: the stream input -> b is new.", "Alternate careful: the stream b -> c is new.",
        "Alternate careful: the stream c -> output is new.", "Alternate old is gone.", "Alternate new is new."]
    cheaper = [replace(way, value=1.0 if way.name == "careful" else way.value) for way in before]
    assert "Alternate careful is worth 1, not 0.5." in alternate_changes(
        [replace(way, value=2.0 if way.name == "old" else 1.0) for way in cheaper], cheaper, task_types=TYPES)
    line, one = before[1], before[0]
    turned = alternate_changes([line], [replace(one, name="careful", value=1)], task_types=TYPES)
    assert turned == ["Alternate careful: thin instead of thin → scale."]


def test_a_path_is_followed_upstream_first_and_what_several_read_is_shared() -> None:
    path = alternates_in("dynamic", read(DOCUMENT).task("work").config)[1].path
    assert path is not None and path.shared() == {"first"}
    assert list(path.parents()) == ["first", "less", "more", OUTPUT] and path.parents()["first"] == (INPUT,)
    made = path.follow(
        "x", work=lambda step, read: f"{step.id}({read})", join=lambda left, right: f"{left}+{right}",
        share=lambda read: f"<{read}>")
    assert made == "less(<first(x)>)+more(<first(x)>)"
