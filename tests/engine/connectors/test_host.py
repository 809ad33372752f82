"""The host of a node, turn by turn: what fails takes no others with it, and nothing is left of what went."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from scheduler.contracts.desired import DesiredState, WantedFragment, WantedSlot
from scheduler.model.dataflow import Task
from scheduler.model.task_types import Parameter, TaskType, TaskTypes
from workers.engine.agents.blame import Suspicion
from workers.engine.agents.node_files.atomic_files import write_atomically
from workers.engine.agents.node_files.node_store import NodeStore
from workers.engine.channels import keys
from workers.engine.channels.channel_registry import Channels
from workers.engine.connectors import connector_host as host_module
from workers.engine.connectors.connector_host import ConnectorHost
from workers.engine.connectors.contract import Message, Opening, Polled
from workers.engine.connectors.intake import IntakeStore
from workers.engine.retried import now_ms
from workers.engine.sinks.sink_store import SinkStore
from workers.engine.worker_settings import Settings

from .playing import fragment_of, until

pytestmark = pytest.mark.broker
HERE = "tests.engine.connectors.test_host"
EVENTS = (
    Parameter("columns", "list", "", default=("n:bigint",), items="string"),
    Parameter("keep_dead", "integer", "", default=10))
TYPES = TaskTypes((
    TaskType("counter", "source", "", f"{HERE}:any", connector=f"{HERE}:open_counter", parameters=EVENTS),
    TaskType("writer", "sink", "", f"{HERE}:any", writer="no.such.package:open_it", parameters=(
        Parameter("keep_events", "integer", "", default=10), Parameter("keep_refused", "integer", "", default=10))),
    TaskType("gone", "source", "", f"{HERE}:any", connector="no.such.package:open_it", parameters=EVENTS),
))


class Counter:
    """Gives the next number at each poll."""

    def __init__(self, opening: Opening) -> None:
        self.next = (opening.position or {"next": 0})["next"]

    def position(self) -> dict[str, int]:
        return {"next": self.next}

    def poll(self, timeout_s: float) -> Polled:
        self.next += 1
        return Polled([Message(values={"n": self.next - 1})], self.position())

    def written(self) -> None: ...

    def rest(self, timeout_s: float) -> None: ...

    def close(self, *, for_good: bool) -> None: ...


def open_counter(opening: Opening) -> Counter:
    return Counter(opening)


class Hosted:
    """A host that a test turns by hand."""

    def __init__(self, broker_url: str, folder: Path) -> None:
        self.told: dict[str, Any] = {}
        self._desired, self._version = NodeStore(folder, "n1"), 0
        settings = Settings(redis_url=broker_url, data_dir=folder, node="n1")
        self.host = ConnectorHost(settings, tell=self.told.update, types=TYPES)

    def want(self, *fragments: WantedFragment, generation: int | None = None) -> None:
        self._version += 1
        self._desired.write_desired(DesiredState(
            version=self._version, node="n1", generation=generation or self._version,
            slots={"0": WantedSlot(tuple(fragments))}))

    def turn(self) -> None:
        self.host.turn()
        self.host._report_at_ms = 0
        self.host._say()

    def until(self, is_so: Any) -> Any:
        def looked() -> Any:
            self.turn()
            return is_so()
        return until(looked, saying=lambda: self.told)

    def state(self, task: str) -> str | None:
        return self.told["connectors"].get(task, {}).get("state")


@pytest.fixture
def hosted(broker: redis.Redis, broker_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hosted]:
    monkeypatch.setattr(host_module, "KEPT_MS", 0)
    hosted = Hosted(broker_url, tmp_path)
    yield hosted
    hosted.host.stop()
    hosted.host.run()


def test_a_source_that_cannot_begin_takes_no_other_with_it(hosted: Hosted) -> None:
    hosted.want(fragment_of(Task("a", "gone"), "f1-0"), fragment_of(Task("b", "counter"), "f1-1"))
    hosted.until(lambda: hosted.state("b") == "running")
    assert hosted.state("a") == "retrying" and "no" in hosted.told["connectors"]["a"]["error"]
    assert hosted.told["connectors"]["a"]["retry_at_ms"]
    hosted.want(fragment_of(Task("b", "counter"), "f1-1"))
    hosted.turn()
    assert hosted.state("a") is None and hosted.state("b") == "running"


@pytest.mark.parametrize("is_wanted", [True, False])
def test_a_sink_that_ended_its_host_is_not_begun_and_says_so(
    broker: redis.Redis, broker_url: str, tmp_path: Path, is_wanted: bool
) -> None:
    """What of one is left that nobody wants any more is given up."""
    store, ended = SinkStore(broker), Suspicion((), {"f1-0.0": 2}, frozenset({"f1-0.0"}), now_ms(), "It crashed.")
    write_atomically(NodeStore(tmp_path, "n1").host_folder / "connectors.suspects", json.dumps(ended.document()))
    store.open("f1-0.0", node="n1", life="", task={"id": "w", "type": "writer", "config": {}})
    hosted = Hosted(broker_url, tmp_path)
    hosted.want(fragment_of(Task("b", "counter"), "f1-1"), *[fragment_of(Task("w", "writer"))] * is_wanted)
    hosted.until(lambda: hosted.state("b") == "running")
    sinks = hosted.told["sinks"]
    hosted.host.stop()
    hosted.host.run()
    if is_wanted:
        assert sinks["w"]["state"] == "retrying" and "2 times, alone. It crashed." in sinks["w"]["error"]
        assert sinks["w"]["channel"] == "f1-0.0" and sinks["w"]["retry_at_ms"] > now_ms()
    assert (list(store.left("n1")), list(sinks)) == ((["f1-0.0"], ["w"]) if is_wanted else ([], []))


def test_a_channel_that_the_broker_lost_is_opened_again_for_its_reader(hosted: Hosted, broker: redis.Redis) -> None:
    hosted.want(fragment_of(Task("b", "counter"), "f1-1"))
    hosted.until(lambda: hosted.state("b") == "running")
    broker.flushall()
    channels = Channels(broker)
    hosted.until(lambda: (info := channels.info(keys.intake("b"))) is not None and "f1-1" in info.readers)
    hosted.until(lambda: IntakeStore(broker).state("b").seq > 0)


def test_a_reader_of_a_later_plan_keeps_the_place_that_it_took_over(hosted: Hosted, broker: redis.Redis) -> None:
    hosted.want(fragment_of(Task("b", "counter"), "f1-1"), generation=1)
    hosted.until(lambda: hosted.state("b") == "running")
    channels = Channels(broker)
    channels.join(keys.intake("b"), "f2-0")  # its slot has heard of the plan, and the host has not
    channels.join(keys.intake("b"), "f0-9")  # of an earlier one
    hosted.host._registered.clear()
    hosted.turn()
    assert channels.info(keys.intake("b")).readers.keys() == {"f1-1", "f2-0"}


@pytest.mark.parametrize("is_from_elsewhere", [False, True])
def test_nothing_is_left_of_a_source_that_goes_while_it_rests(
    hosted: Hosted, broker: redis.Redis, is_from_elsewhere: bool
) -> None:
    hosted.want(fragment_of(Task("b", "counter"), "f1-1"))
    hosted.until(lambda: hosted.state("b") == "running")
    hosted.want(fragment_of(Task("b", "counter"), "f1-1", active=0))
    hosted.until(lambda: not hosted.host._ending)
    assert IntakeStore(broker).state("b").position, "it rests"
    assert hosted.told["idle"]
    if is_from_elsewhere:  # it was passed on to here, and has not begun since
        broker.srem(keys.hosted("n1"), "b")
    hosted.want()
    hosted.until(lambda: not broker.keys("weir:*"))
    assert hosted.told["idle"]


FORGED: dict[str, Callable[[redis.Redis], object]] = {  # by whoever is past the first wall in a slot
    "a count of a sink's channel": lambda broker: broker.hset(keys.meta("f1-0.0"), "events", "many"),
    "a sink's place": lambda broker: broker.hset(keys.readers("f1-0.0"), keys.SINK, "x"),
    "an entry without its time": lambda broker: broker.hset(keys.meta("f1-0.0"), "events", 5) and broker.xadd(
        keys.channel("f1-0.0"), {"x": 1}),
    "a sink's channel of another kind": lambda broker: broker.delete(keys.meta("f1-0.0")) or broker.set(
        keys.meta("f1-0.0"), "x"),
    "a reader that is no text": lambda broker: broker.hset(keys.readers(keys.intake("a")), b"\xff", "1-0"),
    "readers of another kind": lambda broker: broker.delete(keys.readers(keys.intake("a"))) and broker.set(
        keys.readers(keys.intake("a")), "x")}


@pytest.mark.parametrize("what", FORGED)
def test_what_a_slot_forged_of_one_channel_stops_no_other(hosted: Hosted, broker: redis.Redis, what: str) -> None:
    """One host serves all teams of a node."""
    mine = (fragment_of(Task("w", "writer")), fragment_of(Task("a", "counter"), "f1-1"))
    hosted.want(*mine)
    hosted.until(lambda: hosted.state("a") == "running" and "w" in hosted.told["sinks"])
    FORGED[what](broker)
    hosted.want(*mine, fragment_of(Task("b", "counter"), "f1-2"), fragment_of(Task("a", "counter"), "f2-1"))
    hosted.until(lambda: hosted.state("b") == "running" and IntakeStore(broker).state("b").seq > 0)
    assert "w" in hosted.told["sinks"] and hosted.state("a") is not None
    hosted.want(*mine)
    hosted.until(lambda: hosted.state("b") is None)


@pytest.mark.parametrize("task", ["{", "5", "[" * 100_000, '{"id": 1, "type": "writer", "config": {}}', '{"more": 1}'])
def test_what_a_host_of_another_node_wrote_of_a_left_sink_stops_nobody(
    hosted: Hosted, broker: redis.Redis, task: str
) -> None:
    SinkStore(broker).open("f9-0.0", node="n1", task={"id": "w", "type": "writer", "config": {}})
    broker.hset(keys.sink("f9-0.0"), "task", task)
    hosted.want(fragment_of(Task("b", "counter"), "f1-1"))
    hosted.until(lambda: hosted.state("b") == "running")
    assert SinkStore(broker).left("n1") == {}
