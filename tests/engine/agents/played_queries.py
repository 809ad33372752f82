"""Played queries and their disk: a batch is planned, done and committed, or cut short anywhere between."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

from scheduler.contracts.desired import WantedFragment
from scheduler.contracts.offsets import START, Offset
from scheduler.contracts.savepoints import SAVEPOINTS, RestorePoint, Savepoint
from scheduler.model.ring import Ring
from workers.engine.agents.node_files.checkpoint import CheckpointProgress
from workers.engine.agents.node_files.fold_stores import FoldStores
from workers.engine.channels import keys

from ..channels.reference import Control
from .played_broker import Failed
from .played_files import PlayedFiles
from .played_keys import dealt, dealt_evenly, tallied

if TYPE_CHECKING:
    from .divided_world import World


class Store:
    """A node's disk as one of its slots uses it; both slots have the same checkpoints and locks."""

    data_dir = None

    def __init__(self, locks: dict[str, str], slot: str) -> None:
        self.kept: dict[str, dict[str, object]] = {"begun": {}, "ended": {}, "paused": {}, "left": {}, "standby": {}}
        self.files = PlayedFiles(self)
        self.taken_over: set[str] = set()
        self.void: set[str] = set()
        self.slots: list[Store] = [self]
        self.checkpoints: dict[str, CheckpointProgress] = {}
        self.before: dict[str, CheckpointProgress] = {}
        self.states: dict[str, dict[str, int]] = {}
        self.definitions: dict[str, WantedFragment] = {}
        self.locks, self.slot, self.own_records = locks, slot, {}

    def of_slot(self, slot: str) -> Store:
        other = Store(self.locks, slot)
        other.kept, other.checkpoints, other.before, other.definitions, other.states = (
            self.kept, self.checkpoints, self.before, self.definitions, self.states)
        other.taken_over, other.void, other.slots, other.files = self.taken_over, self.void, self.slots, self.files
        self.slots.append(other)
        return other

    def received(self, name: str) -> Savepoint | None:
        text = self.files.texts.get((name, "received"))
        return None if text is None else SAVEPOINTS.loads(text)

    def received_ms(self, name: str) -> int | None:
        return None if self.received(name) is None else 0

    @property
    def fold_stores(self) -> FoldStores:
        return FoldStores(Path("nowhere"))

    def make_whole(self, name: str) -> None:
        """A played state is JSON: there is nothing that points elsewhere."""

    def state_bytes(self, name: str) -> int:
        return len(self.states.get(name) or (self.begun(name) or RestorePoint()).states)

    def taken(self) -> frozenset[str]:
        return frozenset(self.taken_over)

    def record_taken(self, name: str) -> None:
        self.taken_over.add(name)

    def record_void(self, name: str) -> None:
        self.void.add(name)

    def is_recorded(self, name: str) -> bool:
        return any(name in store.own_records for store in self.slots)

    def begun(self, name: str) -> RestorePoint | None:
        return self.kept["begun"].get(name)

    def ended(self, name: str) -> Savepoint | None:
        return self.kept["ended"].get(name)

    def ended_ms(self, name: str) -> int | None:
        return 0 if name in self.kept["ended"] else None

    def having(self, record: str) -> frozenset[str]:
        return frozenset(self.kept[record])

    def has(self, name: str, record: str) -> bool:
        return name in self.kept[record] if record in self.kept else (name, record) in self.files.texts

    def record_begun(self, name: str, begun: RestorePoint) -> None:
        self.kept["begun"][name] = begun

    def record_ended(self, name: str, ended: Savepoint | None) -> None:
        self.kept["ended"].pop(name, None)
        if ended is not None:
            self.kept["ended"][name] = ended

    def standby(self, name: str) -> tuple[str, ...] | None:
        return self.kept["standby"].get(name)

    def record_standby(self, name: str, channels: tuple[str, ...] | None) -> None:
        self.kept["standby"].pop(name, None)
        if channels is not None:
            self.kept["standby"][name] = channels

    def standing(self) -> frozenset[str]:
        come = {name: self.progress(name) for name in self.kept["standby"]}
        return frozenset(name for name, progress in come.items() if progress.batch >= 0 and progress.is_done)

    def progress(self, name: str) -> CheckpointProgress:
        return self.checkpoints.get(name, CheckpointProgress())

    def has_begun(self, name: str) -> bool:
        return name in self.checkpoints

    def known_fragment(self, name: str) -> WantedFragment | None:
        return self.definitions.get(name)

    def handover_lock(self) -> SimpleNamespace:
        return SimpleNamespace(acquire=lambda: True, release=lambda: None)

    def own_fragment(self, name: str) -> WantedFragment | None:
        return self.own_records.get(name)

    def record(self, fragment: WantedFragment) -> None:
        self.definitions[fragment.id] = self.own_records[fragment.id] = fragment

    def take_on(self, fragment: WantedFragment) -> None:
        self.own_records.setdefault(fragment.id, fragment)

    def records(self) -> dict[str, WantedFragment]:
        return dict(self.own_records)

    def forget(self, name: str) -> None:
        self.own_records.pop(name, None)

    def record_left(self, name: str, *, has_left: bool) -> None:
        self.kept["left"].pop(name, None)
        if has_left:
            self.kept["left"][name] = True

    def record_pause(self, name: str, *, paused: bool) -> None:
        self.kept["paused"].pop(name, None)
        if paused:
            self.kept["paused"][name] = True

    def clear_checkpoint(self, name: str) -> None:
        self.checkpoints.pop(name, None)
        self.states.pop(name, None)

    def folds(self, name: str) -> tuple:
        definition = self.definitions.get(name)
        return tuple((task.id, 1) for task in definition.tasks if task.type in ("count", "tally")) if definition else ()

    def begun_path(self, name: str) -> str:
        return name

    def record_folds(self, name: str, folds) -> None:
        pass

    def mark_removed(self, name: str) -> None:
        pass

    def lock(self, name: str) -> SimpleNamespace:
        def acquire() -> bool:
            return self.locks.setdefault(name, self.slot) == self.slot

        def release() -> None:
            if self.locks.get(name) == self.slot:
                del self.locks[name]

        return SimpleNamespace(acquire=acquire, release=release)


class Query:
    """A query of one fragment: it plans a batch, does it and commits it, or dies or fails anywhere between.

    One with a ``gate`` stands by: it does an empty batch, and then none until the fragment's control opens the gate."""

    def __init__(
        self, world: World, store: Store, fragment: WantedFragment, tokens: Mapping[str, int], gate: str = ""
    ) -> None:
        self._tokens, self._committed, self._gate = tokens, {}, gate
        self.world, self.store, self.fragment, self.runId = world, store, fragment, "run"
        self.isActive = True
        self._turns_left: int | None = None  # of the batch under way
        if gate:
            assert store.progress(fragment.id).batch < 0, f"{fragment.id} stands by on a checkpoint of another"
            return
        self._runs()
        self.reads(fragment)

    def reads(self, fragment: WantedFragment) -> None:
        """It reads the channels of this chain, and none any more of those that are left out, which it has read."""
        self.fragment, world, progress = fragment, self.world, self.store.progress(fragment.id)
        reads = {item.channel for item in fragment.inputs}
        may_rest = not world.may_rest.isdisjoint(task.id for task in fragment.tasks)
        if progress.is_done:
            for channel in progress.offsets.keys() - reads:
                info = world.broker.channels.info(channel)
                if info is None or (may_rest and fragment.id not in {*info.readers, *info.limits}):
                    continue  # it was paused, perhaps unheard of here: what came meanwhile it leaves out
                last = info.limits.get(fragment.id, info.last)
                assert progress.offsets[channel] >= last, "dropped before it was read"

    def _runs(self) -> None:
        assert self.fragment.id not in self.world.running, f"{self.fragment.id} runs twice"
        self.world.running[self.fragment.id] = self

    def stop(self) -> None:
        self.isActive = False
        if self.world.running.get(self.fragment.id) is self:
            del self.world.running[self.fragment.id]

    def _stands_by(self) -> bool:
        """Whether it waits still; the tokens of what it writes come with its turn."""
        name, store = self.fragment.id, self.store
        if not self._gate:
            return False
        if not store.progress(name).is_done or store.progress(name).batch < 0:
            store.checkpoints[name] = CheckpointProgress(0, is_done=store.progress(name).batch == 0)
            return True
        beginning_text = self.world.link.hget(keys.valve(name), keys.gate(self._gate))
        if beginning_text is None:
            return True
        beginning, begun = json.loads(beginning_text), store.begun(name) or RestorePoint()
        bases = [begun.batch_bases.get(channel, 0) for channel in self.fragment.written]
        assert beginning["batch_bases"] == bases and beginning["offsets"] == begun.offsets
        assert beginning["source_offset"] == begun.source_offset
        self._tokens = dict(zip(self.fragment.written, beginning["fences"], strict=True))
        self._gate = ""
        self._runs()
        return False

    def batch(self) -> None:
        if self._stands_by():
            return
        name, store = self.fragment.id, self.store
        done = store.progress(name)
        if done.is_done:
            if self.world.link.hexists(keys.valve(name), "paused"):
                return
            self._commit(done)
            planned = self._plan(done)
            planned = planned and replace(planned, start_offsets=done.offsets)
            if planned is None:
                return
            store.before[name] = done
            store.checkpoints[name] = done = planned
        if self._is_under_way():
            return
        self._may_fail()
        events = self._events(store.before[name], done)
        control = Control.read(self.world.link, name, done.batch)
        begun = store.begun(name) or RestorePoint()
        states = {task: json.loads(state[0]) for task, state in begun.states.items() if state[0] is not None}
        states |= store.states.get(name, {})
        for position, task in enumerate(self.fragment.tasks):
            if task.type == "mark":
                events = [(task.id, event) for event in events]
            if task.type == "count":
                seen = states.get(task.id, 0)
                states[task.id] = seen + len(events)
                events = [(seen + number, event) for number, event in enumerate(events)]
            if task.type == "tally":
                states[task.id], events = tallied(states.get(task.id), events)
            base = begun.batch_bases.get(self.fragment.channel(position), 0)
            self._publish(control, position, base + done.batch + 1, events)
        self._may_fail()
        store.states[name] = states
        store.checkpoints[name] = replace(done, is_done=True)

    def _publish(self, control: Control, position: int, number: int, events: list) -> None:
        stream = self.fragment.channel(position)
        write = partial(self.world.link.write, token=self._tokens[stream], stream=stream)
        batch = self.store.progress(self.fragment.id).batch
        if control.publishes(position):
            write(stream, number, events)
            self.world.may_die()
        for how in control.routes(position):
            for part, given in (dealt if isinstance(how, Ring) else partial(dealt_evenly, batch))(how, events).items():
                self._may_fail()
                write(part, number, given)
                self.world.may_die()

    def _is_under_way(self) -> bool:
        """Whether the batch takes longer than this turn; one that is cut short begins anew."""
        if self._turns_left is None:
            self._turns_left = max(self.world.lasts.get(task.id, 0) for task in self.fragment.tasks)
        self._turns_left -= 1
        if self._turns_left >= 0:
            return True
        self._turns_left = None
        return False

    def _may_fail(self) -> None:
        self.world.may_die()
        if self.world.deadly and self.world.chance.random() < 0.01:
            raise Failed

    def _commit(self, done: CheckpointProgress) -> None:
        for channel, offset in done.offsets.items():
            if self._committed.get(channel) != offset:
                self.world.link.channels.commit(channel, self.fragment.id, offset)
                self._committed[channel] = offset

    def _plan(self, done: CheckpointProgress) -> CheckpointProgress | None:
        if not self.fragment.inputs:
            first = self._next(done)
            until = min(self.world.limit, first + self.world.chance.randint(1, 4))
            return CheckpointProgress(done.batch + 1, False, {"t0": 0, "next": until}) if until > first else None
        offsets, more = {}, False
        for item in self.fragment.inputs:
            offset = self._offset(item.channel, done)
            later = [entry for entry, _ in self.world.link.after(item.channel, offset, reader=self.fragment.id)]
            offsets[item.channel] = later[: self.world.chance.randint(1, 3)][-1] if later else offset
            more = more or bool(later)
        return CheckpointProgress(done.batch + 1, False, None, offsets) if more else None

    def _next(self, done: CheckpointProgress) -> int:
        begun = self.store.begun(self.fragment.id) or RestorePoint()
        return (done.source_offset or begun.source_offset or {"next": 0})["next"]

    def _offset(self, channel: str, done: CheckpointProgress) -> Offset:
        begin = (self.store.begun(self.fragment.id) or RestorePoint()).offsets.get(channel)
        offset = done.offsets.get(channel)
        if offset is None:
            offset = self.world.link.offset(channel, self.fragment.id)
        return max(offset, begin or START)

    def _events(self, before: CheckpointProgress, done: CheckpointProgress) -> list:
        if not self.fragment.inputs:
            return list(range(self._next(before), done.source_offset["next"]))
        events = []
        for item in self.fragment.inputs:
            end, offset = done.offsets.get(item.channel), self._offset(item.channel, before)
            if end is not None and offset < end:
                blocks = self.world.link.after(item.channel, offset, end)
                events += [event for _, block in blocks for event in block]
        for channel, end in done.offsets.items():  # planned with a channel that it does not read any more
            if channel not in {item.channel for item in self.fragment.inputs}:
                assert before.offsets.get(channel, end) == end, "a planned batch lost a channel"
        return events
