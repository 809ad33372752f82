"""Promises of schedules, read from approved plans."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from uuid import UUID

from django.db.models import Q

from dashboard.approvals.lifecycle import DONE, ROLLED_BACK
from dashboard.approvals.models import Proposal
from dashboard.approvals.plan_in_force import plans_in_force
from dashboard.plans.models import PlanRecord
from dashboard.plans.selectors import plan_of
from dashboard.schedules.promised_bundles import fragments_of, parts_of, promised_ids
from scheduler.model.estate import Estate
from scheduler.model.plan import Plan
from scheduler.model.promise import Load, Promise


@dataclass(frozen=True, slots=True)
class PromiseInForce:
    """A promise, the proposal that made it, and since when it is in force: None if it has never been."""

    promise: Promise
    proposal_id: UUID
    since: datetime | None


def in_force(dataflow_ids: Collection[UUID | str]) -> dict[str, PromiseInForce]:
    """The promises in force, by dataflow id; a dataflow that runs without a schedule has none."""
    return {
        dataflow_id: PromiseInForce(promise, plan.proposal_id, plan.since)
        for dataflow_id, plan in plans_in_force(dataflow_ids).items()
        if plan.has_promise and (promise := _promise(plan.plan_id)) is not None}


def ran_by(dataflow_id: UUID, *, most: int) -> list[PromiseInForce]:
    """The promises of a dataflow's enacted plans, newest first, ``most`` at the most."""
    enacted = Proposal.objects.in_effect().filter(
        Q(status=DONE, plan__has_promise=True) | Q(status=ROLLED_BACK, rollback_plan__has_promise=True),
        dataflow=dataflow_id)
    rows = enacted.order_by("-finished_at").values_list("pk", "plan_id", "rollback_plan_id", "finished_at")[:most]
    return [
        PromiseInForce(promise, pk, at) for pk, plan_id, back_id, at in rows
        if (promise := _promise(back_id or plan_id)) is not None]


def made_by(proposal: Proposal) -> PromiseInForce | None:
    """The promise of a proposal's plan, enacted or not; None where the plan has no schedule, or is not made yet.

    For a removal that was rolled back, it is the promise of the plan that submitted the dataflow again.
    """
    plan = proposal.rollback_plan if proposal.took_back_a_removal else proposal.plan
    if plan is None or not plan.has_promise:
        return None
    promise = _promise(plan.pk)
    since = proposal.finished_at if proposal.is_in_effect else None
    return None if promise is None else PromiseInForce(promise, proposal.pk, since)


def promised_loads(estate: Estate, dataflow_ids: Collection[UUID | str]) -> dict[str, Load]:
    """Promised loads of these dataflows' bundles, by the id of a bundle in the estate; one that has ended keeps the id
    of its promise."""
    promised_loads: dict[str, Load] = {}
    for dataflow_id, current in in_force(dataflow_ids).items():
        fragments = fragments_of(estate, dataflow_id, current.promise)
        loads, parts = loads_in(current.promise), parts_of(fragments)
        running = {bundle.id for fragment in fragments.values() for bundle in fragment.queries}
        promised_loads |= {promised: load for promised, load in loads.items() if promised not in running}
        promised_loads |= {query: loads[promised] for query, promised in promised_ids(current.promise, parts).items()}
    return promised_loads


def loads_before(plan: Plan) -> dict[str, Load] | None:
    """The loads promised for a plan's bundles before its own promise; None if the plan has not taken effect.

    The promise in force is then still the previous one.
    """
    dataflow_id = plan.dataflow.id
    now = in_force([dataflow_id]).get(dataflow_id)
    if now is None or now.promise != plan.promise:
        return None
    earlier = (
        earlier_plan.promise
        for earlier_plan in ran_by(UUID(dataflow_id), most=2)
        if earlier_plan.promise != plan.promise
    )
    return next(map(loads_in, earlier), {})


def loads_in(promise: Promise) -> dict[str, Load]:
    """The promised load of each bundle, by its id."""
    return {bundle.id: Load(bundle.cpu, bundle.memory) for bundle in promise.bundles}


@lru_cache(maxsize=256)
def _promise(plan_id: UUID) -> Promise | None:
    """A frozen plan never changes: its promise is read once a process."""
    plan = plan_of(PlanRecord.objects.get(pk=plan_id))
    return plan.promise if plan else None
