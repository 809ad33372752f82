"""Submitted dataflows and the versions of their documents."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.db import models

from dashboard.catalog.lifecycle import LIFECYCLE, SUBMITTED
from dashboard.teams.models import Team
from scheduler.model.behind import CHOICES
from scheduler.model.dataflow_goals import DataflowGoals, goals_in
from scheduler.model.latency_limits import LatencyLimit, Limits, from_json
from scheduler.model.latency_reading import gap_in


class DataflowRecord(models.Model):
    """A dataflow as a team submitted it. Its id is random and reveals nothing."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    team = models.ForeignKey("teams.Team", on_delete=models.PROTECT, related_name="dataflows")
    author = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="dataflows")
    name = models.CharField(max_length=120)
    description = models.TextField(blank=True)
    visibility = models.CharField(max_length=10, choices=[("shared", "shared"), ("private", "private")])
    status = models.CharField(max_length=12, choices=[(s, s) for s in LIFECYCLE.states], default=SUBMITTED)
    when_behind = models.CharField(  # of `scheduler.model.behind`; empty: as its team has it
        max_length=12, choices=[(choice, choice) for choice in CHOICES], blank=True, default="")
    # Latency limits, as `scheduler.model.latency_limits.to_json` writes them: what the document that counts asks for,
    # and what was chosen instead; null where nothing was said.
    latency = models.JSONField(null=True, default=None)
    latency_chosen = models.JSONField(null=True, default=None)
    # Goals of adaptation (`scheduler.model.dataflow_goals`) in the same way; chosen to have none is an empty mapping.
    goals = models.JSONField(null=True, default=None)
    goals_chosen = models.JSONField(null=True, default=None)
    version = models.PositiveIntegerField(default=1)
    tasks = models.PositiveIntegerField()
    created = models.DateTimeField(auto_now_add=True)
    changed = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["-created", "id"]
        constraints = [models.UniqueConstraint(fields=["team", "name"], name="one_dataflow_a_name_and_team")]
        indexes = [models.Index(fields=["status"])]

    @property
    def private(self) -> bool:
        """True if only its team may know of it."""
        return self.visibility == "private"

    @property
    def behind_choice(self) -> str:
        """The treatment of the dataflow where it reads a stream too slowly that others need."""
        return self.when_behind or self.team.when_behind

    @property
    def latency_limits(self) -> Limits:
        """The latency limits that hold for it: those chosen, else its document's, else its team's; empty for none."""
        chosen = from_json(self.latency_chosen)
        return limits_of({"latency": self.latency}, self.team) if chosen is None else chosen

    @property
    def goals_in_force(self) -> DataflowGoals | None:
        """The goals that hold for it: those chosen, else its document's; None where it has none."""
        return goals_in((self.goals if self.goals_chosen is None else self.goals_chosen) or None)

    @property
    def goals_from(self) -> str:
        """The source of the goals: ``chosen``, ``document``, or ``nobody``."""
        return "chosen" if self.goals_chosen is not None else "document" if self.goals is not None else "nobody"

    def chosen_after(self, document: Mapping[str, Any]) -> Any:
        """The chosen limits that go on with another version's document; None if the document's count, or the team's.

        A choice stays while the document asks for the same as before, and has the way that the choice is on.
        """
        chosen = from_json(self.latency_chosen)
        if chosen is None or document.get("latency") != self.latency:
            return None
        tasks = {task["id"] for task in document["tasks"]}
        streams = {(stream["from"], stream["to"]) for stream in document["streams"]}
        fits = all(tasks.issuperset(limit.path) and not gap_in(limit.along, streams) for limit in chosen)
        return self.latency_chosen if fits else None

    def limits_after(self, document: Mapping[str, Any]) -> Limits:
        """The latency limits that hold once this document counts."""
        chosen = from_json(self.chosen_after(document))
        return limits_of(document, self.team) if chosen is None else chosen

    @property
    def latency_from(self) -> str:
        """The source of the latency limits: ``chosen``, ``document`` or ``team``."""
        return "chosen" if self.latency_chosen is not None else "document" if self.latency is not None else "team"


class DataflowVersion(models.Model):
    """One document of a dataflow: the text as it came, and the canonical form."""

    dataflow = models.ForeignKey(DataflowRecord, on_delete=models.CASCADE, related_name="versions")
    number = models.PositiveIntegerField()
    text = models.TextField()
    format = models.CharField(max_length=10)
    document = models.JSONField()
    author = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    created = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-number"]
        constraints = [models.UniqueConstraint(fields=["dataflow", "number"], name="one_version_a_number")]


def limits_of(document: Mapping[str, Any], team: Team) -> Limits:
    """The latency limits of a dataflow of a team with such a document: its own, else the team's; empty for none."""
    limits = from_json(document.get("latency"))
    if limits is not None:
        return limits
    return () if team.freshness_s is None else (LatencyLimit(team.freshness_s),)
