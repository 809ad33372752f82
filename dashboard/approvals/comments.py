"""Reading what people say of proposals.

- ``threads_of(viewer, proposal)``: threads with their replies, open ones first, and what the viewer may do
- ``unseen_mentions(viewer)``: proposals in which the viewer is named and has not looked since
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, Max, QuerySet
from django.utils import timezone

from dashboard.approvals.models import Comment, Mention, Proposal
from dashboard.catalog.permissions import visible_to
from dashboard.teams.models import Role
from dashboard.teams.permissions import Viewer

EDITABLE_FOR = timedelta(minutes=15)


def may_edit(viewer: Viewer, comment: Comment, *, at: datetime) -> bool:
    """True if the viewer may still change the text: their own, for some minutes."""
    return comment.author_id == viewer.user_id and at - comment.created < EDITABLE_FOR


def may_resolve(viewer: Viewer, comment: Comment) -> bool:
    """True if the viewer may resolve a thread: who began it, or an engineer of the dataflow's team."""
    return comment.author_id == viewer.user_id or viewer.has_role(comment.proposal.dataflow.team_id, Role.ENGINEER)


def threads_of(viewer: Viewer, proposal: Proposal) -> list[dict[str, Any]]:
    """The threads of a proposal: those that are open first, each in the order in which it was begun, as a
    `dashboard.api.answers.proposals.Thread`."""
    comments = list(Comment.objects.filter(proposal=proposal).select_related(
        "author", "resolved_by", "proposal__dataflow"))
    at = timezone.now()
    threads = {comment.pk: _row(viewer, comment, at) | {
        "task": comment.task, "resolved": comment.resolved and comment.resolved.isoformat(),
        "resolved_by": comment.resolved_by.username if comment.resolved_by else "",
        "may_resolve": may_resolve(viewer, comment), "replies": []}
        for comment in comments if comment.parent_id is None}
    for comment in comments:
        if comment.parent_id is not None:
            threads[comment.parent_id]["replies"].append(_row(viewer, comment, at))
    return sorted(threads.values(), key=lambda thread: bool(thread["resolved"]))


def comments_state(proposal: Proposal) -> dict[str, Any]:
    """A state that changes whenever somebody says, edits or resolves something: for live pages."""
    newest = Comment.objects.filter(proposal=proposal).aggregate(
        count=Count("pk"), last_said=Max("created"), last_edited=Max("edited"), last_resolved=Max("resolved"),
        resolved=Count("resolved"))
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in newest.items()}


def unseen_mentions(viewer: Viewer) -> QuerySet[Proposal]:
    """Proposals in which the viewer is named and has not looked since."""
    unseen = Mention.objects.filter(user_id=viewer.user_id, seen=False).values("comment__proposal_id")
    return Proposal.objects.filter(visible_to(viewer, through="dataflow__"), pk__in=unseen)


def _row(viewer: Viewer, comment: Comment, at: datetime) -> dict[str, Any]:
    return {
        "id": comment.pk, "author": comment.author.username, "text": comment.text, "at": comment.created.isoformat(),
        "edited": comment.edited and comment.edited.isoformat(), "may_edit": may_edit(viewer, comment, at=at)}
