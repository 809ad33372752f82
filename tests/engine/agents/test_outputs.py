"""OutputChannels on the real broker: parts open before anything is routed to them, and close when nobody reads them."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from workers.engine.agents.route_activation import RouteActivation

from scheduler.contracts.desired import DesiredState, WantedFragment, WantedSlot
from scheduler.model.dataflow import Task
from scheduler.model.task_types import TaskType
from workers.engine.agents import route_activation
from workers.engine.agents.checkpoint import Progress
from workers.engine.agents.fragment_run import FragmentRun
from workers.engine.agents.outputs import OutputChannels
from workers.engine.agents.reconcile import Route, State, Unroute
from workers.engine.channels.registry import Channels

pytestmark = pytest.mark.broker

WHOLE = WantedFragment("f1-0", (Task("s", "any"),), routes={0: {"f1-1": {"f1-1": 1.0}}})
TYPES = {"any": TaskType("any", "transform", "", "a:b")}


@pytest.fixture
def writer(broker):
    """A running writer with its outputs."""
    around = SimpleNamespace(
        channels=Channels(broker), broker=broker, task_types=TYPES,
        # No more than what is asked for here.
        desired=lambda: DesiredState(slots={"0": WantedSlot((replace(WHOLE, routes={}),))}),
        store=SimpleNamespace(progress=lambda _: Progress()))
    outputs = OutputChannels(around, clock_ms=lambda: 1_000, on_event=lambda *_, **__: None)
    routing = RouteActivation(around, outputs, clock_ms=lambda: 1_000)
    live = FragmentRun("f1-0", now_ms=0, state=State.STARTING)
    live.fragment, live.schemas = WHOLE, ("{}",)
    outputs.prepare(WHOLE, live.schemas, has_begun=False)
    live.runs(None, "run", outlets={}, routes=WHOLE.routes, active=1, now_ms=0)
    return SimpleNamespace(outputs=outputs, routing=routing, live=live, channels=around.channels, broker=broker)


def test_a_new_bundle_gets_its_part_at_once_and_events_when_it_is_there(writer):
    weights = {"f1-1": 0.25, "f2-0": 0.75}
    assert writer.channels.info("f1-0.0@f1-1").readers == {"f1-1": "0-0"}
    assert writer.channels.routed("f1-0", 0, "f1-1").effective, "new from its first batch on"
    writer.broker.hset("weir:valve:f1-1", "routes", 0)
    for _ in range(2):
        writer.routing.divide(writer.live, Route("f1-0", 0, "f1-1", weights))
        assert writer.channels.info("f1-0.0@f2-0").readers == {"f2-0": "0-0"}
        assert writer.channels.routed("f1-0", 0, "f1-1").weights == {"f1-1": 1.0}, "it has not begun to read"
        assert writer.live.routes == WHOLE.routes and writer.live.actual().retry_at_ms > 1_000
    writer.broker.hset("weir:valve:f2-0", "routes", 0)
    writer.routing.divide(writer.live, Route("f1-0", 0, "f1-1", weights))
    found = writer.channels.routed("f1-0", 0, "f1-1")
    assert (found.weights, found.effective, writer.live.routes) == (weights, False, {0: {"f1-1": weights}})
    writer.channels.activate("f1-0", done_batch=4)
    assert writer.channels.routed("f1-0", 0, "f1-1").effective


def test_what_nobody_reads_any_more_is_left_to_expire_and_may_be_opened_again(writer):
    for bundle in ("f1-1", "f2-0"):
        writer.broker.hset(f"weir:valve:{bundle}", "routes", 0)
    writer.routing.divide(writer.live, Route("f1-0", 0, "f1-1", {"f2-0": 1.0}))
    assert writer.broker.ttl("weir:ch:f1-0.0@f1-1:meta") > 3_600 > 0
    assert writer.channels.info("f1-0.0@f1-1").readers == {}
    assert writer.outputs.parts_of(WHOLE) == {(0, "f2-0"): "f1-0.0@f2-0"}
    writer.routing.divide(writer.live, Route("f1-0", 0, "f1-1", {"f1-1": 0.5, "f2-0": 0.5}))
    assert writer.broker.ttl("weir:ch:f1-0.0@f1-1:meta") == -1
    writer.outputs.change(writer.live, Unroute("f1-0", 0, "f1-1"))
    assert writer.outputs.parts_of(WHOLE) == {} and writer.live.routes == {}
    assert writer.broker.ttl("weir:ch:f1-0.0@f2-0:meta") > 0


def test_what_a_start_asks_of_a_stream_does_not_grow_with_its_readers(writer):
    """Each look at a channel brings all its readers: one look for each of them would be their square."""
    def looks(readers: int) -> int:
        def asked() -> int:
            return writer.broker.info("commandstats").get("cmdstat_hgetall", {}).get("calls", 0)

        before = asked()
        divided = {f"f1-{number}": {f"f1-{number}": 1.0} for number in range(1, readers + 1)}
        writer.outputs.prepare(replace(WHOLE, routes={0: divided}), ("{}",), has_begun=True)
        return asked() - before

    assert looks(3) == looks(30)
    assert len(writer.channels.routes("f1-0")) == 30


@pytest.fixture
def whole(broker, monkeypatch):
    """A running writer of a stream that one fragment reads whole, and that is to be divided for it or for its heir."""
    wanted = {"routes": {0: {"f1-1": {"f1-1": 0.5, "f2-0": 0.5}}}, "heirs": {}}
    around = SimpleNamespace(
        channels=Channels(broker), broker=broker, task_types=TYPES, query=object(), generation=2,
        desired=lambda: DesiredState(
            generation=around.generation, slots={"0": WantedSlot((replace(WHOLE, **wanted),))}),
        store=SimpleNamespace(progress=lambda _: around.progress), progress=Progress(6, True))
    monkeypatch.setattr(
        route_activation, "queries", SimpleNamespace(rest=lambda query, pause: pause() is None and query))
    outputs = OutputChannels(around, clock_ms=lambda: 1_000, on_event=lambda *_, **__: None)
    live = FragmentRun("f1-0", now_ms=0, state=State.STARTING)
    live.fragment, live.schemas, live.query = replace(WHOLE, routes={}, outlets={0: frozenset({"f1-1"})}), ("{}",), True
    outlets, routes = outputs.prepare(live.fragment, live.schemas, has_begun=True)
    live.runs(True, "run", outlets=outlets, routes=routes, active=1, now_ms=0)
    for bundle in ("f1-1", "f2-0"):
        broker.hset(f"weir:valve:{bundle}", "routes", 0)
    return SimpleNamespace(
        around=around, outputs=outputs, routing=RouteActivation(around, outputs, clock_ms=lambda: 1_000), live=live,
        wanted=wanted,
        channels=around.channels, broker=broker, route=Route("f1-0", 0, "f1-1", wanted["routes"][0]["f1-1"]))


def test_a_stream_that_is_read_whole_is_divided_between_two_batches(whole):
    whole.live.query = None
    whole.routing.divide(whole.live, whole.route)
    whole.live.query, whole.around.progress = True, Progress(7, False)
    whole.routing.divide(whole.live, whole.route)
    assert whole.channels.info("f1-0.0").limits == {} and whole.live.routes == {}, "a batch is under way"
    assert whole.live.outlets == {0: frozenset({"f1-1"})} and whole.live.actual().retry_at_ms > 1_000
    whole.around.progress = Progress(7, True)
    whole.routing.divide(whole.live, whole.route)
    found = whole.channels.routed("f1-0", 0, "f1-1")
    assert (found.from_batch, found.effective) == (8, True)
    assert whole.channels.info("f1-0.0").limits == {"f1-1": "0-0"}
    assert (whole.live.outlets, whole.live.routes) == ({}, {0: {"f1-1": whole.route.weights}})
    assert whole.channels.control("f1-0")["0:outlet"] == "closed" and "paused" not in whole.channels.control("f1-0")


def test_who_takes_a_place_over_is_waited_for_before_a_stream_is_divided(whole):
    """The place is that of one before it, which still reads the whole stream to where it ends."""
    route = Route("f1-0", 0, "f2-0", {"f2-0": 1.0})
    whole.wanted |= {"routes": {0: {"f2-0": {"f2-0": 1.0}}}, "heirs": {"f2-0": ("f1-1",)}}
    whole.routing.divide(whole.live, route)
    assert whole.live.routes == {} and whole.live.actual().retry_at_ms > 1_000
    assert whole.channels.info("f1-0.0@f2-0").readers == {"f2-0": "0-0"}, "its part is open already"
    whole.channels.join("f1-0.0", "f2-0", where="0-0")
    whole.channels.unregister("f1-0.0", "f1-1", for_good=True)
    whole.routing.divide(whole.live, route)
    assert set(whole.channels.info("f1-0.0").limits) == {"f1-1", "f2-0"}
    assert whole.live.routes == {0: {"f2-0": {"f2-0": 1.0}}} and whole.live.outlets == {}


def test_a_writer_that_starts_again_goes_on_where_it_is(whole):
    """What is still read whole is published whole, what is divided is divided, and nobody loses a place."""
    fragment = replace(whole.live.fragment, outlets={}, routes=whole.wanted["routes"])
    outlets, routes = whole.outputs.prepare(fragment, ("{}",), has_begun=True)
    assert (outlets, routes) == ({0: frozenset({"f1-1"})}, {})
    assert whole.channels.control("f1-0")["0:outlet"] == "open"
    whole.routing.divide(whole.live, whole.route)
    whole.broker.hset("weir:ch:f1-0.0:readers", "f1-1", "0-0")  # it has not come to its limit yet
    outlets, routes = whole.outputs.prepare(fragment, ("{}",), has_begun=True)
    assert (outlets, routes) == ({}, dict(fragment.routes))
    assert whole.channels.info("f1-0.0").readers == {"f1-1": "0-0"}


def test_a_writer_takes_no_place_from_who_is_of_a_later_plan(whole):
    for reader in ("f1-7", "f3-0"):
        whole.channels.join("f1-0.0", reader)
    whole.outputs.prepare(whole.live.fragment, ("{}",), has_begun=True)
    assert set(whole.channels.info("f1-0.0").readers) == {"f1-1", "f3-0"}
