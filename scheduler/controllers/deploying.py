"""Online task deployment as a controller: one query a round leaves the hottest slot, or one query or a joint move goes
nearer to what it exchanges most with (paper [4], algorithms 1 and 2; ``scheduler.deployment.online`` decides).

A query also leaves a slot where ever more events wait for it though the slot's CPU is below the bound. A joint move is
one plan of one dataflow, which runs in all of its queries: one promise, one budget, one way back. Nothing goes back and
forth where load swings: a query's load is the median of the last minutes, a moved query rests (the longer, the more
often it came back to a slot within a day), and no slot is given so much that it becomes high.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from scheduler.deployment.deployed_bundles import Deployment
from scheduler.deployment.online import DeploymentRound, Move, Thresholds, decide, lacking_in_words
from scheduler.model.checks import FiniteFigures
from scheduler.model.figure_words import in_digits

from .changes import Aspect, AspectChange, SlotName
from .controller_port import Controller, Evaluation
from .loop_values import (
    ACTS,
    DAY_S,
    DECLINED,
    OFF,
    ControllerPromise,
    Decision,
    IdleReason,
    Policy,
    PromiseBound,
    Round,
)
from .promised_measures import LATENCY, LATER, LATER_MS

SLOT = "CPU of the slot that it left"
TRAFFIC = "traffic with other nodes, at the load of before"
WITHIN_S = 900.0
RESTS_S = 1_800.0  # a query that has moved stays where it is
LONGER = 4  # times as long after each return to a slot that it had left: half an hour, two hours, eight hours


@dataclass(frozen=True, slots=True)
class Asker(FiniteFigures):
    """A dataflow that runs in a query, and so may ask for its move: its team, and the others that would notice.

    ``tasks`` are those of the query, ``load_tasks`` those whose rate is its load, ``latency_ms`` and ``load_per_s``
    what the dataflow and they have now, None where that is not measured. A query may have several askers of one team.
    """

    dataflow: str
    team: str
    touched: tuple[str, ...]
    tasks: tuple[str, ...]
    load_tasks: tuple[str, ...] = ()
    latency_ms: float | None = None
    load_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class Deployments(FiniteFigures):
    """The evidence: what runs where and exchanges what, who may ask for a query's move, and which moved lately.

    ``slot_price`` is what one more slot costs an hour, in ``currency``.
    """

    deployment: Deployment
    askers: Mapping[str, tuple[Asker, ...]] = field(default_factory=dict)
    resting: frozenset[str] = frozenset()
    thresholds: Thresholds = field(default_factory=Thresholds)
    slot_price: float = 0.0
    currency: str = ""


def resting_tasks(rounds: Iterable[Round], *, now_s: float) -> frozenset[str]:
    """Tasks of the queries that stay where they are, for they moved lately.

    A query's load that swings more slowly than it is measured looks like one that has changed for good. So moves are
    remembered for a day: a query rests for half an hour after one, and four times as long after each that took it back
    to a slot which it had left meanwhile.
    """
    former_slots: dict[str, set[str]] = defaultdict(set)  # slots, by query
    returns: Counter[str] = Counter()
    rests_until_s: dict[str, float] = {}
    for loop_round in sorted(rounds, key=lambda loop_round: loop_round.begun_s):
        if loop_round.begun_s <= now_s - DAY_S or (loop_round.phase == DECLINED and not loop_round.has_changed):
            continue
        for change in loop_round.decision.changes:
            returns[change.subject] += change.after in former_slots[change.subject]
            former_slots[change.subject] |= (
                {change.before, change.after} if loop_round.back_s is not None else {change.before})
        until_s = loop_round.begun_s + RESTS_S * LONGER ** max(
            returns[change.subject] for change in loop_round.decision.changes)
        rests_until_s |= dict.fromkeys(loop_round.decision.arguments.get("tasks", "").split(), until_s)
    return frozenset(task for task, until_s in rests_until_s.items() if until_s > now_s)


class Deploying(Controller):
    """Moves queries off slots that have too much to do, and nearer to what they exchange most with."""

    name = "deployment"
    title = "Deployment"
    about = ("Moves a query to a slot with room where its own has too much to do, and one or several nearer to what "
             "they exchange most with where no slot has.")
    reads = "deployments"
    every_s = 60.0
    usual = Policy(changes_per_hour=6, changes_per_day=48, cool_down_s=600.0)
    helps_limits = True

    def evaluate(self, evidence: Deployments, policies: Mapping[str, Policy]) -> Evaluation:
        """One move for the whole estate, by the team that may ask for it; or why there is none."""
        allowed = {
            bundle: permitted for bundle, askers in evidence.askers.items()
            if (permitted := [asker for asker in askers if self._mode(asker, policies) != OFF])}
        groups = {bundle: frozenset(asker.dataflow for asker in permitted) for bundle, permitted in allowed.items()}
        rounds = [
            decide(deployment, evidence.thresholds, resting=evidence.resting, groups=groups)
            for deployment in evidence.deployment.moving_only(allowed).by_team()]
        loop_round = next((round_of for round_of in rounds if round_of.move is not None), None) or max(
            rounds, key=lambda round_of: round_of.lacking)
        if loop_round.move is not None:
            return Evaluation((_move(loop_round, self._askers(loop_round.move, allowed, policies), evidence),))
        lacking = lacking_in_words(
            loop_round.lacking, evidence.thresholds, slot_price=evidence.slot_price, currency=evidence.currency)
        reason = f"{loop_round.why} {lacking}".rstrip()
        return Evaluation(reasons=tuple(IdleReason(team, "", reason) for team in self._teams(evidence, policies)))

    def _askers(
        self, move: Move, allowed: Mapping[str, Sequence[Asker]], policies: Mapping[str, Policy]
    ) -> tuple[Asker, ...]:
        """A dataflow that may ask for the whole move, as the asker for each query. Dataflows whose teams let the
        controller act come before those whose teams are asked."""
        common = set.intersection(*({asker.dataflow for asker in allowed[bundle]} for bundle in move.bundles))
        first, *others = (
            {asker.dataflow: asker for asker in allowed[bundle] if asker.dataflow in common} for bundle in move.bundles)
        chosen = min(first, key=lambda name: self._mode(first[name], policies) != ACTS)
        return (first[chosen], *(askers[chosen] for askers in others))

    def _mode(self, asker: Asker, policies: Mapping[str, Policy]) -> str:
        return policies.get(asker.team, self.usual).mode

    def _teams(self, evidence: Deployments, policies: Mapping[str, Policy]) -> Iterator[str]:
        teams = {asker.team for askers in evidence.askers.values() for asker in askers}
        return (team for team in sorted(teams) if policies.get(team, self.usual).mode != OFF)


def _move(loop_round: DeploymentRound, askers: tuple[Asker, ...], evidence: Deployments) -> Decision:
    deployment, first, move, is_for_slot = evidence.deployment, askers[0], loop_round.move, loop_round.case == "balance"
    assert move is not None
    bundles = [deployment.bundles[name] for name in move.bundles]
    source, target_load = bundles[0].slot, deployment.loads[move.target]
    load, cores = deployment.loads[source], sum(bundle.cores for bundle in bundles)
    bounds = []
    if is_for_slot:
        # Where it is high for its queues alone, less of its CPU is asked for all the same.
        most = max(evidence.thresholds.high, load - cores / 2) if load > evidence.thresholds.high else load - cores / 2
        bounds.append(PromiseBound(SLOT, "cores", load, most))
    else:
        between = deployment.between_nodes(move.bundles)
        bounds.append(PromiseBound(TRAFFIC, "bytes a second", between, between - move.gain / 2))
    if first.latency_ms is not None:
        bounds.append(PromiseBound(LATENCY, "ms", first.latency_ms, first.latency_ms * LATER + LATER_MS))
    text = f"{source} has less to do" if is_for_slot else (
        f"{in_digits(move.gain)} bytes a second less pass between nodes")
    takes = "the query takes" if len(bundles) == 1 else f"the {len(bundles)} queries that go there together take"
    teams = {team for asker in askers for team in asker.touched}
    return Decision(
        first.dataflow, first.team,
        tuple(AspectChange(Aspect.SLOT, f"query of {asker.tasks[0]}", SlotName(bundle.slot), SlotName(move.target))
              for asker, bundle in zip(askers, bundles, strict=True)),
        ControllerPromise(f"{text}, and events come no later", WITHIN_S, tuple(bounds), first.load_per_s),
        f"{loop_round.why} {move.target} has {target_load:.2f} cores to do, and {takes} {cores:.2f}.",
        worth=load, touched=tuple(sorted(teams - {first.team})), moves_queries=True, arguments={
            "query": move.bundles[0], "slot": move.target, "source": source, "along": " ".join(move.bundles[1:]),
            "tasks": " ".join(task for asker in askers for task in asker.tasks),
            "load_tasks": " ".join(first.load_tasks)})
