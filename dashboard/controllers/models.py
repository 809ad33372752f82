"""The rows of controllers: settings by team, the loop's own state, rounds, why others were not begun, and machines.

Without a team a row is of what belongs to all, as a profile of a shared dataflow does.
"""

from __future__ import annotations

from django.conf import settings
from django.db import models

from dashboard.controllers.machine_states import ORDERED
from scheduler.controllers.loop_values import BEGUN, MODES, OPEN_PHASES, Policy


class ControllerSettings(models.Model):
    """A team's permission for one controller; the controller's usual policy where there is no row."""

    controller = models.CharField(max_length=40)
    team = models.ForeignKey("teams.Team", null=True, on_delete=models.CASCADE, related_name="controllers")
    mode = models.CharField(max_length=10, choices=[(mode, mode) for mode in MODES])
    changes_per_hour = models.PositiveIntegerField()
    changes_per_day = models.PositiveIntegerField()
    cool_down_s = models.FloatField()
    changed = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["controller", "team"], name="one_setting_a_controller_and_team"),
            models.UniqueConstraint(
                fields=["controller"], condition=models.Q(team=None), name="one_setting_of_what_is_shared")]

    @property
    def policy(self) -> Policy:
        """The value that it stands for."""
        return Policy(self.mode, self.changes_per_hour, self.changes_per_day, self.cool_down_s)

    @property
    def name(self) -> str:
        """Its name in the audit trail."""
        return self.controller


class LoopRow(models.Model):
    """One row: the loop's clock, the number of its next round, and when each controller decided last (s since 1970).

    Whoever makes a step locks it first.
    """

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    clock_s = models.FloatField(default=0.0)
    next_number = models.PositiveIntegerField(default=1)
    decided_s = models.JSONField(default=dict)


class RoundRow(models.Model):
    """A round (`scheduler.controllers.loop_values.Round`).

    What it made hangs on it, and people decide about that: a proposal (``round.proposal``), or the ``sweep``. ``stuck``
    says why it cannot be done, or not be taken back.
    """

    key = models.CharField(max_length=60, unique=True)
    controller = models.CharField(max_length=40)
    team = models.ForeignKey("teams.Team", null=True, on_delete=models.CASCADE, related_name="+")
    target = models.CharField(max_length=80)
    dataflow = models.ForeignKey("catalog.DataflowRecord", null=True, on_delete=models.CASCADE, related_name="rounds")
    profile = models.ForeignKey("profiles.ProfileRecord", null=True, on_delete=models.CASCADE, related_name="rounds")
    mode = models.CharField(max_length=10)
    phase = models.CharField(max_length=14, default=BEGUN, db_index=True)
    decision = models.JSONField()
    begun = models.DateTimeField(db_index=True)
    changed = models.DateTimeField(null=True)
    back = models.DateTimeField(null=True)
    ended = models.DateTimeField(null=True)
    why = models.TextField(blank=True)
    refused = models.BooleanField(default=False)
    sweep = models.OneToOneField("profiles.SweepRecord", null=True, on_delete=models.SET_NULL, related_name="round")
    stuck = models.TextField(blank=True)

    class Meta:
        ordering = ["-begun", "-id"]

    @property
    def name(self) -> str:
        """Its name in the audit trail."""
        return self.key

    @property
    def is_open(self) -> bool:
        """True if it is in flight."""
        return self.phase in OPEN_PHASES


class ReasonRow(models.Model):
    """The reason why a controller left something as it is: once for as long as it says the same, with how often it did.

    ``gist`` is the sentence without its figures, which change from time to time.
    """

    controller = models.CharField(max_length=40)
    team = models.ForeignKey("teams.Team", null=True, on_delete=models.CASCADE, related_name="+")
    target = models.CharField(max_length=80, blank=True)
    dataflow = models.ForeignKey("catalog.DataflowRecord", null=True, on_delete=models.CASCADE, related_name="+")
    profile = models.ForeignKey("profiles.ProfileRecord", null=True, on_delete=models.CASCADE, related_name="+")
    why = models.TextField()
    gist = models.TextField()
    since = models.DateTimeField()
    until = models.DateTimeField(db_index=True)
    times = models.PositiveIntegerField(default=1)

    class Meta:
        ordering = ["-until", "-id"]
        indexes = [models.Index(fields=["controller", "target", "-until"], name="newest_reason")]


class MachineOrder(models.Model):
    """A machine that was ordered for adaptation, or recommended, by the name of its node, which is never used again.

    It is paid by begun hours from ``ordered`` on, which for a recommended machine is the time of the recommendation.
    ``why``: the reason to start it; ``why_back``: the reason to give it back or decline it; ``error``: the provider's
    last failure; ``next_try``: the next attempt.
    """

    node = models.CharField(max_length=60, unique=True)
    size = models.CharField(max_length=40)
    slots = models.PositiveSmallIntegerField()
    per_hour = models.FloatField()
    state = models.CharField(max_length=20, default=ORDERED, db_index=True)
    why = models.TextField()
    why_back = models.TextField(blank=True)
    gave_up = models.BooleanField(default=False)
    ordered = models.DateTimeField(db_index=True)
    reported = models.DateTimeField(null=True)
    ended = models.DateTimeField(null=True)
    tries = models.PositiveIntegerField(default=0)
    next_try = models.DateTimeField()
    error = models.TextField(blank=True)
    declined_by = models.ForeignKey(  # none: nobody wanted it any more
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")

    class Meta:
        ordering = ["-ordered", "-id"]

    @property
    def name(self) -> str:
        """Its name in the audit trail."""
        return self.node
