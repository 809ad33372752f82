"""Models that teams keep: the newest versions of each, whatever is written twice; and predicting by them."""

from __future__ import annotations

import json

import pytest
import redis

from workers.library import predicting
from workers.library.model_store import (
    MOST_NAMES,
    MOST_VERSIONS,
    ModelName,
    StoredVersion,
    connected,
    model_versions,
    store_version,
    stored_text,
    stored_versions,
)
from workers.library.outside import NotAnswered
from workers.library.predicting import StoredModel, predict_stored

pytestmark = pytest.mark.broker
FARES = ModelName("city", "fares")


@pytest.fixture
def store(broker, broker_url):
    with connected(broker_url) as client:
        yield client


def line(version: str, slope: float) -> str:
    return json.dumps({"kind": "linear_regression", "features": ["x"], "intercept": 0.0, "coefficients": [slope],
                       "version": version})


def put(store, number: int, *, born_ms: int, keep: int = 3, model: ModelName = FARES) -> str:
    version = f"{number}-{number:010x}"
    store_version(store, model, StoredVersion(version, born_ms, line(version, float(number))), keep=keep)
    return version


def test_the_newest_stay_and_a_batch_that_is_repeated_changes_nothing(store):
    versions = [put(store, number, born_ms=1_000 + number // 2) for number in range(1, 12)]
    expected = stored_versions(store, "city")
    assert [stored.version for stored in expected["fares"]] == versions[:-4:-1]
    assert stored_text(store, FARES) == line(versions[-1], 11.0)
    for number in range(1, 12):
        put(store, number, born_ms=1_000 + number // 2)
    assert stored_versions(store, "city") == expected
    assert len(store.hgetall(f"{FARES.key}:texts")) == 3


def test_what_was_born_later_is_newer_whoever_learned_it(store):
    """A task that begins anew counts from 1 again."""
    put(store, 9, born_ms=1_000)
    fresh = put(store, 1, born_ms=2_000)
    assert stored_text(store, FARES) == line(fresh, 1.0)


def test_teams_and_names_are_apart(store):
    put(store, 1, born_ms=1, model=ModelName("roads", "fares"))
    put(store, 2, born_ms=1, model=ModelName("city", "tips"))
    assert set(stored_versions(store, "city")) == {"tips"} and set(stored_versions(store, "roads")) == {"fares"}
    assert stored_text(store, FARES) is None


def test_a_version_whose_time_no_page_could_write_is_none(store):
    first = put(store, 1, born_ms=1)
    for number, born in enumerate(("inf", "-1", "1e300", "253402300800000"), start=2):  # a slot may write any
        put(store, number, born_ms=1, keep=9)
        store.zadd(FARES.key, {f"{number:0>12}|{number}-{number:010x}": born})
    assert [model.version for model in model_versions(store, "city")] == [first]


def test_no_more_models_are_read_than_a_page_shows(store):
    put(store, 1, born_ms=1)
    store.sadd("weir:models:city", *(f"m{number}" for number in range(5_000)))
    store.zadd(FARES.key, {f"{number:0>12}|{number}-x": 2 for number in range(5_000)})
    models = stored_versions(store, "city")
    assert len(models) <= MOST_NAMES and all(len(versions) <= MOST_VERSIONS for versions in models.values())


class Asking:
    """A predict task in one Python worker, by a clock of its own."""

    def __init__(self, url: str, *, version: str = "", kind: str = "linear_regression") -> None:
        self.now_s = 0.0
        predicting._read.clear()
        self._ask = predict_stored(StoredModel(FARES, version, kind, 30.0, url), ("x",), drops=False)

    def __call__(self, value: float = 1.0) -> tuple:
        [row] = self._ask({"_f0": value}, clock=lambda: self.now_s)
        return row


def test_the_newest_is_looked_for_after_a_while(store, broker_url):
    ask = Asking(broker_url)
    assert ask() == (None, None, "no model yet")
    first = put(store, 1, born_ms=1)
    assert ask()[2] == "no model yet"
    ask.now_s = 31.0
    assert ask() == (1.0, first, None)
    second = put(store, 2, born_ms=2)
    assert ask() == (1.0, first, None)
    ask.now_s = 62.0
    assert ask(3.0) == (6.0, second, None)


def test_a_version_that_is_named_stays(store, broker_url):
    first, _ = put(store, 1, born_ms=1), put(store, 2, born_ms=2)
    assert Asking(broker_url, version=first)() == (1.0, first, None)
    assert Asking(broker_url, version="7-0123456789")() == (
        None, None, "the team keeps no version 7-0123456789 of it")


def test_a_model_of_another_kind_or_none_is_told(store, broker_url):
    put(store, 1, born_ms=1)
    assert "not a decision_tree_regressor" in Asking(broker_url, kind="decision_tree_regressor")()[2]
    store_version(store, FARES, StoredVersion("2-0000000000", 2, "{"), keep=3)
    assert "no JSON" in Asking(broker_url)()[2]


def test_a_broker_that_is_away_leaves_the_model_that_was_read(store, broker_url, monkeypatch):
    put(store, 1, born_ms=1)
    ask = Asking(broker_url)
    ask()

    def away(*_):
        raise redis.ConnectionError("gone")

    monkeypatch.setattr(predicting, "stored_text", away)
    ask.now_s = 31.0
    assert ask()[0] == 1.0
    with pytest.raises(NotAnswered, match="broker"):
        Asking(broker_url)()


@pytest.mark.parametrize("text", [
    "", "x", "[]", "{}", "1e999", "[" * 50_000, b"\xff\xfe", json.dumps({"kind": "linear_regression"}),
    line("1-0", 1.0).replace('"features"', '"events": "many", "features"'),
    line("1-0", 1.0).replace('"features"', '"target": [], "features"'), "x" * 1_100_000])
@pytest.mark.parametrize("born", [1.0, float("inf"), float("-inf")])
def test_what_a_slot_wrote_that_is_no_model_is_left_out_of_the_teams_list(store, broker, text, born):
    honest = put(store, 1, born_ms=1)
    broker.sadd("weir:models:city", "forged", b"\xff")
    for member in ("1|forged", "forged", b"\xff|\xfe"):
        broker.zadd(ModelName("city", "forged").key, {member: born})
    broker.hset(ModelName("city", "forged").texts, mapping={"forged": text, "": text, b"\xfe": text})
    assert [(model.name, model.version) for model in model_versions(store, "city")] == [("fares", honest)]
