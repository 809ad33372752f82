"""What a slot of another node forged, with checksums that are good: it stops its own query alone, and opens nothing."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from scheduler.contracts.copy_reports import COPY_REPORTS, CopyReport
from scheduler.contracts.desired import DesiredState, Input, WantedFragment, WantedSlot
from scheduler.contracts.offsets import Offset
from scheduler.contracts.savepoints import SAVEPOINTS, Savepoint
from workers.engine.agents.reconciling.started_fragments import SlotStore
from workers.engine.agents.transport import parcels
from workers.engine.agents.transport.copies_ahead import OF_NO_USE
from workers.engine.agents.transport.differences import difference, put_together
from workers.engine.agents.transport.parcels import (
    DISK_LEFT_BYTES,
    MANIFEST_BYTES,
    PIECE_BYTES,
    check_of,
    offer,
    parcel_of,
)
from workers.engine.agents.transport.state_transport import StateTransport
from workers.engine.channels import keys
from workers.engine.channels.batch_ranges import begin_ranges, kept_from, place_of, recorded_behind
from workers.engine.channels.channel_registry import Channels
from workers.library.state_store import StoreLocation

from ...channels.played_redis import PlayedRedis
from .ahead_rig import COMES, StoreWay
from .test_gifts import HEIR, TAKES

HEAD = {"stores": ["s"], "marks": [[1, 0]]}
ROW = [0, "owner", "part", "member", None, "1"]


def stores(*rows: object, **facts: object) -> bytes:
    return "\n".join(map(json.dumps, ({**HEAD, **facts}, *rows))).encode()


AHEAD = {
    "no marks": b'{"stores": ["s"]}',
    "stores that are none": b'{"stores": 5, "marks": 5}',
    "a line that is none": stores(ROW) + b"\n" + b"[" * 100_000,
    "a store that it does not have": stores([7, *ROW[1:]]),
    "an owner that is none": stores([0, None, *ROW[2:]]),
    "a value that is none": stores([*ROW[:5], {}]),
    "a number that is too large": stores(ROW, marks=[[10**30, 0]]),
    "too many values": stores([*ROW, 1]),
    "another folder": stores(ROW, copy="/../../../other"),
    "a copy that is none": stores(ROW, copy=5)}


@pytest.mark.parametrize("name", AHEAD)
def test_what_goes_ahead_and_is_none_is_of_no_use(tmp_path: Path, name: str) -> None:
    way = StoreWay(tmp_path)
    sent(way.broker, keys.ahead("h"), AHEAD[name])
    taken(way, keys.ahead("h"))
    assert way.broker.hget(keys.ahead("h"), "stored") == OF_NO_USE
    assert [path for path in tmp_path.rglob("*other*")] == []


TEXTS = {
    "no base at all": (b"", {}),
    "too few bytes": (b"x", {"whole": check_of(b"")}),
    "rows that are none": (b"[]", {"rows": True}),
    "rows without a record": (stores(ROW), {"rows": True}),
    "a record that is none": (stores(ROW, record={"states": 5}), {"rows": True})}


@pytest.mark.parametrize("name", TEXTS)
def test_what_is_new_and_is_none_is_asked_for_whole(tmp_path: Path, name: str) -> None:
    way = StoreWay(tmp_path)
    old = SAVEPOINTS.dumps(Savepoint()).encode()
    sent(way.broker, keys.ahead("h"), old)
    taken(way, keys.ahead("h"))
    text, facts = TEXTS[name]
    sent(way.broker, keys.handover("a"), text or difference(old, old), base=check_of(old)["sha256"], **facts)
    taken(way, keys.handover("a"))
    assert way.there.received("h") is None and way.broker.hget(keys.handover("a"), "refused")


def test_a_gift_has_no_states_of_another_query_of_the_heir_s_node(tmp_path: Path) -> None:
    """Its version and token need not be known: of a gift the newest is taken."""
    broker, store = PlayedRedis(), SlotStore(tmp_path / "n2", tmp_path / "n2" / "slot-0")
    other = StoreLocation(str(store.fold_stores.folder), "f9-0.t-0", large=0).create({"secret": [1]}, {})
    record = SAVEPOINTS.dumps(Savepoint(states={"t": [str(replace(other, version=5, token="?"))]})).encode()
    gift = keys.gift_name("f1-0", HEIR.id)
    transport = StateTransport(broker, store, clock_ms=iter(range(0, 10**9, 1_000)).__next__)
    for text, is_good in ((record, False), (SAVEPOINTS.dumps(Savepoint(states={"t": ["{}"]})).encode(), True)):
        sent(broker, keys.handover(gift), text)
        for _ in range(20):
            transport.turn(TAKES, "0")
        assert (store.ended(gift) is not None) == is_good


def test_a_record_has_no_states_of_another_query_either(tmp_path: Path) -> None:
    way = StoreWay(tmp_path)
    sent(way.broker, keys.handover("a"), SAVEPOINTS.dumps(way.record).encode())
    taken(way, keys.handover("a"))
    assert way.there.received("h") is None


def test_a_difference_of_a_few_bytes_does_not_become_a_thousand_times_as_much() -> None:
    old, times = b"0123456789" * 10_000, 1_000
    change = struct.pack("<QQ", times, len(old)) + struct.pack("<qQ", 0, len(old)) * times
    with pytest.raises(ValueError, match="too much"):
        put_together(old, change)


LONG = PIECE_BYTES + 1
PIECES = {  # of a file: how long it says that it is and its second piece, spaces behind the manifest, the first piece
    "good": (2, 1, 0, b"x"), "lengths that do not add up": (9, 1, 0, b"x"),
    "longer than a disk": (10**9, 10**5, 0, b"x"),
    "a piece that says that it is long": (1 + LONG, LONG, 0, b"x"), "a piece that is long": (2, 1, 0, b"x" * LONG),
    "a manifest that is long": (2, 1, MANIFEST_BYTES, b"x")}


@pytest.mark.parametrize("name", PIECES)
def test_pieces_come_as_far_as_they_may(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    says, second, spaces, first = PIECES[name]
    way, key = StoreWay(tmp_path), keys.handover("a")
    count = 1 + (says > 10**8) * (says // second)
    manifest = {**check_of(b""), "length": 1 + count * second if count > 1 else says, "pieces": [
        check_of(b"x"), *[{**check_of(b""), "length": second}] * count]}
    way.broker.hset(key, mapping={"manifest": json.dumps(manifest) + " " * spaces, "piece:0": first})
    read: list[int] = []
    monkeypatch.setattr(parcels, "check_of", lambda text: read.append(len(text)) or check_of(text))
    monkeypatch.setattr(parcels.shutil, "disk_usage", lambda _: SimpleNamespace(free=DISK_LEFT_BYTES + 10**8))
    taken(way, key)
    assert bool([*tmp_path.rglob("*coming*")]) == (name == "good")
    assert max(read, default=0) <= PIECE_BYTES, "what is longer is not read"


@pytest.mark.parametrize(
    "facts", [{}, {"length": 1, "pieces": [check_of(b"x")], "whole": {**check_of(b""), "length": 2}}])
def test_what_would_not_have_room_in_the_memory_of_a_slot_does_not_begin_to_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, facts: dict
) -> None:
    """Neither a file nor what is made of it: whoever goes on with it has all of it in memory."""
    way, key = StoreWay(tmp_path), keys.handover("a")
    manifest = {**check_of(b""), "length": 2, "pieces": [check_of(b"x")] * 2, **facts}
    way.broker.hset(key, mapping={"manifest": json.dumps(manifest), "piece:0": b"x"})
    monkeypatch.setattr(parcels, "MOST_BYTES", 1)
    taken(way, key)
    assert not [*tmp_path.rglob("*coming*")]
    monkeypatch.setattr(parcels, "MOST_BYTES", 2)
    taken(way, key)
    assert [*tmp_path.rglob("*coming*")] or facts


PLACES = ('{"c.0":"4-0"}', '{"c.0":"6-0"}')


@pytest.mark.parametrize("name", ["round and round", "ends that are none", "kept from", "control", "a copy"])
def test_ranges_of_a_lost_node_that_are_none_stop_no_other(tmp_path: Path, name: str) -> None:
    broker, store = PlayedRedis(), SlotStore(tmp_path / "n2", tmp_path / "n2" / "slot-0")
    heir = WantedFragment("f2-0", (), inputs=(Input("c.0", "s"),), inherits=("f1-1",), origin="n1")
    channels, copied = Channels(broker), Savepoint(offsets={"c.0": Offset("4-0")}, repeats=1)
    channels.open_channel("c.0", schema_json="{}")
    begin_ranges(broker, channels, "f1-1", PLACES[0], copied.offsets)
    held = "{" if name == "a copy" else SAVEPOINTS.dumps(copied)
    store.files.write("f1-1--n2", "held", held.encode())
    broker.hset(keys.copies("f1-1"), "n2", COPY_REPORTS.dumps(CopyReport(7)))
    broker.hset(keys.LOST, "n1", 1)
    ranges, valve = keys.ranges("f1-1"), keys.valve("f1-1")
    key, fields = {
        "round and round": (ranges, {f"from:{PLACES[0]}": PLACES[1], f"from:{PLACES[1]}": PLACES[0]}),
        "ends that are none": (ranges, {f"from:{PLACES[0]}": "x", "next": "x"}),
        "kept from": (ranges, {"kept_from": "-"}), "control": (valve, {"wave:x": "1", "0:from": "y"}),
        "a copy": (valve, {"paused": "1"})}[name]
    broker.hset(key, mapping=fields)
    transport = StateTransport(broker, store, clock_ms=iter(range(0, 10**9, 1_000)).__next__)
    for _ in range(3):
        transport.turn(DesiredState(node="n2", slots={"0": WantedSlot((heir, *COMES.wanted.values()))}), "0")
    assert (store.received("f2-0") is not None) == (name == "kept from")
    assert kept_from(broker, "f1-1") == 0
    if name == "round and round":
        assert recorded_behind(broker, "f1-1", place_of(copied)) is None


def sent(broker: PlayedRedis, key: str, text: bytes, **facts: object) -> None:
    parcel = parcel_of(len(text), lambda first, length: text[first : first + length], piece_bytes=1 << 18, **facts)
    broker.delete(key)
    offer(broker, key, parcel, expires_s=60)


def taken(way: StoreWay, key: str) -> None:
    for _ in range(20):
        way.now_ms += 1_000
        way.transports[1].turn(COMES, "0")
    assert way.broker.hget(key, "manifest")
