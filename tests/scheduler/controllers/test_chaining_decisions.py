"""Chaining's whole decision: against all partitions of small graphs, and in played time under load that changes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, pairwise

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.controllers.batch_opening import LIMITED
from scheduler.controllers.chaining import FUSES_BELOW, UNDO, Chaining, Chains, FusedChain, LateWay
from scheduler.controllers.control_loop import step
from scheduler.controllers.controller_port import CommandProgress, Effect, MeasureSample, Observations
from scheduler.controllers.defragmentation import CORES, LATENCY, Candidate
from scheduler.controllers.loop_values import (
    ACTS,
    CHECKING,
    ENACTING,
    KEPT,
    UNCHECKED,
    Begin,
    Command,
    LoopState,
    Policy,
    RollBack,
    Round,
)
from scheduler.latency.runtime_graph import Channel, RuntimeGraph, Vertex
from scheduler.latency.task_chaining import CAPACITY, ChainingFacts
from scheduler.reuse.defragment import Fusion, StepLoad

LOAD = StepLoad(50.0, ((50.0, 20.0),), 1.0)
Block = tuple[str, ...]


def named(block: Block) -> str:
    return "+".join(block)


def fused_in_all(blocks: Sequence[Block], cores: float | None) -> Candidate:
    """The step that makes one query of several."""
    fusion = Fusion(tuple(map(named, blocks)), "n/0", 0, tuple((one[-1], other[0]) for one, other in pairwise(blocks)))
    tasks = tuple(query for block in blocks for query in block)
    return Candidate("flow", "city", (), fusion, LOAD, tasks, tasks[:1], cores, 900.0)


def runs(blocks: Sequence[Block]) -> Iterator[Sequence[Block]]:
    """All series of two and more."""
    for start, end in combinations(range(len(blocks) + 1), 2):
        if end - start > 1:
            yield blocks[start:end]


@dataclass(frozen=True)
class Small:
    """A few queries in a line, what else reads and writes there, and which steps there are."""

    path: tuple[str, ...]
    besides: tuple[tuple[str, str], ...]
    nodes: Mapping[str, str]
    cores: Mapping[str, float]
    apart: frozenset[str]
    once: Mapping[str, float]  # cores that a query takes whatever is in its batches: less than it takes in all
    impossible: frozenset[Block] = frozenset()  # series that no step can fuse

    def cores_of(self, series: Sequence[str]) -> float:
        """As one query: what each takes besides, and once what the dearest takes for being one."""
        return sum(self.cores[query] - self.once[query] for query in series) + max(self.once[query] for query in series)

    def may_be_one(self, series: Sequence[str]) -> bool:
        """By the definition: one node, the CPU of all of them within the bound, single in and out inside."""
        streams = [*pairwise(self.path), *self.besides]
        single_in = all(sum(target == query for _, target in streams) == 1 for query in series[1:])
        single_out = all(sum(source == query for source, _ in streams) == 1 for query in series[:-1])
        return (single_in and single_out and len({self.nodes[query] for query in series}) == 1
                and self.cores_of(series) < FUSES_BELOW and self.apart.isdisjoint(series))

    def partitions(self) -> Iterator[list[Block]]:
        """All ways to cut the line into queries of which each may be one."""
        for cuts in range(1 << (len(self.path) - 1)):
            blocks, begin = [], 0
            for end in range(1, len(self.path) + 1):
                if end == len(self.path) or cuts >> (end - 1) & 1:
                    blocks.append(self.path[begin:end])
                    begin = end
            if all(len(block) == 1 or self.may_be_one(block) for block in blocks):
                yield blocks

    def evidence(self, blocks: Sequence[Block]) -> Chains:
        """What chaining is told where the line is cut so."""
        home = {query: named(block) for block in blocks for query in block}
        names = dict.fromkeys([*home.values(), *(name for pair in self.besides for name in pair if name not in home)])
        streams = [(home.get(source, source), home.get(target, target))
                   for source, target in [*pairwise(self.path), *self.besides]]
        graph = RuntimeGraph([Vertex(name, name, "n") for name in names],
                             [Channel(*stream) for stream in streams if stream[0] != stream[1]])
        cores = {named(block): self.cores_of(block) for block in blocks}
        facts = ChainingFacts(
            {name: "n" for name in names} | {named(block): self.nodes[block[0]] for block in blocks}, cores,
            apart={home[query] for query in self.apart},
            once={named(block): max(self.once[query] for query in block) for block in blocks})
        steps = tuple(fused_in_all(series, sum(cores[named(block)] for block in series)) for series in runs(blocks)
                      if joined(series) not in self.impossible)
        way = LateWay("flow", "city", "mean of at most 300 ms", 0.3, 0.9, tuple(map(named, blocks)), steps)
        return Chains((way,), graph, facts)


@st.composite
def smalls(draw: st.DrawFn) -> Small:
    path = tuple("abcdef"[:draw(st.integers(2, 6))])
    inside, outside = st.sampled_from(path), st.sampled_from("xy")
    besides = draw(st.lists(st.one_of(st.tuples(inside, outside), st.tuples(outside, inside)), max_size=2))
    cores = {name: draw(st.sampled_from([0.0625, 0.125, 0.25, 0.5])) for name in path}
    return Small(
        path, tuple(besides), {name: draw(st.sampled_from(["n", "n", "n", "m"])) for name in path}, cores,
        frozenset(draw(st.sets(st.sampled_from(path), max_size=1))),
        {name: cores[name] * draw(st.sampled_from([0.0, 0.5, 0.75])) for name in path},
        frozenset(draw(st.sets(st.sampled_from([joined(series) for series in runs([(name,) for name in path])])))))


def joined(blocks: Sequence[Block]) -> Block:
    return tuple(query for block in blocks for query in block)


def series_of(evidence: Chains) -> list[tuple[str, ...]]:
    """What is to be one query, by what is to be tried first."""
    return [tuple(decision.arguments["queries"].split()) for decision in Chaining().evaluate(evidence, {}).decisions]


@given(smalls())
def test_of_all_partitions_the_longest_series_that_a_step_can_fuse_is_fused_whole(small: Small) -> None:
    single = [(query,) for query in small.path]
    possible = {block for partition in small.partitions() for block in partition if len(block) > 1} - small.impossible
    by_length = sorted(possible, key=lambda block: (-len(block), small.path.index(block[0])))

    assert series_of(small.evidence(single)) == by_length


@given(smalls())
def test_step_by_step_it_ends_in_a_partition_that_no_series_can_be_joined_in(small: Small) -> None:
    small = replace(small, impossible=frozenset())
    possible = {tuple(blocks) for blocks in small.partitions()}
    blocks: list[Block] = [(query,) for query in small.path]
    steps = 0
    while series := series_of(small.evidence(blocks)):
        at = [named(block) for block in blocks].index(series[0][0])
        blocks[at:at + len(series[0])] = [joined(blocks[at:at + len(series[0])])]
        steps += 1
        assert tuple(blocks) in possible

    assert not any(small.may_be_one(joined(series)) for series in runs(blocks))
    assert steps == sum(len(block) > 1 for block in blocks), "a query that was made so is made longer"


# In played time -------------------------------------------------------------------------------------------------------


@dataclass
class Played:
    """A line of queries whose load comes and goes; what chaining decides is carried out a step later."""

    shares: tuple[float, ...]  # cores of each at load 1
    load: tuple[float, float, float]  # lowest, highest, period in seconds
    steep: bool
    once: float = 0.0  # cores that each query takes for its batches, whatever is in them
    state: LoopState = field(default_factory=LoopState)
    blocks: list[Block] = field(default_factory=list)
    moves: list[tuple[float, str, Block]] = field(default_factory=list)  # when, "fused" or "cut", into or from what
    _todo: dict[str, Command] = field(default_factory=dict)
    _phases: dict[str, str] = field(default_factory=dict)  # progress by round
    _fused_blocks: dict[str, tuple[Block, ...]] = field(default_factory=dict)  # by round: what it fused

    def __post_init__(self) -> None:
        self.queries = tuple("abcdef"[:len(self.shares)])
        self.blocks = [(query,) for query in self.queries]

    def factor(self, at_s: float) -> float:
        low, high, period_s = self.load
        phase = (1 + math.sin(2 * math.pi * at_s / period_s)) / 2
        return low + (high - low) * (float(phase > 0.5) if self.steep else phase)

    def cores(self, block: Block, at_s: float) -> float:
        return self.once + self.factor(at_s) * sum(self.shares[self.queries.index(query)] for query in block)

    def evidence(self, at_s: float) -> Chains:
        names = [named(block) for block in self.blocks]
        cores = {name: self.cores(block, at_s) for name, block in zip(names, self.blocks, strict=True)}
        graph = RuntimeGraph([Vertex(name, name, "n") for name in names], [Channel(*pair) for pair in pairwise(names)])
        steps = tuple(fused_in_all(series, sum(self.cores(block, at_s) for block in series))
                      for series in runs(self.blocks))
        late = (LateWay("flow", "city", "mean of at most 300 ms", 0.3, 0.9, tuple(names), steps),) if steps else ()
        facts = ChainingFacts(dict.fromkeys(names, "n"), cores, once=dict.fromkeys(names, self.once))
        return Chains(late, graph, facts, tuple(self._fused(at_s)))

    def _fused(self, at_s: float) -> Iterator[FusedChain]:
        """The chains of rounds in force; of one that was made in several only the newest can be taken back."""
        seen: set[Block] = set()
        for turn in reversed(self.state.rounds):
            made = self._fused_blocks.get(turn.key)
            block = None if made is None else joined(made)
            if block in self.blocks and block not in seen and turn.phase in {KEPT, UNCHECKED}:
                seen.add(block)
                yield FusedChain(turn.key, "flow", "city", (), turn.decision.changes, self.cores(block, at_s), 300.0)

    def step(self, at_s: float) -> None:
        for key, command in self._todo.items():
            self._carry_out(key, command, at_s)
        progress = {
            turn.key: CommandProgress(self._phases[turn.key]) for turn in self.state.rounds if turn.key in self._phases}
        effects = {turn.key: self._effect(turn, at_s) for turn in self.state.rounds if turn.phase == CHECKING}
        done = step(Chaining(), self.state, Observations(self.evidence(at_s), at_s, progress, effects),
                    {"city": Policy(ACTS, 100, 1_000, 600.0)}, now_s=at_s)
        self.state, self._todo = done.state, {command.round.key: command for command in done.commands}

    def _effect(self, turn: Round, at_s: float) -> Effect:
        """What was measured since: sooner than before, and CPU of the query that the first of its tasks is in."""
        query = turn.decision.arguments.get("tasks", "a").split()[0]
        block = next(block for block in self.blocks if query in block)
        begin_s = math.ceil(turn.changed_s or 0.0)
        return Effect(begin_s, tuple(
            MeasureSample(float(when), {CORES: self.cores(block, when), LATENCY: 300.0, LIMITED: 300.0}, 50.0)
            for when in range(begin_s, int(at_s), 30)))

    def _carry_out(self, key: str, command: Command, at_s: float) -> None:
        undone = command.round.decision.arguments.get(UNDO)
        if isinstance(command, Begin) and self._phases.get(key) != ENACTING and key not in self._fused_blocks:
            self._phases[key] = ENACTING
            if undone is None:
                self._fuse(key, command.round, at_s)
            else:
                self._cut(undone, at_s)
            self._phases[key] = "in_force"
        elif isinstance(command, RollBack):
            self._cut(key, at_s)
            self._phases[key] = "rolled_back"

    def _fuse(self, key: str, turn: Round, at_s: float) -> None:
        series = turn.decision.arguments["queries"].split()
        at = [named(block) for block in self.blocks].index(series[0])
        made = self._fused_blocks[key] = tuple(self.blocks[at:at + len(series)])
        assert list(map(named, made)) == series
        self.blocks[at:at + len(series)] = [joined(made)]
        self.moves.append((at_s, "fused", self.blocks[at]))

    def _cut(self, key: str, at_s: float) -> None:
        made = self._fused_blocks[key]
        at = self.blocks.index(joined(made))
        self.blocks[at:at + 1] = list(made)
        self.moves.append((at_s, "cut", joined(made)))


@st.composite
def played(draw: st.DrawFn) -> Played:
    low = draw(st.floats(0.0, 1.0))
    return Played(
        tuple(draw(st.lists(st.floats(0.05, 0.5), min_size=2, max_size=4))),
        (low, draw(st.floats(low, 3.0)), draw(st.floats(120.0, 6 * 3600.0))), draw(st.booleans()),
        draw(st.floats(0.0, 0.2)))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(played())
def test_load_that_comes_and_goes_fuses_and_cuts_nothing_twice(world: Played) -> None:
    overloaded_since: dict[Block, float] = {}
    for at_s in range(60, 12 * 3600, 60):
        world.step(float(at_s))
        for block in set(overloaded_since) - set(world.blocks):
            del overloaded_since[block]
        for block in world.blocks:
            if len(block) > 1 and world.cores(block, at_s) >= CAPACITY:
                overloaded_since.setdefault(block, at_s)
                assert at_s - overloaded_since[block] <= 900, "a chain that is too much waits for a cool-down"
            else:
                overloaded_since.pop(block, None)

    for kind in ("fused", "cut"):
        blocks = [block for _, what, block in world.moves if what == kind]
        assert len(blocks) == len(set(blocks)), "it goes back and forth"


def test_a_chain_is_cut_as_soon_as_its_load_has_risen() -> None:
    world = Played((0.3, 0.3), (1.0, 2.0, 4 * 3600.0), steep=True)
    while not world.moves:
        world.step(world.state.clock_s + 60)
    while len(world.moves) < 2:
        world.step(world.state.clock_s + 60)
    (fused_s, _, _), (cut_s, kind, _) = world.moves
    rises_s = next(at_s for at_s in range(int(fused_s), int(cut_s) + 1) if world.factor(at_s) > 1)
    assert kind == "cut"
    assert cut_s - rises_s <= 300
