"""Adaptation in played time: alternates follow load, throughput is kept, nothing goes back and forth."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.applying import apply_plan
from scheduler.controllers.changes import Aspect
from scheduler.controllers.loop_values import ACTS, HOUR_S, KEPT, OFF, RECOMMENDS, Policy
from scheduler.guards.element_policies import ElementPolicy
from scheduler.model.dataflow_goals import DataflowGoals
from scheduler.model.estate import Estate
from scheduler.replay.playing import replay
from scheduler.replay.setup import Replayed, ReplaySetup
from scheduler.setting import plan_policy
from scheduler.simulation.loads import waves
from tests.scheduler.catalogue import EMPTY, PRICES, TYPES, flow, submit

from .test_replay import LIMIT, POLICIES, check_rounds, check_work

STEP_S = 30.0
# A core does some 30,000 events a second by the dear way, some 90,000 by the cheap one.
WAYS = [
    {"name": "all", "type": "scale", "config": {"by": 2}, "value": 2},
    {"name": "few", "type": "thin", "config": {}, "value": 1}]
ACTING = {"adaptation": {"water": Policy(ACTS, 6, 48, 300.0)}}
GOALS = DataflowGoals(most_per_hour=0.2, least_per_hour=0.02)


def adapted(policy: ElementPolicy, *, count: int = 1) -> Estate:
    """Dataflows with a dynamic task whose policy is this one."""
    estate = EMPTY
    for number in range(count):
        name = f"d{number}"
        estate = submit(estate, flow(
            name, {"s": ("sensors", {"seed": number}), "w": ("dynamic", {"alternates": WAYS}),
                   "a": ("scale", {"by": 3}), "o": ("archive", {"name": name})}, "s > w > a > o",
            rates={"s": 20_000.0}))
        estate = apply_plan(estate, plan_policy(
            estate, name, task="w", policy=policy, task_types=TYPES, prices=PRICES))
    return estate


def played(
    *rates: Sequence[float], source: str = "controllers", guards: dict[str, str] | None = None, **other: object
) -> tuple[Replayed, ReplaySetup]:
    estate = adapted(ElementPolicy(guards or {}, source=source), count=len(rates))
    sources = [submitted.running["s"] for submitted in estate.submitted.values()]
    options = {"policies": ACTING, "goals": dict.fromkeys(estate.submitted, GOALS), "step_s": STEP_S, **other}
    setup = ReplaySetup(estate, dict(zip(sources, rates, strict=True)), TYPES, PRICES, **options)
    return replay(setup), setup


def switches(result: Replayed) -> list[str]:
    return [str(made.change.after) for made in result.changes if made.change.aspect is Aspect.ALTERNATE]


THREEFOLD = [20_000.0] * 20 + [60_000.0] * 40 + [20_000.0] * 60


def test_the_cheap_way_is_on_while_three_times_as_much_comes() -> None:
    result, setup = played(THREEFOLD)
    assert switches(result) == ["few", "all"]
    alone, _ = played(THREEFOLD, policies={})
    assert result.waiting[-1] < 1 < alone.waiting.max() / 60_000
    assert result.waiting.sum() < alone.waiting.sum() / 10
    check_rounds(result, setup.policies)
    check_work(result, setup)
    assert [turn.phase for turn in result.rounds] == [KEPT, KEPT]
    first = result.rounds[0].decision
    assert "Throughput is below its goal" in first.why and "w by few" in first.why
    assert '"is_chosen": true' in first.arguments["looked_at"] and '"is_chosen": false' in first.arguments["looked_at"]


def test_each_algorithm_that_is_quick_does_so() -> None:
    for algorithm in ("local", "SH", "WAAF"):
        result, _ = played(THREEFOLD[10:40], algorithm=algorithm)
        assert switches(result)[0] == "few", algorithm


def test_what_is_left_to_guards_or_has_no_goals_is_left_alone() -> None:
    for other in ({"source": "people"}, {"goals": {}}, {"guards": {"few": "rate < 0"}},
                  {"policies": {"adaptation": {"water": Policy(OFF)}}},
                  {"policies": {"adaptation": {"water": Policy(RECOMMENDS)}}}):
        result, _ = played(THREEFOLD[10:40], **other)
        assert switches(result) == [], other


@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 10**6), st.sampled_from([1, 4, 15]), st.sampled_from([0.0, 0.4]))
def test_loads_that_swing_break_no_budget_and_make_nothing_go_back_and_forth(
    seed: int, periods: int, noise: float
) -> None:
    rng, steps = np.random.default_rng(seed), int(HOUR_S / STEP_S)
    result, setup = played(*(
        waves(5_000, 70_000, steps, rng, period=steps // periods, noise=noise) for _ in range(2)),
        policies=ACTING | POLICIES, limits={"d0": (LIMIT,)})
    check_rounds(result, setup.policies)
    check_work(result, setup)
