"""What a query leaves goes to another node: ahead, in rounds, as a difference and whole, in pieces, over losses and
restarts. State by key is in ``test_rows_ahead.py``."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from scheduler.contracts.savepoints import RestorePoint
from workers.engine.agents.reconciling.started_fragments import SlotStore
from workers.engine.agents.transport import copies_ahead, parcels, state_transport
from workers.engine.agents.transport.claims import claim, withdraw
from workers.engine.agents.transport.copies_ahead import OF_NO_USE
from workers.engine.agents.transport.parcels import FilesBeside
from workers.engine.agents.transport.state_transport import Elsewhere
from workers.engine.channels import keys

from .ahead_rig import COMES, KEYS, LEAVES, ROUNDS, Way, state


@pytest.fixture
def way(monkeypatch: pytest.MonkeyPatch) -> Way:
    quiet = SimpleNamespace(info=lambda *_, **__: None, warning=lambda *_, **__: None)
    for module in (state_transport, copies_ahead):
        monkeypatch.setattr(module, "logger", lambda: quiet)
    return Way()


@pytest.fixture
def in_rounds(way: Way) -> Way:
    """The same, where less has to be left before a fragment may end."""
    way.limits = ROUNDS
    way.start()
    return way


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


def test_what_was_written_meanwhile_goes_in_rounds_until_that_is_little(in_rounds):
    way = in_rounds
    way.copy()
    rounds = [(1, 700), (1, 300)]
    for number in (1, 2):
        assert way.turns() == Elsewhere(to_copy=frozenset("h"))
        way.round(*rounds[:number])
        assert way.turns(1) == Elsewhere(), "it is on its way"
    assert way.turns() == Elsewhere(to_copy=frozenset("h"))
    assert way.there.files.read("h", "copy") == way.here.files.read("h", "ahead")
    way.round(*rounds, (1, 1))
    assert way.turns() == Elsewhere(ready=frozenset("h"))
    way.here.record_ended("a", state(*rounds, but=4))
    way.turns()
    assert way.there.received("h") == state(*rounds, but=4)
    assert way.manifest["length"] < way.manifest["whole"]["length"] / 5
    way.there.record_begun("h", RestorePoint())
    way.turns(5)
    assert not way.broker.hashes and not way.here.files.texts and not way.there.files.texts


def test_rounds_that_become_no_less_come_to_an_end(in_rounds):
    in_rounds.copy()
    for number in range(2):
        assert in_rounds.turns() == Elsewhere(to_copy=frozenset("h"))
        in_rounds.round((1 + number, 700))
    assert in_rounds.turns() == Elsewhere(ready=frozenset("h"))


def test_a_round_that_is_as_long_as_all_of_it_goes_as_a_copy(in_rounds):
    in_rounds.copy()
    for number in (1, 2):
        assert in_rounds.turns() == Elsewhere(to_copy=frozenset("h"))
        in_rounds.round((number * 1_000_000, KEYS))
        assert in_rounds.here.files.size("h", "newer") is None
    assert in_rounds.turns() == Elsewhere(ready=frozenset("h")), "not for ever"
    in_rounds.here.record_ended("a", state((2_000_000, KEYS), but=1))
    in_rounds.turns()
    assert in_rounds.there.received("h") == state((2_000_000, KEYS), but=1) and "base" in in_rounds.manifest


@pytest.mark.parametrize("what", ["lost there", "broken there"])
def test_a_round_of_a_copy_that_is_gone_or_broken_is_of_no_use(in_rounds, what):
    way = in_rounds
    way.copy()
    way.turns()
    way.round((1, 700))
    if what == "lost there":
        way.there.files.drop("h", "copy")
    else:
        way.there.files.texts["h", "copy"] = way.there.files.texts["h", "copy"].replace(b"key9", b"key8")
    assert way.turns() == Elsewhere(ready=frozenset("h")) and way.stored == OF_NO_USE
    way.start()
    assert way.turns() == Elsewhere(ready=frozenset("h"))
    way.here.record_ended("a", state((1, 700), but=2))
    way.turns()
    assert way.there.received("h") == state((1, 700), but=2) and "base" not in way.manifest


@pytest.mark.parametrize("what", ["ahead", "newer"])
def test_what_is_lost_of_a_copy_or_round_here_is_made_anew(in_rounds, what):
    way = in_rounds
    way.copy()
    way.turns()
    way.round((1, 700))
    way.turns(2)
    way.here.files.drop("h", what)
    assert way.turns() == Elsewhere(to_copy=frozenset("h"))
    way.round((1, 700), (1, 300))
    assert way.turns() == Elsewhere(to_copy=frozenset("h"))
    way.round((1, 700), (1, 300), (1, 1))
    assert way.turns() == Elsewhere(ready=frozenset("h"))
    way.here.record_ended("a", state((1, 700), but=4))
    way.turns()
    assert way.there.received("h") == state((1, 700), but=4) and "base" in way.manifest


def test_an_heir_that_has_a_round_before_its_end_is_told_goes_on_from_there(in_rounds):
    """The slot that sends it has died, and its fragment ends before it looks again."""
    way = in_rounds
    way.copy()
    way.turns()
    way.round((1, 700))
    before = way.stored
    while way.stored == before:
        way.now_ms += 100
        way.transports[0].turn(LEAVES, "0")
        way.transports[1].turn(COMES, "0")
    way.here.record_ended("a", state(but=2))
    way.start()
    way.turns()
    assert way.there.received("h") == state(but=2) and "base" in way.manifest


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
    way.transports[0].turn(LEAVES, "0")
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


DIGEST = "0" * 64
CHECK = {"length": 4, "sha256": DIGEST}
FORGED = {
    "no JSON": "{", "a list": "[]", "deep": "[" * 100_000, "nothing": "{}", "no pieces": json.dumps(CHECK),
    "another folder": json.dumps({"length": 4, "sha256": "/../../../tmp/xy" + "0" * 48, "pieces": [CHECK]}),
    "a digest that is none": json.dumps({"length": 4, "sha256": 5, "pieces": [CHECK]}),
    "pieces that are none": json.dumps({**CHECK, "pieces": [4, None, {}]}),
    "less than nothing": json.dumps({**CHECK, "pieces": [{"length": -4, "sha256": DIGEST}]}),
    "more than there is": json.dumps({**CHECK, "length": 10**30, "pieces": [CHECK]}),
    "a base that is none": json.dumps({**CHECK, "pieces": [CHECK], "base": {}}),
    "a whole that is none": json.dumps({**CHECK, "pieces": [CHECK], "base": DIGEST, "whole": 5}),
    "a time that is none": json.dumps({**CHECK, "pieces": [CHECK], "ended_ms": "now"})}


@pytest.mark.parametrize("name", FORGED)
@pytest.mark.parametrize("key", [keys.handover("a"), keys.ahead("h")])
def test_what_a_slot_of_another_node_forged_is_as_if_it_were_not_there(way, name, key):
    """Files are named after what it says, and a slot that fails over it fails for all who are in it."""
    way.broker.hset(key, "manifest", FORGED[name])
    way.broker.hset(key, "piece:0", "text")
    for _ in range(5):
        way.now_ms += 1_000
        way.transports[1].turn(COMES, "0")
    assert not way.there.files.texts
