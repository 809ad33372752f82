"""Rows of keys go ahead to a bundle of another node, then what is new of them at last, whoever dies; nothing else."""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import pytest
import redis
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.contracts.desired import DesiredState, WantedFragment, WantedSlot
from scheduler.contracts.savepoints import RestorePoint, Savepoint
from scheduler.model.ring import KEY_GROUPS, key_group
from workers.engine.agents.node_files.fold_stores import LeftKeys
from workers.engine.agents.reconciling.started_fragments import SlotStore
from workers.engine.agents.transport import copies_ahead, gifts, news, state_transport, store_copies
from workers.engine.agents.transport.ahead import CopyLimits
from workers.engine.agents.transport.parcels import MANIFEST, WINDOW, FilesBeside, offer, parcel_of
from workers.engine.agents.transport.state_transport import StateTransport
from workers.engine.channels import keys
from workers.library.pieces import States
from workers.library.state_store import VERSIONS, StoreLocation

from ...channels.played_redis import PlayedRedis
from .mortal import Died, Mortal
from .test_rows_ahead import forget_connections

GIVERS = ("f1-0", "f1-1")
RANGES = {"f1-0": ((0, KEY_GROUPS // 4),), "f1-1": ((KEY_GROUPS // 2, KEY_GROUPS // 4),)}
HEIR = WantedFragment(
    "f2-0", (), inherits=GIVERS, key_ranges=(*RANGES["f1-0"], *RANGES["f1-1"]), takes=RANGES, remote_givers=GIVERS)
GIVES = DesiredState(node="n1", slots={"0": WantedSlot(tuple(WantedFragment(name, ()) for name in GIVERS))},
                     takers=(HEIR,))
TAKES = DesiredState(node="n2", slots={"0": WantedSlot((HEIR,))})
NAMES = [f"key{number}" for number in range(300)]
LIMITS = CopyLimits(least_bytes=1, small_bytes=0, most_rounds=4, shrinks_to=9.0)


class Node(Mortal):
    """Two bundles on one node, which give some of their keys to one of another, and work on or end."""

    RISK = 0.01

    def __init__(self, folder: Path, chance: random.Random, patch: pytest.MonkeyPatch) -> None:
        self.chance, self.deadly, self.now_ms, self.seen = chance, True, 0, Counter()
        self.broker = PlayedRedis(self.may_die)
        self.here, self.there = (SlotStore(folder / name, folder / name / "slot-0") for name in ("n1", "n2"))
        self.places = {name: StoreLocation(str(self.here.fold_stores.folder), f"{name}.t-0", large=0)
                       for name in GIVERS}
        self.pointers = {
            name: place.create({key: {"n": 0} for key in NAMES}, {}) for name, place in self.places.items()}
        for name, pointer in self.pointers.items():
            self.here.record_begun(name, RestorePoint(states={"t": [str(pointer)]}))
        for owner, name in ((FilesBeside, "write"), (FilesBeside, "rename"), (FilesBeside, "append"),
                            (FilesBeside, "drop"), (store_copies, "put_changes"), (store_copies, "put_copy")):
            patch.setattr(owner, name, self._deadly(getattr(owner, name)))
        quiet = SimpleNamespace(info=self._note, warning=lambda *_, **__: None)
        for module in (state_transport, copies_ahead, gifts, news):
            patch.setattr(module, "logger", lambda: quiet)
        self.start()

    def _note(self, what: str, **facts: object) -> None:
        if what == "keys sent":
            self.seen["whole" if facts["is_whole"] else "rows"] += 1

    def start(self) -> None:
        """Both slots start anew."""
        self.transports = [
            StateTransport(self.broker, store, clock_ms=lambda: self.now_ms, limits=LIMITS, piece_bytes=2_000)
            for store in (self.here, self.there)]

    def turn(self) -> None:
        self.now_ms += 300
        side = self.chance.randrange(2)
        try:
            self.transports[side].turn((GIVES, TAKES)[side], "0")
        except Died:
            self.start()

    def work(self, name: str, node_keys: list[str]) -> None:
        """A batch; now and then Spark does not hear of it."""
        batch = self.places[name].begin(self.pointers[name])
        states = States(batch, {})
        for key in node_keys:
            states.get(key)["n"] += 1
        states.save()
        made = batch.commit()
        if self.chance.random() < 0.9:
            self.pointers[name] = made

    def is_near(self) -> bool:
        return all(self.there.has(keys.gift_name(name, HEIR.id), "near") for name in GIVERS)

    def has_come(self) -> bool:
        return all(self.there.ended(keys.gift_name(name, HEIR.id)) for name in GIVERS)

    def taken(self, *givers: str) -> dict:
        """What the heir begins with, if it takes keys of these."""
        left = {name: LeftKeys(self.there.ended(keys.gift_name(name, HEIR.id)).states, RANGES[name], is_final=True)
                for name in givers}
        stores = self.there.fold_stores
        return json.loads(stores.whole(stores.keys_taken(HEIR.id, left))["t"][0])


def is_given(name: str, key: str) -> bool:
    [(first, size)] = RANGES[name]
    return first <= key_group(key) < first + size


def play(folder: Path, seed: int) -> Counter[str]:
    with pytest.MonkeyPatch.context() as patch:
        node = Node(folder, chance := random.Random(seed), patch)
        for number in range(3_000):
            node.deadly = number < 600
            node.turn()
            if chance.random() < 0.3:
                node.work(chance.choice(GIVERS), chance.sample(NAMES, 20))
            if node.is_near():
                break
        assert node.is_near(), "the heir waits for ever"
        node.deadly, expected = chance.random() < 0.7, {}
        for name in GIVERS:
            [states] = node.here.fold_stores.whole({"t": [str(node.pointers[name])]})["t"]
            expected |= {key: state for key, state in json.loads(states).items() if is_given(name, key)}
        ends = Savepoint(states={"t": [str(node.pointers["f1-1"])]})
        node.here.record_ended("f1-1", ends)  # it leaves, and the other one works on
        node.here.record_ended(keys.gift_name("f1-0", HEIR.id), Savepoint(states={"t": [str(node.pointers["f1-0"])]}))
        others = [key for key in NAMES if not is_given("f1-0", key)]
        for number in range(3_000):
            node.deadly = node.deadly and number < 300
            if number < VERSIONS + 5:
                node.work("f1-0", chance.sample(others, 5))
            node.turn()
            if node.has_come():
                break
        node.deadly = False
        assert node.taken(*GIVERS) == node.taken(*GIVERS) == expected
        for name in GIVERS:
            assert node.taken(name) == {key: state for key, state in expected.items() if is_given(name, key)}
        check_that_it_is_over(node)
        return node.seen


def check_that_it_is_over(node: Node) -> None:
    """Once the heir has begun each node hears of the other, and nothing is left of the gifts but what the heir has."""
    node.there.record_begun(HEIR.id, RestorePoint())
    for _ in range(200):
        node.turn()
    assert node.here.taken() == {HEIR.id}
    for store in (node.here, node.there):
        assert {path.name for path in store.files.folder.glob("*--*")} == set()
    assert not [key for key in node.broker.hashes if b"--" in key]


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32))
def test_what_an_heir_takes_is_what_was_given_whoever_dies(seed: int):
    try:
        with TemporaryDirectory() as folder:
            play(Path(folder), seed)
    finally:
        forget_connections()


def test_most_gifts_are_the_rows_that_are_new(tmp_path: Path):
    seen = sum((play(tmp_path / str(seed), seed) for seed in range(6)), Counter())
    forget_connections()
    assert seen["rows"] > seen["whole"]


def test_gifts_share_a_window():
    broker = PlayedRedis(lambda: None)
    text = b"x" * 10 * WINDOW
    parcel = parcel_of(len(text), lambda first, length: text[first : first + length], piece_bytes=1)
    for sharing in (1, 4, 10 * WINDOW):
        offer(broker, f"weir:handover:{sharing}", parcel, expires_s=60, sharing=sharing)
        assert len(broker.hgetall(f"weir:handover:{sharing}")) - 1 == max(1, WINDOW // sharing)
    assert broker.hget("weir:handover:4", MANIFEST) is not None


@pytest.mark.parametrize("refused", [3, 99])
def test_a_gift_that_may_not_be_read_yet_is_read_later_and_told_only_where_that_lasts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: int
) -> None:
    warned: list[str] = []
    monkeypatch.setattr(state_transport, "logger", lambda: SimpleNamespace(
        info=lambda *_, **__: None, warning=lambda _what, **facts: warned.append(facts["why"])))
    broker, store = PlayedRedis(), SlotStore(tmp_path / "n2", tmp_path / "n2" / "slot-0")
    gift, attempts = keys.gift_name("f1-0", HEIR.id), itertools.count()
    broker.hset(keys.handover(gift), "near", 1)

    def fields(broker: PlayedRedis, key: str, *names: str, read=gifts.fields_of) -> list[bytes | None]:
        if key == keys.handover(gift) and next(attempts) < refused:
            raise redis.exceptions.NoPermissionError("No permissions to access a key")
        return read(broker, key, *names)

    monkeypatch.setattr(gifts, "fields_of", fields)
    transport = StateTransport(broker, store, clock_ms=iter(range(0, 10**9, 50)).__next__)
    for _ in range(500):
        transport.turn(TAKES, "0")
    assert store.has(gift, "near")
    assert warned == ([] if refused < 9 else ["NoPermissionError: No permissions to access a key"])
