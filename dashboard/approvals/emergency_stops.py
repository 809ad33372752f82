"""Emergency stops: dataflows that rest because somebody paused them at once, without an approval."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from dashboard.approvals.lifecycle import DONE, UNDER_WAY
from dashboard.approvals.models import Proposal
from dashboard.catalog.lifecycle import PAUSED, PAUSING
from scheduler.model.plan_kinds import PLAN_KINDS, names_where


@dataclass(frozen=True, slots=True)
class EmergencyStop:
    """An emergency stop of a dataflow of a team (its row's id): who, when, why, and by which proposal."""

    proposal: UUID
    name: str
    team: int
    by: str
    at: datetime
    reason: str


def is_emergency_stop(kind: str, options: Mapping[str, Any]) -> bool:
    """True if a plan of a kind, with these options, is an emergency stop: a pause at once. A switch may be at once as
    well, which says that nothing warms up, and is reviewed as any other."""
    return PLAN_KINDS[kind].rests and bool(options.get("at_once"))


def emergency_stops(dataflows: Collection[UUID | str] | None = None) -> dict[str, EmergencyStop]:
    """The emergency stops by which some of these dataflows, or of all, rest, by their ids; not those that an approved
    pause rests."""
    pauses = Proposal.objects.filter(
        dataflow__status__in=(PAUSING, PAUSED), plan__kind__in=names_where("rests"),
        status__in={DONE, *UNDER_WAY}).select_related("plan", "dataflow", "author").order_by("approved_at")
    if dataflows is not None:
        pauses = pauses.filter(dataflow__in=dataflows)
    newest = {str(proposal.dataflow_id): proposal for proposal in pauses}
    return {
        key: EmergencyStop(
            proposal.pk, proposal.dataflow.name, proposal.dataflow.team_id, proposal.author_name, proposal.approved_at,
            proposal.plan.options["why"])
        for key, proposal in newest.items() if is_emergency_stop(proposal.plan.kind, proposal.plan.options)}
