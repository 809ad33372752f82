"""Choices of notification: what each has chosen by subject, and the messages that follow from it.

A subject is the severity of an alert, or what happens to proposals: ``review`` (one waits for somebody's approval),
``mention`` (a comment names somebody), ``decision`` (what became of one's own proposal).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.utils import timezone

from dashboard.outbox.models import EMAIL, HELD, WAITING, WEBHOOK, Delivery, Endpoint, NoticePreference
from dashboard.teams.models import User
from scheduler.alerting.alert_values import CRITICAL, SEVERITIES

REVIEW, MENTION, DECISION = "review", "mention", "decision"
SUBJECTS = (*SEVERITIES, REVIEW, MENTION, DECISION)


@dataclass(frozen=True, slots=True)
class NoticeChoice:
    """A person's choice of notification for one subject: by mail, by webhooks; at once, or once a day with all else."""

    subject: str
    email: bool
    webhook: bool
    daily: bool = False


@dataclass(frozen=True, slots=True)
class NoticeMessage:
    """One message, before its receivers are known.

    ``key``: names the event, of which each receiver gets one message; ``text``: the body of a mail; ``payload``: the
    body for webhooks; ``title``: the subject of both.
    """

    key: str
    payload: Mapping[str, Any]
    text: str


# Who has chosen nothing hears of what cannot wait, and of what waits for them.
_USUAL = {subject: subject not in SEVERITIES or subject == CRITICAL for subject in SUBJECTS}


def choices_of(user: User) -> list[NoticeChoice]:
    """The choices of a person, by subject."""
    return [choice for subject in SUBJECTS for _, choice in chosen_by([user], subject)]


def chosen_by(users: Iterable[User], subject: str) -> Iterator[tuple[User, NoticeChoice]]:
    """The choice of each of these people for a subject."""
    users = list(users)
    chosen = {row.user_id: row for row in NoticePreference.objects.filter(user__in=users, subject=subject)}
    for user in users:
        row = chosen.get(user.pk)
        yield user, (NoticeChoice(subject, row.email, row.webhook, row.daily) if row is not None
                     else NoticeChoice(subject, _USUAL[subject], _USUAL[subject]))


def deliveries_to(people: Iterable[tuple[User, NoticeChoice]], notice: NoticeMessage) -> Iterator[Delivery]:
    """The messages of one notice to people; held back until the next digest where a person chose that."""
    people, title = list(people), notice.payload["title"]
    endpoints: dict[int, list[Endpoint]] = {}
    for endpoint in Endpoint.objects.filter(user__in=[user for user, choice in people if choice.webhook]):
        endpoints.setdefault(endpoint.user_id, []).append(endpoint)
    for user, choice in people:
        delivery_state = {"state": WAITING}
        if choice.daily:
            delivery_state = {"state": HELD, "next_s": next_digest_s(timezone.now())}
        if choice.email and user.email:
            yield Delivery(
                key=f"{notice.key}:mail:{user.pk}", channel=EMAIL, user=user, to=user.email,
                subject=f"[Weir] {title}"[:200], payload={"text": notice.text, "link": notice.payload["link"]},
                **delivery_state)
        for endpoint in endpoints.get(user.pk, ()):
            yield webhook_delivery(endpoint, notice, **delivery_state)


def webhook_delivery(endpoint: Endpoint, notice: NoticeMessage, **facts: Any) -> Delivery:
    """The message of a notice to one webhook."""
    return Delivery(
        key=f"{notice.key}:hook:{endpoint.pk}", channel=WEBHOOK, endpoint=endpoint,
        subject=notice.payload["title"][:300], payload=notice.payload, **facts)


def next_digest_s(at: datetime) -> int:
    """The time of the next digest, in seconds since the epoch: at ``WEIR_DIGEST_HOUR``, UTC."""
    today = at.astimezone(UTC).replace(hour=settings.DIGEST_HOUR, minute=0, second=0, microsecond=0)
    return int((today if today > at else today + timedelta(days=1)).timestamp())
