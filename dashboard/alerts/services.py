"""Actions on alerts: acknowledge them, mute, change rules, choose their notifications."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone

from dashboard.alerts.models import Alert, MuteRow, RuleRow
from dashboard.alerts.rules_in_force import kinds_of, scope_of
from dashboard.alerts.selectors import alert_for, mutes
from dashboard.audit.trail import audited
from dashboard.catalog.models import DataflowRecord
from dashboard.catalog.permissions import dataflow_for
from dashboard.core.http_errors import BadInput
from dashboard.teams.models import Role, Team, User
from dashboard.teams.permissions import Viewer, require_role, require_superuser, viewer_of
from scheduler.alerting.alert_values import FIRING, SEVERITIES
from scheduler.alerting.rule_kinds import RULE_KINDS, RuleKind
from scheduler.model.errors import InvalidTransition, NotFound

LONGEST_MUTE = timedelta(days=30)
LONGEST_S = 24 * 3600
MOST_THRESHOLD = 1e12


def require_operator(viewer: Viewer, team: Team | None) -> None:
    """Raise unless the viewer looks after a team's dataflows, or the estate."""
    if team is None:
        require_superuser(viewer)
    else:
        require_role(viewer, team, Role.ENGINEER)


def acknowledge(*, actor: User, alert_id: int) -> Alert:
    """Acknowledge an alert: it no longer counts, and only its end is sent."""
    viewer = viewer_of(actor)
    with audited(actor=actor, verb="alert.acknowledge") as audit:
        alert = alert_for(viewer, alert_id)
        require_operator(viewer, alert.team)
        audit.subject, audit.team = alert, alert.team
        if alert.phase != FIRING:
            raise InvalidTransition("This alert is over.", remedy="There is nothing to acknowledge.")
        if alert.acknowledged_at is not None:
            audit.nothing_changed()
            return alert
        alert.acknowledged_at, alert.acknowledged_by = timezone.now(), actor
        alert.save(update_fields=["acknowledged_at", "acknowledged_by"])
        return alert


def mute(*, actor: User, alert_id: int, scope: str, until: datetime) -> MuteRow:
    """Tell nobody of an alert's rule, or of the element that it is about, until a time; in place of the mute before.

    Parameters
    ----------
    scope : str
        ``rule``, ``element``, or ``both``: this rule for this element.
    until : datetime
        At most 30 days ahead; with a time zone.
    """
    viewer = viewer_of(actor)
    if scope not in ("rule", "element", "both") or not timezone.now() < until <= timezone.now() + LONGEST_MUTE:
        raise BadInput(
            "The mute is not complete.", remedy="Choose rule, element or both, and a time within the next 30 days.")
    with audited(actor=actor, verb="alert.mute") as audit:
        alert = alert_for(viewer, alert_id)
        require_operator(viewer, alert.team)
        rule = {} if scope == "element" else {"rule_id": alert.rule_id}
        element = {} if scope == "rule" else {"element_kind": alert.element_kind, "element": alert.element}
        words = {"rule": f"All of “{alert.title}”", "element": f"All of {alert.element_kind}: {alert.text}",
                 "both": f"“{alert.title}”: {alert.text}"}[scope]
        muted = {"team": alert.team, "rule_id": "", "element_kind": "", "element": ""} | rule | element
        MuteRow.objects.filter(**muted).delete()
        row = MuteRow.objects.create(**muted, until=until, by=actor, text=words[:300])
        audit.subject, audit.team = row, alert.team
        audit.details = {"until": until.isoformat(), "what": scope, "rule": alert.rule_id}
        return row


def unmute(*, actor: User, mute_id: int) -> None:
    """End a mute: people are notified again."""
    viewer = viewer_of(actor)
    with audited(actor=actor, verb="alert.unmute") as audit:
        row = mutes(viewer).filter(pk=mute_id).first()
        if row is None:
            raise NotFound("There is no such mute.", remedy="Reload the page.")
        require_operator(viewer, row.team)
        audit.subject, audit.team, audit.details = MuteRow(pk=row.pk), row.team, {"of": row.text}
        row.delete()


def set_rule(
    *, actor: User, team: Team | None, kind: str, chosen: dict[str, Any], dataflow_id: str = ""
) -> RuleRow:
    """Change a rule of a team, of one of its dataflows, or of the estate.

    Parameters
    ----------
    actor : User
        An admin of the team; of the estate's rules an administrator.
    team : Team or None
        The team of the rule; None: the estate's.
    chosen : dict
        ``enabled``, ``threshold``, ``clear_threshold``, ``for_s``, ``clear_for_s``, ``severity``; what is absent stays
        as the default.
    """
    _require_admin(actor, team)
    rule_kind = _kind(team, kind)
    values = _checked(rule_kind, chosen)
    dataflow = _own_dataflow(actor, team, dataflow_id) if dataflow_id else None
    scope = scope_of(team, str(dataflow.pk) if dataflow else "")
    with audited(actor=actor, verb="alert_rule.set", team=team) as audit:
        row, _ = RuleRow.objects.update_or_create(
            scope=scope, kind=kind, defaults={"team": team, "dataflow": dataflow, **values})
        audit.subject, audit.details = row, {"rule": f"{scope}/{kind}", **values}
        return row


def reset_rule(*, actor: User, team: Team | None, kind: str, dataflow_id: str = "") -> None:
    """Reset a rule to its default; a dataflow's rule to its team's."""
    _require_admin(actor, team)
    with audited(actor=actor, verb="alert_rule.reset", team=team) as audit:
        row = RuleRow.objects.filter(scope=scope_of(team, dataflow_id), kind=kind, team=team).first()
        if row is None:
            raise NotFound("The rule already has its default values.", remedy="Reload the page.")
        audit.subject, audit.details = RuleRow(pk=row.pk), {"rule": f"{row.scope}/{row.kind}"}
        row.delete()


def _require_admin(actor: User, team: Team | None) -> None:
    if team is None:
        require_superuser(viewer_of(actor))
    else:
        require_role(viewer_of(actor), team, Role.ADMIN)


def _kind(team: Team | None, name: str) -> RuleKind:
    if name not in {kind.name for kind in kinds_of(team)}:
        raise NotFound("There is no such rule.", remedy="See the list of rules.")
    return RULE_KINDS[name]


def _own_dataflow(actor: User, team: Team | None, dataflow_id: str) -> DataflowRecord:
    record = dataflow_for(viewer_of(actor), dataflow_id)
    if team is None or record.team_id != team.pk:
        raise NotFound("The team has no such dataflow.", remedy="Choose one of the team's.")
    return record


def _checked(kind: RuleKind, chosen: dict[str, Any]) -> dict[str, Any]:
    """The whole of a rule; an error where it could never fire, or never clear."""
    default = kind.rule("")
    values = {name: chosen.get(name, getattr(default, name)) for name in (
        "threshold", "clear_threshold", "for_s", "clear_for_s", "severity")}
    if not kind.unit:
        values |= {"threshold": 1.0, "clear_threshold": 1.0}
    beyond, clear = values["threshold"], values["clear_threshold"]
    is_ordered = clear <= beyond if kind.above else clear >= beyond
    if not (0 <= beyond <= MOST_THRESHOLD and 0 <= clear <= MOST_THRESHOLD and is_ordered):
        side = "at most" if kind.above else "at least"
        raise BadInput(
            "These thresholds do not go together.",
            remedy=f"Choose numbers from 0, and one to clear at that is {side} the one to fire at.")
    if not all(0 <= values[name] <= LONGEST_S for name in ("for_s", "clear_for_s")):
        raise BadInput("These times cannot be.", remedy="Choose 0 to 86,400 seconds.")
    if values["severity"] not in SEVERITIES:
        raise BadInput("There is no such severity.", remedy=f"Choose one of {', '.join(SEVERITIES)}.")
    return {"enabled": bool(chosen.get("enabled", True)), **values}
