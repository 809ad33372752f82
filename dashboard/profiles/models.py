"""Rows of profiles: points, sweeps that measure them trial by trial, and what running bundles were seen to do.

A row with a team came from a private dataflow: its config may say what that team alone may know.
"""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models

from dashboard.profiles import lifecycle


class ProfileRecord(models.Model):
    """A profile as it was measured or imported; it never changes, but another supersedes it, or somebody sets it aside.

    ``config``: canonical JSON, empty if the profile stands for any config; ``key``: a digest of type, config, machine
    and team, of which at most one profile is active; ``changed``: when it came into use or was set aside.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    key = models.CharField(max_length=64)
    task_type = models.CharField(max_length=100, db_index=True)
    config = models.TextField(blank=True)
    version = models.PositiveIntegerField(default=1)
    machine = models.CharField(max_length=120, blank=True)
    code = models.CharField(max_length=64, blank=True)  # a digest of it, where it is known
    static = models.BooleanField(default=False)
    origin = models.CharField(max_length=200, blank=True)
    team = models.ForeignKey("teams.Team", null=True, on_delete=models.PROTECT, related_name="+")
    active = models.BooleanField(default=True)
    author = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+")
    created = models.DateTimeField(auto_now_add=True)
    changed = models.DateTimeField(auto_now=True)
    rough = models.JSONField(default=list)  # thread counts whose peak is less precise than was asked for
    at_least = models.JSONField(default=list)  # thread counts that sustain all that could be fed, and may sustain more
    drifts = models.JSONField(default=list)  # how far running bundles are from it, as far as that is known

    class Meta:
        ordering = ["task_type", "-created"]
        indexes = [models.Index(fields=["key", "-changed"], name="profiles_of_a_kind")]
        constraints = [models.UniqueConstraint(
            fields=["key"], condition=models.Q(active=True), name="one_active_profile_of_a_kind")]

    def __str__(self) -> str:
        return self.task_type

    @property
    def name(self) -> str:
        """Its name in the audit trail."""
        return self.task_type

    @property
    def drifted(self) -> bool:
        """True if it has to be measured again by what runs."""
        return any(drift["beyond"] for drift in self.drifts)


class ProfilePoint(models.Model):
    """One measured number of threads of a profile; CPU and memory are shares of a slot above base load."""

    profile = models.ForeignKey(ProfileRecord, on_delete=models.CASCADE, related_name="points")
    threads = models.PositiveIntegerField()
    rate_per_s = models.FloatField()
    cpu = models.FloatField()
    memory = models.FloatField()
    idle_cpu = models.FloatField(default=0.0)
    idle_memory = models.FloatField(default=0.0)
    event_cpu = models.FloatField(null=True)  # at the peak rate, besides batches; none where nobody told them apart

    class Meta:
        ordering = ["threads"]
        constraints = [models.UniqueConstraint(fields=["profile", "threads"], name="one_point_a_thread_count")]


class SweepRecord(models.Model):
    """A task type and config being measured on a slot, trial by trial, until its profile is found.

    ``feed``: the chain of tasks whose output it is measured with, the source first; ``fed_by``: the origin of the feed
    in words; ``dataflow``, ``tasks``: the dataflow and its task ids, the measured one last, or none for a type that is
    measured with a config of one's own; ``bounds``: the fields of `scheduler.performance.modelling.Sweep`;
    ``any_config``: the profile will stand for every config of the type.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    task_type = models.CharField(max_length=100)
    config = models.TextField()
    version = models.PositiveIntegerField()
    code = models.CharField(max_length=64, blank=True)  # a digest of it as the site has it, else as the node has it
    any_config = models.BooleanField(default=False)
    feed = models.JSONField()
    fed_by = models.CharField(max_length=200, blank=True)
    dataflow = models.ForeignKey("catalog.DataflowRecord", null=True, on_delete=models.SET_NULL, related_name="+")
    tasks = models.JSONField(default=list)
    team = models.ForeignKey("teams.Team", null=True, on_delete=models.PROTECT, related_name="+")
    slot = models.CharField(max_length=80)
    machine = models.CharField(max_length=120, blank=True)  # its class, known from the first trial on
    slot_threads = models.PositiveIntegerField(null=True)  # of the slot's driver, likewise
    bounds = models.JSONField()
    warm_up_s = models.FloatField()
    seconds = models.FloatField()
    status = models.CharField(max_length=10, default=lifecycle.QUEUED, db_index=True)
    reason = models.TextField(blank=True)  # why it waits, ended or failed
    author = models.ForeignKey(  # none: Weir measures it again by itself
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+")
    created = models.DateTimeField(auto_now_add=True)
    started = models.DateTimeField(null=True)
    ended = models.DateTimeField(null=True)
    profile = models.OneToOneField(ProfileRecord, null=True, on_delete=models.PROTECT, related_name="sweep")

    class Meta:
        ordering = ["-created"]

    def __str__(self) -> str:
        return self.task_type

    @property
    def name(self) -> str:
        """Its name in the audit trail."""
        return self.task_type

    @property
    def author_name(self) -> str:
        """The name of its author."""
        return self.author.username if self.author else "Weir"


class Trials(models.QuerySet["TrialRecord"]):
    """Trials of one sweep or all."""

    def without_raw(self) -> Trials:
        """The same, whose series and batches are read only where somebody asks for them: they are long."""
        return self.defer("series", "batches")


class TrialRecord(models.Model):
    """One trial of a sweep: what was asked for, and what came of it.

    Without ``ended`` it is under way: its order was ``sent``, ``heard`` of last, and ``taken`` by a node's agent or not
    yet; ``attempts`` before it failed. Shares are of the slot, above base load, which was measured on the same
    slot before. Series hold a row for each moment: seconds since the first event, latency, events/s, CPU and memory.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    sweep = models.ForeignKey(SweepRecord, on_delete=models.CASCADE, related_name="trials")
    number = models.PositiveIntegerField()
    threads = models.PositiveIntegerField()
    rate_per_s = models.FloatField()
    why = models.CharField(max_length=200)
    sent = models.DateTimeField(null=True)
    heard = models.DateTimeField(null=True)
    taken = models.BooleanField(default=False)
    attempts = models.PositiveSmallIntegerField(default=0)
    ended = models.DateTimeField(null=True)
    error = models.TextField(blank=True)
    remedy = models.TextField(blank=True)
    stable = models.BooleanField(null=True)
    set_aside = models.BooleanField(default=False)  # its sweep began anew: kept for reading, nothing follows from it
    starved = models.BooleanField(default=False)  # less was fed than was asked for: no verdict on that rate
    offered_per_s = models.FloatField(null=True)
    achieved_per_s = models.FloatField(null=True)
    selectivity = models.FloatField(null=True)  # events that came out for each that went in
    latency_slope = models.FloatField(null=True)  # none where it could not be fitted: not stable
    cpu = models.FloatField(default=0.0)
    memory = models.FloatField(default=0.0)
    idle_cpu = models.FloatField(default=0.0)
    idle_memory = models.FloatField(default=0.0)
    base_cpu = models.FloatField(default=0.0)
    base_memory = models.FloatField(default=0.0)
    batches_per_s = models.FloatField(null=True)  # that carried events
    took_s = models.FloatField(default=0.0)
    measured_s = models.FloatField(default=0.0)
    quantiles = models.JSONField(default=dict)
    series = models.JSONField(default=list)
    batches = models.JSONField(default=list)  # of the time that counted: planned, ended, events in, events out, born
    machine = models.JSONField(default=dict)
    versions = models.JSONField(default=dict)

    objects = Trials.as_manager()

    class Meta:
        ordering = ["number"]
        indexes = [models.Index(fields=["-ended"], name="newest_trials")]  # asked for the newest few, every ten seconds
        constraints = [
            models.UniqueConstraint(fields=["sweep", "number"], name="one_trial_a_number"),
            models.UniqueConstraint(
                fields=["sweep"], condition=models.Q(ended=None), name="one_trial_under_way_a_sweep")]


class ObservationRow(models.Model):
    """An observation of a running bundle over some time, beside the profile that it was compared with.

    Where it ``shared`` its slot with others, CPU and memory are its part by the time that its query was busy.
    """

    profile = models.ForeignKey(ProfileRecord, on_delete=models.CASCADE, related_name="observations")
    at = models.DateTimeField(db_index=True)
    bundle = models.CharField(max_length=40)
    threads = models.PositiveIntegerField()
    rate_per_s = models.FloatField()
    cpu = models.FloatField()
    memory = models.FloatField(null=True)  # not every node can tell its queries' memory apart
    stable = models.BooleanField(default=True)
    shared = models.BooleanField()

    class Meta:
        ordering = ["at"]
