"""Receivers of messages, and the messages."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models

EMAIL, WEBHOOK, LINEAGE = "email", "webhook", "lineage"
HELD, WAITING, SENT, DEAD = "held", "waiting", "sent", "dead"  # held: until the next digest
PLAIN, SLACK = "weir", "slack"
FORMATS = ((PLAIN, "Weir's JSON"), (SLACK, "Slack's"))


class Endpoint(models.Model):
    """A webhook of one person or one team. The secret that signs is sealed: it is shown once, when it is made."""

    team = models.ForeignKey("teams.Team", null=True, on_delete=models.CASCADE, related_name="+")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.CASCADE, related_name="+")
    name = models.CharField(max_length=80)
    url = models.URLField(max_length=500)
    format = models.CharField(max_length=10, choices=FORMATS, default=PLAIN)
    least = models.CharField(max_length=10)  # of a team's: the least severity that goes there
    sealed = models.TextField()
    created = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name", "id"]


class Delivery(models.Model):
    """One message to one receiver. ``key`` says what it is: the same message is stored once.

    ``id`` goes along as the idempotency id: who gets a message twice can tell.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    key = models.CharField(max_length=300, unique=True)
    channel = models.CharField(max_length=10)
    endpoint = models.ForeignKey(Endpoint, null=True, on_delete=models.CASCADE, related_name="deliveries")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.CASCADE, related_name="+")
    to = models.CharField(max_length=320, blank=True)
    subject = models.CharField(max_length=300, blank=True)
    payload = models.JSONField()
    state = models.CharField(max_length=8, default=WAITING)
    attempts = models.PositiveIntegerField(default=0)
    next_s = models.BigIntegerField(default=0)
    error = models.CharField(max_length=500, blank=True)
    created = models.DateTimeField(auto_now_add=True)
    sent_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-created", "id"]
        indexes = [models.Index(fields=["state", "next_s"], name="deliveries_due")]


class NoticePreference(models.Model):
    """A person's choice of notification for one subject (`notice_choices.SUBJECTS`); ``daily`` in a digest."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    subject = models.CharField(max_length=10)
    email = models.BooleanField()
    webhook = models.BooleanField()
    daily = models.BooleanField(default=False)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "subject"], name="one_preference_a_subject")]
