"""Training and predicting on Spark: what comes out depends neither on batches nor on restarts; models are stored."""

from __future__ import annotations

import pytest

from workers.library.model_store import connected, stored_versions
from workers.library.models import apply, read_model
from workers.library.state import going_on

from .conftest import START_MS, build

pytestmark = [pytest.mark.spark, pytest.mark.broker]
TRIPS = "_seq bigint, _time bigint, _born bigint, distance double, seconds int, fare double, class string"
RUNNING = "0123456789abcdef" * 2
FEATURES = ["distance", "seconds"]


def trips(count: int) -> list[tuple]:
    rows = []
    for seq in range(count):
        distance, seconds = (seq * 37 % 101) / 10, seq * 53 % 1800
        fare = None if seq % 17 == 3 else 2.5 + 1.5 * distance + 0.01 * seconds
        time_ms = START_MS + seq * 100
        rows.append((seq, time_ms, time_ms, distance, seconds, fare, "long" if distance > 5 else "short"))
    return rows


def learning(frame):
    """Both kinds of models, announced to a predictor of each, one behind the other."""
    from pyspark.sql import functions as F

    with going_on(RUNNING):
        return build("train", frame, features=FEATURES, target="fare", window=20,
                     model={"name": "fares", "team": "city"}, keep=2).withColumn("n", F.lit(1))


@pytest.mark.long  # those below train, predict and store, too
def test_models_are_those_of_an_undisturbed_run_and_stored(stream, broker, broker_url, monkeypatch):
    monkeypatch.setenv("REDIS_URL", broker_url)
    rows = trips(100)
    whole, cut = stream(TRIPS), stream(TRIPS)
    whole.add(rows, sizes=[])
    expected = whole.run(learning)
    with connected(broker_url) as client:
        versions = stored_versions(client, "city")
    cut.add(rows[:70], sizes=[3, 31])
    results = cut.run(learning)
    cut.add(rows[70:], sizes=[])
    results += cut.run(learning)
    assert results == expected and [row[5] for row in expected] == [1, 2, 3, 4]
    assert apply(read_model(expected[0][3]), [10.0, 100.0]) == pytest.approx(18.5)
    with connected(broker_url) as client:
        assert stored_versions(client, "city") == versions
    assert [stored.version for stored in versions["fares"]] == [expected[3][4], expected[2][4]]


def test_a_trial_stores_nothing(stream, broker, broker_url, monkeypatch):
    monkeypatch.setenv("REDIS_URL", broker_url)
    events = stream(TRIPS)
    events.add(trips(50), sizes=[])

    def measured(frame):
        with going_on("measured"):
            return build("train", frame, features=FEATURES, target="class", kind="decision_tree_classifier", window=20,
                         model={"name": "fares", "team": "city"})

    models = events.run(measured)
    assert len(models) == 2 and read_model(models[0][3])["classes"] == ["long", "short"]
    assert broker.keys("weir:models:*") == []


def test_events_are_predicted_by_the_model_before_them(stream, broker, broker_url, monkeypatch):
    monkeypatch.setenv("REDIS_URL", broker_url)
    learned = stream(TRIPS)
    learned.add(trips(60), sizes=[])
    models = learned.run(learning)
    mixed = [(*row, None) for row in trips(60)]
    for row in reversed(models):
        mixed.insert(row[0] + 1, (*row[:3], None, None, None, None, row[3]))
    whole, cut = stream(f"{TRIPS}, model string"), stream(f"{TRIPS}, model string")

    def predicting(frame):
        return build("predict", frame, features=FEATURES)

    whole.add(mixed, sizes=[])
    expected = whole.run(predicting)
    cut.add(mixed[:40], sizes=[21])
    results = cut.run(predicting)
    cut.add(mixed[40:], sizes=[])
    results += cut.run(predicting)
    assert results == expected and len(expected) == 60
    assert [row[:7] for row in expected] == trips(60), "events stay what they were"
    assert {row[9] for row in expected[:22]} == {"no model yet"}
    assert [row[8] for row in expected[22:]] == [models[0][4]] * 21 + [models[1][4]] * 17
    for row in expected[22:]:
        assert row[7] == pytest.approx(2.5 + 1.5 * row[3] + 0.01 * row[4]) and row[9] is None


def test_each_key_has_its_own_models_and_is_predicted_by_them(stream):
    """Two classes of trips, of which one costs twice as much: one model for both would be wrong for each."""
    rows = [(*row[:5], row[5] and row[5] * (2 if row[6] == "long" else 1), row[6]) for row in trips(200)]
    learned = stream(TRIPS)
    learned.add(rows, sizes=[70])
    models = learned.run(lambda frame: build("train", frame, features=FEATURES, target="fare", every=20, by=["class"]))
    assert {row[3] for row in models} == {"long", "short"} and [row[6] for row in models[:2]] == [1, 1]
    mixed = [(*row, None) for row in rows]
    for row in reversed(models):
        mixed.insert(row[0] + 1, (*row[:3], None, None, None, row[3], row[4]))
    applied = stream(f"{TRIPS}, model string")
    applied.add(mixed, sizes=[90])
    predicted = [row for row in applied.run(
        lambda frame: build("predict", frame, features=FEATURES, by=["class"])) if row[7] is not None]
    assert len(predicted) > 100 and {row[6] for row in predicted} == {"long", "short"}
    for row in predicted:
        fare = 2.5 + 1.5 * row[3] + 0.01 * row[4]
        assert row[7] == pytest.approx(fare * (2 if row[6] == "long" else 1))


def test_events_are_predicted_by_a_model_that_the_team_keeps(stream, broker, broker_url, monkeypatch):
    monkeypatch.setenv("REDIS_URL", broker_url)
    learned, applied = stream(TRIPS), stream(TRIPS)
    learned.add(trips(60), sizes=[])
    versions = [row[4] for row in learned.run(learning)]
    applied.add(trips(10), sizes=[])
    rows = applied.run(lambda frame: build(
        "predict", frame, features=FEATURES, model={"name": "fares", "team": "city"}))
    assert {row[8] for row in rows} == {versions[-1]} and rows[1][7] == pytest.approx(2.5 + 1.5 * 3.7 + 0.53)


def test_errors_on_spark(stream):
    events = stream("_seq bigint, _time bigint, _born bigint, value double, predicted double, fare double")
    events.add([(0, 1, 1, 20.0, None, None), (1, 2, 2, None, 8.0, 10.0), (2, 3, 3, None, 9.0, None)], sizes=[1])
    assert events.run(lambda frame: build("error_estimate", frame, actual="fare")) == [
        (1, 2, 2, 10.0, 8.0, 20.0, 2.0, 0.1, 2.0)]
