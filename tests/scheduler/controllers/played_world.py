"""A world in played time for the loop: load that oscillates, late and wrong observations, kills, people who answer.

Its controllers are as nervous as can be: they follow the load at once, and two of them want opposite things of the same
subjects. The world carries commands out as the site does: once for a key, never after it was withdrawn, and a change of
several parts piece by piece. It keeps a log of what really changed and when; `faults` judges by that alone.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from random import Random

from scheduler.controllers.changes import Aspect, AspectChange
from scheduler.controllers.control_loop import LoopStep, step
from scheduler.controllers.controller_port import (
    CommandProgress,
    Effect,
    MeasureSample,
    Observations,
)
from scheduler.controllers.loop_values import (
    ACTS,
    BROKEN,
    DAY_S,
    DECLINED,
    HOUR_S,
    KEPT,
    OFF,
    RECOMMENDS,
    ROLLED_BACK,
    UNCHECKED,
    Begin,
    Command,
    Decision,
    LoopState,
    Policy,
    RollBack,
    Round,
)

from .adapting_in_worlds import DATAFLOWS, DEAR, WorldAdaptation, tasks_of
from .done_pieces import first_pieces, spans_of_pieces
from .followers import LOAD, SIZES, SUBJECTS, TEAMS, Follower
from .others_in_worlds import CHAINS, OTHERS, PROFILES, RealInWorlds, first_values

CLOCKS_DIFFER_S = 400.0  # between workers, now and then: so exact are all spans of time
StepFunction = Callable[..., LoopStep]


CONTROLLERS = (
    Follower("follower", contrary=False, moves_queries=True), Follower("contrary", contrary=True, moves_queries=True),
    Follower("careless", contrary=False, moves_queries=False),
    Follower("many", contrary=False, moves_queries=True, alongside=True))
ADAPTATION = WorldAdaptation()
AnyController = Follower | WorldAdaptation | RealInWorlds
ALONGSIDE = frozenset(controller.name for controller in (*CONTROLLERS, ADAPTATION) if controller.alongside)


@dataclass
class Carried:
    """What the site has made of one round; ``pieces`` of its changes are in force."""

    turn: Round
    phase: str
    pieces: int = 0
    came_to_be_s: float = math.inf
    refused: bool = False
    is_good: bool = True
    fails: bool = False
    by_hand: bool = False  # people take it back


@dataclass
class World:
    """Everything that outlives a process, and what people and the load do; ``log`` is when what got which value.

    Where it ``adapts``, adaptation is among its controllers, with isolation and re-measuring.
    """

    seed: int
    step: StepFunction = step
    adapts: bool = False
    now_s: float = 1e9
    state: LoopState = field(default_factory=LoopState)
    carried: dict[str, Carried] = field(default_factory=dict)
    values: dict[tuple[str, str], str] = field(default_factory=dict)
    log: list[tuple[float, str, bool, AspectChange]] = field(default_factory=list)
    decided: dict[str, tuple[Round, dict[str, Policy]]] = field(default_factory=dict)
    evidence_age_s: dict[str, float] = field(default_factory=dict)
    delayed: list[Command] = field(default_factory=list)
    seen: dict[str, CommandProgress] = field(default_factory=dict)

    def __post_init__(self) -> None:
        chance = self.chance = Random(self.seed)
        self.policies = {
            (controller.name, team): Policy(
                chance.choice((OFF, RECOMMENDS, ACTS, ACTS)), chance.randint(0, 3), chance.randint(0, 8),
                chance.choice((0.0, 600.0, 1800.0, 7200.0)))
            for controller in CONTROLLERS for team in TEAMS}
        self.periods_s = {subject: chance.choice((120.0, 900.0, 3600.0, 20_000.0)) for subject in SUBJECTS}
        self.trouble = chance.choice((0.0, 0.1, 0.3))
        for subject in SUBJECTS:
            for aspect in (Aspect.SLOT, Aspect.PROFILE):
                self.values[aspect, subject] = SIZES[0]
        self.controllers: tuple[AnyController, ...] = CONTROLLERS
        if self.adapts:
            self.controllers = (*CONTROLLERS, ADAPTATION, *OTHERS)
            self.policies |= {(controller.name, team): Policy(
                chance.choice((RECOMMENDS, ACTS, ACTS)), chance.randint(0, 6), chance.randint(0, 20),
                chance.choice((0.0, 300.0, 1800.0))) for controller in (ADAPTATION, *OTHERS) for team in TEAMS}
            self.periods_s |= {subject: chance.choice((900.0, 3600.0, 20_000.0))
                               for subject in (*DATAFLOWS, *CHAINS, *PROFILES)}
            self.values |= first_values()
            self.values |= {(Aspect.ALTERNATE, task): DEAR for name in DATAFLOWS for task in tasks_of(name)}

    def policies_of(self, controller: str) -> dict[str, Policy]:
        return {team: self.policies[controller, team] for team in TEAMS}

    # The loop, as a worker runs it -----------------------------------------------------------------------------------

    def play(self, ticks: int) -> None:
        """Let time pass with trouble, then without, until everything in flight has come to its end."""
        for _ in range(ticks):
            self.now_s += self.chance.choice((5.0, 30.0, 60.0, 60.0, 300.0, 2000.0))
            if self.chance.random() < 0.03:
                self._change_a_mode()
            self._site()
            self._tick(self.chance.choice(self.controllers), decides=True)
        self.trouble = 0.0
        for _ in range(400):
            was_open = any(turn.is_open for turn in self.state.rounds) or bool(self.delayed) or self._is_moving()
            self.now_s += 60.0
            self._site()
            for controller in self.controllers:
                self._tick(controller, decides=False)
            if not was_open:
                return
        raise AssertionError(f"still in flight: {[turn for turn in self.state.rounds if turn.is_open]}")

    def _tick(self, controller: AnyController, *, decides: bool) -> None:
        if self._strikes():
            return  # the worker is away
        clock_s = self.now_s - (self.chance.choice((0.0, CLOCKS_DIFFER_S)) if self._strikes() else 0.0)
        observations = self._observations(controller, decides)
        result = self.step(
            controller, self.state, observations, self.policies_of(controller.name), now_s=clock_s)
        if self._strikes():
            return  # killed before anything was stored
        for turn in result.state.rounds:
            if turn.key not in self.decided:
                self.decided[turn.key] = turn, self.policies_of(controller.name)
                self.evidence_age_s[turn.key] = turn.begun_s - observations.measured_s
        self.state = result.state
        for command in result.commands:
            if self._strikes():
                return  # killed in the middle
            if self._strikes():
                self.delayed.append(command)  # a worker that was stopped, and goes on later
            self._carry_out(command)
        while self.delayed and self.chance.random() < 0.5:
            self._carry_out(self.delayed.pop(self.chance.randrange(len(self.delayed))))

    def _observations(self, controller: AnyController, decides: bool) -> Observations:
        if not self._strikes():
            self.seen = {
                key: CommandProgress(carried.phase, refused=carried.refused) for key, carried in self.carried.items()}
        evidence = {subject: (self._load(subject), controller.on(self.values, subject))
                    for subject in controller.subjects}
        measured_s = self.now_s
        if self._strikes():
            measured_s += self.chance.choice((-3000.0, -200.0, 500.0))
        if self._strikes():
            evidence = {subject: (self.chance.choice((math.nan, -1.0, 1e12)), value)
                        for subject, (_, value) in evidence.items()}
        effects = {
            turn.key: self._effect(turn) for turn in self.state.rounds
            if turn.controller == controller.name and turn.changed_s is not None and turn.is_open}
        return Observations(
            evidence if decides else None, measured_s, self.seen, {key: effect for key, effect in effects.items()
                                                                   if effect is not None})

    def _effect(self, turn: Round) -> Effect | None:
        if self._strikes():
            return None
        is_good = self.carried[turn.key].is_good
        begin_s = turn.changed_s - (5000.0 if self._strikes() else 0.0)  # some is from before the change
        if begin_s < turn.changed_s:
            is_good = not is_good  # and says the opposite
        true = {bound.measure: 0.875 * bound.at_most if is_good else max(bound.before, 1.25 * bound.at_most)
                for bound in turn.decision.promise.bounds}
        moments = [begin_s + 10.0 * number for number in range(40) if begin_s + 10.0 * number <= self.now_s]
        return Effect(begin_s, tuple(
            MeasureSample(at_s, {measure: self._measured(figure, at) for measure, figure in true.items()})
            for at, at_s in enumerate(moments)))

    def _measured(self, true: float, at: int) -> float:
        if at % 3 == 0 and self.chance.random() < 0.6:  # never so many that the median of six is wrong
            return self.chance.choice((math.nan, math.inf, -3.0, 50.0, 0.0))
        return true * self.chance.uniform(0.95, 1.05)

    # The site, as it carries commands out ----------------------------------------------------------------------------

    def _carry_out(self, command: Command) -> None:
        carried = self.carried.get(command.round.key)
        if isinstance(command, Begin):
            if carried is None:
                decision, name = command.round.decision, command.round.controller
                asks = command.round.mode != ACTS or any(
                    self.policies[name, team].mode != ACTS for team in decision.touched)
                if not asks and self._is_restless(decision):
                    return  # it is commanded again
                self.carried[command.round.key] = Carried(
                    command.round, "asked" if asks else "enacting", is_good=self.chance.random() < 0.6,
                    fails=self.chance.random() < 0.1)
        elif isinstance(command, RollBack):
            if carried is not None and carried.phase in {"enacting", "in_force", "failing"}:
                carried.phase = "rolling_back"
        elif carried is None:
            self.carried[command.round.key] = Carried(command.round, "declined")
        elif carried.phase == "asked":
            carried.phase = "declined"

    def _site(self) -> None:
        """People answer, and what is under way goes on by a piece; a site that was killed goes on the next time."""
        for key, carried in self.carried.items():
            if self._strikes():
                continue
            if carried.phase == "asked" and self.chance.random() < 0.5:
                refuses = self.chance.random() < 0.3
                if not refuses and self._is_restless(carried.turn.decision):
                    continue  # people are told to wait
                carried.phase, carried.refused = ("declined", True) if refuses else ("enacting", False)
            elif carried.phase == "enacting":
                self._piece(key, carried, forward=True)
                if carried.pieces == len(carried.turn.decision.changes):
                    carried.phase = "failing" if carried.fails and carried.turn.mode == ACTS else "in_force"
            elif carried.phase == "rolling_back":
                if carried.pieces:
                    self._piece(key, carried, forward=False)
                if not carried.pieces:
                    carried.phase = "rolled_back"
            elif carried.phase == "in_force" and self.trouble and self.chance.random() < 0.005:
                carried.phase, carried.by_hand = "rolling_back", True

    def _piece(self, key: str, carried: Carried, *, forward: bool) -> None:
        changes = carried.turn.decision.changes
        change = changes[carried.pieces] if forward else changes[carried.pieces - 1].reverse
        carried.pieces += 1 if forward else -1
        self.values[change.what] = change.after
        self.log.append((self.now_s, key, forward, change))

    def _is_restless(self, decision: Decision) -> bool:
        """Whether queries are being changed, which a decision that changes some waits for."""
        return decision.moves_queries and any(
            carried.turn.decision.moves_queries and carried.phase in {"enacting", "rolling_back", "failing"}
            for carried in self.carried.values())

    def _is_moving(self) -> bool:
        return any(carried.phase in {"enacting", "rolling_back"} for carried in self.carried.values())

    def _load(self, subject: str) -> float:
        return LOAD * (1 + 0.5 * math.sin(2 * math.pi * self.now_s / self.periods_s[subject]))

    def _change_a_mode(self) -> None:
        chosen = self.chance.choice(sorted(self.policies))
        self.policies[chosen] = replace(self.policies[chosen], mode=self.chance.choice((OFF, RECOMMENDS, ACTS)))

    def _strikes(self) -> bool:
        return self.chance.random() < self.trouble


# Judging --------------------------------------------------------------------------------------------------------------


def faults(world: World) -> list[str]:
    """What the loop did that it must not, by the world's log; none where all is well."""
    judges = (_budgets, _back_and_forth, _restless, _half_done, _promises, _begun_rounds)
    return [fault for judge in judges for fault in judge(world)]


def _budgets(world: World) -> Iterator[str]:
    begun: dict[tuple[str, str], list[float]] = defaultdict(list)
    first = {}
    for at_s, key, forward, _ in world.log:
        if forward:
            first.setdefault(key, at_s)
    for key, at_s in first.items():
        turn, policies = world.decided[key]
        acting = [team for team in turn.decision.touched if policies[team].mode == ACTS]
        for team in (turn.decision.team, *acting):
            begun[turn.controller, team].append(at_s)
    for (controller, team), moments in begun.items():
        policy = world.policies[controller, team]
        for name, span_s, most in (("hour", HOUR_S, policy.changes_per_hour), ("day", DAY_S, policy.changes_per_day)):
            for at_s in moments:
                count = sum(at_s - span_s + CLOCKS_DIFFER_S < other_s <= at_s for other_s in moments)
                if count > most:
                    yield f"{controller} made {count} changes of {team!r} in a {name}, of {most}"


def _back_and_forth(world: World) -> Iterator[str]:
    had: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for at_s, key, forward, change in world.log:
        turn, policies = world.decided[key]
        cool_down_s = policies[turn.decision.team].cool_down_s
        until_s = had[change.what].get(change.after)
        if forward and until_s is not None and at_s - until_s < cool_down_s - CLOCKS_DIFFER_S:
            yield f"{key} gave {change.what} the value {change.after}, which it had {at_s - until_s:.0f} s before"
        if not world.carried[key].by_hand or forward:  # the loop may not have heard yet of what people do
            had[change.what][change.before] = at_s


def _restless(world: World) -> Iterator[str]:
    """A target rests for the cool-down after a change, and for a day from what people refused or what did not help."""
    last: dict[tuple[str, str], tuple[float, str]] = {}
    for at_s, key, forward, _ in world.log:
        turn, policies = world.decided[key]
        about = _about(turn)
        before_s, other = last.get(about, (-math.inf, key))
        if forward and other != key and at_s - before_s < policies[turn.decision.team].cool_down_s - CLOCKS_DIFFER_S:
            yield f"{key} changed {turn.decision.target} {at_s - before_s:.0f} s after {other}"
        if not world.carried[key].by_hand or forward:
            last[about] = (at_s, key)
    ends = {turn.key: turn for turn in world.state.rounds}
    for turn, _ in world.decided.values():
        for other in ends.values():
            since_s = max(other.ended_s or math.inf, other.back_s or 0.0)
            if other.key == turn.key or _about(other) != _about(turn) or not 0 < turn.begun_s - since_s < DAY_S:
                continue
            if other.refused or (other.phase in {ROLLED_BACK, BROKEN} and _are_equal(other.decision, turn.decision)):
                yield f"{turn.key} tries {turn.decision.target} again, after {other.key}"


def _about(turn: Round) -> tuple[str, str]:
    return turn.controller, turn.decision.target


def _are_equal(one: Decision, other: Decision) -> bool:
    return {(change.what, change.after) for change in one.changes} == {
        (change.what, change.after) for change in other.changes}


def _half_done(world: World) -> Iterator[str]:
    """Every round is in force as a whole, or not at all, and its end says which."""
    ends = {turn.key: turn for turn in world.state.rounds}
    for key, carried in world.carried.items():
        if carried.pieces not in (0, len(carried.turn.decision.changes)):
            yield f"{key} is half done"
        turn = ends.get(key)
        if turn is None:
            continue  # forgotten, long after its end
        expected = {KEPT: "in_force", BROKEN: "in_force", UNCHECKED: "in_force", ROLLED_BACK: "rolled_back",
                    DECLINED: "declined"}.get(turn.phase)
        if carried.phase != expected:
            yield f"{key} ended {turn.phase}, and is {carried.phase}"
    times = Counter((key, forward, change) for _, key, forward, change in world.log)
    for (key, forward, change), count in times.items():
        if count > 1:
            yield f"{key} was done {count} times: {change}, {forward}"
    for key in world.decided:
        if key not in world.carried:
            yield f"{key} was decided and nothing came of it"


def _promises(world: World) -> Iterator[str]:
    for turn in world.state.rounds:
        carried = world.carried.get(turn.key)
        if carried is None:
            continue
        if turn.phase == KEPT and (not carried.is_good or (carried.fails and turn.mode == ACTS)):
            yield f"{turn.key} was kept, and its promise did not come"
        if turn.phase == BROKEN and (carried.is_good or turn.mode == ACTS):
            yield f"{turn.key} ended broken: good {carried.is_good}, {turn.mode}"


def _begun_rounds(world: World) -> Iterator[str]:
    """No team has two rounds of a controller in flight, but for those that go alongside others, of which no two are
    about the same or move at once; nothing begins that is off, or by what was long ago."""
    for key, (turn, policies) in world.decided.items():
        if policies[turn.decision.team].mode == OFF:
            yield f"{key} began though it is off"
        if not 0 <= world.evidence_age_s[key] <= 300:
            yield f"{key} began by evidence of {world.evidence_age_s[key]:.0f} s before"
    rounds = world.state.rounds
    for turn in rounds:
        for other in rounds:
            if other.key == turn.key or other.controller != turn.controller or (
                    other.decision.team != turn.decision.team) or not (
                    turn.begun_s < other.begun_s < (turn.ended_s or math.inf)):
                continue
            if turn.controller not in ALONGSIDE or turn.decision.target == other.decision.target:
                yield f"{turn.key} and {other.key} were in flight at once"
    for key, moment_s in first_pieces(world.log).items():
        for other, (begin_s, end_s) in spans_of_pieces(world.log).items():
            if other != key and begin_s < moment_s < end_s and all(
                    world.decided[round_key][0].decision.moves_queries for round_key in (key, other)):
                yield f"{key} and {other} moved queries at once"
