"""Alternates of a query that goes on from a copy: each batch that is repeated has the one that it had."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.contracts.desired import Input, WantedFragment
from scheduler.contracts.offsets import Offset
from scheduler.contracts.savepoints import RestorePoint
from scheduler.contracts.switches import AlternateSwitch, in_sequence
from scheduler.elasticity.copied_queries import why_not_copied
from scheduler.model.dataflow import Task
from scheduler.model.task_types import DYNAMIC, DYNAMIC_FOLD, TaskType
from workers.engine.agents.node_files.checkpoint import CheckpointProgress
from workers.engine.agents.reconciling import broker_instructions as on
from workers.engine.agents.reconciling import instructions as do
from workers.engine.agents.reconciling.decisions import decide
from workers.engine.agents.reconciling.reconcile import FragmentState, Start, SwitchAlternates
from workers.engine.agents.reconciling.snapshot import Records, Snapshot
from workers.engine.agents.transport.copy_takeover import moved_on
from workers.engine.channels import keys
from workers.engine.channels.channel_registry import Channels
from workers.engine.channels.control import begin_batch, changes_of, forget_before

from ..channels.played_redis import PlayedRedis
from .looked_at import TYPES, info, of_kind, snapshot, wanting

WAYS = ("plain", "few", "odd")


def on_in(state: Mapping[str, str], batch: int) -> str | None:
    """The alternate by which a batch is planned, as ``Control.java`` has it."""
    begun = [change for (_, reader), changes in changes_of(state).items() if reader == "" for change in changes
             if change.from_batch is not None and change.from_batch <= batch]
    return begun[-1].partitioning.bundles[0] if begun and begun[-1].text != "{}" else None


@given(st.lists(st.sampled_from([*WAYS, "", ""]), min_size=1, max_size=12), st.data())
def test_each_repeated_batch_has_the_alternate_that_it_had(switches: list[str], data: st.DataObject) -> None:
    broker = PlayedRedis()
    channels, had = Channels(broker), []
    broker.hset(keys.valve("f1"), keys.COPIED, 1)
    channels.switch("f1", 0, "plain", from_batch=0)
    oldest = 0  # of the batches behind which there are copies
    for batch, way in enumerate(switches):
        if way:
            channels.switch("f1", 0, way)
        had.append(on_in(begin_batch(broker, "f1", batch), batch))
        if data.draw(st.booleans()):
            oldest = data.draw(st.integers(oldest, batch))
            forget_before(broker, "f1", oldest)
    batches = data.draw(st.integers(oldest, len(switches)))
    recorded = len(switches) - batches
    if data.draw(st.booleans()):  # it was asked for, and no batch has begun with it
        channels.switch("f1", 0, "odd")
    newest = changes_of(channels.control("f1"))[0, ""][-1].partitioning.bundles[0]
    broker.hset(keys.valve("f2"), mapping=moved_on(channels.control("f1"), batches=batches, recorded=recorded))
    broker.hset(keys.valve("f2"), keys.COPIED, 1)
    for batch in range(recorded):
        assert on_in(begin_batch(broker, "f2", batch), batch) == had[batches + batch]
    channels.switch("f2", 0, newest)  # as is wanted, once all is repeated
    begin_batch(broker, "f2", recorded)
    assert on_in(begin_batch(broker, "f2", recorded + 1), recorded + 1) == newest


QUERY = WantedFragment(
    "f2-0", (Task("t", "add"),), inputs=(Input("f1-0.0", "s"),), inherits=("f1-1",), origin="n9", alternates={0: "few"})


def repeating(batch: int, *, compiled: bool) -> Snapshot:
    """It has come so far with the three batches that it is to repeat."""
    control = {"0:alternate:1": '{"plain": 1.0}', "0:alternate:1:from": "0"}
    records = Records(
        chain=QUERY, begun=RestorePoint(
            batch_bases={"f2-0.0": 4}, repeats=True, recorded=3, offsets={"f1-0.0": Offset("4-0")}),
        has_begun=batch >= 0, progress=CheckpointProgress(batch, True))
    state = FragmentState.STARTING if compiled else FragmentState.RUNNING
    return snapshot(
        QUERY, state, records=records, desired=wanting(QUERY), is_compiled=compiled, has_query=not compiled,
        has_lock=True, controls={QUERY.id: control}, channels={"f2-0.0": info("f2-0.0", last=Offset("7-0"))})


def test_a_switch_waits_until_all_is_repeated() -> None:
    switch = SwitchAlternates(QUERY.id, {0: "few"})
    assert [type(step) for step in decide(repeating(1, compiled=False), switch)] == [do.RetryAt]
    assert of_kind(decide(repeating(2, compiled=False), switch), on.SetAlternate)


@pytest.mark.parametrize("batch", [-1, 1, 2])
def test_a_start_asks_for_no_other_alternate_until_all_is_repeated(batch: int) -> None:
    steps = decide(repeating(batch, compiled=True), Start(QUERY))
    switches = of_kind(steps, on.SetAlternate)
    in_force = [step.alternates for step in of_kind(steps, do.InForce) if step.alternates is not None]
    assert (len(switches), in_force) == ((0, [{0: "plain"}]) if batch < 2 else (1, [{0: "few"}]))


def dynamic(kind: str = DYNAMIC, *, inner: str = "plain", **config: object) -> WantedFragment:
    ways = [{"name": "one", "type": inner, "config": {}}, {"name": "two", "type": "plain", "config": {}}]
    return replace(QUERY, tasks=(Task("t", kind, {"alternates": ways, **config}),))


@pytest.mark.parametrize(("fragment", "why"), [
    (dynamic(), ""),
    (dynamic(DYNAMIC_FOLD, begin="fresh"), ""),
    (dynamic(switching="wave"), "waves"),
    (dynamic(by="k"), "by key"),
    (dynamic(DYNAMIC_FOLD, learned={"bound": 0.2}), "by key"),
    (dynamic(inner="unsaid"), "unsaid does not say what it reaches beyond Weir"),
])
def test_which_alternates_are_copied(fragment: WantedFragment, why: str) -> None:
    types = {
        **TYPES, "plain": TaskType("plain", "transform", "Adds.", "x:y", effects=()),
        "unsaid": TaskType("unsaid", "transform", "Calls.", "x:y"),
        DYNAMIC: TaskType(DYNAMIC, "transform", "Ways.", "x:y", effects=()),
        DYNAMIC_FOLD: TaskType(DYNAMIC_FOLD, "transform", "Ways.", "x:y", effects=())}
    reason = why_not_copied(fragment, types)
    assert why in reason and bool(reason) is bool(why)


def test_what_a_query_notes_of_repeated_batches_is_told_once() -> None:
    def noted(query: str, *firsts: tuple[int, str, int]) -> list[AlternateSwitch]:
        return [AlternateSwitch(alternate=way, query=query, batch=batch, seq=seq, at_ms=int(query[1]) * 1000 + batch)
                for batch, way, seq in firsts]

    before = noted("f1-0", (0, "plain", 0), (5, "few", 100), (7, "odd", 150))
    heir = noted("f2-0", (0, "plain", 95), (1, "few", 100), (3, "odd", 150), (9, "few", 300))
    assert in_sequence([*heir, *before]) == (*before, heir[-1])
    moved = noted("f3-0", (1, "few", 400), (4, "odd", 500))
    assert in_sequence([*before, *heir, *moved]) == (*before, heir[-1], *moved), "one that repeats nothing tells all"


@pytest.mark.parametrize(("control", "worked"), [({}, 2), ({"tail": "0", "tail:from": "0"}, 1)])
@pytest.mark.parametrize("active", [0, 1, 2])
@pytest.mark.parametrize("batch", [-1, 1, 2])
def test_a_start_lets_no_other_tasks_rest_or_work_until_all_is_repeated(
    batch: int, active: int, control: dict[str, str], worked: int
) -> None:
    """It was paused, or resumed, behind the loss: their states are to have what was published of these batches."""
    query = replace(QUERY, tasks=(Task("t", "add"), Task("u", "add")), alternates={}, active=active)
    looked = repeating(batch, compiled=True)
    steps = decide(replace(
        looked, running=query, desired=wanting(query), controls={QUERY.id: control},
        records=replace(looked.records, chain=query)), Start(query))
    [launch] = of_kind(steps, do.Launch)
    assert (len(of_kind(steps, on.SetTail)), launch.active) == ((0, worked) if batch < 2 else (1, active))
