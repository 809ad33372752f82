"""SELECTs without Spark: their one form and what contains what, held against evaluation with NULL and NaN; refusals."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp

from scheduler.model.canonical import canonical_config
from scheduler.model.columns import ColumnError, Columns
from scheduler.model.sql_dialect import number
from workers.library import registry
from workers.library.config import InvalidConfig
from workers.library.select.compiling import compiled
from workers.library.select.containing import contained
from workers.library.select.form import one_form
from workers.library.select.grammar import parse

COLUMNS = Columns.stream({"a": "bigint", "b": "double", "s": "string", "ok": "boolean", "list": "array<double>",
                          "r": "struct<x:int,y:string>"})

# Spark's evaluation of conditions: Kleene's logic, numbers in a total order in which NaN is last ----------------------


def place(value):
    """Where a value stands in Spark's order."""
    if isinstance(value, str):
        return value.encode()
    return (1, 0.0) if isinstance(value, float) and math.isnan(value) else (0, value)


def compared(node, left, right):
    if left is None or right is None:
        return (left is None and right is None) if isinstance(node, exp.NullSafeEQ) else None
    if isinstance(left, float) or isinstance(right, float):
        left, right = float(left), float(right)
    one, other = place(left), place(right)
    return {"eq": one == other, "nullsafeeq": one == other, "neq": one != other, "lt": one < other, "lte": one <= other,
            "gt": one > other, "gte": one >= other}[node.key]


def calculated(node, left, right):
    if left is None or right is None:
        return None
    if isinstance(left, float) or isinstance(right, float):
        left, right = float(left), float(right)
    result = {"add": lambda: left + right, "sub": lambda: left - right, "mul": lambda: left * right}[node.key]()
    return result if isinstance(result, float) or -(2**63) <= result < 2**63 else None


def evaluated(node, row):
    """The value of an expression on an event."""
    if (value := number(node)) is not None:
        return value
    match node:
        case exp.Paren():
            return evaluated(node.this, row)
        case exp.Column():
            return row[node.name]
        case exp.Literal():
            return node.this
        case exp.Boolean():
            return bool(node.this)
        case exp.Null():
            return None
        case exp.Not():
            inner = evaluated(node.this, row)
            return None if inner is None else not inner
        case exp.And() | exp.Or():
            sides = [evaluated(node.this, row), evaluated(node.expression, row)]
            settles = isinstance(node, exp.Or)
            return settles if settles in sides else None if None in sides else not settles
        case exp.Is():
            return evaluated(node.this, row) is None if isinstance(node.expression, exp.Null) else (
                evaluated(node.this, row) is bool(node.expression.this))
        case exp.Between():
            return evaluated(exp.And(
                this=exp.GTE(this=node.this.copy(), expression=node.args["low"].copy()),
                expression=exp.LTE(this=node.this.copy(), expression=node.args["high"].copy())), row)
        case exp.In():
            compared_values = [compared(exp.EQ(), evaluated(node.this, row), evaluated(value, row))
                for value in node.expressions]
            return True if True in compared_values else None if None in compared_values else False
        case exp.Add() | exp.Sub() | exp.Mul():
            return calculated(node, evaluated(node.this, row), evaluated(node.expression, row))
    return compared(node, evaluated(node.this, row), evaluated(node.expression, row))


wholes = st.sampled_from(["0", "1", "2", "3", "5", "-1", "2 + 3", "9007199254740993", "1 * 2 - 1"])
fractions = st.sampled_from(["0.5", "2.0", "3.0", "5.0", "-1.5", "0.1 + 0.2", "1e3", "9007199254740993.0"])
texts = st.sampled_from(["'a'", "'ab'", "''", "'b'"])
signs = st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "<=>"])
comparisons = st.one_of(
    st.builds("{0} {1} {2}".format, st.sampled_from(["a", "b", "input.a", "(b)", "a + 1", "1 + a"]), signs,
              st.one_of(wholes, fractions)),
    st.builds("{2} {1} {0}".format, st.sampled_from(["a", "b", "b * 2.0"]), signs, st.one_of(wholes, fractions)),
    st.builds("s {0} {1}".format, signs, texts), st.builds("{1} {0} s".format, signs, texts),
    st.builds("a BETWEEN {0} AND {1}".format, wholes, wholes),
    st.builds("b BETWEEN {0} AND {1}".format, fractions, wholes),
    st.builds("a IN ({0}, {1}, {0})".format, wholes, wholes), st.builds("s IN ({0})".format, texts),
    st.sampled_from(["a IS NULL", "b IS NOT NULL", "ok", "NOT ok", "a = b", "b > a", "TRUE", "1 = 1", "2 < 1", "NULL",
                     "ok IS TRUE", "a <=> NULL", "a = NULL", "`ok`"]))
conditions = st.recursive(comparisons, lambda inner: st.one_of(
    st.builds("({0}) AND ({1})".format, inner, inner), st.builds("({0}) OR ({1})".format, inner, inner),
    st.builds("NOT ({0})".format, inner)), max_leaves=6)
rows = st.fixed_dictionaries({
    "a": st.sampled_from([None, -1, 0, 1, 2, 3, 4, 5, 6, 2**53, 2**53 + 1, 2**63 - 1]),
    "b": st.sampled_from([None, math.nan, math.inf, -math.inf, -0.0, 0.0, 0.30000000000000004, 0.5, 2.0, 2.5, 3.0, 5.0,
                          2.0**53]),
    "s": st.sampled_from([None, "", "a", "ab", "b", "ä"]), "ok": st.sampled_from([None, True, False])})


def where(text: str):
    return parse(f"SELECT * FROM input WHERE {text}").where


@given(conditions, st.lists(rows, min_size=1, max_size=12))
def test_the_one_form_means_the_same_for_every_event(condition, events):
    form = one_form(f"SELECT * FROM input WHERE {condition}")
    assert one_form(form) == form
    normal = parse(form).where
    for event in events:
        before = evaluated(where(condition), event)
        if normal is None:
            assert before is True
        else:
            assert evaluated(normal, event) == before, form


@given(st.lists(comparisons, min_size=1, max_size=4), st.data())
def test_order_repetition_and_spelling_of_conditions_do_not_count(parts, data):
    other = data.draw(st.permutations([*parts, data.draw(st.sampled_from(parts))]))
    one = one_form("SELECT a FROM input WHERE " + " AND ".join(f"({part})" for part in parts))
    another = one_form("select input.a as a from INPUT where " + " and ".join(f"(({part}))" for part in other))
    assert one == another


@given(st.lists(comparisons, min_size=1, max_size=3), st.lists(comparisons, max_size=3), st.data())
def test_what_is_contained_gives_the_same_events_from_the_wider_stream(wide, further, data):
    """Narrow ones share some conditions of the wide one, tightened or not."""
    narrow = [data.draw(st.sampled_from([part, re.sub(r"(?<![\d.])(\d)(?![\d.])", "5", part)])) for part in wide]
    outer = one_form("SELECT * FROM input WHERE " + " AND ".join(f"({part})" for part in wide))
    inner = one_form("SELECT * FROM input WHERE " + " AND ".join(f"({part})" for part in [*narrow, *further]))
    refined = contained(outer, inner)
    for event in data.draw(st.lists(rows, min_size=1, max_size=25)):
        if refined is not None:
            passes = _passes(outer, event) and _passes(refined, event)
            assert passes == _passes(inner, event), (outer, inner, refined)


def _passes(query: str, event) -> bool:
    condition = parse(query).where
    return condition is None or evaluated(condition, event) is True


@pytest.mark.parametrize("wide,narrow,refined", [
    ("SELECT * FROM input WHERE a > 3", "SELECT * FROM input WHERE a > 5", "SELECT * FROM input WHERE a > 5"),
    ("SELECT * FROM input WHERE a > 3 AND s = 'x'", "SELECT a FROM input WHERE s = 'x' AND a > 5",
     "SELECT a FROM input WHERE a > 5"),
    ("SELECT a, b + 1 AS c FROM input", "SELECT 1 + b AS d FROM input WHERE a = 1",
     "SELECT c AS d FROM input WHERE a = 1"),
    ("SELECT * FROM input WHERE a <> 3", "SELECT * FROM input WHERE a IN (4, 5)",
     "SELECT * FROM input WHERE a IN (4, 5)"),
    ("SELECT * FROM input WHERE a IS NOT NULL", "SELECT a FROM input WHERE a < 3", "SELECT a FROM input WHERE a < 3"),
    ("SELECT r FROM input", "SELECT r.x AS x FROM input", "SELECT r.x FROM input"),
    ("SELECT *, a + 1 AS c FROM input", "SELECT * FROM input", "SELECT * EXCEPT (c) FROM input"),
    ("SELECT *, 'all' AS made FROM input", "SELECT * EXCEPT (b), 'few' AS made FROM input WHERE a > 1",
     "SELECT * EXCEPT (b, made), 'few' AS made FROM input WHERE a > 1"),
])
def test_what_is_contained_is_found(wide, narrow, refined):
    assert contained(one_form(wide), one_form(narrow)) == refined


@pytest.mark.parametrize("wide,narrow", [
    ("SELECT * FROM input WHERE a > 5", "SELECT * FROM input WHERE a > 3"),
    ("SELECT * FROM input WHERE a > 5", "SELECT * FROM input WHERE a >= 5"),
    ("SELECT * FROM input WHERE a > 5", "SELECT * FROM input WHERE b > 6"),
    ("SELECT * FROM input WHERE a >= 9007199254740993", "SELECT * FROM input WHERE a >= 9007199254740994.0"),
    ("SELECT a FROM input", "SELECT a, b FROM input"),
    ("SELECT a + 1 AS a FROM input", "SELECT a FROM input"),
    ("SELECT a FROM input", "SELECT * FROM input"),
    ("SELECT explode(list) AS x FROM input", "SELECT explode(list) AS x FROM input WHERE a > 1"),
    ("SELECT * FROM input WHERE a > 3", "SELECT * FROM input WHERE a > 3"),
    ("SELECT * EXCEPT (b) FROM input", "SELECT a FROM input"),
])
def test_what_is_not_contained_is_left_alone(wide, narrow):
    assert contained(one_form(wide), one_form(narrow)) is None


def test_floating_point_is_not_moved_over_a_comparison():
    """sqlglot's own simplify makes a > 0.2 of this; 0.2 satisfies the one and not the other."""
    from sqlglot.optimizer.simplify import simplify

    assert 0.2 + 0.1 > 0.3 and not 0.2 > 0.2
    assert simplify(where("b + 0.1 > 0.3").copy()).sql() == "b > 0.2"
    assert one_form("SELECT b FROM input WHERE b + 0.1 > 0.3") == "SELECT b FROM input WHERE (0.1 + b) > 0.3"


def test_queries_of_one_meaning_are_one_task():
    sql = registry.task_types()["sql"]
    one, other = (canonical_config(sql, {"query": text}) for text in (
        "SELECT s AS s, a+1 AS next FROM input AS i WHERE i.b < 2 AND NOT a <= 2+3",
        "select  _seq, s, (1 + a) as next -- the next\nfrom INPUT where 5 < a and 2 > b"))
    assert one == other == {"query": "SELECT s, 1 + a AS next FROM input WHERE (a > 5) AND (b < 2)"}
    assert canonical_config(sql, {"query": "no query at all"}) == {"query": "no query at all"}


@pytest.mark.parametrize("query,words", [
    ("SELECT a FROM input; DROP TABLE x", "2 statements"), ("", "empty"), ("DELETE FROM input", "DELETE"),
    ("SELECT a FROM other", "other"), ("SELECT a FROM json.`/etc/passwd`", "passwd"), ("SELECT a", "no stream"),
    ("SELECT a FROM input JOIN b ON TRUE", "join"), ("SELECT a FROM input, b", "join"),
    ("SELECT a FROM input WHERE a > (SELECT 1)", "subquery"), ("WITH x AS (SELECT 1) SELECT a FROM input", "WITH"),
    ("SELECT a FROM input UNION SELECT b FROM input", "UNION"), ("SELECT DISTINCT a FROM input", "DISTINCT"),
    ("SELECT a FROM input GROUP BY a", "GROUP BY"), ("SELECT a FROM input ORDER BY a", "ORDER BY"),
    ("SELECT a FROM input LIMIT 3", "LIMIT"), ("SELECT row_number() OVER (ORDER BY a) AS n FROM input", "window"),
    ("SELECT a + 1 FROM input", "no name"), ("SELECT explode(list) + 1 AS x FROM input", "explode"),
    ("SELECT explode(list) AS x, explode(list) AS y FROM input", "twice"),
    ("SELECT a FROM (SELECT 1) AS input", "reads"),
    ("SELECT a FROM input LATERAL VIEW explode(list) t AS v", "LATERAL VIEW"), ("SELECT a frm input", "line 1"),
    ("SELECT a FROM input TABLESAMPLE (10 PERCENT)", "TABLESAMPLE"), ("SELECT :x AS a FROM input", "placeholder"),
    ("SELECT 'a' 'b' AS c FROM input", "side by side"), ("SELECT /*+ BROADCAST(a) */ a FROM input", "hint"),
    ("SELECT a FROM input" + " LEFT JOIN b" * 30, "30 steps"),
    ("SELECT a AS `b c` FROM input", "letters"), ("SELECT transform(a) USING 'cat' FROM input", "read"),
])
def test_what_is_no_select_over_one_stream_is_refused(query, words):
    with pytest.raises(InvalidConfig) as caught:
        parse(query)
    assert words.lower() in (caught.value.message + caught.value.remedy).lower() and caught.value.remedy
    assert registry.check(registry.task_types()["sql"], {"query": query or " "}) is not None


@pytest.mark.parametrize("levels", [300, 1_000, 3_000])
@pytest.mark.parametrize("part", [" AT TIME ZONE 'x'", ".b", "[0]", "::int", " -> a"])
def test_what_is_nested_deeper_than_python_goes_is_refused(part, levels):
    with pytest.raises(InvalidConfig):
        parse("SELECT a" + part * levels + " AS b FROM input")


@pytest.mark.parametrize("query,words", [
    ("SELECT aa FROM input", "Did you mean a?|has a, b"), ("SELECT uper(s) AS u FROM input", "upper"),
    ("SELECT rand() AS u FROM input", "each time"), ("SELECT uuid() AS u FROM input", "each time"),
    ("SELECT current_timestamp() AS u FROM input", "current"),
    ("SELECT java_method('a', 'b') AS u FROM input", "no function"),
    ("SELECT reflect('a', 'b') AS u FROM input", "no function"), ("SELECT count(a) AS n FROM input", "window"),
    ("SELECT s + 1 AS u FROM input", "needs a number"), ("SELECT a > s AS u FROM input", "one type"),
    ("SELECT a FROM input WHERE a", "true or false"), ("SELECT a FROM input WHERE s = 1", "one type"),
    ("SELECT upper(a) AS u FROM input", "needs text"), ("SELECT r.z AS u FROM input", "no field z"),
    ("SELECT a[0] AS u FROM input", "a list"), ("SELECT a, b AS A FROM input", "two columns"),
    ("SELECT *, b AS a FROM input", "two columns"), ("SELECT a AS _time FROM input", "_time"),
    ("SELECT NULL AS u FROM input", "NULL"), ("SELECT substring(s) AS u FROM input", "with 1 values"),
    ("SELECT split(s, s) AS u FROM input", "written out"), ("SELECT split(s, '(') AS u FROM input", "does not take"),
    ("SELECT s RLIKE '(?P<x>a)' AS u FROM input", "does not take"),
    ("SELECT s RLIKE 'a*a*a*a*a*a*~' AS u FROM input", "in one way only"),
    ("SELECT regexp_replace(s, '(a+)+~', '') AS u FROM input", "does not take"),
    ("SELECT from_json(s, 'a notype') AS u FROM input", "take"),
    ("SELECT CAST(a AS binary) AS u FROM input", "casts to"), ("SELECT posexplode(list) AS p FROM input", "2"),
    ("SELECT 99999999999999999999 AS u FROM input", "64 bits"), ("SELECT * EXCEPT (nope) FROM input", "nope"),
    ("SELECT transform(list, a) AS u FROM input", "x ->"),
    ("SELECT regexp_extract(s, 'a', 2) AS u FROM input", "group"),
])
def test_what_does_not_fit_the_columns_is_told_with_a_remedy(query, words):
    with pytest.raises((ColumnError, InvalidConfig)) as caught:
        compiled(parse(query), COLUMNS)
    assert re.search(words, f"{caught.value.message} {caught.value.remedy}")
    assert caught.value.facts["parameter"] == "query"


@pytest.mark.parametrize("condition", [
    "NOT " * 4000 + "ok", "a" + "+a" * 6000 + " > 1", "(" * 400 + "ok" + ")" * 400, "- " * 5000 + "a > 1",
    " AND ".join(f"a <> {number}" for number in range(1200)), "upper(" * 900 + "s" + ")" * 900 + " = 'x'",
    "s" + "[0]" * 3000 + " = 1", "(ok AND " * 300 + "ok" + ")" * 300, "a" + "+a" * 90 + " > 1",
])
def test_what_is_nested_too_deep_is_refused(condition):
    query = f"SELECT a FROM input WHERE {condition}"
    with pytest.raises(InvalidConfig):
        parse(query)
    assert one_form(query) == query


def test_what_is_nested_as_deep_as_may_be_is_read():
    chain = " AND ".join(f"a <> {number}" for number in range(70))
    query = one_form(f"SELECT a FROM input WHERE {chain}")
    assert compiled(parse(query), COLUMNS).where.count("<>") == 70 and one_form(query) == query


def test_unknown_columns_are_taken_as_they_may_be():
    query = "SELECT *, lost + 1 AS more, upper(name) AS big FROM input WHERE x = 'y'"
    given = compiled(parse(query), Columns.unknown())
    assert not given.columns.complete and given.columns.type_of("big") == "string"
    chosen = compiled(parse("SELECT lost, many[0] AS first FROM input"), Columns.unknown()).columns
    assert chosen == Columns.stream({"lost": None, "first": None})


# What is compiled of the one form is what was written -----------------------------------------------------------------

NAMED = Columns.stream({"true": "boolean", "null": "string", "input": "struct<x:string>", "x": "string", "a": "int",
                        "b c": "int", "ls": "array<string>"})


@pytest.mark.parametrize("query", [
    "SELECT a FROM input WHERE `true`", "SELECT a FROM input WHERE `true` AND a > 1", "SELECT `null` AS z FROM input",
    "SELECT coalesce(`null`, x) AS z FROM input", "SELECT * EXCEPT (`null`) FROM input",
    "SELECT * EXCEPT (`true`, a) FROM input", "SELECT * EXCEPT (`b c`) FROM input",
    "SELECT struct(a, `true`) AS z FROM input", "SELECT input.input.x AS z FROM input",
    "SELECT i.input.x AS z FROM input AS i WHERE i.input.x = 'admin'", "SELECT input.x AS z FROM input",
    "SELECT t.a AS z, t.`b c` AS y FROM input t"])
def test_the_one_form_is_compiled_as_what_was_written(query):
    form = one_form(query)
    assert one_form(form) == form
    assert compiled(parse(form), NAMED) == compiled(parse(query), NAMED)


@pytest.mark.parametrize("query", [
    "SELECT transform(ls, A -> a + 1) AS z FROM input",
    "SELECT transform(ls, y -> transform(ls, Y -> y)) AS z FROM input", "SELECT 1e AS z FROM input",
    f"SELECT {'9' * 5000} AS z FROM input", "SELECT '\ud800' AS z FROM input"])
def test_what_means_two_things_or_nothing_is_refused(query):
    with pytest.raises(InvalidConfig):
        compiled(parse(one_form(query)), NAMED)


@pytest.mark.parametrize("pattern", ["yyyy-MM-dd HH:mm:ss", "d/M/yyyy H:mm:ss.SSSSSS", "yyyyMMdd HH", "dd.MM.yyyy"])
def test_a_pattern_of_times_is_read(pattern: str) -> None:
    compiled(parse(f"SELECT to_timestamp(s, '{pattern}') AS t FROM input"), Columns({"s": "string"}))


@pytest.mark.parametrize("pattern", ["YYYY-MM-dd", "d MMM yyyy", "S" * 7, "M" * 2_000 + "!", "d" * 2_000 + "!"])
def test_a_pattern_that_is_none_is_refused_however_long_it_is(pattern: str) -> None:
    """Letters that could be taken one by one or in pairs would be tried in more ways than there is time for."""
    with pytest.raises(InvalidConfig):
        compiled(parse(f"SELECT to_timestamp(s, '{pattern}') AS t FROM input"), Columns({"s": "string"}))


@pytest.mark.parametrize("text", [
    "s LIKE 'a%'", "s ILIKE '%a%b%'", "s RLIKE 'a'", "s IN ('a', 'b')", "s BETWEEN 'a' AND 'b'"])
def test_not_before_a_word_is_not_around_what_it_begins(text: str) -> None:
    subject, rest = text.split(" ", 1)
    columns = Columns.stream({"s": "string"})
    inner, negated, around = (
        compiled(parse(f"SELECT {written} AS x FROM input"), columns).entries[-1].removesuffix(" AS `x`")
        for written in (text, f"{subject} NOT {rest}", f"NOT {text}"))
    assert negated == around == f"(NOT {inner})"
    assert one_form(f"SELECT {subject} NOT {rest} AS x FROM input") == one_form(f"SELECT NOT {text} AS x FROM input")
