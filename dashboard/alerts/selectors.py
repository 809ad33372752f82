"""Reading alerts, rules, mutes and choices, as far as a viewer may know of them.

A team's alerts are its members'; those of the estate are everybody's who is logged in, as nodes and slots are.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Q, QuerySet
from django.utils import timezone

from dashboard.alerts.models import Alert, MuteRow
from dashboard.alerts.notices import current_mutes, is_muted
from dashboard.teams.permissions import Viewer
from scheduler.alerting.alert_values import FIRING, PENDING, RESOLVED, SEVERITIES
from scheduler.model.errors import NotFound

OPEN, PAST, ALL = "open", "past", "all"
SHOWS = (OPEN, PAST, ALL)


@dataclass(frozen=True, slots=True)
class AlertFilter:
    """A filter of alerts: open or past ones, of a severity, a kind, a team, a dataflow, a group; empty: of any."""

    show: str = OPEN
    severity: str = ""
    kind: str = ""
    team: str = ""
    dataflow: str = ""
    group: int | None = None


def visible(viewer: Viewer) -> QuerySet[Alert]:
    """The alerts that the viewer may know of; not what only may become an alert."""
    alerts = Alert.objects.exclude(phase=PENDING).select_related("team", "dataflow", "acknowledged_by")
    return alerts if viewer.superuser else alerts.filter(Q(team__in=viewer.team_ids) | Q(team=None))


def search(viewer: Viewer, chosen: AlertFilter) -> QuerySet[Alert]:
    """The chosen part of them, the newest first."""
    alerts = visible(viewer)
    if chosen.show != ALL:
        alerts = alerts.filter(phase=FIRING if chosen.show == OPEN else RESOLVED)
    if chosen.group is not None:
        alerts = alerts.filter(group=chosen.group)
    if chosen.dataflow:
        alerts = alerts.filter(Q(dataflow=chosen.dataflow) | Q(concerned__icontains=chosen.dataflow))
    named = {"severity": chosen.severity, "kind": chosen.kind, "team__slug": chosen.team}
    return alerts.filter(**{name: value for name, value in named.items() if value})


def alert_for(viewer: Viewer, alert_id: int) -> Alert:
    """One of them, or ``NotFound``."""
    alert = visible(viewer).filter(pk=alert_id).first()
    if alert is None:
        raise NotFound("There is no such alert.", remedy="See the list of alerts.")
    return alert


def counts(viewer: Viewer) -> dict[str, int]:
    """The number of alerts that wait for somebody, by severity: that fire, and nobody has muted or acknowledged."""
    now_s = int(time.time())
    mutes = current_mutes(now_s)
    firing = visible(viewer).filter(phase=FIRING, acknowledged_at=None)
    waiting = dict.fromkeys(SEVERITIES, 0)
    for alert in firing:
        if not is_muted(alert, mutes, now_s):
            waiting[alert.severity] += 1
    return waiting


def muted_ids(alerts: Sequence[Alert]) -> set[int]:
    """The muted ones of these alerts."""
    now_s = int(time.time())
    mutes = current_mutes(now_s)
    return {alert.pk for alert in alerts if is_muted(alert, mutes, now_s)}


def mutes(viewer: Viewer) -> QuerySet[MuteRow]:
    """Mutes that hold, of what the viewer may know of."""
    rows = MuteRow.objects.filter(until__gt=timezone.now()).select_related("team", "by")
    return rows if viewer.superuser else rows.filter(Q(team__in=viewer.team_ids) | Q(team=None))
