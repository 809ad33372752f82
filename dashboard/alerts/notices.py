"""Notices: which groups are due, who is notified how, and what messages say. Within a round's transaction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.db.models import Q
from django.urls import reverse
from django.utils import timezone

from dashboard.alerts.models import Alert, MuteRow, NoticeGroup
from dashboard.operations.live_view.estate_view import NAMED_BY_ID, view_for
from dashboard.operations.live_view.telemetry import EVERYTHING
from dashboard.outbox.models import Delivery, Endpoint
from dashboard.outbox.notice_choices import NoticeMessage, chosen_by, deliveries_to, webhook_delivery
from dashboard.outbox.sending import enqueue
from dashboard.teams.models import Team, User
from scheduler.alerting.alert_values import RESOLVED, SEVERITIES, Element
from scheduler.alerting.grouping import MORE, OVER, Group, Member, Mute, look_at
from scheduler.history.series import DATAFLOW

SHOWN = 50  # alerts in one message
_WORDS = {MORE: "More: ", OVER: "Resolved: "}


def tell(now_s: int) -> None:
    """Enqueue the notices that are due now."""
    groups = list(NoticeGroup.objects.filter(closed=False).select_related("team"))
    mutes = current_mutes(now_s) if groups else ()
    for group in groups:
        alerts = {alert.key: alert for alert in group.alerts.order_by("fired_s", "id")}
        outcome = look_at(Group(group.opened_s, group.told_s), [
            Member(alert.key, alert.phase == RESOLVED, alert.told, is_quiet(alert, mutes, now_s))
            for alert in alerts.values()], now_s)
        if outcome.notice is not None:
            group.notices, group.told_s = group.notices + 1, now_s
            begun = [alerts[key] for key in outcome.notice.members]
            enqueue(list(_deliveries(group, outcome.notice.what, begun)))
            group.alerts.filter(key__in=outcome.notice.members).update(told=True)
        group.closed = outcome.closes
        if outcome.notice is not None or outcome.closes:
            group.save()


def current_mutes(now_s: int) -> Sequence[tuple[int | None, Mute]]:
    """The mutes that hold now, each with the team whose alerts it is about (None: the estate's)."""
    rows = MuteRow.objects.filter(until__gt=datetime.fromtimestamp(now_s, UTC))
    return [
        (row.team_id, Mute(int(row.until.timestamp()), row.rule_id,
                           Element(row.element_kind, row.element) if row.element else None))
        for row in rows]


def is_muted(alert: Alert, mutes: Iterable[tuple[int | None, Mute]], now_s: int) -> bool:
    """True if nobody is to be notified of an alert now: it is muted, or every dataflow that it concerns is."""
    team_mutes = [mute for team_id, mute in mutes if team_id == alert.team_id]

    def is_covered(element: Element) -> bool:
        return any(mute.covers(alert.rule_id, element, now_s) for mute in team_mutes)

    return is_covered(alert.watched[1]) or (
        bool(alert.concerned) and all(is_covered(Element(DATAFLOW, key)) for key in alert.concerned))


def is_quiet(alert: Alert, mutes: Iterable[tuple[int | None, Mute]], now_s: int) -> bool:
    """True if it is muted, or somebody looks after it."""
    return alert.acknowledged_at is not None or is_muted(alert, mutes, now_s)


def payload_of(group: NoticeGroup, notice_kind: str, alerts: Sequence[Alert]) -> dict[str, Any]:
    """A notice as JSON: what webhooks get, and what mail is made of."""
    worst = min((alert.severity for alert in alerts), key=SEVERITIES.index)
    rows = [_alert_row(alert) for alert in alerts[:SHOWN]]
    if group.team is None and any(NAMED_BY_ID.search(row["text"]) for row in rows):  # for administrators alone
        view = view_for(EVERYTHING)
        rows = [{**row, "text": view.in_words(row["text"])} for row in rows]
    first = rows[0]
    more = f" and {len(alerts) - 1} more" if len(alerts) > 1 else ""
    return {
        "event": "alerts", "what": notice_kind, "severity": worst, "team": group.team.slug if group.team else None,
        "title": f"{_WORDS.get(notice_kind, '')}{first['title']}: {first['text']}"[:240].rstrip(" .") + more,
        "link": f"{settings.SITE_URL}{reverse('alerts')}?group={group.pk}", "cause": group.cause, "count": len(alerts),
        "alerts": rows}


def _alert_row(alert: Alert) -> dict[str, Any]:
    return {
        "id": alert.pk, "rule": alert.rule_id, "kind": alert.kind, "title": alert.title, "severity": alert.severity,
        "element": {"kind": alert.element_kind, "id": alert.element}, "text": alert.text, "remedy": alert.remedy,
        "dataflow": str(alert.dataflow_id) if alert.dataflow_id else None, "dataflows": alert.dataflow_ids,
        "fired_at": alert.fired_at.isoformat() if alert.fired_at else None,
        "resolved_at": alert.resolved_at.isoformat() if alert.resolved_at else None}


def mail_text(payload: Mapping[str, Any]) -> str:
    """The same as the text of a mail."""
    lines = [payload["title"], ""]
    for alert in payload["alerts"]:
        lines += [f"- {alert['title']} ({alert['severity']}): {alert['text']}"]
        lines += [f"  {alert['remedy']}"] if alert["remedy"] and payload["what"] != OVER else []
    if payload["count"] > len(payload["alerts"]):
        lines.append(f"- and {payload['count'] - len(payload['alerts'])} more")
    return "\n".join([*lines, "", payload["link"], "", "Choose your notifications under Alerts, Notifications."])


def _deliveries(group: NoticeGroup, notice_kind: str, alerts: Sequence[Alert]) -> Iterator[Delivery]:
    """One message to each receiver, named by group, number and receiver: told once however often this is done."""
    payload = payload_of(group, notice_kind, alerts)
    notice = NoticeMessage(f"notice:{group.pk}:{group.notices}", payload, mail_text(payload))
    yield from deliveries_to(chosen_by(people_of(group.team), payload["severity"]), notice)
    worst = SEVERITIES.index(payload["severity"])
    for endpoint in Endpoint.objects.filter(team=group.team) if group.team else ():
        if worst <= SEVERITIES.index(endpoint.least):
            yield webhook_delivery(endpoint, notice)


def people_of(team: Team | None) -> list[User]:
    """The people who may be notified of a team's alerts, or the estate's: its administrators."""
    condition = Q(is_superuser=True) if team is None else Q(memberships__team=team)
    return list(User.objects.filter(condition, is_active=True).distinct().order_by("pk"))


def trial_payload(username: str) -> dict[str, Any]:
    """The payload of a test: in the shape of a notice."""
    return {
        "event": "test", "what": "fired", "severity": "info", "team": None, "cause": "test", "count": 1,
        "title": f"A test from Weir, asked for by {username}", "link": f"{settings.SITE_URL}{reverse('alerts')}",
        "alerts": [{
            "id": 0, "rule": "test", "kind": "test", "title": "Test", "severity": "info",
            "element": {"kind": "test", "id": "test"}, "text": "If you can read this, notifications arrive.",
            "remedy": "", "dataflow": None, "dataflows": [], "fired_at": timezone.now().isoformat(),
            "resolved_at": None}]}
