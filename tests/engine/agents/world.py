"""A world without Spark and Redis in which fragments hand over, and where a slot may die between any two steps.

Fragments, their records, the decisions and the taking over are the real ones; queries, checkpoints and channels are
played. Every task adds up what it gets, so that a lost, repeated or reordered event shows in all that follow.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

from scheduler.contracts.desired import DESIRED_STATES, DesiredState, WantedFragment
from scheduler.model.estate import Estate
from scheduler.model.fragment import Fragment, RunningTask, Slot, channel_id
from scheduler.model.task_types import TaskType
from workers.engine import desired as wishes
from workers.engine.agents import savepoints
from workers.engine.agents.checkpoint import Progress
from workers.engine.agents.handover import RestorePoint, Savepoint, Stage, line, offset_order, stage_of
from workers.engine.agents.reconcile import (
    Actual,
    CloseOutlet,
    End,
    OpenOutlet,
    RegisterReaders,
    Start,
    State,
    Stop,
    UnregisterReaders,
    reconcile,
)

TYPES = {name: TaskType(name, kind, "", "a:b") for name, kind in (("src", "source"), ("add", "transform"))}
LENGTH = 5
TASKS = {f"t{n}": RunningTask(f"t{n}", "add" if n else "src", {}, (f"t{n - 1}",) if n else ()) for n in range(LENGTH)}
WATCHER = RunningTask("w", "add", {}, ("t1",))
OUT = "out"  # the channel that the last task's stream must stay in


class Died(Exception):
    """The slot was killed here."""


@dataclass
class Channel:
    entries: list[tuple[str, list]] = field(default_factory=list)
    readers: dict[str, str] = field(default_factory=dict)
    limits: dict[str, str] = field(default_factory=dict)
    trimmed: str = "0-0"
    last: str = "0-0"
    schema_json: str = "{}"

    def trim(self) -> None:
        slowest = min(self.readers.values(), key=offset_order, default=self.last)
        while self.entries and offset_order(self.entries[0][0]) <= offset_order(slowest):
            self.trimmed = self.entries.pop(0)[0]


class Broker(dict):
    """Channels by id, with the part of the registry's interface that taking over needs."""

    def info(self, channel: str) -> Channel | None:
        return self.get(channel)

    def join(self, channel: str, reader: str, *, where: str = "now", predecessors=()) -> SimpleNamespace:
        found = self.setdefault(channel, Channel())
        if reader not in {*found.readers, *found.limits} and not any(one in found.readers for one in predecessors):
            found.readers[reader] = found.last if where == "now" else where
        return SimpleNamespace(place=found.readers.get(reader), kept_since=None)

    def unregister(self, channel: str, reader: str, *, for_good: bool = False) -> None:
        if channel in self:
            place = self[channel].readers.pop(reader, None)
            if for_good and place is not None:
                self[channel].limits.setdefault(reader, place)
            if channel != OUT:
                self[channel].trim()


class Disk:
    """What survives a slot: records and checkpoints, in the store's interface."""

    data_dir = None

    def __init__(self) -> None:
        self.kept: dict[str, dict[str, object]] = {"begun": {}, "ended": {}, "paused": {}}
        self.checkpoints: dict[str, Progress] = {}
        self.before: dict[str, Progress] = {}
        self.states: dict[str, dict[str, int]] = {}
        self.definitions: dict[str, WantedFragment] = {}

    def begun(self, name: str) -> RestorePoint | None:
        return self.kept["begun"].get(name)

    def ended(self, name: str) -> Savepoint | None:
        return self.kept["ended"].get(name)

    def having(self, what: str) -> frozenset[str]:
        return frozenset(self.kept[what])

    def record_begun(self, name: str, begun: RestorePoint) -> None:
        self.kept["begun"][name] = begun

    def record_ended(self, name: str, ended: Savepoint | None) -> None:
        self.kept["ended"].pop(name, None)
        if ended is not None:
            self.kept["ended"][name] = ended

    def progress(self, name: str) -> Progress:
        return self.checkpoints.get(name, Progress())

    def has_begun(self, name: str) -> bool:
        return name in self.checkpoints

    def known(self, name: str) -> WantedFragment | None:
        return self.definitions.get(name)

    def folds(self, name: str) -> tuple[tuple[str, int], ...]:
        return tuple((task.id, 1) for task in self.definitions[name].tasks) if name in self.definitions else ()

    def checkpoint(self, name: str) -> str:
        return name

    def handover_lock(self) -> SimpleNamespace:
        return SimpleNamespace(acquire=lambda: True, release=lambda: None)


class World:
    """Two slots of a node, and a source that emits the numbers from 0."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.broker, self.disk = Broker(), Disk()
        self.desired = DesiredState()
        self.actual: dict[str, dict[str, Actual]] = {"0": {}, "1": {}}
        self.running: dict[str, WantedFragment] = {}
        self.deadly = True
        around = SimpleNamespace(
            store=self.disk, channels=self.broker, desired=lambda: self.desired, spark=None, task_types=TYPES)
        self.savepoints = savepoints.Savepoints(around, clock_ms=lambda: 0)

    def read_states(self, _spark, name: str, *, folds: int, batch: int) -> list[str | None]:
        states = self.disk.states.get(name, {})
        return [str(states[task]) if task in states else None for task, _ in self.disk.folds(name)]

    def want(self, estate: Estate) -> None:
        kept = wishes.keep_handing_over(wishes.desired_of(estate, "n", TYPES), self.desired)
        self.desired = DESIRED_STATES.loads(DESIRED_STATES.dumps(kept))

    def maybe_die(self) -> None:
        if self.deadly and self.chance.random() < 0.04:
            raise Died

    # -- a slot's turn -------------------------------------------------------------------------------------------

    def turn(self, slot: str) -> None:
        try:
            for action in reconcile(
                self.desired.of_slot(slot), self.actual[slot], 0, elsewhere=self.desired.elsewhere(slot),
                outgoing=self.outgoing(slot), staying=frozenset(self.desired.outgoing),
            ):
                self.maybe_die()
                self.perform(slot, action)
            for name in [one for one, found in self.actual[slot].items() if found.state is State.RUNNING]:
                self.batch(name)
        except Died:
            for name in self.actual[slot]:
                self.running.pop(name, None)
            self.actual[slot] = {name: Actual(name, State.STOPPED) for name in self.actual[slot]}

    def outgoing(self, slot: str) -> list[tuple[WantedFragment, Stage]]:
        begun, ended = self.disk.having("begun"), self.disk.having("ended")
        staged = [(one, stage_of(self.desired, one.id, begun=begun, ended=ended))
                  for one in self.desired.handing_over.get(slot, ())]
        return [(one, stage) for one, stage in staged
                if stage is not Stage.OVER or one.id in ended or one.id in self.actual[slot]]

    def perform(self, slot: str, action) -> None:
        name = action.fragment_id
        found = self.actual[slot].get(name, Actual(name, State.STOPPED))
        match action:
            case Start(fragment):
                self.start(slot, fragment)
            case End(fragment):
                self.end(slot, fragment)
            case Stop():
                self.remove(slot, name)
            case OpenOutlet(_, position, readers) | RegisterReaders(_, position, readers):
                self.register(self.desired.wanted[name], position, readers)
                outlets = {**found.outlets, position: found.outlets.get(position, frozenset()) | readers}
                self.actual[slot][name] = replace(found, outlets=outlets)
            case UnregisterReaders(_, position, readers) | CloseOutlet(_, position, readers):
                for reader in readers:
                    self.broker.unregister(self.running[name].channel(position), reader)
                outlets = {**found.outlets, position: found.outlets[position] - readers}
                self.actual[slot][name] = replace(found, outlets={at: one for at, one in outlets.items() if one})

    def register(self, fragment: WantedFragment, position: int, readers) -> None:
        for reader in sorted(readers):
            before = line(self.desired, fragment.heirs.get(reader, ()))
            self.broker.join(fragment.channel(position), reader, predecessors=before)

    def start(self, slot: str, fragment: WantedFragment) -> None:
        self.actual[slot][fragment.id] = Actual(fragment.id, State.WAITING)
        if not self.savepoints.may_begin(fragment):
            return
        if not all(fragment.id in self.broker.get(one.channel, Channel()).readers for one in fragment.inputs):
            return
        self.maybe_die()
        self.disk.definitions[fragment.id] = fragment
        for position, readers in fragment.outlets.items():
            channel = self.broker.setdefault(fragment.channel(position), Channel())
            self.register(fragment, position, readers)
            for stray in set(channel.readers) - readers - fragment.predecessors(readers) - set(self.desired.outgoing):
                self.broker.unregister(fragment.channel(position), stray)
        self.broker.setdefault(OUT, Channel())
        self.maybe_die()
        assert fragment.id not in self.running
        self.running[fragment.id] = fragment
        self.actual[slot][fragment.id] = Actual(
            fragment.id, State.RUNNING, outlets=fragment.outlets, active=fragment.active)

    def end(self, slot: str, fragment: WantedFragment) -> None:
        drained = self.savepoints.may_begin(fragment) and self.savepoints.is_drained(fragment)
        if fragment.id in self.running and not drained:
            return
        self.running.pop(fragment.id, None)
        self.actual[slot][fragment.id] = Actual(fragment.id, State.STOPPED)
        self.maybe_die()
        if drained and self.disk.progress(fragment.id).is_done:
            self.savepoints.end(fragment)
            self.maybe_die()
        else:
            self.start(slot, fragment)

    def remove(self, slot: str, name: str) -> None:
        self.running.pop(name, None)
        fragment = self.disk.known(name) or self.desired.outgoing[name]
        taken = {one for other in (*self.desired.wanted.values(), *self.desired.outgoing.values()) if other.id != name
                 for one in other.written}
        self.savepoints.leave_channels(fragment, for_good=True)
        self.maybe_die()
        for channel in set(fragment.written) - taken:
            self.broker.pop(channel, None)
        self.disk.record_ended(name, None)
        self.actual[slot].pop(name, None)

    # -- a query's batch -----------------------------------------------------------------------------------------

    def batch(self, name: str) -> None:
        fragment, begun = self.running[name], self.disk.begun(name) or RestorePoint()
        done = self.disk.progress(name)
        if done.is_done:
            planned = self.plan(fragment, done, begun)
            if planned is None:
                return
            self.disk.before[name] = done
            self.disk.checkpoints[name] = done = planned
        self.maybe_die()
        states = {**self.first_states(fragment, begun), **self.disk.states.get(name, {})}
        events = self.events(fragment, self.disk.before[name], done, begun)
        base = done.batch + 1
        for position, task in enumerate(fragment.tasks):
            events = [(number, states.__setitem__(task.id, states.get(task.id, 0) + value) or states[task.id])
                      for number, value in events]
            channel = fragment.channel(position)
            if position in fragment.outlets or channel == OUT:
                self.write(channel, f"{begun.batch_bases.get(channel, 0) + base}-0", events)
                self.maybe_die()
        self.disk.states[name] = states
        self.disk.checkpoints[name] = replace(done, is_done=True)
        self.maybe_die()
        for channel, place in done.offsets.items():
            if name in self.broker[channel].readers:
                self.broker[channel].readers[name] = place
                self.broker[channel].trim()

    def first_states(self, fragment: WantedFragment, begun: RestorePoint) -> dict[str, int]:
        return {task: int(kept[0]) for task, kept in begun.states.items() if kept[0] is not None}

    def plan(self, fragment: WantedFragment, done: Progress, begun: RestorePoint) -> Progress | None:
        if not fragment.inputs:
            first = (done.source_offset or begun.source_offset or {"t0": 0, "next": 0})["next"]
            return Progress(done.batch + 1, False, {"t0": 0, "next": first + self.chance.randint(1, 3)})
        [item] = fragment.inputs
        channel = self.broker[item.channel]
        place = done.offsets.get(item.channel) or channel.readers[fragment.id]
        assert offset_order(place) >= offset_order(channel.trimmed), "what it has not read was freed"
        later = [entry for entry, _ in channel.entries if offset_order(entry) > offset_order(place)]
        if not later:
            return None
        return Progress(done.batch + 1, False, None, {item.channel: later[: self.chance.randint(1, 2)][-1]})

    def events(self, fragment: WantedFragment, before: Progress, done: Progress, begun: RestorePoint) -> list:
        if not fragment.inputs:
            first = (before.source_offset or begun.source_offset or {"t0": 0, "next": 0})["next"]
            return [(number, number) for number in range(first, done.source_offset["next"])]
        [item] = fragment.inputs
        channel = self.broker[item.channel]
        place = before.offsets.get(item.channel) or channel.readers[fragment.id]
        assert offset_order(place) >= offset_order(channel.trimmed), "what it repeats was freed"
        end = offset_order(done.offsets[item.channel])
        taken = [events for entry, events in channel.entries if offset_order(place) < offset_order(entry) <= end]
        return [event for events in taken for event in events]

    def write(self, name: str, entry: str, events: list) -> None:
        channel = self.broker[name]
        if offset_order(entry) <= offset_order(channel.last):
            kept = dict(channel.entries)
            assert entry not in kept or kept[entry] == events, "a repetition differs"
            return
        channel.entries.append((entry, events))
        channel.last = entry
        if name != OUT:
            channel.trim()

    # -- plans ---------------------------------------------------------------------------------------------------

    def estate(self, generation: int, cuts: list[int], slots: list[int], before: list[Fragment]) -> Estate:
        """The chain, cut after these tasks; a watcher reads the second task's stream all along."""
        bounds = [0, *cuts, LENGTH]
        ids = [f"f{generation}-{n}" for n in range(len(bounds) - 1)]
        # A plan may name only those that its tasks come from, or also those before them that may still be ending.
        own_only = self.chance.random() < 0.5
        watched = next((one.channel_of("t1") for one in before if "t1" in one.tasks), None)
        fragments = []
        for n, name in enumerate(ids):
            tasks = tuple(f"t{task}" for task in range(bounds[n], bounds[n + 1]))
            readers = {tasks[-1]: (ids[n + 1],)} if n + 1 < len(ids) else {}
            if "t1" in tasks:
                readers["t1"] = ("watch", *readers.get("t1", ()))
            sources = [one for one in before if not own_only or set(one.tasks) & set(tasks)]
            lines = ((one.id,) if own_only else (*one.inherits, one.id) for one in sources)
            inherits = tuple(dict.fromkeys(name for line in lines for name in line))
            channels = {f"t{LENGTH - 1}": OUT} if f"t{LENGTH - 1}" in tasks else {}
            if "t1" in tasks:
                channels["t1"] = watched or channel_id(name, tasks.index("t1"))
            fragments.append(Fragment(
                name, tasks, f"n/{slots[n % len(slots)]}", len(tasks), readers, channels=channels, inherits=inherits))
        watch = Fragment("watch", ("w",), "n/1", 1)
        return Estate(
            generation, {**TASKS, "w": WATCHER}, fragments={one.id: one for one in (*fragments, watch)},
            slots=(Slot("n", 0), Slot("n", 1)))
