"""Functions of packages: which may be named, and what is said of what they give."""

from __future__ import annotations

import importlib
import itertools
import sys

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workers.library import registry
from workers.library.config import InvalidConfig
from workers.library.packages import allowed, function_of
from workers.library.python_calls import call, results_of
from workers.library.python_results import checked, complete
from workers.library.python_task import called_by_key

from .package import install_package


@pytest.fixture(scope="module", autouse=True)
def package(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        yield install_package(tmp_path_factory.mktemp("packages"), patch)
    function_of.cache_clear()
    for name in ("sensors", "sensors.checks"):
        sys.modules.pop(name, None)


CONFIG = {"function": "sensors.checks:doubled", "version": "1.2", "columns": ["sensor", "twice:double"]}


def problem(**config) -> InvalidConfig | None:
    name = "python_by_key" if "by" in config else "python"
    return registry.check(registry.task_types()[name], {**CONFIG, **config})


@pytest.mark.parametrize("operator,may", [
    ("sensors", True), ("sensors.checks", True), ("other, sensors.checks:doubled", True),
    ("sensors.checks:fails", False), ("sens", False), ("sensors.check", False), ("", False)])
def test_the_operator_says_which_functions_may_be_named(operator, may, monkeypatch):
    monkeypatch.setenv("WEIR_PYTHON_PACKAGES", operator)
    refused = problem()
    assert (refused is None) == may
    if not may:
        assert "WEIR_PYTHON_PACKAGES" in refused.remedy and refused.facts["parameter"] == "function"


def test_by_default_there_are_none():
    assert allowed({}) == ()


@pytest.mark.parametrize("config,word", [
    ({"function": "sensors.checks:doubeld"}, "Did you mean doubled?"),
    ({"function": "sensors.chekcs:doubled"}, "module"), ({"version": "1.1"}, "weir-sensors 1.2"),
    ({"columns": ["twice:float"]}, "twice:float"),
    ({"by": []}, "key"), ({"by": ["_seq"]}, "_seq"),
])
def test_what_is_not_there_is_told_before_anything_runs(config, word):
    refused = problem(**config)
    assert word in refused.full_message and refused.remedy


@pytest.mark.parametrize("name,may", [
    ("run", False), ("subprocess", False), ("elsewhere", False), ("system", False), ("own", True), ("made", True)])
def test_an_allowed_package_lends_no_name_that_it_imports(package, monkeypatch, name, may):
    (package / "sensors" / "lending.py").write_text(
        "import functools, os, subprocess\nfrom subprocess import run\nfrom subprocess import run as elsewhere\n"
        "system = os.system\n\n\ndef own(table, arguments):\n    return table\n\n\n"
        "made = functools.partial(own, arguments={})\n")
    importlib.invalidate_caches()  # the folder was listed before, and may bear the same time still
    monkeypatch.setenv("WEIR_PYTHON_PACKAGES", "sensors")
    refused = problem(function=f"sensors.lending:{name}")
    assert (refused is None) is may
    assert may or "defines" in refused.remedy or "Did you mean" in refused.remedy


def test_a_module_of_no_package_is_refused(package, monkeypatch):
    (package / "loose.py").write_text("def f(table, arguments):\n    return table\n")
    importlib.invalidate_caches()
    monkeypatch.setenv("WEIR_PYTHON_PACKAGES", "loose")
    assert "no package" in problem(function="loose:f").message


def test_checking_runs_nothing_of_the_package():
    sys.modules.pop("sensors", None)
    assert problem() is None and "sensors" not in sys.modules


EVENTS = pa.table({"_seq": [1, 2], "_time": [1, 2], "_born": [3, 4], "sensor": ["a", "b"], "value": [1.0, 2.0]})
TWICE = {"twice": "double"}


@pytest.mark.parametrize("shape,word", [
    ("list", "no Arrow table"), ("fewer", "no column twice"), ("near", "It gave twise"), ("more", "a column sensor"),
    ("type", "as string, which is declared as double"), ("unmarked", "no column _seq"), ("null", "null as _seq"),
])
def test_other_columns_are_told_with_cause_and_remedy(shape, word):
    with pytest.raises(InvalidConfig) as wrong:
        checked(function_of("sensors.checks:shaped")(EVENTS, {"shape": shape}), TWICE, "sensors.checks:shaped")
    assert word in str(wrong.value) and "sensors.checks:shaped" in str(wrong.value) and wrong.value.remedy


@pytest.mark.parametrize("values,kind,expected", [
    (pa.array([1, 2], pa.int32()), "bigint", pa.int64()), (pa.array([1, 2], pa.int8()), "double", pa.float64()),
    (pa.array([1, 2], pa.float32()), "double", pa.float64()), (pa.nulls(2), "timestamp", pa.timestamp("us", tz="UTC")),
    (pa.array(["a", None], pa.large_string()), "string", pa.string()),
    (pa.array(["a", "a"]).dictionary_encode(), "string", pa.string()),
    (pa.array([1, 2], pa.timestamp("s")), "timestamp", pa.timestamp("us", tz="UTC")),
])
def test_narrower_types_are_taken(values, kind, expected):
    table = EVENTS.select(["_born", "_time", "_seq"]).append_column("twice", values)
    result = checked(table, {"twice": kind}, "f")
    assert result.column_names == ["_seq", "_time", "_born", "twice"] and result.schema.field("twice").type == expected


@pytest.mark.parametrize("values,kind", [
    (pa.array([1.5, 2.0]), "bigint"), (pa.array(["1", "2"]), "double"), (pa.array([1, 2]), "string"),
    (pa.array([2**63, 1], pa.uint64()), "bigint"), (pa.array([1, 0]), "boolean"), (pa.array([1, 2]), "timestamp")])
def test_wider_ones_are_not(values, kind):
    with pytest.raises(InvalidConfig):
        checked(EVENTS.select(["_seq", "_time", "_born"]).append_column("twice", values), {"twice": kind}, "f")


COUNTED = {"count": "bigint", "largest": "double", "at": "timestamp"}
KINDS = {"value": "double", "at": "timestamp"}


def frame(rows) -> pd.DataFrame:
    return pd.DataFrame({
        "_seq": [row[0] for row in rows], "_time": [row[0] * 10 for row in rows], "_born": [7] * len(rows),
        "value": pd.Series([row[2] for row in rows], dtype="float64"),
        "at": pd.Series([None if row[0] % 3 else str(row[0] * 1000) for row in rows], dtype=object),
        "_key": [row[1] for row in rows]})


def called(states, rows, **more):
    given = {"function": "sensors.checks:counted", "arguments": {"often": 3}, "columns": COUNTED, "kinds": KINDS}
    given |= more
    return list(zip(*called_by_key(states, frame(rows), **given), strict=True))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.one_of(st.none(), st.floats(-10, 10))), min_size=1, max_size=30),
       st.lists(st.integers(1, 29), max_size=3))
def test_cutting_the_events_changes_nothing(events, cuts):
    rows = [(number, key, value) for number, (key, value) in enumerate(events)]
    whole_states, states, pieces = {}, {}, []
    whole = called(whole_states, rows)
    places = sorted({0, *(cut for cut in cuts if cut < len(rows)), len(rows)})
    for begin, end in itertools.pairwise(places):
        pieces += called(states, rows[begin:end])
    assert pieces == whole and states == whole_states
    assert [row[0] for row in whole] == sorted(row[0] for row in whole)
    counts = {key: sum(event[0] == key for event in events) for key in "abc"}
    assert len(whole) == sum(count + count // 3 for count in counts.values())


@pytest.mark.parametrize("wrong,word", [
    ("alone", "(table, state)"), ("seq", "which no event of this table has"), ("set", "JSON cannot say"),
    ("large", "for one key")])
def test_what_a_function_with_a_state_does_wrong_is_told(wrong, word):
    with pytest.raises(InvalidConfig) as caught:
        called({}, [(1, "a", 1.0)], function="sensors.checks:stateful", arguments={"wrong": wrong}, columns=TWICE)
    assert word in str(caught.value) and caught.value.remedy


def test_what_a_function_raises_is_told_with_place_and_remedy_and_is_not_tried_for_ever():
    with pytest.raises(InvalidConfig) as raised:
        call("sensors.checks:picky", EVENTS, {"not": [2]})
    assert "raised ValueError: not this one: 2 (checks.py, line " in str(raised.value)
    assert "on_error" in raised.value.remedy
    with pytest.raises(ConnectionError):  # what it reaches may be back later
        call("sensors.checks:picky", EVENTS, {"away": True})


@given(st.integers(0, 40), st.sets(st.integers(0, 39)))
def test_events_that_a_function_cannot_do_are_marked_and_take_no_others_with_them(count, bad):
    events = pa.table({name: list(range(count)) for name in ("_seq", "_time", "_born")}
                      | {"value": [float(n) for n in range(count)]})
    function, given = "sensors.checks:picky", {"twice": "double", "problem": "string"}

    def work(part: pa.Table) -> pa.Table:
        return checked(call(function, part, {"not": sorted(bad)}), TWICE, function)

    rows = [row for part in results_of(events, work, function=function, on_error="mark")
            for row in complete(part, given).to_pylist()]
    assert [row["_seq"] for row in rows] == list(range(count)), "each event has its result, in order"
    for row in rows:
        if row["_seq"] in bad:
            assert row["twice"] is None and f"not this one: {row['_seq']} " in row["problem"]
            assert "on_error" not in row["problem"]
        else:
            assert row["twice"] == 2.0 * row["_seq"] and row["problem"] is None


@given(st.lists(st.sampled_from([None, 1.0, 13.0]), max_size=20), st.sets(st.integers(1, 19)))
def test_an_event_that_cannot_be_done_leaves_its_keys_state_as_it_was(values, cuts):
    frame = pd.DataFrame({
        "_key": "a", "_seq": range(len(values)), "_time": 0, "_born": 0, "value": pd.Series(values, dtype="float64")})
    result, states, bounds = [], {}, [0, *sorted(cut for cut in cuts if cut < len(values)), len(values)]
    for start, end in itertools.pairwise(bounds):
        part = called_by_key(
            states, frame.iloc[start:end].reset_index(drop=True), function="sensors.checks:summed", arguments={},
            columns={"sum": "double"}, kinds={"value": "double"}, on_error="mark")
        result += list(zip(*part, strict=True))
    total, expected = 0.0, []
    for value in values:
        total += value if value == 1.0 else 0.0
        expected.append(None if value == 13.0 else total)
    assert [row[3] for row in result] == expected
    assert [row[4] is not None for row in result] == [value == 13.0 for value in values]


def test_the_column_of_problems_is_weirs_own_and_declared():
    from scheduler.model.columns import Columns
    from workers.library.config import settings as with_defaults
    from workers.library.python_task import PYTHON, python_columns

    assert "problem" in problem(columns=["problem"], on_error="mark").message and problem(columns=["problem"]) is None
    columns = python_columns(Columns.stream({}), with_defaults(PYTHON, {**CONFIG, "on_error": "mark"}))
    assert columns.type_of("problem") == "string"


def test_a_function_that_fails_ends_no_query_but_its_own():
    from scheduler.model.fragment import RunningTask
    from scheduler.reuse.fragments import cut_into_chains

    chain = ["urban_sensing", "python", "python_by_key", "sql", "output"]
    tasks = [RunningTask(f"t{n}", type_, {}, (f"t{n - 1}",) if n else ()) for n, type_ in enumerate(chain)]
    assert cut_into_chains(tasks, task_types=registry.task_types()) == (("t0",), ("t1",), ("t2",), ("t3", "t4"))
