"""From channel to channel every event arrives once, although the broker's primary is killed and a replica promoted."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import redis

from tests.replicated_broker import ReplicatedBroker, replicated_broker
from workers.engine.channels import keys
from workers.engine.channels.channel_config import ChannelConfig
from workers.engine.channels.channel_registry import Channels

from .rig import Query, Rig, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.broker]


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReplicatedBroker]:
    """A broker with one replica."""
    with replicated_broker(tmp_path_factory.mktemp("replicated")) as running:
        yield running


@pytest.fixture
def rig(spark, servers: ReplicatedBroker, jar_folder: Path, tmp_path: Path) -> Iterator[Rig]:
    """A rig whose broker is that one."""
    servers.heal()
    channels = Channels.connect(servers.url)
    rig = Rig(spark, ChannelConfig(servers.url, data_dir=jar_folder), channels, tmp_path)
    yield rig
    rig.stop_all()
    channels.close()


class Flow:
    """A source and a copy of its stream. Each is started again from its checkpoint where it fails, as a slot does."""

    def __init__(self, rig: Rig, name: str, *, events: int, rate_per_s: float) -> None:
        self._rig, self._name = rig, name
        self._makes: dict[str, Callable[[], Query]] = {
            "source": lambda: self._start(f"{name}a", (f"{name}b",), rig.ticks(
                f"{name}a", rate_per_s=rate_per_s, limit=events, writes=(f"{name}a.0",))),
            "copy": lambda: self._start(f"{name}b", (), rig.read(f"{name}b", f"{name}a.0"))}
        self._queries = {role: make() for role, make in self._makes.items()}
        self.failed = 0

    def _start(self, fragment: str, readers: tuple[str, ...], events) -> Query:
        return self._rig.start(self._rig.publish(events, fragment, readers=readers), fragment)

    def copied(self) -> list[int]:
        """The numbers of the events that the copy has published; starts again what has failed."""
        with suppress(redis.RedisError):
            for role, query in self._queries.items():
                if query.exception() is not None:
                    self._queries[role] = self._makes[role]()
                    self.failed += 1
            return self._rig.numbers(f"{self._name}b.0")
        return []


def test_no_event_is_lost_or_repeated_when_the_primary_is_killed(rig: Rig, servers: ReplicatedBroker) -> None:
    flow = Flow(rig, "k", events=3_000, rate_per_s=600)
    wait_until(lambda: len(flow.copied()) > 300, what="first events")
    servers.kill_primary()
    wait_until(lambda: len(flow.copied()) >= 3_000, what="the last event")
    assert flow.copied() == list(range(3_000))


@pytest.mark.long
def test_no_event_is_lost_or_repeated_over_many_kills(rig: Rig, servers: ReplicatedBroker) -> None:
    chance, events = random.Random(40), 60_000
    flow = Flow(rig, "m", events=events, rate_per_s=400)
    away_s = []
    for _ in range(8):
        least = len(wait_until(flow.copied, what="events")) + chance.randrange(1, 600)
        wait_until(lambda least=least: len(flow.copied()) > least, what="more events")
        began = time.monotonic()
        servers.kill(servers.primary())
        reached = len(wait_until(flow.copied, what="a promotion"))
        wait_until(lambda least=reached: len(flow.copied()) > least, what="flow")
        away_s.append(round(time.monotonic() - began, 1))
        servers.heal()
    print(f"back after {sorted(away_s)} s, {flow.failed} queries started again")
    wait_until(lambda: len(flow.copied()) >= events, what="the last event", timeout_s=600)
    assert flow.copied() == list(range(events))


def test_a_batch_is_not_done_before_the_replica_has_it(rig: Rig, servers: ReplicatedBroker) -> None:
    flow = Flow(rig, "p", events=50, rate_per_s=1_000)
    wait_until(lambda: len(flow.copied()) >= 50, what="all events")
    ticks = rig.ticks("pc", rate_per_s=1_000, limit=50, writes=("pc.0",))
    published = rig.publish(ticks, "pc", readers=("r",))
    commits = rig.checkpoint("pc") / "commits"
    with servers.server(servers.primary()) as primary, servers.paused(servers.replica()):
        primary.config_resetstat()
        query = rig.start(published, "pc")
        wait_until(
            lambda: primary.xlen(keys.channel("pc.0")) and _calls(primary, "wait") >= 2, what="a block",
            alive=(query,))
        assert not [path for path in commits.glob("*") if path.name.isdigit()]
    query.stop()
    again = rig.start(rig.valve(rig.ticks("pc", rate_per_s=1_000, limit=50, writes=("pc.0",)), "pc"), "pc")
    wait_until(lambda: len(rig.numbers("pc.0")) >= 50, what="all events", alive=(again,))
    assert rig.numbers("pc.0") == list(range(50))


def _calls(server: redis.Redis, command: str) -> int:
    return server.info("commandstats").get(f"cmdstat_{command}", {"calls": 0})["calls"]
