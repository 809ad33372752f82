"""Controllers as nervous as can be: each wants every subject as large as the load, at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scheduler.controllers.changes import Aspect, AspectChange, SlotName
from scheduler.controllers.controller_port import Effect, Evaluation, Verdict, held_to_bounds, reversed_changes
from scheduler.controllers.loop_values import ControllerPromise, Decision, IdleReason, Policy, PromiseBound

TEAMS = ("city", "mobility", "")
SUBJECTS = tuple(f"s{number}" for number in range(5))
OWNERS = {subject: TEAMS[number % 3] for number, subject in enumerate(SUBJECTS)}
LOAD = 100.0
SIZES = tuple(map(SlotName, ("small/0", "medium/0", "big/0")))
PROMISE = ControllerPromise("it takes less", 600.0, (PromiseBound("cores", "cores", 1.0, 0.8),))


class Follower:
    """Wants every subject as large as the load, at once; a contrary one wants the opposite."""

    about = reads = ""
    subjects = SUBJECTS
    every_s = 60.0
    usual = Policy()

    def __init__(self, name: str, *, contrary: bool, moves_queries: bool, alongside: bool = False) -> None:
        self.name = self.title = name
        self.alongside = alongside
        self._words = SIZES[::-1] if contrary else SIZES
        self._moves_queries = moves_queries

    def on(self, values: Mapping[tuple[str, str], str], subject: str) -> str:
        """How large a subject is."""
        return values[Aspect.SLOT, subject]

    def evaluate(self, evidence: Mapping[str, Any], policies: Mapping[str, Policy]) -> Evaluation:
        decisions, reasons = [], []
        for subject, (load, value) in sorted(evidence.items()):
            wanted = self._words[(load > 0.8 * LOAD) + (load > 1.2 * LOAD)]
            if value == wanted:
                reasons.append(IdleReason(OWNERS[subject], subject, "It is as it should be."))
                continue
            others = tuple(team for team in TEAMS if team != OWNERS[subject])[: load > 120.0]
            decisions.append(Decision(
                subject, OWNERS[subject],
                (
                    AspectChange(Aspect.SLOT, subject, value, wanted),
                    AspectChange(Aspect.PROFILE, subject, value, wanted)),
                PROMISE, "the load", worth=abs(load - LOAD), touched=others,
                moves_queries=self._moves_queries, alongside=self.alongside))
        return Evaluation(tuple(decisions), tuple(reasons))

    def check(self, promise: ControllerPromise, effect: Effect) -> tuple[Verdict, str]:
        return held_to_bounds(promise, effect)

    def rollback(self, decision: Decision) -> tuple[AspectChange, ...]:
        return reversed_changes(decision.changes)
