"""What a query leaves goes to another node: ahead, as a difference and whole, in pieces, over losses and restarts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from scheduler.contracts.desired import DesiredState, WantedFragment, WantedSlot
from scheduler.contracts.savepoints import SAVEPOINTS, RestorePoint, Savepoint
from workers.engine.agents import carrying, parcels
from workers.engine.agents.ahead import Limits
from workers.engine.agents.carrying import Carrier, Elsewhere
from workers.engine.agents.checkpoint import Progress
from workers.engine.agents.claims import claim, withdraw
from workers.engine.agents.instructions import RecordCopy
from workers.engine.agents.parcels import FilesBeside
from workers.engine.agents.record_actuator import RecordActuator
from workers.engine.agents.store import SlotStore
from workers.engine.channels import keys
from workers.library import store_files
from workers.library.pieces import States
from workers.library.state_store import Pointer, StoreLocation

from ..channels.played_redis import PlayedRedis
from .played_queries import Store

OLD = WantedFragment("a", ())
HEIR = WantedFragment("h", (), inherits=("a",), origin="n1")
LEAVES = DesiredState(node="n1", remote_heirs={"n2": (HEIR,)}, handing_over={"0": (OLD,)})
COMES = DesiredState(node="n2", slots={"0": WantedSlot((HEIR,))})
KEYS = 2_000


def state(*, but: int = 0) -> Savepoint:
    keys_of = {f"key{number}": number + but * (number == 7) for number in range(KEYS)}
    return Savepoint(source_offset={"t0": 5, "next": 7 + but}, states={"t": [json.dumps(keys_of), None]})


class Way:
    """A node that a fragment leaves, the one where it goes on, and the broker between them."""

    def __init__(self) -> None:
        self.broker, self.now_ms = PlayedRedis(), 0
        self.here, self.there = Store({}, "n1/0"), Store({}, "n2/0")
        self.here.states["a"] = {"t": KEYS}
        self.start()
        self.there.kept["standby"]["h"] = ()
        self.there.checkpoints["h"] = Progress(0)

    def start(self) -> None:
        """Both slots start anew."""
        self.carriers = [
            Carrier(self.broker, store, clock_ms=lambda: self.now_ms, limits=Limits(least_bytes=1), piece_bytes=500)
            for store in (self.here, self.there)]

    def turns(self, count: int = 200) -> Elsewhere:
        for _ in range(count):
            self.now_ms += 100
            elsewhere = self.carriers[0].turn(LEAVES, "0")
            self.carriers[1].turn(COMES, "0")
        return elsewhere

    def copy(self) -> None:
        self.here.files.write("h", "ahead", SAVEPOINTS.dumps(replace(state(), source_offset=None)).encode())

    @property
    def manifest(self) -> dict:
        return json.loads(self.broker.hget(keys.handover("a"), "manifest"))


@pytest.fixture
def way(monkeypatch: pytest.MonkeyPatch) -> Way:
    quiet = SimpleNamespace(info=lambda *_, **__: None, warning=lambda *_, **__: None)
    monkeypatch.setattr(carrying, "logger", lambda: quiet)
    return Way()


def test_a_copy_goes_ahead_and_then_what_is_new(way):
    assert way.turns(3) == Elsewhere(to_copy=frozenset("h")), "it works on until its state is there"
    way.copy()
    assert way.turns(3) == Elsewhere()
    assert way.turns() == Elsewhere(ready=frozenset("h"))
    way.here.record_ended("a", state(but=1))
    way.turns()
    assert way.there.received("h") == state(but=1)
    assert way.manifest["length"] < way.manifest["whole"]["length"] / 2
    way.there.record_begun("h", RestorePoint())
    way.turns(5)
    assert way.here.taken() == {"h"} and not way.broker.hashes
    assert not way.here.files.texts and not way.there.files.texts


def test_without_a_copy_the_whole_is_sent(way):
    assert way.turns(700) == Elsewhere(ready=frozenset("h")), "one that does not come about is not waited for"
    way.here.record_ended("a", state())
    way.turns()
    assert way.there.received("h") == state() and "base" not in way.manifest


@pytest.mark.parametrize("what", ["lost there", "broken there", "lost here"])
def test_where_a_copy_is_gone_or_broken_the_whole_is_sent(way, what):
    way.copy()
    way.turns()
    if what == "lost here":
        way.here.files.drop("h", "ahead")
    elif what == "lost there":
        way.there.files.drop("h", "copy")
    else:
        way.there.files.texts["h", "copy"] = way.there.files.texts["h", "copy"].replace(b"key9", b"key8")
    way.here.record_ended("a", state(but=1))
    way.start()
    way.turns()
    assert way.there.received("h") == state(but=1) and "base" not in way.manifest


def test_a_small_state_does_not_go_ahead(way):
    way.here.states["a"] = {}
    assert way.turns(3) == Elsewhere(ready=frozenset("h"))


def test_a_record_arrives_as_it_was_sent_whoever_starts_anew(way):
    way.here.record_ended("a", state())
    for _ in range(400):
        way.turns(1)
        way.start()  # whoever sent or took a piece may have died before it was known
        held = [name for name in way.broker.hgetall(keys.handover("a")) if name.startswith(b"piece")]
        assert len(held) <= 2 * parcels.WINDOW
    assert way.there.received("h") == state()
    manifest = way.broker.hget(keys.handover("a"), "manifest")
    assert claim(way.broker, "a", "h", manifest=manifest) and not claim(way.broker, "a", "other", manifest=manifest)
    assert withdraw(way.broker, "a") == "h", "its heir goes on with it"


def test_a_record_that_was_taken_back_has_no_heir(way):
    way.here.record_ended("a", state())
    way.turns(1)
    manifest = way.broker.hget(keys.handover("a"), "manifest")
    assert withdraw(way.broker, "a") is None
    assert not claim(way.broker, "a", "h", manifest=manifest), "though its node has it whole by now"
    way.here.record_ended("a", None)
    way.turns(5)
    assert way.there.received("h") is None


@pytest.mark.parametrize("data", [None, b"", b"other"])
def test_a_piece_that_came_broken_is_asked_for_again(way, data):
    way.here.record_ended("a", state())
    way.carriers[0].turn(LEAVES, "0")
    if data is None:
        way.broker.hdel(keys.handover("a"), "piece:1")
    else:
        way.broker.hset(keys.handover("a"), "piece:1", data)
    way.turns()
    assert way.there.received("h") == state()


def test_what_was_broken_on_disk_is_asked_for_again(way):
    way.here.record_ended("a", state())
    way.turns(1)
    [kind] = way.there.files.kinds("h", "coming")
    text = way.there.files.texts["h", kind]
    way.there.files.texts["h", kind] = b"?" * len(text)
    way.turns()
    assert way.there.received("h") == state()


# -- stores by key ---------------------------------------------------------------------------------------------------


class StoreWay(Way):
    """Two nodes with disks; what is left has its state in a store."""

    def __init__(self, folder: Path, *, keeps_stores: bool = True) -> None:
        self.broker, self.now_ms, self.keeps_stores = PlayedRedis(), 0, keeps_stores
        self.here, self.there = (SlotStore(folder / name, folder / name / "slot-0") for name in ("n1", "n2"))
        self.place = StoreLocation(str(self.here.fold_stores.folder), "a.t-0", large=0)
        self.pointer = self.place.create({f"key{number}": [number] for number in range(KEYS)}, {})
        self.here.record_begun("a", RestorePoint(states=self.record.states))
        self.there.record_standby("h", ())
        (self.there.checkpoint("h") / "commits").mkdir(parents=True)
        (self.there.checkpoint("h") / "commits" / "0").touch()
        self.start()

    def start(self) -> None:
        self.carriers = [
            Carrier(self.broker, store, clock_ms=lambda: self.now_ms, limits=Limits(least_bytes=1),
                    keeps_stores=self.keeps_stores)
            for store in (self.here, self.there)]

    @property
    def record(self) -> Savepoint:
        return Savepoint(source_offset={"t0": 5, "next": 7}, states={"t": [str(self.pointer)]})

    def work(self) -> None:
        batch = self.place.begin(self.pointer)
        states = States(batch, {})
        states.get("key7")[0] = -1
        states.save()
        self.pointer = batch.commit()

    def copy(self) -> None:
        run = SimpleNamespace(id="a", copied=self.record.states)
        RecordActuator(SimpleNamespace(store=self.here)).do(run, RecordCopy(("h",)))

    def states(self) -> dict:
        """What the heir begins with."""
        received = self.there.received("h")
        assert received.source_offset == {"t0": 5, "next": 7}
        return json.loads(self.there.fold_stores.whole(received.states)["t"][0])


WORKED = {f"key{number}": [-1 if number == 7 else number] for number in range(KEYS)}


@pytest.fixture
def quiet(way: Way) -> Iterator[None]:
    yield
    while store_files._OPEN:
        store_files._OPEN.popitem()[1].close()


def test_a_store_goes_ahead_and_then_the_rows_that_are_new(quiet, tmp_path: Path):
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
def test_where_rows_are_of_no_use_the_whole_is_sent(quiet, tmp_path: Path, what: str):
    way = StoreWay(tmp_path, keeps_stores=what != "no stores there")
    before = way.pointer
    if what == "taken back":
        way.work()
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


# -- on disk -----------------------------------------------------------------------------------------------------------


def test_files_beside_checkpoints_grow_piece_by_piece_and_go_with_them(tmp_path):
    store = SlotStore(tmp_path, tmp_path / "slot-0")
    files: FilesBeside = store.files
    assert files.size("h", "coming-copy-1") is None and files.stamp("h", "coming-copy-1") is None
    files.append("h", "coming-copy-1", b"abcdef", at=0)
    files.append("h", "coming-copy-1", b"DE", at=3)  # what was cut short before is written again
    assert files.read("h", "coming-copy-1") == b"abcDE" and files.read("h", "coming-copy-1", 3, 1) == b"D"
    assert files.kinds("h", "coming-") == ("coming-copy-1",)
    files.rename("h", "coming-copy-1", "copy")
    stamp = files.stamp("h", "copy")
    files.write("h", "copy", b"abcDF")
    assert files.stamp("h", "copy") != stamp and files.size("h", "copy") == 5
    files.write("h", "received", b"{}")
    files.date("h", "received", 1_234)
    assert store.received_ms("h") == 1_234
    store.remove_checkpoint("h")
    assert files.kinds("h", "") == ()
    files.write("i", "ahead", b"for a move that nobody wants any more")
    assert store.sweep(now_s=4e9, grace_s=60) == [] and files.size("i", "ahead") is None


def test_a_state_is_about_as_large_as_the_largest_of_spark_s_files_of_it(tmp_path):
    store = SlotStore(tmp_path, tmp_path / "slot-0")
    store.files.write("h", "begun", b"x" * 30)
    assert store.state_bytes("h") == 30
    for operator, sizes in ((0, (100, 5)), (1, (7, 0))):
        folder = store.checkpoint("h") / "state" / str(operator) / "0"
        folder.mkdir(parents=True)
        for version, size in enumerate(sizes):
            (folder / f"{version}.changelog").write_bytes(b"x" * size)
    assert store.state_bytes("h") == 107
