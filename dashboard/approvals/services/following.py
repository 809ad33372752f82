"""Following plans that are being enacted: which nodes they concern, and how far they are by what these report."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

from dashboard.approvals import selectors
from dashboard.approvals.services.enacting import drop_left_bundles, record_progress
from dashboard.operations.estate_store.fragment_settings import settings_of
from dashboard.operations.estate_store.offered_slots import silent_nodes
from dashboard.operations.live_view.going_on import gone_nodes
from dashboard.operations.selectors import fragments_where, slots_around, slots_gone
from dashboard.operations.selectors import nodes as all_nodes
from dashboard.plans.selectors import plan_of
from scheduler.contracts.reports import Reports
from scheduler.model.fragment import RunningBundle, node_of
from scheduler.model.plan import Plan
from scheduler.plan_progress import plan_progress
from scheduler.step_kinds import EnactmentEvidence


def plan_under_way(proposal_id: str) -> Plan | None:
    """The plan of a proposal that is being enacted or taken back; None where it is not (any more)."""
    return next((plan_of(proposal.rollback_plan or proposal.plan) for proposal in selectors.under_way()
                 if str(proposal.pk) == proposal_id), None)


def follow_plans(reports: Reports, *, at: datetime) -> int:
    """Hold every plan that is being enacted to what nodes report; how many there were."""
    proposals = selectors.under_way()
    if not proposals:
        return 0
    nodes = {node.name for node in all_nodes() if node.slots}
    lost = gone_nodes() if silent_nodes().exists() else frozenset()
    for proposal in proposals:
        record = proposal.rollback_plan or proposal.plan
        plan = where_it_runs(plan_of(record))
        touched, slots = touched_nodes(plan), {bundle.slot for bundle in _bundles(plan)}
        progress = plan_progress(plan, EnactmentEvidence(
            reports, gone=(touched - nodes) | slots_gone(slots) | lost, awaited=(touched & nodes) - lost,
            settings=settings_of(list(plan.settings_after)), active=_active_now(plan)))
        record_progress(proposal_id=proposal.pk, plan_id=record.pk, progress=progress, at=at)
    drop_left_bundles(left_bundles=reports.left)
    return len(proposals)


def touched_nodes(plan: Plan) -> set[str]:
    """The nodes whose desired state a plan changes: those of what is divided otherwise read and write for others."""
    before, after = plan.fragments_before, plan.fragments_after
    divided = [
        fragment for fragment_id, fragment in (before | after).items()
        if fragment_id in before and fragment_id in after and before[fragment_id].bundles != after[fragment_id].bundles]
    return {node_of(slot) for slot in {bundle.slot for bundle in _bundles(plan)} | slots_around(divided)}


def where_it_runs(plan: Plan) -> Plan:
    """The plan with its queries on the slots where the estate has them: some have moved, where a node came back with
    fewer slots than there were when it was planned."""
    slots = {
        bundle.id: bundle.slot for fragment in fragments_where(pk__in=list(plan.fragments_after)).values()
        for bundle in fragment.queries}
    return replace(plan, fragments_after={
        fragment_id: fragment.placed(lambda bundle: slots.get(bundle.id, bundle.slot))
        for fragment_id, fragment in plan.fragments_after.items()})


def _active_now(plan: Plan) -> dict[str, int]:
    """The number of tasks that work in the queries that a plan concerns, and in those that it lets read others: a later
    plan may have put some to rest."""
    readers = {step.reader for step in plan.steps if step.reader}
    return {
        name: fragment.active for name, fragment in fragments_where(pk__in=[*plan.fragments_after, *readers]).items()}


def _bundles(plan: Plan) -> Iterator[RunningBundle]:
    for fragment in (*plan.fragments_before.values(), *plan.fragments_after.values()):
        yield from fragment.queries
