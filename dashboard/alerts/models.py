"""Rules that differ from the default, alerts, groups of them, mutes, and how people want to be notified."""

from __future__ import annotations

from datetime import UTC, datetime

from django.conf import settings
from django.db import models

from scheduler.alerting.alert_values import FIRING, PENDING, SEVERITIES, AlertState, Element
from scheduler.alerting.rule_kinds import RULE_KINDS

ESTATE = "estate"
_SEVERITIES = [(severity, severity) for severity in SEVERITIES]


class RuleRow(models.Model):
    """A rule where somebody chose otherwise than the default; of a team, a dataflow, or the estate (neither)."""

    scope = models.CharField(max_length=60)
    kind = models.CharField(max_length=30)
    team = models.ForeignKey("teams.Team", null=True, on_delete=models.CASCADE, related_name="+")
    dataflow = models.ForeignKey("catalog.DataflowRecord", null=True, on_delete=models.CASCADE, related_name="+")
    enabled = models.BooleanField(default=True)
    threshold = models.FloatField()
    clear_threshold = models.FloatField()
    for_s = models.PositiveIntegerField()
    clear_for_s = models.PositiveIntegerField()
    severity = models.CharField(max_length=10, choices=_SEVERITIES)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["scope", "kind"], name="one_rule_a_scope_and_kind")]


class NoticeGroup(models.Model):
    """Alerts of one cause that are sent together; ``notices`` counts the messages."""

    cause = models.CharField(max_length=240)
    team = models.ForeignKey("teams.Team", null=True, on_delete=models.CASCADE, related_name="+")
    opened_s = models.BigIntegerField()
    told_s = models.BigIntegerField(null=True)
    notices = models.PositiveIntegerField(default=0)
    closed = models.BooleanField(default=False)

    class Meta:
        indexes = [models.Index(fields=["closed", "cause"], name="open_groups")]


class Alert(models.Model):
    """One alert: pending, firing or resolved. Times in seconds since the epoch, as they are decided with.

    ``dataflow`` is the first that it is of; ``concerned`` are the ids of all, where one cause may concern several.
    """

    key = models.CharField(max_length=400, unique=True)
    rule_id = models.CharField(max_length=100)
    kind = models.CharField(max_length=30)
    team = models.ForeignKey("teams.Team", null=True, on_delete=models.CASCADE, related_name="+")
    dataflow = models.ForeignKey("catalog.DataflowRecord", null=True, on_delete=models.SET_NULL, related_name="+")
    concerned = models.JSONField(default=list)
    element_kind = models.CharField(max_length=10)
    element = models.CharField(max_length=210)
    cause = models.CharField(max_length=240)
    text = models.CharField(max_length=500)
    remedy = models.CharField(max_length=500, blank=True)
    severity = models.CharField(max_length=10, choices=_SEVERITIES)
    phase = models.CharField(max_length=8)
    since_s = models.BigIntegerField()
    calm_s = models.BigIntegerField(null=True)
    fired_s = models.BigIntegerField(null=True)
    resolved_s = models.BigIntegerField(null=True)
    why = models.CharField(max_length=8, blank=True)
    group = models.ForeignKey(NoticeGroup, null=True, on_delete=models.SET_NULL, related_name="alerts")
    told = models.BooleanField(default=False)
    acknowledged_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+")
    acknowledged_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-fired_s", "-id"]
        indexes = [models.Index(fields=["phase"], name="alerts_by_phase")]

    @property
    def title(self) -> str:
        """Its rule, in words."""
        kind = RULE_KINDS.get(self.kind)
        return kind.title if kind else self.kind

    @property
    def name(self) -> str:
        """Its name in the audit trail."""
        return f"{self.title}: {self.text}"[:120]

    @property
    def dataflow_ids(self) -> list[str]:
        """All that it is of; empty for an alert of the estate."""
        return self.concerned or ([str(self.dataflow_id)] if self.dataflow_id else [])

    @property
    def watched(self) -> tuple[str, Element]:
        """Its rule and what it watches."""
        return self.rule_id, Element(self.element_kind, self.element)

    @property
    def state(self) -> AlertState:
        """Its state as a value of the scheduler."""
        return AlertState(self.since_s, self.phase, self.calm_s)

    @property
    def fired_at(self) -> datetime | None:
        """The time when it fired."""
        return _moment(self.fired_s)

    @property
    def resolved_at(self) -> datetime | None:
        """The time when it was over."""
        return _moment(self.resolved_s)

    @property
    def is_open(self) -> bool:
        """True if it is not over."""
        return self.phase in (PENDING, FIRING)


class MuteRow(models.Model):
    """A mute of a rule's alerts or an element's until a time; of a team's people, or of the estate."""

    team = models.ForeignKey("teams.Team", null=True, on_delete=models.CASCADE, related_name="+")
    rule_id = models.CharField(max_length=100, blank=True)
    element_kind = models.CharField(max_length=10, blank=True)
    element = models.CharField(max_length=210, blank=True)
    until = models.DateTimeField()
    by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    text = models.CharField(max_length=300)

    class Meta:
        ordering = ["until"]

    @property
    def name(self) -> str:
        """Its name in the audit trail."""
        return self.text[:120]


class EvaluatorClock(models.Model):
    """The last round that was evaluated: whoever comes with an earlier one, or the same, has nothing to do."""

    evaluated_s = models.BigIntegerField(default=0)


def _moment(at_s: int | None) -> datetime | None:
    return None if at_s is None else datetime.fromtimestamp(at_s, UTC)
