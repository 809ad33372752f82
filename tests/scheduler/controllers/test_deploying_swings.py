"""Deployment in played time, under loads that swing: what has moved stays, however fast or slow they do."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.controllers.defragmentation import LATENCY
from scheduler.controllers.deploying import RESTS_S, SLOT, TRAFFIC, Asker, Deploying, Deployments
from scheduler.controllers.engine import step
from scheduler.controllers.protocol import Effect, Observations, Progress, Sample
from scheduler.controllers.values import ACTS, CHECKING, Begin, Command, Policy, RollBack, Round, State
from scheduler.deployment.values import Deployment, PlacedBundle

SLOTS = ("n1/0", "n1/1", "n2/0")
MEASURED_S = 600  # evidence is the median of so long
HOURS = 8


@dataclass
class Swinging:
    """Queries of one dataflow each, whose CPU swings; a plan is in force in the minute after it was made."""

    cores: tuple[tuple[float, float, float], ...]  # of each query: mean, how far it swings of that, and its phase
    period_s: float
    steep: bool
    state: State = field(default_factory=State)
    moves: list[tuple[float, str, str, str]] = field(default_factory=list)  # when, which, from where, to where
    _todo: dict[str, Command] = field(default_factory=dict)
    _done: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.slots = {f"q{number}": SLOTS[number % 2] for number in range(len(self.cores))}

    def taken(self, query: str, at_s: float) -> float:
        mean, part, phase = self.cores[int(query[1:])]
        wave = math.sin(2 * math.pi * (at_s / self.period_s + phase))
        return mean * (1 + part * (math.copysign(1.0, wave) if self.steep else wave))

    def load(self, slot: str, at_s: float) -> float:
        return sum(self.taken(query, at_s) for query, where in self.slots.items() if where == slot)

    def evidence(self, at_s: float) -> Deployments:
        bundles = {
            query: PlacedBundle(query, slot, median(
                self.taken(query, when) for when in range(int(at_s) - MEASURED_S, int(at_s), 30)))
            for query, slot in self.slots.items()}
        traffic = dict.fromkeys(pairwise(self.slots), 1_000.0)
        resting = {query for when, query, _, _ in self.moves if when > at_s - RESTS_S}
        askers = {query: (Asker(f"d{query}", "city", (), (query,), latency_ms=200.0),) for query in self.slots}
        return Deployments(Deployment(bundles, SLOTS, traffic), askers, frozenset(resting))

    def step(self, at_s: float) -> None:
        for key, command in self._todo.items():
            self._carry_out(key, command, at_s)
        progress = {turn.key: Progress(self._done[turn.key]) for turn in self.state.rounds if turn.key in self._done}
        effects = {turn.key: self._effect(turn, at_s) for turn in self.state.rounds if turn.phase == CHECKING}
        done = step(Deploying(), self.state, Observations(self.evidence(at_s), at_s, progress, effects),
                    {"city": Policy(ACTS, 100, 1_000, 600.0)}, now_s=at_s)
        self.state, self._todo = done.state, {command.round.key: command for command in done.commands}

    def _effect(self, turn: Round, at_s: float) -> Effect:
        begin_s, source = math.ceil(turn.changed_s or 0.0), turn.decision.arguments["source"]
        return Effect(begin_s, tuple(
            Sample(float(when), {SLOT: self.load(source, when), TRAFFIC: 0.0, LATENCY: 200.0})
            for when in range(begin_s, int(at_s), 30)))

    def _carry_out(self, key: str, command: Command, at_s: float) -> None:
        arguments = command.round.decision.arguments
        queries = [arguments["query"], *arguments["along"].split()]
        if isinstance(command, Begin) and key not in self._done:
            self._place(dict.fromkeys(queries, arguments["slot"]), at_s)
            self._done[key] = "in_force"
        elif isinstance(command, RollBack) and self._done.get(key) == "in_force":
            befores = [change.before for change in command.round.decision.changes]
            self._place(dict(zip(queries, befores, strict=True)), at_s)
            self._done[key] = "rolled_back"

    def _place(self, placed: dict[str, str], at_s: float) -> None:
        for query, slot in placed.items():
            self.moves.append((at_s, query, self.slots[query], slot))
            self.slots[query] = slot


@st.composite
def swinging(draw: st.DrawFn) -> Swinging:
    cores = st.tuples(st.floats(0.05, 0.6), st.floats(0.0, 1.0), st.floats(0.0, 1.0))
    return Swinging(tuple(draw(st.lists(cores, min_size=2, max_size=6))), draw(st.floats(60.0, 4 * 3600.0)),
                    draw(st.booleans()))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(swinging())
def test_load_that_swings_moves_nothing_to_and_fro(world: Swinging) -> None:
    for at_s in range(MEASURED_S, HOURS * 3600, 60):
        world.step(float(at_s))
    rolled_back = {(turn.back_s, turn.decision.arguments["query"]) for turn in world.state.rounds if turn.back_s}
    left: dict[tuple[str, str], float] = {}
    for when, query, source, target in world.moves:
        taken_back = any(abs(when - back_s) <= 120 and query == of for back_s, of in rolled_back)
        assert taken_back or when - left.get((query, target), -math.inf) > RESTS_S, "it was there a moment ago"
        left[query, source] = when
    most = max(Counter(query for _, query, _, _ in world.moves).values(), default=0)
    assert most <= HOURS * 3600 / RESTS_S
    if world.period_s <= MEASURED_S / 2:  # faster than what is measured: a few moves, and all is settled
        assert not [move for move in world.moves if move[0] > 4 * 3600]
