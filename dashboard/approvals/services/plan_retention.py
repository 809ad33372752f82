"""Deletion of the documents of old plans. Their digests, approvals and outcomes stay."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Q, QuerySet

from dashboard.approvals.lifecycle import COMPUTING, DONE, PENDING, UNDER_WAY
from dashboard.approvals.models import Proposal
from dashboard.approvals.plan_in_force import plans_in_force
from dashboard.audit.trail import audited
from dashboard.plans.models import PlanRecord
from scheduler.model.plan_kinds import names_where

FORGOTTEN = "plan.forget"
READS_FOR = timedelta(days=30)  # older plans are not looked at for read sets: few were in review so long
MOST_AT_ONCE = 500  # plans of one transaction: the next round goes on


def forget_plans(at: datetime) -> int:
    """Empty the documents of plans that ended longer ago than ``PLANS_KEEP_DAYS``; of how many.

    Three sorts of plans keep theirs: those by which a dataflow runs, those whose schedule was in force (its outcome is
    compared with them), and those that can still be taken back. The read set of a plan is emptied as soon as the plan
    no longer waits for reviewers.
    """
    young = PlanRecord.objects.filter(created__gte=at - READS_FOR)
    young.exclude(reads="").exclude(proposal__status=PENDING).update(reads="")
    if not settings.PLANS_KEEP_DAYS:
        return 0
    before = at - timedelta(days=settings.PLANS_KEEP_DAYS)
    with audited(actor=None, verb=FORGOTTEN) as audit:
        plans = list(_forgettable(before).order_by("created").values_list("pk", flat=True)[:MOST_AT_ONCE])
        if not plans:
            audit.nothing_changed()
            return 0
        PlanRecord.objects.filter(pk__in=plans).update(document="", reads="")
        audit.subject = PlanRecord.objects.get(pk=plans[-1])
        audit.details = {"plans": len(plans), "ended_before": before.isoformat()}
        return len(plans)


def _forgettable(before: datetime) -> QuerySet[PlanRecord]:
    old = PlanRecord.objects.exclude(document="").filter(created__lt=before)
    recent = Q(proposal__changed__gte=before) | Q(proposal__status__in=[COMPUTING, PENDING, *UNDER_WAY])
    undoable = Q(proposal__status=DONE, kind__in=names_where("undoable_when_done"))
    was_in_force = Proposal.objects.in_effect().filter(
        Q(plan__has_promise=True) | Q(rollback_plan__has_promise=True)).values_list("plan_id", "rollback_plan_id")
    dataflows = old.order_by().values_list("dataflow_id", flat=True).distinct()
    in_force = {plan.plan_id for plan in plans_in_force(dataflows).values()}
    promising = {plan_id for pair in was_in_force for plan_id in pair if plan_id is not None}
    taking_back = PlanRecord.objects.filter(pk__in=Proposal.objects.filter(
        Q(changed__gte=before) | Q(status__in=UNDER_WAY), rollback_plan__isnull=False).values("rollback_plan"))
    return old.exclude(recent).exclude(undoable).exclude(pk__in=in_force | promising).exclude(pk__in=taking_back)
