"""Saying something of a proposal: comment, reply, edit for some minutes, resolve a thread and open it again."""

from __future__ import annotations

import re
from uuid import UUID

from django.utils import timezone

from dashboard.approvals.comments import EDITABLE_FOR, may_edit, may_resolve
from dashboard.approvals.models import Comment, Mention, Proposal
from dashboard.approvals.permissions import proposal_for
from dashboard.approvals.review_notices import tell_mentioned
from dashboard.audit.trail import audited
from dashboard.catalog.selectors import graph_of
from dashboard.core.http_errors import BadInput
from dashboard.teams.models import User
from dashboard.teams.permissions import Viewer, viewer_of
from scheduler.model.errors import InvalidTransition, NotFound, PermissionDenied

LONGEST = 4_000
MOST = 500  # comments of a proposal: all are on its page
MOST_MENTIONS = 20
_MENTION = re.compile(r"(?<![\w@.])@([\w.+-]{1,150})")


def comment_on(
    *, actor: User, proposal_id: UUID | str, text: str, task: str = "", reply_to: int | None = None
) -> Comment:
    """Comment on a proposal, or on one of its tasks; people named with an @ are notified.

    Parameters
    ----------
    actor : User
        Whoever may see the proposal.
    task : str, optional
        A task as the document calls it; empty for the whole proposal. A reply is of its thread's.
    """
    viewer, clean = viewer_of(actor), _clean(text)
    with audited(actor=actor, verb="proposal.comment") as audit:
        proposal = proposal_for(viewer, proposal_id)
        if Comment.objects.filter(proposal=proposal).count() >= MOST:
            raise BadInput(f"This proposal has {MOST} comments, which is the most.", remedy="Talk to each other.")
        parent = None if reply_to is None else _comment_of(proposal, reply_to)
        if parent is not None and parent.parent_id is not None:
            parent = parent.parent
        if parent is None and task and not _has_task(proposal, task):
            raise BadInput(f"This proposal has no task {task[:60]!r}.", remedy="Choose one of its tasks.")
        comment = Comment.objects.create(
            proposal=proposal, task=parent.task if parent else task, parent=parent, author=actor, text=clean)
        _mention(comment)
        audit.subject, audit.team = proposal, proposal.dataflow.team
        audit.details = {"comment": comment.pk, "task": comment.task, "reply_to": parent.pk if parent else None}
        return comment


def edit_comment(*, actor: User, proposal_id: UUID | str, comment_id: int, text: str) -> Comment:
    """Change one's own comment within some minutes; the trail keeps what it said before."""
    viewer, clean = viewer_of(actor), _clean(text)
    with audited(actor=actor, verb="proposal.edit_comment") as audit:
        comment = _comment_for(viewer, proposal_id, comment_id)
        if not may_edit(viewer, comment, at=timezone.now()):
            raise PermissionDenied(
                f"Only its author may edit a comment, for {EDITABLE_FOR.seconds // 60} minutes.",
                remedy="Reply to it instead.")
        audit.subject, audit.team = comment.proposal, comment.proposal.dataflow.team
        audit.details = {"comment": comment.pk, "before": comment.text}
        if comment.text == clean:
            audit.nothing_changed()
            return comment
        comment.text, comment.edited = clean, timezone.now()
        comment.save(update_fields=["text", "edited"])
        _mention(comment)
        return comment


def resolve_thread(*, actor: User, proposal_id: UUID | str, comment_id: int, resolved: bool = True) -> Comment:
    """Resolve a thread, or open it again: who began it, or an engineer of the dataflow's team."""
    viewer = viewer_of(actor)
    with audited(actor=actor, verb="proposal.resolve" if resolved else "proposal.reopen") as audit:
        comment = _comment_for(viewer, proposal_id, comment_id)
        comment = comment.parent or comment
        if not may_resolve(viewer, comment):
            raise PermissionDenied(
                "Only who began a thread, or an engineer of the dataflow's team, may resolve it.",
                remedy="Reply to it instead.")
        audit.subject, audit.team = comment.proposal, comment.proposal.dataflow.team
        audit.details = {"comment": comment.pk}
        if (comment.resolved is not None) is resolved:
            raise InvalidTransition(
                f"The thread is {'resolved' if resolved else 'open'} already.", remedy="Reload the page.")
        comment.resolved, comment.resolved_by = (timezone.now(), actor) if resolved else (None, None)
        comment.save(update_fields=["resolved", "resolved_by"])
        return comment


def see_mentions(*, actor: User, proposal: Proposal) -> None:
    """Note that a reader of a proposal has seen the comments that name them. It concerns nobody else, so it is not
    audited."""
    unseen = Mention.objects.filter(user=actor, seen=False, comment__proposal=proposal)
    if not unseen.exists():
        return
    with audited(actor=actor, verb="proposal.see_mentions", subject=proposal) as audit:
        audit.nothing_changed()
        unseen.update(seen=True)


def _comment_for(viewer: Viewer, proposal_id: UUID | str, comment_id: int) -> Comment:
    return _comment_of(proposal_for(viewer, proposal_id), comment_id, lock=True)


def _comment_of(proposal: Proposal, comment_id: int, *, lock: bool = False) -> Comment:
    comments = Comment.objects.filter(proposal=proposal, pk=comment_id).select_related(
        "proposal__dataflow__team", "parent__proposal__dataflow__team")
    comment = (comments.select_for_update(of=("self",)) if lock else comments).first()
    if comment is None:
        raise NotFound("There is no such comment.", remedy="Reload the page.")
    return comment


def _has_task(proposal: Proposal, task: str) -> bool:
    numbers = {proposal.plan.version, proposal.plan.options.get("former", proposal.plan.version)}
    return any(
        task == entry["id"] for number in numbers for entry in graph_of(proposal.dataflow, number=number)["tasks"])


def _mention(comment: Comment) -> None:
    """Tell whoever is named and may see the proposal; nobody twice."""
    names = [name.rstrip(".-+") for name in _MENTION.findall(comment.text)][:MOST_MENTIONS]
    people = User.objects.filter(username__in=names, is_active=True).exclude(pk=comment.author_id)
    record = comment.proposal.dataflow
    addressees = [
        person for person in people if not record.private or viewer_of(person).sees_private_of(record.team_id)]
    Mention.objects.bulk_create((Mention(comment=comment, user=person) for person in addressees), ignore_conflicts=True)
    tell_mentioned(comment, addressees)


def _clean(text: str) -> str:
    clean = text.replace("\0", "").strip()
    if not clean:
        raise BadInput("A comment needs some text.", remedy="Write what you want to say.", parameter="text")
    return clean[:LONGEST]
