"""No query makes much of one event: what multiplies is refused before it is made, and what does not gives the same."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.model.bounds import RESULT_BYTES
from scheduler.model.columns import Columns
from scheduler.model.errors import WeirError
from workers.engine.spark.failure_messages import Cause, explain
from workers.library.config import InvalidConfig
from workers.library.select.compiling import compiled
from workers.library.select.grammar import parse
from workers.library.select.growing import BOUNDED, COUNTED
from workers.library.state import going_on

from .conftest import START_MS, build

COLUMNS = "_seq bigint, _time bigint, _born bigint, s string, t string, l array<string>, n bigint, j string"

GROWN = f"replace(s, 'a', '{'b' * 60}')"
RECORD = ", ".join(f"f{place}:int" for place in range(300))

# Each makes more than RESULT_BYTES of one event with texts of 20,000 characters and a list of as many elements; many of
# them more than any machine has.
BOMBS = {
    "replace": "length(replace(s, 'a', t))",
    "replace again":
        "length(replace(replace(replace(s, 'a', 'bbbbbbbbbb'), 'b', 'cccccccccc'), 'c', 'dddddddddddddddd'))",
    "replace in what is known": "length(replace(lpad('', 10000, 'a'), 'a', t))",
    "regexp_replace": f"length(regexp_replace(regexp_replace(s, 'a', '{'b' * 200}'), 'b', '{'c' * 200}'))",
    "concat": f"length(concat({', '.join([GROWN] * 100)}))",
    "||": f"length({' || '.join([GROWN] * 70)})",
    "concat_ws": f"length(concat_ws(s, {', '.join(['n'] * 4000)}))",
    "array_join": "length(array_join(l, s))",
    "to_json": "length(to_json(transform(l, x -> struct(s AS a))))",
    "from_json": f"size(from_json(j, 'array<struct<{RECORD}>>'))",
    "transform": "size(transform(l, x -> s))",
    "transform within transform": "size(transform(l, x -> transform(l, y -> concat(x, y))))",
    "aggregate": "length(aggregate(l, 'x', (made, x) -> concat(made, made)))",
    "aggregate of a list": "size(aggregate(l, array('x'), (made, x) -> flatten(array(made, made))))",
    "functions in functions": "forall(l, a -> forall(l, b -> forall(l, c -> a = b OR b = c OR TRUE)))",
    "constant lists in functions": "exists(l, a -> exists(split(lpad('', 9999, ','), ','), b -> exists("
                                   "split(lpad('', 9999, ','), ','), c -> a = concat(b, c, 'y'))))",
    "array": f"size(flatten(array({', '.join(['transform(l, x -> left(s, 1000))'] * 4)})))",
    "struct": f"struct({', '.join(f'{GROWN} AS f{place}' for place in range(70))}).f0",
    "levenshtein": "levenshtein(s, t)",
    "CAST": "length(CAST(transform(l, x -> left(s, 3000)) AS string))",
}
QUERIES = {name: f"SELECT {text} AS z FROM input" for name, text in BOMBS.items()} | {
    "columns": f"SELECT {', '.join(f'{GROWN} AS c{place}' for place in range(80))} FROM input",
    "one column again and again": f"SELECT {', '.join(f'j AS c{place}' for place in range(500))} FROM input",
    "WHERE": f"SELECT s FROM input WHERE {BOMBS['replace']} > 3",
    "explode": "SELECT explode(transform(l, x -> left(s, 1000))) AS z FROM input",
}


@pytest.fixture(scope="module")
def large(spark):
    """One event that holds much, of which each query above makes far more."""
    return spark.createDataFrame([(
        1, START_MS, START_MS, "a" * 20_000, "b" * 20_000, ["x"] * 20_000, 3,
        f"[{','.join(['{}'] * 300_000)}]")], COLUMNS).coalesce(1)


# Of each way in which something grows: by a text, by what is put together, by fields, by what each element makes, in
# functions in functions, in columns, in a condition, in events. That the others have a bound is seen without Spark.
IN_SHORT = {"replace", "concat", "from_json", "aggregate", "functions in functions", "columns", "WHERE", "explode"}


@pytest.mark.spark
@pytest.mark.parametrize("name", [
    name if name in IN_SHORT else pytest.param(name, marks=pytest.mark.long) for name in QUERIES])
def test_what_multiplies_fails_with_its_place_before_it_is_made(large, name):
    with going_on("3fc1"):
        frame = build("sql", large, query=QUERIES[name])
    with pytest.raises(Exception) as caught:  # Spark's, of whatever class
        frame.write.format("noop").mode("overwrite").save()
    text = str(caught.value)
    assert "ResultTooLong: task 3fc1: " in text and "bytes of one event" in text, text[:2000]
    failure = explain([Cause("weir.ResultBounds$ResultTooLong", text.partition("ResultTooLong: ")[2])], [])
    assert failure.tasks == ("3fc1",) and failure.is_final and "makes more than" in str(failure)


SAME = ["replace(s, 'a', 'bcd')", "replace(s, t, 'x')", "replace(s, 'a', t)", "replace('aXa', 'a', s)",
        "replace(s, '', t)", "regexp_replace(s, '[ab]', '--')", "concat(s, t, s, n)", "concat_ws(t, s, s, n)",
        "array_join(l, '+++++++++')", "array_join(l, s)", "split(s, 'a')", "lpad(s, 5, t)",
        "to_json(struct(s AS a, l AS b, n AS c))", "from_json(j, 'array<struct<a:int,b:string>>')", "levenshtein(s, t)",
        "transform(l, x -> concat(x, s))", "filter(l, x -> x > s)", "exists(l, x -> x = s)", "forall(l, x -> x < t)",
        "aggregate(l, '', (made, x) -> concat(made, x))", "flatten(array(l, l))", "struct(s AS a, s AS b, l AS c)",
        "transform(l, (x, i) -> concat(x, i))", "transform(filter(l, x -> x <> 'a'), y -> replace(y, 'b', 'cc'))",
        "element_at(from_json(j, 'map<string,string>'), s)", "left(concat(s, t), 3)"]
words = st.none() | st.text("ab'{}[]:1,\"\\ü\n", max_size=6)


@pytest.mark.spark
@settings(max_examples=20)  # of many events each: what it costs is a query, not an event
@given(st.lists(st.tuples(words, words, st.none() | st.lists(words, max_size=4), words), min_size=20, max_size=40))
def test_what_does_not_is_what_spark_gives(spark, values):
    rows = [(seq, START_MS, START_MS, s, t, element, seq, j) for seq, (s, t, element, j) in enumerate(values)]
    frame = spark.createDataFrame(rows, COLUMNS).coalesce(1)
    named = [f"{text} AS c{place}" for place, text in enumerate(SAME)]
    made = build("sql", frame, query=f"SELECT {', '.join(named)} FROM input").drop("_seq", "_time", "_born")
    assert list(map(repr, made.collect())) == list(map(repr, frame.selectExpr(*named).collect()))


KNOWN = Columns.stream({"s": "string", "t": "string", "n": "bigint", "l": "array<string>"})


@pytest.mark.parametrize("text", [
    "replace(lpad('', 10000, 'a'), 'a', lpad('', 10000, 'b'))",
    "replace(replace(lpad('', 9, 'a'), 'a', lpad(s, 10000, 'b')), 'b', lpad('', 10000, 'c'))",
    "aggregate(l, '', (made, x) -> replace(lpad(x, 10000, ''), '', replace(md5(x), 'a', '')) || replace("
    "rpad(x, 9, 'a'), 'a', rpad(s, 10000, t)) || replace(lpad(x, 10000, 'b'), 'b', rpad(s, 10000, t)))"])
def test_what_the_query_itself_tells_is_refused_as_it_is_read(text):
    with pytest.raises(WeirError) as refusal:
        compiled(parse(f"SELECT {text} AS z FROM input"), KNOWN)
    assert isinstance(refusal.value, InvalidConfig) and "of any event" in refusal.value.message
    assert refusal.value.remedy


@pytest.mark.parametrize("name", QUERIES)
def test_what_multiplies_has_a_bound(name):
    plan = compiled(parse(QUERIES[name]), Columns.stream(dict(entry.split() for entry in COLUMNS.split(", "))))
    assert any(bound in text for text in (*plan.entries, plan.where or "") for bound in (BOUNDED, COUNTED))


@pytest.mark.parametrize("text", [
    "upper(s)", "concat(s, '-', n)", "s || ' of ' || n", "replace(s, ',', '.')", "replace(s, 'abc', '')",
    "regexp_replace(s, '[0-9]', '')", "concat(left(s, 3), substring(t, 1, 2))", "n + 1", "md5(s) || sha2(t, 256)",
    "lpad(s, 5, '0') || rpad(t, 9, ' ')", "struct(s AS a, n AS b)", "get_json_object(s, '$.a')"])
def test_what_makes_nothing_longer_costs_nothing(text):
    plan = compiled(parse(f"SELECT {text} AS z FROM input WHERE {text} IS NOT NULL"), KNOWN)
    assert not any(name in entry for entry in (*plan.entries, plan.where) for name in (BOUNDED, COUNTED))


def test_all_bounds_of_a_query_add_up_to_one():
    for count in (1, 3, 40):
        entries = ", ".join(f"concat(s, t, '{place}') AS c{place}" for place in range(count))
        text = " ".join(compiled(parse(f"SELECT {entries} FROM input"), KNOWN).entries)
        bounds = [int(bound) for bound in re.findall(r", 1, (\d+)L, ", text)]
        assert len(bounds) == text.count(BOUNDED) >= 2 * count
        assert all(bound * text.count(BOUNDED) <= RESULT_BYTES.most for bound in bounds)
