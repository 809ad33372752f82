"""Stores of folds beside checkpoints: which count, how large they are, and what of them goes to another node."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from scheduler.contracts.savepoints import RestorePoint, Savepoint
from workers.engine.agents.reconciling.started_fragments import SlotStore
from workers.library.pieces import States
from workers.library.state_store import Pointer, StoreLocation


@pytest.fixture
def store(tmp_path: Path) -> SlotStore:
    return SlotStore(tmp_path, tmp_path / "slot-0")


def made(store: SlotStore, fragment: str, states: dict) -> Pointer:
    """A store that a fold of the fragment made, whose fragment is gone."""
    return StoreLocation(str(store.fold_stores.folder), f"{fragment}.t-0").create(states, {})


def aged(store: SlotStore) -> None:
    for path in store.fold_stores.folder.iterdir():
        os.utime(path, (1, 1))


def left(store: SlotStore) -> set[str]:
    aged(store)
    store.sweep(now_s=10_000, grace_s=60)
    return {path.name.split(".")[0] for path in store.fold_stores.folder.glob("*.fold")}


def test_a_store_stays_as_long_as_somebody_may_go_on_with_it(store):
    pointers = {name: made(store, name, {"a": 1}) for name in ("f1-0", "f1-1", "f1-2", "f1-3")}
    store.sweep(now_s=0, grace_s=60)
    assert len(list(store.fold_stores.folder.glob("*.fold"))) == 4, "all are new"
    store.checkpoint("f1-0").mkdir(parents=True)
    store.record_ended("f1-1", Savepoint(states={"t": [None, str(pointers["f1-1"])]}))
    store.record_begun("f2-0", RestorePoint(states={"t": [str(pointers["f1-2"])]}))
    assert left(store) == {"f1-0", "f1-1", "f1-2"}
    store.record_ended("f1-1", None)
    store.remove_checkpoint("f1-0")
    store.remove_checkpoint("f2-0")
    assert left(store) == set()
    assert list(store.fold_stores.folder.iterdir()) == [], "with what is beside it"


def test_what_a_fragment_works_with_counts_as_its_state(store):
    assert store.state_bytes("f2-0") == 0
    pointer = made(store, "f1-0", {str(key): "x" * 1_000 for key in range(100)})
    store.record_begun("f2-0", RestorePoint(states={"t": [str(pointer)]}))
    assert 100_000 < store.state_bytes("f2-0") < 200_000
    assert store.state_bytes("f1-0") == store.state_bytes("f2-0") - store.files.size("f2-0", "begun")


def test_what_goes_to_another_node_has_all_state_itself(store):
    pointer = made(store, "f1-0", {"a": 1, "b": 2})
    batch = StoreLocation(str(store.fold_stores.folder), "f1-0.t-0").begin(pointer)
    states = States(batch, {})
    states["a"] = 7
    states.save()
    newest = batch.commit()
    store.record_ended("f1-0", Savepoint(source_offset={"next": 3}, states={"t": [str(pointer), None, '{"c":1}']}))
    store.files.date("f1-0", "ended", 1_234)
    store.make_whole("f1-0")
    ended = store.ended("f1-0")
    assert ended == Savepoint(source_offset={"next": 3}, states={"t": ['{"a":1,"b":2}', None, '{"c":1}']})
    assert store.ended_ms("f1-0") == 1_234
    stamp = store.files.stamp("f1-0", "ended")
    store.make_whole("f1-0")
    assert store.files.stamp("f1-0", "ended") == stamp, "it is whole already"
    assert store.fold_stores.whole({"t": [str(newest)]}) == {"t": ['{"a":7,"b":2}']}
