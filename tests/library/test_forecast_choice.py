"""The learned choice of a forecast: which one it takes, when it asks again, and that it is worth having."""

from __future__ import annotations

import json
from functools import cache

import numpy as np
import pytest

from scheduler.model.task_types import DYNAMIC_FOLD
from tests.benches.choice_learning import best_of, learn_choice
from workers.library.forecast_choice import ForecastChoice, features_of, shipped_choice
from workers.library.forecasts import METHODS, LoadHistory, error_of, forecast, variances
from workers.library.learning import NEURONS
from workers.library.models import apply, read_model, write_model
from workers.library.registry import check, task_types

NAMES = ("casce", "sliding_hour", "sliding_days")
STEPS, WIDTH, DAYS = 12, 288, 15


@cache
def household(seed: int, hours: int = 120) -> tuple[list[list[float]], list[dict[str, float]]]:
    """A household that keeps to its habits, is away, or has visitors, a few hours each: what the network reads of each
    hour, and each method's error in it. Not made as the source makes them."""
    rng = np.random.default_rng(seed)
    habit = 1 + 0.8 * np.sin((np.arange(WIDTH) / WIDTH + rng.uniform(0, 0.1)) * 2 * np.pi)
    days = habit * rng.normal(1, 0.03, size=(DAYS, WIDTH))
    features, errors = [], []
    mood, load = "usual", np.empty(0)
    for hour in range(hours):
        if hour % 6 == 0:
            mood = str(rng.choice(["usual", "away", "visitors"]))
        place = hour % 24 * STEPS
        here = habit[place:place + STEPS]
        load = np.concatenate([load, {
            "usual": here * rng.normal(1, 0.02, STEPS), "away": 0.2 * rng.normal(1, 0.002, STEPS),
            "visitors": 2.5 * here * rng.normal(1, 0.35, STEPS).clip(0.2)}[mood]])
    for hour in range(6, hours):
        place, whole = hour % 24 * STEPS, load[:hour * STEPS]
        history = LoadHistory(days, np.zeros(DAYS, dtype=bool), whole[len(whole) - place:], False, STEPS)
        actual = load[hour * STEPS:(hour + 1) * STEPS]
        if place < 4 * STEPS:  # the days before are no part of what came: nothing is known of these hours
            continue
        features.append(features_of(variances(history)))
        errors.append({name: error_of(actual, forecast(name, history, None)) for name in NAMES})
    return features, errors


@cache
def learned() -> dict:
    rows, best = [], []
    for seed in range(12):
        features, errors = household(seed)
        rows += features
        best += [best_of(hour) for hour in errors]
    return learn_choice(rows, best, name="demand", neurons=70)


def test_it_is_much_better_than_chance_and_never_worse_than_the_worst():
    """Households that it has not seen: mean errors of the ways to choose."""
    choice = ForecastChoice(learned(), bound=0.05)
    rng = np.random.default_rng(0)
    of_choice, of_chance, of_oracle, fixed = [], [], [], {name: [] for name in NAMES}
    for seed in range(100, 106):
        features, errors = household(seed)
        state, before = choice.start(), None
        for row, hour in zip(features, errors, strict=True):
            [(name, _)] = choice.step(state, [float(np.exp(value)) for value in row], before)
            before = hour[name]
            of_choice.append(before)
            of_chance.append(hour[str(rng.choice(NAMES))])
            of_oracle.append(hour[best_of(hour)])
            for way in NAMES:
                fixed[way].append(hour[way])
    chosen, chance, oracle = (float(np.mean(values)) for values in (of_choice, of_chance, of_oracle))
    worst, best = (pick(float(np.mean(values)) for values in fixed.values()) for pick in (max, min))
    assert oracle < chosen < worst
    assert chosen < 0.75 * chance, "by a wide margin"
    assert chosen <= 1.05 * best, "no method alone would have done"


def test_the_model_is_one_that_teams_keep():
    model = learned()
    assert read_model(write_model(model)) == model
    assert (model["kind"], len(model["hidden"]), model["name"]) == ("neural_network_classifier", 70, "demand")
    assert set(model["classes"]) <= set(METHODS) and model["version"].startswith("1-")


def choices(hours: list[tuple], *, bound: float) -> list[tuple[str, bool]]:
    """What is chosen; the state is written and read between any two hours."""
    choice, out = ForecastChoice(learned(), bound), []
    state = choice.start()
    for hour in hours:
        out += choice.step(state, *hour)
        state = json.loads(json.dumps(state))
    return out


def test_the_network_is_asked_where_the_error_is_beyond_the_bound():
    still, moved = [1e-6] * 5, [0.12] * 5
    away, busy = (choices([(variances_, None)], bound=0.1)[0][0] for variances_ in (still, moved))
    assert away == "sliding_hour" != busy
    out = choices([(still, None), (moved, 0.05), (moved, 0.1), (moved, 0.11), (still, 0.02), (still, None)], bound=0.1)
    assert out == [(away, True), (away, False), (away, False), (busy, True), (busy, False), (away, True)]
    assert [was_asked for _, was_asked in choices([(still, 0.01)] * 3, bound=0.0)] == [True] * 3


def test_the_oracle_takes_the_least_error():
    assert best_of({"a": 0.2, "b": 0.1, "c": 0.1, "d": None}) == "b"
    assert best_of({"a": None}) is None


@pytest.mark.parametrize("values", [[None] * 5, [0.0, 1e-12, None, 1e9, 3.0]])
def test_any_variances_can_be_read(values):
    assert np.isfinite(features_of(values)).all()
    assert choices([(values, None)], bound=0.1)[0][0] in NAMES


def test_the_network_that_comes_along_knows_every_method_and_chooses_by_the_hour() -> None:
    model = shipped_choice()
    assert model["classes"] == sorted(METHODS) and len(model["hidden"]) == NEURONS
    shares = (0.0, 0.0003, 0.003, 0.03, 0.3)
    ways = {apply(model, features_of([quarter] * 4 + [whole])) for quarter in shares for whole in shares}
    assert len(ways) > 1, "an hour that rises steadily is another than one that jumps"


def test_a_learned_guard_chooses_among_forecasts_alone() -> None:
    ways = [{"name": name, "type": "forecast", "config": {"by": ["meter"], "method": name}} for name in METHODS]
    config = {"alternates": ways, "begin": "shared", "by": ["meter"], "learned": {}}
    assert check(task_types()[DYNAMIC_FOLD], config) is None
    other = {**config, "alternates": [ways[0], {"name": "mean", "type": "block_average", "config": {}}]}
    problem = check(task_types()[DYNAMIC_FOLD], other)
    assert problem is not None and "block_average" in problem.message and problem.facts["alternate"] == "mean"
    assert check(task_types()[DYNAMIC_FOLD], {**other, "learned": None}) is None
