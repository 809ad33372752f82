"""Alerts: the inbox, and what people do in it."""

from __future__ import annotations

from datetime import timedelta

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from dashboard.alerts import selectors, services
from dashboard.alerts.models import Alert
from dashboard.catalog.permissions import is_uuid
from dashboard.operations.live_view.recording import subject_of_part
from dashboard.pages import flash
from dashboard.pages.finding_rows import element_url
from dashboard.teams.models import Role
from dashboard.teams.selectors import teams as teams_of
from scheduler.alerting.alert_values import SEVERITIES
from scheduler.alerting.rule_kinds import BROKEN_PROMISE, RULE_KINDS, TOO_FEW_SLOTS
from scheduler.history.series import QUERY, STREAM, TASK
from scheduler.model.errors import WeirError

PER_PAGE = 50
MUTES = (("60", "an hour"), ("240", "4 hours"), ("1440", "a day"), ("10080", "a week"))


@require_safe
def alerts(request: HttpRequest) -> HttpResponse:
    """The firing alerts and the past ones."""
    chosen = _chosen(request)
    page = Paginator(selectors.search(request.viewer, chosen), PER_PAGE).get_page(request.GET.get("page"))
    muted = selectors.muted_ids(page.object_list)
    rows = [{"alert": alert, "muted": alert.pk in muted, "may_act": _may_act(request, alert), "cause": cause_of(alert)}
            for alert in page.object_list]
    teams = list(teams_of(request.viewer))
    is_filtered = any((chosen.severity, chosen.kind, chosen.team, chosen.dataflow, chosen.group))
    return render(request, "alerts/inbox.html", {
        "page": page, "rows": rows, "chosen": chosen, "counts": selectors.counts(request.viewer),
        "severities": SEVERITIES, "kinds": RULE_KINDS.values(), "teams": teams, "mute_times": MUTES,
        "mutes": [{"row": row, "may_act": _may_act(request, row)} for row in selectors.mutes(request.viewer)],
        "is_filtered": is_filtered})


def cause_of(alert: Alert) -> dict[str, str] | None:
    """The page that shows an alert's cause, and its name; None if it is the dataflow's or the estate's page."""
    if alert.element_kind == STREAM:
        parent, _, child = alert.element.partition(">")
        return {"name": "Stream", "url": reverse("stream", args=[parent, child])}
    if alert.element_kind == "profile":
        return {"name": "Profile", "url": reverse("profile", args=[alert.element])}
    if alert.kind == BROKEN_PROMISE.name and alert.dataflow_id:
        return {"name": "Planned and measured", "url": reverse("schedule_outcome", args=[alert.dataflow_id])}
    if alert.kind == TOO_FEW_SLOTS.name:
        return {"name": "Deployment", "url": reverse("deployment")}
    part, _, name = alert.cause.partition(":")
    if part == "unreachable":
        part, name = alert.element_kind, alert.element
    kind, subject = subject_of_part(part, name)
    url = element_url(kind, subject)
    called = {TASK: "Task", QUERY: "Query"}.get(kind) or f"{kind.capitalize()} {subject}"
    return {"name": called, "url": url} if url else None


@require_safe
def alert_count(request: HttpRequest) -> JsonResponse:
    """The number of alerts that wait for somebody, for the navigation of pages that stand open."""
    by_severity = selectors.counts(request.viewer)
    return JsonResponse({"count": sum(by_severity.values()), "by_severity": by_severity})


@require_POST
def alert_acknowledge(request: HttpRequest, alert_id: int) -> HttpResponse:
    """Say that somebody looks after it."""
    flash.attempt(
        request, lambda: services.acknowledge(actor=request.user, alert_id=alert_id),
        text="Acknowledged. You hear of this alert again when it ends.", code="alert-acknowledged")
    return redirect("alerts")


@require_POST
def alert_mute(request: HttpRequest, alert_id: int) -> HttpResponse:
    """Tell nobody of its rule or element for a while."""
    minutes = request.POST.get("minutes", "")
    until = timezone.now() + timedelta(minutes=int(minutes) if minutes.isdecimal() and len(minutes) < 7 else 0)
    flash.attempt(
        request, lambda: services.mute(
            actor=request.user, alert_id=alert_id, scope=request.POST.get("what", ""), until=until),
        text=lambda row: f"Muted: {row.text[:120]}", code="alert-muted")
    return redirect("alerts")


@require_POST
def mute_end(request: HttpRequest, mute_id: int) -> HttpResponse:
    """End a mute: people are notified again."""
    flash.attempt(
        request, lambda: services.unmute(actor=request.user, mute_id=mute_id), text="No longer muted.",
        code="alert-unmuted")
    return redirect("alerts")


def _may_act(request: HttpRequest, of: Alert | object) -> bool:
    try:
        services.require_operator(request.viewer, of.team)
    except WeirError:
        return False
    return True


def may_administer(request: HttpRequest, team: object) -> bool:
    """True if the viewer may change a team's rules, or the estate's where there is none."""
    return request.viewer.administers if team is None else request.viewer.has_role(team.pk, Role.ADMIN)


def _chosen(request: HttpRequest) -> selectors.AlertFilter:
    def text(name: str) -> str:
        return request.GET.get(name, "").strip()[:60]

    show, group, dataflow = text("show"), text("group"), text("dataflow")
    if group.isdecimal() and not show:
        show = selectors.ALL  # a link of a notice leads to all that it told of
    return selectors.AlertFilter(
        show=show if show in selectors.SHOWS else selectors.OPEN, severity=text("severity"), kind=text("kind"),
        team=text("team"), dataflow=dataflow if is_uuid(dataflow) else "",
        group=int(group) if group.isdecimal() and len(group) < 16 else None)
