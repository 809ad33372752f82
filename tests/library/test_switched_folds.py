"""Alternates with state as one fold: what going through the recorded sequence event by event gives, comes out."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.model.warm_up import on_of, warming_of, working
from workers.library.folds import Accumulate, BlockAverage, KalmanFilter
from workers.library.forecasting import HOUR_MS, HourlyForecast
from workers.library.state import NOTHING, fold_rows, keeping, parts_of
from workers.library.state_store import LARGE, StoreLocation
from workers.library.switched_folds import ALTERNATE, WORKING, FreshStates, by_alternate

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


pairs = st.tuples(st.sampled_from(list(READS)), st.sampled_from(["", *READS])).map(
    lambda drawn: working(drawn[0], drawn[1] if drawn[1] != drawn[0] else ""))
turns = st.lists(st.tuples(
    events, pairs, st.booleans(), st.sampled_from(["done", "repeated", "cut short"])), max_size=12)


def passes(name: str, value: float) -> bool:
    """What is before the fold of an alternate: one takes large values alone, so that it has batches without events."""
    return name != "block" or value > 2


@given(turns, st.sampled_from([1, LARGE]))
@settings(max_examples=80, deadline=None)
def test_an_alternate_that_has_warmed_up_goes_on_with_what_it_saw(tmp_path_factory, drawn: list, large: int) -> None:
    place = StoreLocation(str(tmp_path_factory.mktemp("folds")), "f", large)
    work = by_alternate({name: work_of(*way) for name, way in READS.items()}, begins=True)
    parts = {name: parts_of(fold) for name, (fold, _) in READS.items()}
    text, begin, made, expected = NOTHING, 0, [], []
    owner, states, warm, warm_states = None, {}, "", {}
    for batch, at_work, warming_first, end in drawn:
        names = [on_of(at_work), *([warming_of(at_work)] if warming_of(at_work) else [])]
        read = frame_of(batch, [""] * len(batch), begin)
        begin += len(batch)
        branches = [
            read[[passes(name, value) for value in read["value"]]].assign(**{ALTERNATE: name, WORKING: at_work})
            for name in names]
        frame = pd.concat(branches[::-1] if warming_first else branches, ignore_index=True)
        halves = [frame.iloc[:len(frame) // 2], frame.iloc[len(frame) // 2:]]
        for turn in range(1 if end == "done" else 2):
            keeper = FreshStates(text, place, parts)
            again = [row for part in halves for row in made_by(work(keeper, part))]
            if end != "cut short" or turn == 1:
                saved = keeper.save()
            keeper.close()
        made, text = made + again, saved
        for event in read.to_dict("records"):
            took = [name for name in names if passes(name, event["value"])]
            if not took:
                continue
            if owner != names[0]:
                states, owner = warm_states if warm == names[0] else {}, names[0]
                warm = "" if warm == owner else warm
            if warm != warming_of(at_work):
                warm, warm_states = warming_of(at_work), {}
            for name in took:
                fold, reads = READS[name]
                state = (states if name == owner else warm_states).setdefault(event["_key"], fold.start())
                out = list(fold.step(state, *(event[each] for each in reads)))
                expected += [(event["_key"], json.dumps(list(each))) for each in out] if name == owner else []
    assert made == expected
