"""Vetoes against too many changes by the loop: budgets, rest, and nothing back and forth. Each veto is a sentence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from .changes import AspectChange, ChangeValue
from .controller_port import Controller
from .loop_values import (
    ACTS,
    ASKED,
    BROKEN,
    DAY_S,
    DECLINED,
    HOUR_S,
    MOVING,
    OFF,
    ROLLED_BACK,
    STUCK,
    Decision,
    LoopState,
    Policy,
    Round,
)

PEACE_S = DAY_S  # for so long what was refused, or did not bring what it promised, is not tried again


@dataclass(frozen=True, slots=True)
class Allowance:
    """The remaining changes of a team for a controller, in the hour and in the day."""

    in_hour: int
    in_day: int


def allowance(state: LoopState, controller: str, team: str, policy: Policy, *, now_s: float) -> Allowance:
    """The remainder of a team's budget for a controller.

    Every round counts that has begun, also one that people approve, or that was taken back, for as long as it is in
    flight and then from its last change; one that was given up before it changed or proposed anything does not. Rounds
    about other teams' dataflows count where they touch this one.
    """
    moments = [
        _last_s(loop_round, now_s) for loop_round in state.rounds
        if loop_round.controller == controller and team in loop_round.decision.teams and _counts(loop_round)]
    return Allowance(
        max(0, policy.changes_per_hour - sum(moment > now_s - HOUR_S for moment in moments)),
        max(0, policy.changes_per_day - sum(moment > now_s - DAY_S for moment in moments)))


def veto(
    controller: Controller, state: LoopState, decision: Decision, policies: Mapping[str, Policy], *, now_s: float
) -> str:
    """The reason why a decision is not carried out now; empty where nothing stands against it.

    Parameters
    ----------
    policies : mapping of str to Policy
        By team, for this controller.
    """
    policy = policies.get(decision.team, controller.usual)
    if policy.mode == OFF:
        return "It is off."
    return next(filter(None, (
        *_in_flight(controller, state, decision),
        _unwelcome(controller, state, decision, now_s),
        *(() if decision.urgent else (
            _undone(state, decision, now_s),
            _back_and_forth(state, decision, policy, now_s),
            _cool_down(controller, state, decision, policy, now_s),
            _over_budget(controller, state, decision, policies, now_s))))), "")


def _in_flight(controller: Controller, state: LoopState, decision: Decision) -> Iterator[str]:
    """The rounds under way that stand against a decision; against what is urgent, only what moves queries or is the
    same.

    Against what goes alongside others stands of its team only what is moving, and of other controllers' rounds about
    its target none that people are merely asked about: nothing has changed yet that it could be confused with.
    """
    subjects = {change.what for change in decision.changes}
    for loop_round in state.rounds:
        if not loop_round.is_open:
            continue
        is_same_loop = loop_round.controller == controller.name and loop_round.decision.team == decision.team
        rests = loop_round.phase not in MOVING
        waits = decision.urgent and rests
        same_subjects = subjects & {change.what for change in loop_round.decision.changes}
        if is_same_loop and not waits and not (decision.alongside and rests):
            yield "The round before is still in flight."
        elif decision.moves_queries and loop_round.decision.moves_queries and loop_round.phase in MOVING:
            yield "Queries are being changed already, and the estate changes them one plan at a time."
        elif same_subjects or (loop_round.decision.target == decision.target and not waits and not (
                decision.alongside and loop_round.phase == ASKED and loop_round.controller != controller.name)):
            yield f"A round of {loop_round.controller} about the same is in flight."


def _over_budget(
    controller: Controller, state: LoopState, decision: Decision, policies: Mapping[str, Policy], now_s: float
) -> str:
    for team in decision.teams:
        policy = policies.get(team, controller.usual)
        if team != decision.team and policy.mode != ACTS:
            continue  # it is asked
        remaining = allowance(state, controller.name, team, policy, now_s=now_s)
        whose = "The" if team == decision.team else "A touched team's"
        if not remaining.in_hour:
            return f"{whose} budget of {policy.changes_per_hour} changes an hour is used up."
        if not remaining.in_day:
            return f"{whose} budget of {policy.changes_per_day} changes a day is used up."
    return ""


def _cool_down(controller: Controller, state: LoopState, decision: Decision, policy: Policy, now_s: float) -> str:
    """The reason against a change within the cool-down after another one of the target."""
    for loop_round in state.rounds:
        if (loop_round.controller != controller.name or loop_round.decision.target != decision.target
                or not loop_round.has_changed):
            continue
        left_s = _last_s(loop_round, now_s) + policy.cool_down_s - now_s
        if left_s > 0:
            return f"It was changed lately: the cool-down has {left_s / 60:.0f} minutes to go."
    return ""


def _back_and_forth(state: LoopState, decision: Decision, policy: Policy, now_s: float) -> str:
    """The reason against a value that the subject has had within the cool-down, whichever controller changed it."""
    for change in decision.changes:
        for value, until_s in _values_had(state, change, now_s):
            if value == change.after and until_s > now_s - policy.cool_down_s:
                return f"That would undo a recent change ({change.aspect} {change.subject})."
    return ""


def _values_had(state: LoopState, change: AspectChange, now_s: float) -> Iterator[tuple[ChangeValue, float]]:
    """Values that something has had, and until when at the latest, by all rounds that changed it."""
    for loop_round in state.rounds:
        if not loop_round.has_changed:
            continue
        for past in loop_round.decision.changes:
            if past.what == change.what:
                yield past.before, loop_round.changed_s if loop_round.changed_s is not None else now_s
                if loop_round.phase != STUCK and (loop_round.back_s is not None or loop_round.is_open):
                    yield past.after, loop_round.back_s if loop_round.back_s is not None else now_s


def _unwelcome(controller: Controller, state: LoopState, decision: Decision, now_s: float) -> str:
    """The reason against a change that people refused, or that did not bring what it promised, for a day."""
    for loop_round in state.rounds:
        if loop_round.controller != controller.name or _ended_s(loop_round, now_s) <= now_s - PEACE_S:
            continue
        if loop_round.refused and loop_round.decision.target == decision.target and (
                not decision.urgent or loop_round.decision.changes == decision.changes):
            return "It was turned down, given up or taken back by hand within the last day."
        same_changes = {(change.what, change.after) for change in loop_round.decision.changes} & {
            (change.what, change.after) for change in decision.changes}
        if loop_round.phase in {ROLLED_BACK, BROKEN, STUCK} and same_changes:
            return "The same change broke its promise within the last day."
    return ""


def _undone(state: LoopState, decision: Decision, now_s: float) -> str:
    """The reason against a change that had to be taken back at once, for a day and for every controller: load that
    comes and goes makes nothing go back and forth, however slowly."""
    decided_changes = {(change.what, change.after) for change in decision.changes}
    for loop_round in state.rounds:
        if loop_round.decision.urgent and loop_round.has_changed and (
                _ended_s(loop_round, now_s) > now_s - PEACE_S) and decided_changes & {
                (change.what, change.before) for change in loop_round.decision.changes}:
            return "It had to be taken back within the last day."
    return ""


def _counts(loop_round: Round) -> bool:
    return loop_round.phase != DECLINED or loop_round.has_changed or loop_round.refused or loop_round.mode != ACTS


def _last_s(loop_round: Round, now_s: float) -> float:
    """The last moment at which a round may have changed something; now while it is in flight."""
    if loop_round.is_open:
        return now_s
    return max(moment for moment in (loop_round.begun_s, loop_round.changed_s, loop_round.back_s) if moment is not None)


def _ended_s(loop_round: Round, now_s: float) -> float:
    """The end of a round, or the moment when its change was taken back later; now while it is in flight."""
    return now_s if loop_round.is_open or loop_round.ended_s is None else max(
        loop_round.ended_s, loop_round.back_s or 0.0)


def forgotten(rounds: Iterable[Round], *, now_s: float) -> tuple[Round, ...]:
    """Rounds without those that ended so long ago that no limit depends on them any more."""
    return tuple(loop_round for loop_round in rounds if _ended_s(loop_round, now_s) > now_s - 2 * DAY_S)
