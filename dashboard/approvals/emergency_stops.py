"""Emergency stops: dataflows that rest because somebody paused them at once, without an approval."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from dashboard.approvals.lifecycle import DONE, UNDER_WAY
from dashboard.approvals.models import Proposal
from dashboard.catalog.lifecycle import PAUSED, PAUSING
from scheduler.model.plan_kinds import names_where


@dataclass(frozen=True, slots=True)
class EmergencyStop:
    """Who paused a dataflow at once, when, why, and by which proposal."""

    proposal: UUID
    name: str
    by: str
    at: datetime
    reason: str


def emergency_stops(dataflows: Collection[UUID | str]) -> dict[str, EmergencyStop]:
    """Which of these dataflows rest by an emergency stop, by their ids; not those that an approved pause rests."""
    pauses = Proposal.objects.filter(
        dataflow__in=dataflows, dataflow__status__in=(PAUSING, PAUSED), plan__kind__in=names_where("rests"),
        status__in={DONE, *UNDER_WAY}).select_related("plan", "dataflow", "author").order_by("approved_at")
    newest = {str(proposal.dataflow_id): proposal for proposal in pauses}
    return {
        key: EmergencyStop(proposal.pk, proposal.dataflow.name, proposal.author_name, proposal.approved_at,
                           proposal.plan.options["why"])
        for key, proposal in newest.items() if proposal.plan.options.get("at_once")}
