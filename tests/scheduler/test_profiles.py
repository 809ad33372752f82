"""Profiles: what was measured, what is only between, files with every mistake placed, staleness and drift."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.dataflow import Task
from scheduler.model.errors import InvalidProfile, MissingProfile, RateNotHeld
from scheduler.model.profile import Point, Profile, Profiles, is_other_code
from scheduler.model.profile_csv import ProfileEntry, read_entries, read_profiles, write_entries
from scheduler.performance.drift import Observation, drifts

from .schedules import profiles

HEADER = "task,threads,peak_rate_tuples_s,cpu_pct,mem_pct"
QUERY = Profile("query", (Point(1, 3, 0.01, 0.0115), Point(10, 10, 0.11, 0.03), Point(60, 40, 0.54, 0.16)), version=2)


@given(profile=profiles())
def test_only_measured_points_are_adequate_and_the_fewest_threads_of_them(profile: Profile):
    for point in profile.points:
        chosen = profile.adequate(point.rate_per_s)
        assert chosen in profile.points and chosen.rate_per_s >= point.rate_per_s
        assert all(cheaper.rate_per_s < point.rate_per_s for cheaper in profile.points
            if cheaper.threads < chosen.threads)
    assert profile.peak.rate_per_s == max(point.rate_per_s for point in profile.points)


@given(profile=profiles(), threads=st.integers(1, 80))
def test_between_points_estimates_are_between_and_say_so(profile: Profile, threads: int):
    estimate = profile.estimate(threads)
    counts = [point.threads for point in profile.points]
    assert estimate.basis == (
        "measured" if threads in counts else "beyond" if threads > max(counts) else "interpolated")
    below = max((point for point in profile.points if point.threads <= threads),
        key=lambda measured_point: measured_point.threads)
    above = min((point for point in profile.points if point.threads >= threads),
        key=lambda measured_point: measured_point.threads, default=below)
    for name in ("rate_per_s", "cpu", "memory"):
        low, high = sorted((getattr(below, name), getattr(above, name)))
        assert low - 1e-9 <= getattr(estimate.point, name) <= high + 1e-9
    assert estimate.point.threads == threads


def test_load_is_in_proportion_above_what_is_taken_without_events():
    estimate = Profile("t", (Point(1, 100, 0.5, 0.4, idle_cpu=0.1, idle_memory=0.2),)).estimate(1)
    assert (estimate.cpu_at(0), estimate.cpu_at(50), estimate.cpu_at(100)) == pytest.approx((0.1, 0.3, 0.5))
    assert (estimate.memory_at(0), estimate.memory_at(50)) == pytest.approx((0.2, 0.3))


def test_near_its_peak_a_query_runs_fewer_batches_and_its_load_may_fall():
    """Batches at every trigger take 10%, a fifth of them 2%; events take 3% at the peak."""
    point = Point(1, 20, 0.05, 0.0, idle_cpu=0.1, event_cpu=0.03)
    assert point.often == pytest.approx(0.2) and not [*point.problems()]
    estimate = Profile("t", (point,)).estimate(1)
    loads = [estimate.cpu_at(rate) for rate in (0, 10, 15, 20)]
    assert loads == pytest.approx([0.1, 0.115, 0.0225 + 0.06, 0.05])


def test_what_only_rounding_leaves_of_a_batch_at_every_trigger_is_no_waiting():
    """Batches of 10% and events of 20% are 30%, of which 20% leave a little less than 10%."""
    point = Point(1, 100, 0.3, 0.1, idle_cpu=0.1, event_cpu=0.2)
    assert (point.cpu - point.event_cpu) / point.idle_cpu < 1
    assert (point.often, point.waits) == (1.0, 0.0)
    assert Profile("t", (point,)).estimate(1).reserve_at(100) == pytest.approx(0.3), "and no 83%"


@given(profile=profiles(idle=True), threads=st.integers(1, 80), part=st.floats(0, 1))
def test_load_at_the_peak_is_what_was_measured_there_and_below_it_within_bounds(
    profile: Profile, threads: int, part: float
):
    estimate = profile.estimate(threads)
    point = estimate.point
    assert estimate.cpu_at(point.rate_per_s) == pytest.approx(point.cpu, abs=1e-9)
    cpu = estimate.cpu_at(part * point.rate_per_s)
    assert point.idle_cpu * point.often - 1e-9 <= cpu <= point.idle_cpu + point.of_events + 1e-9


@given(profile=profiles(idle=True), ratio=st.floats(0.2, 5))
def test_on_a_core_of_another_speed_an_event_takes_as_much_more_or_less_cpu(profile: Profile, ratio: float):
    """And of the time that a peak is made of, waiting stays; a profile of it is one, and the way back leads back."""
    other = profile.at_speed(ratio)
    for point, scaled in zip(profile.points, other.points, strict=True):
        assert scaled.cpu / scaled.rate_per_s == pytest.approx(point.cpu / point.rate_per_s / ratio)
        assert (1 - scaled.cpu) / scaled.rate_per_s == pytest.approx((1 - point.cpu) / point.rate_per_s, abs=1e-9)
        assert scaled.memory == point.memory
    for point, back in zip(profile.points, other.at_speed(1 / ratio).points, strict=True):
        assert (back.rate_per_s, back.cpu) == pytest.approx((point.rate_per_s, point.cpu))


def test_a_light_source_takes_less_of_a_faster_core_and_its_rate_says_nothing_as_before():
    assert Profile("end", (Point(1, 1, 0.6, 0.1),), static=True).at_speed(2.0).points == (Point(1, 1, 0.3, 0.1),)


@pytest.mark.parametrize(("events", "words"), [(0.4, "40% of a slot's CPU for its events"), (-0.1, "-10% of")])
def test_events_take_no_more_than_all_and_no_less_than_nothing(events: float, words: str):
    [(field, problem)] = Point(1, 20, 0.3, 0.0, event_cpu=events).problems()
    assert field == "event_cpu" and words in problem


def test_a_rate_above_the_peak_is_refused_with_the_numbers():
    with pytest.raises(RateNotHeld) as caught:
        QUERY.adequate(41)
    assert caught.value.facts == {"task_type": "query", "rate_per_s": 41, "peak_per_s": 40, "threads": 60}


@given(many=st.lists(profiles(), max_size=3))
def test_a_file_reads_back(many: list[Profile]):
    named = tuple(
        Profile(f"type, \"{number}\"", profile.points, config='{"a":1}' if number else "", version=number + 1,
                machine="m5", origin="here", code="0a" * number)
        for number, profile in enumerate(many))
    if named:
        assert read_profiles(write_entries(map(ProfileEntry, named))) == named


def test_what_a_measurement_left_open_reads_back_point_by_point():
    entry = ProfileEntry(QUERY, rough=(10, 60), at_least=(60,))
    text = write_entries([entry])
    assert read_entries(text) == (entry,) and read_profiles(text) == (QUERY,)
    assert read_entries(write_entries([ProfileEntry(QUERY)])) == (ProfileEntry(QUERY),)
    [profile] = read_entries(f"{HEADER},at_least\na,2,20,1,1,\na,1,10,1,1,true\n")
    assert (profile.rough, profile.at_least) == ((), (1,))
    with pytest.raises(InvalidProfile, match="rough is 'maybe'"):
        read_profiles(f"{HEADER},rough\na,1,10,1,1,maybe\n")


@pytest.mark.parametrize(("rows", "line", "column", "words"), [
    ("a,1,x,10,10", 2, 3, "peak_rate_tuples_s is 'x'"),
    ("a,1.5,1,10,10", 2, 2, "threads is '1.5'"),
    ("a,1,5,10,10\na,0,5,10,10", 3, 2, "0 threads"),
    ("a,1,5,10,10\na,2,-5,10,10", 3, 3, "-5 events/s"),
    ("a,1,5,110,10", 2, 4, "CPU"),
    ("a,1,5,10,nan", 2, 5, "mem_pct is 'nan'"),
    ("a,1_000,5,10,10", 2, 2, "threads is '1_000'"),
    ("a,1,1_000,10,10", 2, 3, "peak_rate_tuples_s is '1_000'"),
    ("a,1,5,1_0,10", 2, 4, "cpu_pct is '1_0'"),
    ("a,１,5,10,10", 2, 2, "threads is '１'"),
    ("a,99999999999999999999,5,10,10", 2, 2, "from 1 to 100,000"),
    (f"a,{'9' * 31},5,10,10", 2, 2, "threads is '999"),
    ("a,100001,5,10,10", 2, 2, "from 1 to 100,000"),
    ("a,1,1e999,10,10", 2, 3, "inf events/s"),
    ("a,1,5,10,10\nb,1,5,10,10\na,1,6,10,10", 4, None, "two points for 1 threads"),
    ("a,1,5,10", 2, None, "another number of values"),
    (",1,5,10,10", 2, 1, "no task"),
    ("", 1, None, "no measured point"),
    ('"a,1,5,10,10', 2, None, "no CSV"),
])
def test_mistakes_in_a_file_are_placed(rows: str, line: int, column: int | None, words: str):
    with pytest.raises(InvalidProfile) as caught:
        read_profiles(f"{HEADER}\n{rows}\n")
    problem = caught.value.facts["problems"][0]
    assert (problem["line"], problem["column"]) == (line, column) and words in problem["message"]
    assert problem["remedy"] and caught.value.remedy, "what to do about it"


def test_all_mistakes_are_told_and_unknown_columns_are_one():
    with pytest.raises(InvalidProfile) as caught:
        read_profiles(f"{HEADER}\na,x,1,10,10\na,1,1,900,10\n")
    assert [problem["line"] for problem in caught.value.facts["problems"]] == [2, 3]
    with pytest.raises(InvalidProfile, match="no column threads"):
        read_profiles("task,peak_rate_tuples_s,cpu_pct,mem_pct\n")
    with pytest.raises(InvalidProfile) as twice:
        read_profiles(f"{HEADER}, threads,origin,origin\na,1,1,10,10,4,x,y\n")
    assert [(problem["line"], problem["column"], problem["message"]) for problem in twice.value.facts["problems"]] == [
        (1, 6, "There is a second column threads"), (1, 8, "There is a second column origin")]
    assert "Leave one of them out" in twice.value.facts["problems"][0]["remedy"]
    with pytest.raises(InvalidProfile, match="'colour'"):
        read_profiles(f"{HEADER},colour\na,1,1,1,1,red\n")


@pytest.mark.parametrize("text", [
    ",".join(f"c{number}" for number in range(10_000)), f"{HEADER}\n" + "a,x,y,z,w\n" * 10_000,
    f"{HEADER}\n" + "a,1,5,10\n" * 10_000])
def test_of_many_mistakes_no_more_are_told_than_somebody_reads(text: str):
    with pytest.raises(InvalidProfile) as caught:
        read_profiles(text)
    assert len(caught.value.facts["problems"]) == 100 and len(str(caught.value.facts)) < 100_000


NAN = float("nan")


@pytest.mark.parametrize(("point", "field"), [
    (Point(1.5, 100, 0.5, 0.1), "threads"), (Point(NAN, 100, 0.5, 0.1), "threads"),
    (Point(True, 9, 0.5, 0.1), "threads"),
    (Point("1", 100, 0.5, 0.1), "threads"), (Point(10**20, 100, 0.5, 0.1), "threads"),
    (Point(1, NAN, 0.5, 0.1), "rate_per_s"), (Point(1, "100", 0.5, 0.1), "rate_per_s"),
    (Point(1, 100, NAN, 0.1), "cpu"), (Point(1, 100, 0.5, NAN), "memory"), (Point(1, 100, 0.5, 0.1, NAN), "idle_cpu"),
    (Point(1, 100, 0.5, 0.1, 0.1, NAN), "idle_memory"), (Point(1, 100, 0.5, 0.1, 0.1, 0.0, NAN), "event_cpu"),
    (Point(1, 100, 0.5, 0.1, NAN, 0.0, 0.1), "idle_cpu"),
])
def test_a_point_with_a_value_that_is_none_makes_no_profile(point: Point, field: str):
    assert field in {name for name, _ in point.problems()}
    with pytest.raises(InvalidProfile, match="The profile of t has") as caught:
        Profile("t", (point,))
    assert caught.value.remedy and caught.value.facts["problem"]


def test_a_profile_of_nothing_or_of_two_minds_is_none():
    with pytest.raises(InvalidProfile, match="no measured point"):
        Profile("t", ())
    with pytest.raises(InvalidProfile, match="static"):
        Profile("t", (Point(2, 1, 0, 0),), static=True)


def test_the_profile_of_the_very_config_comes_first_and_missing_ones_are_all_named():
    general, special = Profile("t", (Point(1, 1, 0, 0),)), Profile("t", (Point(1, 9, 0, 0),), config='{"a":1}')
    profiles = Profiles([general, special])
    assert profiles.find(Task("x", "t", {"a": 1})) is special and profiles.find(Task("x", "t", {"a": 2})) is general
    newer = Profile("t", (Point(1, 1, 0, 0),), version=2)
    assert Profiles([special, newer]).find(Task("x", "t", {"a": 1})) is special, "though of an older version"
    with pytest.raises(MissingProfile) as caught:
        profiles.of([Task("x", "t"), Task("y", "u"), Task("z", "v")])
    assert caught.value.facts == {"tasks": ["y", "z"], "task_types": ["u", "v"]}


def test_a_profile_is_stale_with_another_version_or_another_machine():
    profile = Profile("t", (Point(1, 1, 0, 0),), version=2, machine="m5")
    assert profile.stale(version=2, machine="m5") == ""
    assert "version 3" in profile.stale(version=3, machine="m5")
    assert "m6" in profile.stale(version=2, machine="m6")
    assert QUERY.stale(version=2, machine="anything") == "", "nobody noted where it was measured"


def test_a_profile_is_stale_with_other_code_where_both_are_known():
    profile = Profile("t", (Point(1, 1, 0, 0),), version=2, machine="m5", code="ab")
    assert profile.stale(version=2, machine="m5", code="ab") == ""
    assert "other code of t" in profile.stale(version=2, machine="m5", code="cd")
    assert profile.stale(version=2, machine="m5", code="") == "", "it cannot be read here"
    assert QUERY.stale(version=2, machine="", code="cd") == "", "nobody noted what was measured"


def test_digests_of_two_schemes_say_nothing_of_each_other():
    """Profiles that were measured before there was a scheme are not all stale when their digests are made anew."""
    assert not is_other_code("aa11", "modules:bb22")
    assert not is_other_code("modules:bb22", "aa11")
    assert is_other_code("modules:aa11", "modules:bb22")
    assert not is_other_code("modules:aa11", "modules:aa11")


def test_drift_beyond_the_bound_asks_for_a_new_measurement():
    seen = [Observation(10, 5.0, cpu, 0.0) for cpu in (0.055, 0.08, 0.081, 0.082, 0.3)]
    (cpu,) = drifts(QUERY, seen, bound=0.25)
    assert (cpu.what, cpu.threads, cpu.beyond) == ("cpu", 10, True)
    assert (cpu.expected, cpu.observed) == pytest.approx((0.055, 0.081))
    assert not drifts(QUERY, seen, bound=0.5)[0].beyond
    assert drifts(QUERY, seen[:4]) == (), "four observations say nothing"


def test_what_bundles_take_of_a_shared_slot_contradicts_no_profile():
    """A download that waits beside π is given half of what π takes."""
    shared = [Observation(10, 5.0, 0.5, 0.4, shared=True)] * 9
    assert drifts(QUERY, shared) == ()
    alone = [Observation(10, 5.0, 0.055, None)] * 5
    (cpu,) = drifts(QUERY, shared + alone)
    assert (cpu.what, cpu.beyond, cpu.observed) == ("cpu", False, pytest.approx(0.055))
    assert drifts(QUERY, shared + alone[:4]) == (), "four that had their slot to themselves say nothing"
    behind = [Observation(60, 20.0, 0.5, 0.1, stable=False, shared=True)] * 5
    assert drifts(QUERY, behind) == (), "others may have kept it from more"
    above = [Observation(60, 60.0, 0.5, 0.1, shared=True)] * 5
    assert [(drift.what, drift.beyond) for drift in drifts(QUERY, above)] == [
        ("rate", True)], "beside others it did more"


def test_a_rate_drifts_only_where_it_was_contradicted():
    failed = [Observation(60, 20.0, 0.5, 0.1, stable=False)] * 5
    assert [(drift.what, drift.observed, drift.beyond) for drift in drifts(QUERY, failed)] == [("rate", 20.0, True)]
    held = [Observation(60, 20.0, 0.27, 0.08)] * 5
    assert "rate" not in [drift.what for drift in drifts(QUERY, held)]
    above = [Observation(60, 44.0, 0.594, 0.176)] * 5
    assert [(drift.what, drift.beyond) for drift in drifts(QUERY, above)] == [
        ("cpu", False), ("memory", False), ("rate", False)]


def test_a_few_noisy_minutes_contradict_no_rate():
    held, failed = Observation(60, 20.0, 0.27, 0.08), Observation(60, 20.0, 0.27, 0.08, stable=False)
    above, beside = Observation(60, 60.0, 0.81, 0.24), Observation(60, 20.0, 0.27, 0.08, shared=True)

    def rates(*seen: Observation) -> list[tuple[float, bool]]:
        return [(drift.observed, drift.beyond) for drift in drifts(QUERY, seen) if drift.what == "rate"]

    assert rates(*[held] * 355, *[failed] * 5) == rates(*[held] * 355, *[above] * 5) == []
    assert rates(*[held] * 20, *[failed] * 20) == [], "as many kept up"
    assert rates(*[held] * 20, *[failed] * 21) == [(20.0, True)]
    assert rates(*[beside] * 355, *[failed] * 5) == [(20.0, True)], "on a shared slot it says nothing"
    slow = Observation(60, 10.0, 0.135, 0.04)
    assert rates(*[slow] * 355, *[failed] * 5) == [(20.0, True)], "that it keeps up with half as much does not help it"
    assert rates(*[held] * 20, *[above] * 21) == [(60.0, True)]
