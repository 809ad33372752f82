"""Alternates with state as one fold: what going through the recorded sequence event by event gives, comes out."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from workers.library.folds import Accumulate, BlockAverage, KalmanFilter
from workers.library.forecasting import HOUR_MS, HourlyForecast
from workers.library.state import NOTHING, fold_rows, keeping, parts_of
from workers.library.state_store import LARGE, StoreLocation
from workers.library.switched_folds import ALTERNATE, FreshStates, by_alternate

METHODS = ("sliding_hour", "sliding_days", "random")
FORECASTS = {name: HourlyForecast(name, HOUR_MS // 2, seed=3) for name in METHODS}
READS = {
    "block": (BlockAverage(3), ("value",)), "accumulate": (Accumulate(4), ("value", "time")),
    "kalman": (KalmanFilter(0.125, 0.32, 30.0), ("value",)),
    "forecast": (FORECASTS["sliding_hour"], ("time", "value", "holiday", "_key"))}
events = st.lists(st.tuples(
    st.sampled_from(["a", "b", "c"]), st.integers(0, 5), st.floats(0.5, 4), st.sampled_from(METHODS)), max_size=25)
batches = st.lists(st.tuples(
    events, st.sampled_from(list(READS)), st.sampled_from(["done", "repeated", "cut short"])), max_size=10)


def frame_of(drawn: list, names: list[str], begin: int) -> pd.DataFrame:
    """Events of a batch, a quarter of an hour or more behind one another."""
    rows = [(key, float((begin + place + late) * HOUR_MS // 4), value, False, name)
            for place, ((key, late, value, _), name) in enumerate(zip(drawn, names, strict=True))]
    return pd.DataFrame(rows, columns=["_key", "time", "value", "holiday", ALTERNATE])


def work_of(fold: Any, reads: tuple[str, ...]):
    def work(states, frame):
        rows = fold_rows(fold, states, {name: frame[name].tolist() for name in frame}, reads=reads, kept=("_key",))
        return list(map(list, zip(*[(key, json.dumps(out)) for key, *out in rows], strict=True)))
    return work


def made_by(given: list) -> list[tuple]:
    return list(zip(*given, strict=True)) if given else []


@given(st.lists(events, max_size=6), st.sampled_from([1, LARGE]))
@settings(max_examples=40, deadline=None)
def test_with_one_state_each_event_passes_the_alternate_of_its_key(tmp_path_factory, drawn: list, large: int) -> None:
    place = StoreLocation(str(tmp_path_factory.mktemp("folds")), "f", large)
    parts = parts_of(FORECASTS["random"])
    work = by_alternate({name: work_of(fold, ("time", "value", "holiday", "_key")) for name, fold in FORECASTS.items()})
    text, begin, made, expected, states = NOTHING, 0, [], [], {}
    for batch in drawn:
        frame = frame_of(batch, [event[3] for event in batch], begin)
        begin += len(batch)
        for _ in range(2):  # as if the first time was not committed
            keeper = keeping(text, place, parts)
            again, saved = made_by(work(keeper.states, frame)), keeper.save()
            keeper.close()
        made, text = made + again, saved
        for row in frame.itertuples(index=False, name=None):
            key, *reading, name = row
            state = states.setdefault(key, FORECASTS[name].start())
            expected += [(key, json.dumps(list(out))) for out in FORECASTS[name].step(state, *reading, key)]
    assert made == expected


@given(batches, st.sampled_from([1, LARGE]))
@settings(max_examples=60, deadline=None)
def test_an_alternate_that_is_switched_on_begins_without_state(tmp_path_factory, drawn: list, large: int) -> None:
    place = StoreLocation(str(tmp_path_factory.mktemp("folds")), "f", large)
    parts = {name: parts_of(fold) for name, (fold, _) in READS.items()}
    work = by_alternate({name: work_of(*way) for name, way in READS.items()}, begins=True)
    text, begin, made, expected, states, owner = NOTHING, 0, [], [], {}, None
    for batch, name, end in drawn:
        frame = frame_of(batch, [name] * len(batch), begin)
        begin += len(batch)
        for turn in range(1 if end == "done" else 2):
            keeper = FreshStates(text, place, parts)
            again = made_by(work(keeper, frame))
            if end != "cut short" or turn == 1:
                saved = keeper.save()
            keeper.close()
        made, text = made + again, saved
        fold, reads = READS[name]
        for event in frame.to_dict("records"):
            if owner != name:
                states, owner = {}, name
            state = states.setdefault(event["_key"], fold.start())
            expected += [
                (event["_key"], json.dumps(list(out))) for out in fold.step(state, *(event[each] for each in reads))]
    assert made == expected
