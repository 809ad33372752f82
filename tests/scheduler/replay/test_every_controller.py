"""Every controller there is has its part in replays: also who cuts slow tasks out, and who measures again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.controllers.changes import Carriage
from scheduler.controllers.controller_registry import CONTROLLERS, PURE_COLLECTORS
from scheduler.controllers.evidence.world import UsedProfile
from scheduler.controllers.loop_values import ACTS, KEPT, RECOMMENDS, Policy
from scheduler.model.costs import Costs
from scheduler.model.estate import Estate
from scheduler.model.fragment import Slot
from scheduler.model.latency_limits import LatencyLimit
from scheduler.model.profile import Point, Profile
from scheduler.replay.flow import shared_out
from scheduler.replay.played_profiles import PlayedProfiles, TaskCost
from scheduler.replay.playing import replay
from scheduler.replay.setup import PlayedProfile, Replayed, ReplaySetup
from tests.scheduler.catalogue import PRICES, TYPES, flow, submit, unchained

from .test_replay import STEP_S, check_rounds, check_work

SLOTS = (Slot("n1", 0), Slot("n1", 1), Slot("n2", 0))
ISOLATES = {"isolation": {"water": Policy(ACTS, 4, 10, 600.0)}}


def test_every_controller_has_a_collector() -> None:
    assert {controller.reads for controller in CONTROLLERS.values()} == set(PURE_COLLECTORS)


# Slow tasks -----------------------------------------------------------------------------------------------------------


def held_up(rates: list[float], **other: object) -> ReplaySetup:
    """A dataflow needs the first two tasks of a query whose third does 3,300 events a second."""
    estate = Estate(slots=SLOTS)
    for name, team, task, kind in (("slow", "other", "c", "count"), ("quick", "water", "q", ("scale", {"by": 3}))):
        estate = submit(estate, flow(name, {
            "s": ("sensors", {"seed": 1}), "a": ("scale", {"by": 2}), task: kind, "o": ("archive", {"name": name})},
            f"s > a > {task} > o", rates={"s": 2_000.0}), team=team)
    options = {"costs": Costs(event_us={"count": 300.0}), "limits": {"quick": (LatencyLimit(6.0),)}, "step_s": STEP_S}
    return ReplaySetup(estate, {estate.submitted["quick"].running["s"]: rates}, TYPES, PRICES, **(options | other))


RISING = [1_000.0] * 20 + [4_000.0] * 60


def test_a_slow_task_is_cut_out_and_who_waited_waits_no_more() -> None:
    setup = held_up(RISING, policies=ISOLATES)
    alone, led = replay(replace(setup, policies={})), replay(setup)
    (turn,) = led.rounds
    assert turn.phase == KEPT and turn.decision.target == "quick", turn.why
    assert alone.missed(("quick", 0)) > 0.6 and led.missed(("quick", 0)) < 0.05
    assert alone.waiting[-1] > 0 and led.waiting[-1] > 0, "what is slow is no quicker"
    types = {tuple(setup.estate.tasks[task].type for task in fragment.tasks)
             for fragment in led.estate.fragments.values()}
    assert {("sensors", "scale"), ("count", "archive")} <= types
    check_rounds(led, setup.policies)
    check_work(led, setup)


@pytest.mark.parametrize("other", [
    {"policies": {"isolation": {"water": Policy(RECOMMENDS, 4, 10, 600.0)}}},  # nobody approves
    {"costs": Costs(event_us={"sensors": 300.0})},  # all who need the query need that task
    {"hold_s": 4_000.0}])
def test_what_helps_nobody_or_nobody_allows_is_not_cut(other: dict[str, object]) -> None:
    setup = held_up(RISING[:60], **({"policies": ISOLATES} | other))
    assert not replay(setup).changes


def test_what_was_cut_is_not_fused_again_by_who_fuses_all_else() -> None:
    setup = held_up([4_000.0] * 100, policies=ISOLATES | {"defragmentation": {
        team: Policy(ACTS, 10, 20, 60.0) for team in ("water", "other")}})
    led = replay(setup)
    first, *others = led.changes
    assert first.change.after is Carriage.CHANNEL and first.round.startswith("isolation")
    assert others and all(other.change.what != first.change.what for other in others)
    check_rounds(led, setup.policies)


# Profiles -------------------------------------------------------------------------------------------------------------


def profiled(
    says_us: float, *, slots: tuple[Slot, ...] = (*SLOTS, Slot("n2", 1), Slot("n2", 2)), mode: str = ACTS,
    approved_after_s: float | None = None, **other: object
) -> Replayed:
    """A task takes 10 µs an event, and its profile says something else."""
    estate = submit(Estate(slots=slots), unchained(flow(
        "d", {"s": ("sensors", {"seed": 1}), "a": ("scale", {"by": 2}), "o": ("archive", {"name": "o"})}, "s > a > o",
        rates={"s": 20_000.0}), "a", "o"))
    task, source = (estate.submitted["d"].running[name] for name in ("a", "s"))
    profile = Profile("scale", (Point(1, 1e6 / says_us, 1.0, 0.1),))
    played = PlayedProfile(
        UsedProfile("p", "scale here", "scale", "water"), profile, frozenset({task}), frozenset({"n2"}), **other)
    return replay(ReplaySetup(
        estate, {source: [40_000.0] * 100}, TYPES, PRICES, profiles=(played,), step_s=STEP_S,
        policies={"remeasuring": {"water": Policy(mode, 2, 4, 600.0)}}, approved_after_s=approved_after_s))


def test_a_profile_that_what_runs_contradicts_is_measured_again_and_holds_then() -> None:
    played = profiled(2.0, sweep_s=900.0)
    (turn,) = played.rounds
    assert turn.phase == KEPT and "Running bundles show" in turn.decision.why, turn.why
    assert turn.decision.arguments["slot"].startswith("n2/") and turn.changed_s - turn.begun_s >= 900.0
    assert max(played.cores) == pytest.approx(min(played.cores[20:]) + 1), "a trial takes its slot's core"
    assert not profiled(16.0, why_not="It was imported.").rounds


def test_nothing_is_measured_before_people_approve() -> None:
    (waiting,) = profiled(2.0, mode=RECOMMENDS).rounds
    assert waiting.is_open and not waiting.has_changed
    (approved,) = profiled(2.0, mode=RECOMMENDS, approved_after_s=300.0, sweep_s=600.0).rounds
    assert approved.has_changed and approved.changed_s - approved.begun_s >= 900.0


def test_what_holds_or_has_nowhere_to_be_measured_is_left_alone() -> None:
    assert not profiled(12.5).rounds, "batches take some of it, too"
    nowhere = profiled(2.0, slots=SLOTS)
    assert not nowhere.rounds and any("is free to measure it on" in why for _, _, why in nowhere.why_not)


def test_a_profile_that_was_measured_wrong_can_be_taken_back() -> None:
    played = PlayedProfile(UsedProfile("p", "k", "scale", "water"), Profile("scale", (Point(1, 5.0, 1.0, 0.1),)),
                           frozenset({"t"}), frozenset({"n1"}))
    profiles = PlayedProfiles.of([played])
    profiles.begin("k", "n1/0")
    assert profiles.where_measured("p", Estate(slots=SLOTS)) == ("", "It is being measured.")
    before = profiles.end("k", {"t": TaskCost(0.1, 0.2)}.get)
    assert before == played and not profiles.measured_on
    assert profiles.in_use["k"].profile.estimate(1).cpu_at(4.0) == pytest.approx(0.6)
    profiles.use_again(before)
    assert profiles.in_use["k"] == played
    assert profiles.end("k", {}.get) is None, "nothing runs that could be measured"


@pytest.mark.parametrize("wanted", [{"a": 0.1}, {"a": 0.1, "b": 2.0, "c": 0.6}, {"a": 0.5, "b": 0.5, "c": 0.001}])
def test_a_core_is_shared_so_that_nobody_has_less_than_who_wants_no_more(wanted: dict[str, float]) -> None:
    shares = shared_out(wanted, 0.9)
    assert sum(shares.values()) == pytest.approx(0.9)
    for name, share in shares.items():
        assert share >= wanted[name] - 1e-9 or share >= max(
            min(other, wanted[query]) for query, other in shares.items()) - 1e-9
