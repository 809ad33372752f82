"""A played world of a slow reader: a channel with two readers of one node, and the node's spiller, which may die."""

from __future__ import annotations

from pathlib import Path
from random import Random

from scheduler.contracts.offsets import START, Offset
from scheduler.model.behind import SPILL
from workers.engine.agents.supervising.spiller import Spiller, Terms
from workers.engine.channels import keys, scripts
from workers.engine.channels.channel_info import OnDisk
from workers.engine.channels.channel_registry import Channels
from workers.engine.channels.spill import HEADER, ChannelSpill, SpilledBlock

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

    def entries(self, reader: str, after: Offset, count: int) -> list[SpilledBlock]:
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
