"""Rows of keys come ahead in rounds while batches go on or are repeated; what is taken at last is what was left."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.contracts.desired import DesiredState, WantedFragment
from scheduler.contracts.offsets import Offset
from scheduler.model.ring import KEY_GROUPS, Ring, key_group
from workers.engine.agents.node_files.checkpoint import CheckpointProgress
from workers.engine.agents.node_files.fold_stores import FOLDER, FoldStores, LeftKeys
from workers.engine.agents.reconciling import broker_instructions as on
from workers.engine.agents.reconciling import instructions as do
from workers.engine.agents.reconciling.decisions import decide
from workers.engine.agents.reconciling.delays import STANDBY_MS
from workers.engine.agents.reconciling.reconcile import BringKeys, CopyState, DivideStream, FragmentState, Leave, Start
from workers.engine.agents.reconciling.snapshot import READY, Records
from workers.engine.agents.supervising.key_patterns import READ_ONLY, known_fragments, of_fragments
from workers.engine.channels import keys
from workers.library.pieces import States
from workers.library.state import fold_name
from workers.library.state_store import VERSIONS, Pointer, StoreLocation, read_whole
from workers.library.store_files import StateLost
from workers.library.watermarks import start

from .looked_at import HEIR, READER, SOURCE, info, of_kind, snapshot, wanting

PARTS = {"held": int}
KEYS = [f"k{number}" for number in range(8)]
HALF = KEY_GROUPS // 2
EARLY, LATE = [[key for key in KEYS if (key_group(key) < HALF) is is_early] for is_early in (True, False)]
RANGES = {"f1-0": ((0, HALF),), "f1-1": ((HALF, HALF),)}  # of each giver's keys that the heir takes
OWN = {"f1-0": EARLY, "f1-1": LATE}
STAYS = {"f1-0": LATE, "f1-1": EARLY}  # keys that a giver has besides, or had


@dataclass
class Giver:
    """A bundle whose batches Spark takes, does not hear of, or that die; and the pointer that Spark has."""

    name: str
    folder: Path
    pointer: Pointer = field(init=False)

    def __post_init__(self) -> None:
        place = StoreLocation(str(self.folder / FOLDER), f"{self.name}.{fold_name('t', 0)}")
        self.pointer = place.create({key: {"held": {"x": 1}, "n": 0} for key in KEYS}, PARTS)

    def batch(self, keys: list[str], value: int, end: str) -> None:
        batch = StoreLocation(str(self.folder / FOLDER), "").begin(self.pointer)
        states = States(batch, PARTS)
        for key in keys:
            state = states.get(key)
            state["n"] += value
            if value % 3:
                state["held"][f"m{value}"] = value
            else:
                state["held"].clear()
        states.save()
        if end == "died":
            batch.roll_back()
        else:
            made = batch.commit()
            self.pointer = made if end == "done" else self.pointer

    def of(self, keys: list[str]) -> dict:
        states = json.loads(read_whole(self.folder / FOLDER, self.pointer))
        return {key: states[key] for key in keys}


places = st.lists(st.integers(0, 3), max_size=3)
ends = st.sampled_from(("done", "done", "unheard", "died"))
steps = st.lists(st.one_of(
    st.just("round"), st.tuples(st.sampled_from(sorted(RANGES)), places, st.integers(1, 9), ends)), max_size=8)


@settings(deadline=None, max_examples=15)
@given(before=steps, after=st.lists(st.tuples(places, st.integers(1, 9), ends), max_size=3), taken_twice=st.booleans())
def test_an_heir_takes_the_states_that_were_left_whatever_came_ahead(before, after, taken_twice):
    with TemporaryDirectory() as folder:
        (Path(folder) / "checkpoints").mkdir()
        stores, givers = FoldStores(Path(folder)), {name: Giver(name, Path(folder)) for name in RANGES}
        for step in before:
            if step == "round":
                stores.bring_keys("f2-0", RANGES)
            else:
                name, part, value, end = step
                givers[name].batch([KEYS[place * 2 % len(KEYS)] for place in part], value, end)
        expected = {key: state for name in RANGES for key, state in givers[name].of(OWN[name]).items()}
        left = {name: LeftKeys({"t": [str(giver.pointer)]}, RANGES[name], name == "f1-0")
                for name, giver in givers.items()}
        for part, value, end in after:  # the first works on with keys that it has left, the other one has ended
            givers["f1-0"].batch([STAYS["f1-0"][place % len(LATE)] for place in part], value, end)
        gifts = {}
        for part in left.values():
            [text] = stores.given(part.states, part.ranges, is_final=part.is_final)["t"]
            gifts |= json.loads(text)
        assert gifts == expected, "so much goes to an heir of another node"
        for _ in range(1 + taken_twice):  # a slot that was killed does it again
            [text] = stores.keys_taken("f2-0", left)["t"]
        assert json.loads(read_whole(Path(folder) / FOLDER, Pointer.read(text))) == expected
        if "round" in before:  # a fold that begins with it finds the rows there
            assert stores.works_with("f2-0") == {}, "while it has not begun nobody takes its rows"


def test_rounds_bring_only_what_has_changed(tmp_path: Path):
    (tmp_path / "checkpoints").mkdir()
    stores, giver = FoldStores(tmp_path), Giver("f1-0", tmp_path)
    takes = {"f1-0": ((0, KEY_GROUPS),)}
    whole = stores.bring_keys("f2-0", takes)
    assert stores.bring_keys("f2-0", takes) == 0
    giver.batch(KEYS[:1], 1, "done")
    assert 0 < stores.bring_keys("f2-0", takes) < whole / 4


def test_states_that_are_texts_and_rows_are_taken_as_one_text(tmp_path: Path):
    (tmp_path / "checkpoints").mkdir()
    stores, giver = FoldStores(tmp_path), Giver("f1-0", tmp_path)
    stores.bring_keys("f2-0", {"f1-0": RANGES["f1-0"]})
    text = json.dumps({key: {"held": {}, "n": 5} for key in KEYS})
    left = str(giver.pointer)
    for _ in range(VERSIONS + 2):  # it works on, and the text comes late, as from another node
        giver.batch(LATE[:1], 1, "done")
    states = stores.keys_taken("f2-0", {
        "f1-0": LeftKeys({"t": [left]}, RANGES["f1-0"], is_final=True),
        "f1-1": LeftKeys({"t": [text]}, RANGES["f1-1"]),
        "f1-2": LeftKeys({"t": [None]}, ((0, 1),))})
    taken = json.loads(states["t"][0])
    assert {key: state["n"] for key, state in taken.items()} == dict.fromkeys(EARLY, 0) | dict.fromkeys(LATE, 5)


def test_what_goes_by_marks_is_taken_at_last_with_the_keys_of_one_state(tmp_path: Path):
    """Its store has one owner, whose key group says nothing of the keys in it."""
    (tmp_path / "checkpoints").mkdir()
    stores = FoldStores(tmp_path)
    state = start() | {"keys": {key: {"open": {}} for key in KEYS}}
    pointers = {
        giver: StoreLocation(str(tmp_path / FOLDER), f"{giver}.{fold_name('t', 0)}").create({"null": state}, {
            "keys": lambda _: None}) for giver in RANGES}
    assert stores.bring_keys("f2-0", RANGES) == 0
    [text] = stores.keys_taken(
        "f2-0", {giver: LeftKeys({"t": [str(pointer)]}, RANGES[giver]) for giver, pointer in pointers.items()})["t"]
    assert sorted(json.loads(text)["null"]["keys"]) == KEYS
    [text] = stores.keys_taken("f2-0", {"f1-0": LeftKeys({"t": [str(pointers["f1-0"])]}, RANGES["f1-0"])})["t"]
    assert sorted(json.loads(text)["null"]["keys"]) == sorted(EARLY)


def test_a_round_of_a_store_that_is_gone_waits_and_the_last_one_says_so(tmp_path: Path):
    (tmp_path / "checkpoints").mkdir()
    stores, giver = FoldStores(tmp_path), Giver("f1-0", tmp_path)
    for path in (tmp_path / FOLDER).glob("f1-0.*"):
        path.unlink()
    assert stores.bring_keys("f2-0", RANGES) == 0
    with pytest.raises(StateLost):
        stores.keys_taken("f2-0", {"f1-0": LeftKeys({"t": [str(giver.pointer)]}, RANGES["f1-0"])})


# -- when a bundle is ready, and what its writers wait for ------------------------------------------------------------

TAKER = replace(HEIR, key_ranges=((0, HALF),))
STANDS = Records(progress=CheckpointProgress(0, True), standby=())


def test_who_waits_for_its_keys_brings_rows_meanwhile_and_stands_by():
    desired = wanting(TAKER, outgoing=(READER,))
    waits = snapshot(TAKER, FragmentState.WAITING, has_handover_lock=True, desired=desired)
    assert decide(waits, Start(TAKER))[-1] == do.Again(BringKeys(TAKER))
    leaving = replace(TAKER, leaving=True)
    assert decide(replace(waits, desired=wanting(leaving, outgoing=(READER,))), Start(leaving)) == (do.Wait(60_030),)


@pytest.mark.parametrize(("facts", "comes"), [
    ({}, "round"), ({"rounds": (9 << 20,)}, "round"), ({"rounds": (9 << 20, 5 << 20)}, "round"),
    ({"rounds": (9 << 20, 5 << 20, 9_000)}, "ready"), ({"rounds": (9 << 20, 8 << 20)}, "ready"),
    ({"rounds": (9,), "brought_ms": 59_900, "controls": {"f2-0": {READY: "1"}}}, "nothing"),
    ({"rounds": (9,), "brought_ms": 59_000, "controls": {"f2-0": {READY: "1"}}}, "round"),
    ({"rounds": (9,), "is_ahead": False}, "round"),
    ({"rounds": (9,), "brought_ms": 59_900, "is_ahead": False}, "nothing"),
    ({"has_lock": False}, "nothing"), ({"standby": None, "since_ms": 60_000}, "nothing"),
    ({"standby": None, "records": Records(), "since_ms": 60_000 - STANDBY_MS}, "round"),
    ({"records": Records(progress=CheckpointProgress(0, False), standby=())}, "nothing"),
], ids=str)
def test_a_bundle_is_ready_when_it_stands_by_and_rounds_are_short(facts, comes):
    waits = replace(snapshot(TAKER, FragmentState.WAITING, since_ms=60_000, standby=TAKER, records=STANDS), **facts)
    steps = decide(waits, BringKeys(TAKER))
    assert [type(step) for step in steps[:-1]] == {"round": [do.BringRows], "ready": [on.MarkReady], "nothing": []}[
        comes]
    assert steps[-1] == do.Wait(60_030)


def test_who_gives_keys_away_reads_what_came_before_soon():
    giver = replace(READER, writers={})
    records = Records(chain=giver, progress=CheckpointProgress(3, True, None, {"f1-0.0": Offset("6-0")}))
    behind = snapshot(
        giver, FragmentState.RUNNING, has_query=True, records=records, desired=wanting(giver),
        channels={"f1-0.0": info("f1-0.0", last=Offset("7-0"), readers={"f1-1": Offset("6-0")})},
        ends={"f2-0": {"f1-0.0": Offset("7-0")}})
    behind = replace(behind, actual=replace(behind.actual, trigger_ms=500))
    gives, later = CopyState(giver, heir=TAKER), do.RetryAt(60_030)
    assert decide(behind, gives) == (on.SetPace(100), do.InForce(trigger_ms=100), later)
    assert decide(replace(behind, actual=replace(behind.actual, trigger_ms=100)), gives) == (later,), "once"
    done = replace(behind, ends={"f2-0": {"f1-0.0": Offset("6-0")}})
    assert decide(done, gives) == (do.HoldQuery(), do.Again(gives))


def test_writers_divide_by_the_new_ring_once_who_takes_keys_is_ready():
    ring = Ring(("k",), {0: "f2-0", HALF: "f1-1"})
    writer = replace(SOURCE, routes={0: {"f1-1": ring}}, heirs={"f2-0": ("f1-1",)})
    waits = snapshot(
        writer, FragmentState.RUNNING, has_query=True, channels={"f1-0.0": info("f1-0.0")}, desired=wanting(writer),
        controls={"f1-1": {"routes": "0"}, "f2-0": {"gate": "0"}})
    route = DivideStream("f1-0", 0, "f1-1", ring)
    steps = decide(waits, route)
    assert of_kind(steps, on.OpenPart) and not of_kind(steps, on.SetRoute), "it can stand by, and nobody waits for it"
    ready = replace(waits, controls={**waits.controls, "f2-0": {READY: "1"}})
    assert of_kind(decide(ready, route), on.SetRoute)


def test_writers_may_read_whether_bundles_on_other_nodes_are_ready():
    writer = replace(SOURCE, routes={0: {"f1-1": Ring(("k",), {0: "f2-0", HALF: "f1-5"})}}, heirs={"f2-0": ("f1-1",)})
    patterns = of_fragments([writer])
    assert {f"{READ_ONLY}{keys.valve(name)}" for name in ("f2-0", "f1-5", "f1-1")} <= patterns
    assert keys.valve("f2-0") not in patterns


def test_who_leaves_has_left_once_other_nodes_have_begun_with_what_it_gave():
    leaving = replace(READER, leaving=True)
    taker = WantedFragment("f2-0", (), inherits=(READER.id,), key_ranges=((0, HALF),))
    ended = snapshot(
        leaving, records=Records(progress=CheckpointProgress(3, True), has_ended=True),
        desired=replace(wanting(leaving), takers=(taker,)))
    assert not of_kind(decide(ended, Leave(leaving)), do.RecordLeft)
    assert of_kind(decide(replace(ended, taken=frozenset({"f2-0"})), Leave(leaving)), do.RecordLeft)


def test_slots_touch_gifts_of_their_nodes_and_read_whether_takers_are_ready():
    taker = WantedFragment("f2-0", (), inherits=("f1-0",), key_ranges=((0, HALF),))
    gift = keys.gift_name("f1-0", "f2-0")
    of_gift = {keys.handover(gift), keys.ahead(gift)}
    given_here = of_fragments(known_fragments(DesiredState(node="n1", takers=(taker,))).values())
    assert given_here == {*of_gift, f"{READ_ONLY}{keys.valve('f2-0')}"}
    assert of_gift <= of_fragments([replace(HEIR, key_ranges=((0, HALF),), remote_givers=("f1-0",))])


def test_a_writer_that_starts_again_divides_as_before_until_who_takes_keys_is_ready():
    before, ring = Ring(("k",), {0: "f1-1"}), Ring(("k",), {0: "f2-0", HALF: "f1-1"})
    writer = replace(SOURCE, outlets={}, routes={0: {"f1-1": ring}}, heirs={"f2-0": ("f1-1",)})
    control = {"0:route:f1-1:3": json.dumps(before.document())}
    starts = snapshot(
        writer, FragmentState.STARTING, is_compiled=True, desired=wanting(writer),
        controls={"f1-0": control, "f1-1": {"routes": "0"}, "f2-0": {"gate": "0"}},
        records=Records(progress=CheckpointProgress(7, True), has_begun=True))
    steps = decide(starts, Start(writer))
    assert steps[-1].routes == {0: {"f1-1": before}} and not of_kind(steps, on.SetRoute)
    assert {step.bundle for step in of_kind(steps, on.OpenPart)} == {"f1-1", "f2-0"}
    ready = decide(replace(starts, controls={**starts.controls, "f2-0": {READY: "1"}}), Start(writer))
    assert ready[-1].routes == {0: {"f1-1": ring}} and len(of_kind(ready, on.SetRoute)) == 1
