"""Adaptation that looks ahead, in played time: with a forecast that is right it switches before the rise, with one that
is wrong it is not worse than with averages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import pytest

from scheduler.controllers.changes import Aspect
from scheduler.controllers.evidence import minute_forecasts
from scheduler.controllers.evidence.minute_forecasts import (
    AGAIN_S,
    AHEAD,
    JUDGED_S,
    MinuteForecast,
    MinuteForecasts,
    forecast_minutes,
    judged_course,
)
from scheduler.guards.element_policies import ElementPolicy
from scheduler.history.memory_history import MemoryHistory
from scheduler.history.series import NODE, TASK, Series
from scheduler.model.fragment import node_of
from scheduler.replay import played_world
from scheduler.replay.setup import Replayed

from .test_adapting import STEP_S, adapted, played

DAY_S, DAYS, BEGIN_S, RISE_S = 86_400, 5, 1_700_000_000.0, 1_500.0
LOW, HIGH = 20_000.0, 60_000.0  # the dear way does some 30,000

Course = Callable[[float], float]  # from seconds since the play began to events a second


def rising(later_s: float) -> float:
    """Every day at the same time three times as much for forty minutes."""
    return HIGH if RISE_S <= later_s % DAY_S < RISE_S + 2_400 else LOW


def quiet(later_s: float) -> float:
    """As if it were an ordinary day, on which it does not rise."""
    return LOW if later_s >= 0 else rising(later_s)


def tossed(seed: int) -> Course:
    """Ten minutes each of what nobody can foresee."""
    levels = np.random.default_rng(seed).uniform(5_000, 65_000, 6 * 24 * (DAYS + 1))
    return lambda later_s: float(levels[int((later_s + DAYS * DAY_S) // 600)])


def play(
    course: Course, monkeypatch: pytest.MonkeyPatch, *, foresees: bool = True, steps: int = 100, noise: float = 0.0,
    algorithm: str = "CE", speed: Course = lambda later_s: 1.0,
) -> Replayed:
    """A dataflow of the played worlds, of whose source and cores the days before are kept; or with averages alone."""
    rng = np.random.default_rng(7)

    def at(later_s: float) -> float:
        return course(later_s) * (1 + noise * rng.uniform(-1, 1))

    def with_days_before() -> MemoryHistory:
        history = MemoryHistory()
        for later_s in range(-DAYS * DAY_S, 0, 60):
            history.append(int(BEGIN_S) + later_s, {series: at(later_s)} | {
                Series(NODE, node, "core_speed"): speed(later_s) for node in nodes})
        history.tidy(int(BEGIN_S))
        return history

    estate = adapted(ElementPolicy({}, source="controllers"))
    [submitted] = estate.submitted.values()
    nodes = {node_of(bundle.slot) for fragment in estate.fragments.values() for bundle in fragment.queries}
    series = Series(TASK, submitted.running["s"], "rate_per_s")
    with monkeypatch.context() as patch:
        patch.setattr(played_world, "MemoryHistory", with_days_before)
        if not foresees:
            patch.setattr(MinuteForecasts, "rates", lambda *_: {})
        result, _ = played([at(number * STEP_S) for number in range(steps)], begin_s=BEGIN_S, algorithm=algorithm)
    return result


def switched(result: Replayed) -> list[tuple[str, float]]:
    return [(str(made.change.after), made.at_s - BEGIN_S) for made in result.changes
            if made.change.aspect is Aspect.ALTERNATE]


def dear_part(result: Replayed, steps: int) -> float:
    """In which part of the time the way of most value was on."""
    turns = [("all", 0.0), *switched(result), ("", steps * STEP_S)]
    return sum(after[1] - before[1] for before, after in pairwise(turns)
               if before[0] == "all") / (steps * STEP_S)


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_with_a_forecast_that_is_right_it_switches_before_the_rise(
    noise: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreseen, averaged = (
        play(rising, monkeypatch, foresees=foresees, noise=noise) for foresees in (True, False))
    [(first, at_s), *_] = switched(foreseen)
    assert first == "few" and RISE_S - 60 * (AHEAD + 1) <= at_s <= RISE_S
    assert switched(averaged)[0][0] == "few" and switched(averaged)[0][1] > RISE_S
    assert foreseen.waiting.sum() < averaged.waiting.sum() / 2
    why = foreseen.rounds[0].decision.why
    assert "forecast by season" in why and "s is expected to make" in why


@pytest.mark.parametrize("algorithm", ["local", "WPA", "PLAStiCC"])
def test_those_that_look_ahead_do_so_too(algorithm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    foreseen = play(rising, monkeypatch, steps=60, algorithm=algorithm)
    [(first, at_s), *_] = switched(foreseen)
    assert (first, foreseen.waiting.sum()) == ("few", 0.0) and at_s <= RISE_S


@pytest.mark.parametrize("algorithm", ["CE", "local", "PLAStiCC"])
def test_cores_that_will_be_slower_are_foreseen_from_kept_speeds(
    algorithm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slowing(later_s: float) -> float:
        """Every day at the same time, from a little after the play begins, half as fast for hours."""
        return 0.4 if 120 <= later_s % DAY_S < 20_000 else 1.0

    foreseen = play(lambda later_s: LOW, monkeypatch, steps=30, algorithm=algorithm, speed=slowing)
    assert switched(foreseen)[0][0] == "few"
    assert "of their calibrated speed in the next" in foreseen.rounds[0].decision.why
    assert switched(play(lambda later_s: LOW, monkeypatch, steps=30, algorithm=algorithm)) == []


def test_a_rise_that_does_not_come_costs_minutes_and_nothing_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    foreseen = play(quiet, monkeypatch)
    assert [way for way, _ in switched(foreseen)] == ["few", "all"]
    assert dear_part(foreseen, 100) > 0.5
    assert foreseen.waiting.max() <= play(quiet, monkeypatch, foresees=False).waiting.max() + LOW * STEP_S


def test_what_nobody_can_foresee_is_left_to_averages(monkeypatch: pytest.MonkeyPatch) -> None:
    gains, dear = [], []
    for seed in range(3):
        foreseen, averaged = (
            play(tossed(seed), monkeypatch, foresees=foresees, steps=120) for foresees in (True, False))
        gains.append(averaged.waiting.sum() - foreseen.waiting.sum())
        dear.append(dear_part(foreseen, 120) - dear_part(averaged, 120))
        turns = [turn.decision.why for turn in foreseen.rounds]
        assert all("as in the last minute" in why for why in turns), turns
    assert sum(gains) >= 0 and sum(dear) >= -0.05 * len(dear)


def minutes(course: Course) -> list[float]:
    return [course(later_s) for later_s in range(-DAYS * DAY_S, 0, 60)]


def forecast(samples: Sequence[float]) -> MinuteForecast:
    return forecast_minutes(samples, judged_course(samples), begin_s=0.0)


@pytest.mark.parametrize(("samples", "why"), [
    ([5.0], "Too little is known"), ([100.0] * 500, "less wrong"),
    (np.random.default_rng(1).choice([0.0, 1e5], 3_000).tolist(), "wrong")])
def test_where_a_forecast_is_no_good_it_is_said_why_there_is_none(samples: list[float], why: str) -> None:
    made = forecast(samples)
    assert made.values == () == made.ahead(0.0) and why in made.why_averages


def test_a_forecast_stands_between_what_was_seen_and_what_its_method_says() -> None:
    made = forecast(minutes(lambda later_s: rising(later_s + RISE_S - 120)))
    assert made.method == "season" and made.why_averages == ""
    assert all(LOW - 1 <= value <= HIGH + 1 for value in made.values)
    assert made.values[-1] > 0.9 * HIGH and 0 <= made.error < 0.3
    assert len(made.values) == AHEAD + AGAIN_S / 60
    assert made.ahead(90.0) == made.values[1:1 + AHEAD]
    assert made.ahead(1e6) == made.values[-1:] * AHEAD


def test_forecasts_are_made_again_after_minutes_and_not_before(monkeypatch: pytest.MonkeyPatch) -> None:
    history, forecasts, judged = MemoryHistory(), MinuteForecasts(), []
    for at_s in range(0, 3_600, 10):
        history.append(at_s, {Series(TASK, "s", "rate_per_s"): 100.0 + at_s})
    monkeypatch.setattr(
        minute_forecasts, "judged_course", lambda minutes: judged.append(len(minutes)) or judged_course(minutes))

    def made_at(later_s: float) -> MinuteForecast:
        [(name, made)] = forecasts.rates(history, ["s", "unknown"], 3_600.0 + later_s).items()
        assert name == "s"
        return made

    first = made_at(0)
    assert made_at(30) is first is made_at(AGAIN_S - 1)
    assert made_at(AGAIN_S) is not first
    assert made_at(JUDGED_S - 1) and judged == [60], "how wrong methods are is not worked out each time"
    assert made_at(JUDGED_S + AGAIN_S) and len(judged) == 2
