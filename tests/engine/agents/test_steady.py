"""Rates of queries that count in batches: steady while batches come, whatever they take, and gone when none comes."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workers.engine.steady import WINDOW_MS, Track

PER_S = 40


def counted(at_ms: int, *, batch_ms: int, until_ms: int = 10**9) -> dict[str, int]:
    """What a query has counted whose batches end every so often; each has all events since the one before."""
    ended = min(at_ms, until_ms) // batch_ms
    return {"0:n": ended * PER_S * batch_ms // 1000}


def rates(batch_ms: int, *, look_ms: int = 500, seconds: int = 90, **changes: int) -> list[tuple[float, float]]:
    """The rate after each look, with when that was in seconds."""
    track, shown = Track(), []
    for at_ms in range(0, seconds * 1000, look_ms):
        track.look(at_ms, counted(at_ms, batch_ms=batch_ms, **changes), before_ms=None)
        growth = track.growth()
        shown.append((at_ms / 1000, growth.counts.get("0:n", 0) / growth.over_s if growth.over_s else 0.0))
    return shown


@settings(max_examples=60, deadline=None)
@given(batch_ms=st.integers(200, 15_000), look_ms=st.integers(250, 1_500))
def test_a_rate_neither_jumps_nor_vanishes_between_batches(batch_ms: int, look_ms: int):
    """From the third batch on; an end is seen up to a look late, and a window has at least so many seconds."""
    known_s = 3 * batch_ms / 1000 + WINDOW_MS / 1000 + 2 * look_ms / 1000
    shown = [rate for at_s, rate in rates(batch_ms, look_ms=look_ms) if at_s > known_s]
    slack = 2 * look_ms / max(batch_ms, WINDOW_MS) + 0.01
    assert shown and all(rate == pytest.approx(PER_S, rel=slack) for rate in shown)


@pytest.mark.parametrize("batch_ms", [500, 6_000])
def test_what_stops_goes_to_nothing_and_never_up(batch_ms: int):
    shown = rates(batch_ms, until_ms=30_000)
    after = [rate for at_s, rate in shown if at_s > 31]
    assert all(later <= earlier for earlier, later in pairwise(after))
    gone_s = 30 + 1.5 * batch_ms / 1000 + WINDOW_MS / 1000 + 3.5
    assert all(rate == 0 for at_s, rate in shown if at_s > gone_s)


def test_a_counter_that_begins_anew_counts_from_zero():
    track = Track()
    for at_ms in range(0, 10_000, 500):
        track.look(at_ms, counted(at_ms, batch_ms=500), before_ms=None)
    for at_ms in range(10_000, 20_000, 500):
        track.look(at_ms, counted(at_ms - 10_000, batch_ms=500), before_ms=None)
        growth = track.growth()
        assert all(count >= 0 for count in growth.counts.values())
    assert growth.counts["0:n"] / growth.over_s == pytest.approx(PER_S)


def test_what_stopped_after_nobody_had_looked_for_a_while_is_gone_all_the_same():
    """Looks that are far apart say nothing of how long a batch takes."""
    track = Track()
    for at_ms in (0, 20_000, 40_000, *range(40_500, 60_000, 500)):
        track.look(at_ms, counted(at_ms, batch_ms=500, until_ms=42_000), before_ms=None)
        growth = track.growth()
    assert not growth.counts
