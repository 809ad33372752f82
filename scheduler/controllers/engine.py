"""The loop's engine: one step from what is known and observed to what is known then, and the commands to carry out.

Whatever a step decides is in the state that it returns; its commands follow from that state. So whoever runs the loop
stores the state first and carries the commands out afterwards: a process that is killed in between, or in the middle,
gives the same commands again with the next step, and each is carried out once for the key of its round.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from .limits import forgotten, veto
from .protocol import OLDEST_EVIDENCE_S, Controller, Effect, Observations, Progress
from .values import (
    ACTS,
    ASKED,
    BEGUN,
    BROKEN,
    CHECKING,
    DECLINED,
    ENACTING,
    KEPT,
    OFF,
    ROLLED_BACK,
    ROLLING_BACK,
    STUCK,
    UNCHECKED,
    WITHDRAWING,
    Begin,
    Command,
    Decision,
    Policy,
    Reason,
    RollBack,
    Round,
    State,
    Withdraw,
)

EARLY_S = 1.0  # turns of the loop do not come to the millisecond: what is due with each is not to miss every second one
GIVE_UP_S = 600.0  # a round that nothing carries out for so long is withdrawn


@dataclass(frozen=True, slots=True)
class Step:
    """What one step came to: the state to store, then commands to carry out; and why nothing was begun, by team."""

    state: State
    commands: tuple[Command, ...] = ()
    reasons: tuple[Reason, ...] = ()


def is_due(controller: Controller, *, decided_s: float, now_s: float) -> bool:
    """Whether a controller that decided last at a moment decides again now; also where the clock was put back."""
    since_s = now_s - decided_s
    return since_s < 0 or since_s >= controller.every_s - EARLY_S


def step(
    controller: Controller, state: State, observations: Observations, policies: Mapping[str, Policy], *, now_s: float
) -> Step:
    """Follow a controller's rounds in flight, and begin new ones where it is time to decide.

    Parameters
    ----------
    state : State
        Rounds of all controllers, as the last step returned them.
    observations : Observations
        What has become of the rounds in flight, and the evidence to decide by.
    policies : mapping of str to Policy
        Of each team, for this controller; of a team that is not there its usual policy holds.
    now_s : float
        The present moment, in seconds since the epoch. One before the last is taken for the last.

    Returns
    -------
    Step
        The same arguments always give the same one.
    """
    now_s = max(now_s, state.clock_s)
    rounds = tuple(
        _followed(controller, turn, observations, policies, now_s)
        if turn.controller == controller.name else turn for turn in state.rounds)
    state = replace(state, rounds=forgotten(rounds, now_s=now_s), clock_s=now_s)
    state, reasons = _decided(controller, state, observations, policies, now_s)
    commands = tuple(
        command for turn in state.rounds
        if turn.controller == controller.name and (command := _command(controller, turn)) is not None)
    return Step(state, commands, reasons)


# Following ------------------------------------------------------------------------------------------------------------


def _followed(
    controller: Controller, turn: Round, observations: Observations, policies: Mapping[str, Policy], now_s: float
) -> Round:
    """A round as it is after what was heard of it; one that has ended only where people took its change back since."""
    turn = _heard(turn, observations.progress.get(turn.key, Progress("absent")), now_s)
    if turn.phase == CHECKING:
        return _checked(controller, turn, observations.effects.get(turn.key), now_s)
    off = policies.get(turn.decision.team, controller.usual).mode == OFF
    if turn.phase in {BEGUN, ASKED} and off:
        return replace(turn, phase=WITHDRAWING, why="It was turned off before anything had changed.")
    if turn.phase == BEGUN and now_s - turn.begun_s > GIVE_UP_S:
        return replace(turn, phase=WITHDRAWING, why="Nothing carried it out in time.")
    return turn


def _heard(turn: Round, progress: Progress, now_s: float) -> Round:
    """What was heard counts only as far as the round can have come: late news of an earlier phase change nothing."""
    become = _BECOMES.get((turn.phase, progress.phase))
    return turn if become is None else become(turn, progress, now_s)


_Become = Callable[[Round, Progress, float], Round]


def _to(phase: str) -> _Become:
    return lambda turn, progress, now_s: replace(turn, phase=phase, why=progress.why or turn.why)


def _in_force(turn: Round, progress: Progress, now_s: float) -> Round:
    return replace(turn, phase=CHECKING, changed_s=now_s, why=progress.why)


def _declined(turn: Round, progress: Progress, now_s: float) -> Round:
    return replace(turn, phase=DECLINED, ended_s=now_s, why=progress.why or turn.why, refused=progress.refused)


def _back(turn: Round, progress: Progress, now_s: float) -> Round:
    changed_s = now_s if turn.changed_s is None else turn.changed_s
    why = turn.why if turn.phase == ROLLING_BACK else progress.why or "It was rolled back."
    return replace(turn, phase=ROLLED_BACK, changed_s=changed_s, back_s=now_s, ended_s=now_s, why=why)


def _taken_back(turn: Round, progress: Progress, now_s: float) -> Round:
    """People took back what had ended well: it is left as they want it."""
    return replace(turn, phase=ROLLED_BACK, back_s=now_s, why=progress.why or "It was rolled back.", refused=True)


def _failing(turn: Round, progress: Progress, now_s: float) -> Round:
    """What fails is taken back where Weir acted by itself; else people are told, who approved it."""
    if turn.mode != ACTS:
        return replace(turn, phase=ENACTING, why=progress.why)
    return replace(turn, phase=ROLLING_BACK, why=progress.why)


def _stuck(turn: Round, progress: Progress, now_s: float) -> Round:
    changed_s = now_s if turn.changed_s is None else turn.changed_s
    return replace(turn, phase=STUCK, changed_s=changed_s, ended_s=now_s, why=f"{turn.why} {progress.why}".strip())


_BECOMES: Mapping[tuple[str, str], _Become] = {
    **{(phase, "asked"): _to(ASKED) for phase in (BEGUN, ASKED)},
    **{(phase, "enacting"): _to(ENACTING) for phase in (BEGUN, ASKED, WITHDRAWING, ENACTING)},
    **{(phase, "in_force"): _in_force for phase in (BEGUN, ASKED, WITHDRAWING, ENACTING)},
    **{(phase, "failing"): _failing for phase in (BEGUN, ASKED, WITHDRAWING, ENACTING)},
    **{(phase, "overtaken"): _to(WITHDRAWING) for phase in (BEGUN, ASKED)},
    **{(phase, "declined"): _declined for phase in (BEGUN, ASKED, WITHDRAWING, ENACTING)},
    **{(phase, "rolling_back"): _to(ROLLING_BACK) for phase in (BEGUN, ASKED, WITHDRAWING, ENACTING, CHECKING)},
    **{(phase, "rolled_back"): _back
       for phase in (BEGUN, ASKED, WITHDRAWING, ENACTING, CHECKING, ROLLING_BACK)},
    **{(phase, "rolled_back"): _taken_back for phase in (KEPT, BROKEN, UNCHECKED)},
    (ROLLING_BACK, "stuck"): _stuck,
}


def _checked(controller: Controller, turn: Round, effect: Effect | None, now_s: float) -> Round:
    """Hold a round to its promise: kept as soon as that shows, broken when its time is up and not before, but at once
    where it does harm."""
    promise = turn.decision.promise
    waited_s = now_s - turn.changed_s
    # What was measured before the change says nothing of it, and what is from the future is wrong.
    of_now = effect is not None and effect.begin_s >= turn.changed_s and all(
        turn.changed_s <= sample.at_s <= now_s for sample in effect.samples)
    verdict, words = controller.check(promise, effect) if of_now else ("too early", "Nothing was measured since.")
    if verdict == "kept":
        return replace(turn, phase=KEPT, ended_s=now_s, why=words)
    if waited_s < promise.within_s and verdict != "harmful":
        return replace(turn, why=words)
    if verdict in {"broken", "harmful"}:
        return replace(turn, phase=ROLLING_BACK, why=words) if turn.mode == ACTS else replace(
            turn, phase=BROKEN, ended_s=now_s, why=words)
    if waited_s >= (2 if promise.bounds else 1) * promise.within_s:  # what promises no figure is not waited for
        return replace(turn, phase=UNCHECKED, ended_s=now_s, why=words)
    return replace(turn, why=words)


# Deciding -------------------------------------------------------------------------------------------------------------


def _decided(
    controller: Controller, state: State, observations: Observations, policies: Mapping[str, Policy], now_s: float
) -> tuple[State, tuple[Reason, ...]]:
    """Begin what is worth it and what nothing stands against, the most worth first."""
    if observations.evidence is None:
        return state, ()
    age_s = now_s - observations.measured_s
    if not 0 <= age_s <= OLDEST_EVIDENCE_S:
        why = f"What was observed is {age_s:.0f} s old." if age_s > 0 else "What was observed is from the future."
        teams = [team for team, policy in policies.items() if policy.mode != OFF]
        return state, tuple(Reason(team, "", why) for team in teams)
    evaluation = controller.evaluate(observations.evidence, policies)
    reasons = {(reason.team, reason.target): reason for reason in evaluation.reasons}
    begun: set[tuple[str, str]] = set()
    for decision in sorted(evaluation.decisions, key=lambda decision: (-decision.worth, decision.target)):
        about = (decision.team, decision.target)
        why_not = observations.busy.get(decision.target, "") or veto(
            controller, state, decision, policies, now_s=now_s)
        if not why_not:
            state = _with_round(controller, state, decision, policies, now_s)
            begun.add(about)
        else:  # of several steps for one target the most worth says why
            reasons.setdefault(about, Reason(*about, f"{why_not} {decision.why}"))
    return state, tuple(reason for about, reason in reasons.items() if about not in begun)


def _with_round(
    controller: Controller, state: State, decision: Decision, policies: Mapping[str, Policy], now_s: float
) -> State:
    mode = policies.get(decision.team, controller.usual).mode
    turn = Round(f"{controller.name}-{state.next_number}", controller.name, mode, decision, begun_s=now_s)
    return replace(state, rounds=(*state.rounds, turn), next_number=state.next_number + 1)


def _command(controller: Controller, turn: Round) -> Command | None:
    """What has to be done for a round as it stands, again with each step until it is heard to be done."""
    if turn.phase == BEGUN:
        return Begin(turn)
    if turn.phase == WITHDRAWING:
        return Withdraw(turn)
    if turn.phase == ROLLING_BACK:
        return RollBack(turn, controller.rollback(turn.decision))
    return None
