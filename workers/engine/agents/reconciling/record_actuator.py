"""Does on disk what instructions say: records beside checkpoints, and the checkpoints themselves."""

from __future__ import annotations

import time
from collections.abc import Container, Iterable, Mapping
from dataclasses import replace

from scheduler.contracts.savepoints import Savepoint, States
from workers.engine.channels.keys import gift_name
from workers.library.key_states import states_of_keys
from workers.library.state_store import Pointer

from ..agent_logs import logger
from ..node_files.fold_stores import LeftKeys
from ..transport.copying import make_copies
from .context import SlotContext
from .fragment_run import FragmentRun
from .instructions import (
    BringRows,
    ClearCheckpoint,
    DropSavepoint,
    ForgetRecord,
    ForgetStandby,
    HandedState,
    MarkRemoved,
    ReadState,
    RecordBegun,
    RecordChain,
    RecordCopy,
    RecordEnded,
    RecordGiven,
    RecordInstruction,
    RecordLeft,
    RecordPause,
    RecordSaved,
    RecordStandby,
    RemoveCheckpoint,
    TakeOn,
    TakeOver,
)
from .named_savepoints import save


class RecordActuator:
    """Follows instructions on disk."""

    def __init__(self, context: SlotContext) -> None:
        self._context = context
        self._log = logger()

    def do(self, run: FragmentRun, instruction: RecordInstruction) -> None:
        store = self._context.store
        match instruction:
            case TakeOver(restore_point, predecessors, takes):
                if not predecessors:
                    self._log.warning("nothing is left of what it goes on with; it begins anew", fragment=run.id)
                # Once it is recorded that it has begun, whoever has what others left may remove that.
                run.left_ms = self._left_ms(run.id, predecessors)
                if takes:
                    restore_point = replace(restore_point, states=self._keys_taken(run.id, restore_point.states, takes))
                store.record_begun(run.id, restore_point)
                for giver in takes:
                    store.record_ended(gift_name(giver, run.id), None)
                self._log.info("fragment takes over", fragment=run.id, from_=predecessors)
            case BringRows(takes, now_ms):
                run.brought(store.fold_stores.bring_keys(run.id, takes), now_ms=now_ms)
            case RecordBegun(restore_point, None):
                store.record_begun(run.id, restore_point)
            case RecordBegun(restore_point, state):
                store.record_begun(run.id, replace(restore_point, states=self._states(run, state)))
            case RecordEnded(savepoint, state):
                began_s = time.monotonic()
                store.record_ended(run.id, replace(savepoint, states=self._states(run, state)))
                took_ms = round(1000 * (time.monotonic() - began_s))
                self._log.info("fragment ended for others", fragment=run.id, took_ms=took_ms)
            case ReadState(state):
                run.copied = self._states(run, state)
            case RecordCopy(names, savepoint):
                copied, run.copied = run.copied, {}
                make_copies(store, names, replace(savepoint, states=copied))
            case RecordSaved(savepoint, names):
                states, run.copied = store.fold_stores.whole(run.copied), {}
                save(store.files, run.id, names, replace(savepoint, states=states))
                self._log.info("part of savepoints left", fragment=run.id, savepoints=names)
            case RecordGiven(heir, ranges):
                copied, run.copied = run.copied, {}
                # What a store has of these keys no later batch changes.
                states = {
                    task: [
                        text if text and Pointer.read(text) else states_of_keys([(text, ranges)]) for text in texts]
                    for task, texts in copied.items()}
                store.record_ended(gift_name(run.id, heir), Savepoint(states=states))
                self._log.info("keys given", fragment=run.id, heir=heir)
            case DropSavepoint():
                store.record_ended(run.id, None)
            case RecordStandby(channels):
                store.record_standby(run.id, channels)
            case ForgetStandby():
                store.record_standby(run.id, None)
            case RecordPause(paused):
                store.record_pause(run.id, paused=paused)
                self._log.info("fragment paused" if paused else "fragment goes on after its pause", fragment=run.id)
            case RecordLeft():
                store.record_left(run.id, has_left=True)
                self._log.info("bundle left", fragment=run.id)
            case RecordChain(whole):
                store.record(whole)
            case TakeOn(fragment):
                store.take_on(fragment)
            case ClearCheckpoint():
                store.clear_checkpoint(run.id)
            case RemoveCheckpoint():
                self._log.warning("another fragment had this id; its checkpoint goes", fragment=run.id)
                store.remove_checkpoint(run.id)
            case MarkRemoved():
                store.mark_removed(run.id)
            case ForgetRecord():
                store.forget(run.id)

    def _keys_taken(
        self, heir: str, tasks: Container[str], takes: Mapping[str, tuple[tuple[int, int], ...]]
    ) -> States:
        """What others have left of these tasks for an heir, of the keys in these ranges."""
        store, left_keys = self._context.store, dict[str, LeftKeys]()
        for name, ranges in takes.items():
            savepoint = store.ended(gift_name(name, heir))
            is_final = savepoint is not None
            if savepoint := savepoint or store.ended(name):
                states = {task: texts for task, texts in savepoint.states.items() if task in tasks}
                left_keys[name] = LeftKeys(states, ranges, is_final)
        return store.fold_stores.keys_taken(heir, left_keys)

    def _left_ms(self, heir: str, predecessors: Iterable[str]) -> int | None:
        """When the last of those whose work a fragment goes on with recorded what it left; where that was on another
        node, by that node's clock."""
        store = self._context.store
        names = (name for predecessor in predecessors for name in (predecessor, gift_name(predecessor, heir)))
        times_ms = (store.received_ms(heir), *map(store.ended_ms, names))
        return max((at_ms for at_ms in times_ms if at_ms is not None), default=None)

    def _states(self, run: FragmentRun, state: HandedState) -> States:
        """The state of each fold: Spark's, or what the fold began with where no event has come to it since."""
        fragment_id, run_id = run.id, run.run_id if run.query is not None else None
        folds = self._context.store.folds(fragment_id)
        read: list[str | None] = []
        if state.batch >= 0:
            read = list(self._context.engine.read_states(
                fragment_id, folds=sum(count for _, count in folds), batch=state.batch,
                run_id=run_id))
        states, first = {task: list(inherited) for task, inherited in state.inherited.items()}, 0
        for task, count in folds:
            states_read, first = read[first : first + count] or [None] * count, first + count
            inherited = state.inherited.get(task, [None] * count)
            states[task] = [new if new is not None else old for new, old in zip(states_read, inherited, strict=True)]
        return {
            task: values for task, values in states.items()
            if any(value is not None for value in values) and (state.tasks is None or task in state.tasks)}
