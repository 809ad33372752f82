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
from workers.engine.agents.spiller import Spiller, Terms, shared_inputs
from workers.engine.channels import keys, scripts
from workers.engine.channels.registry import Channels, OnDisk
from workers.engine.channels.spill import HEADER, ChannelSpill, Entry

from ..channels.played_redis import PlayedRedis

CHANNEL, CAPACITY, HOLD_MS = "f1-0.0", 8, 10_000


class Died(Exception):
    """The agent's process was killed."""


class World:
    """A channel with readers ``slow`` and ``fast`` of one node, and the node's spiller."""

    def __init__(
        self, folder: Path, *, most_bytes: int = 1 << 30, team_bytes: int = 1 << 30, when_behind: str = SPILL
    ) -> None:
        self.dies_at: int | None = None
        self.broker = PlayedRedis(self._before_change)
        self.channels = Channels(self.broker)
        self.folder, self.most_bytes, self.team_bytes = folder, most_bytes, team_bytes
        self.channels.open_channel(CHANNEL, schema_json="{}", capacity=CAPACITY, readers=["slow", "fast"])
        self.token = self.channels.take_fence(CHANNEL)
        self.now_ms = self.written = 0
        self.place = {"slow": START, "fast": START}
        self.read: dict[str, list[int]] = {"slow": [], "fast": []}
        # A batch that is planned: where its checkpoint is, and where it ends. It is read again after a kill.
        self.planned: dict[str, tuple[Offset, Offset] | None] = {"slow": None, "fast": None}
        self.lost: list[int] = []
        self.readers = {(CHANNEL, "slow"): Terms(when_behind, ("a",)), (CHANNEL, "fast"): Terms(SPILL, ("b",))}
        self.start_agent()

    def _before_change(self) -> None:
        if self.dies_at is not None:
            self.dies_at -= 1
            if self.dies_at < 0:
                raise Died

    def start_agent(self) -> None:
        self.dies_at = None
        self.spiller = Spiller(
            self.channels, self.folder, readers=lambda: self.readers, hold_ms=HOLD_MS, most_bytes=self.most_bytes,
            team_bytes=self.team_bytes)

    def info(self):
        return self.channels.info(CHANNEL)

    def write(self) -> bool:
        """One block, unless the channel is full."""
        if self.info().is_full:
            return False
        self.written += 1
        names = [keys.channel(CHANNEL), keys.meta(CHANNEL), keys.readers(CHANNEL)]
        scripts.run(self.broker, "write", names, [self.token, self.written, 0, 1, b"block %d" % self.written, 0])
        return True

    def give_up(self, reader: str) -> None:
        """Between two batches, as the Java side does it where the agent asked for it."""
        info, entry = self.info(), self.place[reader]
        if reader not in info.losing:
            return
        after, mark = info.reads_on_after(reader, entry), info.spills.get(reader, START)
        reach = max(after, mark)
        blocks, events = ChannelSpill(self.folder / CHANNEL).count(after, reach)
        to = self.channels.skip(CHANNEL, reader, entry, OnDisk(after, reach, blocks, events))
        if to is not None:
            self.lost += range(int(after.split("-")[0]) + 1, int(to.split("-")[0]) + 1)

    def plan(self, reader: str, count: int) -> None:
        """Decide on the next batch as the Java side does: from disk what the broker has freed, else from the broker."""
        self.commit(reader)
        self.give_up(reader)
        entries = self.entries(reader, self.info().reads_on_after(reader, self.place[reader]), count)
        if entries:
            self.planned[reader] = (self.place[reader], entries[-1].offset)

    def entries(self, reader: str, after: Offset, count: int) -> list[Entry]:
        info = self.info()
        mark = info.spills.get(reader)
        if after < info.trimmed:
            assert mark is not None and mark >= info.trimmed, f"{reader} lost what follows {after}"
            entries = list(ChannelSpill(self.folder / CHANNEL).entries(after, mark))[:count]
            assert entries, "it is on disk"
            return entries
        return self.channels.entries(CHANNEL, after=after, count=count)

    def take(self, reader: str, count: int) -> None:
        """A whole batch: what was planned is read, whatever has been asked since, as it would be after a kill."""
        if self.planned[reader] is None:
            self.plan(reader, count)
        if self.planned[reader] is None:
            return
        entry, end = self.planned[reader]
        after = self.info().reads_on_after(reader, entry)
        while after < end:
            for block in self.entries(reader, after, count):
                if block.offset <= end:
                    self.read[reader].append(int(block.payload.split()[1]))
                after = block.offset
        self.place[reader], self.planned[reader] = end, None

    def commit(self, reader: str) -> None:
        self.channels.commit(CHANNEL, reader, self.place[reader])

    def turn(self, seconds: float = 1.0) -> None:
        self.now_ms += round(seconds * 1000)
        self.spiller.turn(self.now_ms)

    def finish(self) -> None:
        """Both read to the end."""
        for _ in range(10_000):
            for reader in self.place:
                self.take(reader, 3)
                self.commit(reader)
            self.turn()
            if all(place == self.info().last for place in self.place.values()):
                break
        assert not set(self.lost) & set(self.read["slow"]) and len(set(self.lost)) == len(self.lost)
        assert sorted(self.read["slow"] + self.lost) == list(range(1, self.written + 1))
        assert self.read["slow"] == sorted(self.read["slow"])
        assert self.read.get("fast") == list(range(1, self.written + 1))
        lost = self.info().lost.get("slow")
        assert (lost.blocks, lost.events) == (len(self.lost),) * 2 if self.lost else lost is None
        self.turn()
        assert not list(self.folder.rglob("*.blocks")) and not self.info().spills


def step(world: World, chance: Random) -> None:
    reader = chance.choice(["slow", "fast", "fast"])
    match chance.randrange(7):
        case 0 | 1:
            world.write()
        case 2:
            world.take(reader, chance.randint(1, 3))
        case 6:
            if world.planned[reader] is None:
                world.plan(reader, chance.randint(1, 3))
        case 3:
            world.commit(reader)
        case 4:
            world.turn(chance.choice([0.5, 5, 11]))
        case 5:
            world.dies_at = chance.randint(0, 3)
            try:
                world.turn(chance.choice([0.5, 11]))
            except Died:
                cut_short(world.folder, chance)
                world.start_agent()
            world.dies_at = None


def cut_short(folder: Path, chance: Random) -> None:
    """What the process had begun to write when it was killed: a part of a block behind the whole ones."""
    for path in folder.rglob("*.blocks"):
        with path.open("ab") as file:
            file.write(HEADER.pack(9_999, 0, 1, 0, 50, 0)[: chance.randint(0, HEADER.size)])


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
@settings(max_examples=3_000)
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
    [told] = world.spiller.spilled().values()
    assert told.channel == CHANNEL and told.since_ms and not told.refused
    world.finish()


def test_a_channel_that_nobody_else_needs_is_left_to_its_back_pressure(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.readers = {}
    for _ in range(60):
        world.write()
        world.turn()
    assert world.written == CAPACITY + 1 and not list(tmp_path.rglob("*.blocks"))


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
    assert [(loss["reader"], loss["events"]) for loss in world.spiller.report()["losses"]] == [("slow", len(world.lost))]
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


def block(number: int, payload: bytes = b"x") -> Entry:
    return Entry(Offset(f"{number}-0"), 1, 5, payload)


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
