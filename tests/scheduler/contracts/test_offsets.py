"""Offsets: the text that the broker and Spark's checkpoints keep, in the order of its numbers."""

from __future__ import annotations

import copy
import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.contracts.codec import InvalidContract
from scheduler.contracts.offsets import START, Offset
from scheduler.contracts.savepoints import SAVEPOINTS

numbers = st.tuples(st.integers(0, 2**63), st.integers(0, 20))


def offset_of(pair: tuple[int, int]) -> Offset:
    return Offset(f"{pair[0]}-{pair[1]}")


@given(one=numbers, other=numbers)
def test_offsets_are_ordered_as_their_numbers_beside_texts_too(one, other):
    left, right = offset_of(one), offset_of(other)
    for compared in (right, str(right)):
        assert (left < compared, left <= compared, left > compared, left >= compared, left == compared) == (
            one < other, one <= other, one > other, one >= other, one == other)
    assert (str(left) < right) == (one < other) and max(left, right) == offset_of(max(one, other))


@given(pair=numbers)
def test_an_offset_stays_one_over_copies_and_is_its_text_in_json(pair):
    offset = offset_of(pair)
    for again in (copy.deepcopy(offset), pickle.loads(pickle.dumps(offset)), Offset(offset)):
        assert type(again) is Offset and again == offset and again.block == pair[0] and again >= START
    assert json.loads(json.dumps({offset: offset})) == {f"{pair[0]}-{pair[1]}": f"{pair[0]}-{pair[1]}"}


@pytest.mark.parametrize("text", ["", "5", "5-", "-1-0", "5-0-1", "a-b", "5-0 ", "\N{ARABIC-INDIC DIGIT FIVE}-0"])
def test_what_is_no_offset_is_refused_with_its_place(text):
    with pytest.raises(ValueError, match="no offset"):
        Offset(text)
    with pytest.raises(InvalidContract, match=r"/f1-0\.0"):
        SAVEPOINTS.read({"places": {"f1-0.0": text}})


def test_what_a_savepoint_holds_is_ordered():
    read = SAVEPOINTS.loads('{"places": {"f1-0.0": "10-0"}, "lasts": {"f1-1.0": "9-0"}}')
    assert read.offsets["f1-0.0"] > read.last_offsets["f1-1.0"]
