"""How events are dealt out to the parts of a stream: by quota, from anywhere, and the same every time.

Of the reference, with which ``contract/test_routes.py`` compares the Java side.
"""

from __future__ import annotations

import math
from collections import Counter

from hypothesis import example, given, settings
from hypothesis import strategies as st

from .reference import STARTS, QuotaPartitioner, start_of

WEIGHTS = st.lists(st.one_of(st.floats(0.01, 1.0), st.sampled_from([0.0, 1.0, 1.0, 2.0])), min_size=1, max_size=9).map(
    lambda weights: {f"a.0@f{index}": weight for index, weight in enumerate([*weights, 1.0])}
)
EPSILON = 1e-9


def start_of_sequence() -> int:
    """A batch that starts where the sequence does."""
    return next(batch for batch in range(100 * STARTS) if start_of(batch) == 0)


@settings(max_examples=60)
@given(weights=WEIGHTS, count=st.integers(1, 400))
@example(weights={"a.0@f0": 1.0, "a.0@f1": 1 / 3, "a.0@f2": 1 / 3, "a.0@f3": 2.0, "a.0@f4": 1.0}, count=35)
def test_after_any_number_of_events_each_part_has_its_quota(weights, count) -> None:
    partitioner = QuotaPartitioner.of(weights)
    total = sum(weights.values())
    had = Counter()
    for events, part_index in enumerate(partitioner.deal(start_of_sequence(), 0, count), start=1):
        had[partitioner.parts[part_index]] += 1
        for part, weight in weights.items():
            quota = events * weight / total
            # A quota that is whole but for rounding may be taken as either side of that number.
            assert math.floor(quota - EPSILON) <= had[part] <= math.ceil(quota + EPSILON)


@settings(max_examples=60)
@given(weights=WEIGHTS, batch=st.integers(0, 10**9), count=st.integers(1, 500))
def test_a_batch_keeps_each_share_within_two_events(weights, batch, count) -> None:
    partitioner = QuotaPartitioner.of(weights)
    had = Counter(partitioner.parts[turn] for turn in partitioner.deal(batch, 0, count))
    total = sum(weights.values())
    assert sum(had.values()) == count
    for part, weight in weights.items():
        assert abs(had[part] - count * weight / total) < 2
        assert weight > 0 or had[part] == 0


@settings(max_examples=30)
@given(weights=WEIGHTS, batch=st.integers(0, 10**9), cuts=st.lists(st.integers(0, 100), max_size=6))
def test_a_batch_is_dealt_out_the_same_way_however_it_comes(weights, batch, cuts) -> None:
    partitioner = QuotaPartitioner.of(weights)
    whole = list(partitioner.deal(batch, 0, sum(cuts)))
    first, pieces = 0, []
    for count in cuts:
        pieces += partitioner.deal(batch, first, count)
        first += count
    assert pieces == whole


@settings(max_examples=15, deadline=None)
@given(
    weights=st.one_of(WEIGHTS, st.integers(2, 6).map(lambda parts: dict.fromkeys("abcdef"[:parts], 1.0))),
    rhythm=st.sampled_from([(1,), (2,), (1, 2), (3, 1), (1, 2, 2)]), first=st.integers(0, 10**7),
)
def test_small_batches_spread_as_large_ones_do_whatever_their_rhythm(weights, rhythm, first) -> None:
    partitioner = QuotaPartitioner.of(weights)
    had: Counter[str] = Counter()
    for batch in range(4_000):
        had.update(partitioner.parts[turn] for turn in partitioner.deal(first + batch, 0, rhythm[batch % len(rhythm)]))
    total = sum(weights.values())
    for part, weight in weights.items():
        # As if by chance: six standard deviations of 4,000 draws are less than 0.05.
        assert abs(had[part] / had.total() - weight / total) < 0.05
