"""Bundles added and taken by adaptation: when, at which price, beside switches, and over hours of load that swings."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.adaptation.shared_slots import AdaptationRoom
from scheduler.controllers.adapted_dataflows import Adaptations, AdaptedDataflow, slots_wanted
from scheduler.controllers.alternate_adaptation import LACK, Adapting
from scheduler.controllers.bundle_adaptation import BundleOffer, OfferedBundles, other_rate, preferred_rate
from scheduler.controllers.changes import Aspect
from scheduler.controllers.control_loop import step
from scheduler.controllers.controller_port import CommandProgress, Effect, MeasureSample, Observations
from scheduler.controllers.loop_values import ACTS, HOUR_S, OFF, Begin, Decision, LoopState, Policy, RollBack
from scheduler.elasticity.uneven_keys import KeyedLoad, UnevenKeys
from scheduler.model.dataflow_goals import DataflowGoals
from scheduler.simulation.elastic import Alternate, ElasticDataflow

SLOT_PER_S = 100.0  # what a slot holds of the way of most value
SLOT_HOUR = 0.1
ACTING = {"city": Policy(ACTS, 6, 48, 300.0)}
ALL, FEW = Alternate("all", 1.0, 1 / SLOT_PER_S, 1.0), Alternate("few", 0.5, 1 / (4 * SLOT_PER_S), 1.0)


def offer_for(source_per_s: float, *, free: int = 100) -> BundleOffer:
    """As if each slot held a hundred events a second."""
    slots = math.ceil(source_per_s / SLOT_PER_S)
    return BundleOffer(
        ("MBA", "SAM"), "slot_aware", source_per_s, slots * SLOT_PER_S, slots, slots * SLOT_HOUR, max(0, slots - free))


def dataflow(
    per_s: float, now: BundleOffer, *, ways: Mapping[str, Alternate] | None = None, on: str = "all", free: int = 100,
    waiting: float = 0.0, most_per_hour: float = 10.0,
) -> AdaptedDataflow:
    """One that runs by a schedule, its task divided evenly over the schedule's slots."""
    ways = {"all": ALL} if ways is None else ways
    rate = other_rate(now, per_s, sources=1)
    other = None if rate is None or rate == now.source_per_s else offer_for(rate, free=free)
    slots = [f"n/{number}" for number in range(now.slots)]
    return AdaptedDataflow(
        "d", "city", DataflowGoals(most_per_hour=most_per_hour, least_per_hour=0.01),
        ElasticDataflow({"s": {"": Alternate("", 1.0, 1e-9, 1.0)}, "t": ways}, (("s", "t"),)), {"s": "", "t": on},
        {"t": "work"} if len(ways) > 1 else {}, {"t": ("port",)}, {"s": per_s}, {"t": waiting},
        AdaptationRoom(dict.fromkeys(slots, 1.0), {"s": {slots[0]: 1.0}, "t": dict.fromkeys(slots, 1 / len(slots))}),
        SLOT_HOUR, 1e4, bundles=OfferedBundles(now, per_s, other))


def decisions(seen: AdaptedDataflow) -> tuple[Decision, ...]:
    return Adapting().evaluate(Adaptations((seen,)), ACTING).decisions


def why_not(seen: AdaptedDataflow) -> str:
    [reason] = Adapting().evaluate(Adaptations((seen,)), ACTING).reasons
    return reason.why


def test_bundles_are_added_where_the_schedule_is_too_small() -> None:
    [decision] = decisions(dataflow(300.0, offer_for(100.0)))
    [change] = decision.changes
    assert (change.aspect, change.subject, change.before, change.after) == (Aspect.SCHEDULE, "d", "100", "400")
    assert json.loads(decision.arguments["schedule"]) == {
        "pair": ["MBA", "SAM"], "rate_per_s": 400.0, "routing": "slot_aware"}
    assert decision.moves_queries and decision.touched == ("port",)
    assert decision.promise.load == 300.0 and decision.promise.bounds[0].measure == LACK
    assert decision.promise.bounds[0].at_most < decision.promise.bounds[0].before
    rows = json.loads(decision.arguments["looked_at"])
    assert [row["is_chosen"] for row in rows[:2]] == [False, True], "the schedule of now, and the one that is chosen"
    assert [row["per_hour"] for row in rows[:2]] == pytest.approx([0.1, 0.4])
    assert sum(row["is_chosen"] for row in rows) == 1


def test_bundles_are_taken_where_far_less_comes() -> None:
    [decision] = decisions(dataflow(100.0, offer_for(1000.0)))
    assert [change.after for change in decision.changes] == ["125"]
    assert Adapting().rollback(decision)[0].after == "1000"
    assert not decisions(dataflow(700.0, offer_for(1000.0))), "less than twice what comes is no reason"


@pytest.mark.parametrize(("seen", "why"), [
    (dataflow(300.0, offer_for(100.0), free=1), "needs 3 more than there are"),
    (dataflow(300.0, offer_for(100.0), most_per_hour=0.2), "goals pay 0.2"),
    (dataflow(50.0, offer_for(100.0), waiting=30_000.0), "more bundles would not help"),
    (replace(dataflow(300.0, offer_for(100.0)), bundles=OfferedBundles(
        offer_for(100.0), 300.0, why_none="There is no profile of work.")), "There is no profile of work.")])
def test_what_stands_against_more_bundles_is_said(seen: AdaptedDataflow, why: str) -> None:
    assert not decisions(seen) and why in why_not(seen)


def test_a_ring_is_cut_anew_by_the_schedule_of_now_where_no_other_one_is_offered() -> None:
    keys = UnevenKeys(
        "t", "f1-1", KeyedLoad(3_000.0, 0.95), events=0.7, wanted=0.5, then=0.52, cut="50.00% + 50.00%",
        other_cut="20.00% + 80.00%")
    seen = dataflow(150.0, offer_for(200.0))
    assert not decisions(seen)
    uneven = replace(seen, bundles=replace(seen.bundles, uneven={"work": keys}))
    [decision] = decisions(uneven)
    [change] = decision.changes
    assert (change.aspect, change.subject, change.before, change.after) == (
        Aspect.KEYS, "t", "50.00% + 50.00%", "20.00% + 80.00%")
    assert json.loads(decision.arguments["schedule"])["rate_per_s"] == 200.0 and decision.moves_queries
    assert decision.promise.bounds[0].measure == LACK and "One query of work has 70% of the events" in decision.why
    rows = json.loads(decision.arguments["looked_at"])
    assert [row["is_chosen"] for row in rows] == [True, *(False for _ in rows[1:])]
    assert not Adapting().evaluate(Adaptations((uneven,)), {"city": Policy(OFF)}).decisions
    short = dataflow(300.0, offer_for(100.0))
    [decision] = decisions(replace(short, bundles=replace(short.bundles, uneven={"work": keys})))
    assert decision.changes[0].aspect == Aspect.SCHEDULE, "another schedule cuts the ring, too"


def test_of_a_switch_and_a_schedule_goes_what_brings_more_profit() -> None:
    both = {"all": ALL, "few": FEW}
    dear = replace(
        dataflow(300.0, offer_for(100.0), ways=both), goals=DataflowGoals(most_per_hour=0.45, least_per_hour=0.2))
    [decision] = decisions(dear)
    assert [change.aspect for change in decision.changes] == [Aspect.ALTERNATE], "three slots more cost more value"
    cheap = replace(dear, goals=DataflowGoals(most_per_hour=50.0))
    [decision] = decisions(cheap)
    assert [change.aspect for change in decision.changes] == [Aspect.SCHEDULE]


def test_machines_are_wanted_for_slots_that_a_schedule_lacks_and_goals_pay_for() -> None:
    short = dataflow(300.0, offer_for(100.0), free=1)
    assert slots_wanted(Adaptations((short,)), ACTING) == 3
    assert slots_wanted(Adaptations((short,)), {"city": Policy(OFF)}) == 0
    poor = replace(short, goals=DataflowGoals(most_per_hour=0.3))
    assert slots_wanted(Adaptations((poor,)), ACTING) == 0
    assert slots_wanted(Adaptations((dataflow(50.0, offer_for(100.0), free=1),)), ACTING) == 0


@given(st.floats(1e-3, 1e9))
def test_a_preferred_rate_is_the_least_that_is_not_below(rate_per_s: float) -> None:
    preferred = preferred_rate(rate_per_s)
    assert rate_per_s * (1 - 1e-6) <= preferred <= 1.29 * rate_per_s
    assert preferred_rate(preferred) == preferred


@given(st.floats(0.0, 1e6), st.floats(1.0, 1e6), st.integers(1, 5))
def test_a_schedule_that_was_asked_for_is_not_asked_to_be_another_at_once(
    load_per_s: float, held_per_s: float, sources: int
) -> None:
    now = replace(offer_for(held_per_s), sustained_per_s=held_per_s)
    rate = other_rate(now, load_per_s, sources=sources)
    if rate is not None:
        then = replace(now, source_per_s=rate, sustained_per_s=rate * sources)
        again = other_rate(then, load_per_s, sources=sources)
        assert again is None or again == rate


@dataclass
class Played:
    """A dataflow by a schedule in played time: what does not fit in its slots waits."""

    now: BundleOffer = field(default_factory=lambda: offer_for(100.0))
    waiting: float = 0.0
    state: LoopState = field(default_factory=LoopState)
    phases: dict[str, str] = field(default_factory=dict)
    kept: list[MeasureSample] = field(default_factory=list)
    log: list[tuple[float, float]] = field(default_factory=list)  # when, and for which rate
    lacks: list[float] = field(default_factory=list)

    def pass_step(self, at_s: float, per_s: float) -> None:
        could = per_s * 60.0 + self.waiting
        done = min(could, self.now.slots * SLOT_PER_S * 60.0)
        self.waiting = could - done
        lack = 1 - done / could if could else 0.0
        self.lacks.append(lack)
        self.kept.append(MeasureSample(at_s, {LACK: lack}, load=per_s))
        seen = dataflow(per_s, self.now, waiting=self.waiting)
        effects = {turn.key: Effect(turn.changed_s, tuple(
            sample for sample in self.kept if sample.at_s >= turn.changed_s))
            for turn in self.state.rounds if turn.changed_s is not None}
        progress = {key: CommandProgress(phase) for key, phase in self.phases.items()}
        done_step = step(
            Adapting(), self.state, Observations(Adaptations((seen,)), at_s, progress, effects), ACTING, now_s=at_s)
        self.state = done_step.state
        for command in done_step.commands:
            key = command.round.key
            if isinstance(command, Begin) and key not in self.phases:
                self._scheduled(at_s, json.loads(command.round.decision.arguments["schedule"])["rate_per_s"])
                self.phases[key] = "in_force"
            elif isinstance(command, RollBack) and self.phases.get(key) == "in_force":
                self._scheduled(at_s, float(command.changes[0].after))
                self.phases[key] = "rolled_back"

    def _scheduled(self, at_s: float, source_per_s: float) -> None:
        self.now = offer_for(source_per_s)
        self.log.append((at_s, source_per_s))


LOADS = st.tuples(
    st.floats(50.0, 500.0), st.floats(0.0, 0.95), st.floats(600.0, 4 * HOUR_S), st.floats(0.0, 6.3))


@settings(max_examples=25, deadline=None)
@given(LOADS)
def test_over_hours_of_swings_budgets_hold_and_nothing_goes_back_and_forth(
    load: tuple[float, float, float, float]
) -> None:
    mean, part, period_s, phase = load
    played = Played()
    for minute in range(8 * 60):
        at_s = 1e6 + 60.0 * minute
        played.pass_step(at_s, mean * (1 + part * math.sin(2 * math.pi * at_s / period_s + phase)))
    policy = ACTING["city"]
    begun = sorted(turn.begun_s for turn in played.state.rounds)
    for at_s in begun:
        assert sum(at_s - HOUR_S < begun_s <= at_s for begun_s in begun) <= policy.changes_per_hour
    by_decision = [
        (turn.begun_s, float(turn.decision.changes[0].after)) for turn in played.state.rounds]
    for (before_s, _), (after_s, _) in pairwise(by_decision):
        assert after_s - before_s > policy.cool_down_s, "the cool-down lies between two decisions"


def test_a_load_that_rises_and_stays_is_met_and_then_left_alone() -> None:
    played = Played()
    for minute in range(180):
        played.pass_step(1e6 + 60.0 * minute, 80.0 if minute < 30 else 420.0)
    assert max(played.lacks[-60:]) < 0.01, "by then all that comes leaves"
    assert played.now.sustained_per_s >= 420.0
    changes = len(played.log)
    for minute in range(180, 360):
        played.pass_step(1e6 + 60.0 * minute, 420.0 * (1 + 0.02 * (-1) ** minute))
    assert len(played.log) == changes, "what swings a little changes nothing"
