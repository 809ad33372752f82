"""Aggregates of exact numbers: against Python's own, through JSON as their states are kept, cut and put together."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Context, Decimal, localcontext
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.library.aggregates import Aggregate, read_aggregates
from workers.library.state import held_as

FUNCTIONS = ("count", "sum", "avg", "min", "max", "first", "last", "collect", "count_distinct")
WHOLE = st.integers(-(2**63), 2**63 - 1)
CENTS = st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=-10**30, max_value=10**30)


def of(function: str, kind: str) -> Aggregate:
    [aggregate] = read_aggregates([f"x={function}(v)"])
    return replace(aggregate, of=kind)


def expected(function: str, values: list):
    """What Python makes of the values; a sum that 64 bits do not hold is nothing."""
    if function == "count":
        return len(values)
    if function == "count_distinct":
        return len(set(values))
    if function == "collect":
        return values
    if not values:
        return None
    if function == "sum":
        with localcontext(Context(prec=38)):  # by itself Python's rounds to 28 digits
            total = sum(values)
        return total if isinstance(total, Decimal) or -(2**63) <= total < 2**63 else None
    if function == "avg":
        return float(Fraction(sum(map(Fraction, values))) / len(values))
    return {"min": min, "max": max, "first": lambda all_: all_[0], "last": lambda all_: all_[-1]}[function](values)


def gathered(aggregate: Aggregate, values: list) -> list:
    state = aggregate.kind.start()
    for value in values:
        aggregate.add(state, str(value))
        state = json.loads(json.dumps(state))
    return state


@given(st.data(), st.sampled_from(FUNCTIONS), st.integers(0, 8))
@pytest.mark.parametrize(("kind", "numbers"), [("bigint", WHOLE), ("decimal(38,2)", CENTS)])
def test_exact_numbers_are_aggregated_exactly_and_parts_meet(kind, numbers, data, function, cut):
    values = data.draw(st.lists(numbers, max_size=8))
    aggregate = of(function, kind)
    state = gathered(aggregate, values[:cut])
    aggregate.merge(state, gathered(aggregate, values[cut:]))
    result, right = aggregate.result(state), expected(function, values)
    if function == "avg" and right is not None:
        assert result == pytest.approx(right, rel=1e-12, abs=1e-9)
    else:
        assert result == right and repr(result).count(".") == repr(right).count(".")


@pytest.mark.parametrize(("function", "kind", "state", "value", "right"), [
    ("max", "bigint", [7.0], "9007199254740993", 2**53 + 1), ("first", "bigint", [7.0], "8", 7),
    ("sum", "bigint", [2, 12.0], "3", 15), ("collect", "bigint", [1.0, 2.0], "3", [1, 2, 3]),
    ("count_distinct", "bigint", [1.0, 2.0], "2", 2), ("avg", "bigint", [2, 12.0], "3", 5.0),
    ("sum", "decimal(10,2)", [2, 1.5], "0.01", Decimal("1.51")),
    ("min", "decimal(10,2)", [1.1], "1.11", Decimal("1.10")), ("last", "decimal(10,2)", [1.1], "2", Decimal("2.00")),
    ("collect", "decimal(10,2)", [1.1, -0.25], "3.00", [Decimal("1.10"), Decimal("-0.25"), Decimal("3.00")]),
    ("count_distinct", "decimal(10,2)", [1.1], "1.10", 1), ("median", "decimal(10,2)", [1.0], "2.00", 1.5)])
def test_a_state_of_a_version_that_took_numbers_for_doubles_goes_on(function, kind, state, value, right):
    aggregate = of(function, kind)
    aggregate.add(state, value)
    assert aggregate.result(json.loads(json.dumps(state))) == right


def test_a_key_that_was_kept_as_a_double_is_the_text_that_it_is_now():
    assert held_as("string", [1.5, "1.5", None, 1e300, "a"]) == ["1.5", "1.5", None, "1e+300", "a"]
    assert held_as("double", [1.5, None]) == [1.5, None]
