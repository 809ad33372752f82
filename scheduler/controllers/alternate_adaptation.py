"""Adaptation as a controller: switches alternates of dynamic tasks, and adds and removes bundles, as the load changes.

For each dataflow with goals an algorithm of ``scheduler.adaptation`` chooses among the alternates that guards allow and
nobody holds; for a dataflow with a schedule also the schedule's rate (``bundle_adaptation``). It runs only when the
throughput Ω leaves its band Ω̂ ± ε, so nothing goes back and forth: an alternate of more worth comes back only if Ω̂ is
kept with it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict

from scheduler.adaptation.shared_slots import AdaptationAnswer, AdaptationCandidate
from scheduler.model.dataflow_goals import DataflowGoals

from .adapted_dataflows import Adaptations, AdaptedDataflow, answer_for
from .bundle_adaptation import BundleOffer, OfferedBundles, bundle_rows, choose_bundles
from .changes import Aspect, AspectChange
from .controller_port import Controller, Evaluation
from .loop_values import OFF, ControllerPromise, Decision, IdleReason, Policy, PromiseBound

LACK = "part of what could leave that does not"  # 1 − Ω
EVENT_US = "CPU of its queries for an event from outside"
EVERY_S = 30.0
WITHIN_S = 300.0
DRAINS_WITHIN_S = 600.0  # with more bundles: what waits has to leave first
SHOWN = 12  # choices that a decision keeps of those that were looked at, the best first


class Adapting(Controller):
    """Switches alternates and chooses the schedule, so that a dataflow reaches its goals at the greatest profit."""

    name = "adaptation"
    title = "Adaptation"
    about = ("Switches alternates of dynamic tasks whose policy names controllers, and adds and takes bundles where "
             "there is a schedule, so that a dataflow with goals keeps its throughput and brings the most value.")
    reads = "adaptations"
    every_s = EVERY_S
    usual = Policy(changes_per_hour=6, changes_per_day=48, cool_down_s=300.0)
    least_samples = 6
    follows_goals = True

    def evaluate(self, evidence: Adaptations, policies: Mapping[str, Policy]) -> Evaluation:
        """One decision for each dataflow that is outside of its band and can be helped."""
        decisions: list[Decision] = []
        reasons: list[IdleReason] = []
        for dataflow in evidence.dataflows:
            if policies.get(dataflow.team, self.usual).mode == OFF:
                continue
            if not dataflow.names and dataflow.bundles is None:
                reasons.append(IdleReason(dataflow.team, dataflow.id, " ".join(
                    dataflow.left_alone or ("None of its tasks has a policy that names controllers.",))))
                continue
            answer = answer_for(dataflow, evidence.algorithm)
            offer, reason = (None, "") if dataflow.bundles is None else choose_bundles(
                dataflow.bundles, answer, dataflow.goals, value_per_hour=dataflow.value_per_hour)
            if offer is not None:
                decisions.append(_bundle_decision(dataflow, answer, offer, reason, evidence))
            elif dataflow.bundles is not None and dataflow.bundles.uneven:
                decisions.append(_cut_decision(dataflow, answer, dataflow.bundles, evidence))
            elif answer.switches:
                decisions.append(_decision(dataflow, answer, evidence))
            else:
                reasons.append(IdleReason(dataflow.team, dataflow.id, " ".join(_why_not(dataflow, answer, reason))))
        return Evaluation(tuple(decisions), tuple(reasons))


def _why_not(dataflow: AdaptedDataflow, answer: AdaptationAnswer, no_bundles: str) -> Iterator[str]:
    yield f"Throughput is {answer.now.throughput:.2f}, wanted {_band(dataflow.goals)}. {answer.why}"
    if no_bundles:
        yield no_bundles
    elif answer.more_slots and answer.now.throughput < dataflow.goals.throughput:
        yield f"The algorithm would take {_slots(answer.more_slots)} more."
    yield from dataflow.expects
    yield from dataflow.left_alone


def _decision(dataflow: AdaptedDataflow, answer: AdaptationAnswer, evidence: Adaptations) -> Decision:
    goals, now, chosen = dataflow.goals, answer.now, answer.chosen
    switches = answer.switches
    named = {dataflow.names[task]: name for task, name in switches.items()}
    changes = tuple(
        AspectChange(Aspect.ALTERNATE, task, now.active[task], name) for task, name in sorted(switches.items()))
    words = ", ".join(f"{task} by {name}" for task, name in sorted(named.items()))
    return Decision(
        dataflow.id, dataflow.team, changes,
        _promise(dataflow, answer),
        f"{' '.join((*dataflow.expects, answer.why))} Throughput is {now.throughput:.2f}, wanted {_band(goals)}. "
        f"With {words} it is {chosen.throughput:.2f}; value {now.value:.2f} → {chosen.value:.2f}, "
        f"cost {now.per_hour:.4g} → {chosen.per_hour:.4g} {evidence.currency} an hour ({evidence.algorithm}).",
        worth=abs(now.throughput - goals.throughput),
        alongside=True, touched=tuple(sorted({team for task in switches for team in dataflow.sharers.get(task, ())})),
        arguments={
            "alternates": json.dumps(named, sort_keys=True), "load_tasks": " ".join(dataflow.load_tasks),
            "looked_at": json.dumps(list(_candidate_facts(dataflow, answer))), "now": json.dumps(_figures(now)),
            "chosen": json.dumps(_figures(chosen)), "algorithm": evidence.algorithm,
            "more_slots": str(answer.more_slots)})


def _bundle_decision(
    dataflow: AdaptedDataflow, answer: AdaptationAnswer, offer: BundleOffer, reason: str, evidence: Adaptations
) -> Decision:
    if dataflow.bundles is None:
        raise ValueError(f"{dataflow.id} runs by no schedule")
    now, offered = dataflow.bundles.now, dataflow.bundles
    return _schedule_decision(
        dataflow, answer, offered, offer,
        (AspectChange(Aspect.SCHEDULE, dataflow.id, now.rate_text, offer.rate_text),),
        f"{' '.join((*dataflow.expects, reason))} {offered.load_per_s:.4g} events/s come, and throughput is "
        f"{answer.now.throughput:.2f}, wanted {_band(dataflow.goals)}. In place of {now.words}, it gets {offer.words}; "
        f"{now.sustained_per_s:.4g} → {offer.sustained_per_s:.4g} events/s are held, for {now.per_hour:.4g} → "
        f"{offer.per_hour:.4g} {evidence.currency} an hour.", evidence)


def _cut_decision(
    dataflow: AdaptedDataflow, answer: AdaptationAnswer, offered: OfferedBundles, evidence: Adaptations
) -> Decision:
    """The schedule of now once more, which cuts rings by the loads that keys have by now."""
    words = " ".join(
        f"One query of {name} has {keys.events:.0%} of the events, and was planned with {keys.wanted:.0%}: "
        f"{keys.load.queue:.0f} events wait for it, and its slot is busy for {keys.load.cpu:.0%} of the time. With its "
        f"ring cut by load, a query that was planned so has at most {keys.then:.0%}."
        for name, keys in offered.uneven.items())
    changes = tuple(
        AspectChange(Aspect.KEYS, keys.task, keys.cut, keys.other_cut) for keys in offered.uneven.values())
    return _schedule_decision(dataflow, answer, offered, offered.now, changes, words, evidence)


def _schedule_decision(
    dataflow: AdaptedDataflow, answer: AdaptationAnswer, offered: OfferedBundles, offer: BundleOffer,
    changes: tuple[AspectChange, ...], reason: str, evidence: Adaptations,
) -> Decision:
    goals = dataflow.goals
    rows = list(bundle_rows(offered, answer, value_per_hour=dataflow.value_per_hour))
    lack, most = max(0.0, 1 - answer.now.throughput), 1 - (goals.throughput - goals.tolerance)
    promised = most if answer.now.throughput >= goals.throughput else (lack + most) / 2
    return Decision(
        dataflow.id, dataflow.team, changes,
        ControllerPromise(
            f"throughput of {1 - promised:.2f} at least, at about the same load", DRAINS_WITHIN_S,
            (PromiseBound(LACK, "", lack, promised),), load=sum(dataflow.rates_per_s.values())),
        reason, worth=abs(answer.now.throughput - goals.throughput), moves_queries=True, alongside=True,
        touched=dataflow.sharing_teams,
        arguments={
            "schedule": json.dumps({
                "pair": list(offer.pair), "rate_per_s": offer.source_per_s, "routing": offer.routing}),
            "load_tasks": " ".join(dataflow.load_tasks), "algorithm": evidence.algorithm, "more_slots": "0",
            "looked_at": json.dumps([
                *({"alternates": {}, "is_chosen": row["schedule"] == offer.words, **row} for row in rows),
                *_candidate_facts(dataflow, answer, by_switch=False)]),
            "now": json.dumps(_figures(answer.now)), "chosen": json.dumps(_figures(answer.now))})


def _promise(dataflow: AdaptedDataflow, answer: AdaptationAnswer) -> ControllerPromise:
    """The promise that events take less where throughput is below its goal: how much comes afterwards is nobody's
    promise. Else that throughput stays in its band, whatever comes."""
    goals, now = dataflow.goals, answer.now
    if now.throughput >= goals.throughput:
        most = 1 - (goals.throughput - goals.tolerance)
        return ControllerPromise(
            f"throughput of {1 - most:.2f} at least", WITHIN_S,
            (PromiseBound(LACK, "", max(0.0, 1 - now.throughput), most),))
    before, after = (_work(dataflow, alternates.active) for alternates in (now, answer.chosen))
    if dataflow.event_us is None or after >= before:
        return ControllerPromise("more of what comes leaves in time", WITHIN_S)
    most_us = dataflow.event_us * (1 + after / before) / 2
    return ControllerPromise(
        f"an event takes {most_us:.3g} µs of CPU at most", WITHIN_S,
        (PromiseBound(EVENT_US, "µs", dataflow.event_us, most_us),))


def _work(dataflow: AdaptedDataflow, active: Mapping[str, str]) -> float:
    """Core-seconds a second for all that comes from outside, if nothing is short."""
    out_per_s: dict[str, float] = {}
    work = 0.0
    for task in dataflow.elastic.upstream_first:
        alternate = dataflow.elastic.tasks[task][active[task]]
        per_s = dataflow.rates_per_s.get(task, 0.0) + sum(
            out_per_s[parent] for parent in dataflow.elastic.parents[task])
        out_per_s[task] = per_s * alternate.selectivity
        work += per_s * alternate.event_s
    return work


def _candidate_facts(
    dataflow: AdaptedDataflow, answer: AdaptationAnswer, *, by_switch: bool = True
) -> Iterator[dict[str, object]]:
    """The candidates, the greatest profit first: how it differs from what was on, and its result."""
    ranked: Iterable[AdaptationCandidate] = sorted(answer.looked_at, key=lambda candidate: -candidate.profit)
    for candidate, _ in zip(ranked, range(SHOWN), strict=False):
        differs = {dataflow.names[task]: name for task, name in candidate.active.items()
                   if name != answer.now.active[task]}
        yield {
            "alternates": differs, "is_chosen": by_switch and candidate.active == answer.chosen.active,
            **_figures(candidate)}


def _figures(candidate: AdaptationCandidate) -> dict[str, float]:
    figures = asdict(candidate)
    del figures["active"]
    return {name: round(figure, 6) for name, figure in figures.items()}


def _band(goals: DataflowGoals) -> str:
    return f"{goals.throughput:g} ± {goals.tolerance:g}"


def _slots(count: int) -> str:
    return "a slot" if count == 1 else f"{count} slots"
