"""The routes of alerts, rules and notifications; ``docs/api.md`` describes them."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from typing import Annotated, Any
from uuid import UUID

from django.http import HttpRequest
from django.utils import timezone
from ninja import Query, Router, Status
from pydantic import Field, WithJsonSchema

from dashboard.alerts import rules_in_force, selectors, services
from dashboard.alerts.models import Alert, MuteRow
from dashboard.alerts.notices import trial_payload
from dashboard.api.answers.alerts import (
    AlertCounts,
    AlertRow,
    Choices,
    DeliveryRow,
    MuteAnswer,
    NewWebhook,
    RuleAnswer,
    WebhookRow,
)
from dashboard.api.answers.common import Page, row_of
from dashboard.api.request_schema import RequestSchema
from dashboard.api.schemas import page_of
from dashboard.outbox import notice_choices
from dashboard.outbox import services as outbox
from dashboard.outbox.models import FORMATS, Delivery, Endpoint
from dashboard.outbox.notice_choices import SUBJECTS, NoticeChoice
from dashboard.teams.models import Team
from dashboard.teams.selectors import team as team_for
from scheduler.alerting.alert_values import SEVERITIES
from scheduler.alerting.rule_kinds import RULE_KINDS

router = Router()
SeverityName = Annotated[str, WithJsonSchema({"type": "string", "enum": list(SEVERITIES)})]
SubjectName = Annotated[str, WithJsonSchema({"type": "string", "enum": list(SUBJECTS)})]
KindName = Annotated[str, WithJsonSchema({"type": "string", "enum": list(RULE_KINDS)})]
FormatName = Annotated[str, WithJsonSchema({"type": "string", "enum": [name for name, _ in FORMATS]})]
ShowName = Annotated[str, WithJsonSchema({"type": "string", "enum": list(selectors.SHOWS)})]
MOST_ID = 2**63 - 1


class MuteIn(RequestSchema):
    """A mute: ``rule``, ``element`` or ``both``, and for how many minutes, 30 days at most."""

    what: Annotated[str, WithJsonSchema({"type": "string", "enum": ["rule", "element", "both"]})]
    minutes: int = Field(ge=1, le=30 * 24 * 60 - 1)


class RuleIn(RequestSchema):
    """A rule; what is left out is as by default. ``dataflow`` names one of the team's for a rule of its own; without a
    team it is one of the estate's."""

    team: str | None = None
    dataflow: str | None = None
    enabled: bool = True
    threshold: float | None = Field(None, ge=0, le=services.MOST_THRESHOLD)
    clear_threshold: float | None = Field(None, ge=0, le=services.MOST_THRESHOLD)
    for_s: int | None = Field(None, ge=0, le=services.LONGEST_S)
    clear_for_s: int | None = Field(None, ge=0, le=services.LONGEST_S)
    severity: Annotated[str | None, WithJsonSchema({"enum": [*SEVERITIES, None]})] = None


class ChoiceIn(RequestSchema):
    """The caller's choice of notification for one subject; ``daily`` in a digest."""

    subject: SubjectName
    email: bool
    webhook: bool
    daily: bool = False


class ChoicesIn(RequestSchema):
    """The choice by subject, and the address of mail; empty for none."""

    email: str = Field("", max_length=254)
    choices: list[ChoiceIn]


class WebhookIn(RequestSchema):
    """A webhook of the caller's, or of a team that the caller is an admin of."""

    name: str = Field(min_length=1, max_length=80)
    url: str = Field(max_length=500)
    format: FormatName = "weir"
    team: str | None = None
    least: SeverityName = "warning"


@router.get("/alerts", response=Page[AlertRow])
def alerts(
    request: HttpRequest, show: ShowName = selectors.OPEN, severity: str = Query("", max_length=10),
    kind: str = Query("", max_length=30), team: str = Query("", max_length=40),
    page: int = Query(1, ge=1, le=10**6),
) -> dict[str, Any]:
    """Alerts that the caller may know of, the newest first: those that fire, that are over, or all."""
    chosen = selectors.AlertFilter(
        show=show if show in selectors.SHOWS else selectors.OPEN, severity=severity, kind=kind, team=team)
    return page_of(selectors.search(request.viewer, chosen), page, _alert_row)


@router.get("/alerts/counts", response=AlertCounts)
def alert_counts(request: HttpRequest) -> dict[str, int]:
    """The number of alerts that wait for somebody, by severity."""
    return selectors.counts(request.viewer)


@router.post("/alerts/{int:alert_id}/acknowledge", response=AlertRow)
def acknowledge(request: HttpRequest, alert_id: int) -> dict[str, Any]:
    """Say that the caller looks after an alert; by an engineer of the team, of the estate's by an administrator."""
    return _alert_row(services.acknowledge(actor=request.user, alert_id=min(alert_id, MOST_ID)))


@router.post("/alerts/{int:alert_id}/mute", response={201: MuteAnswer})
def mute(request: HttpRequest, alert_id: int, body: MuteIn) -> Status:
    """Tell nobody of an alert's rule, its element, or both together, for some minutes."""
    row = services.mute(
        actor=request.user, alert_id=min(alert_id, MOST_ID), scope=body.what,
        until=timezone.now() + timedelta(minutes=body.minutes))
    return Status(201, _mute_row(row))


@router.get("/alert-mutes", response=list[MuteAnswer])
def alert_mutes(request: HttpRequest) -> list[dict[str, Any]]:
    """The mutes in force."""
    return [_mute_row(row) for row in selectors.mutes(request.viewer)]


@router.delete("/alert-mutes/{int:mute_id}", response={204: None})
def unmute(request: HttpRequest, mute_id: int) -> Status:
    """End a mute: people are notified again."""
    services.unmute(actor=request.user, mute_id=min(mute_id, MOST_ID))
    return Status(204, None)


@router.get("/alert-rules", response=list[RuleAnswer])
def alert_rules(request: HttpRequest, team: str = Query("", max_length=40)) -> list[dict[str, Any]]:
    """The rules of a team and of its dataflows; without a team those of the estate."""
    return [_rule_row(rule) for rule in rules_in_force.rules_of(_team(request, team))]


@router.put("/alert-rules/{str:kind}", response=RuleAnswer)
def put_alert_rule(request: HttpRequest, kind: KindName, rule: RuleIn) -> dict[str, Any]:
    """Change a rule; by an admin of the team, of the estate's by an administrator."""
    team, dataflow = _team(request, rule.team), rule.dataflow or ""
    chosen = {name: value for name, value in rule.dict().items()
              if name not in ("team", "dataflow") and value is not None}
    row = services.set_rule(actor=request.user, team=team, kind=kind, chosen=chosen, dataflow_id=dataflow)
    rule_id = f"{row.scope}/{row.kind}"
    return next(_rule_row(in_force) for in_force in rules_in_force.rules_of(team) if in_force.rule.id == rule_id)


@router.delete("/alert-rules/{str:kind}", response={204: None})
def reset_alert_rule(
    request: HttpRequest, kind: KindName, team: str = Query("", max_length=40),
    dataflow: str = Query("", max_length=36),
) -> Status:
    """Reset a rule to its default; a dataflow's rule to its team's."""
    services.reset_rule(actor=request.user, team=_team(request, team), kind=kind, dataflow_id=dataflow)
    return Status(204, None)


@router.get("/notice-choices", response=Choices)
def notice_choices_of_caller(request: HttpRequest) -> dict[str, Any]:
    """The caller's choices of notification for alerts and proposals."""
    return _choices(request)


@router.put("/notice-choices", response=Choices)
def put_notice_choices(request: HttpRequest, body: ChoicesIn) -> dict[str, Any]:
    """Choose how the caller is notified of alerts and proposals."""
    outbox.set_choices(
        actor=request.user, email=body.email.replace("\0", ""),
        choices=[NoticeChoice(choice.subject, choice.email, choice.webhook, choice.daily)
                 for choice in body.choices])
    return _choices(request)


@router.get("/webhooks", response=list[WebhookRow])
def webhooks(request: HttpRequest) -> list[dict[str, Any]]:
    """The caller's webhooks, and those of teams that the caller is an admin of."""
    return [_webhook_row(endpoint) for endpoint in outbox.endpoints_of(request.user)]


@router.post("/webhooks", response={201: NewWebhook})
def add_webhook(request: HttpRequest, webhook: WebhookIn) -> Status:
    """A new webhook; its secret is shown this once."""
    team = _team(request, webhook.team)
    endpoint, secret = outbox.add_endpoint(
        actor=request.user, name=webhook.name, url=webhook.url, format=webhook.format, team=team, least=webhook.least)
    return Status(201, _webhook_row(endpoint) | {"secret": secret})


@router.delete("/webhooks/{int:endpoint_id}", response={204: None})
def drop_webhook(request: HttpRequest, endpoint_id: int) -> Status:
    """Remove a webhook; what waits for it is not sent any more."""
    outbox.remove_endpoint(actor=request.user, endpoint_id=min(endpoint_id, MOST_ID))
    return Status(204, None)


@router.post("/webhooks/{int:endpoint_id}/try", response={202: DeliveryRow})
def try_webhook(request: HttpRequest, endpoint_id: int) -> Status:
    """Send a message to see whether it arrives; ``/api/deliveries`` says what became of it."""
    return Status(202, _delivery_row(outbox.try_endpoint(
        actor=request.user, endpoint_id=min(endpoint_id, MOST_ID), payload=trial_payload(request.user.username))))


@router.get("/deliveries", response=Page[DeliveryRow])
def deliveries(request: HttpRequest, page: int = Query(1, ge=1, le=10**6)) -> dict[str, Any]:
    """Messages to the caller and to the caller's webhooks, the newest first."""
    return page_of(outbox.deliveries_of(request.user), page, _delivery_row)


@router.post("/deliveries/{uuid:delivery_id}/again", response={204: None})
def delivery_again(request: HttpRequest, delivery_id: UUID) -> Status:
    """Let a message that was given up be tried anew."""
    outbox.send_again(actor=request.user, delivery_id=delivery_id)
    return Status(204, None)


def _team(request: HttpRequest, slug: str | None) -> Team | None:
    return team_for(request.viewer, slug) if slug else None


def _choices(request: HttpRequest) -> dict[str, Any]:
    return {"email": request.user.email, "choices": [
        asdict(choice) for choice in notice_choices.choices_of(request.user)]}


def _alert_row(alert: Alert) -> dict[str, Any]:
    return row_of(
        AlertRow, alert, rule=alert.rule_id, team=alert.team.slug if alert.team else None,
        dataflow=str(alert.dataflow_id) if alert.dataflow_id else None, dataflows=alert.dataflow_ids,
        muted=alert.pk in selectors.muted_ids([alert]),
        acknowledged_by=alert.acknowledged_by.username if alert.acknowledged_by else None)


def _mute_row(row: MuteRow) -> dict[str, Any]:
    return row_of(
        MuteAnswer, row, team=row.team.slug if row.team else None, rule=row.rule_id, by=row.by.username)


def _rule_row(in_force: rules_in_force.RuleInForce) -> dict[str, Any]:
    return row_of(
        RuleAnswer, in_force.rule, about=in_force.kind.about, unit=in_force.kind.unit,
        dataflow=in_force.dataflow or None, enabled=in_force.enabled, changed=in_force.chosen)


def _webhook_row(endpoint: Endpoint) -> dict[str, Any]:
    return row_of(WebhookRow, endpoint, team=endpoint.team.slug if endpoint.team else None)


def _delivery_row(delivery: Delivery) -> dict[str, Any]:
    return row_of(DeliveryRow, delivery, to=delivery.endpoint.name if delivery.endpoint else delivery.to)
