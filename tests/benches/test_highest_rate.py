"""The highest rate that a number of slots is enough for."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from scheduler.model.errors import InvalidResources
from scheduler.model.profile import Point, Profile, Profiles
from scheduler.scheduling import SchedulingOptions, prepare, schedule
from tests.benches.highest_rate import highest_rate
from tests.scheduler.catalogue import TYPES, flow
from tests.scheduler.schedules import BUY, profiles
from tests.scheduler.test_scheduling import LSA_RSM, OF_PI, PI, job

MBA_SAM = ("MBA", "SAM")


def test_it_is_that_for_which_as_many_slots_do_as_a_mapping_asks_for():
    def job_at(rate_per_s: float):
        return prepare(PI, task_types=TYPES, profiles=OF_PI, rate_per_s=rate_per_s)

    highest = highest_rate(job_at, LSA_RSM, supply=BUY, slots=1, step_per_s=10)
    beyond = schedule(job_at(highest.rate_per_s + 10), LSA_RSM, supply=BUY)
    assert highest.placement.needed == 1 and (beyond.placement.needed, beyond.slots) == (2, 1)


def test_the_next_rate_does_not_fit():
    def best(slots: int):
        return highest_rate(
            job, MBA_SAM, supply=BUY, slots=slots, step_per_s=10, options=SchedulingOptions(routing="shuffle"))

    highest = best(3)
    assert highest.slots <= 3 and schedule(job(highest.rate_per_s + 10), MBA_SAM, supply=BUY).slots > 3
    assert best(1).rate_per_s < highest.rate_per_s
    with pytest.raises(InvalidResources, match="0 slots"):
        best(0)


def test_rates_that_fit_beyond_one_that_does_not_are_found():
    """Two threads at 170 events/s take 95% of a core, four at 300 only 60%: 160 events/s need two slots, 300 one."""
    profiles = Profiles([
        *(Profile(end, (Point(1, 1, 0.1, 0.1),), static=True) for end in ("sensors", "archive")),
        Profile("scale", (Point(1, 100, 0.5, 0.1), Point(2, 170, 0.95, 0.1), Point(4, 300, 0.6, 0.1)))])

    def job_at(rate_per_s: float):
        return prepare(PI, task_types=TYPES, profiles=profiles, rate_per_s=rate_per_s)

    highest = highest_rate(job_at, MBA_SAM, supply=BUY, slots=1, step_per_s=10)
    fitting = [
        rate_per_s for rate_per_s in range(10, 1000, 10)
        if schedule(job_at(rate_per_s), MBA_SAM, supply=BUY).placement.needed <= 1]
    assert 160 not in fitting and highest.rate_per_s == max(fitting) == 290


@settings(max_examples=40)
@given(scale=profiles(name="scale"), slots=st.integers(1, 3), pair=st.sampled_from([MBA_SAM, ("MBA", "DSM"), LSA_RSM]))
def test_it_is_the_highest_of_all_that_fit(scale: Profile, slots: int, pair: tuple[str, str]):
    """Against trying every step: peaks, CPU and memory of the profile go up and down with its threads."""
    ends = (Profile(end, (Point(1, 1, 0.1, 0.1),), static=True) for end in ("sensors", "archive"))
    profiles = Profiles([*ends, scale])
    step_per_s = max(point.rate_per_s for point in scale.points) / 10

    def job_at(rate_per_s: float):
        return prepare(PI, task_types=TYPES, profiles=profiles, rate_per_s=rate_per_s)

    def fits(steps: int) -> bool:
        return schedule(job_at(steps * step_per_s), pair, supply=BUY).placement.needed <= slots

    beyond = 10 * (slots + 3)  # MBA asks for more full bundles, each a slot, than there are slots
    if pair[0] == "LSA":
        assume(max(scale.one_thread.cpu, scale.one_thread.memory) >= 0.2)  # threads that take nothing never fill a slot
        beyond = 10 * 5 * slots + 20
    fitting = [steps for steps in range(1, beyond) if fits(steps)]
    highest = highest_rate(job_at, pair, supply=BUY, slots=slots, step_per_s=step_per_s)
    assert (highest and highest.rate_per_s) == (pytest.approx(max(fitting) * step_per_s) if fitting else None)


def test_a_rate_that_no_slot_holds_ends_the_search_and_one_without_end_is_refused():
    counting = flow("c", {"in": "sensors", "n": "count", "out": "archive"}, "in > n > out")
    ends = {name: Profile(name, (Point(1, 1, 0.1, 0.1),), static=True) for name in ("sensors", "archive", "count")}

    def best(of: dict[str, Profile]):
        profiles = Profiles(of.values())
        return highest_rate(
            lambda rate: prepare(counting, task_types=TYPES, profiles=profiles, rate_per_s=rate), ("MBA", "DSM"),
            supply=BUY, slots=4, step_per_s=10)

    assert best(ends | {"count": Profile("count", (Point(1, 120, 0.5, 0.1),))}).rate_per_s == 120
    with pytest.raises(InvalidResources, match="No rate is too high"):
        best(ends)
