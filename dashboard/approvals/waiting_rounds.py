"""Rounds of controllers that wait for a plan to be enacted: for which, as far as the viewer may know of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dashboard.approvals.lifecycle import DONE, EXECUTING, FAILED
from dashboard.approvals.models import Proposal
from dashboard.catalog.permissions import visible_to
from dashboard.controllers.models import RoundRow
from dashboard.teams.permissions import Viewer
from scheduler.controllers.loop_values import BEGUN, ROLLING_BACK


@dataclass(frozen=True, slots=True)
class Blocking:
    """Plan that a round waits for, in words that follow "waits for"; its proposal where the viewer may know of it."""

    words: str
    proposal: Proposal | None


def blocking(viewer: Viewer, rows: Iterable[RoundRow]) -> dict[str, Blocking]:
    """The plan that is being enacted or taken back, by round that waits for it."""
    waiting = {row.key: getattr(row, "proposal", None) for row in rows if _waits(row)}
    if not waiting:
        return {}
    under_way = list(Proposal.objects.under_way().select_related("plan", "dataflow").order_by("approved_at", "pk"))
    visible = set(Proposal.objects.under_way().filter(
        visible_to(viewer, through="dataflow__")).values_list("pk", flat=True))
    others = {
        key: [other_proposal for other_proposal in under_way if other_proposal != proposal]
        for key, proposal in waiting.items()}
    return {
        key: next((_named(plan) for plan in plans if plan.pk in visible), Blocking("a plan of another team", None))
        for key, plans in others.items() if plans}


def _named(proposal: Proposal) -> Blocking:
    return Blocking(f"the plan to {proposal.plan.kind} {proposal.dataflow.name}", proposal)


def _waits(row: RoundRow) -> bool:
    """True if it changes nothing before other plans are enacted: it has not begun to, or to take its change back."""
    proposal = getattr(row, "proposal", None)
    if row.phase == BEGUN:
        return proposal is None and row.profile is None
    return row.phase == ROLLING_BACK and proposal is not None and not row.stuck and (
        proposal.status in {EXECUTING, FAILED, DONE})
