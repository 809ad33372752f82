"""A played world of a task that is divided by key: its writer, its bundles, and who reads them are copied.

Machines die, fall silent and come back at any step, while keys change hands. Channels, ranges, routes and the take-over
are the real ones, on a broker in memory; what a batch does is played: a generator that stops before each change.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

import redis

from scheduler.contracts.copy_reports import COPY_REPORTS, copies_told
from scheduler.contracts.desired import Input, WantedFragment
from scheduler.contracts.offsets import START, Offset
from scheduler.contracts.savepoints import SAVEPOINTS, Savepoint
from scheduler.elasticity.query_copies import BatchCopy, CopiedPlaces, copied_places, copy_to_go_on_with
from scheduler.model.dataflow import Task
from scheduler.model.ring import KEY_GROUPS, Ring, key_group
from workers.engine.agents.state_copies import report_of
from workers.engine.agents.transport.copy_takeover import HELD, RECEIVED, go_on_from_copy
from workers.engine.channels import keys, scripts
from workers.engine.channels.batch_ranges import begin_ranges, entries_of, free_to, keep_inputs, kept_from, place_of
from workers.engine.channels.channel_info import texts
from workers.engine.channels.channel_registry import Channels
from workers.engine.channels.control import begin_batch, changes_of, forget_before, routes_of, without_boundary

from ...engine.channels.played_redis import PlayedRedis
from .copied_world import Fenced, Wrong

NODES = ("n1", "n2", "n3", "n4")
KEYS = tuple(f"s{number}" for number in range(6))
EVENTS = tuple((KEYS[number * 5 % 7 % 6], number) for number in range(60))
TASK = (Task("t", "t"),)


class Disk:
    """Files of one machine, as far as a take-over asks for them."""

    def __init__(self) -> None:
        self.files: dict[tuple[str, str], bytes] = {}

    def size(self, name: str, kind: str) -> int | None:
        return len(self.files[name, kind]) if (name, kind) in self.files else None

    def read(self, name: str, kind: str) -> bytes:
        return self.files[name, kind]

    def write(self, name: str, kind: str, text: bytes) -> None:
        self.files[name, kind] = text

    def rename(self, name: str, kind: str, to: str) -> None:
        self.files[name, to] = self.files.pop((name, kind))


@dataclass
class Run:
    """A query at work on a node: what is on that machine's disk. Its batches are counted from its beginning."""

    query: str
    id: str
    node: str
    fence: int
    base: int = 0  # batches of those before it
    batches: int = 0
    places: dict[str, Offset] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    recorded: int = 0
    begun: Savepoint = field(default_factory=Savepoint)
    reads: tuple[str, ...] = ()
    noted: dict[str, Offset] = field(default_factory=dict)  # by channel that came: where that ended which is before it
    steps: Iterator[None] = field(default_factory=lambda: iter(()))
    rests: bool = True
    is_dead: bool = False

    @property
    def repeats(self) -> bool:
        return self.batches < self.recorded


@dataclass
class Change:
    """Keys of a bundle change hands: to a bundle that comes, which has some of them, or all."""

    giver: str
    heir: str
    ring: Ring
    is_asked: bool = False
    end: Offset | None = None  # of what the giver has still to read


@dataclass(frozen=True)
class Faults:
    """What may be taken out of the protocol, to see that the world finds it."""

    carries_routes: bool = True
    sets_open_boundaries: bool = True
    divides_as_before_while_it_repeats: bool = True
    keeps_channels_before_they_are_read: bool = True
    takes_places_in_unread_channels: bool = True
    begins_where_the_copy_ends: bool = True
    reads_what_was_read: bool = True
    refuses_copies_of_freed_batches: bool = True


class DividedWorld:
    """One writer, bundles, and a reader of all of them, which adds up what they counted."""

    def __init__(self, chance: Random, *, copies: int, faults: Faults | None = None) -> None:
        self.chance, self.copies, self.faults = chance, copies, faults or Faults()
        self.broker = PlayedRedis()
        self.channels = Channels(self.broker)
        self.disks, self.living = {node: Disk() for node in NODES}, set(NODES)
        self.gone: set[str] = set()
        self.coming: list[tuple[str, str, Savepoint]] = []  # copies under way: to which node, of which fragment
        self.runs: dict[str, Run] = {}
        self.overtaken: list[Run] = []
        self.change: Change | None = None
        self.after: dict[str, str] = {}  # by channel: whose keys it goes on with
        self.leaving: set[str] = set()
        self.ring = Ring(("k",), {0: "A", KEY_GROUPS // 2: "B"})
        self.lines = {"S": ["S"], "R": ["R"]}  # the fragments of each query, one after the other
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

    # What is wanted of each query.

    def reads(self, query: str) -> tuple[str, ...]:
        """The channels that a query is to read, as its node knows."""
        if query == "R":
            return tuple(f"{name}.0" for name in self.bundles)
        return ("in",) if query == "S" else (keys.part("S.0", query),)

    @property
    def bundles(self) -> list[str]:
        return [name for name in self.lines if name not in "SR"]

    def _open(self, query: str, node: str, counts: dict[str, int]) -> None:
        """A bundle begins: its part and its channel are open, with their readers, before anything is written there."""
        self.lines[query] = [query]
        for channel, reader in ((keys.part("S.0", query), query), (f"{query}.0", self.runs["R"].id)):
            self.channels.open_channel(channel, schema_json="{}")
            self.channels.join(channel, reader)
        self.runs[query] = Run(
            query, query, node, self.channels.take_fence(f"{query}.0"), counts=counts, reads=self.reads(query))

    # What the protocol decides, by the functions under test.

    def stand(self, run: Run) -> CopiedPlaces:
        reports = copies_told(texts(self.broker.hgetall(keys.copies(run.id))))
        copies = [BatchCopy(node, report.batch, report.places) for node, report in reports.items()]
        places = {channel: _entry(offset) for channel, offset in run.places.items()}
        return copied_places(
            BatchCopy(run.node, run.base + run.batches, places), copies, self.living, kept_from=self._kept_from(run.id))

    def _kept_from(self, fragment: str) -> int:
        return kept_from(self.broker, fragment) if self.faults.refuses_copies_of_freed_batches else 0

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
        there = [each for each in self.coming if each[0] in self.living]
        if not there:
            return
        node, fragment, saved = each = self.chance.choice(there)
        self.coming.remove(each)
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
            kept_from=self._kept_from(before.id))
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

    def _go_on_dividing(self, run: Run) -> None:
        control = self.channels.control(run.id)
        if not self.faults.carries_routes:
            self.broker.hdel(keys.valve(run.id), *[name for name in control if ":route:" in name])
        if not self.faults.sets_open_boundaries:
            before = self.channels.control(self.lines["S"][-2])
            opened = [name for name in without_boundary(before) if name in control]
            self.broker.hdel(keys.valve(run.id), *opened)
        if (0, "F") not in routes_of(self.channels.control(run.id)):
            self.channels.route(run.id, 0, "F", self.ring, channel="S.0", from_batch=0)

    # Inputs that come and go.

    def _registered(self, run: Run, channel: str) -> Offset | None:
        place = self.broker.hget(keys.readers(channel), run.id)
        return Offset(place.decode()) if place else None

    def _register(self, run: Run) -> None:
        """Writers see to it that a reader has its place in their channels, once none before it has one."""
        for channel in self.reads(run.query):
            self.channels.join(channel, run.id, predecessors=self.lines[run.query][:-1])

    def _readable(self, run: Run, read: tuple[str, ...]) -> tuple[str, ...]:
        """The channels that a query can read now: one that comes after another once that is read so far."""
        readable = []
        for channel in self.reads(run.query):
            before = self.after.get(channel)
            if channel not in {*run.places, *read} and before in self.reads(run.query):
                info = self.channels.info(before)
                end = run.noted.setdefault(channel, info.last)
                if (run.places.get(before) or self._registered(run, before) or START) < end:
                    continue
            if self._registered(run, channel) is not None:
                readable.append(channel)
        return tuple(readable)

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
        own = self.chance.choice([each for each in self.ring.ranges if each.bundle == giver])
        tokens = dict(self.ring.tokens)
        if self.chance.random() < 0.5:
            tokens = {token: heir if bundle == giver else bundle for token, bundle in tokens.items()}
        else:
            tokens[own.token + own.size // 2] = heir
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
        self.after[f"{change.heir}.0"] = f"{change.giver}.0"
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
        self.coming = [each for each in self.coming if each[0] != node]
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
        for _ in range(400):
            for query in list(self.runs):
                self.take_over(query)
                for _ in range(6):
                    self.step(self.runs[query])
                if self.runs[query].rests:
                    self.restart(self.runs[query])
            if self.change is not None:
                self.change_hands()
        given: dict[str, list[int]] = defaultdict(list)
        for _, events in self._blocks("R.0", START):
            for key, number in events:
                given[key].append(number)
        return dict(given)

    # A batch.

    def _blocks(self, channel: str, after: Offset) -> list[tuple[Offset, list]]:
        trimmed = self.broker.hget(keys.meta(channel), "trimmed")
        if trimmed and after < Offset(trimmed.decode()):
            raise Wrong(f"what comes after {after} in {channel} is freed up to {trimmed.decode()}")
        return [(block.offset, json.loads(block.payload)) for block in self.channels.entries(
            channel, after=after, count=10_000)]

    def _write(self, channel: str, fence: int, entry: tuple[int, int], events: list) -> None:
        whole = keys.whole_of(channel) if keys.is_part(channel) else channel
        try:
            scripts.run(
                self.broker, "write",
                [keys.channel(channel), keys.meta(channel), keys.readers(channel), keys.meta(whole)],
                [fence, entry[0], entry[1], len(events), json.dumps(events), 0, 0])
        except redis.ResponseError as error:
            if "WEIRFENCED" in str(error):
                raise Fenced(channel) from error
            raise Wrong(str(error)) from error

    def _range(self, run: Run, end: dict[str, Offset] | None) -> dict[str, Offset] | None:
        def text(places: dict[str, Offset]) -> str:
            return place_of(Savepoint(offsets=places))

        try:
            known = scripts.run(self.broker, "range", [keys.ranges(run.id)], [
                run.id, text(run.places), "" if end is None else text(end)])
        except redis.ResponseError as error:
            if "goes on with it" in str(error):
                raise Fenced(run.query) from error
            raise Wrong(str(error)) from error
        return {name: Offset(f"{block}-{number}") for name, (block, number) in entries_of(
            known.decode()).items()} if known else None

    def _planned(self, run: Run) -> dict[str, Offset] | None:
        """Where the next batch ends, by what is recorded, or what is there; None where there is nothing."""
        for channel, place in run.places.items():
            if channel in self.reads(run.query):
                self.channels.commit(channel, run.id, place)
        if run.places and (known := self._range(run, None)) is not None:
            return known
        for channel in set(run.places) - set(run.reads) - set(run.begun.offsets):
            info = self.channels.info(channel)
            if info is not None and run.places[channel] < info.last:
                raise Wrong(f"{channel} is left out before its end")
        end, has_any = {}, False
        for channel in run.reads:
            place = run.places.get(channel) or self._registered(run, channel)
            if place is None:
                raise Wrong(f"{run.id} has no place in {channel}")
            blocks = self._blocks(channel, place)[:self.chance.randint(0, 4)]
            end[channel], has_any = blocks[-1][0] if blocks else place, has_any or bool(blocks)
        return end if has_any else None

    def _batch(self, run: Run) -> Iterator[None]:
        """A batch: it is planned, its range is noted before anything of it is published, and it is done."""
        end = self._planned(run)
        if end is None:
            return
        run.rests = False
        yield
        if run.places:
            end = self._range(run, end) or end
        state = {name.decode(): text.decode() for name, text in self.broker.hgetall(keys.valve(run.id)).items()}
        if run.query == "S":
            state = begin_batch(self.broker, run.id, run.batches)
        events = []
        for channel, last in sorted(end.items()):
            place = run.places.get(channel) or self._registered(run, channel)
            if place is None:
                raise Wrong(f"{run.id} has no place in {channel}")
            if place < last:
                events += [event for entry, block in self._blocks(channel, place) if entry <= last for event in block]
        counts, made = dict(run.counts), []
        for key, number in events:
            counts[key] = counts.get(key, 0) + number
            made.append((key, number if run.query == "S" else counts[key]))
        for channel, own in self._divided(run, state, made).items():
            for number in range(0, len(own), 2):
                yield
                self._write(channel, run.fence, (run.base + run.batches + 1, number // 2), own[number:number + 2])
        yield
        run.batches, run.places, run.counts = run.batches + 1, end, counts

    def _divided(self, run: Run, state: dict[str, str], made: list) -> dict[str, list]:
        """By channel: the events that a batch writes there, by the change of its route that is in force."""
        if run.query != "S":
            return {f"{run.query}.0": made}
        begun = [change for change in changes_of(state)[0, "F"]
                 if change.from_batch is not None and change.from_batch <= run.batches]
        ring = begun[-1].partitioning
        parts: dict[str, list] = defaultdict(list)
        for event in made:
            parts[ring.owner(key_group(event[0]))].append(event)
        return dict(sorted(parts.items()))


def _entry(offset: Offset) -> tuple[int, int]:
    block, _, number = offset.partition("-")
    return int(block), int(number)


def alone() -> dict[str, list[int]]:
    """What counts of counts give of the events by key, where nobody disturbs them."""
    given: dict[str, list[int]] = defaultdict(list)
    sums, totals = Counter[str](), Counter[str]()
    for key, number in EVENTS:
        sums[key] += number
        totals[key] += sums[key]
        given[key].append(totals[key])
    return dict(given)
