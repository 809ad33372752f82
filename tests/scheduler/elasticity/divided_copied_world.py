"""A played world of a task that is divided by key: its writer, its bundles, and who reads them are copied.

Machines die, fall silent and come back at any step, while keys change hands. Channels, ranges, routes and the take-over
are the real ones, on a broker in memory; what a batch does is played: a generator that stops before each change.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace
from random import Random
from types import SimpleNamespace

from scheduler.contracts.copy_reports import COPY_REPORTS, copies_told
from scheduler.contracts.desired import DesiredState, Input, WantedFragment
from scheduler.contracts.offsets import START, Offset
from scheduler.contracts.savepoints import SAVEPOINTS, Savepoint
from scheduler.elasticity.query_copies import BatchCopy, CopiedPlaces, copied_places
from scheduler.model.ring import KEY_GROUPS, Ring, key_group
from workers.engine.agents.reconciling.broker_actuator import BrokerActuator
from workers.engine.agents.reconciling.broker_instructions import ForgetFragment
from workers.engine.agents.reconciling.query_start import stand_down
from workers.engine.agents.reconciling.reconcile import Actual, FragmentState
from workers.engine.agents.reconciling.snapshot import Records, Snapshot
from workers.engine.agents.reconciling.state_copies import report_of
from workers.engine.agents.transport.copy_takeover import HELD, RECEIVED, go_on_from_copy
from workers.engine.channels import keys
from workers.engine.channels.batch_ranges import begin_ranges, free_to, keep_inputs, kept_from, place_of
from workers.engine.channels.channel_info import texts
from workers.engine.channels.control import forget_before, routes_of, without_boundary

from .copied_world import Fenced, Wrong, copy_to_go_on_with
from .divided_batches import EVENTS, NODES, TASK, Change, Disk, DividedTask, Faults, Run


class DividedWorld(DividedTask):
    """One writer, bundles, and a reader of all of them, which adds up what they counted."""

    def __init__(self, chance: Random, *, copies: int, faults: Faults | None = None) -> None:
        super().__init__(chance)
        self.copies, self.faults = copies, faults or Faults()
        self.disks, self.living = {node: Disk() for node in NODES}, set(NODES)
        self.gone: set[str] = set()
        self.coming: list[tuple[str, str, Savepoint]] = []  # copies under way: to which node, of which fragment
        self.overtaken: list[Run] = []
        self.change: Change | None = None
        self.after: dict[str, tuple[str, ...]] = {}  # by channel: whose keys it goes on with
        self.leaving: set[str] = set()
        self.ring = Ring(("k",), {0: "A", KEY_GROUPS // 2: "B"})
        self.taken_over = self.changed = 0
        for channel in ("in", "S.0", "R.0"):
            self.channels.open_channel(channel, schema_json="{}", retain=10**6 if channel == "R.0" else 0)
        self.channels.join("in", "S", where=START)
        for number, event in enumerate(EVENTS):
            self._write("in", 0, (number + 1, 0), [event])
        for query, node, reads in (("S", "n1", ("in",)), ("R", "n2", ("A.0", "B.0"))):
            self.runs[query] = Run(query, query, node, self.channels.take_fence(f"{query}.0"), reads=reads)
        for query, node in (("A", "n1"), ("B", "n2")):
            self._open(query, node, {})
        self.channels.route("S", 0, "F", self.ring, channel="S.0", from_batch=0)

    # What the protocol decides, by the functions under test.

    def stand(self, run: Run) -> CopiedPlaces:
        reports = copies_told(texts(self.broker.hgetall(keys.copies(run.id))))
        copies = [BatchCopy(node, report.batch, report.places) for node, report in reports.items()]
        places = {channel: _entry(offset) for channel, offset in run.places.items()}
        return copied_places(
            BatchCopy(run.node, run.base + run.batches, places), copies, self.living,
            kept_from=kept_from(self.broker, run.id))

    def may_lose(self, nodes: set[str]) -> bool:
        """Whether these machines may be lost at once, as it is told."""
        in_change = {self.change.giver, self.change.heir} if self.change else set()
        return all(
            run.query not in in_change and run.node in self.living and self.stand(run).survives >= len(nodes)
            for run in self.runs.values() if run.node in nodes)

    def begin_copies(self, run: Run) -> None:
        """Begin a copy of what a run has at nodes that hold one, or are to; between two batches."""
        if not run.rests or not run.batches or run in self.overtaken:
            return
        saved = Savepoint(
            offsets=dict(run.places), batch_bases={f"{run.query}.0": run.base + run.batches},
            states={"t": [json.dumps(run.counts)]}, repeats=run.batches)
        unread = {name: self._registered(run, name) for name in run.reads if name not in run.places}
        begin_ranges(self.broker, self.channels, run.id, place_of(saved), {**saved.offsets, **unread})
        held = [node for node in sorted(self.living) if self.broker.hexists(keys.copies(run.id), node)]
        others = [*held, *sorted(self.living - {run.node, *held})]
        self.coming += [(node, run.id, saved) for node in others[:self.copies] if node != run.node]

    def finish_copy(self) -> None:
        """One copy that is under way has come."""
        arriving = [coming for coming in self.coming if coming[0] in self.living]
        if not arriving:
            return
        node, fragment, saved = coming = self.chance.choice(arriving)
        self.coming.remove(coming)
        report, name = report_of(saved, at_ms=0), keys.copy_name(fragment, node)
        before = copies_told(texts(self.broker.hgetall(keys.copies(fragment)))).get(node)
        is_over = self.broker.hget(keys.ranges(fragment), "owner") not in (None, fragment.encode())
        if not is_over and (before is None or before.batch < report.batch):
            self.disks[node].write(name, HELD, SAVEPOINTS.dumps(saved).encode())
            self.broker.hset(keys.copies(fragment), node, COPY_REPORTS.dumps(report))

    def free(self, run: Run) -> None:
        """Free what no copy of the query needs any more, as ``QueryCopies`` does."""
        stand = self.stand(run)
        if stand.survives and run in self.runs.values():
            free_to(self.broker, self.channels, run.id, stand.freed_to, kept_from=stand.kept_from, needed=stand.needed)
            forget_before(self.broker, run.id, stand.kept_from - run.base)
            for channel in {*self.reads(run.query), *run.reads} - {*stand.needed, *run.reads}:
                self.channels.unregister(channel, keys.copies_reader(run.id))

    def take_over(self, query: str) -> None:
        """Go on with a query whose node does not answer, at a holder; not while its own keys are on their way."""
        before = self.runs[query]
        if before.node in self.living or (self.change and query in (self.change.giver, self.change.heir)):
            return
        reports = copies_told(texts(self.broker.hgetall(keys.copies(before.id))))
        copy = copy_to_go_on_with(
            [BatchCopy(node, report.batch, report.places) for node, report in reports.items()], self.living,
            kept_from=kept_from(self.broker, before.id))
        if copy is None:
            raise Wrong(f"the state of {query} is lost")
        heir = WantedFragment(
            f"{query}-{len(self.lines[query])}", TASK, tuple(Input(name, "s") for name in self.reads(query)),
            inherits=(before.id,), origin=before.node, channels={0: f"{query}.0"})
        if not self.faults.takes_places_in_unread_channels:
            for channel in self.reads(query):
                if not self.broker.hexists(keys.readers(channel), keys.copies_reader(before.id)):
                    self.channels.unregister(channel, before.id)
        if not go_on_from_copy(self.broker, self.disks[copy.holder], before.id, heir, node=copy.holder):
            raise Wrong(f"{query} cannot go on")
        if self.chance.random() < 0.5:
            self._stand_down(heir)
        saved = SAVEPOINTS.loads(self.disks[copy.holder].read(heir.id, RECEIVED))
        if not before.is_dead:
            self.overtaken.append(before)
        self.lines[query].append(heir.id)
        run = self.runs[query] = Run(
            query, heir.id, copy.holder, self.channels.take_fence(f"{query}.0"), base=copy.batch,
            places=dict(saved.offsets), counts=json.loads(saved.states["t"][0]), recorded=saved.recorded, begun=saved)
        self.taken_over += 1
        self._register(run)
        run.reads = self._readable(run, saved.reads if self.faults.reads_what_was_read else ())
        if not self.faults.begins_where_the_copy_ends:
            run.places |= {name: run.places.get(name) or self._registered(run, name) for name in run.reads}
        if query == "S":
            self._go_on_dividing(run)

    def _stand_down(self, heir: WantedFragment) -> None:
        """It stood by when it took over, and is started anew, for its first batch is to be another one's."""
        around = SimpleNamespace(broker=self.broker, channels=self.channels)
        actuator = BrokerActuator(around, clock_ms=lambda: 0, on_event=print)
        stood_by = Snapshot(
            now_ms=0, actual=Actual(heir.id, FragmentState.WAITING), task_types={}, running=heir, standby=heir,
            desired=DesiredState(), records=Records(standby=()))
        for step in stand_down(stood_by):
            if isinstance(step, ForgetFragment):
                actuator.do(SimpleNamespace(id=heir.id), replace(
                    step, stood_by=step.stood_by and self.faults.leaves_control_to_who_stood_by))

    def _go_on_dividing(self, run: Run) -> None:
        control = self.channels.control(run.id)
        if not self.faults.carries_routes:
            self.broker.hdel(keys.valve(run.id), *[name for name in control if ":route:" in name])
        if not self.faults.sets_open_boundaries:
            before = self.channels.control(self.lines["S"][-2])
            opened = [name for name in without_boundary(before) if name in control]
            self.broker.hdel(keys.valve(run.id), *opened)
        if (0, "F") not in routes_of(self.channels.control(run.id)):
            self.channels.route(run.id, 0, "F", self.ring, channel="S.0", from_batch=run.recorded)

    # Inputs that come and go.

    def _register(self, run: Run) -> None:
        """Writers see to it that a reader has its place in their channels, once none before it has one."""
        for channel in self.reads(run.query):
            self.channels.join(channel, run.id, predecessors=self.lines[run.query][:-1])

    def _readable(self, run: Run, read: tuple[str, ...]) -> tuple[str, ...]:
        """The channels that a query can read now: one that comes after another once that is read so far."""
        readable = []
        for channel in self.reads(run.query):
            is_new, befores = channel not in {*run.places, *read}, set(self.after.get(channel, ()))
            if is_new and any(self._is_unread(run, before, channel) for before in befores & {*self.reads(run.query)}):
                continue
            if self._registered(run, channel) is not None:
                readable.append(channel)
        return tuple(readable)

    def _is_unread(self, run: Run, before: str, channel: str) -> bool:
        """Whether something is left in a channel of what was there when one that comes after it was seen first."""
        end = run.noted.setdefault(f"{before} {channel}", self.channels.info(before).last)
        return (run.places.get(before) or self._registered(run, before) or START) < end

    def restart(self, run: Run) -> None:
        """Read other channels from the next batch on, where there are others."""
        if not run.rests or run.repeats or run in self.overtaken:
            return
        self._register(run)
        reads = self._readable(run, ())
        if not reads or reads == run.reads:
            return
        for channel in set(run.places) - set(reads):
            info = self.channels.info(channel)
            if info is not None and run.places[channel] < info.last:
                return
        new = {channel: self._registered(run, channel) for channel in reads if channel not in run.places}
        if self.faults.keeps_channels_before_they_are_read and self.broker.exists(keys.ranges(run.id)):
            keep_inputs(self.channels, run.id, new)
        run.reads = reads

    # Keys change hands.

    def change_hands(self) -> None:
        """One step of it, whatever that is; a bundle that comes begins on the node of the one that gives."""
        writer = self.runs["S"]
        if self.change is None:
            self._begin_change()
        elif not self.change.is_asked:
            if writer.node in self.living and (
                    not writer.repeats or not self.faults.divides_as_before_while_it_repeats):
                self.channels.route(writer.id, 0, "F", self.ring, channel="S.0")
                self.change.is_asked = True
        else:
            self._give()

    def _begin_change(self) -> None:
        if len(self.lines) > 9 or self.leaving or any(run.node not in self.living for run in self.runs.values()):
            return
        giver = self.chance.choice(sorted(set(self.ring.served)))
        self.changed += 1
        heir = f"C{self.changed}"
        piece = self.chance.choice([piece for piece in self.ring.ranges if piece.bundle == giver])
        tokens = dict(self.ring.tokens)
        if self.chance.random() < 0.5:
            tokens = {token: heir if bundle == giver else bundle for token, bundle in tokens.items()}
        else:
            tokens[piece.token + piece.size // 2] = heir
        self.ring = Ring(("k",), tokens, leaving=() if giver in tokens.values() else (giver,))
        self.change = Change(giver, heir, self.ring)
        self.channels.open_channel(keys.part("S.0", heir), schema_json="{}")
        self.channels.join(keys.part("S.0", heir), heir)

    def _give(self) -> None:
        change, writer = self.change, self.runs["S"]
        giver = self.runs[change.giver]
        if giver.node not in self.living or writer.node not in self.living:
            return
        part = keys.part("S.0", change.giver)
        route = routes_of(self.channels.control(writer.id))[0, "F"]
        if change.end is None:
            if route.effective and route.partitioning == self.ring:
                change.end = self.channels.info(part).last
            elif writer.rests and not writer.repeats and route.partitioning == self.ring:
                self.channels.activate(writer.id, done_batch=writer.batches - 1)
            return
        if not giver.rests or (giver.places.get(part) or START) < change.end:
            return
        taken = {key: count for key, count in giver.counts.items()
                 if self.ring.owner(key_group(key)) == change.heir}
        self.lines[change.heir] = [change.heir]
        self._open(change.heir, giver.node, taken)
        self.after[f"{change.heir}.0"] = (f"{change.giver}.0", *self.after.get(f"{change.giver}.0", ()))
        if self.ring.leaving:
            self.leaving.add(change.giver)
        self.change = None

    def retire(self) -> None:
        """A bundle that has left is dropped once all that it wrote is read, by copies, too."""
        for name in sorted(self.leaving):
            info = self.channels.info(f"{name}.0")
            run = self.runs.get(name)
            if run is not None and run.node in self.living and run.rests:
                self.runs.pop(name)
            if run is None and all(place >= info.last for place in info.readers.values()):
                self.leaving.discard(name)
                self.lines.pop(name)
                self.channels.delete_channel(f"{name}.0")

    # What happens.

    def step(self, run: Run) -> None:
        """One change of a run's batch; one that finds itself overtaken ends."""
        try:
            if next(run.steps, self) is self:
                run.rests, run.steps = True, self._batch(run)
        except Fenced:
            self.overtaken.remove(run)

    def kill(self, node: str) -> None:
        """A machine is gone, and its disk with it."""
        self.living.discard(node)
        self.gone.add(node)
        self.disks[node] = Disk()
        self.coming = [coming for coming in self.coming if coming[0] != node]
        self.overtaken = [run for run in self.overtaken if run.node != node]
        for run in self.runs.values():
            run.is_dead |= run.node == node

    def act(self) -> None:
        """Something by chance."""
        runs = [*(run for run in self.runs.values() if not run.is_dead), *self.overtaken]
        run = self.chance.choice(runs) if runs else None
        query = self.chance.choice(sorted(self.runs))
        weights = {"step": 70, "copy": 8, "finish": 14, "free": 8, "take over": 8, "kill": 2, "silent": 3, "back": 6,
                   "restart": 6, "hands": 8, "retire": 3}
        match self.chance.choices(list(weights), list(weights.values()))[0]:
            case "step" if run:
                self.step(run)
            case "copy" if run:
                self.begin_copies(run)
            case "finish":
                self.finish_copy()
            case "free" if self.runs[query].node in self.living:
                self.free(self.runs[query])
            case "take over":
                self.take_over(query)
            case "restart" if run and run.node in self.living:
                self.restart(run)
            case "hands":
                self.change_hands()
            case "retire":
                self.retire()
            case "kill" | "silent" as what if self.living:
                nodes = set(self.chance.sample(sorted(self.living), self.chance.randint(1, min(2, len(self.living)))))
                if len(self.living) > len(nodes) and self.may_lose(nodes):
                    for node in nodes:
                        self.kill(node) if what == "kill" else self.living.discard(node)
            case "back":
                self.living |= {self.chance.choice(NODES)} - self.gone

    def finish(self) -> dict[str, list[int]]:
        """Nothing dies any more: what the reader gave, by key."""
        self.living = set(NODES) - self.gone
        self.overtaken = []
        quiet = 0
        while quiet < 4:
            before = self._state()
            for query in list(self.runs):
                self.take_over(query)
                for _ in range(8):
                    self.step(self.runs[query])
                self.restart(self.runs[query])
            if self.change is not None:
                self.change_hands()
            quiet = quiet + 1 if self._state() == before else 0
        given: dict[str, list[int]] = defaultdict(list)
        for _, events in self._blocks("R.0", START):
            for key, number in events:
                given[key].append(number)
        return dict(given)

    def _state(self) -> list[tuple]:
        return [(str(self.change),), *((run.id, run.batches, run.rests, run.reads) for run in self.runs.values())]


def _entry(offset: Offset) -> tuple[int, int]:
    block, _, number = offset.partition("-")
    return int(block), int(number)
