"""Defragmentation as a controller: fuses queries that need not be apart, where that pays (paper [1], 4.2).

When a step is worth its disruption is the rule of ``scheduler.reuse.defragment``. A change is of a stream, which a
channel carries or a query has within; or of a query that is rebuilt without the tasks that nobody needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from scheduler.model.checks import FiniteFigures
from scheduler.model.ports import expect
from scheduler.model.prices import Prices
from scheduler.reuse.defragment import DefragmentRule, Worth, in_words, weigh

from .controller_port import Controller, Evaluation
from .fusion_candidates import Candidate, changes_of
from .loop_values import OFF, ControllerPromise, Decision, IdleReason, Policy, PromiseBound
from .promised_measures import CORES, LATENCY, LATER, LATER_MS, NOISE

WITHIN_S = 900.0


@dataclass(frozen=True, slots=True)
class Fusions(FiniteFigures):
    """The evidence: every step that is possible, what CPU costs, and the rule.

    ``as_few_as_can_be`` are the teams of dataflows whose queries allow no step, with how many those are.
    """

    candidates: tuple[Candidate, ...]
    prices: Prices
    query_cores: float
    rule: DefragmentRule
    as_few_as_can_be: tuple[tuple[str, int], ...] = ()


class Defragmentation(Controller):
    """Proposes, or makes, the step of each dataflow that gains most over what it disturbs."""

    name = "defragmentation"
    title = "Defragmentation"
    about = ("Fuses queries that need not be apart any more, and leaves out tasks that nobody needs, where that saves "
             "more than it disturbs.")
    reads = "fusions"
    every_s = 300.0
    usual = Policy(changes_per_hour=4, changes_per_day=24, cool_down_s=1800.0)

    def evaluate(self, evidence: Fusions, policies: Mapping[str, Policy]) -> Evaluation:
        """Every step that is worth it; of a dataflow that has none, why not even the best of its steps is."""
        decisions: list[Decision] = []
        not_worth: dict[str, tuple[float, IdleReason]] = {}
        expect(evidence.prices.paces_ms, (name for candidate in evidence.candidates for name in candidate.fusion.path))
        for candidate in evidence.candidates:
            if policies.get(candidate.team, self.usual).mode == OFF:
                continue
            worth = weigh(
                candidate.fusion, candidate.load, prices=evidence.prices, query_cores=evidence.query_cores,
                rule=evidence.rule)
            net, worth_text = worth.gain - worth.disruption, in_words(
                candidate.fusion, worth, prices=evidence.prices, rule=evidence.rule)
            if worth.satisfies(evidence.rule):
                decisions.append(_decision(candidate, worth, worth_text, net))
            elif candidate.dataflow not in not_worth or net > not_worth[candidate.dataflow][0]:
                not_worth[candidate.dataflow] = (net, IdleReason(candidate.team, candidate.dataflow, worth_text))
        decided = {decision.target for decision in decisions}
        reasons = [reason for _, reason in not_worth.values() if reason.target not in decided]
        reasons += [
            IdleReason(
                team, "", f"The queries of {count} dataflow{'s' if count > 1 else ''} are as few as they can be.")
            for team, count in evidence.as_few_as_can_be if policies.get(team, self.usual).mode != OFF]
        return Evaluation(tuple(decisions), tuple(reasons))


def _decision(candidate: Candidate, worth: Worth, reason: str, net: float) -> Decision:
    return Decision(
        candidate.dataflow, candidate.team, changes_of(candidate.fusion), _promise(candidate, worth), reason, worth=net,
        touched=candidate.touched, moves_queries=True, arguments={
            "queries": " ".join(candidate.fusion.path), "tasks": " ".join(candidate.tasks),
            "load_tasks": " ".join(candidate.load_tasks)})


def _promise(candidate: Candidate, worth: Worth) -> ControllerPromise:
    """Half of the CPU that it should save, as exactly as CPU can be told; and nothing comes later than it did."""
    bounds = []
    if candidate.cores is not None:
        at_most = candidate.cores * (1 + NOISE) - worth.cores / 2
        bounds.append(PromiseBound(CORES, "cores", candidate.cores, max(at_most, 0.0)))
    if candidate.latency_ms is not None:
        bounds.append(PromiseBound(LATENCY, "ms", candidate.latency_ms, candidate.latency_ms * LATER + LATER_MS))
    text = f"saves {worth.cores:.3g} cores, and no event comes later"
    load = candidate.load.rate_per_s if candidate.load.rate_per_s > 0 else None
    return ControllerPromise(text, WITHIN_S, tuple(bounds), load)
