"""The loop's engine: one step from what is known and observed to what is known then, and the commands to carry out.

Whatever a step decides is in the state that it returns; its commands follow from that state. So whoever runs the loop
stores the state first and carries the commands out afterwards: a process that is killed in between, or in the middle,
gives the same commands again with the next step, and each is carried out once for the key of its round.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from scheduler.model.latency_limits import figure_in_words

from .controller_port import OLDEST_EVIDENCE_S, CommandProgress, Controller, Effect, Observations
from .loop_values import (
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
    IdleReason,
    LoopState,
    Policy,
    RollBack,
    Round,
    WithdrawRound,
)
from .vetoes import forgotten, veto

EARLY_S = 1.0  # turns of the loop are not exact: what is due with each is not to miss every second one
GIVE_UP_S = 600.0  # a round that nothing carries out for so long is withdrawn


@dataclass(frozen=True, slots=True)
class LoopStep:
    """The result of one step: the state to store, then commands to carry out; and why nothing was begun, by team."""

    state: LoopState
    commands: tuple[Command, ...] = ()
    reasons: tuple[IdleReason, ...] = ()


def is_due(controller: Controller, *, decided_s: float, now_s: float) -> bool:
    """True if a controller that decided last at a moment decides again now; also where the clock was put back."""
    since_s = now_s - decided_s
    return since_s < 0 or since_s >= controller.every_s - EARLY_S


def step(
    controller: Controller, state: LoopState, observations: Observations, policies: Mapping[str, Policy], *,
    now_s: float
) -> LoopStep:
    """Follow a controller's rounds in flight, and begin new ones where it is time to decide.

    Parameters
    ----------
    state : LoopState
        Rounds of all controllers, as the last step returned them.
    observations : Observations
        The progress of the rounds in flight, and the evidence to decide by.
    policies : mapping of str to Policy
        Of each team, for this controller; of a team that is not there its usual policy holds.
    """
    now_s = max(now_s, state.clock_s)
    rounds = tuple(
        _followed(controller, loop_round, observations, policies, now_s)
        if loop_round.controller == controller.name else loop_round for loop_round in state.rounds)
    state = replace(state, rounds=forgotten(rounds, now_s=now_s), clock_s=now_s)
    state, reasons = _decided(controller, state, observations, policies, now_s)
    commands = tuple(
        command for loop_round in state.rounds
        if loop_round.controller == controller.name and (command := _command(controller, loop_round)) is not None)
    return LoopStep(state, commands, reasons)


# Following ------------------------------------------------------------------------------------------------------------


def _followed(
    controller: Controller, loop_round: Round, observations: Observations, policies: Mapping[str, Policy], now_s: float
) -> Round:
    """A round after its newest progress; an ended round changes only if people took its change back since."""
    loop_round = _round_after(loop_round, observations.progress.get(loop_round.key, CommandProgress("absent")), now_s)
    if loop_round.phase == CHECKING:
        return _checked(controller, loop_round, observations.effects.get(loop_round.key), now_s)
    off = policies.get(loop_round.decision.team, controller.usual).mode == OFF
    if loop_round.phase in {BEGUN, ASKED} and off:
        return replace(loop_round, phase=WITHDRAWING, why="It was turned off before anything had changed.")
    if loop_round.phase == BEGUN and now_s - loop_round.begun_s > GIVE_UP_S:
        return replace(loop_round, phase=WITHDRAWING, why="Nothing carried it out in time.")
    return loop_round


def _round_after(loop_round: Round, progress: CommandProgress, now_s: float) -> Round:
    """The round after a report of its progress, which counts only as far as the round can have come: late news of an
    earlier phase change nothing."""
    become = _BECOMES.get((loop_round.phase, progress.phase))
    return loop_round if become is None else become(loop_round, progress, now_s)


_Become = Callable[[Round, CommandProgress, float], Round]


def _to(phase: str) -> _Become:
    return lambda loop_round, progress, now_s: replace(loop_round, phase=phase, why=progress.why or loop_round.why)


def _in_force(loop_round: Round, progress: CommandProgress, now_s: float) -> Round:
    return replace(loop_round, phase=CHECKING, changed_s=now_s, why=progress.why)


def _declined(loop_round: Round, progress: CommandProgress, now_s: float) -> Round:
    return replace(
        loop_round, phase=DECLINED, ended_s=now_s, why=progress.why or loop_round.why, refused=progress.refused)


def _back(loop_round: Round, progress: CommandProgress, now_s: float) -> Round:
    changed_s = now_s if loop_round.changed_s is None else loop_round.changed_s
    reason = loop_round.why if loop_round.phase == ROLLING_BACK else progress.why or "It was rolled back."
    return replace(loop_round, phase=ROLLED_BACK, changed_s=changed_s, back_s=now_s, ended_s=now_s, why=reason)


def _taken_back(loop_round: Round, progress: CommandProgress, now_s: float) -> Round:
    """People took back what had ended well: it is left as they want it."""
    return replace(loop_round, phase=ROLLED_BACK, back_s=now_s, why=progress.why or "It was rolled back.", refused=True)


def _failing(loop_round: Round, progress: CommandProgress, now_s: float) -> Round:
    """Round after a failure, which is taken back where Weir acted by itself; else people are told, who approved it."""
    if loop_round.mode != ACTS:
        return replace(loop_round, phase=ENACTING, why=progress.why)
    return replace(loop_round, phase=ROLLING_BACK, why=progress.why)


def _stuck(loop_round: Round, progress: CommandProgress, now_s: float) -> Round:
    changed_s = now_s if loop_round.changed_s is None else loop_round.changed_s
    return replace(
        loop_round, phase=STUCK, changed_s=changed_s, ended_s=now_s, why=f"{loop_round.why} {progress.why}".strip())


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


def _checked(controller: Controller, loop_round: Round, effect: Effect | None, now_s: float) -> Round:
    """Hold a round to its promise: kept as soon as that shows, broken when its time is up and not before, but at once
    where it does harm."""
    promise = loop_round.decision.promise
    waited_s = now_s - loop_round.changed_s
    # What was measured before the change says nothing of it, and what is from the future is wrong.
    of_now = effect is not None and effect.begin_s >= loop_round.changed_s and all(
        loop_round.changed_s <= sample.at_s <= now_s for sample in effect.samples)
    verdict, words = controller.check(promise, effect) if of_now else ("too early", "Nothing was measured since.")
    if verdict == "kept":
        return replace(loop_round, phase=KEPT, ended_s=now_s, why=words)
    if waited_s < promise.within_s and verdict != "harmful":
        return replace(loop_round, why=words)
    if verdict in {"broken", "harmful"}:
        return replace(loop_round, phase=ROLLING_BACK, why=words) if loop_round.mode == ACTS else replace(
            loop_round, phase=BROKEN, ended_s=now_s, why=words)
    if waited_s >= (2 if promise.bounds else 1) * promise.within_s:  # what promises no figure is not waited for
        return replace(loop_round, phase=UNCHECKED, ended_s=now_s, why=words)
    return replace(loop_round, why=words)


# Deciding -------------------------------------------------------------------------------------------------------------


def _decided(
    controller: Controller, state: LoopState, observations: Observations, policies: Mapping[str, Policy], now_s: float
) -> tuple[LoopState, tuple[IdleReason, ...]]:
    """Begin what is worth it and what nothing stands against, the most worth first."""
    if observations.evidence is None:
        return state, ()
    age_s = now_s - observations.measured_s
    if not 0 <= age_s <= OLDEST_EVIDENCE_S:
        age = f"{figure_in_words(age_s)} old" if age_s > 0 else "from the future"
        cause = f"What was observed is {age}."
        teams = [team for team, policy in policies.items() if policy.mode != OFF]
        return state, tuple(IdleReason(team, "", cause) for team in teams)
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
            reasons.setdefault(about, IdleReason(*about, f"{why_not} {decision.why}"))
    return state, tuple(reason for about, reason in reasons.items() if about not in begun)


def _with_round(
    controller: Controller, state: LoopState, decision: Decision, policies: Mapping[str, Policy], now_s: float
) -> LoopState:
    mode = policies.get(decision.team, controller.usual).mode
    loop_round = Round(f"{controller.name}-{state.next_number}", controller.name, mode, decision, begun_s=now_s)
    return replace(state, rounds=(*state.rounds, loop_round), next_number=state.next_number + 1)


def _command(controller: Controller, loop_round: Round) -> Command | None:
    """The command that a round needs in its present state."""
    if loop_round.phase == BEGUN:
        return Begin(loop_round)
    if loop_round.phase == WITHDRAWING:
        return WithdrawRound(loop_round)
    if loop_round.phase == ROLLING_BACK:
        return RollBack(loop_round, controller.rollback(loop_round.decision))
    return None
