"""The routes of proposals: reading, reviewing and changing them. ``docs/api.md`` describes them."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import HttpRequest
from ninja import Query, Router, Status

from dashboard.api import schemas
from dashboard.api.answers.common import Page
from dashboard.api.answers.proposals import NearMissAnswer, ProposalDetail, ProposalRow, Thread
from dashboard.approvals import selectors as approvals
from dashboard.approvals import services
from dashboard.approvals.comments import threads_of
from dashboard.approvals.difference import difference
from dashboard.approvals.near_miss_search import near_miss_row, near_misses_of

router = Router()


@router.get("/proposals", response=Page[ProposalRow])
def proposals(
    request: HttpRequest, status: str = "", search: str = "", page: int = Query(1, ge=1, le=10**6)
) -> dict[str, Any]:
    """Proposals that the caller may know of, newest first; ``status=open`` for those not yet decided."""
    return schemas.page_of(
        approvals.proposals(request.viewer, status=status, search=search), page, schemas.proposal_row)


@router.get("/proposals/{uuid:proposal_id}", response=ProposalDetail, exclude_unset=True)
def proposal(request: HttpRequest, proposal_id: UUID) -> dict[str, Any]:
    """One proposal with its difference and where its review stands."""
    record = approvals.proposal(request.viewer, proposal_id)
    return schemas.proposal_row(record) | {
        "difference": difference(request.viewer, record), "review": approvals.review_of(request.viewer, record)}


@router.get("/proposals/{uuid:proposal_id}/near-misses", response=list[NearMissAnswer])
def proposal_near_misses(request: HttpRequest, proposal_id: UUID) -> list[dict[str, Any]]:
    """The near misses of a proposed dataflow, best first."""
    return [near_miss_row(miss) for miss in near_misses_of(approvals.proposal(request.viewer, proposal_id))]


@router.post("/proposals/{uuid:proposal_id}/adopt", response={201: ProposalRow})
def adopt(request: HttpRequest, proposal_id: UUID, adoption: schemas.AdoptionIn) -> Status:
    """Adopt a near miss: 201 with the proposal of a new version, whose plan is being computed."""
    return Status(201, schemas.proposal_row(services.adopt_near_miss(
        actor=request.user, proposal_id=proposal_id, key=adoption.key)))


@router.post("/proposals/{uuid:proposal_id}/approve", response=ProposalRow)
def approve(request: HttpRequest, proposal_id: UUID, approval: schemas.ApprovalIn) -> dict[str, Any]:
    """Approve the plan of this digest, for the caller's teams; the last approval executes it."""
    return schemas.proposal_row(services.approve_proposal(
        actor=request.user, proposal_id=proposal_id, digest=approval.digest, comment=approval.comment))


@router.post("/proposals/{uuid:proposal_id}/reject", response=ProposalRow)
def reject(request: HttpRequest, proposal_id: UUID, rejection: schemas.RejectionIn) -> dict[str, Any]:
    """Reject a proposal, with a comment."""
    return schemas.proposal_row(services.reject_proposal(
        actor=request.user, proposal_id=proposal_id, comment=rejection.comment))


@router.post("/proposals/{uuid:proposal_id}/cancel", response=ProposalRow)
def cancel(request: HttpRequest, proposal_id: UUID) -> dict[str, Any]:
    """Take a proposal back."""
    return schemas.proposal_row(services.cancel_proposal(actor=request.user, proposal_id=proposal_id))


@router.post("/proposals/{uuid:proposal_id}/recompute", response=ProposalRow)
def recompute(request: HttpRequest, proposal_id: UUID) -> dict[str, Any]:
    """Compute the plan of a stale proposal anew."""
    return schemas.proposal_row(services.recompute_proposal(actor=request.user, proposal_id=proposal_id))


@router.post("/proposals/{uuid:proposal_id}/joining", response=ProposalRow)
def joining(request: HttpRequest, proposal_id: UUID, choice: schemas.JoiningIn) -> dict[str, Any]:
    """Join what is under way in another way: a new plan is computed, and reviews start anew."""
    return schemas.proposal_row(services.choose_joining(
        actor=request.user, proposal_id=proposal_id, fresh=choice.fresh, begin=choice.begin))


@router.post("/proposals/{uuid:proposal_id}/roll-back", response=ProposalRow)
def roll_back(request: HttpRequest, proposal_id: UUID) -> dict[str, Any]:
    """Take back a plan that is being executed or fails."""
    return schemas.proposal_row(services.roll_back_proposal(actor=request.user, proposal_id=proposal_id))


@router.get("/proposals/{uuid:proposal_id}/comments", response=list[Thread])
def comments(request: HttpRequest, proposal_id: UUID) -> list[dict[str, Any]]:
    """The comments on a proposal, by threads, those that are open first."""
    return threads_of(request.viewer, approvals.proposal(request.viewer, proposal_id))


@router.post("/proposals/{uuid:proposal_id}/comments", response={201: list[Thread]})
def comment(request: HttpRequest, proposal_id: UUID, body: schemas.CommentIn) -> Status:
    """Say something of a proposal or one of its tasks, or reply: 201 with all threads."""
    services.comment_on(
        actor=request.user, proposal_id=proposal_id, text=body.text, task=body.task, reply_to=body.reply_to)
    return Status(201, comments(request, proposal_id))


@router.put("/proposals/{uuid:proposal_id}/comments/{int:comment_id}", response=list[Thread])
def edit_comment(
    request: HttpRequest, proposal_id: UUID, comment_id: int, body: schemas.CommentEditIn
) -> list[dict[str, Any]]:
    """Change one's own comment, within 15 minutes."""
    services.edit_comment(actor=request.user, proposal_id=proposal_id, comment_id=comment_id, text=body.text)
    return comments(request, proposal_id)


@router.post("/proposals/{uuid:proposal_id}/comments/{int:comment_id}/resolve", response=list[Thread])
def resolve_comment(
    request: HttpRequest, proposal_id: UUID, comment_id: int, body: schemas.ResolutionIn
) -> list[dict[str, Any]]:
    """Resolve a thread, or open it again."""
    services.resolve_thread(
        actor=request.user, proposal_id=proposal_id, comment_id=comment_id, resolved=body.resolved)
    return comments(request, proposal_id)
