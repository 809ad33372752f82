"""The people of the installation, for its administrators: who may log in, and the API tokens that there are."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from dashboard.pages import flash
from dashboard.teams import selectors, services
from dashboard.teams.permissions import require_superuser


@require_safe
def people(request: HttpRequest) -> HttpResponse:
    """The people with roles and API tokens."""
    return render(request, "people.html", {
        "people": selectors.people(request.viewer), "now": timezone.now()})


@require_POST
def person_deactivate(request: HttpRequest, username: str) -> HttpResponse:
    """Let somebody log in no more."""
    require_superuser(request.viewer)
    flash.attempt(
        request, lambda: services.deactivate(actor=request.user, username=username),
        text=f"{username} can no longer log in. Sessions, tokens and open pages have ended.", code="deactivated")
    return redirect("people")


@require_POST
def person_reactivate(request: HttpRequest, username: str) -> HttpResponse:
    """Let somebody log in again."""
    require_superuser(request.viewer)
    flash.attempt(
        request, lambda: services.reactivate(actor=request.user, username=username),
        text=f"{username} can log in again, with the same roles.", code="reactivated")
    return redirect("people")
