"""Proposals by whose plans dataflows run."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import OuterRef, Subquery

from dashboard.approvals.models import Proposal
from dashboard.catalog.models import DataflowRecord
from scheduler.model.plan_kinds import names_where

# What was removed has no schedule, also where it comes again.
SETS_PLAN = names_where("schedules")


@dataclass(frozen=True, slots=True)
class PlanInForce:
    """The plan that a dataflow runs by, or was removed by, the proposal that it belongs to, and since when."""

    proposal_id: UUID
    plan_id: UUID
    since: datetime
    has_promise: bool


def plans_in_force(dataflow_ids: Collection[UUID | str]) -> dict[str, PlanInForce]:
    """The plan that each dataflow was given last, by dataflow id; one that none was enacted for is absent.

    Of a removal that was rolled back it is the submission that took it back.
    """
    enacted = Proposal.objects.in_effect().filter(plan__kind__in=SETS_PLAN, dataflow=OuterRef("pk"))
    newest = DataflowRecord.objects.filter(pk__in=dataflow_ids).values(
        last=Subquery(enacted.order_by("-finished_at").values("pk")[:1]))
    rows = Proposal.objects.filter(pk__in=newest).values_list(
        "pk", "dataflow_id", "finished_at", "plan_id", "plan__has_promise", "rollback_plan_id",
        "rollback_plan__has_promise")
    return {
        str(dataflow_id): PlanInForce(pk, back or plan, at, promises_back if back else promises)
        for pk, dataflow_id, at, plan, promises, back, promises_back in rows}
