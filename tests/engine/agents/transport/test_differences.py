"""Differences: whatever changes, both together give the new text; and what did not change is not in them."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.engine.agents.transport.differences import difference, put_together

texts = st.one_of(st.binary(max_size=300), st.builds(lambda part, times: part * times, st.binary(max_size=9),
                                                     st.integers(0, 900)))


@given(old=texts, new=texts)
def test_the_new_text_comes_back(old, new):
    assert put_together(old, difference(old, new)) == new


@given(parts=st.lists(texts, max_size=6), order=st.randoms(use_true_random=False))
def test_the_same_parts_in_another_order_come_back(parts, order):
    old = b"".join(parts)
    order.shuffle(parts)
    assert put_together(old, difference(old, b"".join(parts))) == b"".join(parts)


def states(chance: random.Random, keys: int) -> dict[str, dict[str, float]]:
    return {f"key{number}": {"n": chance.randrange(10**6), "sum": chance.random()} for number in range(keys)}


def test_the_difference_is_of_the_size_of_what_changed():
    chance = random.Random(1)
    before = states(chance, 20_000)
    after = dict(before)
    for number in range(0, 20_000, 1_000):  # longer and shorter texts, so that what follows is moved
        after[f"key{number}"] = {"n": number, "sum": 0.5}
    del after["key777"]
    after["another"] = {"n": 1, "sum": 2.0}
    old, new = json.dumps(before).encode(), json.dumps(after).encode()
    change = difference(old, new)
    assert put_together(old, change) == new
    assert len(change) < len(new) / 10
    assert len(difference(old, old)) < 100


def test_what_does_not_belong_together_is_refused():
    old = b"".join(b"%d," % number for number in range(9_000))
    change = difference(old, old[:4_000] + b"new" + old[4_000:])
    for other_old, other in ((old[:-1], change), (b"", change), (old, change[:-1]), (old, change[:20]), (old, b"")):
        with pytest.raises(ValueError, match="difference"):
            put_together(other_old, other)
