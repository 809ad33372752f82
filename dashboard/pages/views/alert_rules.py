"""Rules of alerts: of the viewer's teams, their dataflows, and the estate."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from dashboard.alerts import rules_in_force, services
from dashboard.catalog.models import DataflowRecord
from dashboard.core.http_errors import BadInput
from dashboard.pages import flash
from dashboard.pages.views.alerts import may_administer
from dashboard.teams.models import Team
from dashboard.teams.selectors import team as team_for
from dashboard.teams.selectors import teams as teams_of
from scheduler.alerting.alert_values import SEVERITIES

_NUMBERS = ("threshold", "clear_threshold")
_SECONDS = ("for_s", "clear_for_s")


@require_safe
def alert_rules(request: HttpRequest) -> HttpResponse:
    """The watched elements, their thresholds and durations."""
    owners = [*teams_of(request.viewer), None]
    sections = [{
        "team": team, "title": team.name if team else "The estate", "rules": rules_in_force.rules_of(team),
        "may_change": may_administer(request, team),
        "kinds": rules_in_force.kinds_of(team) if team else (),
        "dataflows": DataflowRecord.objects.filter(team=team).order_by("name")[:500] if team else ()}
        for team in owners]
    return render(request, "alerts/rules.html", {"sections": sections, "severities": SEVERITIES})


@require_POST
def alert_rule_set(request: HttpRequest) -> HttpResponse:
    """Change a rule, or let it be as it is by default."""
    team, form = _team(request), request.POST
    kind, dataflow_id = form.get("kind", ""), form.get("dataflow", "")
    if form.get("act") == "reset":
        flash.attempt(
            request, lambda: services.reset_rule(actor=request.user, team=team, kind=kind, dataflow_id=dataflow_id),
            text="The rule has its default values again.", code="alert-rule-reset")
    else:
        flash.attempt(
            request, lambda: services.set_rule(
                actor=request.user, team=team, kind=kind, chosen=_values(form), dataflow_id=dataflow_id),
            text="The rule is changed. It applies within seconds.", code="alert-rule-set")
    return redirect("alert_rules")


def _team(request: HttpRequest) -> Team | None:
    slug = request.POST.get("team", "")
    return team_for(request.viewer, slug) if slug else None


def _values(form: Any) -> dict[str, Any]:
    values: dict[str, Any] = {"enabled": form.get("enabled", "1") == "1"}
    if form.get("severity"):
        values["severity"] = form["severity"]
    try:
        values |= {name: float(form[name]) for name in _NUMBERS if form.get(name)}
        values |= {name: int(form[name]) for name in _SECONDS if form.get(name)}
    except ValueError:
        raise BadInput("That is not a number.", remedy="Write thresholds as numbers, times as whole seconds.") from None
    return values
