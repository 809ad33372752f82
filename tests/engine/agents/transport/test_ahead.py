"""When state goes ahead, and after which round that is over."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.engine.agents.transport.ahead import (
    LIMITS,
    STILL_MS,
    Ahead,
    Sent,
    goes_as_difference,
    how_far,
    is_worth_another,
)

MB = 1 << 20


@pytest.mark.parametrize(("lengths", "is_worth"), [
    ([100 * MB], True),  # nobody knows yet how much was written meanwhile
    ([MB], False),
    ([100 * MB, 30 * MB], True),
    ([100 * MB, 30 * MB, 10 * MB], True),
    ([100 * MB, 30 * MB, 10 * MB, MB], False),  # so little is left
    ([100 * MB, 80 * MB], False),  # as fast as it goes, so fast is it written
    ([100 * MB, 60 * MB, 42 * MB], True),
    ([100 * MB, 60 * MB, 43 * MB], False),
    ([100 * MB, 60 * MB, 40 * MB, 25 * MB, 16 * MB, 10 * MB], False),  # rounds enough
])
def test_rounds_go_on_while_each_leaves_less(lengths, is_worth):
    assert is_worth_another(lengths, LIMITS) is is_worth


@given(st.lists(st.integers(0, 2**40), min_size=1, max_size=20))
def test_rounds_come_to_an_end(lengths):
    rounds = next(number for number in range(len(lengths) + 1) if number == len(lengths) or not is_worth_another(
        lengths[: number + 1], LIMITS))
    assert rounds <= LIMITS.most_rounds
    assert sum(lengths[: rounds + 1]) <= lengths[0] / (1 - LIMITS.shrinks_to) + max(lengths), "and so does what is sent"


def test_how_far_a_copy_is():
    def far(sent: Sent, **facts: object) -> Ahead:
        return how_far(sent, **{
            "is_ready": True, "is_over": False, "state_bytes": LIMITS.least_bytes, "still_ms": 0, **facts})

    large = Sent(has_copy=True, is_stored=True, lengths=(9 * MB,))
    assert far(Sent(), is_ready=False) is Ahead.WAIT
    assert far(Sent()) is Ahead.COPY
    assert far(Sent(), state_bytes=LIMITS.least_bytes - 1) is Ahead.OVER
    assert far(Sent(has_copy=True)) is Ahead.SEND
    assert far(large) is Ahead.COPY, "now what was written meanwhile"
    assert far(large, is_ready=False) is Ahead.WAIT
    assert far(Sent(has_copy=True, is_stored=True, lengths=(9 * MB, 8))) is Ahead.OVER
    assert far(large, is_over=True) is far(large, still_ms=STILL_MS) is Ahead.OVER
    assert far(Sent(has_copy=True, is_refused=True)) is Ahead.OVER
    assert far(replace(large, copies=2)) is Ahead.COPY
    assert far(replace(large, copies=3)) is Ahead.OVER, "all of it goes no more often"


def test_a_difference_is_sent_of_what_the_heir_has():
    assert goes_as_difference(copied="ab", stored=b"ab", is_refused=False)
    assert not goes_as_difference(copied="ab", stored=b"ab", is_refused=True)
    assert not goes_as_difference(copied="ab", stored=b"cd", is_refused=False)
    assert not goes_as_difference(copied="ab", stored=None, is_refused=False)
    assert not goes_as_difference(copied=None, stored=None, is_refused=False)
