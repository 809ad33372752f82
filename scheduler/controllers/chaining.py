"""Dynamic chaining as a controller: queries along the slowest way of a latency limit become one (paper [5], 3.5.2).

Where no intervals hold a limit, each query less on its way saves the wait and the work of a batch. The longest series
that may be one query is fused in one step, and cut again in one where its load exceeds a core. In the
paper a series is on one slot; here on one node, for a step moves what it fuses to the slot of any of them that has
room. In the paper CPU adds up; here a chain takes once what each of its queries takes for its batches whatever is in
them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from scheduler.latency.runtime_graph import RuntimeGraph
from scheduler.latency.task_chaining import CAPACITY, FUSES_BELOW, ChainingFacts, chainable_series
from scheduler.model.checks import FiniteFigures
from scheduler.model.latency_limits import figure_in_words, in_words

from .changes import AspectChange
from .controller_port import Controller, Evaluation, reversed_changes
from .fusion_candidates import Candidate, changes_of
from .loop_values import OFF, UNDO, ControllerPromise, Decision, IdleReason, Policy, PromiseBound
from .promised_measures import CORES, LATENCY, LATER, LATER_MS, LIMITED

WITHIN_S = 900.0


@dataclass(frozen=True, slots=True)
class LateWay(FiniteFigures):
    """A limit that is not met: of which dataflow, along which queries, and the steps that may fuse a series of them.

    ``latency_s`` is its latency at the worst, by the model or measured; ``measured_ms`` what was measured of it
    lately, as the limit counts it. ``measured_by`` is for whoever measures the effect. ``batch_s`` is what a batch of
    each query takes, in seconds.
    """

    dataflow: str
    team: str
    limit: str  # in words
    limit_s: float
    latency_s: float
    path: tuple[str, ...]
    steps: tuple[Candidate, ...] = ()
    batch_s: Mapping[str, float] = field(default_factory=dict)
    measured_ms: float | None = None
    measured_by: Mapping[str, str] = field(default_factory=dict)

    @property
    def badness(self) -> tuple[bool, float]:
        """The badness of the limit, highest for the worst: those that one query less may help, then by how many times
        the limit they come to."""
        return len(self.path) > 1, self.latency_s / self.limit_s


@dataclass(frozen=True, slots=True)
class FusedChain(FiniteFigures):
    """A query that was fused of others, and what it takes now, in cores.

    ``made_by`` is the round of this controller that made it, or the plan that another one or people made it by.
    ``unwanted`` says that somebody who uses one of its tasks wants that in a query of its own by now.
    """

    made_by: str
    dataflow: str
    team: str
    touched: tuple[str, ...]
    changes: tuple[AspectChange, ...]
    cores: float
    latency_ms: float | None = None
    unwanted: bool = False

    @property
    def is_to_be_cut(self) -> bool:
        """True if it is too much for a core, or is not to be one query any more."""
        return self.unwanted or self.cores >= CAPACITY


@dataclass(frozen=True, slots=True)
class Chains:
    """The evidence: limits that are not met, what decides whether queries may be one, and what was fused before."""

    late: tuple[LateWay, ...]
    graph: RuntimeGraph
    facts: ChainingFacts
    fused: tuple[FusedChain, ...] = ()


class Chaining(Controller):
    """Fuses queries where a latency limit is not met, and cuts them again where they are too much for a core."""

    name = "chaining"
    title = "Chaining"
    about = ("Fuses neighbouring queries of one node where a latency limit is not met, and cuts them again where "
             "together they take nearly a core.")
    reads = "chains"
    every_s = 10.0  # each turn of the loop: what is missed for long enough is not left for a minute more
    usual = Policy(changes_per_hour=4, changes_per_day=24, cool_down_s=600.0)
    helps_limits = True

    def evaluate(self, evidence: Chains, policies: Mapping[str, Policy]) -> Evaluation:
        """Chains that are too much are cut first; then steps for each limit, the one that is missed by most first.

        Of a limit all steps are given, the longest series first: where something stands against that, as another team's
        budget, the next one is for the loop to take.
        """
        decisions = [
            _cut(chain) for chain in evidence.fused
            if chain.is_to_be_cut and policies.get(chain.team, self.usual).mode != OFF]
        reasons = []
        for way in evidence.late:
            if policies.get(way.team, self.usual).mode == OFF:
                continue
            steps = list(_steps(way, evidence))
            decisions += [_fuse(way, candidate, evidence.facts) for candidate in steps]
            if not steps:
                reasons.append(IdleReason(way.team, way.dataflow, _why_not(way)))
        return Evaluation(tuple(decisions), tuple(reasons))


def _steps(way: LateWay, evidence: Chains) -> Iterator[Candidate]:
    """The steps that fuse a whole chainable series, the longest first."""
    steps = {candidate.fusion.path: candidate for candidate in way.steps}
    for series in chainable_series(way.path, evidence.graph, evidence.facts, capacity=FUSES_BELOW):
        candidate = steps.get(series)
        if candidate is not None and (candidate.cores is None or (  # over minutes, and not only now
                candidate.cores - evidence.facts.saved_by(series) < FUSES_BELOW)):
            yield candidate


def _fuse(way: LateWay, candidate: Candidate, facts: ChainingFacts) -> Decision:
    series, cores = candidate.fusion.path, candidate.cores
    if cores is None:
        cores = sum(facts.cores.get(query, 0.0) for query in series)
    saved_ms = 1000 * sum(way.batch_s.get(query, 0.0) for query in series[1:])
    before_ms = 1000 * way.latency_s if way.measured_ms is None else way.measured_ms
    bounds = (
        PromiseBound(LIMITED, "ms", before_ms, max(1000 * way.limit_s, before_ms - saved_ms / 2)),
        PromiseBound(CORES, "cores", cores, CAPACITY, hard=True))
    load = candidate.load.rate_per_s if candidate.load.rate_per_s > 0 else None
    promise = ControllerPromise(
        f"events come {figure_in_words(saved_ms / 2000)} sooner, or within {in_words(way.limit_s)}", WITHIN_S, bounds,
        load)
    fewer = len(series) - 1
    reason = (f"The latency limit is a {way.limit}; its {len(way.path)} queries take {figure_in_words(way.latency_s)}: "
           f"{'one less saves a batch' if fewer == 1 else f'{fewer} less save {fewer} batches'} on the way.")
    return Decision(
        way.dataflow, way.team, changes_of(candidate.fusion), promise, reason, worth=way.latency_s / way.limit_s,
        touched=candidate.touched, moves_queries=True, arguments={
            "queries": " ".join(series), "tasks": " ".join(candidate.tasks),
            "load_tasks": " ".join(candidate.load_tasks), **way.measured_by})


def _cut(chain: FusedChain) -> Decision:
    bounds = () if chain.latency_ms is None else (
        PromiseBound(LATENCY, "ms", chain.latency_ms, chain.latency_ms * LATER + LATER_MS),)
    reason = "One of its tasks is to have a query of its own by now" if chain.unwanted else (
        f"The chain takes {chain.cores:.2g} cores, and a query has one at the most")
    return Decision(
        chain.dataflow, chain.team, reversed_changes(chain.changes),
        ControllerPromise("each part has a core's time for itself", WITHIN_S, bounds),
        f"{reason}: it is cut again where it was.",
        worth=1e6 * chain.cores, touched=chain.touched, moves_queries=True, arguments={UNDO: chain.made_by},
        urgent=True)


def _why_not(way: LateWay) -> str:
    if len(way.path) < 2:
        return f"A {way.limit} is not met, and its way is one query already: there is nothing to chain."
    return (f"A {way.limit} is not met, and no two neighbours on its way may be one query: they are on two nodes, "
            f"others read between them, tasks stay apart, what they take is not known yet, or together they take "
            f"{FUSES_BELOW:g} cores or more.")
