"""Messages about proposals: one waits for somebody's approval, a comment names somebody, one's own was decided.

They are stored in the transaction of what they are about, and go out as each person has chosen (`notice_choices`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.conf import settings
from django.urls import reverse

from dashboard.approvals.demands import ROLES
from dashboard.approvals.lifecycle import EXECUTING, FAILED, REJECTED, ROLLED_BACK, UNPLANNABLE
from dashboard.approvals.models import Ask, Comment, Proposal, Review
from dashboard.approvals.review_decisions import plan_in_words
from dashboard.outbox.models import Endpoint
from dashboard.outbox.notice_choices import (
    DECISION,
    MENTION,
    REVIEW,
    NoticeMessage,
    chosen_by,
    deliveries_to,
    webhook_delivery,
)
from dashboard.outbox.sending import enqueue
from dashboard.plans.selectors import plan_of
from dashboard.teams.models import Team, User
from dashboard.teams.permissions import viewer_of
from scheduler.alerting.alert_values import INFO
from scheduler.approving import DemandStatus
from scheduler.model.plan_kinds import PLAN_KINDS

_DECIDED = {
    EXECUTING: "was approved", REJECTED: "was rejected", FAILED: "cannot be enacted for now",
    ROLLED_BACK: "was rolled back", UNPLANNABLE: "could not be planned"}
_QUOTED = 300  # characters of a comment in a message


def ask_reviewers(proposal: Proposal, demands: Mapping[Ask, DemandStatus]) -> None:
    """Tell the people whose approval a proposal lacks that it waits for them, each once for each team.

    ``demands``: the teams' demands and their progress. The message says what the plan does and costs.
    """
    plan = plan_of(proposal.plan) if any(met.missing for met in demands.values()) else None
    for ask, met in demands.items():
        if not met.missing:
            continue
        notice = _notice(
            proposal, REVIEW, f"review:{proposal.pk}:{ask.team_id}",
            f"{_name(proposal)} by {proposal.author_name} waits for an approval by {ask.team.name}",
            plan_in_words(plan) if plan else "", team=ask.team)
        members = User.objects.filter(
            memberships__team=ask.team, memberships__role__gte=ROLES[ask.role], is_active=True).order_by("pk")
        _tell([user for user in members if not proposal.is_of(user.pk) and _sees(user, proposal)], REVIEW, notice)
        enqueue([
            webhook_delivery(endpoint, notice) for endpoint in Endpoint.objects.filter(team=ask.team, least=INFO)])


def tell_mentioned(comment: Comment, people: Iterable[User]) -> None:
    """Tell people that a comment names them."""
    proposal = comment.proposal
    _tell(people, MENTION, _notice(
        proposal, MENTION, f"mention:{comment.pk}", f"{comment.author.username} names you in {_name(proposal)}",
        comment.text[:_QUOTED]))


def tell_author(proposal: Proposal) -> None:
    """Tell the author what became of a proposal, where others decided it or it did not come about."""
    decided = _DECIDED.get(proposal.status)
    if decided is None or proposal.author is None:
        return
    reviews = Review.objects.filter(plan_id=proposal.plan_id).exclude(reviewer=proposal.author)
    newest = reviews.select_related("reviewer").order_by("-at", "-pk").first()
    if proposal.status == EXECUTING and newest is None:
        return  # it waited for nobody
    by = f" by {newest.reviewer.username}" if newest and proposal.status in {EXECUTING, REJECTED} else ""
    details = newest.comment if newest and by else (proposal.plan.error or {}).get("message", "")
    _tell([proposal.author], DECISION, _notice(
        proposal, DECISION, f"decision:{proposal.pk}:{proposal.plan_id}:{proposal.status}",
        f"{_name(proposal)} {decided}{by}", details[:_QUOTED]))


def _tell(users: Iterable[User], subject: str, notice: NoticeMessage) -> None:
    enqueue(list(deliveries_to(chosen_by(users, subject), notice)))


def _notice(
    proposal: Proposal, event: str, key: str, title: str, text: str = "", *, team: Team | None = None
) -> NoticeMessage:
    link = f"{settings.SITE_URL}{reverse('proposal', args=[proposal.pk])}"
    payload: dict[str, Any] = {
        "event": event, "what": proposal.status, "severity": INFO, "title": title, "text": text, "link": link,
        "team": (team or proposal.dataflow.team).slug, "proposal": str(proposal.pk), "count": 1,
        "dataflow": str(proposal.dataflow_id)}
    body = [f"{title}.", *([text] if text else []), link, "Choose your notifications under Alerts, Notifications."]
    return NoticeMessage(key, payload, "\n\n".join(body))


def _name(proposal: Proposal) -> str:
    return f"{PLAN_KINDS[proposal.plan.kind].noun} of {proposal.dataflow.name}"


def _sees(user: User, proposal: Proposal) -> bool:
    record = proposal.dataflow
    return not record.private or viewer_of(user).sees_private_of(record.team_id)
