"""A source and a sink pass from node to node with their fragment: one host at a time has each, whoever dies when."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from scheduler.contracts.desired import DesiredState, WantedFragment, WantedSlot
from scheduler.contracts.offsets import Offset
from scheduler.contracts.savepoints import RestorePoint
from scheduler.model.columns import number_of
from scheduler.model.dataflow import Task
from scheduler.model.task_types import TaskType, TaskTypes
from workers.engine import connector_leases
from workers.engine.agents.node_files.node_store import NodeStore
from workers.engine.agents.reconciling.started_fragments import SlotStore
from workers.engine.channels import keys
from workers.engine.channels.channel_registry import Channels
from workers.engine.connectors import connector_host as host_module
from workers.engine.connectors.connector_host import ConnectorHost
from workers.engine.connectors.contract import Message, Opening, Polled
from workers.engine.connectors.intake import IntakeStore
from workers.engine.passing import PassingRecords
from workers.engine.sinks.contract import Batch, Batching, Overtaken, Refuse, SinkOpening
from workers.engine.worker_settings import Settings
from workers.library.live_sinks import KEEP_EVENTS, KEEP_REFUSED

from .playing import PlayedReader, fragment_of, until
from .test_host import EVENTS, Counter
from .test_sinks_contract import PlayedQuery

pytestmark = pytest.mark.broker
HERE = "tests.engine.connectors.test_passing"
TYPES = TaskTypes((
    TaskType("counter", "source", "", f"{HERE}:any", connector=f"{HERE}:open_counter", parameters=EVENTS),
    TaskType("store", "sink", "", f"{HERE}:any", terminal="connector", writer=f"{HERE}:open_store",
             parameters=(KEEP_EVENTS, KEEP_REFUSED)),
))
SOURCE, SINK = Task("s", "counter", {}), Task("o", "store", {})
NODES = ("n1", "n2")
MOST = 400
BOTH: dict[str, int] = {}  # readers that are open, by task
OUTSIDE: dict[str, tuple[Offset, list[int]]] = {}  # by the name of a sink: how far it is, and what it has


class Ending(Counter):
    """Gives numbers up to a last one; counts how many are open."""

    def __init__(self, opening: Opening) -> None:
        super().__init__(opening)
        BOTH[opening.task] = BOTH.get(opening.task, 0) + 1
        self._task = opening.task

    def poll(self, timeout_s: float) -> Polled:
        if self.next >= MOST:
            return Polled()
        first, self.next = self.next, self.next + 1
        return Polled([Message(values={"n": first})], self.position())

    def close(self, *, for_good: bool) -> None:
        assert not for_good, "it is read on elsewhere"
        BOTH[self._task] -= 1


def open_counter(opening: Opening) -> Ending:
    return Ending(opening)


class Kept:
    """Another system that keeps how far a sink has come in the step that writes."""

    batching = Batching(most_events=7)

    def __init__(self, opening: SinkOpening) -> None:
        self._name = opening.sink
        OUTSIDE.setdefault(self._name, (Offset("0-0"), []))

    def position(self) -> Offset:
        return OUTSIDE[self._name][0]

    def write(self, batch: Batch, refuse: Refuse) -> None:
        until_now, rows = OUTSIDE[self._name]
        if until_now != batch.after and until_now != Offset("0-0"):
            raise Overtaken
        OUTSIDE[self._name] = (batch.until, [*rows, *batch.rows["n"].to_pylist()])

    def rest(self) -> None: ...

    def close(self) -> None: ...


def open_store(opening: SinkOpening) -> Kept:
    return Kept(opening)


class TwoNodes:
    """Two hosts that a test turns by hand, and what their agents and slots would have done."""

    def __init__(self, broker: redis.Redis, broker_url: str, folder: Path) -> None:
        self.broker, self.broker_url, self.folder = broker, broker_url, folder
        self.version = 0
        self.stores = {node: NodeStore(folder / node, node) for node in NODES}
        self.records = {
            node: SlotStore(store.data_dir, store.slot_dir("0")) for node, store in self.stores.items()}
        self.passing = {node: PassingRecords(store) for node, store in self.stores.items()}
        self.hosts: dict[str, ConnectorHost] = {}
        for node in NODES:
            self.start(node)

    def start(self, node: str) -> None:
        settings = Settings(redis_url=self.broker_url, data_dir=self.folder / node, node=node)
        self.hosts[node] = ConnectorHost(settings, tell=lambda _: None, types=TYPES)

    def kill(self, node: str) -> None:
        """Its threads end as they are: what they would have noted is not noted."""
        host = self.hosts.pop(node)
        for runner in (*host._runners.values(), *host._sinks.runners.values()):
            runner.stop()
        for runner in (*host._runners.values(), *host._sinks.runners.values()):
            assert runner.join(10)
        self.start(node)

    def turn(self, node: str) -> None:
        self.hosts[node].turn()

    def want(self, node: str, *fragments: WantedFragment, remote: dict | None = None) -> None:
        self.stores[node].write_desired(DesiredState(
            version=self.version, node=node, generation=self.version, slots={"0": WantedSlot(fragments)},
            remote_heirs=remote or {}))

    def hear(self, node: str, fragments: list[WantedFragment], to: str) -> None:
        """A node hears of a plan by which these run on a node, in place of others of the other one."""
        if node == to:
            self.want(node, *fragments)
        else:
            self.want(node, remote={to: tuple(fragments)})

    def begin(self, node: str, fragment: WantedFragment) -> None:
        self.records[node].record_begun(fragment.id, RestorePoint())

    def holder(self) -> tuple[str, str]:
        store = self.hosts["n1"]
        return store._store.leases.holder("s"), store._sinks._store.leases.holder("f1-1.0")


@pytest.fixture
def nodes(broker: redis.Redis, broker_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TwoNodes]:
    monkeypatch.setattr(host_module, "KEPT_MS", 0)
    BOTH.clear()
    OUTSIDE.clear()
    nodes = TwoNodes(broker, broker_url, tmp_path)
    yield nodes
    for host in nodes.hosts.values():
        host.stop()
        host.run()


def moved(number: int, before: list[WantedFragment], origin: str) -> list[WantedFragment]:
    """A source and a sink that go on with those before them, by the plan of that generation."""
    reads = fragment_of(
        SOURCE, f"f{number}-0", inherits=tuple(part.id for part in before[:1]), origin=origin)
    writes = WantedFragment(
        f"f{number}-1", (SINK,), inherits=tuple(part.id for part in before[1:]), origin=origin,
        channels={0: "f1-1.0"})
    return [reads, writes]


def play(nodes: TwoNodes, chance: random.Random, *, moves: int, deadly: bool) -> None:
    channels, at = Channels(nodes.broker), "n1"
    query = PlayedQuery(nodes.broker, "f1-1.0")
    parts = moved(1, [], "")
    nodes.version = 1
    nodes.hear("n1", parts, "n1")
    until(lambda: nodes.turn("n1") or IntakeStore(nodes.broker).state("s").seq > 3)
    reader = PlayedReader(nodes.broker, "s")
    sent = 0
    for number in range(2, moves + 2):
        before, left, at = parts, at, "n2" if at == "n1" else "n1"
        parts, nodes.version = moved(number, before, left), number
        steps = [lambda a=at, p=parts: nodes.hear(a, p, a), lambda b=left, p=parts, a=at: nodes.hear(b, p, a)]
        chance.shuffle(steps)
        # The heirs' places and the record of their beginning, then the other node hears that they have begun.
        steps += [
            lambda p=parts, r=reader: channels.join(keys.intake("s"), p[0].id, where=r._read_to or "oldest"),
            lambda b=before: channels.unregister(keys.intake("s"), b[0].id, for_good=True),
            *(lambda part=part, a=at: nodes.begin(a, part) for part in parts),
            *(lambda part=part, b=left: nodes.records[b].record_taken(part.id) for part in parts)]
        for step in steps:
            reader.read()
            query.send(range(sent, sent + 3))
            sent += 3
            for _ in range(chance.randrange(4)):
                node = chance.choice(NODES)
                if deadly and chance.random() < 0.3:
                    nodes.kill(node)
                nodes.turn(node)
            step()
        rows, read_to = reader.rows, reader._read_to
        reader = PlayedReader(nodes.broker, "s", parts[0].id)
        reader.rows, reader._read_to = rows, read_to

        def is_over(at: str = at, left: str = left) -> bool:
            for node in NODES:
                nodes.turn(node)
            return nodes.holder() == (at, at) and not nodes.passing[left].still_leaving(
                nodes.stores[left].read_desired(), TYPES)

        until(is_over, within_s=30, saying=nodes.holder)
        assert sum(BOTH.values()) <= 1, "two read the source"

    def is_done() -> bool:
        for node in NODES:
            nodes.turn(node)
        return len(reader.read()) == MOST and sum(len(rows) for _, rows in OUTSIDE.values()) >= sent

    until(is_done, within_s=60, saying=lambda: (len(reader.rows), OUTSIDE.keys()))
    assert [row["n"] for row in reader.rows] == list(range(MOST)) == [number_of(row["_seq"]) for row in reader.rows]
    [(_, rows)] = OUTSIDE.values()
    assert rows == list(range(sent)), "each event outside once, in order, for one sink"


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.long) for seed in (2, 3))])
def test_they_pass_back_and_forth_and_each_event_comes_once_whoever_dies(nodes: TwoNodes, seed: int) -> None:
    play(nodes, random.Random(seed), moves=4, deadly=True)


def test_nobody_takes_by_force_what_is_let_go(nodes: TwoNodes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connector_leases, "HELD_MS", 10**9)
    play(nodes, random.Random(9), moves=2, deadly=False)


@pytest.mark.parametrize("is_lost", [False, True])
def test_what_a_dead_node_does_not_let_go_is_taken_by_force_and_it_writes_no_more(
    nodes: TwoNodes, monkeypatch: pytest.MonkeyPatch, is_lost: bool
) -> None:
    """At once where its queries go on from copies."""
    before = moved(1, [], "")
    nodes.version = 1
    PlayedQuery(nodes.broker, "f1-1.0")
    nodes.hear("n1", before, "n1")
    store = IntakeStore(nodes.broker)
    until(lambda: nodes.turn("n1") or store.state("s").seq > 3)
    parts, nodes.version = moved(2, before, "n1"), 2
    nodes.hear("n2", parts, "n2")
    nodes.turn("n2")
    assert nodes.holder() == ("n1", "n1"), "they have not begun"
    for part in parts:
        nodes.begin("n2", part)
    nodes.turn("n2")
    assert nodes.holder() == ("n1", "n1"), "it may let go yet"
    assert nodes.hosts["n2"]._awaited_sources["s"].state == "starting"
    token = nodes.hosts["n1"]._runners["s"].token
    if is_lost:
        nodes.broker.hset(keys.LOST, "n1", 1)
    else:
        monkeypatch.setattr(connector_leases, "HELD_MS", 0)
    until(lambda: nodes.turn("n2") or nodes.holder() == ("n2", "n2"))
    monkeypatch.setattr(connector_leases, "HELD_MS", 10_000)
    until(lambda: nodes.hosts["n1"]._runners["s"].is_overtaken or store.state("s").seq == MOST)
    assert nodes.hosts["n1"]._runners["s"].token == token, "it takes no token again"
    assert not store.delete("s", node="n1"), "nor does it clear away what another has"
    assert store.state("s").position is not None
