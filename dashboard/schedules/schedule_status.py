"""The state of a schedule, and the time since which nothing has changed about it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from django.db.models import OuterRef, Q, Subquery

from dashboard.approvals.lifecycle import DONE, ROLLED_BACK, UNDER_WAY
from dashboard.approvals.models import Proposal
from dashboard.catalog.lifecycle import PAUSED, PAUSING, RUNNING
from dashboard.catalog.models import DataflowRecord
from dashboard.operations.estate_store.estate_loader import current_estate
from dashboard.plans.selectors import plan_of
from dashboard.schedules.promised_bundles import stands
from scheduler.model.plan_kinds import PLAN_KINDS, names_where
from scheduler.model.promise import Promise

What = Literal["running", "changing", "moved", "paused", "removed", "replaced", "never"]
ENDED_BY: dict[str, What] = {
    name: "removed" if PLAN_KINDS[name].takes_out else "replaced" for name in names_where("schedules")}
REARRANGING = names_where("moves_queries")  # they change bundles of other dataflows, too


@dataclass(frozen=True, slots=True)
class ScheduleStatus:
    """The state of a schedule.

    ``running`` or ``changing`` (a plan for its dataflow is being enacted), or no longer in force: ``moved`` (bundles
    run otherwise than it has them, by the plan of another dataflow that shares them or because slots are gone),
    ``paused``, ``removed``, ``replaced``; ``never`` where its own plan is not done. ``at`` is when that was begun and
    ``by`` which proposal, both None of ``moved``; ``steady_since`` is since when it runs unchanged.
    """

    what: What
    at: datetime | None = None
    by: UUID | None = None
    steady_since: datetime | None = None


NEVER = ScheduleStatus("never")


def steady_since(dataflow_ids: Collection[UUID | str]) -> dict[str, datetime]:
    """The time when the last plan of each dataflow was done or taken back; dataflows with a plan under way are left
    out."""
    changing = Proposal.objects.under_way().filter(dataflow__in=dataflow_ids).values("dataflow")
    finished = Proposal.objects.filter(
        dataflow=OuterRef("pk"), status__in=[DONE, ROLLED_BACK], finished_at__isnull=False).order_by("-finished_at")
    rows = DataflowRecord.objects.filter(pk__in=dataflow_ids).exclude(pk__in=changing).order_by().values_list(
        "pk", Subquery(finished.values("finished_at")[:1]))
    return {str(key): at for key, at in rows if at is not None}


def unsettled_fragments(*, since: datetime) -> set[str]:
    """The fragments whose bundles a plan is changing, of whichever dataflow, or has changed since then."""
    changing = Q(status__in=UNDER_WAY) | Q(status__in=[DONE, ROLLED_BACK], finished_at__gt=since)
    proposals = Proposal.objects.filter(changing, plan__kind__in=REARRANGING).select_related("plan", "rollback_plan")
    plans = [
        plan_of(record)
        for proposal in proposals
        for record in (proposal.plan, proposal.rollback_plan)
        if record is not None
    ]
    return {
        fragment for plan in plans if plan is not None
        for fragment in (*plan.fragments_before, *plan.fragments_after)}


def status_of(proposal: Proposal, promise: Promise) -> ScheduleStatus:
    """The state of a proposal's schedule with this promise; the proposal should come with its dataflow."""
    if not proposal.is_in_effect:
        return NEVER
    ended = Q(status__in=UNDER_WAY) | Q(pk__in=Proposal.objects.in_effect().values("pk"))
    later = list(Proposal.objects.filter(
        ended, dataflow=proposal.dataflow_id, approved_at__gt=proposal.approved_at or proposal.finished_at,
        ).order_by("approved_at").values("pk", "status", "plan__kind", "approved_at"))
    for row in later:
        if row["status"] == ROLLED_BACK:  # a removal: it was submitted anew, by that plan
            return ScheduleStatus("replaced", row["approved_at"], row["pk"])
        if row["status"] == DONE and row["plan__kind"] in ENDED_BY:
            return ScheduleStatus(ENDED_BY[row["plan__kind"]], row["approved_at"], row["pk"])
    status = proposal.dataflow.status
    if status == RUNNING:
        return _running(proposal, promise, [row for row in later if row["status"] in UNDER_WAY])
    flag, state = ("rests", "paused") if status in (PAUSED, PAUSING) else ("takes_out", "removed")
    last = next((row for row in reversed(later) if getattr(PLAN_KINDS[row["plan__kind"]], flag)), {})
    return ScheduleStatus(state, last.get("approved_at"), last.get("pk"))


def _running(proposal: Proposal, promise: Promise, under_way: list[dict]) -> ScheduleStatus:
    dataflow_id = str(proposal.dataflow_id)
    since = steady_since([dataflow_id]).get(dataflow_id)
    if since is None:
        by = under_way[-1] if under_way else {}
        return ScheduleStatus("changing", by.get("approved_at"), by.get("pk"))
    if not stands(current_estate(), dataflow_id, promise):
        return ScheduleStatus("moved")
    return ScheduleStatus("running", proposal.finished_at, proposal.pk, since)
