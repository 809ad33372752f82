"""Managers on nodes hold a limit by themselves, over the real broker and while no site is there; played queries."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import redis

from scheduler.contracts.desired import DESIRED_STATES
from scheduler.contracts.qos import QOS_SETUPS, OwnQuery, QosReport, QosSetup, QosWishes
from scheduler.latency.constraints import LatencyConstraint, along
from scheduler.latency.latency_reports import ChannelSample
from scheduler.latency.runtime_graph import Channel, RuntimeGraph, Vertex
from scheduler.latency.setting_up import qos_setups
from workers.engine import qos_store
from workers.engine.agents.node_files.node_store import NewestDesired, NodeStore
from workers.engine.agents.supervising.qos_agent import NodeQos
from workers.engine.agents.supervising.qos_sampling import Sampler
from workers.engine.channels import keys

pytestmark = pytest.mark.broker

LIMIT_S = 3.0
NODES = {"a": "n1", "b": "n2"}
DESIRED_MS = 4_000


@dataclass
class World:
    """Two queries in a line on two nodes: what their batches count is what intervals and durations come to."""

    broker: redis.Redis
    folder: Path
    desired_ms: dict[str, int] = field(default_factory=lambda: dict.fromkeys("ab", DESIRED_MS))
    now_s: float = 1_000.0
    batch_s: dict[str, float] = field(default_factory=lambda: {"a": 0.1, "b": 0.1})
    done: dict[str, tuple[int, float]] = field(default_factory=lambda: {"a": (0, 0.0), "b": (0, 0.0)})
    ended_s: dict[str, float] = field(default_factory=lambda: dict.fromkeys("ab", 1_000.0))
    agents: dict[str, NodeQos] = field(default_factory=dict)
    events: list[dict[str, object]] = field(default_factory=list)
    pokes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        for node in NODES.values():
            self.start(node)

    def start(self, node: str) -> None:
        """An agent, as if it had just been started."""
        self.agents[node] = NodeQos(
            self.broker, self.store(node), reports=lambda: self.reports(node), chance=random.Random(node),
            on_intervals=lambda: self.pokes.append(node),
            on_event=lambda kind, **facts: self.events.append({"kind": kind, **facts}))
        self.broker.set(keys.observed(node), "{}")

    def kill(self, node: str) -> None:
        """The agent; the queries of its node go on, and its report expires."""
        del self.agents[node]
        self.broker.delete(keys.observed(node))

    def store(self, node: str) -> NodeStore:
        folder = self.folder / node
        (folder / "nodes" / node).mkdir(parents=True, exist_ok=True)
        return NodeStore(folder, node)

    def interval_s(self, query: str) -> float:
        return self.store(NODES[query]).read_intervals().get(query, self.desired_ms[query]) / 1000

    @property
    def latency_s(self) -> float:
        first_s, then_s = self.interval_s("a"), self.interval_s("b")
        return first_s / 2 + self.batch_s["a"] + max(0.0, then_s - first_s) / 2 + self.batch_s["b"]

    def reports(self, node: str) -> dict[str, dict[str, object]]:
        return {
            query: {"state": "running", "trigger_ms": round(1000 * self.interval_s(query)),
                    "batches": self.done[query][0], "busy_ms": round(self.done[query][1])}
            for query, of in NODES.items() if of == node}

    def run(self, seconds: int) -> None:
        for _ in range(seconds):
            self.now_s += 1
            for query in NODES:
                self.count(query)
            for agent in self.agents.values():
                agent.turn(self.now_s)

    def count(self, query: str) -> None:
        """What a query's meter says once its next batch has ended."""
        if self.now_s - self.ended_s[query] < self.interval_s(query):
            return
        self.ended_s[query] = self.now_s
        batches, busy_ms = self.done[query]
        self.done[query] = (batches + 1, busy_ms + 1000 * self.batch_s[query])
        first_s, meter = self.interval_s("a"), keys.meter(query)
        if query == "a":
            age_ms = 1000 * (first_s / 2 + self.batch_s["a"])
        else:
            wait_ms, age_ms = 500 * max(0.0, self.interval_s("b") - first_s), 1000 * self.latency_s
            for name in ("in:chan", "in:wait"):
                self.broker.hincrby(meter, f"{name}:{math.floor(4 * math.log2(wait_ms + 1))}", 10)
            for what, count in (("blocks", 10), ("chan", 10 * wait_ms), ("wait", 10 * wait_ms)):
                self.broker.hincrby(keys.channel_meters(query), f"a.0:{what}", round(count))
            self.broker.hincrby(meter, f"0:lat:{math.floor(4 * math.log2(age_ms + 1))}", 10)
        self.broker.hincrby(meter, "0:age", round(10 * age_ms))
        self.broker.hincrby(meter, "0:aged", 10)

    def set_up(self, *, limited: bool = True, percentile: float | None = None) -> list[str]:
        """What the site does, while it is there."""
        graph = RuntimeGraph([Vertex(query, query, node) for query, node in NODES.items()], [Channel("a", "b")])
        mean_s = LIMIT_S * 50 / (percentile or 50)
        limits = [LatencyConstraint(along(("a", "b")), mean_s, 60.0, percentile)] if limited else []
        setups = qos_setups(
            graph, limits, longest_ms=dict.fromkeys(NODES, 8_000), sources={"a"}, reads={"b": {"a.0": "a"}})
        return qos_store.publish(self.broker, setups.values(), at_ms=round(1000 * self.now_s))


@pytest.fixture
def world(broker: redis.Redis, tmp_path: Path) -> World:
    return World(broker, tmp_path)


def test_managers_alone_bring_a_limit_back_that_a_change_of_rate_has_violated(world: World) -> None:
    assert world.set_up() == ["n1", "n2"]
    assert world.set_up() == [], "nothing has changed"
    world.run(120)
    assert world.latency_s <= LIMIT_S
    assert not world.events, "a limit that holds is left alone"

    world.batch_s["b"] = 1.5  # more events come
    assert world.latency_s > LIMIT_S
    world.run(300)

    assert world.latency_s <= LIMIT_S
    assert {event["fragment"] for event in world.events} == {"a", "b"}, "the first step alone was not enough"
    assert all("3 s are asked for" in str(event["error"]) for event in world.events)
    assert set(world.pokes) == {"n1", "n2"}
    assert 0 < world.broker.ttl(keys.qos_wishes("n2")) <= qos_store.WISHES_LIVE_S
    assert world.broker.llen(keys.qos_reports("n1")) <= 2, "its manager takes them"


def test_a_node_without_a_set_up_asks_for_one_and_nothing_else(world: World) -> None:
    def commands() -> dict[str, int]:
        stats = world.broker.info("commandstats")
        return {name: stats.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in ("get", "lpop", "hgetall")}

    before = commands()
    world.agents["n1"].turn(1.0)
    assert {name: count - before[name] for name, count in commands().items()} == {"get": 1, "lpop": 0, "hgetall": 0}

    world.set_up()
    world.agents["n1"].turn(2.0)
    assert world.agents["n1"].version
    before = commands()
    world.agents["n1"].turn(3.0)
    assert all(count > before[name] for name, count in commands().items())


def test_a_meter_that_a_slot_forged_stops_no_node_and_counts_again_once_it_is_one(world: World) -> None:
    forged = ("x:aged", "007:aged", f"in:chan:{'9' * 5}", "0:lat:99999")
    world.set_up()
    world.run(10)
    world.batch_s["b"] = 1.5
    for number in range(1, 30):
        world.broker.hset(keys.meter("a"), mapping=dict.fromkeys(forged, number))
        world.run(1)
    world.broker.hdel(keys.meter("a"), *forged)
    world.run(300)
    assert world.latency_s <= LIMIT_S


def test_another_node_watches_for_a_manager_whose_node_was_killed_and_gives_that_back(
    broker: redis.Redis, tmp_path: Path
) -> None:
    world = World(broker, tmp_path, desired_ms={"a": 500, "b": DESIRED_MS})
    world.set_up()
    world.run(30)
    assert world.store("n1").read_qos().shares
    assert not world.store("n2").read_qos().shares

    world.kill("n1")
    world.batch_s["b"] = 1.5
    assert world.latency_s > LIMIT_S
    world.run(8)
    assert 0 < broker.ttl(keys.qos_reports("n1")) <= qos_store.REPORTS_LIVE_S, "nobody takes them yet"
    world.run(90)
    assert world.latency_s <= LIMIT_S, "no site has said anything"
    assert {event["fragment"] for event in world.events} == {"b"}
    assert broker.llen(keys.qos_reports("n1")) <= 2, "who stands in takes them"

    world.start("n1")
    seen_s, stepped = [], len(world.events)
    for _ in range(300):
        world.run(1)
        seen_s.append(world.interval_s("b"))
        assert world.latency_s <= LIMIT_S
    assert seen_s == sorted(seen_s), "nobody makes shorter what another has just chosen"
    assert broker.hkeys(keys.qos_wishes("n2")) == [b"n1"], "whoever it is speaks in the name of the manager"
    assert len({event["at_ms"] for event in world.events[stepped:]}) <= 300 / 20, "one of them decides"


def test_an_agent_that_was_cut_off_wishes_nothing_that_it_wished_before(broker: redis.Redis, tmp_path: Path) -> None:
    world = World(broker, tmp_path, desired_ms={"a": 500, "b": DESIRED_MS})
    world.set_up()
    world.run(60)
    cut_off = world.agents["n1"]
    world.kill("n1")
    world.batch_s["b"] = 1.5
    world.run(90)
    assert world.latency_s <= LIMIT_S
    world.agents["n1"] = cut_off
    broker.set(keys.observed("n1"), "{}")
    world.batch_s["b"] = 1.2
    short_s = world.interval_s("b")
    for _ in range(120):
        world.run(1)
        assert world.interval_s("b") <= 1.1 * short_s + 0.001, "it had wished for 4 s"


def test_who_stood_in_is_killed_too_and_all_that_come_back_hold_the_limit(
    broker: redis.Redis, tmp_path: Path
) -> None:
    world = World(broker, tmp_path, desired_ms={"a": 500, "b": 8_000})
    world.set_up()
    world.run(3)
    world.kill("n1")
    world.run(25)
    world.kill("n2")
    world.run(20)
    world.start("n2")
    world.run(90)
    assert world.latency_s <= LIMIT_S, "its set-up is on its disk"
    world.start("n1")
    world.run(120)
    assert world.latency_s <= LIMIT_S


def test_a_broker_that_comes_back_empty_makes_nobody_stand_in(world: World) -> None:
    world.set_up()
    world.run(30)
    world.broker.flushall()
    world.run(5)
    for node in NODES.values():
        world.broker.set(keys.observed(node), "{}")
    world.run(60)
    assert not world.broker.exists(keys.qos_wishes("n1")), "the other node wishes nothing of this one's queries"


def test_a_percentile_is_held_by_the_ages_that_the_last_query_tells(world: World) -> None:
    """All ages of a batch are alike here, so a limit on a percentile is one on the mean, and it holds."""
    world.set_up(percentile=99)
    world.run(120)
    assert 2 * world.latency_s > LIMIT_S >= world.latency_s
    assert not world.events, "nothing is made shorter though twice the mean is above the limit"


def test_what_was_made_short_for_a_while_becomes_longer_once_the_limit_holds_with_room(world: World) -> None:
    world.set_up()
    world.batch_s["b"] = 1.5
    world.run(240)
    short_s = {query: world.interval_s(query) for query in NODES}
    assert world.latency_s <= LIMIT_S
    world.batch_s["b"] = 0.1
    world.run(1_200)
    long_s = {query: world.interval_s(query) for query in NODES}
    assert sum(1 / of_s for of_s in long_s.values()) < 0.5 * sum(1 / of_s for of_s in short_s.values())
    assert max(long_s.values()) < DESIRED_MS / 1000, "with that the limit did not hold"
    assert world.latency_s <= LIMIT_S


def test_an_agent_that_comes_back_goes_by_its_disk_though_the_broker_lost_all(world: World) -> None:
    world.set_up()
    world.batch_s["b"] = 1.5
    world.run(300)
    intervals = {query: world.interval_s(query) for query in NODES}
    world.broker.flushall()
    world.start("n1")
    world.start("n2")
    world.run(120)
    assert {query: world.interval_s(query) for query in NODES} == intervals
    assert world.agents["n1"].version > 0


def test_what_no_limit_is_on_gets_fewer_batches_and_an_empty_set_up_ends_it_all(world: World) -> None:
    world.set_up(limited=False)
    world.run(60)
    assert {world.interval_s(query) for query in NODES} == {8.0}

    qos_store.publish(world.broker, [QosSetup(node="n1")], at_ms=0)
    world.run(2)
    assert world.interval_s("a") == 4.0, "as the site says"
    assert world.agents["n1"].version == 0
    assert not world.store("n1").intervals_path.exists()
    assert world.interval_s("b") == 8.0


def test_an_older_set_up_and_what_cannot_be_read_change_nothing(world: World) -> None:
    world.set_up()
    world.run(2)
    stands = world.store("n1").read_qos()
    world.broker.set(keys.qos("n1"), QOS_SETUPS.dumps(QosSetup(version=1, node="n1")))
    world.broker.rpush(keys.qos_reports("n1"), "no report")
    world.broker.hset(keys.qos_wishes("n1"), "n2", "no wish")
    world.run(2)
    assert world.store("n1").read_qos() == stands
    world.broker.set(keys.qos("n1"), "no set-up")
    world.run(2)
    assert world.store("n1").read_qos() == stands
    assert world.set_up() == ["n1"]


def test_without_a_set_up_nothing_is_measured(world: World) -> None:
    world.run(20)
    assert {agent.version for agent in world.agents.values()} == {0}
    assert {key.decode().split(":")[1] for key in world.broker.keys("weir:*")} == {"meter", "observed"}


def test_slots_see_the_intervals_of_managers_in_place_of_the_sites(tmp_path: Path) -> None:
    store = NodeStore(tmp_path, "n1")
    fragments = [
        {"id": name, "tasks": [], "inputs": [], "outlets": {}, "active": 1, "trigger_ms": 500, "real_time": is_open}
        for name, is_open in (("a", False), ("b", False), ("open", True))]
    store.write_desired(DESIRED_STATES.read({
        "version": 1, "node": "n1", "generation": 1, "slots": {"0": {"fragments": fragments}}}))
    newest = NewestDesired(store)

    def seen() -> dict[str, int]:
        return {name: fragment.trigger_ms for name, fragment in newest().wanted.items()}

    assert seen() == {"a": 500, "b": 500, "open": 500}
    assert store.write_intervals({"a": 90, "open": 90, "gone": 90})
    assert not store.write_intervals({"a": 90, "open": 90, "gone": 90})
    assert seen() == {"a": 90, "b": 500, "open": 500}
    assert store.write_intervals({})
    assert seen() == {"a": 500, "b": 500, "open": 500}


def test_a_sample_is_of_a_batch_that_has_ended_and_been_reported() -> None:
    sampler, report = Sampler(), {"state": "running", "trigger_ms": 1_000, "batches": 5, "busy_ms": 500}
    query = OwnQuery(8_000, source=True)
    counts = {"0:age": 1_000, "0:aged": 10, "1:age": 400, "1:aged": 2}
    assert sampler.look("q", counts, report, setup=query) is None, "the first look"
    later = {"0:age": 3_000, "0:aged": 20, "1:age": 400, "1:aged": 2, "0:lat:30": 4}
    assert sampler.look("q", later, report, setup=query) is None, "its slot has not said it yet"
    sample = sampler.look("q", later, {**report, "batches": 6, "busy_ms": 700}, setup=query)
    assert (sample.latency_s, sample.interval_s, sample.batch_s, sample.lifetime_s) == (0.2, 1.0, 0.2, 1.0)
    assert not sample.ages, "no limit on a percentile ends with it"
    assert sampler.look("q", later, {**report, "batches": 1, "busy_ms": 9}, setup=query) is None, "another driver"
    assert sampler.look("q", {**later, "0:aged": 30}, {**report, "state": "waiting"}, setup=query) is None
    later_sample = sampler.look(
        "q", {**later, "0:aged": 30, "0:lat:30": 9}, {**report, "batches": 2, "busy_ms": 20},
        setup=OwnQuery(8_000, source=True, ages=True))
    assert later_sample.ages == {30: 5}


def test_a_sample_of_a_reader_tells_its_channels_apart() -> None:
    sampler, report = Sampler(), {"state": "running", "trigger_ms": 1_000, "batches": 5, "busy_ms": 500}
    query = OwnQuery(8_000, reads={"a.0": "a", "a.1": "a", "old.0": "b", "c.0": "c"})
    counts, read = {"in:chan:20": 1, "in:wait:20": 1}, {"a.0:blocks": 5, "a.0:chan": 100, "a.0:wait": 50}
    assert sampler.look("q", counts, report, setup=query, channels=read) is None
    sample = sampler.look(
        "q", {"in:chan:20": 9, "in:wait:20": 9}, {**report, "batches": 6, "busy_ms": 600}, setup=query,
        channels={"a.0:blocks": 6, "a.0:chan": 400, "a.0:wait": 150, "a.1:blocks": 1, "a.1:chan": 100, "a.1:wait": 0,
                  "old.0:blocks": 2, "old.0:chan": 2_000, "old.0:wait": 1_000, "gone.0:blocks": 1, "gone.0:chan": 9})
    assert sample.channels == {"a": ChannelSample(0.2, 0.1), "b": ChannelSample(1.0, 1.0)}


def test_lists_of_reports_are_cut(broker: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qos_store, "REPORTS_KEPT", 3)
    for number in range(5):
        qos_store.send(broker, [("n1", QosReport(f"n{number}"))], [("n1", QosWishes("n2", 1, {"a": 5}))])
    mail = qos_store.fetch(broker, "n1", [])
    assert [report.node for report in mail.reports["n1"]] == ["n2", "n3", "n4"]
    assert mail.wishes["n2"].intervals_ms == {"a": 5}
