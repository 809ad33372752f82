"""A played world of queries whose state is copied to other nodes, and whose machines die, fall silent and come back.

Two queries in a row count by key; the second one reads another stream besides. A batch is a generator that stops before
each change, so a machine may go at any of them. Channels refuse what they have, as
``workers/engine/channels/lua/write.lua`` does. Ranges are recorded and taken over by the scripts that run on Spark.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from random import Random

import redis

from scheduler.contracts.offsets import Offset
from scheduler.contracts.savepoints import Savepoint
from scheduler.elasticity.query_copies import (
    BatchCopy,
    CopiedPlaces,
    CopiedQuery,
    Entry,
    HoldingNode,
    choose_holders,
    copied_places,
    counting_copies,
)
from workers.engine.channels import keys, scripts
from workers.engine.channels.batch_ranges import begin_ranges, entries_of, free_to, kept_from, place_of, take_ranges
from workers.engine.channels.channel_registry import Channels

from ...engine.channels.played_redis import PlayedRedis

Event = tuple[str, int]
NODES = {"n1": "a", "n2": "b", "n3": "a", "n4": "b", "n5": "c"}  # zones by name
EVENTS: tuple[Event, ...] = tuple(("abc"[n % 7 % 3], n) for n in range(40))
OTHERS: tuple[Event, ...] = tuple(("xy"[n % 3 % 2], n) for n in range(15))  # of the second stream
COUNT = "count"  # of all events that came to a query, in its state
MOST = 1_000  # of these
_BEGINNING: Entry = (0, 0)


def copy_to_go_on_with(copies: Collection[BatchCopy], living: Collection[str], *, kept_from: int) -> BatchCopy | None:
    """The newest copy that counts; None where the state is lost."""
    return next(iter(counting_copies(copies, living, kept_from=kept_from).values()), None)


def sums_by_key(events: Iterable[Event]) -> dict[str, list[int]]:
    """The sums of each key in their order, however streams came together."""
    sums: dict[str, list[int]] = {}
    for key, number in events:
        sums.setdefault(key, []).append(number // MOST)
    return sums


class Wrong(Exception):
    """Something came twice, was missing, or was lost against the promise."""


class Fenced(Exception):
    """Somebody else has gone on with this query."""


@dataclass
class Channel:
    """A stream of blocks by entry; all that was ever written stays in ``written``."""

    blocks: dict[Entry, tuple[Event, ...]] = field(default_factory=dict)
    last: Entry = _BEGINNING
    freed: Entry = _BEGINNING
    written: list[Event] = field(default_factory=list)

    def write(self, entry: Entry, block: tuple[Event, ...]) -> None:
        if entry <= self.last:
            if self.blocks.get(entry, block) != block:
                raise Wrong(f"{entry} is repeated with other events")
            return
        if entry[1] != (self.last[1] + 1 if entry[0] == self.last[0] else 0):
            raise Wrong(f"blocks before {entry} are missing")
        self.blocks[entry], self.last = block, entry
        self.written += block

    def free(self, entry: Entry) -> None:
        self.freed = max(self.freed, entry)
        self.blocks = {entry: block for entry, block in self.blocks.items() if entry > self.freed}

    def after(self, entry: Entry) -> list[Entry]:
        if entry < self.freed:
            raise Wrong(f"what comes after {entry} is freed up to {self.freed}")
        return sorted(entry_there for entry_there in self.blocks if entry_there > entry)


@dataclass
class Run:
    """A query at work on a node: what is on that machine's disk."""

    query: str
    node: str
    token: int
    batch: int
    place: Mapping[str, Entry]  # by channel
    counts: dict[str, int]
    steps: Iterator[None] = field(default_factory=lambda: iter(()))
    is_dead: bool = False  # its machine is gone, not merely silent

    @property
    def id(self) -> str:
        """The fragment: whoever goes on has another."""
        return f"{self.query}-{self.token}"


@dataclass(frozen=True)
class Faults:
    """What may be taken out of the protocol, to see that the world finds it."""

    records_ranges: bool = True
    takes_ranges: bool = True
    frees_behind_copies_only: bool = True
    counts_the_querys_own_place: bool = True
    leaves_out_copies_of_who_was_away: bool = True
    waits_until_copies_are_whole: bool = True


class CopiedWorld:
    """Nodes, the broker between them, and what the protocol does there.

    Parameters
    ----------
    copies : int
        r: nodes that are to hold each query's state.
    """

    inputs, outputs = {"f1": ("in",), "f2": ("f1.0", "other")}, {"f1": "f1.0", "f2": "f2.0"}

    def __init__(self, chance: Random, *, copies: int, faults: Faults | None = None) -> None:
        self.chance, self.copies, self.faults = chance, copies, faults or Faults()
        self.channels = {name: Channel() for name in ("in", "other", "f1.0", "f2.0")}
        for name, events in (("in", EVENTS), ("other", OTHERS)):
            for number, event in enumerate(events):
                self.channels[name].write((1, number), (event,))
        self.broker = PlayedRedis()
        self.registry = Channels(self.broker)
        self.tokens = dict.fromkeys(self.inputs, 1)
        self.living = set(NODES)
        self.disks: dict[str, dict[str, list[tuple[BatchCopy, dict[str, int]]]]] = {node: {} for node in NODES}
        self.runs = {
            query: Run(query, node, 1, 0, dict.fromkeys(self.inputs[query], _BEGINNING), {})
            for query, node in (("f1", "n1"), ("f2", "n2"))}
        for run in self.runs.values():
            begin_ranges(self.broker, self.registry, run.id, self._place(run), {})
        self.overtaken: list[Run] = []  # that do not know it yet
        self.fenced = 0  # how many have found it out

    # What the protocol decides, by the functions under test.

    def copies_of(self, query: str) -> list[BatchCopy]:
        return [copy for disk in self.disks.values() for copy, _ in disk.get(query, ())]

    def stand(self, query: str) -> CopiedPlaces:
        run = self.runs[query]
        query_copy = BatchCopy(run.node, run.batch, run.place)
        if not self.faults.counts_the_querys_own_place:
            query_copy = replace(query_copy, places=dict.fromkeys(run.place, (10**6, 0)))
        return copied_places(query_copy, self.copies_of(query), self.living, kept_from=self._kept_from(query))

    def survives(self) -> int:
        return min(self.stand(query).survives if self.runs[query].node in self.living else 0 for query in self.inputs)

    def begin_copies(self, run: Run) -> None:
        """Begin a copy of what a run has at each node that is to hold one."""
        held = tuple(node for node in sorted(self.living) if self.disks[node].get(run.query))
        nodes = {node: HoldingNode(NODES[node], 10**9) for node in self.living}
        chosen = choose_holders({run.query: CopiedQuery(run.node, 1, held)}, nodes, copies=self.copies)
        for node in chosen[run.query]:
            copy = BatchCopy(node, run.batch, run.place, is_whole=False)
            counts = dict(run.counts)
            if not self.faults.waits_until_copies_are_whole:
                copy, counts = replace(copy, is_whole=True), {}
            self.disks[node].setdefault(run.query, []).append((copy, counts))

    def finish_copy(self) -> None:
        """One copy that is under way has come, be it of a run that was overtaken: its batches are the same."""
        under_way = [(node, query, number) for node in sorted(self.living) for query, all_ in self.disks[node].items()
                     for number, (copy, _) in enumerate(all_) if not copy.is_whole]
        if not under_way:
            return
        node, query, number = self.chance.choice(under_way)
        copy, counts = self.disks[node][query].pop(number)
        # A newer whole copy takes an older one's place; never the other way round.
        staying = [held for held in self.disks[node][query] if not held[0].is_whole or held[0].batch > copy.batch]
        self.disks[node][query] = [*staying, (replace(copy, is_whole=True), counts)]

    def free(self, query: str) -> None:
        """Free what no copy of the query needs any more; ranges before that are forgotten."""
        stand, names = self.stand(query), self.inputs[query]
        places = stand.freed_to if self.faults.frees_behind_copies_only else self.runs[query].place
        for name in names:
            self.channels[name].free(places.get(name, _BEGINNING))
        free_to(
            self.broker, self.registry, self.runs[query].id, {name: self.channels[name].freed for name in names},
            kept_from=stand.kept_from, needed=set(names))

    def take_over(self, query: str) -> None:
        """Go on with a query whose node does not answer, at a holder."""
        before = self.runs[query]
        if before.node in self.living:
            return
        copy = copy_to_go_on_with(self.copies_of(query), self.living, kept_from=self._kept_from(query))
        if copy is None:
            raise Wrong(f"the state of {query} is lost")
        counts = next(dict(counts) for held, counts in self.disks[copy.holder][query] if held == copy)
        self.tokens[query] += 1
        if not before.is_dead:
            self.overtaken.append(before)
        run = self.runs[query] = Run(
            query, copy.holder, self.tokens[query], copy.batch, copy.places, counts)
        if self.faults.takes_ranges:
            assert take_ranges(self.broker, before.id, run.id)

    # What happens.

    def step(self, run: Run) -> None:
        """One change of a run's batch; one that finds itself overtaken ends."""
        try:
            if next(run.steps, self) is self:
                run.steps = self._batch(run)
        except Fenced:
            self.overtaken.remove(run)
            self.fenced += 1

    def kill(self, node: str) -> None:
        """A machine is gone, and its disk with it. An empty one of its name may come."""
        self.living.discard(node)
        self.disks[node] = {}
        self.overtaken = [run for run in self.overtaken if run.node != node]
        for run in self.runs.values():
            run.is_dead |= run.node == node

    def act(self) -> None:
        """Something by chance."""
        runs = [*(run for run in self.runs.values() if not run.is_dead), *self.overtaken]
        weights = {"step": 60, "copy": 6, "finish": 12, "free": 8, "take over": 6, "kill": 1, "silent": 1, "back": 3}
        match self.chance.choices(list(weights), list(weights.values()))[0]:
            case "step" if runs:
                self.step(self.chance.choice(runs))
            case "copy" if runs:
                self.begin_copies(self.chance.choice(runs))
            case "finish":
                self.finish_copy()
            case "free":
                self.free(self.chance.choice(sorted(self.inputs)))
            case "take over":
                self.take_over(self.chance.choice(sorted(self.inputs)))
            case "kill" if self.survives():
                for node in self.chance.sample(sorted(self.living), self.chance.randint(1, self.survives())):
                    self.kill(node)
            case "silent" if self.survives():
                self.living.discard(self.chance.choice(sorted(self.living)))
            case "back":
                self.living |= {self.chance.choice(sorted(NODES))} - self._lost_nodes()

    def finish(self) -> dict[str, list[int]]:
        """Nothing dies any more: all sums that the last query gave, by key."""
        self.living = set(NODES) - self._lost_nodes()
        for query in self.inputs:
            self.take_over(query)
        while any(self.channels[name].after(run.place[name])
                  for run in self.runs.values() for name in self.inputs[run.query]):
            for run in self.runs.values():
                self.step(run)
        return sums_by_key(self.channels["f2.0"].written)

    def _lost_nodes(self) -> set[str]:
        return {run.node for run in self.runs.values() if run.is_dead}

    def _kept_from(self, query: str) -> int:
        """The oldest batch whose copy counts."""
        oldest = kept_from(self.broker, self.runs[query].id)
        return oldest if self.faults.leaves_out_copies_of_who_was_away else 0

    @staticmethod
    def _place(run: Run, place: Mapping[str, Entry] | None = None) -> str:
        entries = run.place if place is None else place
        return place_of(Savepoint(offsets={
            name: Offset(f"{block}-{number}") for name, (block, number) in entries.items()}))

    def _recorded(self, run: Run, end: Mapping[str, Entry]) -> Mapping[str, Entry]:
        """Where the batch ends that begins at a run's place, in all of its streams: by who recorded that first."""
        try:
            text = scripts.run(
                self.broker, "range", [keys.ranges(run.id)], [run.id, self._place(run), self._place(run, end)])
        except redis.ResponseError as error:
            if "goes on with it" in str(error):
                raise Fenced(run.query) from error
            raise Wrong(str(error)) from error
        return entries_of(text.decode())

    def _is_overtaken(self, run: Run) -> bool:
        """Whether what comes next for a run is gone, for another has gone on with its query."""
        return run.token != self.tokens[run.query] and any(
            place < self.channels[name].freed for name, place in run.place.items())

    def _batch(self, run: Run) -> Iterator[None]:
        """A batch: it is planned, its range is noted before anything of it is published, and it is done."""
        if self._is_overtaken(run):
            raise Fenced(run.query)
        waiting = {name: self.channels[name].after(place) for name, place in run.place.items()}
        if not any(waiting.values()):
            return
        # Nothing of a stream is a part of a batch, too, where something of another one is.
        end = {name: self.chance.choice([run.place[name], *entries[:5]]) for name, entries in waiting.items()}
        yield
        if end == run.place:
            return
        if self.faults.records_ranges:
            end = self._recorded(run, end)
        if self._is_overtaken(run):
            raise Fenced(run.query)
        counts, made = dict(run.counts), list[Event]()
        for name, place in run.place.items():
            source = self.channels[name]
            for key, number in (event for entry in source.after(place) if entry <= end[name]
                                for event in source.blocks[entry]):
                counts[COUNT] = counts.get(COUNT, 0) + 1  # it says how streams came together
                counts[key] = counts.get(key, 0) + number
                made.append((key, counts[key] * MOST + counts[COUNT]))
        for number in range(0, len(made), 2):
            yield
            if run.token != self.tokens[run.query]:
                raise Fenced(run.query)
            self.channels[self.outputs[run.query]].write(
                (run.batch + 1, number // 2), tuple(made[number:number + 2]))
        yield
        run.batch, run.place, run.counts = run.batch + 1, end, counts
