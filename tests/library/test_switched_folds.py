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


def first_of(batch: pd.DataFrame, at_work: str) -> pd.DataFrame:
    """What is ahead of a batch at each fold."""
    return batch.iloc[:1].assign(**{ALTERNATE: "", WORKING: at_work, "_key": ""})


PLAIN = "plain"  # an alternate without state
PATHS = {  # what is between the folds of each alternate, and these
    "one": [("small", "block")], "two": [("all", "accumulate"), ("large", "kalman")],
    "three": [("large", "block"), ("none", "block"), ("all", "forecast")], PLAIN: []}
BETWEEN = {"all": lambda value: True, "small": lambda value: value < 3, "large": lambda value: value > 2,
           "none": lambda value: False}
pairs = st.tuples(st.sampled_from(list(PATHS)), st.sampled_from(["", *PATHS])).map(
    lambda drawn: working(drawn[0], drawn[1] if drawn[1] != drawn[0] else ""))
turns = st.lists(st.tuples(
    events, pairs, st.booleans(), st.sampled_from(["done", "repeated", "cut short"])), max_size=8)


@given(turns, st.sampled_from([1, LARGE]))
@settings(max_examples=40, deadline=None)
def test_each_fold_of_a_path_begins_when_that_is_switched_on(tmp_path_factory, drawn: list, large: int) -> None:
    """Each fold gets what the path lets through to it, ahead of that the first event of each batch."""
    folder = tmp_path_factory.mktemp("folds")
    stages = []
    for number in range(3):
        at = {name: READS[path[number][1]] for name, path in PATHS.items() if len(path) > number}
        works = {name: work_of(*way) for name, way in at.items()} | {"": lambda states, frame: [[""], [""]]}
        stages.append((by_alternate(works, begins=True), {name: parts_of(fold) for name, (fold, _) in at.items()},
                       StoreLocation(str(folder), f"f{number}", large)))
    texts, begin, made, expected = [NOTHING] * 3, 0, [[], [], []], [[], [], []]
    owner, states, warm, warm_states = None, {}, "", {}
    for batch, at_work, warming_first, end in drawn:
        names = [on_of(at_work), *([warming_of(at_work)] if warming_of(at_work) else [])]
        read = frame_of(batch, [""] * len(batch), begin)
        begin += len(batch)
        if not len(read):
            continue
        for number, (work, parts, place) in enumerate(stages):
            branches = [
                read[[BETWEEN[PATHS[name][number][0]](value) for value in read["value"]]].assign(
                    **{ALTERNATE: name, WORKING: at_work}) for name in names if len(PATHS[name]) > number]
            frame = pd.concat([first_of(read, at_work), *(branches[::-1] if warming_first else branches)],
                              ignore_index=True)
            halves = [frame.iloc[:len(frame) // 2], frame.iloc[len(frame) // 2:]]
            for turn in range(1 if end == "done" else 2):
                keeper = FreshStates(texts[number], place, parts)
                again = [row for part in halves for row in zip(*work(keeper, part), strict=True)]
                if end != "cut short" or turn == 1:
                    saved = keeper.save()
                keeper.close()
            texts[number] = saved
            made[number] += sorted(again) if len(names) > 1 else again
        if owner != names[0]:
            states, owner = warm_states if warm == names[0] else {}, names[0]
            warm = "" if warm == owner else warm
        if warm != warming_of(at_work):
            warm, warm_states = warming_of(at_work), {}
        for number in range(3):
            rows = [("", "")]
            for event in read.to_dict("records"):
                for name in names:
                    if len(PATHS[name]) <= number or not BETWEEN[PATHS[name][number][0]](event["value"]):
                        continue
                    fold, reads = READS[PATHS[name][number][1]]
                    by_fold = states if name == owner else warm_states
                    out = fold.step(
                        by_fold.setdefault((number, event["_key"]), fold.start()), *(event[name] for name in reads))
                    rows += [(event["_key"], json.dumps(list(out_row))) for out_row in out]
            expected[number] += sorted(rows) if len(names) > 1 else rows
    assert made == expected
