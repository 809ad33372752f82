"""What the bench of connectors makes of counts that it sees; the bench itself runs real servers."""

from __future__ import annotations

import pytest

from tests.benches.rounds import REST_S, Moment, reading_of

BEFORE = Moment(0.0, 101, 90, {})  # ten events had not passed when the source was paused, and never will


def moments(*counts: tuple[int, int], rest_s: float = REST_S) -> list[Moment]:
    """A moment each second with so many events read and passed of this round, and CPU in proportion; then a rest."""
    seen = [
        Moment(float(second), BEFORE.read + read, BEFORE.passed + passed, {"host": 0.1 * second})
        for second, (read, passed) in enumerate(counts)]
    return [*seen, Moment(len(counts) - 1 + rest_s, seen[-1].read, seen[-1].passed, {"host": 99.0})]


def test_events_that_come_twice_do_not_end_a_round_before_its_last_event() -> None:
    """Twenty of a hundred came again at first: the hundredth that passes is not the last."""
    reading = reading_of(BEFORE, iter(moments((20, 0), (60, 40), (100, 100), (120, 110), (120, 120))), events=100)
    assert (reading.events, reading.again, reading.elapsed_s) == (120, 20, 4.0)
    assert reading.rate_per_s == 30.0 and reading.cpu_s == {"host": pytest.approx(0.4)}


def test_a_pause_within_a_round_does_not_end_it() -> None:
    seen = [
        *moments((50, 50), rest_s=2 * REST_S),
        Moment(20.0, BEFORE.read + 100, BEFORE.passed + 50, {"host": 1.0}),
        Moment(30.0, BEFORE.read + 100, BEFORE.passed + 100, {"host": 2.0}),
        Moment(30.0 + REST_S, BEFORE.read + 100, BEFORE.passed + 100, {"host": 3.0})]
    reading = reading_of(BEFORE, iter(seen), events=100)
    assert (reading.events, reading.again, reading.elapsed_s, reading.cpu_s) == (100, 0, 30.0, {"host": 2.0})
