"""Moves of queries that were carried out lately, each with the pause that was measured of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from dashboard.approvals.lifecycle import DONE, EXECUTING, FAILED, ROLLED_BACK, ROLLING_BACK
from dashboard.approvals.models import Proposal
from dashboard.approvals.selectors import proposals
from dashboard.history.store import DatabaseHistory
from dashboard.operations.handover_pauses import HANDED_OVER
from dashboard.plans.selectors import plan_of
from dashboard.teams.permissions import Viewer
from scheduler.history.series import QUERY
from scheduler.model.plan import Plan
from scheduler.model.plan_kinds import MOVE

LISTED = 8
PAUSE_IS_TOLD_WITHIN_S = 120  # of when the plan was done


@dataclass(frozen=True, slots=True)
class RecentMove:
    """A move: its proposal, the query that ended and the one that goes on, the two slots, when, and the pause in words.

    ``heir`` and ``source`` are empty where the plan tells no more; ``pause`` where nothing was measured.
    """

    proposal: Proposal
    query: str
    heir: str
    source: str
    target: str
    at: datetime | None
    pause: str


def recent_moves(viewer: Viewer) -> list[RecentMove]:
    """The newest moves that the viewer may know of, of those that began to be carried out."""
    rows = proposals(viewer).filter(
        plan__kind=MOVE.name, status__in=[EXECUTING, FAILED, DONE, ROLLING_BACK, ROLLED_BACK])[:LISTED]
    return [move for row in rows for move in _moves(row)][:LISTED]


def _moves(proposal: Proposal) -> list[RecentMove]:
    """The queries that went to a slot by one plan."""
    options, plan = proposal.plan.options, plan_of(proposal.plan)
    return [_move(proposal, plan, query) for query in (str(options.get("query", "")), *options.get("along", ()))]


def _move(proposal: Proposal, plan: Plan, query: str) -> RecentMove:
    target = str(proposal.plan.options.get("slot", ""))
    source = next((
        bundle.slot for fragment in plan.fragments_before.values() for bundle in fragment.queries
        if bundle.id == query), "")
    heir = next((
        bundle.id for fragment in plan.fragments_after.values() for bundle in fragment.queries
        if query in fragment.inherited_by(bundle)[0]), "")
    return RecentMove(proposal, query, heir, source, target, proposal.approved_at, _pause(proposal, heir))


def _pause(proposal: Proposal, heir: str) -> str:
    """What the node told of the handover: for how long nothing worked at the query's tasks."""
    begun = proposal.approved_at or proposal.created
    end = proposal.finished_at or proposal.changed
    if not heir:
        return ""
    notes = DatabaseHistory().annotations(
        begin_s=int(begun.timestamp()), end_s=int(end.timestamp()) + PAUSE_IS_TOLD_WITHIN_S, subjects=[(QUERY, heir)])
    return next((note.text for note in notes if note.what == HANDED_OVER), "")
