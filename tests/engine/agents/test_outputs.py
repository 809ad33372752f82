"""Outputs on the real broker: parts open before anything is routed to them, and close when nobody reads them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

import pytest
import redis

from scheduler.contracts.desired import DesiredState, WantedFragment, WantedSlot
from scheduler.contracts.partitioning import Quota
from scheduler.model.dataflow import Task
from scheduler.model.task_types import DYNAMIC_FOLD, TaskType
from workers.engine.agents.node_files.checkpoint import CheckpointProgress
from workers.engine.agents.reconciling.context import SlotContext
from workers.engine.agents.reconciling.executor import FragmentExecutor
from workers.engine.agents.reconciling.fragment_run import FragmentRun
from workers.engine.agents.reconciling.outputs import parts_of
from workers.engine.agents.reconciling.reconcile import Action, DivideStream, Start, Unroute, reconcile
from workers.engine.channels.channel_registry import Channels
from workers.engine.channels.open_streams import QueryMode
from workers.engine.keyed_choices import KeyedChoices, write_choices

from ..told_by_key import told_by_key
from .played_queries import Store

pytestmark = pytest.mark.broker

WHOLE = WantedFragment("f1-0", (Task("s", "any"),), routes={0: {"f1-1": {"f1-1": 1.0}}})
TYPES = {name: TaskType(name, "transform", "", "a:b") for name in ("any", DYNAMIC_FOLD)}


class Disk(Store):
    """A played disk on which the fragment's checkpoint has come as far as a test says."""

    def __init__(self, reached: CheckpointProgress) -> None:
        super().__init__({}, "n1/0")
        self.reached = reached

    def progress(self, name: str) -> CheckpointProgress:
        return self.reached

    def has_begun(self, name: str) -> bool:
        return self.reached.batch >= 0


class Engine:
    """Queries that do nothing, and come to rest at once."""

    def __init__(self, channels: Channels) -> None:
        self._channels = channels

    def compile(self, whole: WantedFragment, _beginning: object) -> SimpleNamespace:
        return SimpleNamespace(schemas=("{}",) * len(whole.tasks), folds=(), file_sink=None, batch_mode=QueryMode())

    def start(self, *_: object, **__: object) -> SimpleNamespace:
        return SimpleNamespace(runId="run")

    def hold(self, _query: object, fragment_id: str) -> bool:
        self._channels.pause(fragment_id)
        return True


class Writer:
    """A fragment that writes, on a slot whose executor performs actions on it."""

    def __init__(self, broker: redis.Redis, reached: CheckpointProgress, desired: Callable[[], DesiredState]) -> None:
        self.broker, self.channels, self.disk, self._desired = broker, Channels(broker), Disk(reached), desired
        self._executor = FragmentExecutor(
            SlotContext(
                engine=Engine(self.channels), channels=self.channels, broker=broker, store=self.disk,
                task_types=TYPES, desired=desired),
            clock_ms=lambda: 1_000, on_event=lambda *_, **__: None)

    def start(self, fragment: WantedFragment) -> None:
        """Start the fragment as a slot does that knows nothing of an earlier life."""
        self.run = FragmentRun(fragment.id, now_ms=0)
        self.perform(Start(fragment))
        assert self.run.query is not None, "it did not start"

    def perform(self, action: Action) -> None:
        self._executor.perform(self.run, self._desired(), [action])

    def parts(self) -> dict[tuple[int, str], str]:
        """The parts of its stream that are its own."""
        return dict(parts_of(self.channels.control("f1-0"), WHOLE))


@pytest.fixture
def writer(broker: redis.Redis) -> Writer:
    """A running writer with its outputs; no more is wanted of it than what a test asks for."""
    desired = DesiredState(slots={"0": WantedSlot((replace(WHOLE, routes={}),))})
    started = Writer(broker, CheckpointProgress(), lambda: desired)
    started.start(WHOLE)
    return started


def test_a_new_bundle_gets_its_part_at_once_and_events_when_it_is_there(writer):
    weights = Quota({"f1-1": 0.25, "f2-0": 0.75})
    assert writer.channels.info("f1-0.0@f1-1").readers == {"f1-1": "0-0"}
    assert writer.channels.routed("f1-0", 0, "f1-1").effective, "new from its first batch on"
    writer.broker.hset("weir:valve:f1-1", "routes", 0)
    for _ in range(2):
        writer.perform(DivideStream("f1-0", 0, "f1-1", weights))
        assert writer.channels.info("f1-0.0@f2-0").readers == {"f2-0": "0-0"}
        assert writer.channels.routed("f1-0", 0, "f1-1").partitioning == {"f1-1": 1.0}, "it has not begun to read"
        assert writer.run.routes == WHOLE.routes and writer.run.actual().retry_at_ms > 1_000
    writer.broker.hset("weir:valve:f2-0", "routes", 0)
    writer.perform(DivideStream("f1-0", 0, "f1-1", weights))
    routed = writer.channels.routed("f1-0", 0, "f1-1")
    assert (routed.partitioning, routed.effective, writer.run.routes) == (weights, False, {0: {"f1-1": weights}})
    writer.channels.activate("f1-0", done_batch=4)
    assert writer.channels.routed("f1-0", 0, "f1-1").effective


def test_what_nobody_reads_any_more_is_left_to_expire_and_may_be_opened_again(writer):
    for bundle in ("f1-1", "f2-0"):
        writer.broker.hset(f"weir:valve:{bundle}", "routes", 0)
    writer.perform(DivideStream("f1-0", 0, "f1-1", Quota({"f2-0": 1.0})))
    assert writer.broker.ttl("weir:ch:f1-0.0@f1-1:meta") > 3_600 > 0
    assert writer.channels.info("f1-0.0@f1-1").readers == {}
    assert writer.parts() == {(0, "f2-0"): "f1-0.0@f2-0"}
    writer.perform(DivideStream("f1-0", 0, "f1-1", Quota({"f1-1": 0.5, "f2-0": 0.5})))
    assert writer.broker.ttl("weir:ch:f1-0.0@f1-1:meta") == -1
    writer.perform(Unroute("f1-0", 0, "f1-1"))
    assert writer.parts() == {} and writer.run.routes == {}
    assert writer.broker.ttl("weir:ch:f1-0.0@f2-0:meta") > 0


def test_what_a_start_asks_of_a_stream_does_not_grow_with_its_readers(writer):
    """Each look at a channel brings all its readers: one look for each of them would be their square."""
    def looks(readers: int) -> int:
        def calls() -> int:
            return writer.broker.info("commandstats").get("cmdstat_hgetall", {}).get("calls", 0)

        before = calls()
        divided = {f"f1-{number}": {f"f1-{number}": 1.0} for number in range(1, readers + 1)}
        writer.disk.reached = CheckpointProgress(3, True)
        writer.start(replace(WHOLE, routes={0: divided}))
        return calls() - before

    assert looks(3) == looks(30)
    assert len(writer.channels.routes("f1-0")) == 30


class WholeWriter(Writer):
    """A running writer of a stream that one fragment reads whole, and that is to be divided for it or for its heir."""

    def __init__(self, broker: redis.Redis) -> None:
        self.wanted = {"routes": {0: {"f1-1": Quota({"f1-1": 0.5, "f2-0": 0.5})}}, "heirs": {}}
        super().__init__(broker, CheckpointProgress(6, True), lambda: DesiredState(
            generation=2, slots={"0": WantedSlot((replace(WHOLE, **self.wanted),))}))
        self.route = DivideStream("f1-0", 0, "f1-1", self.wanted["routes"][0]["f1-1"])
        self.fragment = replace(WHOLE, routes={}, outlets={0: frozenset({"f1-1"})})
        self.start(self.fragment)


@pytest.fixture
def whole(broker: redis.Redis) -> WholeWriter:
    started = WholeWriter(broker)
    for bundle in ("f1-1", "f2-0"):
        broker.hset(f"weir:valve:{bundle}", "routes", 0)
    return started


def test_a_stream_that_is_read_whole_is_divided_between_two_batches(whole):
    query, whole.run.query = whole.run.query, None
    whole.perform(whole.route)
    whole.run.query, whole.disk.reached = query, CheckpointProgress(7, False)
    whole.perform(whole.route)
    assert whole.channels.info("f1-0.0").limits == {} and whole.run.routes == {}, "a batch is under way"
    assert whole.run.outlets == {0: frozenset({"f1-1"})} and whole.run.actual().retry_at_ms > 1_000
    whole.disk.reached = CheckpointProgress(7, True)
    whole.perform(whole.route)
    routed = whole.channels.routed("f1-0", 0, "f1-1")
    assert (routed.from_batch, routed.effective) == (8, True)
    assert whole.channels.info("f1-0.0").limits == {"f1-1": "0-0"}
    assert (whole.run.outlets, whole.run.routes) == ({}, {0: {"f1-1": whole.route.partitioning}})
    assert whole.channels.control("f1-0")["0:outlet"] == "closed" and "paused" not in whole.channels.control("f1-0")


def test_who_takes_a_place_over_is_waited_for_before_a_stream_is_divided(whole):
    """The place is that of one before it, which still reads the whole stream to where it ends."""
    route = DivideStream("f1-0", 0, "f2-0", Quota({"f2-0": 1.0}))
    whole.wanted |= {"routes": {0: {"f2-0": Quota({"f2-0": 1.0})}}, "heirs": {"f2-0": ("f1-1",)}}
    whole.perform(route)
    assert whole.run.routes == {} and whole.run.actual().retry_at_ms > 1_000
    assert whole.channels.info("f1-0.0@f2-0").readers == {"f2-0": "0-0"}, "its part is open already"
    whole.channels.join("f1-0.0", "f2-0", where="0-0")
    whole.channels.unregister("f1-0.0", "f1-1", for_good=True)
    whole.perform(route)
    assert set(whole.channels.info("f1-0.0").limits) == {"f1-1", "f2-0"}
    assert whole.run.routes == {0: {"f2-0": Quota({"f2-0": 1.0})}} and whole.run.outlets == {}


def test_a_writer_that_starts_again_goes_on_where_it_is(whole):
    """What is still read whole is published whole, what is divided is divided, and nobody loses a place."""
    fragment = replace(whole.fragment, outlets={}, routes=whole.wanted["routes"])
    whole.start(fragment)
    assert (whole.run.outlets, whole.run.routes) == ({0: frozenset({"f1-1"})}, {})
    assert whole.channels.control("f1-0")["0:outlet"] == "open"
    whole.perform(whole.route)
    whole.broker.hset("weir:ch:f1-0.0:readers", "f1-1", "0-0")  # it has not come to its limit yet
    whole.start(fragment)
    assert (whole.run.outlets, whole.run.routes) == ({}, dict(fragment.routes))
    assert whole.channels.info("f1-0.0").readers == {"f1-1": "0-0"}


def test_a_writer_takes_no_place_from_who_is_of_a_later_plan(whole):
    for reader in ("f1-7", "f3-0"):
        whole.channels.join("f1-0.0", reader)
    whole.start(whole.fragment)
    assert set(whole.channels.info("f1-0.0").readers) == {"f1-1", "f3-0"}


def test_alternates_are_said_before_a_query_starts_and_switched_while_it_runs(broker):
    dynamic = WantedFragment("f1-0", (Task("s", "any"), Task("t", "any")), active=2, alternates={1: "slow"})
    wanted = [dynamic]
    writer = Writer(broker, CheckpointProgress(), lambda: DesiredState(slots={"0": WantedSlot((wanted[0],))}))
    writer.start(dynamic)
    assert writer.channels.alternates("f1-0") == {1: ("slow", True)}, "from its first batch on"
    assert writer.run.actual().alternates == {1: "slow"}
    wanted[0] = replace(dynamic, alternates={1: "quick"})
    [switch] = reconcile(wanted, {"f1-0": writer.run.actual()}, 2_000)
    writer.perform(switch)
    assert writer.channels.alternates("f1-0") == {1: ("quick", False)}, "the batch under way is the old one's"
    assert reconcile(wanted, {"f1-0": writer.run.actual()}, 2_000) == ()
    assert writer.run.report({}, throttled_by=None, now_ms=2_000)["alternates"] == {"1": "quick"}
    writer.disk.reached = CheckpointProgress(3, True)
    writer.start(wanted[0])
    assert writer.channels.alternates("f1-0") == {1: ("quick", True)}, "nobody need wait for events"


def test_a_query_that_takes_a_task_over_begins_with_what_was_chosen_for_its_keys(broker):
    task = Task("t", "any", {"by": ["meter"], "begin": "shared", "alternates": []})
    dynamic = WantedFragment("f1-0", (Task("s", "any"), replace(task, type=DYNAMIC_FOLD)), active=2,
                             alternates={1: "slow"})
    writer = Writer(broker, CheckpointProgress(), lambda: DesiredState(slots={"0": WantedSlot((dynamic,))}))
    write_choices(broker, "t", KeyedChoices((5, 7), {"m0": "quick"}, {"m0": {"method": "quick"}}))
    writer.start(dynamic)
    control = writer.channels.control("f1-0")
    assert told_by_key(control, 1) == {"m0": "quick"}
    assert [control[name] for name in control if name.startswith("1:keys:") and name.endswith(":from")] == ["0"]
    write_choices(broker, "t", KeyedChoices((6, 8), {"m0": "slow"}, {"m0": {"method": "slow"}}))
    writer.disk.reached = CheckpointProgress(3, True)
    writer.start(dynamic)
    control = writer.channels.control("f1-0")
    assert told_by_key(control, 1) == {"m0": "slow"}
    assert [control[name] for name in control if name.startswith("1:keys:") and name.endswith(":from")] == ["4"], (
        "batches that are done, and one that would be repeated, keep theirs")


def test_another_interval_throws_no_start_away(broker: redis.Redis) -> None:
    """While a chain is compiled, intervals are chosen for all that is new; what else is wanted otherwise is begun anew.
    """
    wanted = replace(WHOLE, routes={}, trigger_ms=500)
    slower, other = replace(wanted, trigger_ms=8_000), replace(wanted, active=0)
    desired = [DesiredState(slots={"0": WantedSlot((wanted,))}, version=1)]
    for version, (newest, starts) in enumerate(((slower, True), (other, False)), start=2):
        started = Writer(broker, CheckpointProgress(), lambda: desired[0])
        desired[0], before = DesiredState(slots={"0": WantedSlot((newest,))}, version=version), desired[0]
        started.run = FragmentRun(wanted.id, now_ms=0)
        started._executor.perform(started.run, before, [Start(before.slots["0"].fragments[0])])
        assert (started.run.query is not None) == starts
        desired[0] = before
