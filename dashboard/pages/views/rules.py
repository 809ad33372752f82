"""A team's rules of approval: read by its members, changed by its approvers, every version kept."""

from __future__ import annotations

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from dashboard.approvals.approval_rules import current_rules, versions_of, waiting_rules
from dashboard.approvals.services import agree_to_rules, decline_rules, set_rules
from dashboard.core.http_errors import http_status
from dashboard.pages import flash
from dashboard.pages.rules_form import fields_of, in_words, rules_from
from dashboard.teams import selectors
from dashboard.teams.models import Role, Team
from dashboard.teams.permissions import require_role
from scheduler.approving import RULES, Rules
from scheduler.model.errors import WeirError


@require_http_methods(["GET", "HEAD", "POST"])
def rules(request: HttpRequest, slug: str) -> HttpResponse:
    """The rules; ``?from=`` fills the form with those of an earlier version."""
    team = selectors.team(request.viewer, slug)
    if request.method != "POST":
        return _page(request, team)
    try:
        wanted_rules = rules_from(request.POST)
        version = set_rules(actor=request.user, team=team, rules=wanted_rules, note=request.POST.get("note", ""))
    except WeirError as error:
        return _page(request, team, failure=error, status=http_status(error))
    if version is not None and version.state == "waits":
        flash.success(request, f"Version {version.number} asks for less, so it waits for a second person.",
                      code="rules-wait")
        return redirect("team_rules", slug)
    number = "the default" if version is None else f"version {version.number}"
    flash.success(request, f"The approval rules of {team.name} are {number} from now on.", code="rules-set")
    return redirect("team_rules", slug)


@require_POST
def rules_decide(request: HttpRequest, slug: str, number: int, way: str) -> HttpResponse:
    """Agree to rules that ask for less, or decline them.

    Parameters
    ----------
    way : str
        ``agree`` or ``decline``.
    """
    team = selectors.team(request.viewer, slug)
    require_role(request.viewer, team, Role.APPROVER)
    act = {"agree": agree_to_rules, "decline": decline_rules}.get(way)
    if act is None:
        raise Http404
    flash.attempt(
        request, lambda: act(actor=request.user, team=team, number=number),
        text=f"The approval rules of {team.name} are version {number} from now on." if way == "agree" else
             f"Version {number} is declined.", code=f"rules-{way}")
    return redirect("team_rules", slug)


def _page(request: HttpRequest, team: Team, *, failure: WeirError | None = None, status: int = 200) -> HttpResponse:
    record, rules_in_force = current_rules([team.pk])[team.pk]
    versions = [(version, in_words(RULES.read(version.document))) for version in versions_of(team)]
    shown = _initial_rules(request, versions, rules_in_force)
    waiting = waiting_rules(team)
    return render(request, "team_rules.html", {
        "team": team, "record": record, "words": in_words(rules_in_force), "form": fields_of(shown),
        "versions": versions, "may_change": request.viewer.has_role(team.pk, Role.APPROVER), "failure": failure,
        "waiting": waiting, "waiting_words": in_words(RULES.read(waiting.document)) if waiting else [],
        "may_agree": waiting is not None and (settings.SELF_APPROVAL or waiting.author_id != request.user.pk),
        "is_earlier": shown != rules_in_force, "currency": settings.CURRENCY,
        "approvers": [member for member in selectors.members(team) if member.role >= Role.APPROVER],
    }, status=status)


def _initial_rules(request: HttpRequest, versions: list, rules_in_force: Rules) -> Rules:
    """The rules that the form begins with: what was sent, where that are rules; an earlier version; or what holds."""
    if request.method == "POST":
        try:
            return rules_from(request.POST)
        except WeirError:
            return rules_in_force
    earlier = request.GET.get("from", "")
    return next(
        (RULES.read(version.document) for version, _ in versions if str(version.number) == earlier), rules_in_force)
