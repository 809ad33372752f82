"""The task sql on Spark: types are Spark's, no value makes it fail, its one form and its refinements give the same."""

from __future__ import annotations

import math
import random

import pytest

from scheduler.model.columns import Columns
from workers.library.select.compiling import compiled
from workers.library.select.containing import contained
from workers.library.select.form import one_form
from workers.library.select.functions import FUNCTIONS, NAMES
from workers.library.select.grammar import parse

from .conftest import START_MS, build

pytestmark = pytest.mark.spark
COLUMNS = ("_seq bigint, _time bigint, _born bigint, a bigint, b double, i int, s string, ok boolean, at timestamp, "
           "arr array<double>, m map<string,int>, r struct<x:int,y:array<string>>, nested array<array<int>>, "
           "tiny tinyint, f float, d date, dec decimal(10,2)")

# By function: calls of it, whose types must be Spark's.
CALLS = {
    "upper": ["upper(s)"], "lower": ["lower(s)"], "trim": ["trim(s)"], "ltrim": ["ltrim(s)"], "rtrim": ["rtrim(s)"],
    "initcap": ["initcap(s)"], "reverse": ["reverse(s)"], "soundex": ["soundex(s)"], "md5": ["md5(s)"],
    "length": ["length(s)"], "char_length": ["char_length(s)"], "ascii": ["ascii(s)"],
    "startswith": ["startswith(s, 'a')"], "endswith": ["endswith(s, s)"], "contains": ["contains(s, 'b')"],
    "instr": ["instr(s, 'b')"], "levenshtein": ["levenshtein(s, 'abc')"],
    "substring": ["substring(s, 2)", "substring(s, i, tiny)"], "substr": ["substr(s, 1, 2)"], "left": ["left(s, i)"],
    "right": ["right(s, 2)"], "replace": ["replace(s, 'a', 'b')"], "translate": ["translate(s, 'ab', 'xy')"],
    "lpad": ["lpad(s, i, '*')"], "rpad": ["rpad(s, 5, '')"], "concat": ["concat(s, a, b, ok)"],
    "concat_ws": ["concat_ws('-', s, a)"], "sha2": ["sha2(s, 256)"], "split": ["split(s, '[,;]')"],
    "regexp_replace": ["regexp_replace(s, '[0-9]+', '#')"], "regexp_extract": ["regexp_extract(s, '(a)(b*)', 2)"],
    **{name: [f"{name}(b)", f"{name}(a)", f"{name}(dec)"] for name in (
        "sqrt", "cbrt", "exp", "ln", "log10", "log2", "sin", "cos", "tan", "asin", "acos", "atan", "degrees",
        "radians", "sign", "signum")},
    "floor": ["floor(b)", "floor(a)"], "ceil": ["ceil(b)"],
    "ceiling": ["ceiling(dec)", "ceiling(CAST(a AS decimal(38,2)))"],
    "pow": ["pow(a, b)"], "power": ["power(i, 2)"], "atan2": ["atan2(a, b)"], "log": ["log(2, b)"], "pi": ["pi()"],
    "abs": ["abs(a)", "abs(b)", "abs(tiny)", "abs(f)", "abs(dec)"],
    "round": ["round(b)", "round(a, -1)"], "pmod": ["pmod(a, i)"],
    "isnan": ["isnan(b)"], "nanvl": ["nanvl(b, a)"],
    "coalesce": ["coalesce(a, b)", "coalesce(s, 'x')", "coalesce(dec, a)"],
    "greatest": ["greatest(a, b, i)", "greatest(dec, i)"], "least": ["least(s, 'b')"], "ifnull": ["ifnull(i, a)"],
    "nvl": ["nvl(f, i)"],
    "nullif": ["nullif(a, 3)", "nullif(s, '')"], "nvl2": ["nvl2(s, a, b)"], "if": ["if(ok, a, b)", "if(ok, NULL, s)"],
    "isnull": ["isnull(a)"], "isnotnull": ["isnotnull(s)"], "hash": ["hash(a, s)"], "xxhash64": ["xxhash64(s)"],
    "get_json_object": ["get_json_object(s, '$.a')"], "json_array_length": ["json_array_length(s)"],
    "json_object_keys": ["json_object_keys(s)"], "to_json": ["to_json(r)", "to_json(arr)", "to_json(m)"],
    "from_json": ["from_json(s, 'a int, b array<struct<c:string,t:timestamp>>')", "from_json(s, 'array<double>')",
                  "from_json(s, 'map<string,bigint>')", "from_json(s, 'a int').a", "from_json(s, 'a decimal(9,2)')"],
    "size": ["size(arr)", "size(m)"], "cardinality": ["cardinality(arr)"],
    "array": ["array(a, b)", "array(dec, i)", "array('x')"],
    "array_contains": ["array_contains(arr, 1)", "array_contains(arr, i)"], "array_max": ["array_max(arr)"],
    "array_min": ["array_min(r.y)"], "array_distinct": ["array_distinct(arr)"], "sort_array": ["sort_array(arr)"],
    "array_join": ["array_join(r.y, ',')"], "flatten": ["flatten(nested)"], "map_keys": ["map_keys(m)"],
    "map_values": ["map_values(m)"], "element_at": ["element_at(m, 'k')"], "get": ["get(arr, i)"],
    "to_timestamp": ["to_timestamp(s)", "to_timestamp(s, 'd.M.yyyy HH:mm')"],
    "to_date": ["to_date(s)", "to_date(s, 'dd.MM.yyyy')"],
    "to_utc_timestamp": ["to_utc_timestamp(at, 'Europe/Berlin')"],
    "from_utc_timestamp": ["from_utc_timestamp(at, 'Asia/Kolkata')"], "timestamp_millis": ["timestamp_millis(_time)"],
    "timestamp_seconds": ["timestamp_seconds(a)"], "unix_millis": ["unix_millis(at)"],
    "unix_seconds": ["unix_seconds(d)"], **{name: [f"{name}(at)", f"{name}(d)"] for name in (
        "year", "month", "day", "dayofmonth", "dayofweek", "dayofyear", "quarter", "weekofyear", "hour", "minute",
        "second")},
    "date_format": ["date_format(at, 'yyyy-MM-dd HH:mm:ss.SSS')"], "date_trunc": ["date_trunc('hour', at)"],
    "date_add": ["date_add(d, i)"], "date_sub": ["date_sub(d, 3)"], "datediff": ["datediff(d, d)"],
    "transform": ["transform(arr, x -> x + a)", "transform(r.y, (x, place) -> x || place)"],
    "filter": ["filter(arr, x -> x > b)"], "exists": ["exists(arr, x -> x = 1)"],
    "forall": ["forall(r.y, x -> x LIKE 'a%')"], "aggregate": ["aggregate(arr, 0.0, (total, x) -> total + x)"],
    "struct": ["struct(a, b AS c)", "struct(r.x)"], "named_struct": ["named_struct('p', a, 'q', s).q"],
    "explode": ["explode(arr)"], "explode_outer": ["explode_outer(r.y)"],
}
OPERATORS = [
    "a + 1", "a + b", "i * tiny", "tiny + tiny", "a - 2147483648", "f + i", "dec * 2", "a / i", "a % i", "b % 2",
    "a DIV i", "-a", "-b", "-tiny", "s || a", "a > 1.5 AND NOT ok", "a = b OR s <> 'x'", "a <=> i", "s LIKE 'a%'",
    "s RLIKE '^a+$'", "a IN (1, 2.5)", "a BETWEEN 1 AND b", "a IS NULL", "ok IS TRUE", "s IS NOT NULL", "arr[0]",
    "arr[i]", "m['k']",
    "r.x", "r['y'][0]", "CASE WHEN ok THEN a WHEN a > 3 THEN b END", "CASE i WHEN 1 THEN 'x' ELSE s END", "a::double",
    "CAST(s AS bigint)", "CAST(b AS int)", "CAST(s AS timestamp)", "CAST(at AS date)", "CAST(ok AS int)",
    "CAST(arr AS string)", "CAST(NULL AS double)", "1.5", "5", "3000000000", "'it\\'s'", "TRUE", "CAST(s AS boolean)",
    "dec + 1", "dec - dec", "dec * i", "dec * dec", "dec * a", "dec % 3", "dec % dec", "-dec", "dec / 3", "dec = i",
    "dec > b", "dec IN (1, 2)", "dec BETWEEN a AND 3", "CAST(s AS decimal(5,1))", "CAST(b AS decimal(12,4))",
    "CAST(a AS decimal(38,18))", "CAST(dec AS bigint)", "CASE WHEN ok THEN dec ELSE i END", "dec + b",
    "arr = arr", "d > d", "'\\\\d'", "1e3 * a",
]


def hostile(count: int) -> list[tuple]:
    """Rows of values that make careless expressions fail: limits, nothing, NaN, text that is no number."""
    from datetime import UTC, date, datetime
    from decimal import Decimal

    chance = random.Random(11)
    longs = [None, 0, 1, 3, -1, 5, 2**63 - 1, -(2**63), 2**53 + 1, 250_000_000_000_001]
    doubles = [None, 0.0, -0.0, math.nan, math.inf, -math.inf, 1e308, 5e-324, 2.5, 3.0]
    texts = [None, "", "a", "abb", "x'y", "12", "1e400", '{"a": 1, "b": [{"c": "z"}]}', "[1, 2", "2024-02-30", "a,b;c",
             "2024-05-01T10:00:00Z", "ünï", "\\d"]
    return [(
        seq, START_MS + seq, START_MS, chance.choice(longs), chance.choice(doubles),
        chance.choice([None, 0, 1, 2, -1, 2**31 - 1, -(2**31)]), chance.choice(texts),
        chance.choice([None, True, False]),
        chance.choice([None, datetime(1969, 1, 1, tzinfo=UTC), datetime(2024, 2, 29, 23, 59, 59, tzinfo=UTC)]),
        chance.choice([None, [], [1.0], [math.nan, None, 2.0]]), chance.choice([None, {}, {"k": 1}]),
        chance.choice([None, (None, None), (1, ["a", None])]), chance.choice([None, [], [[1], [2, 3]]]),
        chance.choice([None, -128, 127, 3]), chance.choice([None, 1.5, math.nan]),
        chance.choice([None, date(2024, 2, 29)]), chance.choice([None, Decimal("1.25"), Decimal("-99999999.99")]),
    ) for seq in range(count)]


@pytest.fixture(scope="module")
def rows(spark):
    """Hostile events as a table."""
    return spark.createDataFrame(hostile(120), COLUMNS).coalesce(1).cache()


def test_every_function_has_a_call_here():
    assert {"posexplode", "posexplode_outer"} | CALLS.keys() == NAMES and FUNCTIONS


def test_each_expression_has_sparks_type_and_fails_for_no_value(rows):
    generated = ["explode(arr) AS g", "explode_outer(r.y) AS g", "explode(m) AS (k, v)", "posexplode(arr) AS (p, v)",
                 "posexplode_outer(m) AS (p, k, v)"]
    plain = [*OPERATORS, *(call for name, calls in CALLS.items() if "explode" not in name for call in calls)]
    named = ", ".join(f"{text} AS c{place}" for place, text in enumerate(plain))
    for entries in [named, *generated]:
        query = f"SELECT {entries} FROM input"
        frame = build("sql", rows, query=one_form(query))
        declared = compiled(parse(one_form(query)), Columns(dict(rows.dtypes))).columns
        types = [(name, kind) for name, kind in declared.types.items()]
        assert types == frame.dtypes, [pair for pair in zip(types, frame.dtypes, strict=False) if pair[0] != pair[1]]
        events = frame.collect()
        assert len(events) >= 40
        as_written = build("sql", rows, query=query).collect()
        assert list(map(repr, events)) == list(map(repr, as_written)), "its one form gives the same"


def test_text_and_patterns_reach_spark_as_they_were_written(rows):
    query = "SELECT 'it\\'s' AS q, '\\\\d' AS p, s RLIKE '^\\\\\\\\d$' AS m, 'ünï' AS u, 'a\\nb' AS n FROM input"
    [first, *_] = build("sql", rows, query=query).select("q", "p", "u", "n").collect()
    assert tuple(first) == ("it's", "\\d", "ünï", "a\nb")


CONDITIONS = [
    "a > 3", "a > 5", "a >= 5", "3 < a", "NOT a <= 3", "a BETWEEN 1 AND 5", "a IN (1, 3)", "a = 3", "a <> 3",
    "b > 2", "b > 2.5", "b >= 3.0", "b < 3", "b <= 2.5", "NOT b < 3.0", "b = 0.0", "s > 'a'", "s >= 'abb'", "s = 'abb'",
    "s IN ('a', 'abb')", "s IS NOT NULL", "b IS NOT NULL", "a IS NOT NULL", "b > 9007199254740993.0",
    "a > 9007199254740992", "a >= 9007199254740993.0", "ok", "NOT (a > 5 AND NOT ok)",
]


def test_refinements_give_what_the_narrow_select_gives_alone(rows):
    """Every pair of conditions, on rows with NULL, NaN and the ends of what 64 bits hold: all of them in one pass."""
    from pyspark.sql import functions as F

    data = rows.select("_seq", "a", "b", "s", "ok").cache()
    holds = {text: compiled(parse(one_form(f"SELECT * FROM input WHERE {text}")),
                            Columns(dict(rows.dtypes))).where for text in CONDITIONS}
    table = data.select("_seq", *[F.expr(f"coalesce({where}, false)").alias(f"h{place}")
                                  for place, where in enumerate(holds.values())]).collect()
    passed = {text: {row[0] for row in table if row[place + 1]} for place, text in enumerate(holds)}
    refined = 0
    for wide in CONDITIONS:
        for narrow in CONDITIONS:
            query = contained(one_form(f"SELECT * FROM input WHERE {wide}"),
                              one_form(f"SELECT * FROM input WHERE {narrow}"))
            if query is not None:
                refined += 1
                assert passed[narrow] <= passed[wide], (wide, narrow)
    assert refined >= 50


def test_a_refined_select_gives_the_same_events_and_columns(rows):
    for wide, narrow in [
        ("SELECT * FROM input WHERE a > 3", "SELECT s, a * 2 AS twice, arr FROM input WHERE a > 5 AND s IS NOT NULL"),
        ("SELECT a, b + 1 AS c, r AS q, s FROM input WHERE b IS NOT NULL",
         "SELECT b + 1 AS d, r.y[0] AS e, s FROM input WHERE b IS NOT NULL AND a IN (1, 3)"),
        ("SELECT *, upper(s) AS big FROM input", "SELECT explode(arr) AS x, upper(s) AS t FROM input WHERE ok"),
        ("SELECT 'all' AS made, * FROM input", "SELECT *, 'few' AS made FROM input WHERE a > 3"),
    ]:
        refined = contained(one_form(wide), one_form(narrow))
        assert refined is not None
        on_top = build("sql", build("sql", rows, query=one_form(wide)), query=refined)
        alone = build("sql", rows, query=one_form(narrow))
        assert on_top.dtypes == alone.dtypes
        assert list(map(repr, on_top.collect())) == list(map(repr, alone.collect()))
