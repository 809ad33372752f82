"""Promises held to figures, what defragmentation promises and leaves, and dry runs, by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from scheduler.controllers.control_loop import step
from scheduler.controllers.controller_port import CommandProgress, Effect, MeasureSample, Observations, held_to_bounds
from scheduler.controllers.defragmentation import CORES, LATENCY, Candidate, Defragmentation, Fusions
from scheduler.controllers.dry_run import Frame, dry_run
from scheduler.controllers.loop_values import (
    ACTS,
    CHECKING,
    OFF,
    UNCHECKED,
    ControllerPromise,
    LoopState,
    Policy,
    PromiseBound,
    Round,
)
from scheduler.model.prices import Prices
from scheduler.reuse.defragment import DefragmentRule, Fusion, StepLoad

PROMISE = ControllerPromise("it takes less", 600.0, (PromiseBound("cores", "cores", 1.0, 0.8),), load=100.0)
FUSION = Fusion(("f1-0", "f2-0"), "n1/0", 0, (("a", "b"),))
CANDIDATE = Candidate(
    "d1", "city", ("mobility",), FUSION, StepLoad(50.0, ((50.0, 300.0),), 24.0), ("a", "b"), ("a",), cores=0.6,
    latency_ms=400.0)
EVIDENCE = Fusions((CANDIDATE,), Prices(), 0.05, DefragmentRule(), as_few_as_can_be=(("city", 3),))


def effect(*cores: float, load: float = 100.0) -> Effect:
    return Effect(0.0, tuple(MeasureSample(float(at_s), {"cores": figure}, load) for at_s, figure in enumerate(cores)))


@pytest.mark.parametrize(("samples", "verdict"), [
    (effect(*[0.7] * 12), "kept"), (effect(*[0.9] * 12), "broken"), (effect(*[0.7] * 11), "too early"),
    (effect(*[0.7] * 12, load=130.0), "too early"), (effect(*[0.7] * 12, load=80.0), "kept"),
    (effect(*[math.nan, -1.0, math.inf] * 10), "too early"), (effect(*[0.7] * 12, *[50.0] * 11), "kept"),
    (effect(), "too early"),
])
def test_a_promise_is_held_to_the_middle_of_comparable_figures(samples: Effect, verdict: str) -> None:
    assert held_to_bounds(PROMISE, samples)[0] == verdict


def test_a_step_promises_half_of_what_it_saves_and_that_nothing_comes_later() -> None:
    [decision] = Defragmentation().evaluate(EVIDENCE, {}).decisions
    bounds = {bound.measure: bound.at_most for bound in decision.promise.bounds}
    assert bounds == {CORES: pytest.approx(0.6 * 1.1 - 0.025), LATENCY: 600.0}
    assert (decision.promise.load, decision.teams) == (50.0, ("city", "mobility"))
    [change] = decision.changes
    assert Defragmentation().rollback(decision) == (change.reverse,)
    unmeasured = replace(EVIDENCE, candidates=(replace(CANDIDATE, cores=None, latency_ms=None),))
    assert Defragmentation().evaluate(unmeasured, {}).decisions[0].promise.bounds == ()


def test_what_promises_no_figure_is_over_when_its_time_is_and_other_promises_are_waited_for_as_long_again() -> None:
    [decision] = Defragmentation().evaluate(EVIDENCE, {}).decisions
    for promise, over_s in ((replace(decision.promise, bounds=()), 900.0), (decision.promise, 1_800.0)):
        begun = Round("r1", "defragmentation", ACTS, replace(decision, promise=promise), 0.0, CHECKING, changed_s=0.0)
        for now_s in (over_s - 1, over_s):
            seen = Observations(progress={"r1": CommandProgress("in_force")})
            [turn] = step(Defragmentation(), LoopState((begun,)), seen, {}, now_s=now_s).state.rounds
            assert turn.phase == (UNCHECKED if now_s == over_s else CHECKING)


def test_what_is_not_worth_it_or_not_wanted_is_no_decision() -> None:
    young = replace(EVIDENCE, candidates=(replace(CANDIDATE, load=StepLoad(50.0, ((50.0, 0.0),), 0.01)),))
    evaluation = Defragmentation().evaluate(young, {})
    assert evaluation.decisions == () and "not enough" in evaluation.reasons[0].why
    for waits_ms, saved, apart_ms in ((500.0, "500 ms sooner", {}), (501.0, "", {}), (501.0, "501 ms", {"f2-0": 600})):
        waiting = replace(CANDIDATE, load=StepLoad(50.0, ((50.0, waits_ms),), 24.0))
        [decision] = Defragmentation().evaluate(
            replace(EVIDENCE, candidates=(waiting,), prices=Prices(paces_ms=apart_ms)), {}).decisions
        assert saved in decision.why and bool(saved) is ("sooner" in decision.why), "who is slow stays slow"
    evaluation = Defragmentation().evaluate(EVIDENCE, {"city": Policy(OFF)})
    assert (evaluation.decisions, evaluation.reasons) == ((), ())


def test_a_dry_run_changes_each_thing_once_and_keeps_to_the_budget() -> None:
    other = replace(CANDIDATE, dataflow="d2", fusion=replace(FUSION, path=("f3-0", "f4-0"), streams=(("c", "d"),)))
    frames = [
        Frame(at_s, replace(EVIDENCE, candidates=(CANDIDATE, other))) for at_s in range(0, 4 * 3600, 300)]
    policies = {"city": Policy(ACTS, changes_per_hour=1, changes_per_day=9, cool_down_s=60.0)}
    played = dry_run(Defragmentation(), frames, policies)
    assert sorted(turn.decision.target for turn in played.rounds) == ["d1", "d2"]
    first, second = sorted(turn.begun_s for turn in played.rounds)
    assert second - first >= 3600 and any("budget of 1 changes an hour" in reason.why for _, reason in played.reasons)
    assert dry_run(Defragmentation(), frames, {"city": Policy(OFF)}).rounds == ()
