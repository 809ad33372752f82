"""State by key goes to another node by rows: ahead, in rounds, and what is new at last, whoever dies."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workers.engine.agents.transport import copies_ahead, news, state_transport, store_copies
from workers.engine.agents.transport.ahead import CopyLimits
from workers.engine.agents.transport.parcels import FilesBeside
from workers.engine.agents.transport.state_transport import Elsewhere
from workers.library import store_files
from workers.library.state_store import Pointer

from ...channels.played_redis import PlayedRedis
from .ahead_rig import COMES, KEYS, LEAVES, ROUNDS, StoreWay
from .mortal import Died, Mortal

WORKED = {f"key{number}": [-1 if number == 7 else number] for number in range(KEYS)}


def forget_connections() -> None:
    while store_files._OPEN:
        store_files._OPEN.popitem()[1].close()


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    nothing = SimpleNamespace(info=lambda *_, **__: None, warning=lambda *_, **__: None)
    for module in (state_transport, copies_ahead, news):
        monkeypatch.setattr(module, "logger", lambda: nothing)
    yield
    forget_connections()


def test_a_store_goes_ahead_and_then_the_rows_that_are_new(tmp_path: Path):
    way = StoreWay(tmp_path)
    way.turns(3)
    way.copy()
    assert way.turns() == Elsewhere(ready=frozenset("h"))
    way.work()
    way.here.record_ended("a", way.record)
    way.turns()
    assert way.states() == WORKED
    assert Pointer.read(way.there.received("h").states["t"][0]).version == way.pointer.version
    assert way.manifest["rows"] and way.manifest["length"] < 1_000, "the record and a row"
    assert Pointer.read(way.here.ended("a").states["t"][0]) is not None, "nobody has made a text of it"


@pytest.mark.parametrize("what", ["store lost there", "store lost here", "no stores there", "taken back"])
def test_where_rows_are_of_no_use_the_whole_is_sent(tmp_path: Path, what: str):
    way = StoreWay(tmp_path, keeps_stores=what != "no stores there")
    before = way.work() if what == "taken back" else None
    way.turns(3)
    way.copy()
    way.turns()
    if what == "store lost there":
        [path] = way.there.fold_stores.folder.glob("*.fold")
        store_files.remove(path)
    elif what == "store lost here":
        way.here.files.drop("h", "ahead")
    elif what == "taken back":
        way.pointer = before  # Spark has not heard of what the copy has
    way.work()
    way.here.record_ended("a", way.record)
    way.start()
    way.turns()
    assert way.states() == WORKED and "base" not in way.manifest


def test_rows_go_in_rounds(tmp_path: Path):
    way = StoreWay(tmp_path, limits=ROUNDS)
    way.turns(3)
    way.copy()
    for number, count in enumerate((900, 400, 1)):
        assert way.turns() == Elsewhere(to_copy=frozenset("h"))
        way.work(7, count, value=-number)
        way.copy()
        assert (way.here.files.size("h", "newer") is not None) and way.turns(1) == Elsewhere(), number
    assert way.turns() == Elsewhere(ready=frozenset("h"))
    way.work(3)
    way.here.record_ended("a", way.record)
    way.turns()
    worked = {range(7, 907): 0, range(7, 407): -1, range(7, 8): -2, range(3, 4): -1}
    assert way.states() == {
        f"key{key}": [next((value for which, value in reversed(worked.items()) if key in which), key)]
        for key in range(KEYS)}
    assert way.manifest["rows"] and way.manifest["length"] < 1_200, "the record and a row"
    assert len(list(way.there.fold_stores.folder.glob("*.fold"))) == 1


def test_a_copy_with_what_was_taken_back_is_made_anew(tmp_path: Path):
    way = StoreWay(tmp_path, limits=ROUNDS)
    before = way.work(0, 5)
    way.turns(3)
    way.copy()
    way.turns()
    way.pointer = before  # Spark has not heard of what the copy has
    way.work(7)
    way.copy()
    assert way.here.files.size("h", "newer") is None
    assert way.turns() == Elsewhere(to_copy=frozenset("h")), "and rounds follow"
    way.copy()
    assert way.here.files.size("h", "newer") is not None
    assert way.turns() == Elsewhere(ready=frozenset("h"))
    way.here.record_ended("a", way.record)
    way.turns()
    assert way.states() == WORKED and way.manifest["rows"]


class Killed(Mortal, StoreWay):
    """Slots are killed before any change on the broker or on a disk, or files get lost; batches go on meanwhile."""

    HELD = 300  # keys

    def __init__(self, folder: Path, chance: random.Random, patch: pytest.MonkeyPatch) -> None:
        super().__init__(
            folder, limits=CopyLimits(least_bytes=1, small_bytes=0, most_rounds=4, shrinks_to=9.0), keys_held=self.HELD)
        self.chance, self.deadly, self.seen = chance, True, Counter()
        self.broker = PlayedRedis(self.may_die)
        for owner, name in ((FilesBeside, "write"), (FilesBeside, "rename"), (FilesBeside, "append"),
                            (FilesBeside, "drop"), (store_copies, "put_changes"), (store_copies, "put_copy")):
            patch.setattr(owner, name, self._deadly(getattr(owner, name)))
        self.start()

    def step(self) -> None:
        """What one of the slots does next; it may be its last, and then it starts anew."""
        self.now_ms += 100
        side = self.chance.randrange(2)
        try:
            elsewhere = self.transports[side].turn((LEAVES, COMES)[side], "0")
            if side == 0 and self.here.ended("a") is None:
                self._work(elsewhere)
        except Died:
            self.start()
        if self.deadly and self.chance.random() < 0.01:
            folder = self.chance.choice((self.here.files.folder, self.there.files.folder))
            (folder / f"h.{self.chance.choice(('ahead', 'newer', 'copy'))}").unlink(missing_ok=True)

    def _work(self, elsewhere: Elsewhere) -> None:
        if self.chance.random() < 0.5:
            first, count = self.chance.randrange(self.HELD - 50), self.chance.randint(1, 50)
            before = self.work(first, count, value=self.chance.randrange(1_000))
            if self.chance.random() < 0.05:
                self.pointer = before  # its slot dies before Spark has heard of it
        if elsewhere.to_copy:
            self.copy()
            self.seen["round" if self.here.files.size("h", "newer") else "copy"] += 1
        elif "h" in elsewhere.ready and self.chance.random() < 0.5:
            self.here.record_ended("a", self.record)


def play(folder: Path, seed: int) -> Counter[str]:
    with pytest.MonkeyPatch.context() as patch:
        way = Killed(folder, random.Random(seed), patch)
        for number in range(1_500):
            way.deadly = number < 300
            way.step()
            if way.there.received("h") is not None:
                break
        assert way.states() == json.loads(way.here.fold_stores.whole(way.here.ended("a").states)["t"][0])
        way.seen["whole" if "base" not in way.manifest else "rows"] += 1
        return way.seen


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32))
def test_rows_that_go_in_rounds_are_the_state_that_was_left_whoever_dies(seed: int):
    try:
        with TemporaryDirectory() as folder:
            play(Path(folder), seed)
    finally:
        forget_connections()


def test_most_rows_go_in_rounds_though_slots_die(tmp_path: Path):
    seen = sum((play(tmp_path / str(seed), seed) for seed in range(10)), Counter())
    assert seen["round"] > seen["copy"] and seen["rows"] > seen["whole"]
