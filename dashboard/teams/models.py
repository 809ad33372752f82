"""Users, teams, memberships, API tokens and failed log-ins."""

from __future__ import annotations

from collections.abc import Iterator

from django.contrib.auth.models import AbstractUser
from django.db import models

from scheduler.model.behind import PAUSE, SPILL
from scheduler.model.latency_limits import FRESHNESS_S


class Role(models.IntegerChoices):
    """The role of a member in a team; each role includes those before it."""

    VIEWER = 1, "viewer"
    ENGINEER = 2, "engineer"
    APPROVER = 3, "approver"
    ADMIN = 4, "admin"


class TokenScope(models.TextChoices):
    """Largest permission of a token for a program: what its user may do as far as the role goes that it stands for."""

    READ = "read", "read"
    SUBMIT = "submit", "submit and measure"
    APPROVE = "approve", "approve as well"
    ADMIN = "admin", "all that you may"

    @property
    def role(self) -> Role:
        """The highest role that the token's user acts with."""
        return {
            TokenScope.READ: Role.VIEWER, TokenScope.SUBMIT: Role.ENGINEER, TokenScope.APPROVE: Role.APPROVER,
            TokenScope.ADMIN: Role.ADMIN}[self]


class User(AbstractUser):
    """A person who logs in. The installation's administrator is a superuser."""

    # How often all sessions were ended at once: part of what a session is held to, so that none comes back.
    sessions_ended = models.PositiveIntegerField(default=0)

    looked_at = None  # the rights that somebody saw since this object's last command (`permissions.Viewer`)
    most_role = Role.ADMIN  # what whoever acts as this user may do at most: less on the object that a token makes

    def get_session_auth_hash(self) -> str:
        """The hash that a session is held to: the password, and how often sessions were ended."""
        return super().get_session_auth_hash() + self._sessions_suffix

    def get_session_auth_fallback_hash(self) -> Iterator[str]:
        """The same with each key that was replaced."""
        for digest in super().get_session_auth_fallback_hash():
            yield digest + self._sessions_suffix

    @property
    def _sessions_suffix(self) -> str:
        return f".{self.sessions_ended}" if self.sessions_ended else ""


class Team(models.Model):
    slug = models.SlugField(max_length=40, unique=True)
    name = models.CharField(max_length=80)
    created = models.DateTimeField(auto_now_add=True)
    # For its dataflows that choose nothing themselves; what loses events is chosen for one dataflow at a time.
    when_behind = models.CharField(max_length=12, choices=[(SPILL, SPILL), (PAUSE, PAUSE)], default=SPILL)
    # Mean latency, in seconds, of its dataflows that ask for none themselves; null: nobody waits for them.
    freshness_s = models.FloatField(null=True, default=FRESHNESS_S)
    containment = models.BooleanField(default=False)  # plans may make tasks from wider ones that run
    members = models.ManyToManyField(User, through="Membership", related_name="teams")

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Membership(models.Model):
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships")
    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="memberships")
    role = models.PositiveSmallIntegerField(choices=Role.choices)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "team"], name="one_membership_a_team")]


class Secret(models.Model):
    """A team's secret under a name for its tasks to use. The value is sealed: nobody reads it here."""

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="secrets")
    name = models.CharField(max_length=63)
    sealed = models.TextField()
    set_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    set_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["name"]
        constraints = [models.UniqueConstraint(fields=["team", "name"], name="one_secret_a_name_and_team")]


class TeamCalendar(models.Model):
    """Days that a team's policies may name, such as its holidays, as ISO dates."""

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="calendars")
    name = models.CharField(max_length=63)
    days = models.JSONField(default=list)

    class Meta:
        ordering = ["name"]
        constraints = [models.UniqueConstraint(fields=["team", "name"], name="one_calendar_a_name_and_team")]


class ApiToken(models.Model):
    """A token for the API; only its digest is kept."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="api_tokens")
    name = models.CharField(max_length=80)
    digest = models.CharField(max_length=64, unique=True)
    created = models.DateTimeField(auto_now_add=True)
    last_used = models.DateTimeField(null=True)
    scope = models.CharField(max_length=8, choices=TokenScope.choices, default=TokenScope.ADMIN)
    expires = models.DateTimeField(null=True)  # none: made before tokens expired


class LoginFailure(models.Model):
    """One failed log-in, kept for the throttle's window."""

    username = models.CharField(max_length=150)
    address = models.CharField(max_length=64)
    at = models.DateTimeField(db_index=True)

    class Meta:
        indexes = [models.Index(fields=["username", "at"]), models.Index(fields=["address", "at"])]
