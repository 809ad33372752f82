"""The progress of a plan, by reports of nodes: which of its steps are in force, and which of its fragments fail and
why."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from .contracts.reports import FAILING, Reports
from .model.fragment import node_of
from .model.plan import Plan
from .step_kinds import EnactmentEvidence, kind_of, steps_done

LONGEST_CAUSE = 2000  # characters


@dataclass(frozen=True, slots=True)
class PlanProgress:
    """Keys of the steps in force, and failing fragments with their cause.

    Fragments on a node of which nothing is heard fail as well, as long as a step of theirs is not in force.
    """

    done: Collection[str]
    failing: Mapping[str, str] = field(default_factory=dict)


def plan_progress(plan: Plan, evidence: EnactmentEvidence) -> PlanProgress:
    """The progress of a plan.

    Parameters
    ----------
    plan : Plan
        With its queries on the slots where the estate has them now.
    evidence : EnactmentEvidence
        The reports of nodes. As long as an awaited node does not, nobody knows by which weights is written there.
    """
    done = steps_done(plan, evidence)
    return PlanProgress(done, _silent(plan, evidence, done) | _failing(plan, evidence.reports))


def _failing(plan: Plan, reports: Reports) -> dict[str, str]:
    causes = {}
    for fragment in plan.fragments_after.values():
        for bundle in fragment.queries:
            query = reports.query(bundle.slot, bundle.id)
            if query is not None and query.state == FAILING:
                causes[fragment.id] = (query.error or "The query fails.")[:LONGEST_CAUSE]
    return causes


def _silent(plan: Plan, evidence: EnactmentEvidence, done: Collection[str]) -> dict[str, str]:
    """Fragments with steps that are not in force, on nodes of which nothing is heard."""
    waiting = [step for step in plan.steps if step.key not in done]
    routed = {step.fragment for step in waiting if kind_of(step).divides_streams}
    causes = {}
    for fragment_id in sorted({step.fragment for step in waiting}):
        fragment = plan.fragments_after.get(fragment_id) or plan.fragments_before.get(fragment_id)
        nodes = {node_of(bundle.slot) for bundle in fragment.queries} if fragment else set()
        if fragment_id in routed:
            nodes |= set(evidence.awaited)
        if silent := sorted(nodes - set(evidence.reports)):
            causes[fragment_id] = f"Not reporting: {', '.join(silent)}. The plan continues once that is back."
    return causes
