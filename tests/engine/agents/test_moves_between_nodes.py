"""Queries move between nodes: no event is lost, none comes twice, whoever dies when, and whoever hears late.

The played world is that of ``divided_world.py``, with a chain of ``recut_chains.py`` whose parts move one by one, or
several at once, to any slot of either node, as ``scheduler.moving`` plans it. State, a source's next number, and places
go along.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.contracts.desired import DesiredState, WantedFragment, WantedSlot, made_in
from scheduler.model.estate import Estate
from scheduler.model.fragment import Fragment, channel_id, node_of
from scheduler.reuse.handover import moved_in
from workers.engine.agents.node_files.fold_stores import FoldStores
from workers.engine.agents.reconciling import record_actuator
from workers.engine.agents.reconciling.handover_stages import predecessors, remote_successors, successors
from workers.engine.agents.reconciling.instructions import RecordCopy
from workers.engine.agents.reconciling.record_actuator import RecordActuator
from workers.engine.agents.reconciling.standby import Patience, stages_of
from workers.engine.agents.transport import differences, parcels
from workers.engine.agents.transport.ahead import CopyLimits
from workers.engine.agents.transport.copying import make_copies
from workers.engine.agents.transport.state_transport import NOTHING, Elsewhere, StateTransport, still_leaving

from .divided_world import NUMBERS, SLOTS, World
from .mortal_broker import MortalBroker
from .played_files import PlayedFiles
from .recut_chains import CHAIN, LENGTH, WATCHER
from .test_handover import counted

NAMES = [slot.name for slot in SLOTS]
LIMITS = CopyLimits(least_bytes=1, most_share=100, small_bytes=0, most_rounds=3, shrinks_to=100)


class Nodes(World):
    """Slots die often, the broker now and then, and nodes hear of plans late, or of the next one only.

    All state goes ahead, in rounds and in pieces of some bytes and a few at a time; now and then a copy or round is
    lost again, or spoiled. Numbers come one by one, so that state changes meanwhile.
    """

    DEADLINESS = 0.02
    BROKERS_DEADLINESS = 0.002  # at each command

    def __init__(self, chance: random.Random, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(parcels, "WINDOW", 3)
        patch.setattr(parcels, "PIECES_AT_ONCE", 2)
        patch.setattr(differences, "_BITS", 2)
        patch.setattr(differences, "_LEAST", 4)
        patch.setattr(record_actuator, "make_copies", partial(make_copies, limits=LIMITS))
        self.sent: set[tuple[bytes, bytes]] = set()  # manifests of what was on its way
        super().__init__(chance, patch)
        self.limit = 1

    def _link(self) -> MortalBroker:
        return MortalBroker(
            self.broker, self.chance, deadliness=lambda: self.BROKERS_DEADLINESS if self.deadly else 0,
            clock_ms=lambda: self.now_ms)

    def _transport(self, slot: str) -> StateTransport:
        return StateTransport(
            self.link, self.stores[slot], clock_ms=lambda: self.now_ms, limits=LIMITS, piece_bytes=60)

    def turn(self, slot: str) -> None:
        self.limit = min(NUMBERS, self.limit + (self.chance.random() < 0.3))
        if self.deadly and self.chance.random() < 0.01:
            self._spoil(self.stores[slot].files.texts)
        super().turn(slot)
        self._count()
        for key in self.broker.keys(":handover:") + self.broker.keys(":ahead:"):
            pieces = [name for name in self.broker.hgetall(key) if name.startswith(b"piece:")]
            assert len(pieces) <= 2 * parcels.WINDOW, "the broker holds more than a window"

    def _spoil(self, texts: dict[tuple[str, str], bytes]) -> None:
        copies = sorted(place for place in texts if place[1] in ("copy", "ahead", "newer"))
        if copies:
            place = self.chance.choice(copies)
            text = texts.pop(place)
            if place[1] != "ahead" and self.chance.random() < 0.5:
                texts[place] = text[:-1] + b"?"

    def _count(self) -> None:
        for key in self.broker.keys(":ahead:") + self.broker.keys(":handover:"):
            manifest = self.broker.hget(key, "manifest")
            if manifest is not None and manifest != NOTHING.manifest.encode():
                self.sent.add((key, manifest))


class Moves:
    """The estate from plan to plan: a chain in parts, and a dataflow of others that reads its second task."""

    def __init__(self, cuts: list[int], slots: list[int]) -> None:
        self.generation = 1
        bounds = [0, *cuts, LENGTH]
        ids = [f"f1-{number}" for number in range(len(bounds) - 1)]
        self.fragments: dict[str, Fragment] = {}
        for number, name in enumerate(ids):
            tasks = tuple(f"t{task}" for task in range(bounds[number], bounds[number + 1]))
            outlets = {tasks[-1]: (ids[number + 1],)} if number + 1 < len(ids) else {}
            if "t1" in tasks:
                outlets["t1"] = ("f1-90", *outlets.get("t1", ()))
            slot = NAMES[slots[number % len(slots)]]
            self.fragments[name] = Fragment(name, tasks, slot, len(tasks), outlets)
        self.fragments["f1-90"] = Fragment("f1-90", ("w", "x"), NAMES[slots[-1]], 2)
        out = self.fragments[ids[-1]]
        self.moving: dict[str, Fragment] = {}  # by heir who was before it
        self.is_back = False
        self.out, self.watched = out.channel_of(f"t{LENGTH - 1}"), channel_id("f1-90", 1)

    def estate(self) -> Estate:
        return Estate(
            generation=self.generation, tasks={**CHAIN, **WATCHER}, fragments=dict(self.fragments), slots=SLOTS)

    def move(self, chance: random.Random) -> None:
        """A query goes to another slot, or several do, from whatever slots they are in."""
        slot = chance.choice(NAMES)
        others = sorted(name for name, fragment in self.fragments.items() if fragment.slot != slot)
        if others:
            self._go(dict.fromkeys(chance.sample(others, chance.randint(1, len(others))), slot))
            self.is_back = False

    def take_back(self) -> None:
        """The queries that moved last go to where they were, before they have come to where they go."""
        former = self.moving
        self._go({heir: fragment.slot for heir, fragment in former.items()})
        for name, heir in self.moving.items():
            self.fragments[name] = replace(self.fragments[name], inherits=(former[heir.id].id, heir.id))
        self.is_back = True

    def _go(self, slots: dict[str, str]) -> None:
        change = moved_in(self.estate(), slots, outputs={f"t{LENGTH - 1}", "x"})
        for name in change.before:
            del self.fragments[name]
        self.fragments |= change.after
        self.generation += 1
        self.moving = {
            step.fragment: change.before[name] for step, name in zip(change.steps, slots, strict=True)}

    def is_calm(self, world: World) -> bool:
        """Whether what was planned last is in force, as the site knows it: only then queries are moved."""
        if not self.moving:
            return set(world.running) == set(self.fragments)
        return all(self._is_over(world, self.fragments[name]) for name in self.moving)

    @staticmethod
    def _is_over(world: World, moved: Fragment) -> bool:
        nodes = {node_of(moved.slot), moved.origin or node_of(moved.slot)}
        if any(world.heard.get(node, DesiredState()).version < made_in(moved.id) for node in nodes):
            return False
        left = moved.origin and still_leaving(world.heard[moved.origin], world.stores[f"{moved.origin}/0"])
        return moved.id in world.running and not set(moved.inherits) & {*world.running, *(left or ())}


def play(cuts: list[int], slots: list[int], turns: list[int], seed: int, patch: pytest.MonkeyPatch) -> Counter[str]:
    """Play a history; how many records and rounds came as differences or whole, and how often the broker died."""
    chance = random.Random(seed)
    world, moves = Nodes(chance, patch), Moves(cuts, slots)
    world.want(moves.estate())
    for count in turns:
        for _ in range(count):
            turn(world, chance)
        if moves.is_calm(world):
            moves.move(chance)
        elif moves.moving and not moves.is_back:
            moves.take_back()
        world.want(moves.estate())
    world.deadly = False
    for _ in range(400):
        for slot in NAMES:
            turn(world, chance, slot)
        if is_settled(world, moves):
            break
    for _ in range(40):
        for slot in NAMES:
            turn(world, chance, slot)
    check(world, moves)
    kinds = Counter(
        ("round " if b":ahead:" in key else "record ") + ("from a base" if b'"base"' in manifest else "whole")
        for key, manifest in world.sent)
    rounds = Counter(key for key, manifest in world.sent if b":ahead:" in key and b'"base"' in manifest)
    return kinds + Counter({
        "many rounds": sum(count > 1 for count in rounds.values()), "broker died": world.link.deaths,
        "broker was away": world.link.refusals})


def turn(world: World, chance: random.Random, slot: str = "") -> None:
    slot = slot or chance.choice(NAMES)
    if chance.random() < 0.3:
        world.hear(node_of(slot))
    world.turn(slot)


def is_settled(world: World, moves: Moves) -> bool:
    return (
        set(world.running) == set(moves.fragments) and moves.is_calm(world)
        and len(list(world.broker.events(moves.out))) == NUMBERS)


def check(world: World, moves: Moves) -> None:
    assert set(world.running) == set(moves.fragments), "it did not come to what is planned"
    for name, query in world.running.items():
        assert query.store.slot == moves.fragments[name].slot
    assert moves.is_calm(world), "a move is never over"
    assert not world.gaps
    assert list(world.broker.events(moves.out)) == [counted(number, LENGTH - 2) for number in range(NUMBERS)]
    watched = list(world.broker.events(moves.watched))
    assert [count for count, _ in watched] == list(range(len(watched)))
    seen = [counted(number, 1) for number in range(NUMBERS)]
    assert [event for _, event in watched] == seen[NUMBERS - len(watched):]
    for store in world.stores.values():
        assert not store.having("ended"), "something is left to be cleared away"
    for channel in world.broker.opened():
        assert set(world.broker.channels.info(channel).readers) <= set(moves.fragments)
    void = {name.encode() for store in world.stores.values() for name in store.void}
    records = [world.broker.hgetall(key) for key in world.broker.keys("*:handover:*")]
    assert all(record.get(b"claim") in void for record in records), "a record is left in the broker"
    assert set(world.broker.keys("*:ahead:*")) <= world.broker.expiring, "what went ahead stays in the broker"


cuts = st.lists(st.integers(1, LENGTH - 1), unique=True, max_size=3).map(sorted)
slots = st.lists(st.integers(0, len(NAMES) - 1), min_size=1, max_size=4)
turns = st.lists(st.integers(0, 120), min_size=1, max_size=6)


@settings(max_examples=60, deadline=None)
@given(cuts=cuts, slots=slots, turns=turns, seed=st.integers(0, 2**32))
def test_queries_move_between_nodes_and_lose_nothing_whoever_dies(cuts, slots, turns, seed):
    with pytest.MonkeyPatch.context() as patch:
        play(cuts, slots, turns, seed, patch)


def test_most_state_goes_ahead_and_in_rounds():
    kinds = Counter()
    for seed in range(6):
        with pytest.MonkeyPatch.context() as patch:
            kinds += play([2, 4], [0, 2, 1], [60] * 6, seed, patch)
    assert kinds["record from a base"] > 4, "though copies are lost, and what has no state goes whole"
    assert kinds["round from a base"] > 2 * kinds["round whole"] and kinds["many rounds"] > 4
    assert kinds["broker died"] > 6 and kinds["broker was away"] > 60


@pytest.mark.long
@pytest.mark.timeout(3_600)
@settings(max_examples=5_000, deadline=None)
@given(cuts=cuts, slots=slots, turns=turns, seed=st.integers(0, 2**32))
def test_thousands_of_moves_between_nodes_lose_nothing(cuts, slots, turns, seed):
    with pytest.MonkeyPatch.context() as patch:
        play(cuts, slots, turns, seed, patch)


# -- what a node knows of others ---------------------------------------------------------------------------------------


def test_a_fragment_works_on_until_its_heir_is_ready_elsewhere():
    old, heir = WantedFragment("a", ()), WantedFragment("b", (), inherits=("a",), origin="n1")
    here = DesiredState(node="n1", remote_heirs={"n2": (heir,)}, handing_over={"0": (old,)})
    other = DesiredState(node="n2", slots={"0": WantedSlot((heir,))})
    assert remote_successors(here, "a") == successors(here, "a") == (heir,)
    assert predecessors(other, heir) == ("a",) and not remote_successors(other, "a")

    class Records:
        def having(self, what: str) -> frozenset[str]:
            return frozenset()

        def standing(self) -> frozenset[str]:
            return frozenset()

    for elsewhere, stage in ((Elsewhere(), "work"), (Elsewhere(ready=frozenset("b")), "end"),
                             (Elsewhere(begun=frozenset("b")), "over")):
        assert stages_of(here, Records(), elsewhere, Patience(), runs={"a"}, now_ms=10**9)["a"] == stage


def test_a_copy_or_round_that_is_there_is_not_made_anew():
    """It may be on the heir's disk already, and what is new is found from just that one."""
    files = PlayedFiles(store=None)
    stores = FoldStores(Path("nowhere"))
    records = RecordActuator(SimpleNamespace(store=SimpleNamespace(files=files, fold_stores=stores)))
    same = " ".join(map(str, range(5_000)))
    for number in (1, 2, 3):
        run = SimpleNamespace(id="a", copied={"t": (same, f"state {number}")})
        records.do(run, RecordCopy(("b",)))
    assert b"state 1" in files.read("b", "ahead") and b"state 2" in files.read("b", "newer")
