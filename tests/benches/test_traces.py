"""Traces: what may come and go when, and that a seed draws the same trace again."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.benches.traces import Trace, draw_traces, random_walk, sequential

NAMES = [f"d{number}" for number in range(9)]
TRACES = st.builds(
    lambda names, seed, steps, walks: (
        random_walk(names, rng=Random(seed), steps=steps) if walks else sequential(names, rng=Random(seed))
    ),
    st.lists(st.sampled_from(NAMES), unique=True, min_size=1), st.integers(), st.integers(0, 30), st.booleans(),
)


def present_after(trace: Trace) -> list[set[str]]:
    """Which dataflows are there after each step; each step is one that can be made."""
    present, sets = set(), []
    for change in trace.changes:
        assert (change.dataflow in present) == (change.kind == "remove")
        present = present ^ {change.dataflow}
        sets.append(present)
    return sets


@given(TRACES)
def test_every_trace_ends_where_it_began(trace):
    assert not trace.changes or present_after(trace)[-1] == set()


def test_a_sequence_submits_all_before_it_drains():
    sets = present_after(sequential(NAMES, rng=Random(1)))
    assert [len(names) for names in sets] == [*range(1, 10), *range(8, -1, -1)]


def test_a_walk_starts_with_a_part_and_stays_within_the_workload():
    trace = random_walk(NAMES, rng=Random(3), steps=200)
    assert len(trace.walk) == 200 and trace.walk.start == round(len(NAMES) / 2)
    sizes = [len(names) for names in present_after(trace)]
    assert sizes[: trace.walk.start] == [*range(1, trace.walk.start + 1)]
    assert {0, len(NAMES)} & set(sizes[trace.walk.start : trace.walk.stop]), "long enough to reach an end and turn back"
    assert sizes[trace.walk.stop - 1 :] == [*range(sizes[trace.walk.stop - 1], -1, -1)]


def test_submitting_and_removing_are_equally_likely():
    names = [f"d{number}" for number in range(1000)]
    trace = random_walk(names, rng=Random(1), steps=400)
    comes = sum(trace.changes[step].kind == "submit" for step in trace.walk)
    assert 160 < comes < 240


def test_a_seed_draws_the_same_again_and_two_walks_differ():
    assert draw_traces(NAMES, seed=5) == draw_traces(NAMES, seed=5) != draw_traces(NAMES, seed=6)
    _, first, second = draw_traces(NAMES, seed=5)
    assert first.changes != second.changes


@pytest.mark.parametrize("draw", [sequential, random_walk])
def test_no_dataflows_make_no_trace(draw):
    assert draw([], rng=Random(1)).changes == ()
