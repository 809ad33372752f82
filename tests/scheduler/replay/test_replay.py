"""The controllers themselves through played days: budgets held, nothing back and forth, what misses is taken back."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.controllers.changes import Aspect, BatchMode
from scheduler.controllers.controller_registry import CONTROLLERS
from scheduler.controllers.loop_values import (
    ACTS,
    DAY_S,
    DECLINED,
    HOUR_S,
    KEPT,
    OFF,
    RECOMMENDS,
    ROLLED_BACK,
    Policy,
)
from scheduler.model.estate import Estate
from scheduler.model.fragment import Slot
from scheduler.model.latency_limits import LatencyLimit
from scheduler.replay.playing import replay
from scheduler.replay.setup import ChangeMade, Replayed, ReplaySetup
from scheduler.simulation.loads import constant, waves
from tests.scheduler.catalogue import PRICES, TYPES, flow, submit, unchained
from tests.scheduler.invariants import check_fragments, check_outlets, check_running_dataflows

SLOTS = (Slot("n1", 0), Slot("n1", 1), Slot("n2", 0))
STEP_S = 30.0
LIMIT = LatencyLimit(0.3)
POLICIES = {"deployment": {"water": Policy(ACTS, 3, 12, 600.0)}, "open_batches": {"water": Policy(ACTS, 20, 100, 60.0)}}


def estate_of(count: int, slots: tuple[Slot, ...] = SLOTS) -> Estate:
    """Dataflows of two queries each: the second counts."""
    estate = Estate(slots=slots)
    for number in range(count):
        estate = submit(estate, unchained(flow(
            f"d{number}", {"s": ("sensors", {"seed": number}), "a": ("scale", {"by": number + 1}), "c": "count",
                           "o": ("archive", {"name": f"o{number}"})},
            "s > a > c > o", rates={"s": 2_000.0}), "c"))
    return estate


def setup_of(estate: Estate, *rates: Sequence[float], **other: object) -> ReplaySetup:
    """Rates by the order of dataflows; the first has a limit."""
    sources = [submitted.running["s"] for submitted in estate.submitted.values()]
    options = {"policies": POLICIES, "limits": {"d0": (LIMIT,)}, "step_s": STEP_S, **other}
    return ReplaySetup(estate, dict(zip(sources, rates, strict=True)), TYPES, PRICES, **options)


def check_work(result: Replayed, setup: ReplaySetup) -> None:
    """The same tasks work for the same dataflows as before, each in one place."""
    for check in (check_running_dataflows, check_fragments, check_outlets):
        check(result.estate)
    assert result.estate.tasks.keys() == setup.estate.tasks.keys()
    assert result.estate.submitted == setup.estate.submitted


def check_rounds(result: Replayed, policies: Mapping[str, Mapping[str, Policy]]) -> None:
    """Budgets are held in every hour and day; nothing gets a value again that it had within the cool-down."""
    begun: dict[tuple[str, str], list[float]] = defaultdict(list)
    for turn in result.rounds:
        if turn.phase != DECLINED or turn.has_changed:
            begun[turn.controller, turn.decision.team].append(turn.begun_s)
    for (controller, team), moments in begun.items():
        policy = policies[controller][team]
        for moment in moments:
            for over_s, most in ((HOUR_S, policy.changes_per_hour), (DAY_S, policy.changes_per_day)):
                assert sum(moment - over_s < other <= moment for other in moments) <= most
    of_round = {turn.key: turn for turn in result.rounds}
    made: dict[tuple[Aspect, str], list[ChangeMade]] = defaultdict(list)
    for change in result.changes:
        made[change.change.what].append(change)
    for changes in made.values():
        for before, after in pairwise(changes):
            assert before.change.after == after.change.before, "each change begins where the last one ended"
            cool_down_s = policies[of_round[after.round].controller][of_round[after.round].decision.team].cool_down_s
            is_returning = after.change.after == before.change.before
            assert not is_returning or after.is_back or after.at_s - before.at_s > cool_down_s


@pytest.fixture(scope="module")
def day() -> tuple[Replayed, ReplaySetup]:
    """A day of waves."""
    rng, steps = np.random.default_rng(7), int(DAY_S / STEP_S)
    setup = setup_of(estate_of(2), *(
        waves(500, most, steps, rng, period=steps // times, noise=0.1) for most, times in ((6_000, 1), (40_000, 2))))
    return replay(setup), setup


def test_a_played_day_is_better_with_the_controllers_than_without(day: tuple[Replayed, ReplaySetup]) -> None:
    led, setup = day
    morning = {source: rates[:240] for source, rates in setup.rates_per_s.items()}
    alone = replay(replace(setup, policies={}, rates_per_s=morning))
    assert not alone.rounds and alone.estate is setup.estate
    assert {turn.controller for turn in led.rounds} == set(POLICIES), "both have found something to do"
    assert led.missed(("d0", 0)) < 0.05 and alone.missed(("d0", 0)) > 0.5
    assert led.middle_s(("d0", 0)) < alone.middle_s(("d0", 0))


def test_in_a_played_day_budgets_hold_and_nothing_goes_back_and_forth(
    day: tuple[Replayed, ReplaySetup]
) -> None:
    led, setup = day
    check_rounds(led, setup.policies)
    assert any(turn.phase == KEPT for turn in led.rounds)
    check_work(led, setup)


def test_what_is_set_is_set_in_the_estate(day: tuple[Replayed, ReplaySetup]) -> None:
    led, _ = day
    set_to = {change.change.subject: change.change.after for change in led.changes
              if change.change.aspect is Aspect.BATCHES}
    assert set_to
    opened = {name for name, settings in led.estate.settings.items() if settings.real_time}
    inherited = {ancestor for name in opened for ancestor in (name, *led.estate.fragments[name].inherits)}
    assert {name for name, mode in set_to.items()
            if mode is BatchMode.OPEN and name in led.estate.fragments} <= inherited


def busy_neighbour(**other: object) -> ReplaySetup:
    """Two dataflows crowd one slot, and one of them takes all that becomes free; it cannot be moved."""
    greedy = flow("greedy", {"s": ("sensors", {"seed": 9}), "w": "window", "o": ("archive", {"name": "w"})},
                  "s > w > o", rates={"s": 2_000.0})
    estate, steps = submit(estate_of(1, (Slot("n1", 0), Slot("n2", 0))), greedy), int(2 * HOUR_S / STEP_S)
    crowded = replace(estate, fragments={
        name: replace(fragment, slot="n1/0") for name, fragment in estate.fragments.items()})
    growing = np.concatenate([constant(14_000.0, 60), constant(60_000.0, steps - 60)])
    return setup_of(crowded, constant(14_000.0, steps), growing, limits={}, **{
        "policies": {"deployment": {"water": Policy(ACTS, 1, 1, 600.0)}}, **other})


def test_a_move_that_misses_its_promise_is_taken_back() -> None:
    setup = busy_neighbour()
    result = replay(setup)
    (turn,) = result.rounds
    assert turn.phase == ROLLED_BACK and turn.back_s is not None, turn.why
    move, back = result.changes
    assert back.is_back and back.change == move.change.reverse
    assert {fragment.slot for fragment in result.estate.fragments.values()} == {"n1/0"}
    check_rounds(result, setup.policies)


def test_what_is_asked_waits_for_people() -> None:
    recommends = {"deployment": {"water": Policy(RECOMMENDS, 1, 1, 600.0)}}
    (waiting,) = replay(busy_neighbour(policies=recommends)).rounds
    assert waiting.is_open and not waiting.has_changed
    late = replay(busy_neighbour(policies=recommends, approved_after_s=600.0))
    (approved,) = late.rounds
    assert approved.has_changed and late.changes[0].at_s >= approved.begun_s + 600.0
    assert not replay(busy_neighbour(policies={"deployment": {"water": Policy(OFF)}})).rounds


def test_queues_grow_while_there_is_more_to_do_than_cores_and_drain_again() -> None:
    estate = estate_of(1, SLOTS[:1])
    rates = np.concatenate([constant(1_000.0, 20), constant(60_000.0, 20), constant(1_000.0, 400)])
    result = replay(setup_of(estate, rates, policies={}))
    assert result.waiting[:20].max() < 1.0
    assert (np.diff(result.waiting[21:40]) > 0).all(), "ever more events wait"
    assert result.latency_s["d0", 0][39] > 10 * result.latency_s["d0", 0][19]
    latency_s = result.latency_s["d0", 0]
    assert result.waiting[-1] < 1.0 and latency_s[-1] == pytest.approx(latency_s[19], rel=0.2)
    assert result.cores.max() <= 1.0 + 1e-9


@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.tuples(st.floats(500.0, 20_000.0), st.sampled_from((20, 60, 200))), min_size=2, max_size=3),
    st.integers(0, 2**31), st.fixed_dictionaries({name: st.builds(
        Policy, st.sampled_from((OFF, RECOMMENDS, ACTS)), st.integers(0, 3), st.integers(0, 4),
        st.sampled_from((0.0, 300.0, 1_800.0))) for name in sorted(CONTROLLERS)}))
def test_whatever_comes_and_whatever_teams_allow_rounds_keep_to_it(
    loads: list[tuple[float, int]], seed: int, allowed: dict[str, Policy]
) -> None:
    rng, steps = np.random.default_rng(seed), int(HOUR_S / STEP_S)
    policies = {name: {"water": policy} for name, policy in allowed.items()}
    setup = setup_of(
        estate_of(len(loads)), *(waves(100, most, steps, rng, period=period) for most, period in loads),
        policies=policies, approved_after_s=300.0)
    result = replay(setup)
    check_rounds(result, policies)
    check_work(result, setup)
    assert max(Counter(turn.key for turn in result.rounds).values(), default=1) == 1
    assert not [turn for turn in result.rounds if allowed[turn.controller].mode == OFF]
    again = replay(setup)
    assert (again.rounds, again.changes, again.core_hours) == (result.rounds, result.changes, result.core_hours)
