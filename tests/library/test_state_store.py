"""State by key: event by event what the whole state gives, however batches are cut, repeated, and killed half-way."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from workers.library import store_files
from workers.library.aggregates import read_aggregates
from workers.library.folds import Accumulate, BlockAverage, Interpolate, KalmanFilter
from workers.library.forecasting import HOUR_MS, HourlyForecast
from workers.library.landmarks import LandmarkWindowed
from workers.library.pieces import States
from workers.library.repetitions import Deduplicated
from workers.library.state import NOTHING, fold_rows, keeping, parts_of
from workers.library.state_store import (
    VERSIONS,
    Pointer,
    StateLost,
    StoreLocation,
    packed,
    read_whole,
    remove,
)
from workers.library.windows import JoinFold, Windowed

AGGREGATES = read_aggregates(["n=count(*)", "total=sum(x)", "all=collect(x)"])
KEYS = ("a", "b", "c\x1f\x00", "é")
texts = st.sampled_from(KEYS)
numbers = st.one_of(st.none(), st.integers(-50, 50).map(float))
moments = st.integers(0, 60)


@dataclass(frozen=True)
class Case:
    """A fold, and how one of its events is made of what is drawn; the key is that of the state, or the fold's own."""

    fold: Any
    event: Callable[[int, tuple], dict]
    reads: tuple[str, ...]


def _by_key(seq: int, drawn: tuple) -> dict:
    return {"_key": drawn[0], "value": drawn[2], "time": drawn[1], "name": drawn[0]}


def _load(seq: int, drawn: tuple) -> dict:
    """A reading: half an hour later with each of the stream, or up to a day or two before, or after, that."""
    return {"_key": drawn[0], "time": (seq * HOUR_MS) // 2 + (drawn[1] - 30) * HOUR_MS // 2 + 40 * 24 * HOUR_MS,
            "value": drawn[2], "holiday": drawn[3] == "both", "name": drawn[0]}


def _whole(seq: int, drawn: tuple) -> dict:
    key, moment, value, side = drawn
    return {"_key": "", "of": key, "time": moment, "seq": seq, "born": 1000 + seq, "ends": side == "both",
            "v": value, "w": value, "x": value,
            "left": f"l{seq}" if side in ("left", "both") else None,
            "right": f"r{seq}" if side in ("right", "both") else None}


def _window(size: int, slide: int, lateness: int, *, mark: bool = False) -> Case:
    fold = Windowed(size, slide, lateness, mark, 1, AGGREGATES)
    return Case(fold, _whole, ("of", "time", "seq", "born", "of", "v", "w", "x"))


CASES = {
    "kalman": Case(KalmanFilter(0.125, 0.32, 30.0), _by_key, ("value",)),
    "block": Case(BlockAverage(3), _by_key, ("value",)),
    "accumulate": Case(Accumulate(4), _by_key, ("value", "time")),
    "interpolate": Case(Interpolate(3, "linear"), _by_key, ("value", "time", "name")),
    "forecast": Case(HourlyForecast("random", HOUR_MS // 2), _load, ("time", "value", "holiday", "name")),
    "tumbling": _window(10, 10, 0), "sliding": _window(10, 5, 7, mark=True), "session": _window(5, 0, 3),
    "late": _window(6, 6, 0, mark=True),
    "landmark": Case(LandmarkWindowed(1, AGGREGATES), _whole, (
        "of", "ends", "time", "seq", "born", "of", "v", "w", "x")),
    "deduplicate": Case(Deduplicated(7), _whole, ("of", "time", "seq", "born")),
    "join": Case(JoinFold(5, 8, 4, outer=True), _whole, ("of", "time", "seq", "born", "left", "right")),
    "join_inner": Case(JoinFold(0, 3, 0, outer=False), _whole, ("of", "time", "seq", "born", "left", "right")),
}

ENDS = ("done", "repeated", "cut short", "killed")
batches = st.lists(st.tuples(
    st.lists(st.tuples(texts, moments, numbers, st.sampled_from(("left", "right", "both", "none"))), max_size=6),
    st.sampled_from(ENDS)), max_size=12)


def columns_of(case: Case, events: list[dict]) -> dict[str, list]:
    return {name: [event[name] for event in events] for name in ("_key", *case.reads)}


@dataclass
class Fold:
    """A fold whose text after each batch Spark keeps; a batch may be repeated, or end before it is saved."""

    case: Case
    place: StoreLocation | None
    text: str = NOTHING

    def batch(self, events: list[dict], *, end: str = "done") -> list[tuple]:
        if end == "repeated":  # it was written, and Spark had not committed it when the slot died
            self._once(events[: len(events) // 2])
            self._once(events)
        elif end == "cut short":
            self._once(events, saves=False)
        elif end == "killed":
            self._once(events, saves=False, closes=False)
        rows, self.text = self._once(events)
        return rows

    def _once(self, events: list[dict], *, saves: bool = True, closes: bool = True) -> tuple[list[tuple], str]:
        keeper = keeping(self.text, self.place, parts_of(self.case.fold))
        try:
            rows = fold_rows(self.case.fold, keeper.states, columns_of(self.case, events), reads=self.case.reads,
                             kept=())
            return rows, keeper.save() if saves else ""
        finally:
            if closes:
                keeper.close()
            else:  # what a process that dies does: its connection goes, with what it has not committed
                connection = getattr(getattr(keeper, "_batch", None), "_connection", None)
                if connection is not None:
                    connection.close()
                    forget_connections()


def forget_connections() -> None:

    for connection in store_files._OPEN.values():
        with suppress(sqlite3.ProgrammingError):
            connection.close()
    store_files._OPEN.clear()


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=10, deadline=None)
@given(batches)
@example([([(key, moment, 1.0, "both") for key in KEYS], end) for moment, end in enumerate(ENDS * 2)])
def test_by_key_a_fold_gives_what_the_whole_state_gives(name: str, drawn: list) -> None:
    gives_the_same(name, drawn)


@pytest.mark.long
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("name", CASES)
@settings(max_examples=400, deadline=None)
@given(batches)
def test_by_key_a_fold_gives_the_same_in_many_more_streams(name: str, drawn: list) -> None:
    gives_the_same(name, drawn)


def gives_the_same(name: str, drawn: list) -> None:
    """Each batch's rows, and at the end the very states, whatever was repeated or taken back on the way."""
    case, seq = CASES[name], 0
    with TemporaryDirectory() as folder:
        whole, by_key = Fold(case, None), Fold(case, StoreLocation(folder, "f1-0.t-0", large=60))
        for some, end in drawn:
            events = [case.event(seq + place, values) for place, values in enumerate(some)]
            seq += len(some)
            assert by_key.batch(events, end=end) == whole.batch(events)
        pointer = Pointer.read(by_key.text)
        text = by_key.text if pointer is None else read_whole(Path(folder), pointer)
        assert in_order(json.loads(text)) == in_order(json.loads(whole.text))
        forget_connections()


def in_order(states: dict) -> str:
    return json.dumps(states, sort_keys=True)


@pytest.fixture
def place(tmp_path):
    yield StoreLocation(str(tmp_path), "f1-0.t-0")
    forget_connections()


def test_a_batch_writes_the_keys_that_it_touches_and_no_others(place):
    pointer = place.create({f"k{number}": [number, "x" * 100] for number in range(1_000)}, {})
    batch = place.begin(pointer)
    states = States(batch, {})
    states.get("k7")[0] = -1
    states.get("k8")  # looked at and left as it was
    states["new"] = [0, ""]
    states.save()
    pointer = batch.commit()
    with closing(sqlite3.connect(Path(place.folder) / pointer.store)) as connection:
        assert connection.execute("SELECT owner FROM before").fetchall() == [("k7",), ("new",)]
        assert connection.execute("SELECT count(*) FROM rows").fetchone() == (1_001,)
    assert json.loads(read_whole(Path(place.folder), pointer))["k7"][0] == -1


def test_a_version_that_others_made_meanwhile_is_noticed(place):
    first = place.create({"a": 1}, {})
    mine, others = advanced(place, first, 2), advanced(place, first, 3)
    with pytest.raises(StateLost, match="does not have version 1"):
        place.begin(mine)
    assert json.loads(read_whole(Path(place.folder), others)) == {"a": 3}
    assert json.loads(read_whole(Path(place.folder), first)) == {"a": 1}, "as it was before"
    newest = others
    for number in range(VERSIONS):
        newest = advanced(place, newest, number)
    assert json.loads(read_whole(Path(place.folder), others)) == {"a": 3}, "and as long as Spark keeps versions"
    advanced(place, newest, 0)
    with pytest.raises(StateLost):
        read_whole(Path(place.folder), others)


def advanced(place: StoreLocation, pointer: Pointer, value: int) -> Pointer:
    batch = place.begin(pointer)
    states = States(batch, {})
    states["a"] = value
    states.save()
    return batch.commit()


def test_one_that_is_gone_is_said_to_be(place, tmp_path):
    pointer = place.create({"a": 1}, {})
    remove(tmp_path / pointer.store)
    with pytest.raises(StateLost, match="cannot be opened"):
        place.begin(pointer)
    again = place.create({"a": 2}, {})
    newest = place.create({"a": 3}, {})
    assert again.store != newest.store and [path.name for path in tmp_path.glob("*.fold")] == [newest.store]


def test_a_member_in_pieces_is_a_mapping(place):
    """All that a mapping can do, against a dict; nothing of it is read that was not asked for."""
    parts = {"held": abs}
    batch = place.begin(place.create({"": {"held": {"a": 1, "b": -2, "c": 3}}}, parts))
    states = States(batch, parts)
    held = states.get("")["held"]
    assert held.due(2) == ["a", "b"] and held.soonest() == 1 and held._values == {}
    assert held.pop("a") == 1 and held.pop("a", None) is None and "a" not in held and len(held) == 2
    held["b"] = 7
    assert held.setdefault("d", 0) == 0 and dict(held) == {"b": 7, "c": 3, "d": 0}
    assert sorted(held.due(3)) == ["c", "d"] and held.soonest() == 0
    with pytest.raises(KeyError):
        del held["a"]
    states.save()
    batch = place.begin(batch.commit())
    states = States(batch, parts)
    states[""] = {"held": {"z": 5}}
    states.save()
    assert json.loads(read_whole(Path(place.folder), batch.commit())) == {"": {"held": {"z": 5}}}
    assert packed({"a": [1]}) == '{"a":[1]}'
