"""One spelling for each meaning: what declarations call equal, and nothing else."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.canonical import canonical_config, canonical_json
from scheduler.model.documents import read_document
from scheduler.model.errors import InvalidDataflow
from scheduler.model.schema import dataflow_schema
from scheduler.model.secrets import secret_names, unknown_secrets, with_scoped_secrets, without_teams
from scheduler.model.task_types import Parameter, TaskType, TaskTypes
from scheduler.model.units import FAMILIES, in_unit, units_like
from scheduler.reuse.fingerprint import fingerprints

from .catalogue import TYPES, flow

RICH = TaskType(
    "rich", "transform", "Declares all there is.", "none:none",
    (
        Parameter("span", "number", "How long.", default=30, unit="s", minimum=0, maximum=86_400),
        Parameter("size", "integer", "How much.", unit="kB"),
        Parameter("share", "number", "Which part.", unit="1"),
        Parameter("count", "integer", "How many.", default=3),
        Parameter("names", "list", "Which.", items="string", is_set=True),
        Parameter("order", "list", "In which order.", items="integer"),
        Parameter("ranges", "object", "Bounds.", bounds=True),
        Parameter("free", "object", "Anything."),
        Parameter("text", "string", "Words."),
        Parameter("token", "string", "Who calls.", secret=True),
    ),
)
SECRETIVE = TaskTypes([*TYPES.values(), RICH])
BASE = {"span": 30, "size": 2, "share": 0.02, "names": ["a", "b"], "order": [1, 2], "ranges": {"t": [0, 40]}}


def form(**config):
    return canonical_json(canonical_config(RICH, BASE | config))


@pytest.mark.parametrize(
    "config",
    [
        {"span": 30.0}, {"span": "30 s"}, {"span": "0.5 min"}, {"span": "30000ms"}, {"span": " 3e1 s "}, {"span": None},
        {"size": 2.0}, {"size": "2 kB"}, {"size": "0.002MB"}, {"share": "2 %"}, {"share": "20‰"}, {"count": 3.0},
        {"names": ["b", "a"]}, {"names": ["a", "b", "a"]}, {"order": [1.0, 2]}, {"ranges": {"t": [0.0, 4e1]}},
        {"text": None},
    ],
)
def test_what_declarations_call_equal_is_one(config):
    assert form(**config) == form()


@pytest.mark.parametrize(
    "config",
    [
        {"span": "30 min"}, {"span": "30"}, {"span": 30.1}, {"size": "2 KiB"}, {"share": "2"}, {"names": ["a"]},
        {"names": ["a", "B"]}, {"order": [2, 1]}, {"order": [1, 2, 2]}, {"ranges": {"t": [0, 40.5]}},
        {"ranges": {"u": [0, 40]}}, {"ranges": {"t": [40, 0]}}, {"free": {"a": [1]}}, {"text": "30 s"}, {"count": 4},
    ],
)
def test_nothing_else_is(config):
    assert form(**config) != form()


def test_what_is_not_declared_safe_stays_exact():
    assert form(free={"a": 1}) != form(free={"a": 1.0})
    assert form(free={"a": [1, 2]}) != form(free={"a": [2, 1]})
    assert form(free={"a": 1, "b": 2}) == form(free={"b": 2, "a": 1}), "the order of keys never counts"
    assert form(ranges={"t": [2**53, 2**53 + 1]}) != form(ranges={"t": [2**53, 2**53]}), "nothing is rounded"


def test_large_bounds_count_by_their_value_however_they_are_written():
    assert form(ranges={"t": [-1e16, 1e16]}) == form(ranges={"t": [-(10**16), 10**16]})
    assert form(ranges={"t": [0, 2.0**53]}) == form(ranges={"t": [0, 2**53]})
    assert form(ranges={"t": [0, 1e300]}) == form(ranges={"t": [0, int(1e300)]})
    assert form(ranges={"t": [0, 1e16]}) != form(ranges={"t": [0, 10**16 + 2]})


def test_micro_is_written_with_either_character():
    assert form(span="5 \N{GREEK SMALL LETTER MU}s") == form(span="5 \N{MICRO SIGN}s") == form(span="5 us")


def test_a_fraction_that_a_unit_makes_is_the_number_that_one_would_write():
    for milliseconds in range(1, 2_000, 7):
        assert form(span=f"{milliseconds} ms") == form(span=milliseconds / 1000)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from([0.5, 1.0, -0.0, 2e0, 1e300]) | st.sampled_from(
        ["a", "30 s", "0.5 min", "1 h", "2 %", "x s", ""]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from([parameter.name for parameter in RICH.parameters]), VALUES))
def test_canonicalisation_is_idempotent_whatever_it_is_given(config):
    once = canonical_config(RICH, config)
    assert canonical_json(canonical_config(RICH, once)) == canonical_json(once)


def meaning(name, value):
    """What a value means by its declaration, independently: a value that compares as the declarations say."""
    declared = RICH.parameter(name)
    value = declared.default if value is None else value
    if declared.unit and isinstance(value, str):
        number, _, unit = value.partition(" ")
        return float(Fraction(number) * FAMILIES["time"][unit] / FAMILIES["time"][declared.unit])
    if name == "names":
        return frozenset(value or [])
    return value


@st.composite
def valid(draw):
    """A config that validation takes, by name of a parameter."""
    return draw(st.fixed_dictionaries({}, optional={
        "span": st.sampled_from([30, 30.0, "30 s", "0.5 min", 60, "1 min", "60000 ms", 1, None]),
        "count": st.sampled_from([3, 3.0, 4, 4.0, None]),
        "names": st.lists(st.sampled_from("abc"), max_size=4),
        "order": st.lists(st.sampled_from([1, 1.0, 2]), max_size=3),
        "ranges": st.sampled_from([{"t": [0, 1]}, {"t": [0.0, 1.0]}, {"t": [0, 2]}, {"u": [0, 1]}]),
        "text": st.sampled_from(["a", "b", "30 s", None]),
    }))


@given(valid(), valid())
def test_two_configs_are_one_exactly_where_the_declarations_say_so(one, other):
    names = [parameter.name for parameter in RICH.parameters if parameter.name != "names"]
    equal = all(meaning(name, one.get(name)) == meaning(name, other.get(name)) for name in names)
    equal = equal and ("names" in one) == ("names" in other)  # no set is not the empty set
    equal = equal and meaning("names", one.get("names")) == meaning("names", other.get("names"))
    same = canonical_json(canonical_config(RICH, one)) == canonical_json(canonical_config(RICH, other))
    assert same == equal


@given(st.integers(0, 10**9), st.integers(0, 6), st.sampled_from(sorted(FAMILIES["time"])))
def test_a_unit_scales_exactly(digits, places, unit):
    written = f"{digits // 10**places}.{digits % 10**places:0{places}d}"
    assert in_unit(f"{written} {unit}", "s") == Fraction(digits, 10**places) * FAMILIES["time"][unit]


def test_units_of_another_kind_and_bare_numbers_are_no_quantity():
    assert in_unit("30", "s") is None and in_unit("3 kB", "s") is None and in_unit("1e999 s", "s") is None
    assert in_unit("s", "s") is None and in_unit("", "s") is None
    assert units_like("s") == ("us", "µs", "ms", "s", "min", "h", "d") and units_like("1") == ("‰", "%")
    with pytest.raises(ValueError, match="furlong"):
        in_unit("3 s", "furlong")


# Documents ------------------------------------------------------------------------------------------------------------


def document(**config):
    return json.dumps({
        "name": "a",
        "tasks": [
            {"id": "s", "type": "sensors"}, {"id": "r", "type": "rich", "config": config},
            {"id": "o", "type": "archive"},
        ],
        "streams": [{"from": "s", "to": "r"}, {"from": "r", "to": "o"}],
    })


def problems_of(**config):
    with pytest.raises(InvalidDataflow) as raised:
        read_document(document(**config), task_types=SECRETIVE)
    return raised.value.problems


@pytest.mark.parametrize(
    ("config", "code", "says"),
    [
        ({"span": "30 furlongs"}, "ill_typed", "ms, s, min"),
        ({"span": "2 d"}, "out_of_range", "86400"),
        ({"size": "0.5 B"}, "ill_typed", "whole number of kB"),
        ({"count": 1e300}, "out_of_range", "64 bits"),
        ({"count": 1.5}, "ill_typed", "integer"),
        ({"token": {"secret": "Not A Name"}}, "no_match", "small letters"),
        ({"token": {"secret": "a", "team": "city"}}, "secret_inlined", "named"),
        ({"text": {"secret": "hook"}}, "secret_not_taken", "token may"),
    ],
)
def test_what_does_not_fit_its_declaration_is_refused(config, code, says):
    [problem] = problems_of(**config)
    assert problem.code == code and says in f"{problem.message} {problem.remedy}" and problem.task_id == "r"


@pytest.mark.parametrize("config", [{"token": "hunter2-hunter2"}, {"free": {"X-Api-Key": "hunter2-hunter2"}}])
def test_a_secret_that_is_written_out_is_refused_and_not_repeated(config):
    [problem] = problems_of(**config)
    assert problem.code == "secret_inlined" and "hunter2" not in f"{problem.message}{problem.remedy}"


def test_a_quantity_may_be_as_large_as_a_number_may():
    dataflow = read_document(document(share="1e99 %"), task_types=SECRETIVE)
    assert canonical_config(RICH, dataflow.task("r").config)["share"] == 1e97
    assert [problem.code for problem in problems_of(share="1e999 %")] == ["ill_typed"]
    assert [problem.code for problem in problems_of(size="1e99 kB")] == ["out_of_range"], "a BIGINT has 64 bits"


def test_the_published_schema_takes_a_named_secret_and_no_other_spelling():
    schema = jsonschema.Draft202012Validator(dataflow_schema())
    assert schema.is_valid(json.loads(document(token={"secret": "hook"}, span="0.5 min", free={"a": {"b": 1}})))
    for token in ({"secret": "Not A Name"}, {"secret": ""}):
        assert not schema.is_valid(json.loads(document(token=token)))


def test_two_secrets_are_two_and_two_teams_secrets_of_one_name_are_two():
    def prints(name, team):
        dataflow = read_document(document(token={"secret": name}), task_types=SECRETIVE)
        return fingerprints(with_scoped_secrets(dataflow, team=team, task_types=SECRETIVE), task_types=SECRETIVE)

    prints_of = {(name, team): prints(name, team)["r"] for name in ("hook", "other") for team in ("city", "roads")}
    assert len(set(prints_of.values())) == 4
    assert prints("hook", "city") == prints("hook", "city")


OWNING = TaskTypes([*SECRETIVE.values(), TaskType(
    name="learn", kind="transform", doc="", build="x:y",
    parameters=(Parameter("model", "string", "", of_team=True), Parameter("note", "string", ""),
                Parameter("arguments", "mapping", "")))])


def test_a_name_of_what_belongs_to_a_team_is_one_for_each_team():
    dataflow = flow("d", {"s": "sensors", "r": ("learn", {"model": "fares", "note": "n"})}, "s > r")
    scoped = {team: with_scoped_secrets(dataflow, team=team, task_types=OWNING) for team in ("city", "roads")}
    assert scoped["city"].task("r").config == {"model": {"name": "fares", "team": "city"}, "note": "n"}
    assert len({fingerprints(dataflow, task_types=OWNING)["r"] for dataflow in scoped.values()}) == 2
    assert with_scoped_secrets(scoped["city"], team="city", task_types=OWNING) == scoped["city"]
    for scoped_flow in scoped.values():
        assert without_teams(scoped_flow.task("r").config, OWNING["learn"]) == dataflow.task("r").config


@pytest.mark.parametrize("looks_like", [{"name": "Ada", "team": "city"}, {"secret": "s", "team": "city"}])
def test_what_looks_like_a_name_of_a_team_is_one_where_its_type_says_so_alone(looks_like):
    config = {"model": "fares", "note": "n", "arguments": looks_like}
    assert without_teams(config, OWNING["learn"]) == config


def test_a_team_that_lacks_a_secret_is_told_where_it_is_named():
    dataflow = read_document(document(token={"secret": "hook"}), task_types=SECRETIVE)
    assert secret_names(dataflow, task_types=SECRETIVE) == {"hook": "r"}
    [problem] = unknown_secrets(dataflow, {"other"}, task_types=SECRETIVE)
    assert problem.code == "unknown_secret" and problem.path == "/tasks/1/config" and problem.task_id == "r"
    assert unknown_secrets(dataflow, {"hook"}, task_types=SECRETIVE) == ()


def test_a_dataflow_without_secrets_is_left_as_it_is():
    plain = flow("plain", {"s": "sensors", "o": "archive"}, "s > o")
    assert with_scoped_secrets(plain, team="city", task_types=TYPES) is plain


def test_a_parameter_that_was_added_later_leaves_tasks_that_ran_before_what_they_are():
    size = Parameter("size", "integer", "How much.", default=1)
    before = TaskType("grown", "transform", "Grew.", "none:none", (size,))
    grown = replace(before, parameters=(
        size,
        Parameter("on_error", "string", "What then.", default="fail", choices=("fail", "drop"), added=True)))
    for config in ({}, {"size": 2}, {"on_error": "fail"}, {"on_error": None}):
        earlier = {name: value for name, value in config.items() if name == "size"}
        assert canonical_config(grown, config) == canonical_config(before, earlier)
    assert canonical_config(grown, {"on_error": "drop"}) == {"size": 1, "on_error": "drop"}
