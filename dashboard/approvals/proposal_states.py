"""Moving a proposal from state to state; the caller is inside an audited command."""

from __future__ import annotations

from dashboard.approvals.lifecycle import LIFECYCLE
from dashboard.approvals.models import Proposal
from dashboard.approvals.review_notices import tell_author
from dashboard.audit.trail import inside_command


def move_proposal(proposal: Proposal, to: str) -> None:
    """Check the move, save the proposal whole and tell live pages; tell its author what became of it."""
    if not inside_command():
        raise RuntimeError("a proposal moves inside an audited command only")
    LIFECYCLE.check(proposal.status, to)
    proposal.status = to
    proposal.save()
    tell_author(proposal)
