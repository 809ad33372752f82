"""Answers of alerts, their rules, and how people are notified."""

from __future__ import annotations

from dashboard.api.answers.common import Answer, answer_of
from dashboard.outbox.notice_choices import NoticeChoice


class AlertRow(Answer):
    """An alert; ``why`` says why it is over: `well`, `gone` or `off`. ``dataflows`` are all that it concerns, and
    ``dataflow`` the first of them."""

    id: int
    rule: str
    kind: str
    title: str
    severity: str
    phase: str
    team: str | None
    dataflow: str | None
    dataflows: list[str]
    element_kind: str
    element: str
    text: str
    remedy: str
    fired_at: str | None
    resolved_at: str | None
    why: str
    muted: bool
    acknowledged_by: str | None


class AlertCounts(Answer):
    """Alerts that fire, and that nobody has muted or acknowledged, by severity."""

    critical: int
    warning: int
    info: int


class MuteAnswer(Answer):
    """A mute until a time."""

    id: int
    team: str | None
    rule: str
    element_kind: str
    element: str
    text: str
    until: str
    by: str


class RuleAnswer(Answer):
    """A rule in force; ``changed`` where somebody chose otherwise than the default."""

    id: str
    kind: str
    about: str
    unit: str
    dataflow: str | None
    enabled: bool
    changed: bool
    threshold: float
    clear_threshold: float
    for_s: int
    clear_for_s: int
    severity: str


ChoiceAnswer = answer_of(NoticeChoice, name="ChoiceAnswer")


class Choices(Answer):
    """The caller's choices of notification, by subject, and the mail address."""

    email: str
    choices: list[ChoiceAnswer]


class WebhookRow(Answer):
    """A webhook; ``least`` is the least severity that goes to one of a team."""

    id: int
    name: str
    url: str
    format: str
    team: str | None
    least: str


class NewWebhook(WebhookRow):
    """A webhook and the secret that signs what goes there, shown this once."""

    secret: str


class DeliveryRow(Answer):
    """A message and what became of it; ``error`` is of the last attempt."""

    id: str
    channel: str
    to: str
    subject: str
    state: str
    attempts: int
    error: str
    created: str
    sent_at: str | None
