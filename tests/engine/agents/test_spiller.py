"""A slow reader is spilled for: it reads each block once, in order, and holds nobody back; whatever dies between."""

from __future__ import annotations

from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from scheduler.contracts.desired import DesiredState, Input, WantedFragment, WantedSlot
from scheduler.contracts.offsets import START, Offset
from scheduler.model.behind import CHOICES, LOSE_OLDEST, SPILL
from workers.engine.agents.supervising.spiller import Terms, shared_inputs
from workers.engine.channels import keys
from workers.engine.channels.spill import ChannelSpill, SpilledBlock

from . import spilled_world
from .spilled_world import CAPACITY, CHANNEL, HOLD_MS, World, step


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32), steps=st.integers(0, 300), when_behind=st.sampled_from(CHOICES))
@example(seed=1, steps=300, when_behind=SPILL)
@example(seed=1, steps=300, when_behind=LOSE_OLDEST)
def test_both_readers_read_every_block_once_whatever_dies(seed: int, steps: int, when_behind: str) -> None:
    """What a reader gives up by its team's choice is not read, and counted once."""
    with TemporaryDirectory() as folder:
        world, chance = World(Path(folder), when_behind=when_behind), Random(seed)
        for _ in range(steps):
            step(world, chance)
        world.finish()


@pytest.mark.long
@pytest.mark.timeout(1_800)
@settings(max_examples=1_000)
@given(seed=st.integers(0, 2**32), when_behind=st.sampled_from(CHOICES))
def test_both_readers_read_every_block_once_in_long_histories(seed: int, when_behind: str) -> None:
    with TemporaryDirectory() as folder:
        world, chance = World(Path(folder), when_behind=when_behind), Random(seed)
        for _ in range(chance.randint(0, 1_500)):
            step(world, chance)
        world.finish()


def test_a_reader_holds_others_back_for_the_bounded_time_and_no_longer(tmp_path: Path) -> None:
    world = World(tmp_path)
    stood_s, longest_s = 0.0, 0.0
    for _ in range(200):
        stood_s = 0.0 if world.write() else stood_s + 1
        longest_s = max(longest_s, stood_s)
        world.take("fast", 5)
        world.commit("fast")
        world.turn()
    assert HOLD_MS / 1000 - 1 <= longest_s <= HOLD_MS / 1000 + 1
    assert world.written > 180 and world.read["fast"] == list(range(1, world.written + 1))
    [spilled] = world.spiller.spilled().values()
    assert spilled.channel == CHANNEL and spilled.since_ms and not spilled.refused
    world.finish()


FORGED = {  # of another channel, by its writer: a key, and what it has
    "no capacity": (keys.meta, {"capacity": "x"}), "no text": (keys.meta, {"last": b"\xff"}),
    "digits": (keys.meta, {"capacity": "9" * 5_000}), "no place": (keys.readers, {"slow": "x"}),
    "lost": (keys.meta, {keys.lost("slow", "events"): "9" * 4_000})}


@pytest.mark.parametrize("name", FORGED)
def test_what_the_writer_of_a_channel_forged_keeps_no_reader_of_another_waiting(tmp_path: Path, name: str) -> None:
    world, (key, fields) = World(tmp_path), FORGED[name]
    world.channels.open_channel("f0-9.0", schema_json="{}", readers=["slow"])
    ChannelSpill(tmp_path / "f0-9.0").append(START, [SpilledBlock(Offset("1-0"), 1, 0, b"x")])
    world.start_agent()
    world.readers["f0-9.0", "slow"] = Terms(SPILL, ("a",))
    world.broker.hset(key("f0-9.0"), mapping=fields)
    for _ in range(200):
        world.write()
        world.take("fast", 5)
        world.commit("fast")
        world.turn()
    assert world.written > 180 and world.spiller.report()["losses"] == []
    assert (tmp_path / "f0-9.0").exists(), "of what cannot be read nothing on disk goes"


def test_a_channel_that_nobody_else_needs_is_left_to_its_back_pressure(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.readers = {}
    for _ in range(60):
        world.write()
        world.turn()
    assert world.written == CAPACITY + 1 and not list(tmp_path.rglob("*.blocks"))


def test_what_a_live_source_keeps_for_copies_holds_nobody_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spilled_world, "CHANNEL", "in-s.0")
    world = World(tmp_path)
    world.channels.join("in-s.0", keys.copies_reader("fast"), where=START)
    for _ in range(5 * CAPACITY):
        assert world.write()
        for reader in ("slow", "fast"):
            world.take(reader, 3)
            world.commit(reader)
        world.turn()
    assert world.info().blocks == world.written and not world.info().spills
    for _ in range(200):
        world.write()
        world.take("fast", 5)
        world.commit("fast")
        world.turn()
    assert world.info().spills and world.written > 180 + 5 * CAPACITY, "who is slow goes on from disk, as without them"
    world.channels.unregister("in-s.0", keys.copies_reader("fast"))
    world.finish()


def test_a_full_spill_is_told_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    world = World(tmp_path, most_bytes=600)
    for _ in range(120):
        world.write()
        world.take("fast", 5)
        world.commit("fast")
        world.turn()
    assert world.spiller.spilled()["slow"].refused == "full" and world.info().is_full
    stood = world.written
    for _ in range(30):
        world.take("slow", 2)
        world.commit("slow")
        world.write()
        world.turn()
    assert world.written > stood
    world.finish()


def slow_for(world: World, turns: int = 60) -> World:
    """The fast one reads all that comes, the slow one nothing."""
    for _ in range(turns):
        world.write()
        world.take("fast", 5)
        world.commit("fast")
        world.turn()
    return world


def test_a_reader_that_loses_the_oldest_ends_its_batch_and_goes_on_with_the_newest(tmp_path: Path) -> None:
    world = World(tmp_path, when_behind=LOSE_OLDEST)
    world.write()
    world.write()
    world.plan("slow", 2)
    slow_for(world)
    assert not world.lost and "slow" in world.info().losing
    world.take("slow", 2)
    assert world.read["slow"] == [1, 2]
    world.plan("slow", 3)
    assert world.lost == list(range(3, world.written - CAPACITY // 4 + 1))
    lost = world.info().lost["slow"]
    assert (lost.blocks, lost.events) == (len(world.lost),) * 2
    world.turn()
    [loss] = world.spiller.report()["losses"]
    assert (loss["reader"], loss["events"]) == ("slow", len(world.lost))
    assert "slow" not in world.info().losing  # until it is behind again
    world.finish()


def test_a_team_that_chooses_otherwise_meanwhile_loses_nothing_more(tmp_path: Path) -> None:
    world = slow_for(World(tmp_path, when_behind=LOSE_OLDEST))
    assert "slow" in world.info().losing
    world.readers[CHANNEL, "slow"] = Terms(SPILL, ("a",))
    world.turn()
    assert "slow" not in world.info().losing
    world.finish()
    assert not world.lost


def test_where_nothing_may_be_on_disk_the_oldest_is_lost_between_two_batches(tmp_path: Path) -> None:
    world = slow_for(World(tmp_path, most_bytes=0, when_behind=LOSE_OLDEST), turns=40)
    assert world.written == CAPACITY + 1
    world.take("slow", 2)
    assert world.lost and not world.info().is_full
    world.finish()


def test_one_team_does_not_take_the_room_of_another(tmp_path: Path) -> None:
    world = slow_for(World(tmp_path, team_bytes=400), turns=80)
    assert world.spiller.spilled()["slow"].refused == "team_full"
    world.readers[CHANNEL, "slow"] = Terms(SPILL, ("c", "a"))  # one of both has room left
    world.team_bytes = 10_000
    world.start_agent()
    world.turn()
    assert not world.spiller.spilled()["slow"].refused
    world.finish()


def test_what_is_on_disk_is_counted_over_time_and_shared(tmp_path: Path) -> None:
    world = slow_for(World(tmp_path))
    size = sum(path.stat().st_size for path in tmp_path.rglob("*.blocks"))
    before = world.spiller.report()["spilled_kb_s"]["slow"]
    world.turn(10_000)
    alone = world.spiller.report()["spilled_kb_s"]
    assert alone.keys() == {"slow"} and alone["slow"] - before == pytest.approx(size * 10, abs=1)
    world.channels.join(CHANNEL, "heir", where=world.place["slow"])
    world.readers[CHANNEL, "heir"] = Terms()
    world.turn(1)
    world.turn(10_000)
    both = world.spiller.report()["spilled_kb_s"]
    assert both["heir"] == pytest.approx(both["slow"] - alone["slow"], rel=0.01)
    assert both["heir"] == pytest.approx(size * 10 / 2, rel=0.01)


def test_an_heir_goes_on_from_what_is_on_disk(tmp_path: Path) -> None:
    world = World(tmp_path)
    for _ in range(60):
        world.write()
        world.take("fast", 5)
        world.commit("fast")
        world.turn()
    world.take("slow", 4)
    world.commit("slow")
    place = world.place.pop("slow")
    assert place < world.info().trimmed
    world.channels.join(CHANNEL, "heir", where=place)
    world.channels.unregister(CHANNEL, "slow", for_good=True)
    world.readers = {(CHANNEL, "heir"): Terms(), (CHANNEL, "fast"): Terms()}
    world.turn()
    world.place["heir"], world.read["heir"] = place, world.read.pop("slow")
    world.planned["heir"] = None
    while world.place["heir"] != world.info().last:
        world.take("heir", 3)
        world.commit("heir")
    assert world.read["heir"] == list(range(1, world.written + 1))


def test_what_a_second_slow_reader_needs_is_on_disk_already(tmp_path: Path) -> None:
    world = World(tmp_path)
    for _ in range(60):
        world.write()
        world.turn()
    assert world.written >= 50 and world.info().spills.keys() == {"slow", "fast"}
    offsets = [entry.offset for entry in ChannelSpill(tmp_path / CHANNEL).entries(START, world.info().last)]
    assert offsets == sorted(set(offsets))
    world.finish()


def test_where_nothing_may_be_on_disk_it_is_told_who_holds_back(tmp_path: Path) -> None:
    world = World(tmp_path, most_bytes=0)
    for _ in range(40):
        world.write()
        world.take("fast", 5)
        world.commit("fast")
        world.turn()
    assert world.written == CAPACITY + 1 and world.spiller.spilled()["slow"].refused == "full"
    world.finish()


def test_a_reader_that_is_gone_leaves_nothing_on_disk(tmp_path: Path) -> None:
    world = World(tmp_path)
    for _ in range(60):
        world.write()
        world.take("fast", 5)
        world.commit("fast")
        world.turn()
    assert list(tmp_path.rglob("*.blocks"))
    world.channels.unregister(CHANNEL, "slow")
    world.turn()
    assert not list(tmp_path.iterdir()) and not world.spiller.spilled()


def test_only_shared_inputs_of_the_node_are_spilled_for() -> None:
    reader = WantedFragment("f1-1", (), inputs=(Input("f1-0.0", "a", shared=True), Input("f1-0.1", "b")))
    ending = WantedFragment("f0-1", (), inputs=(Input("f0-0.0", "a", shared=True),))
    heir = WantedFragment("f2-1", (), inherits=("f0-1",))
    desired = DesiredState(
        version=1, node="n", slots={"0": WantedSlot((reader, heir))}, handing_over={"0": (ending,)})
    assert shared_inputs(desired).keys() == {("f1-0.0", "f1-1"), ("f0-0.0", "f0-1")}


def block(number: int, payload: bytes = b"x") -> SpilledBlock:
    return SpilledBlock(Offset(f"{number}-0"), 1, 5, payload)


def test_a_segment_is_put_before_others_and_holds_no_gap(tmp_path: Path) -> None:
    spill = ChannelSpill(tmp_path / "c")
    spill.append(Offset("5-0"), [block(6), block(7)])
    assert spill.end_of(Offset("2-0")) == "2-0" and spill.room_after(Offset("2-0")) == "5-0"
    spill.append(Offset("2-0"), [block(3), block(4), block(5)])
    for again in (spill, ChannelSpill(tmp_path / "c")):
        assert again.end_of(Offset("2-0")) == again.end_of(Offset("4-0")) == "7-0" and again.end_of(START) == START
        assert [entry.offset for entry in again.entries(Offset("3-0"), Offset("6-0"))] == ["4-0", "5-0", "6-0"]
    spill.prune([Offset("5-0")])
    assert [path.name for path in (tmp_path / "c").iterdir()] == ["5-0.blocks"]


def test_a_block_that_cannot_be_written_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spill = ChannelSpill(tmp_path / "c")
    spill.append(START, [block(1)])
    before = (tmp_path / "c" / "0-0.blocks").read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        with pytest.raises(OSError, match="No space"):
            spill.append(Offset("1-0"), [block(2)])
    assert (tmp_path / "c" / "0-0.blocks").read_bytes() == before and spill.end_of(START) == "1-0"
