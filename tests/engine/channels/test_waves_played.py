"""The rules of waves (docs/dynamic.md), played: random queries, batches, switches, kills and repetitions, no broker.

Each rule is shown to be needed: without it some history lets an event pass two elements in different waves.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

WORLDS = 60
STEPS = 250
ALTERNATES = "xyz"


@dataclass(frozen=True)
class Event:
    """An event: where it began, its number there, and which alternate did it at each element so far."""

    source: str
    number: int
    passed: tuple[tuple[str, str], ...] = ()


@dataclass
class Batch:
    """As the checkpoint has it: the range of each channel that it reads, or of a source its numbers."""

    number: int
    ends: dict[str, tuple[int, int]]


@dataclass
class Query:
    """One query: what it reads, its elements, its checkpoint; and what it forgets when it is killed."""

    name: str
    inputs: tuple[str, ...]
    elements: tuple[str, ...]
    every: int  # it gives one event for so many: the last of them
    planned: list[Batch] = field(default_factory=list)
    committed: int = 0  # batches
    notes: dict[int, int] = field(default_factory=dict)  # in the broker: from which batch on it is of which wave
    begun: int = -1  # in memory: the newest batch of this run
    recorded: int = 0  # batches that another query had planned, behind whose copy this one goes on
    state: dict[int, int] = field(default_factory=dict)  # how many events it has seen after each batch

    def noted(self, batch: int) -> int | None:
        noted = [first for first in self.notes if first <= batch]
        return self.notes[max(noted)] if noted else None


class World:
    """Queries in a random graph, each with a channel of its own; ``broken`` names a rule that does not hold."""

    def __init__(self, seed: int, broken: str = "") -> None:
        self.chance, self.broken = random.Random(seed), broken
        self.switches: dict[str, list[tuple[int, str]]] = {}
        self.newest: dict[str, int] = {}
        self.number = 0
        self.late: list[tuple[str, int, str]] = []  # what a broken publisher has still to write
        self.blocks: dict[str, list[tuple[int, list[Event]]]] = {}  # by channel: batch, events
        self.marks: dict[str, list[tuple[int, int]]] = {}  # by channel: from which batch on it is of which wave
        self.queries: dict[str, Query] = {}
        self.born: dict[tuple[str, int], int] = {}  # the wave in which an event left its source: the reference
        names: list[str] = []
        sources = self.chance.randint(1, 3)
        for number in range(sources + self.chance.randint(1, 5)):
            is_source = number < sources
            inputs = () if is_source else tuple(self.chance.sample(names, self.chance.randint(1, min(3, len(names)))))
            elements = tuple(f"e{number}.{place}" for place in range(self.chance.randint(0, 2)))
            name = f"q{number}"
            every = 1 if is_source else self.chance.choice((1, 1, 1, 3))
            self.queries[name] = Query(name, inputs, elements, every)
            self.blocks[name], self.marks[name] = [], []
            names.append(name)
        self.elements = [element for query in self.queries.values() for element in query.elements]
        self.sources = names[:sources]

    def alternate(self, element: str, wave: int) -> str:
        chosen = [on for first, on in self.switches.get(element, ()) if first <= wave]
        return chosen[-1] if chosen else ALTERNATES[0]

    # -- what happens ----------------------------------------------------------------------------------------------

    def play(self) -> None:
        for _ in range(STEPS):
            what = self.chance.random()
            query = self.chance.choice(list(self.queries.values()))
            if what < 0.06 and self.elements:
                self.switch()
            elif what < 0.12:
                query.begun = -1  # killed, wherever it was
            elif what < 0.17:
                self.write_late()
            elif what < 0.21:  # its node is lost: another goes on from a copy, and repeats what is recorded behind it
                query.begun, query.recorded = -1, len(query.planned)
                query.committed = self.chance.randint(max(0, query.committed - 4), query.committed)
            else:
                self.work(query, stops_after=self.chance.choice(("plan", "begin", "half", "all", "all", "all")))
        self.write_late()
        for query in self.queries.values():  # upstream first: all that there is comes through
            while self.work(query, stops_after="all", makes=False):
                pass

    def switch(self) -> None:
        """Some elements are to be done otherwise, in one wave; the sources hear of it once all of it is written."""
        self.number += 1
        chosen = self.chance.sample(self.elements, self.chance.randint(1, len(self.elements)))
        changes = [(element, self.number, self.chance.choice(ALTERNATES)) for element in chosen]
        if self.broken == "at once":  # sources are told first, and elements one by one
            self.late += changes
        else:
            self.write(changes)
        for source in self.sources:
            self.newest[source] = self.number

    def write(self, changes: list[tuple[str, int, str]]) -> None:
        for element, wave, on in changes:
            self.switches.setdefault(element, []).append((wave, on))

    def write_late(self) -> None:
        self.write(self.late)
        self.late = []

    # -- one batch of a query --------------------------------------------------------------------------------------

    def work(self, query: Query, *, stops_after: str, makes: bool = True) -> bool:
        """A batch, or a part of it: whatever is not done is repeated later. Whether there was anything to do."""
        if len(query.planned) == query.committed and not self.plan(query, makes):
            return False
        batch = query.planned[query.committed]
        if stops_after == "plan":
            return True
        events = list(self.read(query, batch))
        wave = self.begin(query, batch)
        if stops_after == "begin":
            return True
        seen = query.state.get(batch.number - 1, 0)
        made = []
        for event in events:
            seen += 1
            if not query.inputs:
                self.born.setdefault((event.source, event.number), wave)
            if seen % query.every == 0:
                passed = tuple((element, self.alternate(element, wave)) for element in query.elements)
                made.append(Event(event.source, event.number, event.passed + passed))
        self.publish(query, batch, wave, made, half=stops_after == "half")
        if stops_after == "half":
            query.begun = -1  # killed while it wrote
            return True
        query.state[batch.number] = seen
        query.committed += 1
        return True

    def plan(self, query: Query, makes: bool) -> bool:
        """Offsets of the next batch. Of all channels it takes blocks of one wave only."""
        before = {name: query.planned[-1].ends[name][1] if query.planned else 0 for name in query.inputs or ("",)}
        ends = {}
        if not query.inputs:
            if not makes:
                return False
            ends[""] = (before[""], before[""] + self.chance.randint(1, 4))
        else:
            wave = None
            for name in self.chance.sample(query.inputs, len(query.inputs)):
                reach = before[name]
                most = reach + self.chance.randint(1, 3)
                while reach < len(self.blocks[name]) and reach < most:
                    of = self.wave_of(name, reach)
                    if wave is None:
                        wave = of
                    if of != wave and self.broken != "one wave":
                        break
                    reach += 1
                ends[name] = (before[name], reach)
            if all(start == end for start, end in ends.values()):
                return False
        query.planned.append(Batch(len(query.planned), {name: ends[name] for name in sorted(ends)}))
        return True

    def wave_of(self, channel: str, place: int) -> int:
        """The wave of a block, by the marks of its channel."""
        waves = [wave for first, wave in self.marks[channel] if first <= self.blocks[channel][place][0]]
        return waves[-1] if waves else 0

    def read(self, query: Query, batch: Batch) -> Iterator[Event]:
        for name, (start, end) in batch.ends.items():
            if not query.inputs:
                yield from (Event(query.name, number) for number in range(start, end))
            for _, events in self.blocks.get(name, [])[start:end]:
                yield from events

    def begin(self, query: Query, batch: Batch) -> int:
        """Which wave the batch is of, as it is noted before anything is done with its events."""
        if query.inputs:
            return [self.wave_of(name, end - 1) for name, (start, end) in batch.ends.items() if start < end][-1]
        newest, wave = self.newest.get(query.name, 0), query.noted(batch.number)
        if self.broken == "notes":  # a batch takes the newest wave whenever it is worked on
            return newest
        if wave is None:
            query.notes[batch.number] = newest
        elif newest > wave and query.begun != batch.number:
            is_repeated = batch.number < query.recorded and self.broken != "copies"
            if (query.begun >= 0 and not is_repeated) or self.broken == "fresh":
                query.notes.setdefault(batch.number, newest)
        query.begun = batch.number
        return query.noted(batch.number) or 0

    def publish(self, query: Query, batch: Batch, wave: int, made: list[Event], *, half: bool) -> None:
        """Blocks of at most two events; those that are there are not written again."""
        blocks = [made[place:place + 2] for place in range(0, len(made), 2)]
        written = sum(number == batch.number for number, _ in self.blocks[query.name])
        for place, events in enumerate(blocks[:len(blocks) // 2] if half else blocks):
            if place >= written:
                if (self.marks[query.name] or [(0, 0)])[-1][1] != wave:
                    self.marks[query.name].append((batch.number, wave))
                self.blocks[query.name].append((batch.number, events))

    # -- what must hold --------------------------------------------------------------------------------------------

    def faults(self) -> list[Event]:
        """Events that did not meet in all elements what the wave says in which they left their source."""
        return [
            event for blocks in self.blocks.values() for _, events in blocks for event in events
            for element, on in event.passed
            if on != self.alternate(element, self.born[event.source, event.number])]

    def is_consistent(self, event: Event) -> bool:
        """Whether there is any wave in which all that an event met was on."""
        return any(
            all(self.alternate(element, wave) == on for element, on in event.passed) for wave in range(self.number + 1))


@pytest.mark.parametrize("seed", range(WORLDS // 10))
def test_every_event_meets_one_wave_and_comes_through_once(seed: int) -> None:
    for number in range(10):
        world = World(10 * seed + number)
        world.play()
        assert world.faults() == []
        for query in world.queries.values():
            events = [event for _, events in world.blocks[query.name] for event in events]
            assert all(map(world.is_consistent, events))
            if query.every == 1:
                came = sorted((event.source, event.number) for event in events)
                sent = sorted(
                    (event.source, event.number) for name in query.inputs for _, events in world.blocks[name]
                    for event in events)
                assert came == (sent or [(query.name, number) for number in range(len(came))])


@pytest.mark.parametrize("broken", ["at once", "one wave", "notes", "fresh", "copies"])
def test_without_a_rule_some_event_meets_two_waves(broken: str) -> None:
    def violates(seed: int) -> bool:
        world = World(seed, broken)
        world.play()
        return bool(world.faults())

    assert any(map(violates, range(WORLDS)))
