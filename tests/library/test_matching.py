"""Patterns on Spark: matching gives what Spark's own functions give, and ends with an error where it takes too long."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.model.bounds import MATCHING_STEPS, PATTERN_CHARACTERS
from scheduler.model.columns import Columns
from workers.engine.spark.failure_messages import Cause, explain
from workers.library.config import InvalidConfig
from workers.library.select import growing
from workers.library.select.compiling import compiled
from workers.library.select.grammar import parse
from workers.library.state import going_on

from .conftest import START_MS, build

COLUMNS = "_seq bigint, _time bigint, _born bigint, s string, t string, l array<string>"
PATTERNS = ["a*b", "^(a)(b*)$", "(ab|a_)+", "", "a|b", "[^a]*,", "x?", r"\\s+$", "(a)|b", "%", "^", "ü.",
            ".*b", ".*?(a)b", "(.*)a,", ".*a|b", "(.*)?b", ".*a$"]
LIKES = ["%a%b%", "a%%b%c", "%a_%b%_", "%%", "%_%", "a%b", "%a%ü%b", "_%_%_", "%A%b%", "A%a%B"]
SAME = [
    *(f"s RLIKE '{pattern}'" for pattern in PATTERNS), *(f"split(s, '{pattern}')" for pattern in PATTERNS),
    *(f"regexp_replace(s, '{pattern}', '<>')" for pattern in PATTERNS),
    *(f"regexp_extract(s, '{pattern}', 0)" for pattern in PATTERNS), "regexp_extract(s, '^(a)(b*)$', 2)",
    "regexp_extract(s, '(a)|b', 1)", *(f"s {word} '{like}'" for like in LIKES for word in ("LIKE", "ILIKE")),
    "s NOT LIKE '%a%b%c'", "filter(l, x -> x RLIKE 'a+b')", "transform(l, x -> split(x, 'a'))",
    "exists(l, x -> x LIKE '%a%b')", "CAST(NULL AS string) RLIKE 'a'"]
words = st.none() | st.text("abAB_,% ü\n\r\u2028\U0001f600", max_size=8)


@pytest.mark.spark
@settings(max_examples=4)  # of many events each: what it costs is a query, not an event
@given(st.lists(st.tuples(words, st.none() | st.lists(words, max_size=4)), min_size=40, max_size=80))
def test_patterns_give_what_spark_gives(spark, values):
    rows = [(seq, START_MS, START_MS, s, None, listed) for seq, (s, listed) in enumerate(values)]
    frame = spark.createDataFrame(rows, COLUMNS).coalesce(1)
    named = [f"{text} AS c{place}" for place, text in enumerate(SAME)]
    made = build("sql", frame, query=f"SELECT {', '.join(named)} FROM input").drop("_seq", "_time", "_born")
    assert list(map(repr, made.collect())) == list(map(repr, frame.selectExpr(*named).collect()))


# Each would take an hour or more of a core on the event below, or more of its thread's stack than there is.
SLOW = {
    "a*a*~": ("RLIKE", "s RLIKE 'a*a*~'"), ".*a.*a~": ("regexp_replace", "regexp_replace(s, '(?:.*a.*)a~', 'x')"),
    "of a list": ("RLIKE", "exists(l, x -> x RLIKE 'a*a*~')"),
    "twice": ("split", "size(split(s, 'a*a*~')) + size(split(s, 'a*a*-'))"),
    "deep": ("regexp_extract", "regexp_extract(t, '(ab|ac)+', 0)"),
}


@pytest.fixture(scope="module")
def large(spark):
    return spark.createDataFrame(
        [(1, START_MS, START_MS, "a" * 100_000, "ab" * 50_000, ["a" * 200] * 10_000)], COLUMNS).coalesce(1)


@pytest.mark.spark
@pytest.mark.parametrize("name", SLOW)
def test_what_takes_too_long_fails_with_its_place(large, name, monkeypatch):
    """One takes all steps that there are; the others, for time's sake, a hundredth."""
    function, text = SLOW[name]
    most = MATCHING_STEPS.most if name == "twice" else MATCHING_STEPS.most // 100
    monkeypatch.setattr(growing, "MATCHING_STEPS", replace(MATCHING_STEPS, most=most))
    with going_on("3fc1"):
        frame = build("sql", large, query=f"SELECT {text} AS z FROM input")
    with pytest.raises(Exception) as caught:  # Spark's, of whatever class
        frame.write.format("noop").mode("overwrite").save()
    message = str(caught.value).partition("ResultTooLong: ")[2]
    steps = f"{most // (2 if name == 'twice' else 1)} steps"
    assert message.startswith(f"task 3fc1: {function} ") and ("group" if name == "deep" else steps) in message
    failure = explain([Cause("weir.ResultBounds$ResultTooLong", message)], [])
    assert failure.tasks == ("3fc1",) and failure.is_final and "substring" in str(failure)


@pytest.mark.spark
def test_what_begins_with_anything_is_looked_for_once_in_each_line(large):
    query = ("SELECT s RLIKE '.*~' AS y, regexp_extract(s, '(.*)~', 1) AS z, regexp_extract(s, '.*?(a~|a$)', 1) AS e "
             "FROM input")
    assert [tuple(row)[-3:] for row in build("sql", large, query=query).collect()] == [(False, "", "a")]


@pytest.mark.spark
def test_like_with_many_parts_takes_no_longer_than_its_text(large):
    like = "%a" * 400 + "%~"  # tried at all places of each part, as Spark does it, it would never end
    query = f"SELECT s LIKE '{like}' AS y, s ILIKE '{like.upper()}' AS z FROM input"
    assert [tuple(row)[-2:] for row in build("sql", large, query=query).collect()] == [(False, False)]


KNOWN = Columns.stream({"s": "string", "l": "array<string>"})


@pytest.mark.parametrize("count", [1, 3])
def test_all_patterns_of_a_query_share_its_steps(count):
    entries = [f"s RLIKE '{place}' AS r{place}, regexp_extract(s, '{place}', 0) AS e{place}, "
               f"size(split(s, '{place}')) AS p{place}, s LIKE '%{place}%b' AS k{place}" for place in range(count)]
    text = " ".join(compiled(parse(f"SELECT {', '.join(entries)} FROM input"), KNOWN).entries)
    shares = re.findall(r", (\d+)L, false, ", text)
    assert shares == [str(MATCHING_STEPS.most // (4 * count))] * 4 * count


@pytest.mark.parametrize("text", ["s RLIKE '{}'", "s LIKE '{}'", "s ILIKE '{}'", "size(split(s, '{}')) > 1"])
def test_a_pattern_has_no_more_characters_than_may_be(text):
    compiled(parse(f"SELECT s FROM input WHERE {text.format('a' * PATTERN_CHARACTERS.most)}"), KNOWN)
    with pytest.raises(InvalidConfig) as refusal:
        compiled(parse(f"SELECT s FROM input WHERE {text.format('a' * (PATTERN_CHARACTERS.most + 1))}"), KNOWN)
    assert f"{PATTERN_CHARACTERS.most:,} characters" in refusal.value.remedy
