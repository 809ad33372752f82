"""Alerts that fire, as findings beside the others: nothing is green while an alert waits for somebody."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from django.db.models import Q

from dashboard.alerts.models import Alert
from dashboard.operations.live_view.estate_view import View
from dashboard.operations.live_view.findings import BAD, NOTE, WARN, Finding
from scheduler.alerting.alert_values import CRITICAL, FIRING, INFO, WARNING
from scheduler.alerting.rule_kinds import (
    BACKLOG,
    DISK,
    FAILING,
    LATENCY_LIMIT,
    SILENT_SOURCE,
    TOO_FEW_COPIES,
    UNREACHABLE,
)

_SEVERITIES = {CRITICAL: BAD, WARNING: WARN, INFO: NOTE}
_OF_FINDINGS = frozenset(
    kind.name for kind in (DISK, FAILING, LATENCY_LIMIT, SILENT_SOURCE, TOO_FEW_COPIES, UNREACHABLE))


def firing(view: View, findings: Sequence[Finding]) -> Iterator[Finding]:
    """The alerts of the viewer's teams and of the estate that fire, but for those that a finding says already.

    Parameters
    ----------
    findings : sequence of Finding
        The present findings. Rules that read findings fire later and end later than these.
    """
    named = {finding.name for finding in findings} | {
        user["id"] for finding in findings for user in finding.dataflows}
    held_back = {user["id"] for finding in findings if finding.part == "channel" for user in finding.dataflows}
    rows = view.worked.once("firing", lambda: list(Alert.objects.filter(phase=FIRING).filter(
        Q(team=None) | Q(dataflow__isnull=False)).order_by("pk")))
    for alert in rows:
        keys = alert.dataflow_ids
        if alert.team_id is not None and view.own_ids.isdisjoint(keys):
            continue
        if alert.kind in _OF_FINDINGS and not named.isdisjoint([alert.element, *keys]):
            continue
        if alert.kind == BACKLOG.name and not held_back.isdisjoint(keys):
            continue  # what waits in a channel, and who waits for its room, is one thing
        records = [(key, view.records[key]) for key in keys if key in view.records]
        users = [{"id": key, "name": record.name, "team": record.team.name} for key, record in records]
        yield Finding(
            "alert", str(alert.pk), alert.kind, _SEVERITIES[alert.severity], alert.text, alert.remedy,
            since_ms=1000 * alert.since_s, dataflows=users)
