"""The parts of a latency add up to the whole, and none is negative, whatever was measured."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.latency.breakdown import Hop, broken_down, part_broken_down
from scheduler.latency.triggers import WHOLE, Counted

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


def test_of_a_part_counts_what_its_elements_took_alone() -> None:
    """From a source that is done after 600 ms; b takes it 200 ms later, and gives it 100 ms after that; then c."""
    hops = [("a", Hop(600.0)), ("b", Hop(900.0, 200.0, 150.0, 600.0)), ("c", Hop(1_300.0, 300.0, 250.0, 900.0))]

    def parts(begin: int, end: int, counted: Counted) -> tuple[float, float, float]:
        made = part_broken_down(hops[begin:end], counted, first_interval_ms=1_000.0)
        assert made.total_ms == pytest.approx(made.waiting_ms + made.transport_ms + made.working_ms)
        return made.waiting_ms, made.transport_ms, made.working_ms

    from_task = Counted(waits=False)
    assert parts(0, 3, WHOLE) == (900.0, 100.0, 300.0)
    assert parts(0, 1, from_task) == (0.0, 0.0, 100.0), "behind the source, in its query"
    assert parts(1, 3, from_task) == (250.0, 50.0, 200.0)
    assert parts(0, 2, Counted(False, frozenset("a"))) == (150.0, 50.0, 100.0)
    assert parts(1, 3, Counted(False, frozenset("c"))) == (250.0, 50.0, 100.0)
    assert parts(1, 3, Counted(False, frozenset("bc"))) == (250.0, 50.0, 0.0)
    assert parts(1, 2, Counted(False, frozenset("b"))) == (0.0, 0.0, 0.0), "a stream within a query"


def test_what_came_by_another_stream_is_not_of_a_part() -> None:
    """Half of what b reads is 5 s old when it is written: what is on the part is as quick as before."""
    hops = [("a", Hop(500.0)), ("b", Hop(3_150.0, 200.0, 150.0, 2_750.0))]

    assert part_broken_down(hops, Counted(False, frozenset("a")), first_interval_ms=800.0).total_ms == 400.0
