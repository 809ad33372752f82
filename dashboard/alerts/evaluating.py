"""One round: read, decide, store. What a round decides is stored in one transaction, with the messages that come of it.

A worker that is killed in mid-round leaves either all of that or nothing. Who evaluates a round again, or a second one
at the same time, finds it done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.db import transaction
from django.db.models import QuerySet

from dashboard.alerts.models import Alert, EvaluatorClock, MuteRow, NoticeGroup
from dashboard.alerts.notices import tell
from dashboard.alerts.readers import READERS, EvaluationScope, Readings
from dashboard.alerts.rules_in_force import RuleInForce, enabled, rules_by_team
from dashboard.approvals.emergency_stops import emergency_stops
from dashboard.history.history_store import DatabaseHistory
from dashboard.operations.live_view.estate_view import one_look
from dashboard.teams.models import Team
from scheduler.alerting.alert_states import AlertTransition, EvaluationInput, evaluate
from scheduler.alerting.alert_values import FIRING, PENDING, RESOLVED, AlertReading, AlertRule, Watched, alert_key
from scheduler.alerting.causes import one_for_each_cause, without_symptoms
from scheduler.alerting.rule_kinds import RULE_KINDS
from scheduler.history.series import ALARM, DATAFLOW, KINDS, OVER, Annotation

ROUND_S = 10
KEEP_S = 90 * 24 * 3600  # alerts that are over; as long as history


@dataclass
class RuleReadings:
    """The rules in force in a round, each with its owner and its latest reading."""

    rules: dict[str, RuleInForce] = field(default_factory=dict)
    teams: dict[str, Team | None] = field(default_factory=dict)
    readings: dict[str, Readings] = field(default_factory=dict)


def evaluate_round(*, now_s: int) -> int:
    """Evaluate all rules as of now; how many alerts changed. Safe to do again, and by several at once."""
    readings = RuleReadings()
    with one_look():  # each team by what it may know, all of them of one moment
        teams = [None, *Team.objects.order_by("pk")]
        rules, stops = rules_by_team(teams), emergency_stops()
        scopes = [EvaluationScope(team, now_s, stops) for team in teams]
        idle = {scope.team for scope in scopes if scope.team and not (scope.own_records or scope.stopped)}
        # A team without dataflows may have alerts left, which are over then.
        alerted = set(_open_alerts().filter(team__in=idle).values_list("team", flat=True))
        for scope in scopes:
            if scope.team not in idle or scope.team.pk in alerted:
                _read(scope, rules[scope.team], readings)
    with transaction.atomic():
        clock, _ = EvaluatorClock.objects.select_for_update().get_or_create(pk=1)
        if now_s <= clock.evaluated_s:
            return 0
        alerts = {alert.watched: alert for alert in _open_alerts()}
        changes = evaluate(EvaluationInput(
            {rule_id: in_force.rule for rule_id, in_force in readings.rules.items()}, readings.readings, now_s,
            {watched: alert.state for watched, alert in alerts.items()}))
        _store(changes, readings, alerts, now_s)
        _concern(readings, alerts)
        tell(now_s)
        EvaluatorClock.objects.filter(pk=1).update(evaluated_s=now_s)
    return len(changes)


def forget_alerts(at: datetime) -> int:
    """Drop what was over long ago, and mutes that are; how many alerts there were."""
    count = Alert.objects.filter(phase=RESOLVED, resolved_s__lt=at.timestamp() - KEEP_S).delete()[0]
    MuteRow.objects.filter(until__lt=at).delete()
    NoticeGroup.objects.filter(closed=True, alerts=None).delete()
    return count


def _open_alerts() -> QuerySet[Alert]:
    return Alert.objects.filter(phase__in=[PENDING, FIRING])


def _read(evidence: EvaluationScope, in_force: Sequence[RuleInForce], rule_readings: RuleReadings) -> None:
    team, now_s, rules = evidence.team, evidence.now_s, enabled(in_force)
    ids = {(rule.kind.name, rule.dataflow): rule_id for rule_id, rule in rules.items() if rule.dataflow}
    overridden = {(rule.kind.name, rule.dataflow) for rule in in_force if rule.dataflow}
    for rule_id, rule in rules.items():
        rule_readings.rules[rule_id], rule_readings.teams[rule_id] = rule, team
        kind = rule.kind
        if rule.dataflow or now_s // ROUND_S % max(1, kind.every_s // ROUND_S):
            continue
        readings = READERS[kind.name](evidence)
        if readings is not None:
            rule_readings.readings[rule_id] = {
                element: reading for element, reading in readings.items()
                if (kind.name, reading.dataflow) not in overridden}
            for (name, dataflow), own_id in ids.items():
                if name == kind.name:
                    rule_readings.readings[own_id] = {
                        element: reading for element, reading in readings.items() if reading.dataflow == dataflow}
    _read_where_the_teams_is_off(evidence, rules, rule_readings)
    judged = without_symptoms(
        {rule_id: rule.rule for rule_id, rule in rules.items()},
        {rule_id: rule_readings.readings[rule_id] for rule_id in rules if rule_id in rule_readings.readings})
    rule_readings.readings |= {
        rule_id: one_for_each_cause(of_rule) if rules[rule_id].kind.by_cause else of_rule
        for rule_id, of_rule in judged.items()}


def _read_where_the_teams_is_off(
    evidence: EvaluationScope, rules: Mapping[str, RuleInForce], rule_readings: RuleReadings
) -> None:
    """Rules of single dataflows whose team has turned that kind off."""
    on = {in_force.kind.name for in_force in rules.values() if not in_force.dataflow}
    for rule_id, in_force in rules.items():
        if in_force.dataflow and in_force.kind.name not in on:
            readings = READERS[in_force.kind.name](evidence)
            if readings is not None:
                rule_readings.readings[rule_id] = {
                    element: reading for element, reading in readings.items()
                    if reading.dataflow == in_force.dataflow}


def _store(
    changes: Sequence[AlertTransition], rule_readings: RuleReadings, alerts: Mapping[Watched, Alert], now_s: int
) -> None:
    annotations = []
    for change in changes:
        rule_id, element = change.watched
        alert = alerts.get(change.watched)
        if change.after is None:
            if alert is not None:
                alert.delete()  # it was pending, and never fired
            continue
        if alert is None:
            reading = rule_readings.readings[rule_id][element]
            alert = _new(change, rule_readings.rules[rule_id].rule, rule_readings.teams[rule_id], reading)
        alert.phase, alert.calm_s = change.after.phase, change.after.calm_s
        if change.fires:
            _words(alert, rule_readings.readings[rule_id][element])
            alert.fired_s, alert.severity = now_s, rule_readings.rules[rule_id].rule.severity
            alert.group = _group(alert, now_s)
        if change.resolves:
            alert.resolved_s, alert.why = now_s, change.why
        alert.save()
        annotations += _marks(change, alert, now_s)
    DatabaseHistory().annotate(annotations)


def _new(change: AlertTransition, rule: AlertRule, team: Team | None, reading: AlertReading) -> Alert:
    rule_id, element = change.watched
    alert = Alert(
        key=alert_key(change.watched, change.after.since_s)[:400], rule_id=rule_id, kind=rule.kind, team=team,
        element_kind=element.kind, element=element.id, since_s=change.after.since_s, severity=rule.severity)
    _words(alert, reading)
    return alert


def _concern(rule_readings: RuleReadings, alerts: Mapping[Watched, Alert]) -> None:
    """Let alerts say whom their cause concerns by now."""
    for (rule_id, element), alert in alerts.items():
        reading = rule_readings.readings.get(rule_id, {}).get(element)
        if reading is not None and reading.concerned and list(reading.concerned) != alert.concerned:
            _words(alert, reading)
            alert.save(update_fields=["cause", "text", "remedy", "dataflow", "concerned"])


def _words(alert: Alert, reading: AlertReading) -> None:
    alert.cause, alert.text, alert.remedy = reading.cause[:240], reading.text[:500], reading.remedy[:500]
    alert.dataflow_id, alert.concerned = reading.dataflow or None, list(reading.concerned)


def _group(alert: Alert, now_s: int) -> NoticeGroup:
    """The open group of its cause, or a new one."""
    group = NoticeGroup.objects.filter(team=alert.team, cause=alert.cause, closed=False).first()
    return group or NoticeGroup.objects.create(team=alert.team, cause=alert.cause, opened_s=now_s)


def _marks(change: AlertTransition, alert: Alert, now_s: int) -> list[Annotation]:
    """The marks on charts: of findings the recorder has marked it already."""
    if not (change.fires or change.resolves) or not RULE_KINDS[alert.kind].marked:
        return []
    subjects = {(alert.element_kind, alert.element), (DATAFLOW, str(alert.dataflow_id or ""))}
    team = alert.team.slug if alert.team else ""  # it names dataflows, which not all who share a slot may know of
    return [
        Annotation(now_s, ALARM if change.fires else OVER, kind, subject, f"{alert.title}: {alert.text}"[:500],
                   "" if kind == DATAFLOW else team)
        for kind, subject in sorted(subjects) if kind in KINDS and subject]
