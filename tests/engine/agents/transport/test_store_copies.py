"""Stores of folds go to another node: a copy ahead, then the rows that are new, whatever was taken back meanwhile."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.contracts.savepoints import SAVEPOINTS, Savepoint
from workers.engine.agents.transport.store_copies import StoreCopies, is_of_stores, is_round
from workers.library import state_store, store_changes, store_files
from workers.library.pieces import States
from workers.library.state_store import Pointer, StoreLocation, read_whole
from workers.library.store_files import StateLost

PARTS = {"held": int}
keys = st.sampled_from("abc")
members = st.sampled_from("xyz")
# What a batch does: a member of a key's state is set, or goes (None).
batches = st.lists(st.tuples(keys, members, st.none() | st.integers(0, 9)), max_size=4)
# Its end: Spark takes it, does not hear of it (then it is repeated, or another one is made), or the slot dies before.
ends = st.sampled_from(("done", "done", "done", "unheard", "died"))


class Old:
    """The node that is left: a store, and the pointer that Spark has of it."""

    def __init__(self, folder: str) -> None:
        self.place = StoreLocation(folder, "a.t-0")
        self.pointer = self.place.create({"a": {"held": {"x": 1}, "n": 0}, "b": {"held": {}, "n": 0}}, PARTS)

    def batch(self, events: list[tuple[str, str, int | None]], end: str) -> None:
        batch = self.place.begin(self.pointer)
        states = States(batch, PARTS)
        for key, member, value in events:
            state = states.get(key)
            if state is None:
                states[key] = state = {"held": {}, "n": 0}
                state = states.get(key)
            state["n"] += 1
            if value is None:
                state["held"].pop(member, None)
            else:
                state["held"][member] = value
        states.save()
        if end == "died":
            batch.roll_back()
        else:
            made = batch.commit()
            self.pointer = made if end == "done" else self.pointer

    @property
    def states(self) -> dict:
        return json.loads(read_whole(Path(self.place.folder), self.pointer))

    @property
    def record(self) -> Savepoint:
        return Savepoint(source_offset={"next": 3}, states={"t": [None, str(self.pointer), "{}"]})


def check_of(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


def went(old: Old, last: bytes, target: Path) -> dict | None:
    """What the heir goes on with, where a copy or round went last; None where that is of no use any more."""
    change = StoreCopies(Path(old.place.folder)).change(last, old.record)
    if change is None:
        return None
    copies = StoreCopies(target)
    for _ in range(2):  # a slot that was killed does it again
        text = copies.put_together("h", change, check=check_of(last))
    record = SAVEPOINTS.loads(text)
    nothing, pointer, small = record.states["t"]
    assert (record.source_offset, nothing, small) == ({"next": 3}, None, "{}")
    assert Pointer.read(pointer) == replace(old.pointer, store=Pointer.read(pointer).store)
    heir = StoreLocation(str(target), "h.t-0")
    batch = heir.begin(Pointer.read(pointer))  # it works on
    states = States(batch, PARTS)
    states_of = {key: dict(state, held=dict(state["held"])) for key in "abc" if (state := states.get(key)) is not None}
    batch.roll_back()
    assert states_of == json.loads(read_whole(target, Pointer.read(pointer)))
    return states_of


phases = st.lists(st.tuples(batches, ends), max_size=4)


@settings(deadline=None)
@given(before=phases, rounds=st.lists(phases, max_size=3), after=phases)
def test_a_copy_rounds_and_what_is_new_are_the_state_that_was_left(before: list, rounds: list, after: list) -> None:
    try:
        with TemporaryDirectory() as here, TemporaryDirectory() as elsewhere:
            old, copies = Old(here), StoreCopies(Path(here))
            for events, end in before:
                old.batch(events, end)
            last, is_lost = copies.copy(old.record.states), False
            assert is_of_stores(last) and not is_round(last)
            for number, phase in enumerate([*rounds, after]):
                for _ in range(2):  # a slot that was killed does it again
                    StoreCopies(Path(elsewhere)).take("h", last, check=check_of(last))
                [[version, _]] = json.loads(last.partition(b"\n")[0])["marks"]
                for events, end in phase:
                    # What was written after the pointer is taken back with the next batch, and may be in the copy.
                    is_lost = is_lost or (end != "died" and old.pointer.version < version)
                    old.batch(events, end)
                if number < len(rounds):
                    newer = copies.newer(last, old.record, base=check_of(last))
                    assert (newer is None) == is_lost
                    assert newer is None or (is_of_stores(newer) and is_round(newer))
                    last, is_lost = newer or copies.copy(old.record.states), False
            assert went(old, last, Path(elsewhere)) == (None if is_lost else old.states)
    finally:
        forget_connections()


def forget_connections() -> None:
    while store_files._OPEN:
        store_files._OPEN.popitem()[1].close()


@pytest.fixture
def old(tmp_path: Path):
    yield Old(str(tmp_path / "here"))
    forget_connections()


def test_only_what_is_new_is_sent_at_last(old: Old, tmp_path: Path) -> None:
    for number in range(200):
        old.batch([("a", f"m{number}", number)], "done")
    copy = StoreCopies(Path(old.place.folder)).copy(old.record.states)
    StoreCopies(tmp_path / "there").take("h", copy, check=check_of(copy))
    old.batch([("a", "m7", None), ("b", "x", 1)], "done")
    change = StoreCopies(Path(old.place.folder)).change(copy, old.record)
    assert len(change.splitlines()) == 1 + 4  # the record; both keys' own rows, one that went, one that came
    assert went(old, copy, tmp_path / "there") == old.states


def test_what_went_is_not_remembered_for_ever(old: Old, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_changes, "GONE", 10)
    monkeypatch.setattr(state_store, "GONE", 10)
    copies = StoreCopies(Path(old.place.folder))
    copy = copies.copy(old.record.states)
    for _ in range(10):
        old.batch([("a", "x", None), ("a", "x", 1)], "done")
    assert copies.change(copy, old.record) is not None
    old.batch([("a", "x", None)], "done")
    assert copies.change(copy, old.record) is None, "what went since may be forgotten"


def test_without_the_stores_of_the_copy_nothing_is_put_together(old: Old, tmp_path: Path) -> None:
    copies = StoreCopies(Path(old.place.folder))
    copy = copies.copy(old.record.states)
    change = copies.change(copy, old.record)
    with pytest.raises(StateLost):
        StoreCopies(tmp_path / "there").put_together("h", change, check=check_of(copy))


def test_a_round_is_put_into_what_it_is_newer_than_alone(old: Old, tmp_path: Path) -> None:
    copies, heirs = StoreCopies(Path(old.place.folder)), StoreCopies(tmp_path / "there")
    copy = copies.copy(old.record.states)
    newer = []
    for number in range(2):
        old.batch([("a", "x", number)], "done")
        newer.append(copies.newer((copy, *newer)[-1], old.record, base=check_of((copy, *newer)[-1])))
    with pytest.raises(StateLost):
        heirs.take("h", newer[0], check=check_of(newer[0]))
    heirs.take("h", copy, check=check_of(copy))
    with pytest.raises(StateLost):
        heirs.take("h", newer[1], check=check_of(newer[1]))
    for text in newer:
        heirs.take("h", text, check=check_of(text))
    with pytest.raises(StateLost):
        heirs.put_together("h", copies.change(copy, old.record), check=check_of(copy))
    assert went(old, newer[1], tmp_path / "there") == old.states


def test_another_store_than_the_copy_has_goes_whole(old: Old) -> None:
    copies = StoreCopies(Path(old.place.folder))
    copy = copies.copy(old.record.states)
    other = StoreLocation(old.place.folder, "a.u-0").create({"a": 1}, {})
    assert copies.change(copy, Savepoint(states={"t": [str(old.pointer)], "u": [str(other)]})) is None
    assert copies.copy({"t": [None, "{}"]}) is None, "and where there is none, the record has all"


def test_a_store_of_the_version_before_is_brought_up_to_date(old: Old) -> None:
    path = Path(old.place.folder) / old.pointer.store
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("""
            DROP INDEX rows_version; DROP TABLE gone; DROP TABLE returns; ALTER TABLE rows DROP COLUMN version;
            PRAGMA user_version = 0;""")
    states = old.states
    copies = StoreCopies(Path(old.place.folder))
    copy = copies.copy(old.record.states)
    old.batch([("c", "x", 1)], "done")
    assert old.states == states | {"c": {"held": {"x": 1}, "n": 1}}
    assert len(copies.change(copy, old.record).splitlines()) == 3
