"""Batches of a task that is divided by key, of its writer and of its reader: generators that stop before each change.

Channels, ranges and routes are the real ones, on a broker in memory.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

import redis

from scheduler.contracts.offsets import Offset
from scheduler.contracts.savepoints import Savepoint
from scheduler.model.dataflow import Task
from scheduler.model.ring import Ring, key_group
from workers.engine.channels import keys, scripts
from workers.engine.channels.batch_ranges import entries_of, place_of
from workers.engine.channels.channel_registry import Channels
from workers.engine.channels.control import begin_batch, changes_of

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
    noted: dict[str, Offset] = field(default_factory=dict)  # ends of channels that come before others
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
    leaves_control_to_who_stood_by: bool = True


class DividedTask:
    """Its queries, and what each does in a batch."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.broker = PlayedRedis()
        self.channels = Channels(self.broker)
        self.runs: dict[str, Run] = {}
        self.lines = {"S": ["S"], "R": ["R"]}  # the fragments of each query, one after the other

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

    def _registered(self, run: Run, channel: str) -> Offset | None:
        place = self.broker.hget(keys.readers(channel), run.id)
        return Offset(place.decode()) if place else None

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
            ends = scripts.run(self.broker, "range", [keys.ranges(run.id)], [
                run.id, text(run.places), "" if end is None else text(end)])
        except redis.ResponseError as error:
            if "goes on with it" in str(error):
                raise Fenced(run.query) from error
            raise Wrong(str(error)) from error
        return {name: Offset(f"{block}-{number}") for name, (block, number) in entries_of(
            ends.decode()).items()} if ends else None

    def _planned(self, run: Run) -> dict[str, Offset] | None:
        """Where the next batch ends, by what is recorded, or what is there; None where there is nothing."""
        for channel, place in run.places.items():
            if channel in self.reads(run.query):
                self.channels.commit(channel, run.id, place)
        if run.places and (recorded := self._range(run, None)) is not None:
            return recorded
        for channel in set(run.places) - set(run.reads) - set(run.begun.offsets):
            info = self.channels.info(channel)
            if info is not None and run.places[channel] < info.last:
                raise Wrong(f"{channel} is left out before its end")
        end, has_any = {}, False
        wanted = {*self.reads(run.query), *run.places}  # one that went before it was read at all fails it, once
        run.reads = tuple(channel for channel in run.reads if channel in wanted)
        for channel in run.reads:
            place = run.places.get(channel) or self._registered(run, channel)
            if place is None:
                raise Wrong(f"{run.id} has no place in {channel}")
            blocks = self._blocks(channel, place)[:self.chance.randint(0, 5)]
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
            if place is None and channel not in self.reads(run.query):
                continue  # nothing was left there when it went
            if place is None:
                raise Wrong(f"{run.id} has no place in {channel}")
            if place < last:
                events += [event for entry, block in self._blocks(channel, place) if entry <= last for event in block]
        counts, made = dict(run.counts), []
        for key, number in events:
            counts[key] = counts.get(key, 0) + number
            made.append((key, number if run.query == "S" else counts[key]))
        for channel, given in self._divided(run, state, made).items():
            for number in range(0, len(given), 2):
                yield
                self._write(channel, run.fence, (run.base + run.batches + 1, number // 2), given[number:number + 2])
        yield
        run.batches, run.places, run.counts = run.batches + 1, end, counts

    def _divided(self, run: Run, state: dict[str, str], made: list) -> dict[str, list]:
        """By channel: the events that a batch writes there, by the change of its route that is in force."""
        if run.query != "S":
            return {f"{run.query}.0": made}
        begun = [change for change in changes_of(state)[0, "F"]
                 if change.from_batch is not None and change.from_batch <= run.batches]
        if not begun:
            return {}  # nobody reads it whole
        ring = begun[-1].partitioning
        parts: dict[str, list] = defaultdict(list)
        for event in made:
            parts[ring.owner(key_group(event[0]))].append(event)
        return dict(sorted(parts.items()))


def alone() -> dict[str, list[int]]:
    """What counts of counts give of the events by key, where nobody disturbs them."""
    given: dict[str, list[int]] = defaultdict(list)
    sums, totals = Counter[str](), Counter[str]()
    for key, number in EVENTS:
        sums[key] += number
        totals[key] += sums[key]
        given[key].append(totals[key])
    return dict(given)
