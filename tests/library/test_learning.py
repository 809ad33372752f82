"""Learning and predicting as folds: what a model is learned from, when, and which one an event is predicted by."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workers.library.learning import NO_MODEL, ErrorEstimator, Learner, Predictor, fitted
from workers.library.models import CLASSIFIER, LINEAR, NETWORK, apply, read_model

BASE = {"kind": LINEAR, "features": ("x",), "target": "y", "window": 4, "span": 0, "every": 4, "period": 0, "depth": 3,
        "leaf": 1}


def run(fold, steps, *, state=None):
    """What a fold gives, its state written and read between any two events as Spark may."""
    state, out = fold.start() if state is None else state, []
    for step in steps:
        out += fold.step(state, *step)
        state = json.loads(json.dumps(state))
    return out


def readings(count, *, gap_ms=100):
    return [(number, number * gap_ms, number * gap_ms + 7, 3.0 * number + 1.0, float(number))
            for number in range(count)]


def test_a_model_is_learned_from_each_window():
    out = run(Learner(**BASE), readings(12))
    assert [(row[0], row[1], row[2]) for row in out] == [(3, 300, 307), (7, 700, 707), (11, 1100, 1107)]
    assert [row[5] for row in out] == [1, 2, 3] and {row[6] for row in out} == {4}
    for row in out:
        model = read_model(row[3])
        assert apply(model, [100.0]) == pytest.approx(301.0)
        assert model["version"] == row[4] and row[4].startswith(f"{row[5]}-") and row[7] == pytest.approx(1.0)


def test_windows_overlap_where_it_learns_more_often():
    out = run(Learner(**{**BASE, "every": 2}), readings(8))
    assert [(row[0], row[6]) for row in out] == [(1, 2), (3, 4), (5, 4), (7, 4)]


def test_time_decides_where_a_period_is_given():
    """A model is of what came before the time that was come to, and says so by its last event."""
    learner = Learner(**{**BASE, "every": 0, "period": 500, "window": 100})
    out = run(learner, readings(12))
    assert [(row[0], row[6]) for row in out] == [(4, 5), (9, 10)]
    assert run(learner, [(0, 0, 0, 1.0, 1.0), (1, 100_000, 100_000, 2.0, 2.0)])[0][6] == 1
    ahead = [(0, 0, 0, 1.0, 1.0), (1, 10**9, 400, 2.0, 2.0), (2, 600, 600, 3.0, 3.0), (3, 1_100, 1_100, 4.0, 4.0)]
    assert [row[6] for row in run(learner, ahead)] == [2, 3], "an event of the future puts nothing off"
    assert run(learner, [(0, 0, 0, None, 1.0), (1, 100_000, 0, 2.0, 2.0)]) == []


def test_what_is_older_than_the_span_teaches_nothing():
    out = run(Learner(**{**BASE, "window": 100, "every": 6, "span": 250}), readings(12))
    assert [row[6] for row in out] == [3, 3]


def test_an_event_without_its_target_or_a_feature_teaches_nothing():
    gone = [(0, 0, 0, None, 1.0), (0, 0, 0, 1.0, None), (0, 0, 0, float("inf"), 1.0)]
    assert run(Learner(**BASE), [*gone, *readings(4)]) == run(Learner(**BASE), readings(4))


@pytest.mark.parametrize("kind", [CLASSIFIER, NETWORK])
def test_a_classifier_learns_texts(kind):
    rows = [(number, number, number, "day" if number % 10 > 4 else "night", float(number % 10)) for number in range(40)]
    learner = Learner(**{**BASE, "kind": kind, "window": 40, "every": 40})
    [row] = run(learner, rows)
    assert run(learner, rows) == [row], "the same events, the same model"
    assert [apply(read_model(row[3]), [float(value)]) for value in (0, 9)] == ["night", "day"] and row[7] == 1.0


@settings(max_examples=25)
@given(st.integers(1, 11))
def test_cutting_the_events_changes_nothing(cut):
    learner, state = Learner(**{**BASE, "every": 3}), None
    whole = run(learner, readings(12))
    state = learner.start()
    assert run(learner, readings(12)[:cut], state=state) is not None
    pieces, again = [], learner.start()
    for part in (readings(12)[:cut], readings(12)[cut:]):
        for step in part:
            pieces += learner.step(again, *step)
        again = json.loads(json.dumps(again))
    assert pieces == whole and len(whole) == 4


def model(version: str, slope: float, *, kind: str = LINEAR, **more) -> str:
    return json.dumps({"kind": kind, "features": ["x"], "intercept": 0.0, "coefficients": [slope], "version": version,
                       **more})


def test_an_event_is_predicted_by_the_newest_model_before_it():
    steps = [(None, 1.0), (model("1", 2.0), None), (None, 1.0), (None, None), (model("2", 3.0), None), (None, 1.0)]
    assert run(Predictor(LINEAR, ("x",)), steps) == [
        (None, None, NO_MODEL), (2.0, "1", None), (None, "1", "x is missing"), (3.0, "2", None)]
    assert run(Predictor(LINEAR, ("x",), drops=True), steps) == [(2.0, "1", None), (3.0, "2", None)]


def test_models_of_others_are_left_to_them():
    tree = json.dumps({"kind": CLASSIFIER, "features": ["x"], "version": "9", "classes": ["a"], **fitted(
        CLASSIFIER, [[1.0]], ["a"], depth=1, leaf=1)})
    steps = [(model("1", 2.0, name="fares"), None), (tree, None), (model("2", 9.0, name="tips"), None), (None, 1.0)]
    assert run(Predictor(LINEAR, ("x",), name="fares"), steps) == [(2.0, "1", None)]


def test_a_model_that_cannot_be_read_is_told_and_leaves_the_one_before():
    steps = [(model("1", 2.0), None), ("{", None), (None, 1.0), (model("2", 3.0), None), (None, 1.0)]
    first, second = run(Predictor(LINEAR, ("x",)), steps)
    assert first[:2] == (2.0, "1") and "no JSON" in first[2] and second == (3.0, "2", None)


def test_a_feature_that_the_task_does_not_read_is_told():
    [row] = run(Predictor(LINEAR, ("z",)), [(model("1", 2.0), None), (None, 1.0)])
    assert row[0] is None and row[2].startswith("the model reads x")


def test_errors_are_shares_of_the_newest_average():
    steps = [(None, 8.0, 10.0), (20.0, None, None), (None, 8.0, 10.0), (None, 16.0, 10.0), (None, None, 10.0),
             (0.0, None, None), (None, 8.0, 10.0)]
    assert run(ErrorEstimator(2), steps) == [
        (10.0, 8.0, None, 2.0, None, 2.0), (10.0, 8.0, 20.0, 2.0, 0.1, 2.0), (10.0, 16.0, 20.0, -6.0, -0.3, 4.0),
        (10.0, 8.0, 0.0, 2.0, None, 4.0)]
