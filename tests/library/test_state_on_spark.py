"""Stateful tasks on Spark: what comes out does not depend on the batches, nor on a restart."""

from __future__ import annotations

import pytest

from workers.library.forecasting import HourlyForecast

from .conftest import START_MS, build

pytestmark = pytest.mark.spark
OBSERVATIONS = ("_seq bigint, _time bigint, _born bigint, msg_id string, sensor_id string, obs string, meta string, "
                "value double")
NAMES = ("temperature", "humidity")


def readings(count: int) -> list[tuple]:
    """Messages of three sensors in turn, an observation a row; every seventh reading is missing."""
    rows = []
    for seq in range(count):
        for turn, name in enumerate(NAMES):
            value = None if (seq * 2 + turn) % 7 == 3 else (seq * 37 % 101) / 4 + turn
            time_ms = START_MS + seq * 100
            rows.append((seq, time_ms, time_ms, f"m{seq}", f"s{seq % 3}", name, '{"at":"here"}', value))
    return rows


CONFIGS = {
    "kalman_filter": {},
    "block_average": {"window": 4},
    "second_order_moment": {"variables": 3, "by": ["obs"]},
    "distinct_count": {"field": "sensor_id", "precision": 6},
    "interpolate": {"method": "linear", "window": 3},
    "join_by_message": {"schema": "own", "fields": list(NAMES)},
    "accumulate": {"window": 3},
    "sliding_linear_regression": {"train": 4, "predict": 2, "every": 2},
}


# State by message; test_outputs_sacred.py has the filter by key and the window that a model is fitted to, with a kill.
# Of the others test_folds.py and test_state_store.py say the same without Spark.
IN_SHORT = {"join_by_message"}


@pytest.mark.parametrize("name", [
    name if name in IN_SHORT else pytest.param(name, marks=pytest.mark.long) for name in CONFIGS])
def test_batches_and_restarts_change_nothing(name, stream):
    rows = readings(60)
    whole = stream(OBSERVATIONS)
    whole.add(rows, sizes=[])
    expected = whole.run(lambda frame: build(name, frame, **CONFIGS[name]))

    cut = stream(OBSERVATIONS)
    cut.add(rows[:50], sizes=[1, 7])  # each batch costs seconds
    results = cut.run(lambda frame: build(name, frame, **CONFIGS[name]))
    cut.add(rows[50:], sizes=[])
    results += cut.run(lambda frame: build(name, frame, **CONFIGS[name]))

    assert len(expected) >= 10
    assert results == expected


def test_forecasts_are_the_folds_whatever_the_batches_and_after_a_restart(stream):
    """Three customers, a reading each quarter of an hour; every customer has what the fold gives of its readings."""
    rows = [(seq, at := START_MS + seq // 3 * 900_000, at, f"m{seq}", f"s{seq % 3}", "energyconsumed", "{}",
             None if seq % 31 == 7 else 1.0 + seq * 37 % 101 / 100) for seq in range(3 * 4 * 40)]
    cut = stream(OBSERVATIONS)

    def forecast(frame):
        return build("forecast", frame, method="arima")

    cut.add(rows[:300], sizes=[100, 7])
    results = cut.run(forecast)
    cut.add(rows[300:], sizes=[])
    results += cut.run(forecast)

    fold, states, expected = HourlyForecast("arima", 900_000), {}, []
    for seq, time, born, _, sensor, _, _, value in rows:
        state = states.setdefault(sensor, fold.start())
        expected += [(seq, time, born, sensor, *out) for out in fold.step(state, time, value, False, sensor)]
    assert len(expected) >= 3 * 38
    assert [tuple(row) for row in results] == expected
