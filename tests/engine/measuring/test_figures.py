"""Figures of batches, against queues whose capacity is known."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.latency.histograms import percentile_ms
from workers.engine.measuring.trial_figures import (
    TrialBatch,
    achieved_per_s,
    batch_of,
    is_clear,
    is_enough,
    latency_slope,
    quantiles_s,
)

TRIGGER_S = 0.5
SLOPE = 0.03  # what parts stable from unstable, as sweeps have it


def batches_of(
    rate_per_s: float, capacity_per_s: float, *, fixed_s: float = 0.04, until_s: float = 8.0
) -> list[TrialBatch]:
    """The batches of an engine that works off so much a second, and takes so long for each batch whatever is in it."""
    batches: list[TrialBatch] = []
    planned, read_to = TRIGGER_S, 0.0
    while planned < until_s:
        ended = planned + fixed_s + (planned - read_to) * rate_per_s / capacity_per_s
        count = round((planned - read_to) * rate_per_s)
        batches.append(TrialBatch(planned, ended, count, count, born_s=(planned + read_to) / 2))
        read_to = planned
        planned = max(ended, planned + TRIGGER_S)
    return [batch for batch in batches if batch.ended_s <= until_s]


def slope_of(batches: list[TrialBatch], *, from_s: float = 2.0, now_s: float = 8.0) -> float:
    return latency_slope([batch for batch in batches if batch.ended_s >= from_s], trigger_s=TRIGGER_S, now_s=now_s)


@given(capacity=st.floats(20, 5_000), load=st.floats(0.05, 0.9))
def test_while_batches_end_before_the_next_is_due_latency_does_not_grow(capacity: float, load: float):
    assert slope_of(batches_of(load * capacity, capacity)) == 0.0


@given(capacity=st.floats(20, 5_000), load=st.floats(1.05, 1.6))
def test_beyond_its_capacity_latency_grows_by_as_much_as_it_is_beyond(capacity: float, load: float):
    slope = slope_of(batches_of(load * capacity, capacity))
    assert slope > SLOPE and slope >= 0.6 * (load - 1)


@given(capacity=st.floats(20, 5_000), load=st.floats(0.1, 0.8), late=st.integers(0, 9), by_s=st.floats(0.05, 3.0))
def test_one_late_batch_is_no_growth(capacity: float, load: float, late: int, by_s: float):
    batches = [late_batch for late_batch in batches_of(load * capacity, capacity) if late_batch.ended_s >= 2.0]
    batch = batches[late % len(batches)]
    batches[late % len(batches)] = TrialBatch(
        batch.planned_s, batch.planned_s + batch.took_s + by_s, batch.events_in, batch.events_out, batch.born_s)
    assert abs(latency_slope(batches, trigger_s=TRIGGER_S, now_s=batches[-1].ended_s)) <= SLOPE


def test_where_nothing_comes_out_latency_grows_with_time():
    assert latency_slope([], trigger_s=TRIGGER_S, now_s=5.0) == 1.0
    stuck = [TrialBatch(0.5, 0.6, 5, 5, 0.3), TrialBatch(1.0, 1.1, 5, 5, 0.8)]
    assert latency_slope(stuck, trigger_s=TRIGGER_S, now_s=6.0) > SLOPE
    assert latency_slope(stuck, trigger_s=TRIGGER_S, now_s=1.4) == 0.0


@given(capacity=st.floats(20, 5_000), load=st.floats(0.1, 0.9))
def test_what_is_achieved_is_what_was_offered_while_it_keeps_up(capacity: float, load: float):
    batches = batches_of(load * capacity, capacity)
    assert achieved_per_s(batches, measured_s=8.0) == pytest.approx(load * capacity, rel=0.1, abs=2)
    over = batches_of(1.5 * capacity, capacity)
    assert achieved_per_s(over, measured_s=8.0) < 1.1 * capacity


def test_what_is_clear_ends_early_and_what_is_not_does_not():
    def clear(load: float, measured_s: float = 2.0) -> bool:
        now_s = 2.0 + measured_s
        batches = [batch for batch in batches_of(load * 1000, 1000, until_s=now_s) if batch.ended_s >= 2.0]
        return is_clear(batches, trigger_s=TRIGGER_S, now_s=now_s, measured_s=measured_s)

    assert clear(0.2, measured_s=2.5) and clear(1.3, measured_s=6.0)
    assert not any(clear(load) for load in (0.8, 0.95, 1.05))
    assert not clear(0.2, measured_s=0.6)


@given(load=st.floats(0.05, 0.5), each_s=st.floats(0.6, 2.0), seconds=st.floats(2.0, 8.0))
def test_long_batches_are_not_taken_for_growth_before_there_are_some(load: float, each_s: float, seconds: float):
    """What waits for a service takes seconds for a batch, at any rate that it sustains."""
    began_s = 20.0  # by then they are as long as they become
    batches = batches_of(load * 100, 100, fixed_s=each_s, until_s=began_s + 3 * seconds)
    batches = [batch for batch in batches if batch.ended_s >= began_s]
    for now_s in (began_s + step / 2 for step in range(1, int(6 * seconds) + 1)):
        seen = [batch for batch in batches if batch.ended_s <= now_s]
        measured_s = now_s - began_s
        if is_enough(seen, trigger_s=TRIGGER_S, now_s=now_s, measured_s=measured_s, seconds=seconds):
            assert measured_s >= 3 * seconds or len(seen) >= 6
            assert len(seen) < 3 or latency_slope(seen, trigger_s=TRIGGER_S, now_s=now_s) <= SLOPE
            return
    assert int(6 * seconds) / 2 < 3 * seconds, "in the end it is enough"


@given(capacity=st.floats(20, 5_000), load=st.floats(0.1, 0.8), by_s=st.floats(0.05, 3.0))
def test_a_late_batch_at_the_end_takes_nothing_from_what_is_achieved(capacity: float, load: float, by_s: float):
    *batches, last = batches_of(load * capacity, capacity)
    batches.append(TrialBatch(last.planned_s, last.ended_s + by_s, last.events_in, last.events_out, last.born_s))
    assert achieved_per_s(batches, measured_s=8.0) >= 0.95 * load * capacity - 2


def test_a_window_goes_on_while_growth_is_in_doubt_and_ends():
    def enough(load: float, measured_s: float, seconds: float = 2.0) -> bool:
        now_s = 2.0 + measured_s
        batches = [batch for batch in batches_of(load * 1000, 1000, until_s=now_s) if batch.ended_s >= 2.0]
        return is_enough(batches, trigger_s=TRIGGER_S, now_s=now_s, measured_s=measured_s, seconds=seconds)

    assert enough(0.8, 3.5, 3.5) and not enough(0.8, 3.4, 3.5), "as long as was asked for"
    assert enough(1.3, 6.0, 4.0) and not enough(1.3, 3.9, 4.0), "it grows for sure"
    assert not enough(1.05, 2.0) and not enough(1.05, 5.9) and enough(1.05, 6.0), "a little: three times as long"
    assert is_enough([], trigger_s=TRIGGER_S, now_s=9.0, measured_s=6.0, seconds=2.0), "nothing ever ends"


def test_a_batch_is_read_from_what_spark_says_of_it():
    progress = {"numInputRows": 12, "durationMs": {"latestOffset": 100, "triggerExecution": 400},
            "observedMetrics": {"weir": {"events": 6, "born": 9_500.0}}}
    batch = batch_of(progress, started_s=10.0)
    assert (batch.planned_s, batch.ended_s, batch.events_in, batch.events_out) == (10.1, 10.4, 12, 6)
    assert batch.latency_s == pytest.approx(0.9) and batch.took_s == pytest.approx(0.3)
    nothing = batch_of({"numInputRows": 3, "durationMs": {}, "observedMetrics": {"weir": {"events": 0}}}, started_s=1.0)
    assert nothing.latency_s is None and nothing.beyond_s(0.5) == 0.5


def test_quantiles_are_of_what_a_histogram_gained():
    before, after = {28: 100}, {28: 100, 32: 90, 36: 10}
    quantiles = quantiles_s(before, after, percentile_ms)
    assert 0.25 <= quantiles["p50"] <= 0.31 and quantiles["p99"] > 0.5 and quantiles["p05"] < quantiles["p95"]
    assert quantiles_s(after, after, percentile_ms) == {}
