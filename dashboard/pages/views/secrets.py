"""A team's secrets, calendars and choices: set on the page of teams, by its admins and approvers."""

from __future__ import annotations

from datetime import date

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST

from dashboard.pages import flash
from dashboard.teams import selectors
from dashboard.teams.account_errors import InvalidValue
from dashboard.teams.models import Team, User
from dashboard.teams.services import delete_calendar, delete_secret, set_calendar, set_containment, set_secret


@sensitive_post_parameters("value")
@require_POST
def secret_set(request: HttpRequest, slug: str) -> HttpResponse:
    """Keep a value under a name, or another value."""
    team, name = selectors.team(request.viewer, slug), request.POST.get("name", "").strip()
    flash.attempt(
        request, lambda: set_secret(actor=request.user, team=team, name=name, value=request.POST.get("value", "")),
        text=f"Secret {name} stored for {team.name}. Queries that start from now on use it.", code="secret-set",
    )
    return redirect("teams")


@require_POST
def secret_delete(request: HttpRequest, slug: str) -> HttpResponse:
    """Delete a secret that nothing uses."""
    team, name = selectors.team(request.viewer, slug), request.POST.get("name", "")
    flash.attempt(
        request, lambda: delete_secret(actor=request.user, team=team, name=name),
        text=f"Secret {name} of {team.name} deleted.", code="secret-deleted",
    )
    return redirect("teams")


@require_POST
def containment_set(request: HttpRequest, slug: str) -> HttpResponse:
    """Turn containment on or off for a team's plans."""
    team, on = selectors.team(request.viewer, slug), request.POST.get("on") == "1"
    flash.attempt(
        request, lambda: set_containment(actor=request.user, team=team, on=on),
        text=f"Containment is {'on' if on else 'off'} for plans of {team.name}.", code="containment",
    )
    return redirect("teams")


@require_POST
def calendar_set(request: HttpRequest, slug: str) -> HttpResponse:
    """Keep days under a name; without days the calendar is deleted."""
    team, name = selectors.team(request.viewer, slug), request.POST.get("name", "").strip()
    days = request.POST.get("days", "").replace(",", " ").split()
    flash.attempt(
        request, lambda: _set_days(request.user, team, name, days),
        text=f"Calendar {name} of {team.name} {'set' if days else 'deleted'}.", code="calendar-set")
    return redirect("teams")


def _set_days(actor: User, team: Team, name: str, days: list[str]) -> None:
    if not days:
        delete_calendar(actor=actor, team=team, name=name)
        return
    try:
        dates = [date.fromisoformat(day) for day in days]
    except ValueError as error:
        raise InvalidValue(f"There is no such day: {error}.", remedy="Write each as 2026-12-25.") from error
    set_calendar(actor=actor, team=team, name=name, days=dates)
