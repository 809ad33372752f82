"""Deployment in played time, under loads that swing: what has moved stays, however fast or slow they do."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import pairwise
from statistics import median
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.controllers.changes import Aspect, SlotName
from scheduler.controllers.control_loop import step
from scheduler.controllers.controller_port import CommandProgress, Effect, MeasureSample, Observations
from scheduler.controllers.defragmentation import LATENCY
from scheduler.controllers.deploying import RESTS_S, SLOT, TRAFFIC, Asker, Deploying, Deployments, resting_tasks
from scheduler.controllers.loop_values import (
    ACTS,
    CHECKING,
    DECLINED,
    KEPT,
    ROLLED_BACK,
    AspectChange,
    Begin,
    Command,
    ControllerPromise,
    Decision,
    LoopState,
    Policy,
    RollBack,
    Round,
)
from scheduler.deployment.deployed_bundles import Deployment, PlacedBundle
from scheduler.deployment.online import Thresholds

SLOTS = ("n1/0", "n1/1", "n2/0")
MEASURED_S = 600  # evidence is the median of so long
HOURS = 8


@dataclass
class Swinging:
    """Queries of one dataflow each, whose CPU swings; a plan is in force in the minute after it was made."""

    cores: tuple[tuple[float, float, float], ...]  # of each query: mean, how far it swings of that, and its phase
    period_s: float
    steep: bool
    state: LoopState = field(default_factory=LoopState)
    moves: list[tuple[float, str, str, str]] = field(default_factory=list)  # when, which, from where, to where
    measured: list[tuple[float, ...]] = field(default_factory=list)  # cores of each query, as each round read them
    _todo: dict[str, Command] = field(default_factory=dict)
    _phases: dict[str, str] = field(default_factory=dict)

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
        self.measured.append(tuple(bundle.cores for bundle in bundles.values()))
        traffic = dict.fromkeys(pairwise(self.slots), 1_000.0)
        askers = {query: (Asker(f"d{query}", "city", (), (query,), latency_ms=200.0),) for query in self.slots}
        return Deployments(Deployment(bundles, SLOTS, traffic), askers, resting_tasks(self.state.rounds, now_s=at_s))

    def step(self, at_s: float) -> None:
        for key, command in self._todo.items():
            self._carry_out(key, command, at_s)
        progress = {
            turn.key: CommandProgress(self._phases[turn.key]) for turn in self.state.rounds if turn.key in self._phases}
        effects = {turn.key: self._effect(turn, at_s) for turn in self.state.rounds if turn.phase == CHECKING}
        done = step(Deploying(), self.state, Observations(self.evidence(at_s), at_s, progress, effects),
                    {"city": Policy(ACTS, 100, 1_000, 600.0)}, now_s=at_s)
        self.state, self._todo = done.state, {command.round.key: command for command in done.commands}

    def _effect(self, turn: Round, at_s: float) -> Effect:
        begin_s, source = math.ceil(turn.changed_s or 0.0), turn.decision.arguments["source"]
        return Effect(begin_s, tuple(
            MeasureSample(float(when), {SLOT: self.load(source, when), TRAFFIC: 0.0, LATENCY: 200.0})
            for when in range(begin_s, int(at_s), 30)))

    def _carry_out(self, key: str, command: Command, at_s: float) -> None:
        arguments = command.round.decision.arguments
        queries = [arguments["query"], *arguments["along"].split()]
        if isinstance(command, Begin) and key not in self._phases:
            self._place(dict.fromkeys(queries, arguments["slot"]), at_s)
            self._phases[key] = "in_force"
        elif isinstance(command, RollBack) and self._phases.get(key) == "in_force":
            befores = [change.before for change in command.round.decision.changes]
            self._place(dict(zip(queries, befores, strict=True)), at_s)
            self._phases[key] = "rolled_back"

    def wobble(self) -> float:
        """By how many cores all that is measured differs over the time, at the most.

        It is not small because loads swing fast: a median leaves out the half of a swing, now this and now that, and
        what swings in step with the samples is read as if it swung slowly.
        """
        return sum(max(read) - min(read) for read in zip(*self.measured, strict=True))

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
    returns: Counter[str] = Counter()
    for when, query, source, target in world.moves:
        taken_back = any(abs(when - back_s) <= 120 and query == of for back_s, of in rolled_back)
        assert taken_back or when - left.get((query, target), -math.inf) >= RESTS_S, "it was there a moment ago"
        returns[query] += not taken_back and (query, target) in left
        left[query, source] = when
    assert max(returns.values(), default=0) <= 3, "after half an hour, two and a half hours, and not within ten"
    if world.wobble() < Thresholds().margin:  # what is measured stays as it is: a few moves, and all is settled
        assert not [move for move in world.moves if move[0] > 4 * 3600], "what is measured gave no reason to move"


def moved(at_s: float, query: str, source: str, target: str, **turn: Any) -> Round:
    before, after = (SlotName(f"n1/{'abc'.index(slot)}") for slot in (source, target))
    decision = Decision(
        "d", "city", (AspectChange(Aspect.SLOT, f"query of {query}", before, after),),
        ControllerPromise("less to do", 900.0, ()), "why",
        arguments={"tasks": f"{query} {query}2"})
    return Round(f"r{at_s}", "deployment", ACTS, decision, at_s, **{"phase": KEPT, "changed_s": at_s, **turn})


def test_a_query_rests_longer_each_time_it_comes_back_within_a_day() -> None:
    hour, rounds = 3600.0, []
    for at_h, source, target, rests_h in ((0, "a", "b", 0.5), (1, "b", "c", 0.5), (2, "c", "a", 2), (5, "a", "b", 8)):
        rounds.append(moved(at_h * hour, "q", source, target))
        assert resting_tasks(rounds, now_s=(at_h + rests_h) * hour - 1) == {"q", "q2"}
        assert resting_tasks(rounds, now_s=(at_h + rests_h) * hour) == frozenset()
    later = 28 * hour  # of the four moves only the last is within a day, and goes back to nothing that is remembered
    assert resting_tasks([*rounds, moved(later, "q", "b", "c")], now_s=later + hour) == frozenset()


def test_what_was_declined_makes_nothing_rest_and_what_was_taken_back_is_a_return() -> None:
    declined = moved(0.0, "q", "a", "b", phase=DECLINED)
    assert resting_tasks([replace(declined, changed_s=None)], now_s=1.0) == frozenset()
    back = moved(0.0, "q", "a", "b", phase=ROLLED_BACK, back_s=900.0)
    again = moved(3600.0, "q", "a", "b")
    assert resting_tasks([back, again], now_s=3600.0 + 3 * RESTS_S) == {"q", "q2"}
    assert resting_tasks([again], now_s=3600.0 + 3 * RESTS_S) == frozenset()
