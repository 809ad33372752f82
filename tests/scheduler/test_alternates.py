"""Dynamic tasks: how documents say their alternates, what is refused, and what makes two of them one."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from operator import itemgetter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.alternates import TaskAlternate, alternates_in, first_on, in_waves, types_at_work
from scheduler.model.canonical import canonical_config, canonical_json
from scheduler.model.columns import Columns, UnknownColumn
from scheduler.model.documents import columns_of_document, dataflow_from_json, dump_document, read_document, to_document
from scheduler.model.errors import InvalidDataflow
from scheduler.model.task_types import DYNAMIC, DYNAMIC_FOLD, Parameter, TaskType, TaskTypes
from scheduler.performance.rates import input_rates_per_s
from scheduler.reuse.fingerprint import fingerprints

from .catalogue import TYPES as PLAIN_TYPES

TREND = TaskType(
    "trend", "transform", "Keeps what it has seen, and says something of it.", "none:none",
    (Parameter("how", "string", "A way.", default="mean"), Parameter("keep", "integer", "How much.", default=5),
     Parameter("by", "list", "Key.", items="string", default=["sensor"]),
     Parameter("idle", "number", "Silence.", required=False)),
    stateful=True, movable_state=True, effects=(), key="by", shares_state=("how",))
SPARKS = TaskType("sparks", "transform", "Keeps state of Spark's own.", "none:none", stateful=True, effects=())
TYPES = TaskTypes([
    *(replace(kind, effects=()) if kind.name in ("thin", "scale", "count") else kind for kind in PLAIN_TYPES.values()),
    TREND, replace(TREND, name="other"), SPARKS])
DOCUMENT = """
name: Two ways
tasks:
  - {id: s, type: sensors}
  - id: work
    alternates:
      - {name: fast, type: thin, value: 2, guard: "latency_ms > 2000"}
      - {name: exact, type: scale, config: {by: 2}, value: 3}
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


def work(**changes) -> str:
    """The document with something else in the place of the task's alternates, as JSON."""
    document = json.loads(dump_document(read(DOCUMENT), "json"))
    task = document["tasks"][1]
    task.update(changes)
    for key in [key for key, value in task.items() if value is ...]:
        del task[key]
    return json.dumps(document)


def alternate(name: str, type: str = "thin", **more) -> dict:
    return {"name": name, "type": type, **more}


@pytest.mark.parametrize("format", ["json", "yaml"])
def test_a_dynamic_task_is_read_and_written_in_every_form(format: str) -> None:
    dataflow = read(DOCUMENT)
    task = dataflow.task("work")
    assert alternates_in(task.type, task.config) == (
        TaskAlternate("fast", "thin", {}, 2, "latency_ms > 2000"), TaskAlternate("exact", "scale", {"by": 2}, 3))
    assert read(dump_document(dataflow, format)) == dataflow
    assert dataflow_from_json(json.loads(json.dumps(to_document(dataflow)))) == dataflow
    assert "type" not in to_document(dataflow)["tasks"][1]


def test_no_document_names_the_type_of_dynamic_tasks() -> None:
    assert DYNAMIC in TYPES and DYNAMIC not in list(TYPES)
    assert [problem.code for problem in problems_of(work(alternates=..., type=DYNAMIC))] == ["unknown_task_type"]


@pytest.mark.parametrize(("changes", "code", "path", "words"), [
    ({"type": "thin"}, "type_beside_alternates", "/tasks/1/type", "no type of its own"),
    ({"config": {"by": 1}}, "type_beside_alternates", "/tasks/1/config", "no config of its own"),
    ({"alternates": ...}, "missing_key", "/tasks/1", "needs type"),
    ({"alternates": {}}, "ill_typed", "/tasks/1/alternates", "must be a list"),
    ({"alternates": []}, "too_few_alternates", "/tasks/1/alternates", "no alternates"),
    ({"alternates": [alternate("a")]}, "too_few_alternates", "/tasks/1/alternates", "one of the alternates only"),
    ({"alternates": [alternate(f"a{n}") for n in range(17)]}, "too_many_alternates", "", "17"),
    ({"alternates": [alternate("a"), alternate("a")]}, "duplicate_alternate", "/tasks/1/alternates/1/name", "called a"),
    ({"alternates": [alternate("a"), alternate("b", "thinn")]}, "unknown_task_type", "/tasks/1/alternates/1/type",
     "thinn"),
    ({"alternates": [alternate("a"), alternate("b", "count")]}, "no_alternate", "/tasks/1/alternates/1/type",
     "keeps state"),
    ({"alternates": [alternate("a"), alternate("b", "archive")]}, "no_alternate", "/tasks/1/alternates/1/type",
     "is a sink"),
    ({"alternates": [alternate("a"), alternate("b", "alone")]}, "no_alternate", "/tasks/1/alternates/1/type",
     "reaches beyond Weir"),
    ({"alternates": [alternate("a"), alternate("b", value=0)]}, "not_positive", "/tasks/1/alternates/1/value", "is 0"),
    ({"alternates": [alternate("a"), alternate("b", guard=3)]}, "ill_typed", "/tasks/1/alternates/1/guard", "text"),
    ({"alternates": [alternate("a"), alternate("b", gaurd="x")]}, "unknown_key", "/tasks/1/alternates/1/gaurd",
     "no key gaurd"),
    ({"alternates": [alternate("a"), alternate("b b")]}, "invalid_id", "/tasks/1/alternates/1/name", "not allowed"),
    ({"alternates": [alternate("a"), {"type": "thin"}]}, "missing_key", "/tasks/1/alternates/1", "needs name"),
    ({"alternates": [alternate("a"), alternate("b", "scale")]}, "missing_parameter", "/tasks/1/alternates/1", "by"),
    ({"alternates": [alternate("a"), alternate("b", "scale", config={"bye": 1, "by": 2})]}, "unknown_parameter",
     "/tasks/1/alternates/1/config/bye", "bye"),
    ({"rate": 5}, "rate_of_no_source", "/tasks/1/rate", "only sources"),
])
def test_a_mistake_is_told_with_its_place(changes: dict, code: str, path: str, words: str) -> None:
    types = {problem.code: problem for problem in problems_of(work(**changes))}
    assert code in types, types
    assert words in types[code].message
    assert types[code].path == path or not path
    assert types[code].remedy


def along(*types: str, apart: bool = False) -> dict:
    """A path of tasks one behind the other, or each on a branch of its own."""
    ids = [f"p{number}" for number in range(1, len(types) + 1)]
    rows = [[step_id] for step_id in ids] if apart else [ids]
    return {
        "name": "path",
        "tasks": [{"id": step_id, "type": kind, "config": {"keep": number} if kind == "trend" and apart else {}}
                  for number, (step_id, kind) in enumerate(zip(ids, types, strict=True), 5)],
        "streams": [{"from": source, "to": target} for row in rows
                    for source, target in zip(["input", *row], [*row, "output"], strict=True)]}


def trends(*configs: dict, **more) -> dict:
    return {"alternates": [alternate(f"a{n}", "trend", config=config) for n, config in enumerate(configs)], **more}


@pytest.mark.parametrize(("changes", "code", "path", "words"), [
    (trends({}, {"how": "last"}), "no_alternate", "/tasks/1/alternates/0/type", "does not say how"),
    ({"alternates": [alternate("a"), alternate("b")], "begin": "fresh"}, "no_alternate", "/tasks/1/begin",
     "No alternate keeps state"),
    ({"alternates": [alternate("a", "trend"), alternate("b", "sparks")], "begin": "fresh"}, "no_alternate",
     "/tasks/1/alternates/1/type", "Spark's own"),
    ({"alternates": [alternate("a", "count"), alternate("b", "count")], "begin": "shared"}, "no_alternate",
     "/tasks/1/alternates/0/type", "go on with the state"),
    (trends({}, {"idle": 3}, begin="fresh"), "no_alternate", "/tasks/1/alternates/1/config/idle", "in silence"),
    (trends({}, {}, begin="warm"), "not_a_choice", "/tasks/1/begin", "warm"),
    (trends({}, {"keep": 6}, begin="shared"), "no_shared_state", "/tasks/1/alternates/1/name", "differ in keep"),
    ({"alternates": [alternate("a", "trend"), alternate("b", "other")], "begin": "shared"}, "no_shared_state",
     "/tasks/1/alternates/1/name", "two types"),
    (trends({}, {}, begin="fresh", by=["sensor"]), "no_shared_state", "/tasks/1/by", "share their state"),
    (trends({}, {}, by=["sensor"]), "no_alternate", "/tasks/1/alternates/0/type", "does not say how"),
    ({"alternates": [alternate("a", "trend"), alternate("b")], "begin": "shared", "by": ["sensor"]}, "no_shared_state",
     "/tasks/1/by", "each is one task with state"),
    ({"alternates": [along("trend", "trend"), alternate("b", "trend", config={"keep": 6})], "begin": "shared"},
     "no_shared_state", "/tasks/1/alternates/1/name", "p1 and its task differ in keep"),
    ({"alternates": [along("trend", "count"), alternate("b", "trend")], "begin": "shared"}, "no_alternate",
     "/tasks/1/alternates/0/tasks/1/id", "go on with the state"),
    ({"alternates": [along("trend", "trend", apart=True), alternate("b", "trend")], "begin": "shared"},
     "no_shared_state", "/tasks/1/alternates/0/tasks/1/id", "on two branches"),
    ({"alternates": [along("trend", "thin"), alternate("b")]}, "no_alternate", "/tasks/1/alternates/0/tasks/0/id",
     "does not say how"),
    ({"alternates": [along(*["trend"] * 9), alternate("b")], "begin": "fresh"}, "too_many_tasks",
     "/tasks/1/alternates/0/name", "9 tasks of alternate path keep state"),
    (trends({}, {}, begin="shared", by=["sensro"]), "no_shared_state", "/tasks/1/by/0", "keep their state by sensor"),
    (trends({}, {}, begin="shared", by="sensor"), "ill_typed", "/tasks/1/by", "must be a list"),
    (trends({}, {}, begin="shared", learned={}), "no_shared_state", "/tasks/1/learned", "no key is named"),
    ({"alternates": [alternate("a"), alternate("b")], "by": ["sensor"], "learned": {}}, "no_shared_state",
     "/tasks/1/learned", "forecasts"),
    (trends({}, {}, begin="shared", by=["sensor"], learned={"bound": 0}), "not_positive", "/tasks/1/learned/bound",
     "0"),
    (trends({}, {}, begin="shared", by=["sensor"], learned={"bond": 1}), "unknown_key", "/tasks/1/learned/bond",
     "bond"),
    (trends({}, {}, begin="shared", by=[3]), "ill_typed", "/tasks/1/by/0", "must be text"),
])
def test_what_state_does_not_allow_is_told_with_its_place(changes: dict, code: str, path: str, words: str) -> None:
    problems = problems_of(work(**changes))
    [problem] = [problem for problem in problems if problem.code == code and problem.path == path]
    assert words in problem.message and problem.remedy


@pytest.mark.parametrize("changes", [
    trends({}, {"keep": 6}, begin="fresh"), trends({}, {"how": "last", "keep": 5}, begin="shared"),
    trends({"by": ["sensor", "place"]}, {"by": ["sensor", "place"], "how": "last"}, begin="shared", by=["place"]),
    {"alternates": [alternate("a", "trend"), alternate("b", "count")], "begin": "fresh"},
    trends({}, {"how": "last"}, begin="shared", by=["sensor"], learned={"bound": 0.2}),
    trends({}, {"how": "last"}, begin="shared", by=["sensor"], learned={}),
    {"alternates": [along("trend", "count", "thin"), alternate("b", "trend")], "begin": "fresh", "warm": "10 s"},
    {"alternates": [along("trend", "trend", apart=True), alternate("b")], "begin": "fresh"},
    {"alternates": [along("trend", "thin", "trend"), alternate("b", "trend"), alternate("c")], "begin": "shared"},
])
def test_alternates_with_state_say_how_they_begin_and_for_whom_they_are_on(changes: dict) -> None:
    dataflow = read(work(**changes))
    task = dataflow.task("work")
    assert task.type == DYNAMIC_FOLD and TYPES[task.type].stateful and TYPES[task.type].can_move
    assert DYNAMIC_FOLD not in list(TYPES)
    assert read(dump_document(dataflow)) == dataflow
    assert dataflow_from_json(json.loads(json.dumps(to_document(dataflow)))) == dataflow
    assert to_document(dataflow)["tasks"][1]["begin"] == changes["begin"]


def test_how_alternates_begin_and_by_what_they_are_switched_is_what_a_task_is() -> None:
    ways = trends({}, {"how": "last"})
    keyed = {"begin": "shared", "by": ["sensor"]}
    ways_to_begin = [{"begin": "fresh"}, {"begin": "shared"}, keyed, {**keyed, "learned": {"bound": 0.2}},
            {**keyed, "learned": {"bound": 0.3}}]
    ids = [fingerprints(read(work(**ways, **begins)), task_types=TYPES)["out"] for begins in ways_to_begin]
    assert len(set(ids)) == len(ways_to_begin)
    keys = [fingerprints(read(work(**trends({"by": ["a", "b"]}, {"by": ["a", "b"]}), begin="shared", by=by)),
                         task_types=TYPES)["out"] for by in (["a", "b"], ["b", "a"], ["a", "b", "a"], ["a"])]
    assert len(set(keys[:3])) == 1 and keys[3] != keys[0]


def columns_of(task_type, inputs: Columns, config) -> Columns:
    if task_type.name == "scale":
        if config["by"] == 13:
            raise UnknownColumn("There is no column lucky.", remedy="Choose another.", parameter="by")
        return Columns.stream({"reading": "double", **({"label": "string"} if config["label"] else {})})
    if task_type.name == "thin":
        return Columns.stream({"readings": "double"})
    return Columns.unknown() if inputs.types == {} else inputs


def scales(*configs: dict) -> str:
    return work(alternates=[
        alternate(f"a{number}", "scale", config=config) for number, config in enumerate(configs)])


def test_alternates_give_one_schema() -> None:
    read(scales({"by": 1}, {"by": 2}), columns_of=columns_of)
    [less] = problems_of(scales({"by": 1, "label": "x"}, {"by": 2}), columns_of=columns_of)
    assert (less.code, less.path) == ("alternates_differ", "/tasks/1/alternates/1/name")
    assert "Alternate a1 gives no column label, which a0 gives." in less.message
    [wrong] = problems_of(scales({"by": 1}, {"by": 13}), columns_of=columns_of)
    assert (wrong.code, wrong.path) == ("unknown_column", "/tasks/1/alternates/1/config/by")
    assert "alternate a1" in wrong.message
    near = work(alternates=[alternate("a", "scale", config={"by": 1}), alternate("b")])
    [named] = problems_of(near, columns_of=columns_of)
    assert "Did you mean readings?" in named.remedy
    columns = columns_of_document(scales({"by": 1}, {"by": 2}), task_types=TYPES, columns_of=columns_of)
    assert columns["work"].outputs.types["reading"] == "double"


@pytest.mark.parametrize("text", [
    work(alternates={}), work(alternates=[3, alternate("a")]), work(alternates=[{}, {}]),
    work(alternates=[alternate("a", "count"), alternate("a", 4)])])
def test_what_is_half_written_has_columns_where_it_can(text: str) -> None:
    columns = columns_of_document(text, task_types=TYPES, columns_of=columns_of)
    assert columns["work"].inputs.types


ONE = st.fixed_dictionaries({
    "name": st.sampled_from("abcd"), "type": st.just("scale"), "value": st.floats(0.01, 100),
    "guard": st.sampled_from(["", "x > 1", "x > 2"]), "config": st.fixed_dictionaries({"by": st.integers(1, 2)})})


@given(st.lists(ONE, min_size=2, max_size=4, unique_by=itemgetter("name")), st.randoms(), st.floats(0.1, 10))
def test_order_scale_and_spelling_do_not_count(alternates: list, rng: random.Random, scale: float) -> None:
    def canonical(listed: list) -> str:
        return canonical_json(canonical_config(TYPES[DYNAMIC], {"alternates": listed}))

    spelled = [
        {**way, "value": way["value"] * scale, "guard": f"  {way['guard']} ".replace(" ", "  "),
         "config": {"by": float(way["config"]["by"]), "weights": []}} for way in alternates]
    rng.shuffle(spelled)
    assert canonical(spelled) == canonical(alternates)
    again = json.loads(canonical(alternates))["alternates"]
    assert canonical(again) == canonical(alternates)
    assert max(way["value"] for way in again) == 1.0


@given(st.lists(ONE, min_size=2, max_size=4, unique_by=itemgetter("name")), st.data())
def test_everything_else_counts(alternates: list, data) -> None:
    place = data.draw(st.integers(0, len(alternates) - 1))
    key, value = data.draw(st.sampled_from([
        ("guard", "x > 3"), ("name", "z"), ("config", {"by": 7}), ("value", alternates[place]["value"] * 1.5)]))
    others = [dict(way) for way in alternates]
    others[place][key] = value

    def id_of(listed: list) -> str:
        dataflow = read(DOCUMENT)
        tasks = tuple(
            replace(task, config={"alternates": listed}) if task.id == "work" else task for task in dataflow.tasks)
        return fingerprints(replace(dataflow, tasks=tasks), task_types=TYPES)["out"]

    assert id_of(alternates) != id_of(others)


def test_that_of_the_highest_value_is_on_first_and_says_cost_and_selectivity() -> None:
    dataflow = read(DOCUMENT)
    task = dataflow.task("work")
    assert first_on(alternates_in(task.type, task.config)).name == "exact"
    assert first_on((TaskAlternate("b", "thin"), TaskAlternate("a", "scale"))).name == "a"
    assert [kind.name for kind, _ in types_at_work(task.type, task.config, TYPES)] == ["scale"]
    assert [kind.name for kind, _ in types_at_work(task.type, task.config, TYPES, on="fast")] == ["thin"]
    assert input_rates_per_s(dataflow, task_types=TYPES)["out"] == 10
    turned = read(DOCUMENT.replace("value: 2", "value: 4"))
    assert input_rates_per_s(turned, task_types=TYPES)["out"] == pytest.approx(1)


def test_tasks_that_switch_in_waves_are_others_than_those_that_switch_fast() -> None:
    fast, wave = read(DOCUMENT), read(DOCUMENT + "switching: wave\n")
    assert read(DOCUMENT + "switching: fast\n") == fast
    assert dataflow_from_json(to_document(wave)) == wave == read(dump_document(wave))
    assert "switching" not in to_document(fast) and to_document(wave)["switching"] == "wave"
    fast_ids, others = (fingerprints(document, task_types=TYPES) for document in (fast, wave))
    assert fast_ids["s"] == others["s"] and fast_ids["work"] != others["work"]


@pytest.mark.parametrize(("more", "code"), [
    ({"begin": "fresh"}, ""), ({"begin": "shared"}, ""), ({"begin": "fresh", "warm": 5}, "warm up"),
    ({"begin": "shared", "by": ["sensor"]}, "by key")])
def test_alternates_with_state_switch_in_waves_as_a_whole(more: dict, code: str) -> None:
    document = json.dumps(json.loads(work(**trends({}, {"how": "last"}, **more))) | {"switching": "wave"})
    if code:
        [problem] = problems_of(document)
        assert code in problem.message and problem.path == f"/tasks/1/{[*more][-1]}" and problem.remedy
        return
    task = read(document).task("work")
    assert in_waves(task.type, task.config) and read(dump_document(read(document))) == read(document)


def test_tasks_without_state_are_switched_by_key() -> None:
    def keyed(*by: str) -> str:
        return work(alternates=[alternate("a"), alternate("b", "scale", config={"by": 2})], by=by)

    task = read(keyed("sensor")).task("work")
    assert task.type == DYNAMIC and list(task.config["by"]) == ["sensor"] and not TYPES[task.type].stateful
    assert read(dump_document(read(keyed("sensor")))) == read(keyed("sensor"))
    ids = [fingerprints(read(text), task_types=TYPES)["work"] for text in (
        work(), work(by=...), keyed("a", "b"), keyed("b", "a"), keyed("a"))]
    assert ids[0] == ids[1] != ids[2] == ids[3] != ids[4]

    def columns(task_type, inputs: Columns, config) -> Columns:
        given = {"sensors": {"sensor": "string", "heat": "double"}}
        return Columns.stream(given.get(task_type.name, {"readings": "double"}))

    read(keyed("sensor"), columns_of=columns)
    for name, code in (("sensro", "unknown_column"), ("heat", "wrong_column_type")):
        [problem] = problems_of(keyed(name), columns_of=columns)
        assert (problem.code, problem.path) == (code, "/tasks/1/by/0")


def test_switching_is_refused_where_there_is_nothing_to_switch_or_no_such_way() -> None:
    static = json.loads(work(alternates=..., type="thin")) | {"switching": "wave"}
    [problem] = problems_of(json.dumps(static))
    assert problem.code == "nothing_to_switch" and "give a task alternates" in problem.remedy
    [problem] = problems_of(DOCUMENT + "switching: waves\n")
    assert (problem.code, problem.line) == ("not_a_choice", 13) and "fast or wave" in problem.remedy
