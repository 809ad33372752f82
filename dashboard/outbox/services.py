"""Actions on messages: choose notifications, add, remove and try webhooks, send a dead message again."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Collection
from typing import Any

from django.core.exceptions import ValidationError
from django.db.models import Q

from dashboard import jobs
from dashboard.audit.trail import audited
from dashboard.core.http_errors import BadInput
from dashboard.outbox.models import DEAD, FORMATS, WAITING, WEBHOOK, Delivery, Endpoint, NoticePreference
from dashboard.outbox.notice_choices import SUBJECTS, NoticeChoice
from dashboard.outbox.sending import enqueue
from dashboard.outbox.webhook_posts import require_allowed
from dashboard.teams.models import Role, Team, User
from dashboard.teams.permissions import require_role, viewer_of
from dashboard.teams.team_limits import WEBHOOKS, require_room
from scheduler.alerting.alert_values import SEVERITIES, WARNING
from scheduler.model.errors import InvalidTransition, NotFound
from scheduler.model.names import require_plain


def add_endpoint(
    *, actor: User, name: str, url: str, format: str, team: Team | None = None, least: str = WARNING
) -> tuple[Endpoint, str]:
    """A webhook of the actor's, or of a team by its admin; and the secret that signs, which is shown this once.

    Parameters
    ----------
    name, url, format : str
        Its name, its address, and the shape of messages; the host is one that the operator allows.
    team : Team, optional
        The team that it belongs to; else the actor's own.
    least : str, optional
        Of a team's: the least severity that goes there.
    """
    if team is not None:
        require_role(viewer_of(actor), team, Role.ADMIN)
    name, url = require_plain(name.strip(), what="The webhook's name", most=80), url.strip()
    if len(url) > 500 or format not in dict(FORMATS) or least not in SEVERITIES:
        raise BadInput("A webhook needs an address, a format and a severity.", remedy="Fill in all of them.")
    require_allowed(url)
    owner = {"team": team} if team is not None else {"user": actor}
    secret = secrets.token_urlsafe(32)
    with audited(actor=actor, verb="webhook.add", team=team) as audit:
        require_room(
            WEBHOOKS, owner=team.name if team else actor.username, taken=Endpoint.objects.filter(**owner).count())
        endpoint = Endpoint.objects.create(
            **owner, name=name, url=url, format=format, least=least, sealed=jobs.seal(secret))
        audit.subject = endpoint
        return endpoint, secret


def remove_endpoint(*, actor: User, endpoint_id: int) -> None:
    """Remove a webhook; what waits for it is not sent any more."""
    with audited(actor=actor, verb="webhook.remove") as audit:
        endpoint = endpoint_for(actor, endpoint_id)
        audit.subject, audit.team, audit.details = Endpoint(pk=endpoint.pk), endpoint.team, {"name": endpoint.name}
        endpoint.delete()


def try_endpoint(*, actor: User, endpoint_id: int, payload: dict[str, Any]) -> Delivery:
    """Send a message to a webhook to see whether it arrives: by the same way as any other, one at a time.

    Raises
    ------
    InvalidTransition
        The last one waits still.
    """
    with audited(actor=actor, verb="webhook.try") as audit:
        endpoint = endpoint_for(actor, endpoint_id)
        if endpoint.deliveries.filter(state=WAITING, key__startswith="try:").exists():
            raise InvalidTransition(
                "The last message that you sent to try it has not arrived yet.",
                remedy="See under Messages why; it is tried again by itself.")
        audit.subject, audit.team = endpoint, endpoint.team
        pk = uuid.uuid4()
        delivery = Delivery(pk=pk, key=f"try:{pk}", channel=WEBHOOK, endpoint=endpoint, payload=payload,
                            subject=payload["title"])
        enqueue([delivery])
        jobs.deliver()
        return delivery


def send_again(*, actor: User, delivery_id: uuid.UUID) -> None:
    """Let a dead message be tried anew, under the same id."""
    with audited(actor=actor, verb="delivery.again") as audit:
        delivery = deliveries_of(actor).select_for_update(of=("self",)).filter(pk=delivery_id, state=DEAD).first()
        if delivery is None:
            raise NotFound("There is no dead message of that id.", remedy="Reload the page.")
        delivery.state, delivery.attempts, delivery.next_s = WAITING, 0, 0
        delivery.save(update_fields=["state", "attempts", "next_s"])
        audit.subject, audit.team = delivery, delivery.endpoint.team if delivery.endpoint else None
        jobs.deliver()


def set_choices(*, actor: User, choices: Collection[NoticeChoice], email: str) -> None:
    """Choose how the actor is notified, by subject, and at which mail address."""
    email = email.strip()
    field = User._meta.get_field("email")
    if email:
        try:
            field.run_validators(email)
        except ValidationError:
            raise BadInput(
                "That is no address of mail.",
                remedy=f"Write it as name@example.org, with {field.max_length} characters at most.") from None
    if {choice.subject for choice in choices} - set(SUBJECTS):
        raise BadInput("There is no such subject of notifications.", remedy=f"Choose one of {', '.join(SUBJECTS)}.")
    with audited(actor=actor, verb="notice_choices.set", subject=actor) as audit:
        for choice in choices:
            NoticePreference.objects.update_or_create(user=actor, subject=choice.subject, defaults={
                "email": choice.email, "webhook": choice.webhook, "daily": choice.daily})
        if actor.email != email:
            actor.email = email
            actor.save(update_fields=["email"])
        audit.details = {choice.subject: {
            "email": choice.email, "webhook": choice.webhook, "daily": choice.daily} for choice in choices}


def endpoint_for(actor: User, endpoint_id: int) -> Endpoint:
    """A webhook that the actor may change, or ``NotFound``."""
    endpoint = endpoints_of(actor).filter(pk=endpoint_id).first()
    if endpoint is None:
        raise NotFound("There is no such webhook of yours.", remedy="Reload the page.")
    return endpoint


def endpoints_of(actor: User) -> Any:
    """The actor's own webhooks, and those of teams that the actor is an admin of."""
    viewer = viewer_of(actor)
    admin_of = [pk for pk, role in viewer.roles.items() if role >= Role.ADMIN]
    teams = Q(team__isnull=False) if viewer.administers else Q(team__in=admin_of)
    return Endpoint.objects.filter(Q(user=actor) | teams).select_related("team")


def deliveries_of(actor: User) -> Any:
    """Messages to the actor, or to webhooks that the actor may change; an administrator's also those of lineage, which
    name the dataflows of all teams. By a token, no more than its scope lets one do."""
    readable = Q(user=actor) | Q(endpoint__in=endpoints_of(actor))
    if viewer_of(actor).administers:
        readable |= Q(channel="lineage")
    return Delivery.objects.filter(readable).select_related("endpoint__team")
