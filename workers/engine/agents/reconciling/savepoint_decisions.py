"""Decisions about savepoints: a fragment goes on with the work of others, or with its own after a pause, and leaves its
own to others. Pure.

The order of instructions makes it safe against death at any moment: what others need is recorded before it is let go,
and a place in a channel is taken before the one that it follows is given up.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from scheduler.contracts.desired import WantedFragment
from scheduler.contracts.offsets import Offset
from scheduler.contracts.savepoints import RestorePoint, Savepoint
from workers.engine.channels import keys
from workers.engine.channels.control import PART

from .broker_instructions import Commit, DropControl, ForgetRanges, Join, Withdraw
from .handover_stages import offset_of, predecessors, remote_successors, restore_point_of, successors
from .inputs import channels_of
from .instructions import (
    ClearCheckpoint,
    DropSavepoint,
    HandedState,
    Instruction,
    Instructions,
    RecordBegun,
    RecordChain,
    RecordEnded,
    RecordPause,
    TakeOver,
)
from .snapshot import Records, Snapshot
from .standby import taken_over_in

# -- beginning ---------------------------------------------------------------------------------------------------------


class Readiness(Enum):
    """The readiness of a fragment to begin, as far as its predecessors go."""

    READY = "ready"
    WAITS = "waits"
    NOT_YET = "not yet"  # its instructions are to be done, and then it is looked at again


@dataclass(frozen=True, slots=True)
class BeginDecision:
    """The readiness of a fragment to begin, and the instructions for that."""

    readiness: Readiness
    instructions: Instructions = ()


def takes_over(fragment: WantedFragment, records: Records) -> bool:
    """True where a fragment has still to take over the work of others."""
    return bool(fragment.inherits) and records.begun is None and (records.is_standby or not records.has_begun)


def restores(fragment: WantedFragment, records: Records) -> bool:
    """True where a fragment has still to begin with what named savepoints have; its heirs begin with what it leaves."""
    return bool(fragment.restores) and not fragment.inherits and records.begun is None and not records.has_begun


def beginning_of(snapshot: Snapshot, fragment: WantedFragment) -> BeginDecision:
    """The readiness of the fragment to begin; it takes its places, and takes over what others left, where it can."""
    steps: list[Instruction] = []
    if snapshot.records.has_ended and fragment.id in snapshot.desired.wanted and not fragment.leaving:
        # It is wanted again before anybody went on with its work, here or on another node.
        steps += (Withdraw(), DropSavepoint())
    if snapshot.records.is_paused:
        joins = _joins_after_pause(snapshot, fragment)
        if joins:
            return BeginDecision(Readiness.NOT_YET, (*steps, *joins))
    if restores(fragment, snapshot.records):
        return BeginDecision(Readiness.NOT_YET, (*steps, RecordBegun(_restored(snapshot, fragment))))
    if not takes_over(fragment, snapshot.records):
        return BeginDecision(Readiness.READY, tuple(steps))
    took = _take_over(snapshot, fragment) if snapshot.has_handover_lock else None
    if took is None:
        return BeginDecision(Readiness.WAITS, tuple(steps))
    return BeginDecision(Readiness.NOT_YET, (*steps, *took))


def _joins_after_pause(snapshot: Snapshot, fragment: WantedFragment) -> list[Instruction]:
    """A paused fragment is to go on: it reads from now."""
    infos = {item.channel: snapshot.channels.get(item.channel) for item in fragment.inputs}
    return [
        Join(channel, fragment.id) for channel, info in infos.items()
        if info is not None and info.schema_json and fragment.id not in {*info.readers, *info.limits}]


def _take_over(snapshot: Snapshot, fragment: WantedFragment) -> Instructions | None:
    """Begin with what others left; None until they have all ended."""
    desired = snapshot.desired
    names = predecessors(desired, fragment)
    if any(name not in snapshot.savepoints for name in names):
        return None
    joins: list[Instruction] = []
    for name in () if fragment.key_ranges else names:  # what they read, they have read to its end
        # All who go on with it, before the first of them writes: what they need must not be freed.
        for heir in successors(desired, name):
            joins += _given_places(heir, snapshot.savepoints[name])
    point = restore_point_of(fragment, [snapshot.savepoints[name] for name in names])
    return (*joins, TakeOver(point, names, {name: fragment.taken[name] for name in names if name in fragment.taken}))


def _restored(snapshot: Snapshot, fragment: WantedFragment) -> RestorePoint:
    """What a fragment begins with of named savepoints: its source's next number, due now, and states."""
    saved = {task: (snapshot.saved[saved_task], saved_task.task) for task, saved_task in fragment.restores.items()}
    source = saved[fragment.tasks[0].id][0].source_offset if fragment.tasks[0].id in saved else None
    return RestorePoint(
        source_offset=None if source is None or fragment.inputs else _due_now(snapshot, source),
        states={task: part.states[name] for task, (part, name) in saved.items() if name in part.states})


def _given_places(heir: WantedFragment, end: Savepoint) -> list[Instruction]:
    joins: list[Instruction] = []
    for item in heir.inputs:
        # What was read whole, and is to be read in parts, is read whole until its writer divides it.
        channel = taken_over_in(item, heir)
        offset = offset_of(channel, [end], written=not keys.is_part(item.channel))
        if offset is not None:
            joins.append(Join(channel, heir.id, where=offset))
    return joins


# -- ending ------------------------------------------------------------------------------------------------------------


def left_to_read(snapshot: Snapshot, fragment: WantedFragment) -> frozenset[str]:
    """The channels that the fragment has not read to the end: what others wrote that ended before it; and, where it
    goes on on another node, what is on this one's disk for it."""
    goes_elsewhere = bool(remote_successors(snapshot.desired, fragment.id))
    unread_channels = set[str]()
    for item in fragment.inputs:
        last_offsets = [
            snapshot.savepoints[name].last_offsets[item.channel]
            for name, outgoing in snapshot.desired.outgoing.items()
            if item.channel in outgoing.written and name in snapshot.savepoints
            and item.channel in snapshot.savepoints[name].last_offsets]
        offset = snapshot.records.progress.offsets.get(item.channel) or snapshot.offset_registered(item.channel)
        info = snapshot.channels.get(item.channel)
        on_disk = info.spills.get(fragment.id) if info is not None and goes_elsewhere else None
        if (offset is not None and any(offset < last for last in last_offsets)) or (
                on_disk is not None and (offset is None or offset < on_disk)):
            unread_channels.add(item.channel)
    return frozenset(unread_channels)


def has_repeated(snapshot: Snapshot, fragment: WantedFragment) -> bool:
    """True where a fragment that goes on from a copy has come to the last batch that another had recorded: until then
    its next batches must be those of the other one, and nobody else's."""
    begun, batch = snapshot.records.begun, snapshot.records.progress.batch
    if begun is None or not begun.repeats:
        return True
    if batch + 1 < begun.recorded:
        return False
    # Agents of earlier versions did not say how many were recorded, and published no parts.
    infos = {channel: snapshot.channels.get(channel) for channel in fragment.written}
    return all(
        info is None or info.last.block <= begun.batch_bases.get(channel, 0) + batch + 1
        for channel, info in infos.items())


def end(snapshot: Snapshot, fragment: WantedFragment) -> Instructions:
    """Record what a fragment leaves that is at rest: others can go on from there."""
    return (RecordEnded(left_by(snapshot, fragment), state_left(snapshot.records)),)


def left_by(snapshot: Snapshot, fragment: WantedFragment) -> Savepoint:
    """The savepoint of a fragment between two batches, but for its state."""
    records = snapshot.records
    begun = records.begun or RestorePoint()
    source_offset = records.progress.source_offset or begun.source_offset
    if records.is_paused and source_offset is not None:
        source_offset = _due_now(snapshot, source_offset)
    offsets = {
        item.channel: records.progress.offsets.get(item.channel) or snapshot.offset_registered(item.channel)
        for item in fragment.inputs}
    infos = {channel: snapshot.channels.get(channel) for channel in fragment.written}
    return Savepoint(
        source_offset=source_offset,
        offsets={} if records.is_paused else {
            name: _read_on_after(snapshot, name, fragment.id, offset)
            for name, offset in offsets.items() if offset is not None},
        last_offsets={channel: info.last for channel, info in infos.items() if info is not None},
        batch_bases=batch_bases_of(records, fragment),
    )


def batch_bases_of(records: Records, fragment: WantedFragment) -> dict[str, int]:
    """By channel, what block numbers begin with behind the last batch; of parts of a fragment's streams, too, which may
    be further than the whole."""
    before = records.begun.batch_bases if records.begun is not None else {}
    return {channel: before.get(channel, 0) + records.progress.batch + 1 for channel in fragment.written}


def left_at_rest(records: Records, fragment: WantedFragment) -> Savepoint:
    """The savepoint of a paused fragment as a copy, but for its state: who goes on with it reads from then on; a live
    source, which rests as well, from where this one was."""
    begun = records.begun or RestorePoint()
    return Savepoint(
        source_offset=records.progress.source_offset or begun.source_offset,
        offsets={name: offset for name, offset in records.progress.offsets.items() if keys.is_intake(name)},
        batch_bases=batch_bases_of(records, fragment), repeats=records.progress.batch + 1)


def _read_on_after(snapshot: Snapshot, channel: str, reader: str, offset: Offset) -> Offset:
    """Where the next one reads on: behind what this one gave up and has had no batch since."""
    info = snapshot.channels.get(channel)
    return offset if info is None else info.reads_on_after(reader, offset)


def state_left(records: Records) -> HandedState:
    """The state after its last batch that is done."""
    progress = records.progress
    return HandedState(
        progress.batch if progress.is_done else progress.batch - 1, (records.begun or RestorePoint()).states)


def _due_now(snapshot: Snapshot, source_offset: dict[str, int]) -> dict[str, int]:
    """The same next number, due now and not when it would have been without the pause."""
    t0 = max(source_offset["t0"], snapshot.now_ms - snapshot.due_after_ms)
    return {"t0": t0, "next": source_offset["next"]}


# -- going on after a pause --------------------------------------------------------------------------------------------


def has_lost_its_place(snapshot: Snapshot) -> bool:
    """True where a channel has no place for it that the batch reads which it planned and has not done."""
    progress = snapshot.records.progress
    return not progress.is_done and any(snapshot.offset_registered(channel) is None for channel in progress.offsets)


def was_unregistered(snapshot: Snapshot, fragment: WantedFragment) -> bool:
    """True where it was paused and goes on, and its node heard of neither: its offsets are not what it has read."""
    progress = snapshot.records.progress
    offsets = {channel: snapshot.offset_registered(channel) for channel in progress.offsets}
    # A place follows when a batch is done: until then it is where that batch begins.
    places = progress.offsets if progress.is_done else {**progress.offsets, **progress.start_offsets}
    has_lost = has_lost_its_place(snapshot) or _has_other_channel(snapshot) or _has_lost_the_whole(snapshot, fragment)
    return has_lost or any(
        offset is not None and offset > places[channel] for channel, offset in offsets.items())


def _has_lost_the_whole(snapshot: Snapshot, fragment: WantedFragment) -> bool:
    """Whether it has no place any more in a whole stream that it is to read in parts, and was not done with it."""
    offsets = snapshot.records.progress.offsets
    infos = {name: snapshot.channels.get(name) for name in channels_of(fragment.inputs) if name in offsets}
    return any(
        info is not None and fragment.id not in {*info.readers, *info.limits} and not keys.is_part(name)
        and offsets[name] < info.last
        for name, info in infos.items()
    )


def _has_other_channel(snapshot: Snapshot) -> bool:
    """Whether a channel that it read is another now under the same name: its part, closed for long."""
    offsets = snapshot.records.progress.offsets
    return any(
        (info := snapshot.channels.get(name)) is not None and keys.is_part(name)
        and info.last < offsets[name]
        for name in offsets
    )


def go_on(snapshot: Snapshot, fragment: WantedFragment) -> tuple[Instructions, WantedFragment | None]:
    """Record where a fragment goes on after its pause: nothing of the time between is made up for, but what a live
    source wrote before it rested, too.

    Where a batch was cut short what it read may be gone: then it begins a new checkpoint, too. Returned with the chain
    that its checkpoint belongs to from then on.
    """
    records = snapshot.records
    recorded = records.chain
    is_same = recorded is None or set(recorded.inputs) == set(fragment.inputs)
    if recorded is not None and not (is_same and records.progress.is_done and not _has_other_channel(snapshot)):
        steps, whole = _succeed_itself(snapshot, recorded, fragment)
        return (ForgetRanges(), *steps, RecordPause(paused=False)), whole
    begun = records.begun or RestorePoint()
    if recorded is None:  # it has taken over at rest, from a copy behind which nothing was to be repeated
        begun = replace(begun, offsets={}, repeats=False, reads=(), gone=())
    source_offset = records.progress.source_offset or begun.source_offset
    offsets = {item.channel: _goes_on_at(snapshot, item.channel) for item in fragment.inputs}
    source_offset = source_offset and _due_now(snapshot, source_offset)
    begun = replace(begun, source_offset=source_offset, offsets={**begun.offsets, **offsets})
    return (ForgetRanges(), RecordBegun(begun), RecordPause(paused=False)), recorded


def _goes_on_at(snapshot: Snapshot, channel: str) -> Offset | None:
    """The query's offset in a channel. A query that kept its registration may have read further than it has
    reported."""
    registered, read = snapshot.offset_registered(channel), snapshot.records.progress.offsets.get(channel)
    return max(registered, read) if keys.is_intake(channel) and registered and read else registered


def _succeed_itself(
    snapshot: Snapshot, recorded: WantedFragment, fragment: WantedFragment
) -> tuple[Instructions, WantedFragment]:
    """Go on from a fresh checkpoint: what it reads moved to other channels meanwhile, which the old one lacks."""
    records = snapshot.records
    whole = replace(fragment, tasks=recorded.tasks)
    before, batches = records.begun or RestorePoint(), records.progress.batch + 1
    begun = restore_point_of(whole, [left_by(snapshot, recorded)])
    # Its batches are numbered anew, its blocks are not: neither those of its streams nor those of their parts.
    batch_bases = {
        name: max(begun.batch_bases.get(name, 0), before.batch_bases.get(name, 0) + batches)
        for name in whole.written}
    passed = _passed(snapshot)
    state = replace(state_left(records), tasks=frozenset(task.id for task in whole.tasks))
    boundaries = tuple(name for name in snapshot.control if PART not in name)
    return (
        RecordBegun(replace(begun, batch_bases=batch_bases, offsets=passed), state),
        ClearCheckpoint(),
        *((DropControl(boundaries),) if boundaries else ()),
        RecordChain(whole),
        *(Commit(channel, offset) for channel, offset in passed.items()),
    ), whole


def _passed(snapshot: Snapshot) -> dict[str, Offset]:
    """How far the old checkpoint had planned in channels that are there still: not to be read again."""
    offsets = snapshot.records.progress.offsets
    return {
        name: offsets[name] for name in offsets
        if (info := snapshot.channels.get(name)) is not None and offsets[name] <= info.last
    }
