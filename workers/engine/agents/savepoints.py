"""How a fragment goes on with the work of others, or with its own after a pause: on the broker, and on disk.

The order of things makes it safe against death at any moment: what others need is recorded before it is let go, and a
place in a channel is taken before the one that it follows is given up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from scheduler.contracts.desired import WantedFragment
from scheduler.model.dataflow import Task
from workers.engine.channels import keys
from workers.engine.spark.compile import due_ms
from workers.engine.spark.states import read_states

from .context import SlotContext
from .handover import (
    RestorePoint,
    Savepoint,
    States,
    offset_of,
    offset_order,
    predecessors,
    restore_point_of,
    successors,
)
from .inputs import channels_of
from .logs import logger
from .outputs import PART


class Savepoints:
    """Records ends and beginnings, and moves places in channels from one reader to the next."""

    def __init__(self, around: SlotContext, *, clock_ms: Callable[[], int]) -> None:
        self._around = around
        self._clock_ms = clock_ms
        self._log = logger()

    # -- beginning -----------------------------------------------------------------------------------------------

    def may_begin(self, wanted: WantedFragment) -> bool:
        """Whether the fragment can start as far as those go whose work it goes on with; records what it begins with."""
        store = self._around.store
        if not wanted.inherits or store.begun(wanted.id) is not None or store.has_begun(wanted.id):
            return True
        lock = store.handover_lock()
        if not lock.acquire():
            return False
        try:
            return self._take_over(wanted)
        finally:
            lock.release()

    def _take_over(self, wanted: WantedFragment) -> bool:
        """Begin with what others left, unless another plan has come meanwhile; or wait until they have ended."""
        store = self._around.store
        desired = self._around.desired()
        if wanted.id not in desired.wanted and wanted.id not in desired.outgoing:
            return False
        names = predecessors(desired, wanted)
        ends = [store.ended(name) for name in names]
        if any(end is None for end in ends):
            return False
        if not names:
            self._log.warning("nothing is left of what it goes on with; it begins anew", fragment=wanted.id)
        for name, end in zip(names, ends, strict=True):
            # All who go on with it, before the first of them writes: what they need must not be freed.
            for heir in successors(desired, name):
                self._give_places(heir, [end])
        store.record_begun(wanted.id, restore_point_of(wanted, ends))
        self._log.info("fragment takes over", fragment=wanted.id, from_=names)
        return True

    def _give_places(self, heir: WantedFragment, ends: Sequence[Savepoint]) -> None:
        for item in heir.inputs:
            # What was read whole, and is to be read in parts, is read whole until its writer divides it.
            is_part = keys.is_part(item.channel)
            channel = keys.whole_of(item.channel) if is_part else item.channel
            offset = offset_of(channel, ends, written=not is_part)
            if offset is not None:
                self._around.channels.join(channel, heir.id, where=offset)

    # -- ending --------------------------------------------------------------------------------------------------

    def is_drained(self, fragment: WantedFragment) -> bool:
        """Whether the fragment has read all that others wrote for it that ended before it."""
        store = self._around.store
        read = store.progress(fragment.id)
        outgoing = self._around.desired().outgoing
        for item in fragment.inputs:
            ends = [store.ended(name) for name, other in outgoing.items() if item.channel in other.written]
            last_offsets = [
                end.last_offsets[item.channel] for end in ends if end is not None and item.channel in end.last_offsets]
            offset = read.offsets.get(item.channel) or self._registered_at(item.channel, fragment.id)
            if offset is not None and any(offset_order(offset) < offset_order(last) for last in last_offsets):
                return False
        return True

    def end(self, fragment: WantedFragment) -> None:
        """Record what a fragment leaves that is at rest: others can go on from there."""
        self._around.store.record_ended(fragment.id, self._left_by(fragment))
        self._log.info("fragment ended for others", fragment=fragment.id)

    def _left_by(self, fragment: WantedFragment) -> Savepoint:
        store = self._around.store
        read = store.progress(fragment.id)
        begun = store.begun(fragment.id) or RestorePoint()
        whole = store.known(fragment.id) or fragment
        was_paused = fragment.id in store.having("paused")
        source_offset = read.source_offset or begun.source_offset
        if was_paused and source_offset is not None:
            source_offset = self._due_now(whole.tasks[0], source_offset)
        infos = {channel: self._around.channels.info(channel) for channel in fragment.written}
        return Savepoint(
            source_offset=source_offset,
            offsets={} if was_paused else self._offsets_read(fragment, read.offsets),
            last_offsets={channel: info.last for channel, info in infos.items() if info is not None},
            # Of parts of its streams, too, which may be further than the whole.
            batch_bases={channel: begun.batch_bases.get(channel, 0) + read.batch + 1 for channel in fragment.written},
            states=self._states(fragment.id, read.batch if read.is_done else read.batch - 1, begun.states),
        )

    def _offsets_read(self, fragment: WantedFragment, read: dict[str, str]) -> dict[str, str]:
        offsets = {
            item.channel: read.get(item.channel) or self._registered_at(item.channel, fragment.id)
            for item in fragment.inputs
        }
        return {channel: offset for channel, offset in offsets.items() if offset is not None}

    def _states(self, fragment_id: str, batch: int, inherited: States) -> dict[str, list[str | None]]:
        """The state of each fold: Spark's, or what the fold began with where no event has come to it since."""
        around = self._around
        folds = around.store.folds(fragment_id)
        found = []
        if batch >= 0:
            found = read_states(
                around.spark, around.store.checkpoint(fragment_id), folds=sum(count for _, count in folds), batch=batch
            )
        states, first = {task: list(kept) for task, kept in inherited.items()}, 0
        for task, count in folds:
            own, first = found[first : first + count] or [None] * count, first + count
            kept = inherited.get(task, [None] * count)
            states[task] = [new if new is not None else old for new, old in zip(own, kept, strict=True)]
        return {task: kept for task, kept in states.items() if any(one is not None for one in kept)}

    def _registered_at(self, channel: str, reader: str) -> str | None:
        info = self._around.channels.info(channel)
        return None if info is None else info.readers.get(reader) or info.limits.get(reader)

    def leave_channels(self, fragment: WantedFragment, *, for_good: bool = False) -> None:
        """Give up the fragment's places in the channels that it reads."""
        for channel in channels_of(fragment.inputs):
            self._around.channels.unregister(channel, fragment.id, for_good=for_good)

    # -- pauses --------------------------------------------------------------------------------------------------

    def rest(self, fragment: WantedFragment) -> None:
        """A fragment at rest is paused: it keeps what it has, and nobody waits for it."""
        self._around.store.record_pause(fragment.id, paused=True)
        self.leave_channels(fragment)
        self._log.info("fragment paused", fragment=fragment.id)

    def come_back_from_pause(self, wanted: WantedFragment) -> None:
        """A paused fragment is to go on: it reads from now."""
        for item in wanted.inputs:
            info = self._around.channels.info(item.channel)
            if info is not None and info.schema_json:
                self._around.channels.join(item.channel, wanted.id)

    def was_unregistered(self, wanted: WantedFragment) -> bool:
        """Whether it was paused and goes on, and its node heard of neither: its offsets are not what it has read."""
        read = self._around.store.progress(wanted.id)
        offsets = {channel: self._registered_at(channel, wanted.id) for channel in read.offsets}
        # A place follows when a batch is done: until then it is where that batch begins.
        known = read.offsets if read.is_done else {**read.offsets, **read.start_offsets}
        if not read.is_done and None in offsets.values():
            return True
        return self._is_anew(wanted) or self._has_lost_the_whole(wanted) or any(
            offset is not None and offset_order(offset) > offset_order(known[channel])
            for channel, offset in offsets.items()
        )

    def go_on(self, wanted: WantedFragment) -> None:
        """Record where a fragment goes on after its pause: nothing of the time between is made up for.

        Where a batch was cut short what it read may be gone: then it begins a new checkpoint, too.
        """
        store = self._around.store
        known = store.known(wanted.id)
        is_same = known is None or set(known.inputs) == set(wanted.inputs)
        if not is_same or self._is_anew(wanted) or (known is not None and not store.progress(wanted.id).is_done):
            self._succeed_itself(known, wanted)
        else:
            begun = store.begun(wanted.id) or RestorePoint()
            source_offset = store.progress(wanted.id).source_offset or begun.source_offset
            offsets = {item.channel: self._registered_at(item.channel, wanted.id) for item in wanted.inputs}
            source_offset = source_offset and self._due_now(wanted.tasks[0], source_offset)
            begun = replace(begun, source_offset=source_offset, offsets={**begun.offsets, **offsets})
            store.record_begun(wanted.id, begun)
        store.record_pause(wanted.id, paused=False)

    def _has_lost_the_whole(self, wanted: WantedFragment) -> bool:
        """Whether it has no place any more in a whole stream that it is to read in parts, and was not done with it."""
        read = self._around.store.progress(wanted.id).offsets
        infos = {name: self._around.channels.info(name) for name in channels_of(wanted.inputs) if name in read}
        return any(
            info is not None and wanted.id not in {*info.readers, *info.limits} and not keys.is_part(name)
            and offset_order(read[name]) < offset_order(info.last)
            for name, info in infos.items()
        )

    def _is_anew(self, wanted: WantedFragment) -> bool:
        """Whether a channel that it read is another now under the same name: its part, closed for long."""
        read = self._around.store.progress(wanted.id).offsets
        infos = {channel: self._around.channels.info(channel) for channel in read}
        return any(
            info is not None and keys.is_part(name) and offset_order(info.last) < offset_order(read[name])
            for name, info in infos.items()
        )

    def _succeed_itself(self, known: WantedFragment, wanted: WantedFragment) -> None:
        """Go on from a fresh checkpoint: what it reads moved to other channels meanwhile, which the old one lacks."""
        store, broker = self._around.store, self._around.broker
        whole = replace(wanted, tasks=known.tasks)
        before, done = store.begun(wanted.id) or RestorePoint(), store.progress(wanted.id).batch + 1
        begun = restore_point_of(whole, [self._left_by(known)])
        # Its batches are numbered anew, its blocks are not: neither those of its streams nor those of their parts.
        batch_bases = {
            name: max(begun.batch_bases.get(name, 0), before.batch_bases.get(name, 0) + done) for name in whole.written}
        passed = self._passed(wanted)
        store.record_begun(wanted.id, replace(begun, batch_bases=batch_bases, offsets=passed))
        store.clear_checkpoint(wanted.id)
        control = self._around.channels.control(wanted.id)  # its boundaries are batches of the old one
        if gone := [name for name in control if PART not in name]:
            broker.hdel(keys.valve(wanted.id), *gone)
        store.record(whole)
        for channel, offset in passed.items():
            self._around.channels.commit(channel, wanted.id, offset)

    def _passed(self, wanted: WantedFragment) -> dict[str, str]:
        """How far the old checkpoint had planned in channels that are there still: not to be read again."""
        read = self._around.store.progress(wanted.id).offsets
        infos = {channel: self._around.channels.info(channel) for channel in read}
        return {
            channel: read[channel] for channel, info in infos.items()
            if info is not None and offset_order(read[channel]) <= offset_order(info.last)
        }

    def _due_now(self, source: Task, source_offset: dict[str, int]) -> dict[str, int]:
        """The same next number, due now and not when it would have been without the pause."""
        task_type = self._around.task_types[source.type]
        after_ms = due_ms(source, task_type, source_offset["next"], folder=self._around.store.data_dir)
        return {"t0": max(source_offset["t0"], self._clock_ms() - after_ms), "next": source_offset["next"]}
