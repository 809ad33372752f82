"""Notifications of alerts and proposals: choices, webhooks of people and teams, what became of messages."""

from __future__ import annotations

from uuid import UUID

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from dashboard.alerts.notices import trial_payload
from dashboard.outbox import notice_choices
from dashboard.outbox import services as outbox
from dashboard.outbox.models import FORMATS
from dashboard.outbox.notice_choices import SUBJECTS, NoticeChoice
from dashboard.pages import flash
from dashboard.pages.views.alerts import may_administer
from dashboard.teams.selectors import team as team_for
from dashboard.teams.selectors import teams as teams_of
from scheduler.alerting.alert_values import SEVERITIES
from scheduler.model.errors import WeirError

SHOWN = 30


@require_safe
def notifications(request: HttpRequest) -> HttpResponse:
    """The receivers of notices, and whether these arrived."""
    return render(request, "alerts/notifications.html", {
        "choices": notice_choices.choices_of(request.user), "digest_hour": settings.DIGEST_HOUR,
        "severities": SEVERITIES, "formats": FORMATS,
        "endpoints": outbox.endpoints_of(request.user), "hosts": settings.WEBHOOK_HOSTS,
        "administered": [team for team in teams_of(request.viewer) if may_administer(request, team)],
        "deliveries": outbox.deliveries_of(request.user)[:SHOWN], "new_secret": request.session.pop("new_hook", None)})


@require_POST
def notifications_set(request: HttpRequest) -> HttpResponse:
    """Keep the viewer's choice."""
    choices = [
        NoticeChoice(subject, *(f"{way}-{subject}" in request.POST for way in ("email", "webhook", "daily")))
        for subject in SUBJECTS]
    flash.attempt(
        request, lambda: outbox.set_choices(
            actor=request.user, choices=choices, email=request.POST.get("email", "").replace("\0", "")),
        text="Your choice is kept.", code="notice-choices")
    return redirect("notifications")


@require_POST
def webhook_add(request: HttpRequest) -> HttpResponse:
    """A webhook of the viewer's, or of a team; its secret is shown once, on the next page."""
    form = request.POST
    team = team_for(request.viewer, form["team"]) if form.get("team") else None
    try:
        endpoint, secret = outbox.add_endpoint(
            actor=request.user, name=form.get("name", ""), url=form.get("url", ""), format=form.get("format", ""),
            team=team, least=form.get("least", "warning"))
    except WeirError as error:
        flash.failure(request, error)
    else:
        request.session["new_hook"] = {"name": endpoint.name, "secret": secret}
    return redirect("notifications")


@require_POST
def webhook_remove(request: HttpRequest, endpoint_id: int) -> HttpResponse:
    """Remove it."""
    flash.attempt(
        request, lambda: outbox.remove_endpoint(actor=request.user, endpoint_id=endpoint_id),
        text="The webhook is removed.", code="webhook-removed")
    return redirect("notifications")


@require_POST
def webhook_try(request: HttpRequest, endpoint_id: int) -> HttpResponse:
    """Send a message to see whether it arrives."""
    flash.attempt(
        request, lambda: outbox.try_endpoint(
            actor=request.user, endpoint_id=endpoint_id, payload=trial_payload(request.user.username)),
        text="A test is on its way; below it is said what became of it.", code="webhook-tried")
    return redirect("notifications")


@require_POST
def delivery_again(request: HttpRequest, delivery_id: UUID) -> HttpResponse:
    """Let a dead message be tried anew."""
    flash.attempt(
        request, lambda: outbox.send_again(actor=request.user, delivery_id=delivery_id),
        text="It is tried again.", code="delivery-again")
    return redirect("notifications")
