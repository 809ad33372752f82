"""Decisions by which a fragment comes to rest: to hand over, to pause, or to leave. Pure.

It reads what is left, stops between two batches, and only then is it recorded what it leaves. A batch that was planned
and not done is repeated before that, for what it read may be freed later. One that pauses does without, where the batch
can only fail again: it goes on behind that batch.
"""

from __future__ import annotations

from dataclasses import replace

from scheduler.contracts.desired import WantedFragment
from workers.engine.channels import keys
from workers.engine.channels.batch_ranges import place_of

from .broker_instructions import BeginRanges, RestRanges, Resume, Unregister
from .delays import LEAVE_MS, RETRY_MS, SOON_MS
from .handover_stages import remote_successors, successors
from .inputs import channels_of, streams_by_channel
from .instructions import (
    Again,
    HoldQuery,
    Instructions,
    ReadState,
    RecordCopy,
    RecordPause,
    RecordSaved,
    Release,
    RetryAt,
    Show,
    StayPaused,
    Stopped,
    TakeOn,
    Wait,
)
from .outputs import hastened
from .reconcile import CopyState, End, FragmentState, Leave, Pause, Restart, Start
from .resting import await_batch, come_to_rest, is_busy
from .retirement import has_read_all, retire
from .savepoint_decisions import (
    Readiness,
    beginning_of,
    end,
    has_lost_its_place,
    has_repeated,
    left_at_rest,
    left_by,
    left_to_read,
    state_left,
)
from .snapshot import READY, Snapshot


def come_to_an_end(snapshot: Snapshot, action: End | Pause | Leave) -> Instructions:
    """Bring a fragment to its end, its pause or its leaving, or a step nearer to it."""
    fragment = action.fragment
    # What is to end before it began has nothing to leave until it has taken over itself.
    beginning = beginning_of(snapshot, fragment)
    if beginning.readiness is Readiness.NOT_YET:
        return (*beginning.instructions, Again(action))
    is_drained = beginning.readiness is Readiness.READY and _is_drained(snapshot, action)
    is_done = snapshot.records.progress.is_done
    if snapshot.has_query:
        heirs = successors(snapshot.desired, fragment.id) if isinstance(action, Leave) else ()
        # Once its heirs are ready the keys of one that leaves stand still until it has ended.
        is_soon = all(READY in snapshot.controls.get(heir.id, {}) for heir in heirs) if heirs else not isinstance(
            action, Leave)
        again_ms = SOON_MS if is_soon else LEAVE_MS
        if not is_drained:
            step = Again(Restart(fragment)) if _lacks_inputs(snapshot, action) else RetryAt(snapshot.now_ms + again_ms)
            return (*beginning.instructions, *(hastened(snapshot) if heirs and is_soon else ()), step)
        if isinstance(action, End) or (heirs and not snapshot.records.has_ended):
            return (*beginning.instructions, *_end_held(snapshot, action))
        waits = await_batch(snapshot, action, again_ms=again_ms)
        return (*beginning.instructions, *(waits or (*come_to_rest(), Again(action))))
    if isinstance(action, Pause) and beginning.readiness is Readiness.WAITS and not fragment.key_ranges:
        shown = (Show(FragmentState.STARTING),) if snapshot.actual.state is FragmentState.STOPPED else ()
        return (*beginning.instructions, *shown, Wait(snapshot.now_ms + RETRY_MS))
    if not is_drained or not (is_done or (isinstance(action, Pause) and _only_fails(snapshot))):
        return (*beginning.instructions, Again(Start(fragment)))
    # It waited, or had failed, where it is not stopped already.
    stopped = () if snapshot.actual.state is FragmentState.STOPPED else (Show(FragmentState.DRAINING), Stopped())
    return (*beginning.instructions, *stopped, *_at_rest(snapshot, action))


def _end_held(snapshot: Snapshot, action: End | Pause | Leave) -> Instructions:
    """Record what a fragment leaves while its query still stands at rest, so that nobody waits for that to stop.

    It plans no batch from then on, whatever becomes of this slot. Where it does not come to rest it is stopped first.
    """
    is_done = snapshot.records.progress.is_done
    if not is_done and not is_busy(snapshot):
        return (*come_to_rest(), Again(action))
    if snapshot.is_held is None:
        return (HoldQuery(), Again(action))
    if not is_done:
        return (RetryAt(snapshot.now_ms + SOON_MS),)
    if not snapshot.is_held:
        return (*come_to_rest(), Again(action))
    last = Again(action) if isinstance(action, Leave) else Release()  # who leaves has its places to give up
    return (*end(snapshot, action.fragment), StayPaused(), *come_to_rest(), last)


def copy(snapshot: Snapshot, action: CopyState) -> Instructions:
    """Copy the state of a working query between two batches; it goes on before the copy is on disk. The copy of a
    paused query is its last one."""
    fragment = action.fragment
    if snapshot.records.is_paused:
        return _copy_at_rest(snapshot, action)
    heirs = tuple(heir.id for heir in remote_successors(snapshot.desired, fragment.id))
    if not snapshot.has_query or not (heirs or action.savepoints or action.holders):
        return ()
    if snapshot.is_held is None:
        return (HoldQuery(), Again(action))
    if not snapshot.is_held or not snapshot.records.progress.is_done:
        return (RetryAt(snapshot.now_ms + RETRY_MS),)
    read = ReadState(state_left(snapshot.records))
    if action.savepoints:
        return (read, Resume(), RecordSaved(left_by(snapshot, fragment), action.savepoints))
    if heirs:
        return (read, Resume(), RecordCopy(heirs))
    savepoint = left_by(snapshot, fragment)
    # Blocks that were not done yet are none that the copy has; and it is of the channels that the batch read.
    progress = snapshot.records.progress
    savepoint = replace(savepoint, last_offsets={}, offsets=dict(progress.offsets), repeats=progress.batch + 1)
    names = tuple(keys.copy_name(fragment.id, node) for node in action.holders)
    unread = {item.channel: snapshot.offset_registered(item.channel) for item in snapshot.running.inputs
              if item.channel not in savepoint.offsets}
    places = {**savepoint.offsets, **{channel: offset for channel, offset in unread.items() if offset is not None}}
    recorded = snapshot.records.chain
    streams = streams_by_channel((*snapshot.running.inputs, *(recorded.inputs if recorded is not None else ())))
    if streams and savepoint.offsets.keys() - streams.keys():  # it has left out a channel, and done no batch since
        return (Resume(), RetryAt(snapshot.now_ms + RETRY_MS))
    return (read, BeginRanges(place_of(savepoint), places, streams), Resume(), RecordCopy(names, savepoint))


def _copy_at_rest(snapshot: Snapshot, action: CopyState) -> Instructions:
    if snapshot.has_query or not action.holders:
        return ()
    savepoint = left_at_rest(snapshot.records, action.fragment)
    names = tuple(keys.copy_name(snapshot.id, node) for node in action.holders)
    place = place_of(savepoint)
    rest_ranges = RestRanges(place, max(savepoint.batch_bases.values(), default=0))
    return (ReadState(state_left(snapshot.records)), rest_ranges, BeginRanges(place, {}), RecordCopy(names, savepoint))


def _is_drained(snapshot: Snapshot, action: End | Pause | Leave) -> bool:
    match action:
        case End(fragment):
            return has_repeated(snapshot, fragment) and not left_to_read(snapshot, fragment)
        case Pause(fragment):
            return snapshot.actual.gave_up or has_repeated(snapshot, fragment)
        case Leave(fragment):
            return has_read_all(snapshot, fragment)
    return True


def _lacks_inputs(snapshot: Snapshot, action: End | Pause | Leave) -> bool:
    """True if an ending fragment has unread entries in a channel that its query does not read.

    One plan gave it that channel, and the next one moved it before its query was restarted. Since it is no longer
    wanted, reconciliation would not restart it: it would wait for good.
    """
    read = {item.channel for item in snapshot.actual.inputs}
    return isinstance(action, End) and not left_to_read(snapshot, action.fragment) <= read


def _only_fails(snapshot: Snapshot) -> bool:
    """Whether the batch that was planned will not be done: the query was given up, or has lost its place where it read,
    as its writer may hear of the pause first and free what only this one needs."""
    return snapshot.actual.gave_up or has_lost_its_place(snapshot)


def _at_rest(snapshot: Snapshot, action: End | Pause | Leave) -> Instructions:
    match action:
        case End(fragment):
            return (*end(snapshot, fragment), Release())
        case Pause(fragment):
            return (*_pause(snapshot, fragment), Release())
        case Leave(fragment):
            return retire(snapshot, fragment)


def _pause(snapshot: Snapshot, fragment: WantedFragment) -> Instructions:
    """Keep its state, and let nobody wait for it.

    Its live source rests as well, so it is not waited for there either. Its last output is read when both go on. Of its
    copies on other nodes only the last one counts from here on, which is made at rest: channels need not keep what an
    older copy would repeat.
    """
    savepoint = left_at_rest(snapshot.records, fragment)
    taken_on = () if snapshot.records.chain is not None else (TakeOn(fragment),)
    return (
        *taken_on, RestRanges(None, max(savepoint.batch_bases.values(), default=0)),
        RecordPause(paused=True),
        *(Unregister(channel, keys.copies_reader(snapshot.id) if keys.is_intake(channel) else snapshot.id)
          for channel in channels_of(fragment.inputs)))
