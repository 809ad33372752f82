"""Decisions about one fragment: a snapshot and an action in, instructions out, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.contracts.desired import ChannelWriter, DesiredState, Input, WantedSlot
from scheduler.contracts.offsets import START, Offset
from scheduler.contracts.partitioning import Quota
from scheduler.contracts.savepoints import RestorePoint, Savepoint
from scheduler.model.dataflow import Task
from workers.engine.agents.node_files.checkpoint import CheckpointProgress
from workers.engine.agents.reconciling import broker_instructions as on
from workers.engine.agents.reconciling import instructions as do
from workers.engine.agents.reconciling.decisions import decide
from workers.engine.agents.reconciling.reconcile import (
    ActivateRoutes,
    Actual,
    DivideStream,
    End,
    FragmentState,
    Leave,
    OpenOutlet,
    OpenTail,
    Pause,
    Restart,
    Start,
    Stop,
)
from workers.engine.agents.reconciling.snapshot import LEFT, Records
from workers.engine.agents.reconciling.state_checks import validate_state
from workers.engine.channels.channel_info import Skip

from .looked_at import HEIR, READER, SOURCE, info, of_kind, snapshot, wanting

# -- starting --------------------------------------------------------------------------------------------------------


def test_a_reader_starts_only_where_it_has_its_place():
    waits = (do.Wait(60_250),)
    assert decide(snapshot(READER), Start(READER)) == waits, "the channel is not open"
    open_channel = {"f1-0.0": info("f1-0.0")}
    assert decide(snapshot(READER, channels=open_channel), Start(READER)) == waits, "nobody has registered it"
    ready = {"f1-0.0": info("f1-0.0", readers={"f1-1": START})}
    steps = decide(snapshot(READER, channels=ready), Start(READER))
    assert of_kind(steps, do.Compile) == [do.Compile(READER)] and steps[-1] == do.Again(Start(READER))
    assert decide(snapshot(READER, channels=ready, has_lock=False), Start(READER)) == waits, "another slot has it still"


def test_channels_are_open_and_readers_registered_before_a_query_starts():
    steps = decide(snapshot(SOURCE, FragmentState.STARTING, is_compiled=True), Start(SOURCE))
    kinds = [type(step) for step in steps]
    assert kinds[-1] is do.Launch
    assert kinds.index(on.OpenChannel) < kinds.index(on.Join) < kinds.index(on.OpenValve)
    [valve] = of_kind(steps, on.OpenValve)
    assert valve == on.OpenValve(0, from_batch=0), "a new fragment publishes from its first batch on"
    again = snapshot(
        SOURCE, FragmentState.STARTING, is_compiled=True,
        records=Records(progress=CheckpointProgress(4, True), has_begun=True))
    assert of_kind(decide(again, Start(SOURCE)), on.OpenValve) == [on.OpenValve(0, from_batch=5)], "no event is needed"


def test_a_checkpoint_of_another_fragment_of_that_id_goes():
    other = replace(READER, tasks=(Task("z", "add"),))
    ready = {"f1-0.0": info("f1-0.0", readers={"f1-1": START})}
    steps = decide(snapshot(READER, channels=ready, records=Records(chain=other)), Start(READER))
    kinds = [type(step) for step in steps]
    assert kinds.index(do.RemoveCheckpoint) < kinds.index(do.Compile)


# -- taking over -----------------------------------------------------------------------------------------------------


def test_who_takes_over_waits_for_all_savepoints_and_for_being_alone():
    desired = wanting(HEIR, outgoing=(READER,))
    end = Savepoint(
        offsets={"f1-0.0": Offset("7-0")}, last_offsets={"f1-1.0": Offset("5-0")}, batch_bases={"f1-1.0": 5})
    soon = (do.Wait(60_030),)
    assert decide(snapshot(HEIR, desired=desired, has_handover_lock=True), Start(HEIR)) == soon
    assert decide(snapshot(HEIR, desired=desired, savepoints={"f1-1": end}), Start(HEIR)) == soon
    steps = decide(
        snapshot(HEIR, desired=desired, savepoints={"f1-1": end}, has_handover_lock=True), Start(HEIR))
    assert steps == (
        on.Join("f1-0.0", "f2-0", where=Offset("7-0")), do.TakeOver(RestorePoint(), ("f1-1",)), do.Again(Start(HEIR)),
    ), "its place is taken before it is recorded that it has begun"


def test_a_fragment_ends_only_between_two_batches_and_with_all_read():
    desired = wanting(HEIR, outgoing=(READER,))
    running = {"desired": desired, "has_query": True, "since_ms": 0}
    half = Records(chain=READER, progress=CheckpointProgress(3, False, None, {"f1-0.0": Offset("6-0")}), has_begun=True)
    done = replace(half, progress=CheckpointProgress(3, True, None, {"f1-0.0": Offset("6-0")}))
    upstream_end = Savepoint(last_offsets={"f1-0.0": Offset("7-0")})
    behind = replace(desired, handing_over={"0": (SOURCE, READER)})
    not_read = snapshot(
        READER, FragmentState.RUNNING, **{**running, "desired": behind}, records=done,
        savepoints={"f1-0": upstream_end})
    not_read = replace(not_read, actual=replace(not_read.actual, inputs=READER.inputs))
    assert decide(not_read, End(READER)) == (do.RetryAt(60_030),)
    young = snapshot(READER, FragmentState.RUNNING, **{**running, "since_ms": 59_000}, records=half)
    assert decide(young, End(READER)) == (do.HoldQuery(), do.Again(End(READER))), "it ends its batch first"
    assert decide(replace(young, is_held=False), End(READER)) == (do.RetryAt(60_030),), "however long that takes"
    held = replace(young, is_held=True, records=done, channels={"f1-1.0": info("f1-1.0", last=Offset("4-0"))})
    recorded_first = decide(held, End(READER))
    assert [type(step) for step in recorded_first] == [
        do.RecordEnded, do.StayPaused, do.Show, do.StopQuery, do.Stopped, do.Release], "nobody waits for it to stop"
    restless = replace(held, is_held=False)
    assert [type(step) for step in decide(restless, End(READER))] == [do.Show, do.StopQuery, do.Stopped, do.Again]
    hangs = replace(young, now_ms=59_000 + 600_001)
    assert do.StopQuery() in decide(hangs, End(READER)), "one that may hang is tried again"
    steps = decide(snapshot(READER, FragmentState.RUNNING, **running, records=done), End(READER))
    assert steps == (do.HoldQuery(), do.Again(End(READER)))
    cut_short = snapshot(READER, desired=desired, records=half)
    assert decide(cut_short, End(READER)) == (do.Again(Start(READER)),), "the planned batch is done first"
    at_rest = snapshot(READER, desired=desired, records=done, channels={"f1-1.0": info("f1-1.0", last=Offset("4-0"))})
    recorded, released = decide(at_rest, End(READER))
    assert recorded == recorded_first[0]
    assert released == do.Release() and recorded.savepoint == Savepoint(
        offsets={"f1-0.0": Offset("6-0")}, last_offsets={"f1-1.0": Offset("4-0")}, batch_bases={"f1-1.0": 4})
    assert recorded.state == do.HandedState(3, {})


def test_a_fragment_that_moves_before_it_reads_its_new_channels_is_started_anew_to_read_them():
    """A task that it reads was divided, and both moved by the next plan: one bundle has ended, which it never read."""
    bundle = replace(SOURCE, id="f2-1")
    reader = replace(READER, inputs=(Input("f2-0.0", "s"), Input("f2-1.0", "s")))
    heir = replace(HEIR, id="f3-0", inputs=reader.inputs)
    first = info("f2-0.0", last=Offset("3-0"), readers={"f1-1": START})
    second = info("f2-1.0", last=Offset("7-0"), readers={"f1-1": START})
    runs = snapshot(
        READER, FragmentState.RUNNING, desired=wanting(heir, outgoing=(bundle, reader)), has_query=True,
        records=Records(
            chain=READER, progress=CheckpointProgress(3, True, None, {"f1-0.0": Offset("6-0")}), has_begun=True),
        savepoints={"f2-1": Savepoint(last_offsets={"f2-1.0": Offset("7-0")})},
        channels={"f2-0.0": first, "f2-1.0": second})
    runs = replace(runs, actual=replace(runs.actual, inputs=READER.inputs))
    assert decide(runs, End(reader)) == (do.Again(Restart(reader)),)
    assert [type(step) for step in decide(runs, Restart(reader))] == [do.Show, do.StopQuery, do.Stopped, do.Again]
    stopped = snapshot(reader, desired=runs.desired, records=runs.records, channels=runs.channels)
    assert of_kind(decide(stopped, Start(reader)), do.Compile) == [do.Compile(reader)]
    reads_both = replace(
        runs, actual=replace(runs.actual, inputs=reader.inputs), records=replace(runs.records, chain=reader))
    assert decide(reads_both, End(reader)) == (do.RetryAt(60_030),), "it has still to read what the bundle left"
    progress = CheckpointProgress(4, True, None, {"f2-0.0": Offset("3-0"), "f2-1.0": Offset("7-0")})
    has_read = replace(reads_both, records=replace(reads_both.records, progress=progress))
    assert decide(has_read, End(reader)) == (do.HoldQuery(), do.Again(End(reader)))


def test_who_goes_on_with_a_reader_that_gave_up_blocks_begins_behind_them():
    done = Records(chain=READER, progress=CheckpointProgress(3, True, None, {"f1-0.0": Offset("6-0")}), has_begun=True)
    skip = Skip(Offset("6-0"), Offset("40-0"))
    for given, place in ((skip, "40-0"), (replace(skip, entry=Offset("2-0"), to=Offset("5-0")), "6-0")):
        read = replace(info("f1-0.0", readers={"f1-1": Offset("6-0")}), skips={"f1-1": given})
        at_rest = snapshot(READER, desired=wanting(HEIR, outgoing=(READER,)), records=done, channels={"f1-0.0": read})
        recorded, _ = decide(at_rest, End(READER))
        assert recorded.savepoint.offsets == {"f1-0.0": Offset(place)}


# -- pauses, leaving, removal ----------------------------------------------------------------------------------------


RESTS = (on.RestRanges(None, 4), do.RecordPause(paused=True))


def test_a_pause_is_recorded_before_places_are_given_up():
    at_rest = snapshot(READER, records=Records(chain=READER, progress=CheckpointProgress(3, True), has_begun=True))
    assert decide(at_rest, Pause(READER)) == (
        *RESTS, on.Unregister("f1-0.0", "f1-1"), do.Release())


def test_a_pause_does_not_wait_for_a_batch_that_can_only_fail():
    half = Records(chain=READER, progress=CheckpointProgress(3, False, None, {"f1-0.0": Offset("6-0")}), has_begun=True)
    rests = (*RESTS, on.Unregister("f1-0.0", "f1-1"), do.Release())
    placed = {"f1-0.0": info("f1-0.0", readers={"f1-1": Offset("4-0")})}
    failed = snapshot(READER, FragmentState.BACKOFF, records=half, channels=placed)
    assert decide(failed, Pause(READER)) == (do.Again(Start(READER)),), "it may have come through the next time"
    given_up = replace(failed, actual=replace(failed.actual, gave_up=True))
    assert decide(given_up, Pause(READER)) == (do.Show(FragmentState.DRAINING), do.Stopped(), *rests)
    for lost in ({}, {"f1-0.0": info("f1-0.0")}):
        assert decide(replace(failed, channels=lost), Pause(READER))[2:] == rests, "its writer heard of the pause first"
    ends = snapshot(READER, FragmentState.BACKOFF, desired=wanting(HEIR, outgoing=(READER,)), records=half)
    given_up = replace(ends, actual=replace(ends.actual, gave_up=True))
    assert decide(given_up, End(READER)) == (do.Again(Start(READER)),), "others need what it was about to do"


def test_a_pause_keeps_its_place_at_a_live_source_which_rests_too():
    reader = replace(READER, inputs=(Input("in-orders.0", "orders"),))
    at_rest = snapshot(reader, records=Records(chain=reader, progress=CheckpointProgress(3, True), has_begun=True))
    nothing_for_copies = on.Unregister("in-orders.0", "f1-1~copies")
    assert decide(at_rest, Pause(reader)) == (*RESTS, nothing_for_copies, do.Release())


@pytest.mark.parametrize(("control", "leaves"), [
    ({}, False), ({LEFT: "1"}, True),
    ({"0:route:f1-1:1": '{"f1-0.0@f1-1": 0.0, "f1-0.0@f2-0": 1.0}', "0:route:f1-1:1:from": "4"}, True),
    ({"0:route:f1-1:1": '{"f1-0.0@f1-1": 0.0, "f1-0.0@f2-0": 1.0}'}, False),
    ({"0:route:f1-1:1": '{"f1-0.0@f2-0": 1.0}', "0:route:f1-1:1:from": "4"}, False),
])
def test_a_bundle_leaves_when_nobody_will_write_for_it(control, leaves):
    bundle = replace(
        READER, inputs=(Input("f1-0.0@f1-1", "s"),), leaving=True,
        writers={"f1-0.0@f1-1": ChannelWriter("f1-0", 0, "f1-1")})
    records = Records(
        chain=bundle, progress=CheckpointProgress(3, True, None, {"f1-0.0@f1-1": Offset("6-0")}), has_begun=True)
    part = info("f1-0.0@f1-1", last=Offset("6-0"), readers={"f1-1": Offset("5-0")})
    running = snapshot(
        bundle, FragmentState.RUNNING, has_query=True, records=records, channels={part.channel: part},
        controls={"f1-0": control})
    assert bool(of_kind(decide(running, Leave(bundle)), do.StopQuery)) is leaves


def test_a_removed_fragment_is_cleared_away_but_for_what_others_go_on_with():
    taken = replace(HEIR, channels={0: "f1-1.0"})
    longer = replace(READER, tasks=(*READER.tasks, Task("b", "add")))
    gone = snapshot(longer, desired=wanting(taken), records=Records(own_record=longer))
    steps = decide(gone, Stop("f1-1", keep=False))
    assert of_kind(steps, on.DeleteChannel) == [on.DeleteChannel("f1-1.1")]
    assert steps[-1] == do.Gone() and of_kind(steps, do.MarkRemoved)
    assert decide(gone, Stop("f1-1", keep=True))[1:] == (do.ForgetRecord(), do.Release(), do.Gone())


# -- restarts and routes ---------------------------------------------------------------------------------------------


def test_a_restart_waits_until_it_can_be_done_at_once():
    wider = replace(READER, inputs=(*READER.inputs, Input("f1-0.1", "s")))
    noted = Records(chain=READER, progress=CheckpointProgress(3, True, None, {"f1-0.0": Offset("6-0")}), has_begun=True)
    first = info("f1-0.0", last=Offset("6-0"), readers={"f1-1": Offset("6-0")})
    facts = {"has_query": True, "records": noted, "desired": wanting(wider)}
    runs = replace(snapshot(READER, FragmentState.RUNNING, channels={"f1-0.0": first}, **facts), actual=Actual(
        "f1-1", FragmentState.RUNNING, inputs=READER.inputs))
    assert [type(step) for step in decide(runs, Restart(wider))] == [do.RetryAt]
    both = replace(runs, channels={"f1-0.0": first, "f1-0.1": info("f1-0.1", readers={"f1-1": START})})
    threads = replace(wider, threads=2)
    assert [type(step) for step in decide(both, Restart(threads))] == [do.Show, do.StopQuery, do.Stopped, do.Again]


def test_a_query_is_told_between_two_batches_where_only_the_channels_of_its_streams_are_others():
    wider = replace(READER, inputs=(*READER.inputs, Input("f1-0.1", "s")))
    offsets = {"f1-0.0": Offset("6-0")}
    first = info("f1-0.0", last=Offset("6-0"), readers={"f1-1": Offset("6-0")})
    second = info("f1-0.1", readers={"f1-1": START})
    runs = replace(snapshot(
        READER, FragmentState.RUNNING, channels={"f1-0.0": first, "f1-0.1": second}, has_query=True,
        records=Records(chain=READER, progress=CheckpointProgress(3, True, None, offsets), has_begun=True),
        desired=wanting(wider)), actual=Actual("f1-1", FragmentState.RUNNING, inputs=READER.inputs))
    assert decide(runs, Restart(wider)) == (do.HoldQuery(), do.Again(Restart(wider)))
    assert decide(replace(runs, is_held=False), Restart(wider)) == (do.RetryAt(60_030),)
    rests = replace(runs, is_held=True)
    assert decide(rests, Restart(wider)) == (on.KeepInputs({"f1-0.1": START}, {}), do.ReadChannels(wider))
    anew = [do.Show, do.StopQuery, do.Stopped, do.Again]
    begun = RestorePoint(offsets={"f1-0.1": Offset("2-0")})
    for otherwise in (
        replace(rests, channels={"f1-0.0": first, "f1-0.1": replace(second, schema_json='{"of": "another"}')}),
        replace(rests, records=replace(rests.records, begun=begun)),
        replace(rests, actual=replace(rests.actual, threads=2), running=replace(READER, threads=2)),
        replace(rests, actual=replace(rests.actual, real_time=True), running=replace(READER, real_time=True)),
    ):
        assert [type(step) for step in decide(otherwise, Restart(wider))] == anew
    part = Input("f1-0.1@f1-1", "s")
    mixed = replace(rests, channels={"f1-0.0": first, part.channel: replace(second, channel=part.channel)})
    assert [type(step) for step in decide(mixed, Restart(replace(wider, inputs=(*READER.inputs, part))))] == anew
    less = replace(rests, running=wider, actual=replace(rests.actual, inputs=wider.inputs))
    assert decide(less, Restart(READER)) == (do.ReadChannels(READER),)


def test_a_query_that_has_run_for_hours_ends_its_batch_before_a_restart_too():
    wider = replace(READER, threads=2)
    half = Records(
        chain=READER, progress=CheckpointProgress(3, False, None, {"f1-0.0": Offset("6-0")}, planned_ms=30_000))
    runs = snapshot(
        READER, FragmentState.RUNNING, channels={"f1-0.0": info("f1-0.0", readers={"f1-1": START})}, has_query=True,
        records=half, desired=wanting(wider), since_ms=-10**8)
    runs = replace(runs, actual=replace(runs.actual, inputs=READER.inputs))
    assert decide(runs, Restart(wider)) == (do.HoldQuery(), do.Again(Restart(wider)))
    assert decide(replace(runs, is_held=False), Restart(wider)) == (do.RetryAt(60_030),)
    hangs = replace(runs, now_ms=30_000 + 600_001)
    assert do.StopQuery() in decide(hangs, Restart(wider))


def test_a_stream_is_divided_only_for_bundles_that_read():
    route = DivideStream("f1-0", 0, "f1-1", Quota({"f1-1": 0.5, "f2-0": 0.5}))
    facts = {"has_query": True, "channels": {"f1-0.0": info("f1-0.0")}}
    early = snapshot(SOURCE, FragmentState.RUNNING, **facts, controls={"f1-1": {"routes": "0"}})
    steps = decide(early, route)
    assert not of_kind(steps, on.SetRoute) and len(of_kind(steps, on.OpenPart)) == 2 and steps[-1] == do.RetryAt(60_250)
    ready = replace(early, controls={"f1-1": {"routes": "0"}, "f2-0": {"routes": "0"}})
    kinds = [type(step) for step in decide(ready, route)]
    assert kinds.index(on.OpenPart) < kinds.index(on.SetRoute)
    retired = replace(ready, controls={"f1-1": {"routes": "0"}, "f2-0": {LEFT: "1"}})
    assert not of_kind(decide(retired, route), on.SetRoute)


def test_what_is_read_whole_is_divided_between_two_batches():
    route = DivideStream("f1-0", 0, "f1-1", Quota({"f1-1": 1.0}))
    whole = info("f1-0.0", last=Offset("6-0"), readers={"f1-1": Offset("5-0")})
    facts = {"has_query": True, "channels": {"f1-0.0": whole}, "controls": {"f1-1": {"routes": "0"}}}
    running = replace(snapshot(SOURCE, FragmentState.RUNNING, **facts), actual=Actual(
        "f1-0", FragmentState.RUNNING, outlets=SOURCE.outlets))
    assert [type(step) for step in decide(running, route)][-2:] == [do.HoldQuery, do.Again]
    under_way = replace(running, is_held=True, records=Records(progress=CheckpointProgress(7, False)))
    assert not of_kind(decide(under_way, route), on.SetRoute)
    at_rest = replace(running, is_held=True, records=Records(progress=CheckpointProgress(7, True)))
    [set_route] = of_kind(decide(at_rest, route), on.SetRoute)
    assert set_route.instead and set_route.from_batch == 8


def test_routes_are_activated_only_at_rest():
    routes = {"f1-0": {"0:route:f1-1:1": '{"f1-0.0@f1-1": 1.0}'}}
    waiting = snapshot(SOURCE, FragmentState.RUNNING, has_query=True, controls=routes)
    assert decide(waiting, ActivateRoutes("f1-0")) == (do.HoldQuery(), do.Again(ActivateRoutes("f1-0")))
    held = replace(waiting, is_held=True, records=Records(progress=CheckpointProgress(7, True)))
    assert decide(held, ActivateRoutes("f1-0")) == (on.Activate(7), do.LookAtRoutes(None))
    busy = replace(waiting, is_held=False, records=Records(progress=CheckpointProgress(7, False)))
    assert decide(busy, ActivateRoutes("f1-0")) == (do.LookAtRoutes(62_500),)


def test_an_outlet_opens_between_two_batches_with_the_very_next_one():
    opens = OpenOutlet("f1-0", 0, frozenset({"f1-1"}))
    running = replace(
        snapshot(SOURCE, FragmentState.RUNNING, has_query=True), actual=Actual("f1-0", FragmentState.RUNNING))
    assert decide(running, opens) == (do.HoldQuery(), do.Again(opens))
    at_rest = replace(running, is_held=True, records=Records(progress=CheckpointProgress(7, True)))
    under_way = replace(running, is_held=False, records=Records(progress=CheckpointProgress(7, False)))
    for fragment_snapshot in (at_rest, under_way):
        steps = decide(fragment_snapshot, opens)
        kinds = [type(step) for step in steps]
        assert kinds.index(on.OpenChannel) < kinds.index(on.Join) < kinds.index(on.OpenValve)
        assert of_kind(steps, on.OpenValve) == [on.OpenValve(0, from_batch=8)]
        assert steps[-1] == do.InForce(outlets={0: frozenset({"f1-1"})})
    about_to_begin = replace(running, is_held=False, records=Records(progress=CheckpointProgress(7, True)))
    assert decide(about_to_begin, opens) == (do.RetryAt(60_250),)


def test_a_tail_that_opens_in_part_works_from_the_next_batch_on():
    chain = replace(SOURCE, tasks=(*SOURCE.tasks, Task("b", "add"), Task("c", "add")))
    opens, facts = OpenTail("f1-0", 2), {"has_query": True, "desired": wanting(chain)}
    running = replace(
        snapshot(chain, FragmentState.RUNNING, **facts), actual=Actual("f1-0", FragmentState.RUNNING, active=1))
    assert decide(running, opens) == (do.HoldQuery(), do.Again(opens))
    at_rest = replace(running, is_held=True, records=Records(progress=CheckpointProgress(7, True)))
    assert decide(at_rest, opens) == (on.SetTail(2), do.InForce(active=2), on.Activate(7))
    under_way = replace(running, is_held=False, records=Records(progress=CheckpointProgress(7, False)))
    assert decide(under_way, opens) == (on.SetTail(2), do.InForce(active=2))
    assert decide(running, OpenTail("f1-0", 3)) == (on.SetTail(None), do.InForce(active=3))


# -- what must hold --------------------------------------------------------------------------------------------------


def test_a_sound_fragment_violates_nothing():
    sound = snapshot(SOURCE, FragmentState.RUNNING, has_query=True)
    assert validate_state(sound) == ()
    assert validate_state(replace(sound, actual=Actual(
        "f1-0", FragmentState.RUNNING, outlets={0: frozenset({"f1-2"})},
        routes={0: {"f1-1": Quota({"f1-1": 1.0})}}))) == ()


BOTH = {"outlets": {0: frozenset({"f1-1"})}, "routes": {0: {"f1-1": Quota({"f1-1": 1.0})}}}


@pytest.mark.parametrize(("changes", "sentence"), [
    ({"has_query": False}, "It is running and has no query."),
    ({"actual": Actual("f1-0", FragmentState.BACKOFF)}, "It is backoff and has a query."),
    ({"records": Records(has_ended=True), "desired": wanting(outgoing=(SOURCE,))},
     "It has ended for others and has a query."),
    ({"desired": DesiredState(slots={"0": WantedSlot((SOURCE,)), "1": WantedSlot((SOURCE,))})},
     "It is wanted on the slots 0, 1: two queries would do its work."),
    ({"desired": wanting(SOURCE, outgoing=(SOURCE,))}, "It is wanted and to hand over."),
    ({"actual": Actual("f1-0", FragmentState.RUNNING, **BOTH)}, "f1-1 reads the stream at 0 whole and in parts."),
    ({"actual": Actual("f1-0", FragmentState.RUNNING, routes={0: {"f1-1": Quota({"f1-1": 0.0})}})},
     "The stream at 0 is divided for f1-1 among nobody."),
    ({"actual": Actual("f1-0", FragmentState.RUNNING, outlets={3: frozenset({"f1-1"})})},
     "A stream at 3 is in force, and it has 1 tasks."),
    ({"actual": Actual("f1-0", FragmentState.STARTING), "has_query": False, "is_compiled": True,
      "records": Records(progress=CheckpointProgress(3, True)),
      "channels": {"f1-0.0": info("f1-0.0", last=Offset("9-0"))}},
     "f1-0.0 has block 9, and it has written 4 at most."),
])
def test_what_does_not_hold_is_said(changes, sentence):
    assert validate_state(replace(snapshot(SOURCE, FragmentState.RUNNING, has_query=True), **changes)) == (sentence,)
