"""What a learned guard chooses for keys: from forecasts as they come, once each; and how queries get it."""

from __future__ import annotations

import json

import pytest
import redis
from hypothesis import given, settings
from hypothesis import strategies as st

from workers.engine import keyed_choices
from workers.engine.channels import keys
from workers.engine.channels.channel_registry import Channels
from workers.engine.channels.control import begin_batch
from workers.engine.keyed_choices import KeyedChoices, chosen_by_key, read_choices, switch_keys, write_choices
from workers.library.forecast_choice import ForecastChoice, shipped_choice
from workers.library.forecasts import METHODS

from .told_by_key import told_by_key

shares = st.one_of(st.none(), st.floats(0, 3))
hours = st.lists(st.tuples(
    st.sampled_from(["m0", "m1", "m\x1f2", None]), st.lists(shares, min_size=5, max_size=5), shares), max_size=20)


def events_of(drawn: list) -> list[dict]:
    return [{"_seq": place, "_born": place // 3, "meter": meter, "variances": variances, "error": error}
            for place, (meter, variances, error) in enumerate(drawn)]


def chosen(before: KeyedChoices, events: list[dict], among=METHODS, bound: float = 0.1) -> KeyedChoices:
    return chosen_by_key(before, events, by=["meter"], among=among, bound=bound)


@given(hours, st.integers(0, 20), st.randoms(), st.floats(0.01, 1))
@settings(max_examples=60, deadline=None)
def test_what_is_chosen_is_the_fold_of_each_customer(drawn: list, cut: int, rng, bound: float) -> None:
    events = events_of(drawn)
    first = events[:cut]
    rng.shuffle(first)
    choices = chosen(KeyedChoices(), first, bound=bound)
    choices = chosen(choices, events, bound=bound)  # what was read already is there still
    assert chosen(choices, events[::-1], bound=bound) == choices
    fold, states = ForecastChoice(shipped_choice(), bound), {}
    for event in events:
        state = states.setdefault(event["meter"], fold.start())
        list(fold.step(state, event["variances"], event["error"]))
    texts = {None: "\x00", "m\x1f2": "m\x1bu2"}
    assert choices.states == {texts.get(meter, meter): state for meter, state in states.items()}
    assert choices.alternates == {key: state["method"] for key, state in choices.states.items()}


def test_a_key_keeps_its_alternate_where_the_one_that_is_chosen_is_not_there() -> None:
    events = events_of([("m0", [0.0] * 5, None), ("m1", [2.0, None, 0.1, 0.3, 0.9], None)])
    whole = chosen(KeyedChoices(), events)
    assert set(whole.alternates.values()) <= METHODS.keys()
    assert chosen(KeyedChoices(alternates={"m0": "old"}), events, among=["other"]).alternates == {"m0": "old"}
    assert chosen(KeyedChoices(), [{**events[0], "variances": None}, {**events[1], "meter": 1.5}]).alternates == {}


def test_there_is_room_for_so_many_keys(monkeypatch) -> None:
    monkeypatch.setattr(keyed_choices, "MOST_KEYS", 2)
    choices = chosen(KeyedChoices(), events_of([(f"m{n}", [0.1] * 5, None) for n in range(4)]))
    assert sorted(choices.states) == ["m0", "m1"]
    more = chosen(choices, [{"_seq": 9, "_born": 9, "meter": name, "variances": [9.0] * 5} for name in ("m1", "m3")])
    assert sorted(more.states) == ["m0", "m1"] and more.place == (9, 9)


def test_a_key_that_is_too_long_to_keep_has_the_alternate_of_the_task() -> None:
    long = "m" * keyed_choices.LONGEST_KEY
    choices = chosen(KeyedChoices(), events_of([(key, [0.1] * 5, None) for key in (long, f"{long}m", "m" * 9_000_000)]))
    assert list(choices.states) == list(choices.alternates) == [long]


@pytest.mark.broker
class TestInTheBroker:
    def test_what_was_chosen_is_read_as_it_was_written(self, broker: redis.Redis) -> None:
        assert read_choices(broker, "t") == KeyedChoices()
        choices = chosen(KeyedChoices(), events_of([("m0", [0.1] * 5, 0.3), ("é", [None] * 5, None)]))
        write_choices(broker, "t", choices)
        assert read_choices(broker, "t") == choices

    def test_all_keys_change_at_one_boundary_in_every_query(self, broker: redis.Redis) -> None:
        channels = Channels(broker)

        def by_key(query: str, position: int) -> dict[str, str]:
            return told_by_key(channels.control(query), position)

        channels.switch_keys("f", 1, {"a": "x"}, from_batch=0)
        channels.switch("f", 1, "y", from_batch=0)
        switch_keys(broker, "t", [("f", 1), ("g", 0)], {"a": "z", "b": "x"})
        state = begin_batch(broker, "f", 7)
        newest = max((name for name in state if name.startswith("1:keys:") and not name.endswith("from")), key=str)
        assert state[f"{newest}:from"] == "8"
        assert by_key("f", 1) == by_key("g", 0) == {"a": "z", "b": "x"}
        assert channels.alternates("f") == {1: ("y", True)} and channels.routes("f") == {}
        begin_batch(broker, "f", 8)
        state = begin_batch(broker, "f", 9)
        assert sum(name.startswith("1:keys:") for name in state) == 2  # the one in force, and its first batch
        assert not channels.switch_keys("f", 1, {"b": "x", "a": "z"})

    def test_the_oldest_notes_go(self, broker: redis.Redis, monkeypatch) -> None:
        monkeypatch.setattr(keyed_choices, "MOST_NOTES", 9)
        for number in range(10):
            broker.hset(keys.key_switches("t"), f"f {number}", json.dumps({"at_ms": number}))
        switch_keys(broker, "t", [("f", 1)], {"a": "x"})
        assert sorted(int(name.split()[1]) for name in broker.hkeys(keys.key_switches("t"))) == [5, 6, 7, 8, 9]
