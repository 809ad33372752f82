"""Models as plain numbers: what is written says what scikit-learn says, and what is no model is refused."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from workers.library.learning import fitted
from workers.library.models import (
    CLASSIFIER,
    CLASSIFIERS,
    KINDS,
    LINEAR,
    NETWORK,
    REGRESSOR,
    UnreadableModel,
    apply,
    as_float32,
    read_model,
    write_model,
)


def events(count: int, seed: int = 0) -> tuple[list[list[float]], list[float], list[str]]:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(count, 3)).round(3)
    numbers = 2.0 + rows @ [1.5, -2.0, 0.25] + rng.normal(size=count) / 10
    classes = np.where(rows[:, 0] > 0.5, "high", np.where(rows[:, 1] > 0, "middle", "low"))
    return rows.tolist(), numbers.tolist(), classes.tolist()


def model_of(kind: str, rows, targets, **options) -> dict:
    parameters = fitted(kind, rows, targets, depth=options.get("depth", 6), leaf=options.get("leaf", 2))
    return {"kind": kind, "features": ["a", "b", "c"], "version": "1-0000000000", **parameters}


def references() -> dict:
    """scikit-learn's own, by kind. Only who runs these tests imports it, not each process that collects all."""
    from sklearn.linear_model import LinearRegression
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

    return {
        LINEAR: LinearRegression(), CLASSIFIER: DecisionTreeClassifier(max_depth=6, min_samples_leaf=2, random_state=0),
        REGRESSOR: DecisionTreeRegressor(max_depth=6, min_samples_leaf=2, random_state=0),
        NETWORK: make_pipeline(StandardScaler(), MLPClassifier((70,), max_iter=100, random_state=0))}


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_says_what_scikit_learn_says(kind):
    rows, numbers, classes = events(400)
    targets = classes if kind in CLASSIFIERS else numbers
    reference = references()[kind].fit(rows, targets)
    model = read_model(write_model(model_of(kind, rows, targets)))
    rows_to_predict, _, _ = events(500, seed=1)
    expected = reference.predict(rows_to_predict).tolist()
    predicted = [apply(model, row) for row in rows_to_predict]
    assert predicted == expected if kind in CLASSIFIERS else predicted == pytest.approx(expected)
    assert len(set(predicted)) > 2


def test_a_number_on_the_border_goes_where_scikit_learn_sends_it():
    """Its trees see numbers of single precision: 0.1 is a bit larger there than in double."""
    from sklearn.tree import DecisionTreeRegressor

    rows, targets = [[0.1], [0.1 + 2e-9], [0.3]], [1.0, 2.0, 3.0]
    reference = DecisionTreeRegressor(random_state=0).fit(rows, targets)
    model = {"kind": REGRESSOR, "features": ["a"], "version": "1", **fitted(REGRESSOR, rows, targets, depth=5, leaf=1)}
    border = [[bound + nudge] for bound in model["threshold"] for nudge in (0.0, 1e-9, -1e-9, 1e-8, -1e-8)]
    inputs = [*rows, *border, [1e300], [-1e300]]
    predicted = [apply(model, row) for row in inputs]
    finite = [row for row in inputs if abs(row[0]) < 1e38]
    assert predicted[:len(finite)] == reference.predict(finite).tolist()


@given(st.floats(allow_nan=False))
def test_single_precision_is_numpys(value):
    with np.errstate(over="ignore"):
        assert as_float32(value) == float(np.float32(value))


@example([(0.0, 0.0), (5e-324, 1.0)])  # a slope beyond all numbers
@given(st.lists(st.tuples(st.floats(-1e3, 1e3), st.floats(-1e3, 1e3)), min_size=2, max_size=40))
def test_any_events_give_a_model_that_can_be_read(pairs):
    for kind in KINDS:
        targets = [str(target > 0) if kind in CLASSIFIERS else target for _, target in pairs]
        parameters = fitted(kind, [[value] for value, _ in pairs], targets, depth=12, leaf=1, neurons=3)
        model = read_model(write_model({"kind": kind, "features": ["a"], "version": "1", **parameters}))
        for value, _ in pairs:
            apply(model, [value])


@pytest.mark.parametrize("classes", [["a", "b"], ["a"]])
def test_a_network_of_one_class_or_two_says_what_scikit_learn_says(classes):
    """scikit-learn has one output for two classes, and refuses to learn one."""
    rows, numbers, _ = events(200)
    targets = [classes[int(number > 2) % len(classes)] for number in numbers]
    model = read_model(write_model(model_of(NETWORK, rows, targets)))
    expected = references()[NETWORK].fit(rows, targets).predict(rows).tolist() if len(classes) > 1 else targets
    assert [apply(model, row) for row in rows] == expected and set(expected) == set(classes)


@pytest.mark.parametrize("far", [1e300, 1.7e308])
def test_numbers_beyond_all_squares_give_a_network_all_the_same(far):
    rows, targets = [[far], [-far], [1.0], [2.0]] * 5, ["a", "b", "a", "b"] * 5
    model = read_model(write_model({"kind": NETWORK, "features": ["a"], "version": "1", **fitted(
        NETWORK, rows, targets, depth=1, leaf=1, neurons=5)}))
    assert {apply(model, row) for row in rows} <= {"a", "b"}


@functools.cache
def models() -> tuple[dict, dict, dict]:
    """A tree, a line and a network. Only who runs these tests fits them, not each process that collects all."""
    rows, numbers, classes = events(60)
    return model_of(CLASSIFIER, rows, classes), model_of(LINEAR, rows, numbers), model_of(NETWORK, rows, classes)


def altered() -> Iterator[tuple[dict, dict]]:
    """A model, and what makes it none."""
    tree, line, net = models()
    for change in (
        {"kind": "pickle"}, {"features": []}, {"features": ["a", "a", "b"]}, {"version": 3},
        {"left": [0] * len(tree["left"])},  # a walk that would never end
        {"right": [10_000] * len(tree["right"])}, {"feature": [7] * len(tree["feature"])},
        {"value": [99] * len(tree["value"])}, {"classes": [1, 2]}, {"threshold": ["x"]},
        {"feature": [], "left": [], "right": [], "threshold": [], "value": []},
        {"left": [True] * len(tree["left"])}, {"left": [1.0] * len(tree["left"])}, {"classes": ["\ud800", "b"]},
    ):
        yield tree, change
    for change in (
        {"coefficients": [1.0]}, {"intercept": None}, {"intercept": float("nan")},
        {"coefficients": [1, 2, float("inf")]}, {"intercept": 10**400},
        {"coefficients": [-(10**309)] * len(line["coefficients"])},
        {"version": "\udfff"}, {"features": ["\ud800", *line["features"][1:]]},
    ):
        yield line, change
    for change in (
        {"classes": []}, {"hidden": []}, {"hidden": [[1.0]] * 70}, {"output": "x"},
        {"output": net["output"][1:]}, {"scale": [0.0] * 3}, {"mean": [0.0]},
        {"hidden": [[1.0] * 4] * 501, "output": [[1.0] * 502] * len(net["output"])},
    ):
        yield net, change


def is_read(model: dict) -> bool:
    try:
        return bool(read_model(json.dumps(model)))
    except UnreadableModel:
        return False


def test_what_is_no_model_is_refused():
    assert all(is_read(model) for model in models())
    assert [(model["kind"], change) for model, change in altered() if is_read({**model, **change})] == []


@pytest.mark.parametrize("text", ["", "none", "[]", "3", "[" * 100_000, '{"kind": "linear_regression"}',
                                  " " * 1_000_001])
def test_text_that_is_no_model_is_refused(text):
    with pytest.raises(UnreadableModel):
        read_model(text)
