"""Conditions over columns of events: what they let through, and what is refused before anything is looked at."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.guards.event_conditions import InvalidEventCondition, event_condition

TYPES = {"n": "bigint", "x": "double", "price": "decimal(9,2)", "kind": "string", "works": "boolean", "at": "timestamp",
         "more": "struct<a:int>", "a.b": "int", "what": None}
numbers = st.none() | st.integers(-3, 3)
events = st.fixed_dictionaries(
    {"n": numbers, "x": numbers.map(lambda value: value and value / 2) | st.just(math.nan),
     "kind": st.none() | st.sampled_from("ab"), "works": st.none() | st.booleans()})


def at_least(value: float | None, least: float) -> bool | None:
    return None if value is None or math.isnan(value) else value >= least


@given(events)
def test_a_condition_is_met_where_it_is_true_and_not_where_it_is_null(event):
    one, other = at_least(event["n"], 1), at_least(event["x"], 0.5)
    assert event_condition("n >= 1 AND x >= 0.5", TYPES)(event) is (one is True and other is True)
    assert event_condition("n >= 1 OR x >= 0.5", TYPES)(event) is (one is True or other is True)
    assert event_condition("NOT (n >= 1)", TYPES)(event) is (one is False)
    assert event_condition("kind IN ('a', 'c') AND works", TYPES)(event) is (
        event["kind"] == "a" and event["works"] is True)
    assert event_condition("n IS NULL", TYPES)(event) is (event["n"] is None)


@given(st.dictionaries(st.sampled_from([*TYPES, "other"]), st.none() | st.integers() | st.floats() | st.text(
    max_size=3) | st.booleans() | st.lists(st.integers(), max_size=1)))
def test_whatever_an_event_holds_it_is_met_or_not(event):
    for text in ("n + x > 1", "price > 1", "kind = 'a'", "works", "coalesce(n, x) > abs(price)", "n / x > 1", "n = n"):
        assert event_condition(text, TYPES)(event) in (True, False)


def test_large_whole_numbers_and_decimals_are_what_they_are():
    assert event_condition("n = 9007199254740993", TYPES)({"n": 9007199254740992}) in (True, False)  # a double
    assert event_condition("price > 1.25", TYPES)({"price": "1.26"})
    assert not event_condition("price > 1.25", TYPES)({"price": "much"})


@pytest.mark.parametrize("text,word", [
    ("", "empty"), ("n >", "cannot be read"), ("nn > 1", "no column nn"), ("n", "condition"),
    ("at > 1", "no column at"),
    ("more.a > 1", "no column"), ("what = 1", "no column what"), ("n > 'a'", "text"),
    ("kind > 1 OR", "cannot be read"),
    ("mean(n, '5 min') > 1", "more than one event"), ("for_at_least(n > 1, '5 min')", "more than one event"),
    ("java_method('java.lang.System', 'exit', 9) > 1", "no java_method"), ("n IN (SELECT 1)", "may not"),
    ("(" * 500 + "n > 1" + ")" * 500, "nested"), ("n > 1 OR " * 1000 + "works", "characters"),
])
def test_what_is_no_condition_over_columns_is_refused_with_a_remedy(text, word):
    with pytest.raises(InvalidEventCondition) as refused:
        event_condition(text, TYPES)
    message = refused.value.message
    assert word in message and refused.value.remedy and "guard" not in refused.value.full_message.lower()
