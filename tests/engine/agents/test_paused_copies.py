"""A paused query's last copy: made at rest, and gone on from, paused, where its node is lost; whoever dies at
whichever step."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import redis

from scheduler.contracts.copy_reports import COPY_REPORTS, CopyReport
from scheduler.contracts.desired import DesiredState, Input, WantedFragment, WantedSlot
from scheduler.contracts.offsets import Offset
from scheduler.contracts.savepoints import SAVEPOINTS, RestorePoint, Savepoint
from scheduler.elasticity.copied_queries import UNDONE, why_not_copied
from scheduler.model.dataflow import Task
from scheduler.model.task_types import TaskType
from workers.engine.agents.node_files.node_store import CopyWishes, NodeStore
from workers.engine.agents.reconciling.context import SlotContext
from workers.engine.agents.reconciling.executor import FragmentExecutor
from workers.engine.agents.reconciling.fragment_run import FragmentRun
from workers.engine.agents.reconciling.reconcile import FragmentState, reconcile
from workers.engine.agents.reconciling.started_fragments import SlotStore
from workers.engine.agents.reconciling.state_copies import QueryCopies
from workers.engine.agents.transport.copy_takeover import HELD, go_on_from_copy
from workers.engine.agents.transport.copying import make_copies
from workers.engine.agents.transport.parcels import FilesBeside
from workers.engine.agents.transport.state_transport import StateTransport
from workers.engine.channels import keys, scripts
from workers.engine.channels.batch_ranges import begin_ranges, place_of, recorded_behind
from workers.engine.channels.channel_registry import Channels
from workers.engine.lost_nodes import all_holders_of, declare_lost
from workers.engine.worker_settings import Settings

from ..channels.played_redis import PlayedRedis

TYPES = {"count": TaskType("count", "transform", "Counts.", "x:y", effects=(), stateful=True, movable_state=True)}
BEFORE = WantedFragment("f1-1", (Task("t", "count"),), inputs=(Input("f1-0.0", "s"),), active=0)
AFTER = replace(BEFORE, id="f2-0", inherits=("f1-1",), origin="n1", channels={0: "f1-1.0"})
AGAIN = replace(AFTER, id="f3-0", inherits=("f2-0",), origin="n2")
STREAM, LIVE = "f1-0.0", "in-s.0"  # what the query reads
LAST = 3  # batch before the pause
STATE = f'{{"a": {LAST}}}'


class Died(BaseException):
    """The slot was killed here."""


class Begins(BaseException):
    """A query would begin, with this."""


class Engine:
    """Nothing runs: all that is asked for is what a query that has stopped left, and with what one would begin."""

    def __init__(self, store: SlotStore) -> None:
        self.store = store

    def read_states(self, _: str, *, folds: int, batch: int, run_id: str | None = None) -> list[str]:
        assert run_id is None
        return [f'{{"a": {batch}}}'] * folds

    def compile(self, whole: WantedFragment, _: object) -> None:
        raise Begins(whole.id, self.store.begun(whole.id))

    def due_ms(self, *_: object) -> int:
        return 0


class World:
    """Three nodes, each with a slot. The query was on the first one, and did four batches; its copy at the second is of
    the first batch. Its slot may die before any instruction."""

    def __init__(self, folder: Path, *, dies_at: int, channel: str = STREAM) -> None:
        self.folder, self.steps_left, self.now_ms = folder, dies_at, 0
        self.broker = PlayedRedis()
        self.channels = Channels(self.broker)
        self.channel = channel
        self.channels.open_channel(channel, schema_json="{}")
        self.channels.join(channel, "f1-1", where="6-0")  # it commits behind its checkpoint
        self.wanted = {"n1": (self.reading(BEFORE),), "n2": (), "n3": ()}
        self.stores = {node: SlotStore(folder / node, NodeStore(folder / node, node).slot_dir("0"))
                       for node in self.wanted}
        self._worked(self.stores["n1"])
        for node in self.wanted:
            self.comes(node)

    def reading(self, fragment: WantedFragment) -> WantedFragment:
        """The fragment as it reads what it reads here."""
        return replace(fragment, inputs=(Input(self.channel, "s"),))

    def comes(self, node: str) -> None:
        """The slot of a node is started, on what is on its disk."""
        store, settings = self.stores[node], Settings(node=node, copies=2)
        executor = FragmentExecutor(
            SlotContext(
                engine=Engine(store), channels=self.channels, broker=self.broker, store=store, task_types=TYPES,
                desired=lambda: self.desired(node)),
            clock_ms=lambda: self.now_ms, on_event=lambda *_, **__: None)
        perform = executor._do
        executor._do = lambda run, instruction: (self._may_die(), perform(run, instruction))
        self.__dict__.setdefault("sides", {})[node] = SimpleNamespace(
            executor=executor, runs={name: FragmentRun(name, now_ms=0) for name in store.records()},
            transport=StateTransport(self.broker, store, clock_ms=lambda: self.now_ms),
            copies=QueryCopies(
                self.broker, store, NodeStore(self.folder / node, node), settings, slot="0",
                clock_ms=lambda: self.now_ms))

    def desired(self, node: str) -> DesiredState:
        return DesiredState(node=node, generation=3, slots={"0": WantedSlot(self.wanted[node])})

    def look(self, node: str) -> None:
        """One look of a slot, which is killed and started again where it dies."""
        side, desired = self.sides[node], self.desired(node)
        try:
            side.transport.turn(desired, "0")
            actual = {run.id: run.actual() for run in side.runs.values()}
            actions = reconcile(
                desired.of_slot("0"), actual, self.now_ms, resting=self.stores[node].having("paused"))
            actions += side.copies.turn(desired, actual, ())
            for action in actions:
                run = side.runs.setdefault(action.fragment_id, FragmentRun(action.fragment_id, now_ms=0))
                side.executor.perform(run, desired, [action])
        except Died:
            self.comes(node)

    def goes_on(self, living: tuple[str, ...], looks: int = 30) -> None:
        """These nodes look so often; each holds copies for the others."""
        for name, fragments in self.wanted.items():
            others = tuple(node for node in living if node != name)
            copied = {fragment.id: others for fragment in fragments}
            held = {fragment.id: node for node in others for fragment in self.wanted[node]}
            NodeStore(self.folder / name, name).write_copy_wishes(CopyWishes(copied, held, living))
        for _ in range(looks):
            self.now_ms += 1_000
            for node in living:
                self.look(node)
            if self.channel == STREAM:
                self.channels.unregister(STREAM, BEFORE.id)  # its writer has heard of the pause, too

    def lose(self, node: str, heir: WantedFragment, living: tuple[str, ...]) -> str:
        """A node is lost, and what it had goes on where its newest copy is; where that is."""
        [fragment] = self.wanted[node]
        [holders] = all_holders_of(self.broker, [fragment.id], living=living).values()
        declare_lost(self.broker, {node: 1})
        self.wanted |= {node: (), holders[0]: (replace(self.reading(heir), origin=node),)}
        return holders[0]

    def _may_die(self) -> None:
        self.steps_left -= 1
        if self.steps_left == 0:
            raise Died

    def _worked(self, store: SlotStore) -> None:
        store.record(replace(self.reading(BEFORE), active=1))
        store.record_folds(BEFORE.id, [("t", 1)])
        checkpoint = store.checkpoint(BEFORE.id)
        for log, text in (("offsets", f'v1\n{{}}\n{{"{self.channel}":"9-0"}}'), ("commits", "")):
            (checkpoint / log).mkdir(parents=True)
            (checkpoint / log / str(LAST)).write_text(text)
        first = Savepoint(
            offsets={self.channel: Offset("2-0")}, batch_bases={"f1-1.0": 1}, states={"t": ['{"a": 0}']}, repeats=1)
        begin_ranges(self.broker, self.channels, BEFORE.id, place_of(first), first.offsets)
        self.broker.hset(keys.ranges(BEFORE.id), mapping={
            f'from:{{"{self.channel}":"2-0"}}': f'{{"{self.channel}":"9-0"}}', "next": f'{{"{self.channel}":"9-0"}}'})
        make_copies(store, ("f1-1--n2",), first)
        self.broker.hset(keys.copies(BEFORE.id), "n2", COPY_REPORTS.dumps(CopyReport(1, {self.channel: (2, 0)})))


def resumed(world: World, node: str) -> tuple[str, RestorePoint]:
    """What begins on a node where its query is resumed."""
    [fragment] = world.wanted[node]
    world.wanted[node] = (replace(fragment, active=1),)
    if world.channel == STREAM:
        world.channels.register_readers(STREAM, [fragment.id])  # by its writer
    with pytest.raises(Begins) as begins:
        world.goes_on((node,), looks=5)
    return begins.value.args


@pytest.mark.parametrize("channel", [STREAM, LIVE])
@pytest.mark.parametrize("dies_at", range(24))
def test_a_paused_query_goes_on_paused_where_two_nodes_are_lost_one_after_the_other(
    tmp_path: Path, dies_at: int, channel: str
) -> None:
    world = World(tmp_path, dies_at=dies_at, channel=channel)
    world.goes_on(("n1", "n2", "n3"))
    report = world.sides["n1"].copies.facts_of(BEFORE.id)
    assert (report["survives"], report["held_by"]) == (2, ("n2", "n3")) and "not_copied" not in report
    assert world.channels.info(channel).readers == ({"f1-1": "6-0"} if channel == LIVE else {}), (
        "nobody waits for it, nor for its copies")
    second = world.lose("n1", AFTER, ("n2", "n3"))
    third = next(node for node in ("n2", "n3") if node != second)
    world.goes_on((second, third))
    run = world.sides[second].runs[AFTER.id]
    assert run.state is FragmentState.STOPPED and world.stores[second].has(AFTER.id, "paused")
    assert world.sides[second].copies.facts_of(AFTER.id)["held_by"] == (third,), "it is protected again"
    assert world.lose(second, AGAIN, (third,)) == third
    world.goes_on((third,))
    name, begun = resumed(world, third)
    assert name == AGAIN.id and begun.states == {"t": [STATE]} and not begun.repeats
    assert begun.offsets == {channel: "9-0" if channel == LIVE else world.channels.info(channel).last}, (
        "it reads from now, and a live source, which rested, too, from behind its last batch")
    assert not world.broker.exists(keys.ranges(AGAIN.id)), "its copies count no more"


def test_a_copy_that_is_gone_with_its_disk_does_not_count_and_comes_again(tmp_path: Path) -> None:
    world = World(tmp_path, dies_at=0)
    world.goes_on(("n1", "n2", "n3"))
    world.stores["n2"].files.drop("f1-1--n2", "held", "copy", "newer")
    world.comes("n2")
    world.look("n2")
    assert all_holders_of(world.broker, [BEFORE.id], living=("n2", "n3")) == {BEFORE.id: ("n3",)}
    world.goes_on(("n1", "n2", "n3"))
    assert all_holders_of(world.broker, [BEFORE.id], living=("n2", "n3")) == {BEFORE.id: ("n2", "n3")}


def test_copies_from_before_a_pause_do_not_count_after_it(tmp_path: Path) -> None:
    """Their node is lost before the last one has been made: nobody goes on with less than was published."""
    world = World(tmp_path, dies_at=0)
    assert all_holders_of(world.broker, [BEFORE.id], living=("n2",))
    world.goes_on(("n1",), looks=1)
    assert world.stores["n1"].has(BEFORE.id, "paused")
    assert not all_holders_of(world.broker, [BEFORE.id], living=("n2",))


def test_who_would_repeat_what_is_freed_waits_for_the_node(tmp_path: Path) -> None:
    """Its writer had heard of the pause first, and its node of nothing."""
    world = World(tmp_path, dies_at=0)
    files = FilesBeside(tmp_path)
    files.write("f1-1--n2", HELD, b'{"offsets": {"f1-0.0": "2-0"}, "batch_bases": {"f1-1.0": 1}, "repeats": 1}')
    world.broker.hset(keys.meta("f1-0.0"), "trimmed", "5-0")
    assert not go_on_from_copy(world.broker, files, BEFORE.id, AFTER, node="n2")
    world.broker.hset(keys.meta("f1-0.0"), "trimmed", "2-0")
    assert go_on_from_copy(world.broker, files, BEFORE.id, AFTER, node="n2")


def test_a_channel_that_the_copy_has_read_to_its_end_is_not_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its writer has left, so the node that goes on knows nothing of it, and the broker refuses it there."""
    broker, files = PlayedRedis(), FilesBeside(tmp_path)
    channels = Channels(broker)
    channels.open_channel("f1-0.0", schema_json="{}")
    saved = Savepoint(
        offsets={"f1-0.0": Offset("2-0"), "f0-7.0": Offset("9-0")}, batch_bases={"f1-1.0": 1}, repeats=1)
    begin_ranges(broker, channels, BEFORE.id, place_of(saved), {"f1-0.0": Offset("2-0")})
    scripts.run(broker, "range", [keys.ranges(BEFORE.id)], [
        BEFORE.id, place_of(saved), place_of(replace(saved, offsets={"f1-0.0": Offset("4-0")}))])
    files.write("f1-1--n2", HELD, SAVEPOINTS.dumps(saved).encode())
    broker.hset(keys.copies(BEFORE.id), "n2", COPY_REPORTS.dumps(CopyReport(1)))
    info = Channels.info

    def info_of_inputs(channels: Channels, channel: str):
        if channel == "f0-7.0":
            raise redis.exceptions.NoPermissionError("No permissions to access a key")
        return info(channels, channel)

    monkeypatch.setattr(Channels, "info", info_of_inputs)
    assert go_on_from_copy(broker, files, BEFORE.id, AFTER, node="n2")


@pytest.mark.parametrize("change", [
    {"real_time": True},
    {"inputs": (Input("f1-0.0", "s", when_behind="lose_oldest"),)},
    {"tasks": (Task("t", "count", {"idle": 3}),)},
])
def test_what_rests_has_nothing_to_repeat(change: dict[str, object]) -> None:
    resting = replace(BEFORE, **change)
    assert not why_not_copied(resting, TYPES)
    assert why_not_copied(replace(resting, active=1), TYPES)


def test_a_batch_of_a_live_source_that_is_not_done_is_repeated_on_its_node(tmp_path: Path) -> None:
    for channel, survives in ((STREAM, 2), (LIVE, 0)):
        world = World(tmp_path / channel, dies_at=0, channel=channel)
        (world.stores["n1"].checkpoint(BEFORE.id) / "commits" / str(LAST)).unlink()
        world.stores["n1"].record_pause(BEFORE.id, paused=True)  # it was given up
        world.goes_on(("n1", "n2", "n3"))
        report = world.sides["n1"].copies.facts_of(BEFORE.id)
        assert (report["survives"], report.get("not_copied")) == (survives, UNDONE if channel == LIVE else None)


@pytest.mark.parametrize("dies_at", range(1, 6))
def test_a_pause_that_is_taken_back_before_it_was_recorded_leaves_the_place_of_the_next_batch(
    tmp_path: Path, dies_at: int
) -> None:
    world = World(tmp_path, dies_at=dies_at)
    world.look("n1")
    if not world.stores["n1"].has(BEFORE.id, "paused"):
        assert recorded_behind(world.broker, BEFORE.id, '{"f1-0.0":"9-0"}') == []
