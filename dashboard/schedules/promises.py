"""What the schedules that are in force promised, from the plans that were approved."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from uuid import UUID

from django.db.models import BooleanField, ExpressionWrapper, Q

from dashboard.approvals.lifecycle import DONE
from dashboard.approvals.models import Proposal
from dashboard.plans.models import PlanRecord
from dashboard.plans.selectors import plan_of
from scheduler.model.promise import Load, Promise

SCHEDULING = ("submit", "schedule")  # kinds of plan that say what runs where
# Asked of the text, so that plans without a schedule are not read at all.
_HAS_PROMISE = ExpressionWrapper(Q(plan__document__contains='"promise":'), output_field=BooleanField())


@dataclass(frozen=True, slots=True)
class InForce:
    """A promise, the proposal that made it, and since when it is in force."""

    promise: Promise
    proposal_id: UUID
    since: datetime


def in_force(dataflow_ids: Collection[UUID | str]) -> dict[str, InForce]:
    """What the newest enacted plans of dataflows promised, by their ids; one that runs without a schedule is absent."""
    newest: dict[str, dict] = {}
    enacted = Proposal.objects.filter(
        dataflow__in=dataflow_ids, status=DONE, plan__kind__in=SCHEDULING, finished_at__isnull=False)
    for row in enacted.annotate(has_promise=_HAS_PROMISE).order_by("finished_at").values(
            "pk", "dataflow_id", "plan_id", "finished_at", "has_promise"):
        newest[str(row["dataflow_id"])] = row
    return {
        dataflow_id: InForce(promise, row["pk"], row["finished_at"])
        for dataflow_id, row in newest.items()
        if row["has_promise"] and (promise := _promise(row["plan_id"])) is not None}


def promised_loads(dataflow_ids: Collection[UUID | str]) -> dict[str, Load]:
    """What was promised of each bundle of these dataflows, by bundle id."""
    found: dict[str, Load] = {}
    for kept in in_force(dataflow_ids).values():
        found |= loads_in(kept.promise)
    return found


def loads_in(promise: Promise) -> dict[str, Load]:
    """What was promised of each bundle, by its id."""
    return {bundle.id: Load(bundle.cpu, bundle.memory) for bundle in promise.bundles}


@lru_cache(maxsize=256)
def _promise(plan_id: UUID) -> Promise | None:
    """A frozen plan never changes: its promise is read once a process."""
    plan = plan_of(PlanRecord.objects.get(pk=plan_id))
    return plan.promise if plan else None
