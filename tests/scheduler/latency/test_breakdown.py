"""The parts of a latency add up to the whole, and none is negative, whatever was measured."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.latency.breakdown import Hop, broken_down

MS = st.floats(0, 10_000)
HOPS = st.builds(Hop, MS, st.none() | MS, st.none() | MS)


@given(st.lists(HOPS, min_size=1, max_size=5), MS)
def test_the_parts_add_up_to_the_age_at_the_end(hops: list[Hop], first_interval_ms: float) -> None:
    parts = broken_down(hops, first_interval_ms=first_interval_ms)

    assert min(parts.waiting_ms, parts.transport_ms, parts.working_ms) >= 0
    assert parts.waiting_ms + parts.transport_ms + parts.working_ms == pytest.approx(max(hop.age_ms for hop in hops))


def test_each_part_is_what_was_measured_of_it() -> None:
    parts = broken_down([Hop(600.0), Hop(900.0, channel_ms=200.0, wait_ms=150.0)], first_interval_ms=1_000.0)

    assert (parts.waiting_ms, parts.transport_ms, parts.working_ms) == (650.0, 50.0, 200.0)
