"""The sequential algorithms against references that are written another way."""

from __future__ import annotations

import json
import random
from collections import Counter
from statistics import fmean

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from workers.library.folds import (
    Accumulate,
    BlockAverage,
    Interpolate,
    JoinByMessage,
    KalmanFilter,
    SecondOrderMoment,
    SlidingLinearRegression,
)
from workers.library.state import fold_rows

values = st.floats(-1e4, 1e4).map(lambda value: round(value, 3))
readings = st.lists(st.none() | values, max_size=60)
close = {"rel": 1e-6, "abs": 1e-6}


def run(fold, inputs):
    """The outputs of one key, a list for each input; an input is a value or a tuple of values."""
    state = fold.start()
    return [list(fold.step(state, *(values if isinstance(values, tuple) else (values,)))) for values in inputs]


@given(readings, st.floats(0.01, 10), st.floats(0.01, 10), st.floats(0.01, 100))
def test_kalman_filter_is_the_bayesian_update_of_a_random_walk(inputs, process, sensor, first):
    outputs = run(KalmanFilter(process, sensor, first), inputs)

    mean, variance, begun = 0.0, first, False
    for reading, output in zip(inputs, outputs, strict=True):
        begun = begun or reading is not None
        if not begun:
            assert output == [(None, None)]
            continue
        variance += process
        if reading is not None:  # precisions add up; the mean is weighted by them
            precision = 1 / variance + 1 / sensor
            mean, variance = (mean / variance + reading / sensor) / precision, 1 / precision
        [(estimate, measured)] = output
        assert estimate == pytest.approx(mean, **close)
        assert measured == reading


def test_kalman_filter_settles_near_the_true_value():
    chance = random.Random(4)
    noisy = [20 + chance.gauss(0, 0.5) for _ in range(400)]
    estimates = [output[0][0] for output in run(KalmanFilter(0.001, 0.25, 30), noisy)]
    assert np.std(estimates[100:]) < np.std(noisy[100:]) / 3
    assert fmean(estimates[100:]) == pytest.approx(20, abs=0.1)


@given(readings, st.integers(1, 12))
def test_block_average(inputs, window):
    outputs = [output for outputs in run(BlockAverage(window), inputs) for output in outputs]
    present = [reading for reading in inputs if reading is not None]
    blocks = [present[start:start + window] for start in range(0, len(present) - window + 1, window)]
    assert [count for _, count in outputs] == [window] * len(blocks)
    assert [mean for mean, _ in outputs] == pytest.approx([fmean(block) for block in blocks], **close)


@given(readings, st.integers(1, 12))
def test_accumulate(inputs, window):
    timed = [(reading, 100 * place) for place, reading in enumerate(inputs)]
    outputs = [output for outputs in run(Accumulate(window), timed) for output in outputs]
    present = [pair for pair in timed if pair[0] is not None]
    blocks = [present[start:start + window] for start in range(0, len(present) - window + 1, window)]
    assert outputs == [tuple(map(list, zip(*block, strict=True))) for block in blocks]


@given(st.lists(st.none() | st.integers(-3, 3).map(float), max_size=40))
def test_second_order_moment_is_exact_while_every_position_is_followed(inputs):
    outputs = run(SecondOrderMoment(variables=40, decimals=0, seed=1), inputs)
    seen: Counter = Counter()
    for reading, output in zip(inputs, outputs, strict=True):
        if reading is None:
            assert output == []
            continue
        seen[reading] += 1
        [(moment, count)] = output
        assert count == seen.total()
        assert moment == pytest.approx(sum(times**2 for times in seen.values()))


def test_second_order_moment_is_unbiased_in_bounded_memory():
    chance = random.Random(2)
    inputs = [float(min(9, int(chance.expovariate(0.4)))) for _ in range(300)]
    truth = sum(times**2 for times in Counter(inputs).values())
    finals = []
    for seed in range(300):
        fold = SecondOrderMoment(variables=10, decimals=0, seed=seed)
        state = fold.start()
        for reading in inputs:
            [(moment, _)] = fold.step(state, reading)
        assert len(state[1]) == 10
        finals.append(moment)
    assert fmean(finals) == pytest.approx(truth, rel=0.05)


@given(readings, st.integers(1, 6), st.sampled_from(["mean", "linear"]))
def test_interpolate(inputs, window, method):
    timed = [(reading, 1_000 * place, "t") for place, reading in enumerate(inputs)]
    outputs = run(Interpolate(window, method), timed)
    for place, (reading, [(value, filled)]) in enumerate(zip(inputs, outputs, strict=True)):
        before = [(1_000 * at, old) for at, old in enumerate(inputs[:place]) if old is not None][-window:]
        if reading is not None or not before:
            assert (value, filled) == (reading, False)
            continue
        assert filled
        if method == "mean" or len(before) == 1:
            expected = fmean(old for _, old in before)
        else:
            expected = np.polynomial.Polynomial.fit(*zip(*before, strict=True), deg=1)(1_000 * place)
        assert value == pytest.approx(expected, rel=1e-6, abs=1e-3)


def test_interpolate_leaves_other_observations_alone():
    fold = Interpolate(3, "mean", frozenset({"t"}))
    state = fold.start()
    assert list(fold.step(state, 4.0, 0, "other")) == [(4.0, False)]
    assert list(fold.step(state, None, 1, "other")) == [(None, False)]
    assert list(fold.step(state, 6.0, 2, "t")) == [(6.0, False)]
    assert list(fold.step(state, None, 3, "t")) == [(6.0, True)]


@given(readings, st.integers(2, 8), st.integers(1, 4), st.integers(1, 5))
def test_sliding_linear_regression(inputs, train, predict, every):
    outputs = run(SlidingLinearRegression(train, predict, every), inputs)
    present: list[float] = []
    for reading, output in zip(inputs, outputs, strict=True):
        if reading is not None:
            present.append(reading)
        ripe = reading is not None and len(present) >= train and (len(present) - train) % every == 0
        if not ripe:
            assert output == []
            continue
        slope, intercept = np.polyfit(range(train), present[-train:], 1)
        assert [ahead for _, ahead in output] == list(range(1, predict + 1))
        expected = [intercept + slope * (train - 1 + ahead) for ahead in range(1, predict + 1)]
        assert [value for value, _ in output] == pytest.approx(expected, rel=1e-6, abs=1e-4)


def test_sliding_linear_regression_continues_a_line():
    outputs = run(SlidingLinearRegression(3, 2, 1), [float(3 * n + 1) for n in range(6)])
    assert outputs[-1] == [(pytest.approx(19), 1), (pytest.approx(22), 2)]


@given(st.data(), st.integers(1, 5), st.integers(1, 4))
def test_join_puts_messages_together_whatever_the_order(data, messages, open_messages):
    """Observations of up to ``open_messages`` messages may be mixed; every message comes out once and whole."""
    fields = ("a", "b", "c")
    inputs, waiting = [], [(f"m{number}", list(fields)) for number in range(messages)]
    while waiting:
        message, left = data.draw(st.sampled_from(waiting[:open_messages]))
        name = left.pop(data.draw(st.integers(0, len(left) - 1)))
        inputs.append((message, name, float(len(inputs)), len(inputs)))
        waiting = [pair for pair in waiting if pair[1]]
    outputs = [out for outputs in run(JoinByMessage(fields, open_messages, True), inputs) for out in outputs]

    expected = {}
    for message, name, value, at in inputs:
        expected.setdefault(message, {})[name] = value
        expected[message]["last"] = at
    rows = [(held["last"], *(held[name] for name in fields)) for held in expected.values()]
    assert sorted(outputs) == sorted(rows)
    assert outputs == sorted(outputs)


@pytest.mark.parametrize("keep", [True, False])
def test_join_gives_up_on_the_oldest_message(keep):
    fold = JoinByMessage(("a", "b"), 1, keep)
    outputs = run(fold, [("m1", "a", 1.0, 0), ("m1", "ignored", 5.0, 1), ("m2", "a", 2.0, 2), ("m2", "b", None, 3)])
    assert outputs == [[], [], [(0, 1.0, None)] if keep else [], [(3, 2.0, None)]]


@given(st.lists(st.tuples(st.sampled_from("xyz"), st.none() | values), max_size=50), st.integers(0, 50))
def test_keys_do_not_disturb_each_other_and_batches_do_not_matter(rows, cut):
    fold = BlockAverage(3)

    def batch(states, part):
        columns = {"_key": [key for key, _ in part], "value": [value for _, value in part]}
        return fold_rows(fold, states, columns, reads=["value"], kept=["_key"])

    states: dict = {}
    outputs = batch(states, rows[:cut]) + batch(states, rows[cut:])
    for key in "xyz":
        alone = [out for outputs in run(fold, [value for name, value in rows if name == key]) for out in outputs]
        assert [(mean, count) for name, mean, count in outputs if name == key] == alone


@given(readings)
def test_states_survive_json(inputs):
    """A checkpoint holds states as JSON: a fold that goes on from there does as if nothing had happened."""


    assume(inputs)
    for fold in (KalmanFilter(0.1, 0.3, 30), BlockAverage(3), SecondOrderMoment(3, 1, 7),
                 SlidingLinearRegression(3, 1, 1)):
        straight, state = run(fold, inputs), fold.start()
        for reading, expected in zip(inputs, straight, strict=True):
            assert list(fold.step(state, reading)) == expected
            state = json.loads(json.dumps(state))
