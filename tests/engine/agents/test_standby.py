"""Standing by: what is decided about a query that waits for its turn."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.contracts.offsets import START
from scheduler.contracts.savepoints import RestorePoint, Savepoint
from scheduler.model.dataflow import Task
from workers.engine.agents.node_files.checkpoint import CheckpointProgress
from workers.engine.agents.reconciling import broker_instructions as on
from workers.engine.agents.reconciling import instructions as do
from workers.engine.agents.reconciling.decisions import decide
from workers.engine.agents.reconciling.delays import QUICK_MS, SOON_MS, STANDBY_MS, TICK_MS
from workers.engine.agents.reconciling.fragment_run import FragmentRun
from workers.engine.agents.reconciling.handover_stages import HandoverStage, stage_of
from workers.engine.agents.reconciling.reconcile import End, FragmentState, Leave, Pause, Start, Stop
from workers.engine.agents.reconciling.snapshot import Records
from workers.engine.agents.reconciling.standby import Patience, heirs_awaited, heirs_due, rest_s

from .looked_at import HEIR, READER, info, of_kind, snapshot, wanting

OPEN = {"f1-0.0": info("f1-0.0")}
BY = Records(standby=(), progress=CheckpointProgress(0, True), has_begun=True)


def test_an_heir_stands_by_while_those_before_it_work():
    desired = wanting(HEIR, outgoing=(READER,))
    steps = decide(snapshot(HEIR, desired=desired, channels=OPEN), Start(HEIR))
    assert steps == (do.RecordStandby(()), do.ClearCheckpoint(), do.StandBy(HEIR, 100), do.Wait(60_030))
    assert decide(snapshot(HEIR, desired=desired), Start(HEIR)) == (do.Wait(60_030),), "what it reads is not open"
    assert decide(snapshot(HEIR, desired=desired, channels=OPEN, has_lock=False), Start(HEIR)) == (do.Wait(60_030),)
    failed = snapshot(HEIR, desired=desired, channels=OPEN, may_stand_by=False)
    assert decide(failed, Start(HEIR)) == (do.Wait(60_030),)
    copied = snapshot(HEIR, desired=desired, channels=OPEN, savepoints={"f1-1": Savepoint(repeats=3)})
    assert decide(copied, Start(HEIR)) == (do.Wait(60_030),), "its first batch is to be another one's"
    waits = snapshot(HEIR, FragmentState.WAITING, desired=desired, standby=HEIR, records=BY)
    assert decide(waits, Start(HEIR)) == (do.Wait(60_030),)


def test_only_streams_of_its_own_are_opened_while_it_stands_by():
    heir = replace(
        HEIR, tasks=(Task("a", "add"), Task("b", "add")), channels={0: "f1-1.0"},
        outlets={0: frozenset({"f1-9"}), 1: frozenset({"f2-1"})})
    steps = decide(snapshot(heir, desired=wanting(heir, outgoing=(READER,)), channels=OPEN), Start(heir))
    assert of_kind(steps, on.OpenChannel) == [on.OpenChannel("f2-0.1", 1)], "others write the other one"
    assert steps[0] == do.RecordStandby(("f2-0.1",))


def test_what_stood_by_goes_on_where_it_is_of_just_this_chain():
    desired = wanting(HEIR, outgoing=(READER,))
    begun = replace(BY, begun=RestorePoint())
    ready = {"f1-0.0": info("f1-0.0", readers={"f2-0": START})}
    facts = {"desired": desired, "channels": ready, "standby": HEIR, "records": begun}
    steps = decide(snapshot(HEIR, FragmentState.WAITING, **facts), Start(HEIR))
    assert [type(step) for step in steps] == [do.Show, on.ComeBack, do.Adopt, do.ForgetStandby, do.Again]
    under_way = {**facts, "records": replace(begun, progress=CheckpointProgress(0, False))}
    assert decide(snapshot(HEIR, FragmentState.WAITING, **under_way), Start(HEIR)) == (do.Wait(60_030),)
    other = {**facts, "standby": replace(HEIR, threads=2)}
    assert decide(snapshot(HEIR, FragmentState.WAITING, **other), Start(HEIR))[0] == do.DropStandby()


@pytest.mark.parametrize("facts", [
    {"standby": HEIR, "standby_failed": True, "records": BY},  # its query failed
    {"records": BY},  # its slot died
    # it could not be let begin
    {"standby": HEIR, "records": Records(progress=CheckpointProgress(0, True), has_begun=True)},
])
def test_what_does_not_stand_by_any_more_is_cleared_away_first(facts):
    desired = wanting(HEIR, outgoing=(READER,))
    steps = decide(snapshot(HEIR, FragmentState.WAITING, desired=desired, channels=OPEN, **facts), Start(HEIR))
    is_recorded = facts["records"].is_standby
    assert steps == (
        do.DropStandby(failed=facts.get("standby_failed", False)),
        *((do.ClearCheckpoint(), on.ForgetFragment(stood_by=True), do.ForgetStandby()) if is_recorded else ()),
        do.Again(Start(HEIR)))


@pytest.mark.parametrize("action", [End(HEIR), Pause(HEIR), Leave(HEIR), Stop("f2-0", keep=True)])
def test_nothing_else_is_done_to_what_stands_by(action):
    records = replace(BY, standby=("f2-0.0",))
    steps = decide(snapshot(HEIR, FragmentState.WAITING, standby=HEIR, records=records), action)
    assert steps == (
        do.DropStandby(), do.ClearCheckpoint(), on.DeleteChannel("f2-0.0"), on.ForgetFragment(stood_by=True),
        do.ForgetStandby(), do.Again(action))


def test_others_end_when_their_heirs_stand_by_or_have_had_their_time():
    desired = wanting(HEIR, outgoing=(READER,))
    assert heirs_awaited(desired, begun=(), standing=()) == {"f2-0"}
    assert not heirs_awaited(desired, begun=("f2-0",), standing=())
    assert not heirs_awaited(desired, begun=(), standing=("f2-0",))
    assert not heirs_awaited(wanting(replace(HEIR, active=0), outgoing=(READER,)), begun=(), standing=())
    records = {"begun": (), "ended": ()}
    assert stage_of(desired, "f1-1", **records, may_end=False) is HandoverStage.WORK
    assert stage_of(desired, "f1-1", **records) is HandoverStage.END
    patience = Patience()
    assert patience.is_over((), now_ms=0) and not patience.is_over(("f2-0",), now_ms=1_000)
    assert not patience.is_over(("f2-0",), now_ms=STANDBY_MS + 999)
    assert patience.is_over(("f2-0",), now_ms=STANDBY_MS + 1_000)
    assert not patience.is_over(("f2-0", "f2-1"), now_ms=STANDBY_MS + 2_000), "another one has come"


def test_as_long_as_one_heir_after_the_other_stands_by_the_rest_are_waited_for():
    patience = Patience()
    assert not patience.is_over(("f2-0", "f2-1", "f2-2"), now_ms=0)
    first_ms = STANDBY_MS - 1
    assert not patience.is_over(("f2-1", "f2-2"), now_ms=first_ms)
    assert not patience.is_over(("f2-1", "f2-2"), now_ms=first_ms + STANDBY_MS - 1)
    second_ms = first_ms + STANDBY_MS - 1
    assert not patience.is_over(("f2-2",), now_ms=second_ms)
    assert patience.is_over(("f2-2",), now_ms=second_ms + STANDBY_MS), "not for ever"


def test_who_failed_to_stand_by_stands_by_again_later_and_later():
    """On another node the one that ends waits for it, however long that takes."""
    run, now_ms, pauses_ms = FragmentRun("f2-0", now_ms=0), 0, []
    assert run.may_stand_by(now_ms=0)
    for _ in range(8):
        run.standby_failed(now_ms=now_ms)
        pauses_ms.append(next(ms for ms in range(0, 100_000, 1_000) if run.may_stand_by(now_ms=now_ms + ms)))
        now_ms += pauses_ms[-1]
    assert pauses_ms == [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]


def test_an_heir_is_due_when_all_have_ended_whose_work_it_goes_on_with():
    heir = replace(HEIR, inherits=(READER.id, "f1-7"))
    desired = wanting(heir, outgoing=(READER, replace(READER, id="f1-7")))
    assert heirs_due(desired, set()) == heirs_due(desired, {READER.id}) == frozenset()
    assert heirs_due(desired, {READER.id, "f1-7"}) == {heir.id}
    assert heirs_due(wanting(READER), {READER.id}) == frozenset(), "who inherits from nobody waits for nobody"


def test_an_heir_that_waits_looks_as_soon_as_it_is_due():
    run = FragmentRun("f2-0", now_ms=0)
    run.begin(FragmentState.STARTING, now_ms=0)
    run.waits(retry_at_ms=30, now_ms=0)
    run.looks_now()
    assert run.actual().retry_at_ms is None
    run.begin(FragmentState.STARTING, now_ms=0)
    run.retries(at_ms=30)
    run.looks_now()
    assert run.actual().retry_at_ms == 30, "who does not wait for others is not hurried"


@pytest.mark.parametrize(("stage", "has_standby", "expected_ms"), [
    (HandoverStage.WORK, True, SOON_MS), (HandoverStage.COPY, False, SOON_MS), (HandoverStage.END, False, QUICK_MS),
    (HandoverStage.ENDED, True, QUICK_MS), (HandoverStage.ENDED, False, SOON_MS), (HandoverStage.OVER, True, TICK_MS)])
def test_a_slot_looks_often_while_an_output_stands_still(stage, has_standby, expected_ms):
    desired = wanting(HEIR, outgoing=(READER,))
    rest = {"has_standby": has_standby, "is_sending": False}
    assert rest_s(desired, {READER.id: stage}, **rest) == expected_ms / 1000
    assert rest_s(desired, {}, **rest) == TICK_MS / 1000
    assert rest_s(desired, {}, has_standby=has_standby, is_sending=True) == SOON_MS / 1000
