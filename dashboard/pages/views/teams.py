"""Teams and their members: seen by members, changed by admins; and the viewer's API tokens."""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth import get_user_model
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from dashboard.approvals.services.reader_choices import set_when_behind
from dashboard.catalog.document_checks import freshness_of
from dashboard.controllers.selectors import modes_of
from dashboard.pages import flash
from dashboard.teams import selectors, services
from dashboard.teams.models import Role, Team, TokenScope
from dashboard.teams.permissions import require_role
from scheduler.model.behind import PAUSE, SPILL, WORDS
from scheduler.model.errors import NotFound, WeirError
from scheduler.model.latency_limits import in_words


@require_safe
def teams(request: HttpRequest) -> HttpResponse:
    """The viewer's teams with their members."""
    rows = [
        {"team": team, "members": list(selectors.members(team)),
         "may_change": request.viewer.has_role(team.pk, Role.ADMIN), "secrets": list(selectors.secrets(team)),
         "models": selectors.models(team), "controllers": modes_of(team)}
        for team in selectors.teams(request.viewer)
    ]
    return render(request, "teams.html", {
        "teams": rows, "roles": Role.choices,
        "when_behind": {choice: WORDS[choice] for choice in (SPILL, PAUSE)},
        "tokens": selectors.tokens_for(request.viewer).filter(user_id=request.user.pk), "scopes": TokenScope.choices,
        "token_days": min(settings.TOKEN_DAYS, settings.TOKEN_LONGEST_DAYS),
        "token_longest_days": settings.TOKEN_LONGEST_DAYS, "now": timezone.now(),
        "new_token": request.session.pop("new_token", None),
    })


@require_POST
def member_set(request: HttpRequest, slug: str) -> HttpResponse:
    """Add a member, or give one another role."""
    team = selectors.team(request.viewer, slug)
    name = request.POST.get("username", "").strip()
    try:
        user, role = _user(request, team, name), Role(int(request.POST.get("role", "")))
        services.set_role(user=user, team=team, role=role, actor=request.user)
    except ValueError:
        flash.failure(request, NotFound("There is no such role.", remedy="Choose one from the list."))
    except WeirError as error:
        flash.failure(request, error)
    else:
        flash.success(request, f"{name} is {role.label} in {team.name}.", code="role-set")
    return redirect("teams")


@require_POST
def member_remove(request: HttpRequest, slug: str) -> HttpResponse:
    """Take a member out of a team."""
    team = selectors.team(request.viewer, slug)
    name = request.POST.get("username", "").strip()
    flash.attempt(
        request, lambda: services.remove_member(user=_user(request, team, name), team=team, actor=request.user),
        text=f"{name} is no longer in {team.name}. To undo this, add the name again.", code="member-removed",
    )
    return redirect("teams")


@require_POST
def team_create(request: HttpRequest) -> HttpResponse:
    """A new team; for administrators of the installation."""
    slug, name = request.POST.get("slug", "").strip(), request.POST.get("name", "")
    flash.attempt(
        request, lambda: services.create_team(slug=slug, name=name, actor=request.user),
        text=lambda team: f"Team {team.name} created. Add its first member.", code="team-created",
    )
    return redirect("teams")


@require_POST
def when_behind_set(request: HttpRequest, slug: str) -> HttpResponse:
    """Say what becomes of the team's dataflows that are too slow for a stream that others need."""
    team = selectors.team(request.viewer, slug)
    choice = request.POST.get("choice", "")
    flash.attempt(
        request, lambda: set_when_behind(actor=request.user, team=team, choice=choice),
        text=lambda _: f"A dataflow of {team.name} that is too slow: {choice}.", code="when-behind",
    )
    return redirect("teams")


@require_POST
def freshness_set(request: HttpRequest, slug: str) -> HttpResponse:
    """Say how late events may be in the team's dataflows that ask for nothing themselves."""
    team = selectors.team(request.viewer, slug)
    flash.attempt(
        request, lambda: services.set_freshness(
            actor=request.user, team=team, limit_s=freshness_of(request.POST.get("freshness", ""))),
        text=lambda team: f"Events of {team.name} may be {in_words(team.freshness_s)} late, in the mean."
        if team.freshness_s is not None else f"Events of {team.name} may be as late as the installation allows.",
        code="freshness",
    )
    return redirect("teams")


@require_POST
def token_create(request: HttpRequest) -> HttpResponse:
    """A new API token of the viewer; its secret is shown once, on the next page."""
    try:
        days = request.POST.get("days", "").strip()
        if days and not (days.isdecimal() and len(days) <= 6):
            raise services.InvalidValue(f"{days[:40]!r} is no number of days.", remedy="Give a whole number.")
        _, secret = services.create_token(
            actor=request.user, name=request.POST.get("name", ""), scope=request.POST.get("scope", TokenScope.SUBMIT),
            days=int(days) if days else None)
    except WeirError as error:
        flash.failure(request, error)
    else:
        request.session["new_token"] = secret
    return redirect("teams")


@require_POST
def token_revoke(request: HttpRequest, token_id: int) -> HttpResponse:
    """Revoke one of the viewer's API tokens, or as an administrator anybody's."""
    flash.attempt(
        request, lambda: services.revoke_token(actor=request.user, token_id=token_id),
        text="Token revoked.", code="token-revoked",
    )
    return redirect("people" if request.POST.get("from") == "people" else "teams")


def _user(request: HttpRequest, team: Team, name: str) -> object:
    """The user of a name; who may not change members learns of nobody whether there is one."""
    if name != request.user.username:
        require_role(request.viewer, team, Role.ADMIN)
    user = get_user_model().objects.filter(username=name, is_active=True).first() if "\0" not in name else None
    if user is None:
        raise NotFound(f"There is no user {name!r}.", remedy="An administrator adds users first.")
    return user
