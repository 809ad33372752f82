"""Algorithm 1 against tasks whose true peaks are known: it ends, resumes, keeps its budget, asks nothing twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.model.errors import InvalidResources, RateNotHeld
from scheduler.model.profile import Point
from scheduler.model.profile_csv import ProfileEntry, read_profiles, write_entries
from scheduler.performance.fixed_load import FAR_ENOUGH, with_fixed_load
from scheduler.performance.modelling import Sweep, SweepResult, Trial, Try, measured_profile, next_step

SWEEP = Sweep(largest_threads=32, largest_rate_per_s=5000, budget_s=1e9)


def run(step: Try, peak: Callable[[int], float], *, took_s: float = 10.0) -> Trial:
    """A trial of a task of which so many threads sustain so much."""
    true = peak(step.threads)
    load = min(1.0, step.rate_per_s / true)
    return Trial(step.threads, step.rate_per_s, 0.8 * load, 0.3, latency_slope=0.0 if load < 1 else 0.2, took_s=took_s)


def measure(peak: Callable[[int], float], sweep: Sweep = SWEEP) -> tuple[list[Trial], SweepResult]:
    trials: list[Trial] = []
    while isinstance(step := next_step(trials, sweep=sweep), Try):
        before = [trial for trial in trials if (trial.threads, trial.rate_per_s) == (step.threads, step.rate_per_s)]
        most = 1 + len(sweep.again_after_s) if step.rate_per_s == sweep.smallest_rate_per_s else 2
        assert len(before) < most and not any(sweep.stable(trial) for trial in before), "it asks for what it knows"
        trials.append(run(step, peak))
        assert len(trials) < 500, "it does not end"
    return trials, step


curves = st.lists(st.floats(1.5, 4000), min_size=6, max_size=6).map(
    lambda peaks: lambda threads: peaks[min(5, threads.bit_length() - 1)])


@settings(max_examples=60, deadline=None)
@given(peak=curves)
def test_peaks_are_found_to_within_the_precision(peak: Callable[[int], float]):
    _, done = measure(peak)
    for point in done.points:
        true = min(peak(point.threads), SWEEP.largest_rate_per_s)
        assert true / (1 + SWEEP.rate_precision) - 1e-9 <= point.rate_per_s <= true
        assert point.cpu == pytest.approx(0.8 * point.rate_per_s / peak(point.threads)), "the trial's, at that rate"
    assert not done.rough


@settings(max_examples=30, deadline=None)
@given(peak=curves, seed=st.randoms(use_true_random=False), cut=st.integers(0, 200))
def test_it_goes_on_where_it_stopped_in_whatever_order_its_trials_come(peak, seed, cut: int):
    trials, done = measure(peak)
    so_far = trials[: min(cut, len(trials))]
    expected = next_step(so_far, sweep=SWEEP)
    seed.shuffle(so_far)
    assert next_step(so_far, sweep=SWEEP) == expected
    if len(so_far) == len(trials):
        assert expected == done


def test_it_stops_where_the_peak_is_flat_or_falls():
    """XML parsing does best with one thread (paper [2], figure 3a); three counts show that."""
    trials, done = measure(lambda threads: 310 - 8 * (threads - 1))
    assert [point.threads for point in done.points] == [1, 2, 4] and "flat or falls" in done.why
    assert len(trials) < 50


def test_it_goes_on_while_more_threads_help_and_looks_closer_beside_the_best():
    """Peaks grow up to 20 threads and fall then: 20 lies between powers of two and is narrowed down."""
    _, done = measure(lambda threads: 30.0 * min(threads, 20) - 10.0 * max(0, threads - 20), Sweep(
        largest_threads=128, budget_s=1e9, rate_precision=0.01, thread_precision=0.1))
    best = max(done.points, key=lambda point: point.rate_per_s).threads
    assert 18 <= best <= 22
    assert {1, 2, 4, 8, 16, 32} <= {point.threads for point in done.points}


def test_the_most_threads_are_the_end():
    _, done = measure(lambda threads: 10.0 * threads, replace(SWEEP, largest_threads=6))
    assert [point.threads for point in done.points] == [1, 2, 4, 5, 6] and "most that were to be measured" in done.why


@settings(max_examples=40, deadline=None)
@given(peak=curves)
def test_every_thread_count_is_tried_far_from_its_peak_at_last(peak: Callable[[int], float]):
    trials, done = measure(peak)
    far = [point.threads for point in done.points if 0.75 * point.rate_per_s >= SWEEP.smallest_rate_per_s]
    assert all(any(trial.threads == threads and trial.rate_per_s <= 0.75 * peak(threads) for trial in trials)
               for threads in far)


def waiting(step: Try) -> Trial:
    """A trial of a task that waits: with more threads it begins near its peak, for there is CPU."""
    return replace(run(step, lambda threads: 100.0 * threads), cpu=0.1)


def measured_waiting(sweep: Sweep = SWEEP, *, spoils: str = "") -> tuple[list[Trial], SweepResult, int]:
    """With every trial spoilt whose reason begins so."""
    trials: list[Trial] = []
    spoilt = 0
    while isinstance(step := next_step(trials, sweep=sweep), Try):
        bad = bool(spoils) and step.why.startswith(spoils)
        spoilt += bad
        trials.append(replace(waiting(step), latency_slope=0.5) if bad else waiting(step))
        assert len(trials) < 500
    return trials, step, spoilt


def test_half_of_a_peak_that_fails_once_is_tried_again_at_once_and_costs_no_more():
    calm, done, _ = measured_waiting()
    trials, step, spoilt = measured_waiting(spoils="half of what it sustains")
    assert spoilt == len(done.points) - 1 and len(trials) == len(calm) + spoilt
    assert [(point.threads, point.rate_per_s) for point in step.points] == [
        (point.threads, point.rate_per_s) for point in done.points] and not step.rough


def test_half_of_a_peak_that_fails_while_a_neighbour_is_busy_takes_no_peak_back():
    """For 25 s from the first such trial on nothing is stable: it is tried later and later, and is stable then."""
    calm, done, _ = measured_waiting()
    now_s, busy_until_s, trials = 0.0, 0.0, []
    while isinstance(step := next_step(trials, sweep=SWEEP), Try):
        now_s += step.after_s + 10.0
        busy_until_s = busy_until_s or (now_s + 15.0 if step.why.startswith("half") else 0.0)
        trials.append(replace(waiting(step), latency_slope=0.5) if now_s <= busy_until_s else waiting(step))
        assert len(trials) < 500
    assert step == done and len(trials) == len(calm) + 2


def test_a_peak_stays_and_is_rough_where_less_than_it_never_is_stable():
    calm, done, _ = measured_waiting()
    trials: list[Trial] = []
    waited: list[float] = []
    while isinstance(step := next_step(trials, sweep=SWEEP), Try):
        low = any(point.threads == step.threads == 32 and step.rate_per_s < 0.75 * point.rate_per_s
                  for point in done.points)
        waited += [step.after_s] if low else []
        trials.append(replace(waiting(step), latency_slope=0.5) if low else waiting(step))
        assert len(trials) < 500
    assert [(point.threads, point.rate_per_s) for point in step.points] == [
        (point.threads, point.rate_per_s) for point in done.points]
    assert step.rough == (32,) and "peak of 32 threads" in step.why and "never stable" in step.why
    assert waited == [0.0, *SWEEP.again_after_s] and len(trials) == len(calm) + len(SWEEP.again_after_s)
    short = replace(SWEEP, budget_s=10.0 * (len(calm) - len(done.points) + 2), trial_s=10)
    cut = next_step(trials[:len(calm) - len(done.points) + 2], sweep=short)
    assert isinstance(cut, SweepResult) and 32 in cut.rough, "it failed there, and there was no time to try again"


def test_what_the_budget_left_out_is_said():
    whole, cut_short, _ = measured_waiting()
    halves = [trial for trial in whole if trial.threads > 1 and trial.rate_per_s < 75.0 * trial.threads]
    assert len(halves) == len(cut_short.points) - 1 and whole[-len(halves):] == halves, "peaks come first"
    assert [trial.threads for trial in halves] == sorted((trial.threads for trial in halves), reverse=True)
    trials, done, _ = measured_waiting(replace(SWEEP, budget_s=10.0 * (len(whole) - 2), trial_s=10))
    left_out = ", ".join(str(trial.threads) for trial in reversed(halves[-2:]))
    assert len(trials) == len(whole) - 2 and f"did not allow for half of the rate with {left_out} threads" in done.why
    assert len(done.points) == len(cut_short.points) and not done.rough


@pytest.mark.parametrize("often", [1.0, 0.97, 0.5])
def test_a_point_at_the_highest_rate_that_was_to_be_tried_neither_waits_nor_grows(often: float):
    """It is not at its peak: batches that seem to be fewer there are noise, and a faster core shows no more."""
    sweep = replace(SWEEP, largest_threads=1, largest_rate_per_s=500)
    trials: list[Trial] = []
    while isinstance(step := next_step(trials, sweep=sweep), Try):
        at_bound = step.rate_per_s >= 500
        trials.append(Trial(1, step.rate_per_s, (0.05 + step.rate_per_s * 3e-4) * (often if at_bound else 1.0), 0.1,
                            0.0, 10.0, often=often if at_bound else 1.0, speed=12.0 if at_bound else 8.0))
    [point] = step.points
    assert (point.waits, point.rate_per_s) == (0.0, 500.0) and not [*point.problems()]


def test_the_budget_is_kept_and_what_is_rough_is_said():
    sweep = replace(SWEEP, budget_s=100, trial_s=10)
    trials, done = measure(lambda threads: 1000.0 * threads, sweep)
    assert sum(trial.took_s for trial in trials) <= 100 and "budget" in done.why
    assert done.rough and set(done.rough) <= {point.threads for point in done.points}
    more = next_step(trials, sweep=replace(sweep, budget_s=1000))
    assert isinstance(more, Try), "with more time it goes on from there"


def test_a_rate_that_does_not_come_out_is_not_stable():
    trial = Trial(1, 100.0, 0.1, 0.1, latency_slope=0.0, took_s=1.0, achieved_per_s=80.0)
    assert not SWEEP.stable(trial) and SWEEP.stable(replace(trial, achieved_per_s=99.0))
    assert not SWEEP.stable(replace(trial, achieved_per_s=99.0, latency_slope=float("nan")))


@settings(max_examples=40, deadline=None)
@given(peak=curves, hiccups=st.sets(st.integers(0, 60), max_size=12))
def test_a_trial_that_a_busy_machine_spoilt_hides_no_peak(peak, hiccups: set[int]):
    """Any trial may look unstable once; what is believed was so twice."""
    trials: list[Trial] = []
    while isinstance(step := next_step(trials, sweep=SWEEP), Try):
        trial = run(step, peak)
        again = any((other_trial.threads, other_trial.rate_per_s) == (trial.threads, trial.rate_per_s)
            for other_trial in trials)
        spoilt = len(trials) in hiccups and not again
        trials.append(replace(trial, latency_slope=0.5) if spoilt else trial)
        assert len(trials) < 500
    for point in step.points:
        true = min(peak(point.threads), SWEEP.largest_rate_per_s)
        assert true / (1 + SWEEP.rate_precision) - 1e-9 <= point.rate_per_s <= true


def test_what_a_query_takes_at_any_rate_is_told_apart_from_what_its_events_take():
    """Batches take 10% of the core however few events there are; a Python worker for each thread stays."""
    def with_batches(step: Try) -> Trial:
        trial = run(step, lambda threads: 200.0 * threads)
        return replace(trial, cpu=0.1 + trial.cpu * 0.9, memory=0.02 * step.threads, idle_cpu=0.01)

    trials: list[Trial] = []
    while isinstance(step := next_step(trials, sweep=replace(SWEEP, largest_threads=4)), Try):
        trials.append(with_batches(step))
    assert step.points[0].idle_cpu == pytest.approx(0.1, abs=0.005)
    assert all(point.idle_cpu == pytest.approx(0.1 * point.cpu / step.points[0].cpu, abs=0.01) for point in step.points)
    assert all(point.idle_memory == pytest.approx(point.memory) for point in step.points)


@pytest.mark.parametrize(("batch", "event"), [(0.08, 0.0015), (0.2, 0.0), (0.0, 0.003)])
def test_batches_are_told_apart_from_events_where_a_service_makes_them_rare(batch: float, event: float):
    """A service of 50 ms a thread: a batch takes the longer the more events it has, so it runs no batch a trigger."""
    def run_service(step: Try) -> Trial:
        trial = run(step, lambda threads: 20.0 * threads)
        load = min(0.999, step.rate_per_s / (20.0 * step.threads))
        often = min(1.0, 0.5 * (1 - load) / 0.25)
        return replace(trial, cpu=often * batch * (1 + step.threads / 10) + event * step.rate_per_s, often=often)

    trials: list[Trial] = []
    while isinstance(step := next_step(trials, sweep=replace(SWEEP, largest_threads=8)), Try):
        trials.append(run_service(step))
    for point in step.points:
        assert point.of_events == pytest.approx(event * point.rate_per_s, abs=1e-3)
        assert point.idle_cpu == pytest.approx(batch * (1 + point.threads / 10), abs=1e-3)
        assert point.often < 0.5 or not batch
    profile = measured_profile(step, task_type="t", version=1, machine="m")
    assert read_profiles(write_entries([ProfileEntry(profile)])) == (profile,)


@settings(max_examples=30, deadline=None)
@given(cost_s=st.floats(0.001, 0.5), speeds=st.lists(st.floats(0.5, 2.0), min_size=3, max_size=30))
def test_a_core_whose_speed_changes_from_trial_to_trial_makes_a_profile_of_its_mean(cost_s: float, speeds: list[float]):
    """Every event takes as much CPU as on a core at that speed, and no more are promised than it can do."""
    trials: list[Trial] = []
    while isinstance(step := next_step(trials, sweep=SWEEP), Try):
        speed = speeds[len(trials) % len(speeds)]
        load = step.rate_per_s * cost_s / speed
        trials.append(Trial(step.threads, step.rate_per_s, min(1.0, load), 0.3, 0.0 if load < 1 else 0.2, 10.0,
                            speed=speed))
    stable = [trial.speed for trial in trials if SWEEP.stable(trial)]
    if not stable:
        assert not step.points and step.speed is None
        return
    assert step.speed == pytest.approx(sum(stable) / len(stable))
    for point in step.points:
        assert point.cpu / point.rate_per_s == pytest.approx(cost_s / step.speed)
        assert point.rate_per_s <= step.speed / cost_s * (1 + 1e-9)
        rates = [trial.rate_per_s for trial in trials if trial.threads == point.threads and SWEEP.stable(trial)]
        if min(rates) < FAR_ENOUGH * max(rates):
            assert point.idle_memory == pytest.approx(point.memory), "it does not grow with the rate in any trial"
    untold = [replace(trial, speed=None) if number == 0 else trial for number, trial in enumerate(trials)]
    if SWEEP.stable(untold[0]):
        plain = next_step(untold, sweep=SWEEP)
        assert plain.speed is None, "where one does not tell, the figures are those of the trials"
        assert {point.rate_per_s for point in plain.points} <= {trial.rate_per_s for trial in trials}


def test_a_peak_that_could_not_be_fed_higher_is_promised_at_no_higher_rate_on_a_faster_core():
    trials: list[Trial] = []
    while isinstance(step := next_step(trials, sweep=SWEEP), Try):
        given = fed(step, lambda threads: 4000.0, 500.0)
        trials.append(replace(given, speed=10.0 if given.rate_per_s >= 500 else 40.0))
    assert step.at_least == (1,)
    [point] = step.points
    assert point.rate_per_s <= 500.0 and step.speed > 10.0, "its core was slower than the mean"
    untold = [replace(trial, speed=None) if SWEEP.starved(trial) else trial for trial in trials]
    plain = next_step(untold, sweep=SWEEP)
    assert plain.speed is None and [point.rate_per_s for point in plain.points] == [500.0], "nor is it told of all"


def test_trials_of_before_batches_were_counted_still_count():
    """One trial without them and the line over the rate stands for that thread count's CPU, as it did."""
    trials = [Trial(1, rate, 0.1 + 0.001 * rate, 0.1, 0.0, 5.0) for rate in (20, 60, 100)]
    [corrected] = with_fixed_load([Point(1, 100, 0.2, 0.1)], {1: trials})
    assert corrected.event_cpu is None and corrected.idle_cpu == pytest.approx(0.1)
    mixed = [*trials, Trial(1, 50, 0.15, 0.1, 0.0, 5.0, often=1.0)]
    [corrected] = with_fixed_load([Point(1, 100, 0.2, 0.1)], {1: mixed})
    assert corrected.event_cpu is None, "one trial tells nothing apart"


@given(
    seen=st.lists(st.tuples(st.floats(1, 200), st.floats(0, 1), st.floats(0, 1), st.floats(0.05, 1)), max_size=6),
    counted=st.booleans())
def test_whatever_trials_say_a_point_stays_one_that_can_be(seen, counted: bool):
    point = Point(1, 100, 0.5, 0.1, 0.02, 0.01)
    trials = [Trial(1, rate, cpu, memory, 0.0, 5.0, often=often if counted else None)
              for rate, cpu, memory, often in seen]
    [corrected] = with_fixed_load([point], {1: trials})
    assert not [*corrected.problems()] and corrected.idle_memory >= 0.01
    assert replace(corrected, idle_cpu=0.02, idle_memory=0.01, event_cpu=None) == point
    if corrected.event_cpu is None:
        assert 0.02 <= corrected.idle_cpu <= point.cpu


def test_a_machine_that_is_busy_for_half_a_minute_at_the_beginning_hides_no_peak():
    """Nothing is stable meanwhile; the smallest rate is tried later and later."""
    now_s, trials = 0.0, []
    while isinstance(step := next_step(trials, sweep=SWEEP), Try):
        now_s += step.after_s + 10.0
        trial = run(step, lambda threads: 20.0 * threads)
        trials.append(replace(trial, latency_slope=0.5) if now_s <= 30.0 else trial)
    assert 19 <= step.points[0].rate_per_s <= 20 and step.points[-1].threads == 32


def test_nothing_stable_is_an_error_and_not_a_profile():
    trials, done = measure(lambda threads: 0.5)
    assert done.points == () and len(trials) == 1 + len(SWEEP.again_after_s)
    with pytest.raises(RateNotHeld, match=r"No rate that was tried.* 1 events/s, with 1 thread and 4 times") as caught:
        measured_profile(done, task_type="t", version=1, machine="m")
    assert "try again" in caught.value.remedy and "lower rate" in caught.value.remedy
    _, done = measure(lambda threads: 20.0)
    assert measured_profile(done, task_type="t", version=3, machine="m").stale(version=3, machine="m") == ""


def test_threads_with_which_nothing_is_stable_have_no_point_and_are_named():
    _, done = measure(lambda threads: 0.5 if threads == 4 else 100.0 * threads)
    assert [point.threads for point in done.points] == [1, 2, 3] and not done.rough
    assert "Nothing was stable with 4 threads, not even 1 events/s" in done.why


def test_a_sweep_over_nothing_is_refused():
    with pytest.raises(InvalidResources, match="measures nothing"):
        Sweep(smallest_rate_per_s=0)
    with pytest.raises(InvalidResources, match="0 threads"):
        Sweep(largest_threads=0)


def fed(step: Try, peak: Callable[[int], float], most_per_s: float) -> Trial:
    """A trial whose feeder writes no more than so much."""
    offered = min(step.rate_per_s, most_per_s)
    trial = run(replace(step, rate_per_s=offered), peak)
    return replace(
        trial, rate_per_s=step.rate_per_s, offered_per_s=offered, achieved_per_s=min(offered, peak(step.threads)))


def test_a_feeder_that_is_the_bottleneck_is_not_taken_for_the_tasks_peak():
    trials: list[Trial] = []
    waited = []
    while isinstance(step := next_step(trials, sweep=SWEEP), Try):
        waited.append(step.after_s)
        trials.append(fed(step, lambda threads: 2000.0, 700.0))
        assert len(trials) < 50
    assert step.at_least == (1,) and [point.rate_per_s for point in step.points] == [700.0]
    assert "700 events/s could be fed" in step.why and "may sustain more" in step.why
    short = [trial for trial in trials if SWEEP.starved(trial)]
    assert len(short) == 3 and len({trial.rate_per_s for trial in short}) == 1 and waited[-1] == 15.0


@settings(max_examples=30, deadline=None)
@given(peak=curves, hiccups=st.sets(st.integers(0, 60), max_size=8))
def test_a_feeder_that_was_held_up_for_a_moment_changes_nothing(peak, hiccups: set[int]):
    trials: list[Trial] = []
    while isinstance(step := next_step(trials, sweep=SWEEP), Try):
        again = any((trial.threads, trial.rate_per_s) == (step.threads, step.rate_per_s) for trial in trials)
        late = len(trials) in hiccups and not again
        trials.append(fed(step, peak, 0.8 * step.rate_per_s if late else 1e9))
        assert len(trials) < 500
    assert not step.at_least
    for point in step.points:
        true = min(peak(point.threads), SWEEP.largest_rate_per_s)
        assert true / (1 + SWEEP.rate_precision) - 1e-9 <= point.rate_per_s <= true


def test_only_what_got_through_says_that_the_feeder_was_late():
    trial = Trial(1, 100.0, 0.1, 0.1, latency_slope=0.0, took_s=1.0, achieved_per_s=79.0, offered_per_s=80.0)
    assert SWEEP.starved(trial) and not SWEEP.stable(trial)
    for other in ({"achieved_per_s": 60.0}, {"latency_slope": 0.5}, {"offered_per_s": 98.0}, {"offered_per_s": None},
                  {"offered_per_s": 0.0}):
        assert not SWEEP.starved(replace(trial, **other)), other
