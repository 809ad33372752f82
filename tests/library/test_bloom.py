"""The Bloom filter: never a false negative, and no more false positives than asked for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.library.bloom import BloomFilter


@given(st.sets(st.text(max_size=20), max_size=80), st.integers(1, 100), st.floats(0.001, 0.5))
def test_members_are_always_found(members, expected, ratio):
    bloom = BloomFilter.of(members, expected_insertions=expected, false_positive_ratio=ratio)
    assert all(member in bloom for member in members)


@pytest.mark.parametrize("ratio", [0.1, 0.01])
def test_others_pass_as_seldom_as_asked_for(ratio):
    bloom = BloomFilter.of((f"m{number}" for number in range(2_000)), expected_insertions=2_000,
                           false_positive_ratio=ratio)
    passed = sum(f"other{number}" in bloom for number in range(20_000))
    assert 0.4 * ratio < passed / 20_000 < 1.6 * ratio


def test_an_empty_filter_knows_nobody():
    bloom = BloomFilter.of((), expected_insertions=10, false_positive_ratio=0.01)
    assert not any(f"{number}" in bloom for number in range(100))
