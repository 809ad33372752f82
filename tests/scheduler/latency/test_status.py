"""What became of a limit, what the model lacks, and what counts while intervals change."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.latency.limits_met import (
    IMPOSSIBLE,
    LEAST_POINTS,
    MET,
    MISSED,
    WAITING,
    Settled,
    carried_over,
    corrected,
    is_beyond,
    settling_s,
    state_of,
)
from scheduler.latency.pacing import Expected


@pytest.mark.parametrize(("least_s", "measured_s", "state"), [
    (None, None, WAITING), (None, 1.0, MET), (None, 1.09, MET), (None, 1.2, MISSED), (1.5, 0.5, IMPOSSIBLE)])
def test_what_became_of_a_limit(least_s: float | None, measured_s: float | None, state: str) -> None:
    assert state_of(1.0, expected(least_s), measured_s) == state


@pytest.mark.parametrize(("measured_s", "is_whole", "is_proven", "state"), [
    (0.9, True, False, MET), (1.0, True, False, MET), (1.05, True, False, IMPOSSIBLE),
    (1.05, False, True, MET), (1.2, False, True, IMPOSSIBLE), (1.2, True, True, IMPOSSIBLE),
    (None, False, True, IMPOSSIBLE)])
def test_a_limit_that_held_over_its_span_is_met_whatever_the_model_says(
    measured_s: float | None, is_whole: bool, is_proven: bool, state: str
) -> None:
    assert state_of(1.0, expected(1.5), measured_s, is_whole=is_whole, is_proven=is_proven) == state


def expected(least_s: float | None) -> Expected:
    return Expected("w", 1.0, ("a",), ((0.5, 0.5),), least_s)


def test_what_the_model_lacks_is_learned_in_a_few_rounds() -> None:
    other_s = 0.0
    for _ in range(6):
        other_s = corrected(other_s, measured_s=1.3, modelled_s=1.0, limit_s=1.0)

    assert other_s == pytest.approx(0.3, rel=0.05)


@given(st.floats(-100, 100), st.floats(0.02, 60), st.floats(0, 100), st.floats(0, 100))
def test_no_correction_is_out_of_proportion_to_its_limit(
    other_s: float, limit_s: float, measured_s: float, modelled_s: float
) -> None:
    carried_s = carried_over(other_s, limit_s)
    assert abs(carried_s) <= 0.3 * limit_s + 1e-9
    assert -0.1 * limit_s - 1e-9 <= corrected(
        carried_s, measured_s=measured_s, modelled_s=modelled_s, limit_s=limit_s) <= 2 * limit_s + 1e-9


def test_nothing_counts_until_a_change_is_through() -> None:
    settled = Settled()
    for second in range(60):
        settled.look(second, (1.0, 2.0), 9.0 if second < settling_s((1.0, 2.0)) else 1.5, over_s=60)

    assert settled.mean_s == 1.5
    settled.look(60, (1.0, 4.0), 9.0, over_s=60)
    assert settled.mean_s is None
    assert settled.recent_s is None


@given(st.lists(st.tuples(st.integers(0, 500), st.floats(0.01, 20.0)), min_size=60, max_size=90))
def test_a_mean_is_that_of_all_events_of_the_span_however_their_rate_varies(seconds: list[tuple[int, float]]) -> None:
    settled, over_s = Settled(), 50
    for second, (events, age_s) in enumerate(seconds):
        settled.look(second, (), age_s if events else None, over_s=over_s, events_per_s=events)

    counted = seconds[max(int(settling_s(())), len(seconds) - over_s):]
    ages_s = [age_s for events, age_s in counted for _ in range(events)]
    if len([1 for events, _ in counted if events]) < LEAST_POINTS:
        assert settled.mean_s is None
    elif seconds[-1][0]:
        assert settled.mean_s == pytest.approx(sum(ages_s) / len(ages_s))


def test_few_late_events_count_as_few() -> None:
    settled = Settled()
    for second in range(100):
        is_late = 80 <= second < 85
        settled.look(second, (), 3.0 if is_late else 0.2, over_s=60, events_per_s=2.0 if is_late else 500.0)

    assert settled.mean_s == pytest.approx(0.2, abs=0.01)


def test_a_span_is_whole_once_it_was_measured_from_end_to_end() -> None:
    settled, whole = Settled(), []
    for second in range(100):
        settled.look(second, (1.0,) if second < 80 else (2.0,), 1.0, over_s=30)
        whole.append(settled.is_whole)

    first = int(settling_s((1.0,))) + 29
    assert whole == [False] * first + [True] * (80 - first) + [False] * 20


def test_the_last_seconds_decide_and_the_whole_span_is_told() -> None:
    settled = Settled()
    for second in range(200):
        settled.look(second, (1.0,), 1.0 if second < 185 else 2.0, over_s=60)

    assert settled.mean_s == pytest.approx(1.25)
    assert settled.recent_s == pytest.approx(1.75)
    assert LEAST_POINTS <= len(settled.points) <= 60


@pytest.mark.parametrize(("least_s", "latency_s", "other_s", "is_so"), [
    (None, 1.5, 0.0, False),
    (1.2, 1.5, 0.0, True),
    (0.9, 1.5, 0.0, True),  # its slots are full
    (1.05, 1.05, 0.0, False),  # it may be another a moment later
    (1.2, 1.5, 0.6, False),  # it is not the model that says so
    (1.2, 1.2, -0.5, True),
])
def test_a_limit_is_beyond_reach_where_the_model_says_so_by_far(
    least_s: float | None, latency_s: float, other_s: float, is_so: bool
) -> None:
    assert is_beyond(1.0, Expected("w", latency_s, ("a",), ((0.5, 0.5),), least_s), other_s=other_s) is is_so
