"""Proposals and their reviews."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models
from django.utils import timezone

from dashboard.approvals.lifecycle import COMPUTING, DONE, LIFECYCLE, OPEN, ROLLED_BACK, UNDER_WAY
from scheduler.approving import RANKS, ApprovalDemand
from scheduler.model.plan_kinds import names_where

# Rolled back, these bring their dataflow in anew: it runs by the plan that took them back.
TAKES_OUT = names_where("takes_out")


class Proposals(models.QuerySet):
    """Proposals by how far they are."""

    def open(self) -> Proposals:
        """The proposals of which nothing is in the estate yet."""
        return self.filter(status__in=OPEN)

    def under_way(self) -> Proposals:
        """Being enacted or rolled back."""
        return self.filter(status__in=UNDER_WAY)

    def relocating(self) -> Proposals:
        """The proposals that take queries to other slots, and do nothing else."""
        return self.filter(plan__kind__in=names_where("relocates"))

    def in_effect(self) -> Proposals:
        """The proposals of which a plan was enacted that stayed: their own, or that of a removal's way back."""
        return self.filter(
            models.Q(status=DONE) | models.Q(status=ROLLED_BACK, plan__kind__in=TAKES_OUT), finished_at__isnull=False)


class Proposal(models.Model):
    """A plan before its reviewers. ``progress`` is written as the plan is enacted."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    plan = models.OneToOneField("plans.PlanRecord", on_delete=models.PROTECT, related_name="proposal")
    dataflow = models.ForeignKey("catalog.DataflowRecord", on_delete=models.CASCADE, related_name="proposals")
    author = models.ForeignKey(  # none: proposed by Weir itself
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="proposals")
    chosen_by = models.ForeignKey(  # who last chose how it is to run, where that is not the author
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+")
    round = models.OneToOneField(  # of a controller, that made it
        "controllers.RoundRow", null=True, on_delete=models.SET_NULL, related_name="proposal")
    status = models.CharField(max_length=14, choices=[(s, s) for s in LIFECYCLE.states], default=COMPUTING)
    teams = models.ManyToManyField("teams.Team", related_name="+")  # each must approve
    rollback_plan = models.OneToOneField("plans.PlanRecord", null=True, on_delete=models.PROTECT, related_name="+")
    created = models.DateTimeField(auto_now_add=True)
    changed = models.DateTimeField(auto_now=True)
    approved_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    progress = models.JSONField(default=dict)  # {"done": [step keys], "failing": {fragment: {...}}}
    # Approved, and kept from being enacted by a team's freeze or windows: {"team", "reason", "until"}.
    held = models.JSONField(null=True)

    objects = Proposals.as_manager()

    class Meta:
        ordering = ["-created", "id"]
        indexes = [
            models.Index(fields=["status"]),
            models.Index(fields=["dataflow", "-finished_at"], name="newest_of_dataflow")]

    @property
    def took_back_a_removal(self) -> bool:
        """True if a removal was rolled back: its dataflow was submitted anew, and runs by that plan."""
        return self.status == ROLLED_BACK and self.plan.kind in TAKES_OUT

    @property
    def is_in_effect(self) -> bool:
        """True if it is one of those `Proposals.in_effect`."""
        return self.finished_at is not None and (self.status == DONE or self.took_back_a_removal)

    @property
    def author_name(self) -> str:
        """The name of its author."""
        return self.author.username if self.author else "Weir"

    def is_of(self, user_id: int | None) -> bool:
        """True if somebody wrote it, or chose how it is to run: others approve it."""
        return user_id is not None and user_id in (self.author_id, self.chosen_by_id)


class TeamRules(models.Model):
    """One version of a team's rules of approval (`scheduler.approving.Rules`); the newest one counts."""

    team = models.ForeignKey("teams.Team", on_delete=models.CASCADE, related_name="approval_rules")
    number = models.PositiveIntegerField()
    document = models.JSONField()
    author = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    note = models.TextField(blank=True)
    created = models.DateTimeField(auto_now_add=True)
    # One that asks for less waits until a second person agrees; ``second`` is who did, or who declined it.
    state = models.CharField(
        max_length=8, choices=[(state, state) for state in ("holds", "waits", "declined")], default="holds")
    second = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+")

    class Meta:
        ordering = ["-number"]
        constraints = [models.UniqueConstraint(fields=["team", "number"], name="one_version_of_rules_a_number")]


class Ask(models.Model):
    """A team's demand for one plan, by the version of its rules that it had when it was asked (none: the default).

    ``approvals`` is 0 where it agreed beforehand; ``why`` says by what.
    """

    plan = models.ForeignKey("plans.PlanRecord", on_delete=models.CASCADE, related_name="asks")
    team = models.ForeignKey("teams.Team", on_delete=models.PROTECT, related_name="+")
    rules = models.ForeignKey(TeamRules, null=True, on_delete=models.PROTECT, related_name="+")
    approvals = models.PositiveSmallIntegerField(default=1)
    role = models.CharField(max_length=8, choices=[(role, role) for role in RANKS], default="approver")
    expires_after_h = models.FloatField(null=True)
    why = models.CharField(max_length=120, blank=True)

    class Meta:
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["plan", "team"], name="one_ask_a_plan_and_team")]

    @property
    def demand(self) -> ApprovalDemand:
        return ApprovalDemand(self.approvals, self.role, self.expires_after_h, self.why)


class Review(models.Model):
    """One person's verdict for one team on one plan. A plan that is recomputed keeps those of the very same plan."""

    proposal = models.ForeignKey(Proposal, on_delete=models.CASCADE, related_name="reviews")
    plan = models.ForeignKey("plans.PlanRecord", on_delete=models.CASCADE, related_name="reviews")
    team = models.ForeignKey("teams.Team", on_delete=models.PROTECT, related_name="+")
    reviewer = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    verdict = models.CharField(max_length=8, choices=[("approve", "approve"), ("reject", "reject")])
    role = models.CharField(max_length=8, choices=[(role, role) for role in RANKS], default="approver")  # they had then
    comment = models.TextField(blank=True)
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["at", "id"]
        constraints = [models.UniqueConstraint(fields=["plan", "team", "reviewer"], name="one_review_a_person")]


class Comment(models.Model):
    """A comment on a proposal, or on one of its tasks; ``parent`` is what it answers, at the head of a thread.

    Plain text: pages escape it. A thread is resolved at its head.
    """

    proposal = models.ForeignKey(Proposal, on_delete=models.CASCADE, related_name="comments")
    task = models.CharField(max_length=200, blank=True)  # as the document calls it; empty: the whole proposal
    parent = models.ForeignKey("self", null=True, on_delete=models.CASCADE, related_name="replies")
    author = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    text = models.TextField()
    created = models.DateTimeField(default=timezone.now)
    edited = models.DateTimeField(null=True)
    resolved = models.DateTimeField(null=True)
    resolved_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+")

    class Meta:
        ordering = ["created", "id"]


class Mention(models.Model):
    """A mention of a person in a comment; ``seen`` once they have opened the proposal."""

    comment = models.ForeignKey(Comment, on_delete=models.CASCADE, related_name="mentions")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    seen = models.BooleanField(default=False)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["comment", "user"], name="one_mention_a_person")]
        indexes = [models.Index(fields=["user", "seen"], name="unseen_mentions")]
