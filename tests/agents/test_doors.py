"""Doors on the real broker: parts open before anything is routed to them, and close when nobody reads them."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from scheduler.model.dataflow import Task
from scheduler.model.task_types import TaskType
from workers.agents.checkpoint import Progress
from workers.agents.doors import Doors
from workers.agents.live import Live
from workers.agents.reconcile import Route, State, Unroute
from workers.agents.routing import Routing
from workers.agents.wanted import Desired, WantedFragment
from workers.channels.registry import Channels

pytestmark = pytest.mark.broker

WHOLE = WantedFragment("f1-0", (Task("s", "any"),), routes={0: {"f1-1": {"f1-1": 1.0}}})
TYPES = {"any": TaskType("any", "transform", "", "a:b")}


@pytest.fixture
def writer(broker):
    """A running writer with its doors."""
    around = SimpleNamespace(
        channels=Channels(broker), broker=broker, task_types=TYPES,
        desired=lambda: Desired(slots={"0": (replace(WHOLE, routes={}),)}),  # no more than what is asked for here
        store=SimpleNamespace(progress=lambda _: Progress()))
    doors = Doors(around, clock_ms=lambda: 1_000, on_event=lambda *_, **__: None)
    routing = Routing(around, doors, clock_ms=lambda: 1_000)
    live = Live("f1-0", now_ms=0, state=State.STARTING)
    live.fragment, live.schemas = WHOLE, ("{}",)
    doors.prepare(WHOLE, live.schemas, has_begun=False)
    live.runs(None, "run", outlets={}, routes=WHOLE.routes, active=1, now_ms=0)
    return SimpleNamespace(doors=doors, routing=routing, live=live, channels=around.channels, broker=broker)


def test_a_new_bundle_gets_its_part_at_once_and_events_when_it_is_there(writer):
    weights = {"f1-1": 0.25, "f2-0": 0.75}
    assert writer.channels.info("f1-0.0@f1-1").readers == {"f1-1": "0-0"}
    assert writer.channels.routed("f1-0", 0, "f1-1").settled, "new from its first batch on"
    writer.broker.hset("weir:valve:f1-1", "routes", 0)
    for _ in range(2):
        writer.routing.divide(writer.live, Route("f1-0", 0, "f1-1", weights))
        assert writer.channels.info("f1-0.0@f2-0").readers == {"f2-0": "0-0"}
        assert writer.channels.routed("f1-0", 0, "f1-1").weights == {"f1-1": 1.0}, "it has not begun to read"
        assert writer.live.routes == WHOLE.routes and writer.live.actual().retry_at_ms > 1_000
    writer.broker.hset("weir:valve:f2-0", "routes", 0)
    writer.routing.divide(writer.live, Route("f1-0", 0, "f1-1", weights))
    found = writer.channels.routed("f1-0", 0, "f1-1")
    assert (found.weights, found.settled, writer.live.routes) == (weights, False, {0: {"f1-1": weights}})
    writer.channels.settle("f1-0", done_batch=4)
    assert writer.channels.routed("f1-0", 0, "f1-1").settled


def test_what_nobody_reads_any_more_is_left_to_expire_and_may_be_opened_again(writer):
    for bundle in ("f1-1", "f2-0"):
        writer.broker.hset(f"weir:valve:{bundle}", "routes", 0)
    writer.routing.divide(writer.live, Route("f1-0", 0, "f1-1", {"f2-0": 1.0}))
    assert writer.broker.ttl("weir:ch:f1-0.0@f1-1:meta") > 3_600 > 0
    assert writer.channels.info("f1-0.0@f1-1").readers == {}
    assert writer.doors.parts_of(WHOLE) == {(0, "f2-0"): "f1-0.0@f2-0"}
    writer.routing.divide(writer.live, Route("f1-0", 0, "f1-1", {"f1-1": 0.5, "f2-0": 0.5}))
    assert writer.broker.ttl("weir:ch:f1-0.0@f1-1:meta") == -1
    writer.doors.change(writer.live, Unroute("f1-0", 0, "f1-1"))
    assert writer.doors.parts_of(WHOLE) == {} and writer.live.routes == {}
    assert writer.broker.ttl("weir:ch:f1-0.0@f2-0:meta") > 0
