"""Algorithms side by side: the same load and machines for each, and what is told of each is what it came to."""

from __future__ import annotations

import numpy as np
import pytest

from scheduler.adaptation.side_by_side import LOADS, OFFERED, SimulationSetup, simulated, world_of
from scheduler.simulation.problem import HOUR_S

from .elastic_cases import QUICK, SMALL, generator
from .test_adaptations import LINE

RECORDED = {"a": [20.0 + 10.0 * np.sin(at / 9) for at in range(60)]}


def play(setup: SimulationSetup, name: str, **options: object):
    """One algorithm by a setup."""
    world = world_of(setup, LINE, (SMALL, QUICK), RECORDED, generator(setup.seed))
    return world, simulated(setup, world, name, rng=generator(setup.seed), **options)


@pytest.mark.parametrize("name", OFFERED)
def test_what_is_told_adds_up(name: str) -> None:
    setup = SimulationSetup((name,), hours=2)
    world, played = play(setup, name)
    outcome = played.outcome
    assert len(played.values) == len(played.reached) == len(played.costs) == len(played.cores) == setup.steps
    assert outcome.value == pytest.approx(np.mean(played.values))
    assert outcome.throughput == pytest.approx(np.mean(played.reached))
    assert outcome.cost == played.costs[-1] and list(played.costs) == sorted(played.costs)
    assert played.profits[-1] == pytest.approx(outcome.shown_profit)
    assert played.changes >= len(played.decisions)
    assert all(0 < made.at_s < 2 * HOUR_S for made in played.decisions)
    for made in played.decisions:
        assert made.cores == played.cores[round(made.at_s / 300)]
    assert play(setup, name)[1] == played, "the same seed makes the same again"
    assert world.problem.goal.at_most_value == 2 * world.problem.goal.at_least_value


@pytest.mark.parametrize("load", LOADS)
def test_each_load_has_the_recorded_mean_and_all_algorithms_meet_the_same(load: str) -> None:
    setup = SimulationSetup(("CE", "local"), load=load, hours=3, times=2.0)
    first, again = (world_of(setup, LINE, (SMALL,), RECORDED, generator(1)) for _ in range(2))
    assert first.rates_per_s["a"].tolist() == again.rates_per_s["a"].tolist()
    assert [speeds.tolist() for speeds in first.speeds] == [speeds.tolist() for speeds in again.speeds]
    mean = 2 * np.mean(RECORDED["a"])
    if load == "recorded":
        assert first.rates_per_s["a"] == pytest.approx(2 * np.array(RECORDED["a"][-36:]))
        assert first.before_per_s["a"] == pytest.approx(2 * np.array(RECORDED["a"][:-36]))
    elif load == "sinusoid":
        assert 0 < first.rates_per_s["a"].max() <= 1.2 * 1.95 * mean
    else:
        assert (np.abs(first.rates_per_s["a"] - mean) <= 0.5 * mean + 1e-9).all()


def test_machines_are_as_quick_as_nodes_were_at_that_time() -> None:
    """Whatever is drawn, each machine has a node's speed of that very step; a short record comes again."""
    setup = SimulationSetup(("CE",), hours=2, machines="recorded")
    slow_at_noon, short = [1.0] * 30 + [0.5] * 12 + [1.0] * 12, [0.9, 0.8]
    world = world_of(setup, LINE, (SMALL,), RECORDED, generator(1), speeds=[slow_at_noon, short])
    assert [speeds.tolist() for speeds in world.speeds] == [slow_at_noon[-24:], short * 12]
    steady, slow = (simulated(setup, world_of(
        setup, LINE, (SMALL,), RECORDED, generator(1), speeds=[speeds]), "CE", rng=generator(1))
        for speeds in ([1.0], slow_at_noon))
    assert steady.reached[:12] != slow.reached[:12] or steady.cores[:12] != slow.cores[:12]
    assert slow.outcome.cost > steady.outcome.cost, "slow cores take more of them"
    with pytest.raises(ValueError, match="no speeds"):
        world_of(setup, LINE, (SMALL,), RECORDED, generator(1))


def test_it_ends_where_who_watches_says_so() -> None:
    seen: list[int] = []

    def on_step(step: int) -> None:
        seen.append(step)
        if step == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        play(SimulationSetup(("CE",), hours=1), "CE", on_step=on_step)
    assert seen == [0, 1, 2, 3, 4]


def test_forecasts_that_are_learned_say_how_wrong_they_were() -> None:
    forecast = play(SimulationSetup(("WPA",), hours=2), "WPA")[1].forecast
    assert len(forecast) == 1 and forecast[0].startswith("a: ") and "wrong by" in forecast[0]
    assert play(SimulationSetup(("CE",), hours=1), "CE")[1].forecast == ()


@pytest.mark.parametrize("wrong", [
    {"algorithms": ()}, {"algorithms": ("GA",)}, {"algorithms": ("CE", "CE")}, {"hours": 0}, {"hours": 49},
    {"times": 0.0}, {"times": float("nan")}, {"load": "none"}, {"least": 0.0}, {"error": 3.0}, {"seed": -1},
    {"machines": "quick"}, {"billing": "years"}, {"forecast": "none"}])
def test_what_makes_no_sense_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"."):
        SimulationSetup(**({"algorithms": ("CE",)} | wrong))
