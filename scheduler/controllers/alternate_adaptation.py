"""Adaptation as a controller: alternates of dynamic tasks are switched, bundles added and taken, as load asks for it.

Which alternates is decided by an algorithm of ``scheduler.adaptation`` for each dataflow that has goals, among those
that guards allow and nobody holds; of a dataflow that runs by a schedule also for which rate that is
(``bundle_adaptation``). It is asked where throughput Ω leaves its band Ω̂ ± ε, so that nothing goes back and forth: what
is worth more comes back only where Ω̂ is kept with it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass

from scheduler.adaptation.adaptation_port import AdaptationProblem, Forecast
from scheduler.adaptation.adaptation_registry import ADAPTATIONS
from scheduler.adaptation.shared_slots import (
    AdaptationAnswer,
    AdaptationCandidate,
    AdaptationRoom,
    choose_on_slots,
    slot_class,
)
from scheduler.model.checks import FiniteFigures
from scheduler.model.dataflow_goals import DataflowGoals
from scheduler.simulation.elastic import ElasticDataflow
from scheduler.simulation.problem import BreakEven, Conditions, price_of_value

from .bundle_adaptation import BundleOffer, OfferedBundles, bundle_rows, choose_bundles
from .changes import Aspect, AspectChange
from .controller_port import Controller, Evaluation
from .loop_values import ACTS, OFF, ControllerPromise, Decision, IdleReason, Policy, PromiseBound

LACK = "part of what could leave that does not"  # 1 − Ω
EVENT_US = "CPU of its queries for an event from outside"
NAME = "adaptation"
EVERY_S = 30.0
WITHIN_S = 300.0
DRAINS_WITHIN_S = 600.0  # with more bundles: what waits has to leave first
STEP_S = 60.0  # Ω is of so long a step
SHOWN = 12  # choices that a decision keeps of those that were looked at, the best first


@dataclass(frozen=True)
class AdaptedDataflow(FiniteFigures):
    """A dataflow with goals, as adaptation looks at it.

    Parameters
    ----------
    elastic : ElasticDataflow
        Its running tasks; of each the alternates that may be on now, the one that is on among them.
    names : mapping of str to str
        By running task that may be switched its id in the document.
    sharers : mapping of str to tuple of str
        By such a task, and by one that a schedule divides, the other teams that run it.
    rates_per_s, waiting : mapping of str to float
        By running task: events a second that are expected from outside, and events that wait.
    room : AdaptationRoom
        Where its tasks run, and what of each core they may take.
    slot_hour : float
        What a slot costs for an hour.
    event_us : float, optional
        CPU that its queries took for each event from outside, in µs; None where that is not known.
    kept : tuple of str
        Sentences on dynamic tasks that are left as they are.
    forecast : Forecast, optional
        What is expected in the steps to come, for algorithms that look ahead.
    expects : tuple of str
        Sentences on what is expected from outside, and why averages decide where they do.
    bundles : OfferedBundles, optional
        The schedule that it runs by, and the one that it would; None where it has none.
    """

    id: str
    team: str
    goals: DataflowGoals
    elastic: ElasticDataflow
    active: Mapping[str, str]
    names: Mapping[str, str]
    sharers: Mapping[str, tuple[str, ...]]
    rates_per_s: Mapping[str, float]
    waiting: Mapping[str, float]
    room: AdaptationRoom
    slot_hour: float
    event_us: float | None = None
    kept: tuple[str, ...] = ()
    forecast: Forecast | None = None
    expects: tuple[str, ...] = ()
    bundles: OfferedBundles | None = None

    @property
    def load_tasks(self) -> tuple[str, ...]:
        """Its sources, whose rate is its load."""
        return self.elastic.sources

    @property
    def sharing_teams(self) -> tuple[str, ...]:
        """The other teams that run any of its tasks."""
        return tuple(sorted({team for teams in self.sharers.values() for team in teams}))

    @property
    def problem(self) -> AdaptationProblem:
        """What is to be decided, with slots as machines that are paid by the second."""
        goals = self.goals
        return AdaptationProblem(
            self.elastic, (slot_class(self.slot_hour, tasks=len(self.elastic.tasks)),),
            BreakEven(goals.most_per_hour * goals.hours, goals.least_per_hour * goals.hours), hours=goals.hours,
            least=goals.throughput, tolerance=goals.tolerance, step_s=STEP_S, billing="seconds")

    @property
    def value_per_hour(self) -> float:
        """How much value a unit of money an hour is to bring, over the time of its goals (4.9)."""
        return price_of_value(self.elastic, self.problem.goal) * self.goals.hours

    @property
    def conditions(self) -> Conditions:
        """The step to come, as it is expected."""
        return Conditions(self.rates_per_s, STEP_S, self.waiting)


@dataclass(frozen=True)
class Adaptations:
    """The evidence: dataflows with goals, by which algorithm is decided, and in which currency."""

    dataflows: tuple[AdaptedDataflow, ...] = ()
    algorithm: str = "CE"
    currency: str = ""

    def __post_init__(self) -> None:
        if self.algorithm not in ADAPTATIONS:
            raise ValueError(f"{self.algorithm} does not decide at run time; name one of {', '.join(ADAPTATIONS)}")


def answer_for(dataflow: AdaptedDataflow, algorithm: str) -> AdaptationAnswer:
    """What an algorithm of the registry would have on now, and what else was looked at; the same for the same."""
    return choose_on_slots(
        dataflow.problem, dataflow.conditions, dataflow.active, dataflow.room, kind=ADAPTATIONS[algorithm],
        forecast=dataflow.forecast)


def slots_wanted(evidence: Adaptations, policies: Mapping[str, Policy], *, mode: str = ACTS) -> int:
    """Slots that dataflows of teams where adaptation has this mode would take besides: of those that no alternate
    brings to their throughput, each as many as its goals pay for (``most_per_hour``)."""
    slots = 0
    for dataflow in evidence.dataflows:
        if policies.get(dataflow.team, Adapting.usual).mode != mode:
            continue
        answer = answer_for(dataflow, evidence.algorithm)
        if answer.chosen.throughput >= dataflow.goals.throughput:
            continue
        if dataflow.bundles is not None:
            other = dataflow.bundles.other
            if other is not None and other.per_hour <= dataflow.goals.most_per_hour and (
                    other.sustained_per_s > dataflow.bundles.now.sustained_per_s):
                slots += other.to_buy
        elif answer.more_slots:
            left = dataflow.goals.most_per_hour - answer.chosen.per_hour
            paid = math.floor(left / dataflow.slot_hour) if dataflow.slot_hour > 0 else answer.more_slots
            slots += max(0, min(answer.more_slots, paid))
    return slots


class Adapting(Controller):
    """Switches alternates and chooses the schedule, so that a dataflow reaches its goals at the greatest profit."""

    name = NAME
    title = "Adaptation"
    about = ("Switches alternates of dynamic tasks whose policy names controllers, and adds and takes bundles where "
             "there is a schedule, so that a dataflow with goals keeps its throughput and brings the most value.")
    reads = "adaptations"
    every_s = EVERY_S
    usual = Policy(changes_per_hour=6, changes_per_day=48, cool_down_s=300.0)
    least_samples = 6

    def evaluate(self, evidence: Adaptations, policies: Mapping[str, Policy]) -> Evaluation:
        """One decision for each dataflow that is outside of its band and can be helped."""
        decisions: list[Decision] = []
        reasons: list[IdleReason] = []
        for dataflow in evidence.dataflows:
            if policies.get(dataflow.team, self.usual).mode == OFF:
                continue
            if not dataflow.names and dataflow.bundles is None:
                reasons.append(IdleReason(dataflow.team, dataflow.id, " ".join(
                    dataflow.kept or ("None of its tasks has a policy that names controllers.",))))
                continue
            answer = answer_for(dataflow, evidence.algorithm)
            offer, why = (None, "") if dataflow.bundles is None else choose_bundles(
                dataflow.bundles, answer, dataflow.goals, value_per_hour=dataflow.value_per_hour)
            if offer is not None:
                decisions.append(_bundle_decision(dataflow, answer, offer, why, evidence))
            elif dataflow.bundles is not None and dataflow.bundles.uneven:
                decisions.append(_cut_decision(dataflow, answer, dataflow.bundles, evidence))
            elif answer.switches:
                decisions.append(_decision(dataflow, answer, evidence))
            else:
                reasons.append(IdleReason(dataflow.team, dataflow.id, " ".join(_why_not(dataflow, answer, why))))
        return Evaluation(tuple(decisions), tuple(reasons))


def _why_not(dataflow: AdaptedDataflow, answer: AdaptationAnswer, no_bundles: str) -> Iterator[str]:
    yield f"Throughput is {answer.now.throughput:.2f}, wanted {_band(dataflow.goals)}. {answer.why}"
    if no_bundles:
        yield no_bundles
    elif answer.more_slots and answer.now.throughput < dataflow.goals.throughput:
        yield f"The algorithm would take {_slots(answer.more_slots)} more."
    yield from dataflow.expects
    yield from dataflow.kept


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
            "looked_at": json.dumps(list(_told(dataflow, answer))), "now": json.dumps(_figures(now)),
            "chosen": json.dumps(_figures(chosen)), "algorithm": evidence.algorithm,
            "more_slots": str(answer.more_slots)})


def _bundle_decision(
    dataflow: AdaptedDataflow, answer: AdaptationAnswer, offer: BundleOffer, why: str, evidence: Adaptations
) -> Decision:
    if dataflow.bundles is None:
        raise ValueError(f"{dataflow.id} runs by no schedule")
    now, offered = dataflow.bundles.now, dataflow.bundles
    return _schedule_decision(
        dataflow, answer, offered, offer,
        (AspectChange(Aspect.SCHEDULE, dataflow.id, now.rate_text, offer.rate_text),),
        f"{' '.join((*dataflow.expects, why))} {offered.load_per_s:.4g} events/s come, and throughput is "
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
    changes: tuple[AspectChange, ...], why: str, evidence: Adaptations,
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
        why, worth=abs(answer.now.throughput - goals.throughput), moves_queries=True, alongside=True,
        touched=dataflow.sharing_teams,
        arguments={
            "schedule": json.dumps({
                "pair": list(offer.pair), "rate_per_s": offer.source_per_s, "routing": offer.routing}),
            "load_tasks": " ".join(dataflow.load_tasks), "algorithm": evidence.algorithm, "more_slots": "0",
            "looked_at": json.dumps([
                *({"alternates": {}, "is_chosen": row["schedule"] == offer.words, **row} for row in rows),
                *_told(dataflow, answer, by_switch=False)]),
            "now": json.dumps(_figures(answer.now)), "chosen": json.dumps(_figures(answer.now))})


def _promise(dataflow: AdaptedDataflow, answer: AdaptationAnswer) -> ControllerPromise:
    """Where throughput is below its goal, that events take less: how much comes afterwards is nobody's promise. Else
    that throughput stays in its band, whatever comes."""
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


def _told(
    dataflow: AdaptedDataflow, answer: AdaptationAnswer, *, by_switch: bool = True
) -> Iterator[dict[str, object]]:
    """What was looked at, the greatest profit first: how it differs from what was on, and its result."""
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
