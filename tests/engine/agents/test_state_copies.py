"""Copies of queries' state: who is to hold them, and how a fragment goes on from one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import redis

from scheduler.contracts.copy_reports import COPY_REPORTS, CopyReport, copies_told
from scheduler.contracts.desired import DesiredState, Input, WantedFragment, WantedSlot
from scheduler.contracts.offsets import START, Offset
from scheduler.contracts.reports import NodeReport, Reports
from scheduler.contracts.savepoints import SAVEPOINTS, RestorePoint, Savepoint
from scheduler.elasticity.copied_queries import (
    CHANGING_HANDS,
    NO_BATCH,
    NO_ROOM,
    ON_ITS_WAY,
    TOO_FEW_NODES,
    why_fewer,
)
from scheduler.model.dataflow import Task
from scheduler.model.task_types import TaskType
from workers.engine import observed
from workers.engine.agents.node_files.checkpoint import CheckpointProgress
from workers.engine.agents.node_files.node_store import CopyWishes, NodeStore
from workers.engine.agents.reconciling import broker_instructions as on
from workers.engine.agents.reconciling import instructions as do
from workers.engine.agents.reconciling.decisions import decide
from workers.engine.agents.reconciling.reconcile import Actual, End, FragmentState, Restart, Start
from workers.engine.agents.reconciling.snapshot import Records, Snapshot
from workers.engine.agents.reconciling.started_fragments import SlotStore
from workers.engine.agents.reconciling.state_copies import QueryCopies
from workers.engine.agents.supervising.copy_holders import CopyHolders
from workers.engine.agents.transport.copy_takeover import HELD, RECEIVED, go_on_from_copy, moved_on
from workers.engine.agents.transport.copying import make_copies
from workers.engine.agents.transport.parcels import FilesBeside
from workers.engine.channels import keys, scripts
from workers.engine.channels.batch_ranges import begin_ranges, forget_ranges, free_to, kept_from, place_of
from workers.engine.channels.channel_info import texts
from workers.engine.channels.channel_registry import Channels
from workers.engine.worker_settings import Settings

from ..channels.played_redis import PlayedRedis
from .looked_at import HEIR, READER, info, snapshot, wanting

TYPES = {"plain": TaskType("plain", "transform", "Adds.", "x:y", effects=())}
BEFORE = WantedFragment("f1-1", (Task("t", "plain"),), inputs=(Input("f1-0.0", "s"),))
AFTER = replace(BEFORE, id="f2-0", inherits=("f1-1",), origin="n1", channels={0: "f1-1.0"})
COPIED = Savepoint(offsets={"f1-0.0": Offset("4-0")}, batch_bases={"f1-1.0": 7}, repeats=5)


def lost(tmp_path: Path, *, copy: bool = True) -> tuple[PlayedRedis, Channels, FilesBeside]:
    """A broker and the disk of a node that holds a copy of what another one ran."""
    broker, files = PlayedRedis(), FilesBeside(tmp_path)
    channels = Channels(broker)
    channels.open_channel("f1-0.0", schema_json="{}")
    channels.join("f1-0.0", "f1-1", where="9-0")
    begin_ranges(broker, channels, "f1-1", '{"f1-0.0":"4-0"}', {"f1-0.0": Offset("4-0")})
    for place, end in (("4-0", "6-0"), ("6-0", "9-0")):
        planned(broker, "f1-1", place, end)
    if copy:
        files.write("f1-1--n2", "held", SAVEPOINTS.dumps(COPIED).encode())
        broker.hset(keys.copies("f1-1"), "n2", COPY_REPORTS.dumps(CopyReport(7)))
    return broker, channels, files


def planned(broker: PlayedRedis, fragment: str, place: str, end: str) -> str:
    """Where a batch of a fragment ends that begins at a place and might end elsewhere."""
    text = scripts.run(broker, "range", [keys.ranges(fragment)], [
        fragment, json.dumps({"f1-0.0": place}, separators=(",", ":")),
        json.dumps({"f1-0.0": end}, separators=(",", ":"))])
    return json.loads(text)["f1-0.0"]


def test_who_goes_on_from_a_copy_repeats_the_recorded_batches(tmp_path: Path) -> None:
    broker, channels, files = lost(tmp_path)
    broker.hset(keys.valve("f1-1"), mapping={"0:outlet": "open", "0:from": 6, "paused": 1, "wave:2": 8})
    for _ in range(2):  # it may die before it knows
        assert go_on_from_copy(broker, files, "f1-1", AFTER, node="n2")
    assert SAVEPOINTS.loads(files.read("f2-0", RECEIVED)) == replace(COPIED, recorded=2, reads=("f1-0.0",))
    seen = channels.info("f1-0.0")
    assert seen.readers == {"f2-0": "4-0", "f2-0~copies": "4-0"}, "nobody waits for who is gone"
    assert channels.control("f2-0") == {
        "0:outlet": "open", "0:from": "1", "wave:0": "8", keys.COPIED: "1"}
    assert planned(broker, "f2-0", "4-0", "5-0") == "6-0" and planned(broker, "f2-0", "6-0", "40-0") == "9-0"
    assert planned(broker, "f2-0", "9-0", "11-0") == "11-0", "from there on it plans by itself"
    with pytest.raises(redis.ResponseError, match="WEIROVERTAKEN f1-1: f2-0 goes on with it"):
        planned(broker, "f1-1", "9-0", "10-0")
    forget_ranges(broker, channels, "f1-1", ["f1-0.0"])
    assert planned(broker, "f2-0", "11-0", "12-0") == "12-0" and broker.hget(keys.ranges("f2-0"), "owner") == b"f2-0"


def test_a_range_begins_where_the_last_one_ended(tmp_path: Path) -> None:
    broker, *_ = lost(tmp_path)
    with pytest.raises(redis.ResponseError, match="no batch begins at"):
        planned(broker, "f1-1", "7-0", "8-0")


def test_nobody_goes_on_without_a_copy_or_once_another_does(tmp_path: Path) -> None:
    broker, _, files = lost(tmp_path, copy=False)
    assert not go_on_from_copy(broker, files, "f1-1", AFTER, node="n2")
    broker, _, files = lost(tmp_path)
    broker.hset(keys.handover("f1-1"), "claim", "f2-9")
    assert not go_on_from_copy(broker, files, "f1-1", AFTER, node="n2")
    assert files.size("f2-0", RECEIVED) is None and planned(broker, "f1-1", "9-0", "10-0") == "10-0"


def test_ranges_and_inputs_are_let_go_behind_the_oldest_copy_and_no_sooner(tmp_path: Path) -> None:
    broker, channels, _ = lost(tmp_path)
    free_to(broker, channels, "f1-1", {"f1-0.0": (6, 0)}, kept_from=6, needed={"f1-0.0"})
    assert kept_from(broker, "f1-1") == 6 and channels.info("f1-0.0").readers["f1-1~copies"] == "6-0"
    assert [name for name in broker.hgetall(keys.ranges("f1-1")) if name.startswith(b"from")] == [
        b'from:{"f1-0.0":"6-0"}']
    assert not forget_ranges(broker, channels, "f1-1", ["f1-0.0"], place='{"f1-0.0":"6-0"}'), "it repeats one yet"
    assert not forget_ranges(broker, channels, "f1-1", ["f1-0.0"], place="{}"), "it has not begun to repeat"
    assert forget_ranges(broker, channels, "f1-1", ["f1-0.0"], place='{"f1-0.0":"9-0"}')
    assert not broker.hgetall(keys.ranges("f1-1")) and channels.info("f1-0.0").readers == {"f1-1": "9-0"}
    assert planned(broker, "f1-1", "9-0", "77-0") == "77-0" and not broker.hgetall(keys.ranges("f1-1"))


def test_boundaries_are_counted_from_the_first_batch_that_is_repeated() -> None:
    control = {"1:outlet": "open", "1:from": "3", "tail": "2", "tail:from": "9", "gate:x": "{}", "pace": "100",
               "wave:1": "4", "wave:3": "5", "wave:9": "6", "1:part:f1-7": "1", "routes": "3",
               "1:route:f1-7:2": "{}", "1:route:f1-7:2:from": "7", "1:route:f1-7:3": '{"x": 1}'}
    assert moved_on(control, batches=5, recorded=8) == {
        "1:outlet": "open", "1:from": "0", "tail": "2", "tail:from": "4", "wave:0": "5", "wave:4": "6",
        "1:part:f1-7": "1", "routes": "3", "1:route:f1-7:2": "{}", "1:route:f1-7:2:from": "2",
        "1:route:f1-7:3": '{"x": 1}', "1:route:f1-7:3:from": "8"}


def test_one_that_repeats_does_not_end_before_it_has_come_to_what_was_published() -> None:
    def ends(last: str) -> bool:
        records = Records(
            chain=READER, begun=RestorePoint(batch_bases={READER.written[0]: 4}, repeats=True), has_begun=True,
            progress=CheckpointProgress(2, True, None, {"f1-0.0": Offset("6-0")}))
        channels = {READER.written[0]: replace(info(READER.written[0]), last=Offset(last)), "f1-0.0": info("f1-0.0")}
        seen = snapshot(
            READER, desired=wanting(HEIR, outgoing=(READER,)), records=records, channels=channels)
        return any(isinstance(step, do.RecordEnded) for step in decide(seen, End(READER)))

    assert ends("7-0") and not ends("8-0")


def test_one_that_repeats_does_not_read_other_channels_before_it_has_come_to_what_was_published() -> None:
    """A batch that is repeated reads what it read; and a channel that comes is kept for copies before it is read."""
    wider = replace(READER, inputs=(*READER.inputs, Input("f1-0.1", "s")))

    def seen(last: str, *, has_query: bool = True) -> Snapshot:
        records = Records(
            chain=READER, begun=RestorePoint(batch_bases={READER.written[0]: 4}, repeats=True), has_begun=True,
            progress=CheckpointProgress(2, True, None, {"f1-0.0": Offset("6-0")}))
        place = Offset("6-0")
        channels = {
            READER.written[0]: replace(info(READER.written[0]), last=Offset(last)),
            "f1-0.0": info("f1-0.0", last=place, readers={"f1-1": place}),
            "f1-0.1": info("f1-0.1", readers={"f1-1": START})}
        state = FragmentState.RUNNING if has_query else FragmentState.STARTING
        runs = snapshot(
            READER, state, channels=channels, has_query=has_query, records=records, desired=wanting(wider))
        return replace(runs, actual=Actual("f1-1", state, inputs=READER.inputs if has_query else ()))

    assert [type(step) for step in decide(seen("8-0"), Restart(wider))] == [do.RetryAt]
    assert do.StopQuery() in decide(seen("7-0"), Restart(wider))
    keeps = on.KeepInputs({"f1-0.1": START})
    steps = decide(seen("7-0", has_query=False), Start(wider))
    assert keeps in steps and on.ForgetRanges() not in steps
    assert not [step for step in decide(seen("7-0", has_query=False), Start(READER)) if isinstance(step, on.KeepInputs)]


def test_what_a_holder_tells_that_cannot_be_read_is_no_copy() -> None:
    good = COPY_REPORTS.dumps(CopyReport(3, {"c": (4, 0)}))
    assert copies_told({"n2": good, "n3": "{", "n4": '{"batch": "x"}'}) == {"n2": CopyReport(3, {"c": (4, 0)})}


@pytest.mark.broker
def test_who_forged_its_own_notes_keeps_its_holder_from_no_other(broker: redis.Redis, tmp_path: Path) -> None:
    broker.hset(keys.copies_at("n2"), mapping={"f1-1": "n1", "f9-0": "n1"})
    broker.mset({keys.ranges("f9-0"): "no hash", keys.copies("f8-0"): "no hash"})
    store = NodeStore(tmp_path, "n2")
    store.write_copy_wishes(CopyWishes({"f8-0": ("n3",)}, {}, ()))
    CopyHolders(
        broker, store, Settings(node="n2", copies=1), newest=lambda: DesiredState(node="n2"), task_types=TYPES,
        sizes=dict, on_held=lambda: None).turn()
    assert store.read_copy_wishes().held.keys() == {"f1-1", "f9-0"}


def test_each_node_chooses_holders_and_lets_go_of_what_somebody_went_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = PlayedRedis()
    living = {"n1", "n2", "n3"}
    monkeypatch.setattr(observed, "read_reports", lambda _: Reports({name: NodeReport(name) for name in living}))
    held: list[str] = []

    def node(name: str, zone: str, *wanted: WantedFragment) -> CopyHolders:
        return CopyHolders(
            broker, NodeStore(tmp_path / name, name), Settings(node=name, copies=1, zone=zone),
            newest=lambda: DesiredState(node=name, slots={"0": WantedSlot(wanted)}), task_types=TYPES,
            sizes=lambda: {fragment.id: 5 for fragment in wanted}, on_held=lambda: held.append(name))

    def wishes(name: str) -> CopyWishes:
        return NodeStore(tmp_path / name, name).read_copy_wishes()

    nodes = {
        "n1": node("n1", "a", BEFORE, replace(BEFORE, id="f1-7", real_time=True)),
        "n2": node("n2", "a"), "n3": node("n3", "b")}
    for name in ("n2", "n3", "n1", "n2", "n3"):
        nodes[name].turn()
    assert wishes("n1").own == {"f1-1": ("n3",)}, "in another zone, and of what repeats itself alone"
    assert wishes("n3").held == {"f1-1": "n1"} and not wishes("n2").held and held == ["n3"]
    living.discard("n3")
    nodes["n1"].turn()
    nodes["n2"].turn()
    assert wishes("n1").own == {"f1-1": ("n2",)} and wishes("n2").held == {"f1-1": "n1"}
    broker.hset(keys.ranges("f1-1"), "owner", "f2-0")
    nodes["n2"].turn()
    assert not wishes("n2").held
    living.intersection_update({"n1"})
    nodes["n1"].turn()
    assert wishes("n1").own == {}, "nobody is there to hold it"


class Side:
    """One node of two: its disk, and its slot's side of copies."""

    def __init__(self, broker: PlayedRedis, folder: Path, node: str) -> None:
        self.node_store, self.broker, self.now_ms = NodeStore(folder, node), broker, 0
        self.store = SlotStore(folder, self.node_store.slot_dir("0"))
        self.copies = QueryCopies(
            broker, self.store, self.node_store, Settings(node=node, copies=1, copy_s=10.0), slot="0",
            clock_ms=lambda: self.now_ms)

    def has_done(self, batch: int, place: str) -> None:
        """A batch of the query is done, and has read so far."""
        checkpoint = self.store.checkpoint(BEFORE.id)
        for log, text in (("offsets", f"v1\n{{}}\n{place}"), ("commits", "")):
            (checkpoint / log).mkdir(parents=True, exist_ok=True)
            (checkpoint / log / str(batch)).write_text(text)

    def turn(self, *wanted: WantedFragment, later_ms: int = 1_000) -> list[tuple[str, ...]]:
        """The holders for which copies are due."""
        self.now_ms += later_ms
        actual = {fragment.id: Actual(fragment.id, FragmentState.RUNNING) for fragment in wanted}
        due = self.copies.turn(DesiredState(slots={"0": WantedSlot(wanted)}), actual, ())
        return [action.holders for action in due]


def test_a_copy_counts_once_all_of_it_is_there_and_inputs_are_kept_behind_it(tmp_path: Path) -> None:
    broker = PlayedRedis()
    channels = Channels(broker)
    channels.open_channel("f1-0.0", schema_json="{}")
    channels.open_channel("f1-1.0", schema_json="{}")
    owner, holder = Side(broker, tmp_path / "n1", "n1"), Side(broker, tmp_path / "n2", "n2")
    owner.node_store.write_copy_wishes(CopyWishes({BEFORE.id: ("n2",), AFTER.id: ("n2",)}, {}, ("n1", "n2")))
    holder.node_store.write_copy_wishes(CopyWishes({}, {BEFORE.id: "n1"}, ("n1", "n2")))

    def copy(batch: int, place: str) -> None:
        """What a slot does between two batches."""
        saved = Savepoint(
            offsets={"f1-0.0": Offset(place)}, batch_bases={"f1-1.0": batch + 1}, states={"t": [f'{{"a": {batch}}}']},
            repeats=batch + 1)
        begin_ranges(broker, channels, BEFORE.id, place_of(saved), saved.offsets)
        make_copies(owner.store, ("f1-1--n2",), saved)

    def whole() -> CopyReport | None:
        return copies_told(texts(broker.hgetall(keys.copies(BEFORE.id)))).get("n2")

    assert owner.turn(BEFORE) == [], "it has done no batch"
    assert owner.copies.facts_of(BEFORE.id) == {"survives": 0, "copies": 0, "not_copied": NO_BATCH}
    owner.turn(AFTER)
    assert owner.copies.facts_of(AFTER.id)["copies"] == 1, "it goes on with the state of another"
    owner.has_done(0, '{"f1-0.0":"2-0"}')
    assert owner.turn(BEFORE) == [("n2",)]
    copy(0, "2-0")
    assert owner.turn(BEFORE) == [] and whole() is None
    assert owner.copies.facts_of(BEFORE.id) == {"survives": 0, "copies": 1, "not_copied": ON_ITS_WAY}
    holder.turn()
    assert whole().places == {"f1-0.0": (2, 0)} and whole().bases == {"f1-1.0": 1}
    assert owner.turn(BEFORE) == [] and owner.copies.facts_of(BEFORE.id) == {
        "survives": 1, "copies": 1, "held_by": ("n2",), "copied_at_ms": holder.now_ms, "lacks_none": True}
    owner.has_done(1, '{"f1-0.0":"5-0"}')
    assert owner.turn(BEFORE) == [] and owner.copies.facts_of(BEFORE.id)["copied_at_ms"] == owner.now_ms, "not yet"
    assert owner.turn(BEFORE, later_ms=10_000) == [("n2",)]
    copy(1, "5-0")
    owner.turn(BEFORE)
    assert channels.info("f1-0.0").readers["f1-1~copies"] == "2-0", "the newer one is not there yet"
    holder.turn()
    owner.turn(BEFORE)
    assert channels.info("f1-0.0").readers["f1-1~copies"] == "5-0" and kept_from(broker, BEFORE.id) == 2
    assert SAVEPOINTS.loads(holder.store.files.read("f1-1--n2", HELD)).states == {"t": ['{"a": 1}']}
    assert broker.hget(keys.meta("f1-1.0"), keys.COPIED) == b"2"
    heir = WantedFragment("f3-0", BEFORE.tasks, inherits=(BEFORE.id,), key_ranges=((0, 9),))
    for expected in ({"survives": 0, "not_copied": CHANGING_HANDS}, {"survives": 1}):
        owner.now_ms += 1_000
        owner.copies.turn(
            DesiredState(slots={"0": WantedSlot((BEFORE, heir))}),
            {BEFORE.id: Actual(BEFORE.id, FragmentState.RUNNING)}, ())
        assert owner.copies.facts_of(BEFORE.id).items() >= {"held_by": ("n2",), **expected}.items()
        owner.store.record_begun(heir.id, RestorePoint())
    shared = replace(BEFORE, inputs=(replace(BEFORE.inputs[0], shared=True),))
    broker.hset(keys.meta("f1-0.0"), keys.spill(BEFORE.id), "9-0")
    assert owner.turn(shared, later_ms=20_000) == [] and not channels.info("f1-0.0").readers, "it holds nobody back"
    assert whole() is None and "others need its stream" in owner.copies.facts_of(BEFORE.id)["not_copied"]
    owner.node_store.write_copy_wishes(CopyWishes({}, {}, ("n1", "n2")))
    owner.turn(replace(BEFORE, tasks=()))
    assert owner.copies.facts_of(BEFORE.id) == {"survives": 0, "copies": 1, "not_copied": NO_ROOM}
    owner.turn()
    assert not owner.copies.facts_of(BEFORE.id), "it runs here no more"


def test_gifts_that_go_ahead_are_no_copies_that_nobody_wants(tmp_path: Path) -> None:
    side = Side(PlayedRedis(), tmp_path, "n1")
    side.node_store.write_copy_wishes(CopyWishes({}, {}, ("n1", "n2")))
    taker = WantedFragment("f3-0", (), inherits=(BEFORE.id,), key_ranges=((0, 9),))
    for name in ("f1-1--f3-0", "f1-1--n2"):
        side.store.files.write(name, "ahead", b"x")
    side.now_ms = 1_000
    side.copies.turn(DesiredState(slots={"0": WantedSlot((BEFORE,))}, takers=(taker,)), {}, ())
    assert side.store.files.names("ahead") == ("f1-1--f3-0",)


class Closed(PlayedRedis):
    """A broker that lets nobody touch what is named after a query that was cleared away."""

    def hmget(self, name: str, *fields: str) -> list[bytes | None]:
        self._refuse(name)
        return super().hmget(name, *fields)

    @staticmethod
    def _refuse(name: str) -> None:
        if "f9-9" in name:
            raise redis.exceptions.NoPermissionError("No permissions to access a key")


def test_what_is_left_of_a_removed_query_keeps_no_node_from_holding_copies(tmp_path: Path) -> None:
    broker = Closed()
    owner, holder = Side(broker, tmp_path / "n1", "n1"), Side(broker, tmp_path / "n2", "n2")
    owner.node_store.write_copy_wishes(CopyWishes({BEFORE.id: ("n2",)}, {}, ("n1", "n2")))
    holder.node_store.write_copy_wishes(CopyWishes({}, {BEFORE.id: "n1"}, ("n1", "n2")))
    holder.store.record(replace(BEFORE, id="f9-9"))
    holder.store.files.write("f9-9--n1", "ahead", b"x")
    owner.has_done(0, '{"f1-0.0":"2-0"}')
    make_copies(owner.store, ("f1-1--n2",), Savepoint(offsets={"f1-0.0": Offset("2-0")}, repeats=1))
    owner.turn(BEFORE)
    holder.turn()
    assert broker.hget(keys.copies(BEFORE.id), "n2")
    assert not holder.store.files.names("ahead")


def test_one_whose_places_at_the_broker_are_none_keeps_no_other_from_copies(tmp_path: Path) -> None:
    broker = PlayedRedis()
    side, other = Side(broker, tmp_path, "n1"), replace(BEFORE, id="f1-0")
    side.node_store.write_copy_wishes(CopyWishes(dict.fromkeys(("f1-0", "f1-1"), ("n2",)), {}, ("n1", "n2")))
    broker.hset(keys.copies("f1-0"), "n2", COPY_REPORTS.dumps(CopyReport(3, {"f1-0.0": (9, 0)}, at_ms=10)))
    broker.hset(keys.valve("f1-0"), mapping={"wave:x": "1"})
    (side.store.checkpoint("f1-0") / "offsets").mkdir(parents=True)
    for log, text in (("offsets", 'v1\n{}\n{"f1-0.0":"5-0"}'), ("commits", "")):
        folder = side.store.checkpoint("f1-0") / log
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "4").write_text(text)
    side.has_done(0, '{"f1-0.0":"2-0"}')
    assert ("n2",) in side.turn(other, BEFORE)


def test_what_is_lacking_is_a_copy_on_its_way_a_node_or_room() -> None:
    assert [why_fewer(2, chosen=chosen, others=others) for chosen, others in ((2, 2), (1, 1), (0, 0), (1, 2))] == [
        ON_ITS_WAY, TOO_FEW_NODES, TOO_FEW_NODES, NO_ROOM]
