"""Looks at sources that do not run, with real servers: the newest events come, as the connector would read them, and
the other system is left as it was."""

from __future__ import annotations

import os
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import redis

from scheduler.contracts.looks import DONE, FAILED, LookOrder
from scheduler.model.dataflow import Task
from workers.engine import look_store
from workers.engine.agents.supervising import look_runner
from workers.engine.agents.supervising.confinement import Confinement
from workers.engine.look_store import LookProgress
from workers.engine.worker_settings import Settings
from workers.library.registry import makes_events, task_types

from .playing import until
from .rigs import rig_of

pytestmark = pytest.mark.broker
KINDS = ("kafka", "mqtt 5", "postgresql", "files", "files of S3")
VARIANTS = ("mqtt 3.1.1", "of a package")  # the long run has them
OWNER = "1"


def in_short(*kinds: str) -> pytest.MarkDecorator:
    """The short run has a test with these kinds, the long one with every kind."""
    return pytest.mark.parametrize("server", [
        kind if kind in kinds else pytest.param(kind, marks=pytest.mark.long) for kind in (*KINDS, *VARIANTS)],
        indirect=True)


# What a node does of a look, whatever it looks at. Of every kind the newest events come, and that one is away is told.
OF_ANY_KIND = in_short("files")


@pytest.fixture(scope="module", params=[*KINDS, *(pytest.param(kind, marks=pytest.mark.long) for kind in VARIANTS)])
def server(request: pytest.FixtureRequest) -> Iterator[Any]:
    with rig_of(request.param) as rig:
        rig.kind = request.param
        yield rig


@pytest.fixture
def rig(server: Any) -> Any:
    server.anew()
    return server


class Node:
    """A node's runner of looks, and somebody who asks."""

    def __init__(self, broker: redis.Redis, url: str, data_dir: Any, environment: dict[str, str]) -> None:
        self.broker, self.data_dir = broker, data_dir
        settings = Settings(redis_url=url, data_dir=data_dir)
        self.runner = look_runner.LookRunner(settings, Confinement.of(settings, {**os.environ, **environment}))
        self.runner.start()
        self._looks = 0

    def begin(self, task: Task, **more: Any) -> str:
        self._looks += 1
        look_id = f"{self._looks:032x}"
        look_store.order(self.broker, LookOrder(look_id, "n1", task.type, task.config, **more), owner=OWNER)
        return look_id

    def seen(self, look_id: str) -> LookProgress:
        seen = look_store.seen(self.broker, look_id, owner=OWNER)
        assert seen is not None
        return seen

    def outcome(self, look_id: str) -> LookProgress:
        until(lambda: self.seen(look_id).state.is_over, saying=lambda: self.seen(look_id).state)
        return self.seen(look_id)

    def look(self, task: Task, **more: Any) -> LookProgress:
        return self.outcome(self.begin(task, **more))

    def close(self) -> None:
        self.runner.stop()
        self.runner.join(10)


@pytest.fixture
def ends_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that is closed does not wait long for a last order."""
    monkeypatch.setattr(look_runner, "TAKE_S", 0.05)


@pytest.fixture
def node(rig: Any, ends_soon: None, broker: redis.Redis, broker_url: str, tmp_path: Any) -> Iterator[Node]:
    node = Node(broker, broker_url, tmp_path / "data", rig.environment)
    yield node
    node.close()


def looked(node: Node, rig: Any, send: Any, **more: Any) -> LookProgress:
    """What a look sees of events that are there, or, of a source that keeps none, that come while it looks."""
    if not rig.kind.startswith("mqtt"):
        send()
        return node.look(rig.task(), **more)
    look_id = node.begin(rig.task(), **more)
    until(lambda: node.seen(look_id).state.state == "looking")
    send()
    return node.outcome(look_id)


def test_the_newest_events_come_newest_first_with_their_types(node, rig):
    seen = looked(node, rig, lambda: rig.send(range(50)))
    assert seen.state.state == DONE and seen.state.unread == ()
    assert seen.types == {"n": "bigint", "text": "string"}
    numbers = [event["n"] for event in seen.events]
    assert len(numbers) == 20 and numbers == sorted(numbers, reverse=True)
    if not rig.kind.startswith("mqtt"):
        assert seen.events[0] == {"n": 49, "text": "event 49"} and numbers[-1] == 30


@OF_ANY_KIND  # test_damage.py and test_kafka_batches.py have what their readers cannot read
def test_what_cannot_be_read_is_told_as_the_connector_tells_it(node, rig):
    def send() -> None:
        rig.send([1])
        rig.send_garbage()
        rig.send([2])

    seen = looked(node, rig, send)
    assert [event["n"] for event in seen.events] == [2, 1]
    if rig.takes_garbage:
        [unread] = seen.state.unread
        assert unread.reason and unread.place


@in_short("postgresql", "files")  # whose columns have types, and whose messages have none
def test_columns_are_proposed_for_a_source_of_which_nobody_has_named_any(node, rig):
    seen = looked(node, rig, lambda: rig.send(range(5)), proposes=True)
    proposal = seen.state.proposal
    assert seen.state.state == DONE and proposal is not None and seen.state.unread == ()
    types = {column.name: column.type for column in proposal.columns}
    assert types == {name: seen.types[name] for name in types}
    if rig.kind == "postgresql":  # where the table has n as text
        assert types == {"id": "bigint", "n": "string", "text": "string", "more": "string"}
    else:
        assert types == {"n": "bigint", "text": "string"}
    assert [int(event["n"]) for event in seen.events] == [4, 3, 2, 1, 0]


@in_short("kafka")
def test_a_source_without_events_is_told_from_one_that_does_not_answer(node, rig):
    seen = node.look(rig.task(), waits_s=3.0)
    assert (seen.state.state, seen.events, seen.state.message) == (DONE, [], ""), seen.state
    assert set(seen.types) == {"n", "text"}


@OF_ANY_KIND
def test_what_comes_while_somebody_looks_at_an_empty_source_is_seen(node, rig):
    look_id = node.begin(rig.task(), waits_s=20.0)
    until(lambda: node.seen(look_id).state.state == "looking", saying=lambda: node.seen(look_id).state)
    rig.send([7])
    until(lambda: [event["n"] for event in node.seen(look_id).events] == [7], saying=lambda: node.seen(look_id))


def test_a_source_that_is_away_says_so_and_what_to_do(node, rig):
    rig.leave()
    try:
        seen = node.look(rig.task(), waits_s=4.0)
    finally:
        rig.return_()
    assert (seen.state.state, seen.state.code, seen.events) == (FAILED, "source_away", []), seen.state
    assert seen.state.message and seen.state.remedy and "tried again by itself" not in seen.state.remedy


@OF_ANY_KIND
def test_a_look_ends_when_nobody_asks(node, rig):
    look_id = node.begin(rig.task(), waits_s=120.0)
    until(lambda: node.seen(look_id).state.state == "looking", saying=lambda: node.seen(look_id).state)
    assert node.runner.pids
    until(lambda: not node.runner.pids)
    assert look_store.seen(node.broker, look_id, owner=OWNER).state.state == "looking", "it did not come to its own end"


@OF_ANY_KIND
def test_a_look_that_is_cancelled_ends_and_is_gone(node, rig):
    look_id = node.begin(rig.task(), waits_s=120.0)
    until(lambda: node.seen(look_id).state.state == "looking", saying=lambda: node.seen(look_id).state)
    assert not look_store.cancel(node.broker, look_id, owner="2"), "it is somebody else's"
    assert look_store.cancel(node.broker, look_id, owner=OWNER)
    until(lambda: not node.runner.pids)
    assert look_store.seen(node.broker, look_id, owner=OWNER) is None


@pytest.mark.parametrize("is_hash", [True, False])
def test_what_a_slot_forged_of_a_look_that_it_shows_stops_no_other(
    ends_soon: None, broker: redis.Redis, broker_url: str, tmp_path: Any, is_hash: bool
) -> None:
    settings = Settings(redis_url=broker_url, data_dir=tmp_path)
    made = next(filter(makes_events, task_types().values()))
    slot = SimpleNamespace(state="running", pid=1, order=lambda *_, **more: shown.append(more["look"]))
    runner, shown = look_runner.LookRunner(settings, Confinement.of(settings), slots=lambda: [slot]), list[str]()
    runner.start()
    for look_id in ("1" * 32, "2" * 32):
        look_store.order(broker, LookOrder(look_id, "n1", made.name, {}), owner=look_id)
        until(lambda look_id=look_id: look_id in shown)
        if is_hash:
            broker.hset(look_store.key(look_id), "state", "no state")
        else:
            broker.delete(look_store.key(look_id))
            broker.set(look_store.key(look_id), "no hash")
    runner.stop()
    runner.join(10)
