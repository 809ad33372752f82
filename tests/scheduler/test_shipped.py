"""Estimates: what stands for a profile that nobody has measured is sound, and scales with the cores."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.profile import Point, Profile
from scheduler.model.profile_csv import read_profiles
from scheduler.performance.shipped import (
    BY_DECLARATION,
    BY_TRIALS,
    SPEED,
    dearer_than_declared,
    declared_point,
    estimates,
)
from tests.benches.shipped_profiles import point_of_trial
from workers.launcher.state_folder import ROOT
from workers.library.registry import task_types

SHARE = st.floats(0.0, 1.0)


@given(rate=st.floats(0.1, 1e5), cpu=SHARE, idle=SHARE, memory=SHARE, idle_memory=SHARE, holds=st.booleans())
def test_a_point_of_any_trial_is_one_that_a_profile_may_have(rate, cpu, idle, memory, idle_memory, holds):
    point = point_of_trial(
        achieved_per_s=rate, cpu=cpu, idle_cpu=idle, memory=memory, idle_memory=idle_memory, holds=holds)
    assert list(point.problems()) == []
    assert point.rate_per_s >= min(rate, 1.0)
    if not holds:
        assert point.rate_per_s == max(1.0, rate), "it got through no more: that was its peak"


@given(st.floats(0.05, 0.4), st.floats(0.001, 0.2), st.floats(1.0, 1e4))
def test_a_rate_that_fills_a_core_follows_from_what_an_event_takes(part, idle, rate):
    point = point_of_trial(
        achieved_per_s=rate, cpu=part + idle, idle_cpu=idle, memory=0.1, idle_memory=0.1, holds=True)
    assert point.of_events / point.rate_per_s == pytest.approx(part / rate)
    assert point.cpu <= 1


def by_type(profiles: list[Profile]) -> dict[str, Profile]:
    return {profile.task_type: profile for profile in profiles}


@pytest.mark.parametrize("speed", [None, SPEED / 3, 4 * SPEED])
def test_every_type_has_an_estimate_and_faster_cores_hold_more(speed):
    types = task_types().values()
    shipped = [Profile("kalman_filter", (declared_point(task_types()["kalman_filter"], trigger_s=1.0),))]
    estimated = by_type(estimates(shipped, types, known_types=types, speed=speed, trigger_s=0.5))
    assert set(estimated) == {task_type.name for task_type in types if task_type.kind == "transform"}
    assert {name for name, profile in estimated.items() if profile.origin == BY_TRIALS} == {"kalman_filter"}
    for profile in estimated.values():
        assert list(profile.peak.problems()) == []
    plain = by_type(estimates(shipped, types, known_types=types, speed=SPEED, trigger_s=0.5))
    for name, profile in estimated.items():
        ratio = profile.peak.rate_per_s / plain[name].peak.rate_per_s
        assert (speed is None and ratio == 1) or (ratio - 1) * (speed - SPEED) > 0 or speed is None


def test_what_is_declared_counts_as_much_dearer_as_types_with_trials_were():
    types = task_types()
    kalman, average = types["kalman_filter"], types["block_average"]
    took_us = 10 * kalman.cost_us
    shipped = [Profile("kalman_filter", (Point(1, 0.8e6 / took_us, 0.8, 0.1, event_cpu=0.8),))]
    assert dearer_than_declared(shipped, types.values()) == {True: pytest.approx(10.0), False: 1.0}
    plain, dear = (
        estimates(given, [average], known_types=types.values(), speed=None, trigger_s=0.5)[0].peak.rate_per_s
        for given in ([], shipped))
    assert plain == pytest.approx(10 * dear)


def test_an_estimate_of_another_version_of_a_type_says_nothing():
    kalman = task_types()["kalman_filter"]
    old = Profile("kalman_filter", (declared_point(kalman, trigger_s=1.0),), version=kalman.version + 1)
    [profile] = estimates([old], [kalman], known_types=[kalman], speed=None, trigger_s=0.5)
    assert profile.origin == BY_DECLARATION


def test_what_comes_with_weir_reads_and_is_of_types_that_there_are():
    shipped = read_profiles((ROOT / "workers" / "library" / "profiles.csv").read_text())
    types = task_types()
    assert {types[profile.task_type].kind for profile in shipped} == {"transform"}
    assert all(profile.config == "" and not profile.machine for profile in shipped)
