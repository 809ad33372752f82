"""Documents of every kind: they round-trip, fit the published schema, and nothing but InvalidDataflow is raised."""

from __future__ import annotations

import json

import jsonschema
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.model import structure
from scheduler.model.documents import dataflow_from_json, dump_document, read_document, to_document
from scheduler.model.duplicates import deduplicate, equivalent_tasks
from scheduler.model.errors import InvalidDataflow
from scheduler.model.schema import dataflow_schema
from scheduler.reuse.fingerprint import fingerprints

from .catalogue import TYPES, flow
from .strategies import dataflows

SHORT = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
LONG = settings(SHORT, max_examples=10_000)
RULES = {code.partition(" ")[0] for code in structure.CODES}
SCHEMA = jsonschema.Draft202012Validator(dataflow_schema())

TURNING = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
storable_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0" + TURNING), max_size=20)
AWKWARD = st.sampled_from(
    ["yes", "no", "null", "~", "1e3", "0x1F", "0o17", ".inf", "-.5", "12:30", "<<", "=", "", " a ", "a: b", "# c",
     "- d", "*e", "&f", "!g", "%h", "@i", "\ttab", "line\nbreak", "\u2028", "\x85", "\x7f", "🌊", "'", '"',
     "2020-01-01", "1_000"]
)
texts = AWKWARD | storable_text
scalars = st.none() | st.booleans() | st.integers(-(10**20), 10**20) | texts | st.floats(
    allow_nan=False, allow_infinity=False
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3), max_leaves=8
)
simple = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.text("aå🌊 :-#.1", max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("aå🌊 :-#.1", max_size=20), inner, max_size=3),
)
MEANT = [
    "name", "tasks", "streams", "rates", "description", "visibility", "id", "type", "config", "rate", "from",
    "to", "selectivity", "s", "t", "o", "sensors", "scale", "archive", "by", "city", "seed", "spouts", "bolts",
    "className", "properties", "weir.type", "value", "$schema", "shared", "private", "delft",
    "alternates", "loop", "times", "split", "of", "part", "input", "output",
]
meant = st.sampled_from(MEANT)
almost = st.recursive(
    scalars | meant, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(meant | texts, inner, max_size=5),
    max_leaves=30,
)


def read_or_refuse(text, **options) -> None:
    try:
        dataflow = read_document(text, task_types=TYPES, **options)
    except InvalidDataflow as error:
        assert error.problems
        places = [(problem.line, problem.column) for problem in error.problems]
        assert all(line >= 1 and column >= 1 for line, column in places)
        assert all(problem.message and problem.remedy for problem in error.problems)
        json.dumps(error.as_dict()).encode()
    else:
        SCHEMA.validate(to_document(dataflow))


@SHORT
@given(dataflows(), texts, st.dictionaries(texts, values, max_size=3), st.sampled_from(["json", "yaml"]))
def test_what_is_written_is_read_back(dataflow, description, options, format):
    extended = flow("x", {"s": "sensors", "t": ("scale", {"by": 1, "options": options}), "o": "archive"}, "s > t > o")
    for written in (dataflow, type(dataflow)(**_fields(extended) | {"description": description})):
        text = dump_document(written, format)
        assert read_document(text, task_types=TYPES, format=format) == written
        assert dataflow_from_json(json.loads(json.dumps(to_document(written)))) == written
        SCHEMA.validate(to_document(written))


@SHORT
@given(dataflows())
def test_our_yaml_means_the_same_to_others(dataflow):
    assert yaml.safe_load(dump_document(dataflow)) == to_document(dataflow)


@SHORT
@given(simple)
def test_json_and_yaml_are_refused_alike(value):
    """JSON text is YAML text too, but for control characters; read as either, it has the same problems."""
    text, codes = json.dumps(value, indent=1, ensure_ascii=False), []
    for format in ("json", "yaml"):
        with pytest.raises(InvalidDataflow) as raised:
            read_document(text, task_types=TYPES, format=format)
        codes.append(sorted(problem.code for problem in raised.value.problems))
    assert codes[0] == codes[1]


@SHORT
@given(st.text(max_size=200) | st.binary(max_size=200), st.sampled_from([None, "json", "yaml"]))
def test_any_text_is_read_or_refused(text, format):
    read_or_refuse(text, format=format)


@SHORT
@given(almost, st.sampled_from(["json", "yaml"]))
def test_any_value_is_read_or_refused(value, format):
    text = json.dumps(value) if format == "json" else yaml.safe_dump(value, allow_unicode=True)
    read_or_refuse(text, format=format)


@st.composite
def damaged(draw: st.DrawFn):
    """The text of a valid dataflow, some of it cut out, doubled or replaced."""
    format = draw(st.sampled_from(["json", "yaml"]))
    text = dump_document(draw(dataflows()), format)
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(text)))
        end = draw(st.integers(start, min(len(text), start + 30)))
        instead = draw(st.sampled_from(["", text[start:end] * 2, "\n", "*", "&a ", "]"]) | texts)
        text = text[:start] + instead + text[end:]
    return text, draw(st.sampled_from([format, None]))


@SHORT
@given(damaged())
def test_a_damaged_document_is_read_or_refused(document):
    read_or_refuse(document[0], format=document[1])


@SHORT
@given(almost)
def test_the_schema_takes_whatever_is_accepted(value):
    """What the reader takes, the schema takes: nobody's editor marks a good document."""
    try:
        read_document(json.dumps(value), task_types=TYPES, format="json")
    except InvalidDataflow:
        return
    if "spouts" not in value and "bolts" not in value:
        SCHEMA.validate(value)


@SHORT
@given(almost)
def test_what_the_schema_refuses_is_refused(value):
    if not SCHEMA.is_valid(value):
        with pytest.raises(InvalidDataflow):
            read_document(json.dumps(value), task_types=TYPES, format="json")


def test_each_rule_of_the_schema_has_a_problem_of_its_own():
    """Nothing that the schema refuses is without a code, so that no document can end the reading otherwise."""
    rules, schemas = set(), [structure._validator().schema]
    while schemas:
        schema = schemas.pop()
        rules |= {(keyword, schema["title"]) for keyword in schema if keyword in RULES}
        assert schema.keys() <= RULES | {
            "title", "description", "default", "properties", "items", "$schema", "if", "then", "else"}
        schemas += schema.get("properties", {}).values()
        schemas += [schema[key] for key in ("items", "then", "else") if key in schema]
        if isinstance(schema.get("additionalProperties"), dict):
            schemas.append(schema["additionalProperties"])
    assert all(keyword in structure.CODES or f"{keyword} {title}" in structure.CODES for keyword, title in rules), rules


def test_the_schema_is_one_and_knows_the_structure():
    jsonschema.Draft202012Validator.check_schema(dataflow_schema())
    good = {
        "name": "x", "tasks": [{"id": "s", "type": "sensors", "rate": 5}, {"id": "o", "type": "archive"}],
        "streams": [{"from": "s", "to": "o"}],
    }
    assert SCHEMA.is_valid(good)
    for change in (
        {"name": ""}, {"name": 7}, {"tasks": []}, {"tasks": [{"id": "s"}]}, {"tasks": [{"id": "-", "type": "x"}]},
        {"streams": [{"from": "s"}]}, {"streams": [{"from": "s", "to": "o", "selectivity": -1}]}, {"rates": {"s": 0}},
        {"visibility": "secret"}, {"more": 1},
    ):
        assert not SCHEMA.is_valid(good | change), change
        with pytest.raises(InvalidDataflow):
            read_document(json.dumps(good | change), task_types=TYPES)


@SHORT
@given(dataflows(), st.data())
def test_duplicates_are_found_and_taken_out(dataflow, data):
    """Doubling a task and its streams is found out, and taking the double out gives the dataflow back."""
    document = to_document(dataflow)
    task = data.draw(st.sampled_from(document["tasks"]))
    twin = task | {"id": f"{task['id']}.twin"}
    document["tasks"].append(twin)
    document["streams"] += [
        {**stream, key: twin["id"]} for stream in document["streams"] for key in ("from", "to")
        if stream[key] == task["id"]
    ]
    if task["id"] in document.get("rates", {}):
        document["rates"][twin["id"]] = document["rates"][task["id"]]
    with pytest.raises(InvalidDataflow) as raised:
        read_document(json.dumps(document), task_types=TYPES)
    assert {problem.code for problem in raised.value.problems} == {"equivalent_tasks"}
    assert read_document(raised.value.suggestion, task_types=TYPES) == dataflow


@SHORT
@given(dataflows())
def test_a_deduplicated_dataflow_has_a_fingerprint_for_each_task(dataflow):
    assert not equivalent_tasks(dataflow, task_types=TYPES)
    assert deduplicate(dataflow, task_types=TYPES) == dataflow
    assert len(set(fingerprints(dataflow, task_types=TYPES).values())) == len(dataflow.tasks)


@pytest.mark.long
@pytest.mark.timeout(3600)
@LONG
@given(damaged())
def test_ten_thousand_damaged_documents_are_read_or_refused(document):
    read_or_refuse(document[0], format=document[1])


@pytest.mark.long
@pytest.mark.timeout(3600)
@LONG
@given(almost, st.sampled_from(["json", "yaml"]))
def test_ten_thousand_values_are_read_or_refused(value, format):
    read_or_refuse(json.dumps(value) if format == "json" else yaml.safe_dump(value, allow_unicode=True), format=format)


def _fields(dataflow) -> dict:
    return {
        name: getattr(dataflow, name)
        for name in ("name", "tasks", "streams", "description", "rates_per_s", "visibility")
    }
