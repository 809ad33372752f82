"""The estate's rows: generation, running tasks, uses, fragments, nodes and history points."""

from __future__ import annotations

from django.db import models


class EstateState(models.Model):
    """One row: the estate's generation. Who changes the estate locks it first."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    generation = models.PositiveIntegerField(default=0)
    changed = models.DateTimeField(auto_now=True)


class RunningTaskRow(models.Model):
    """A running task; its key is its fingerprint."""

    fingerprint = models.CharField(max_length=100, primary_key=True)
    type = models.CharField(max_length=100)
    config = models.JSONField()
    parents = models.JSONField()
    scope = models.CharField(max_length=40, blank=True)
    cores = models.FloatField(default=0.0)
    started_generation = models.PositiveIntegerField()
    started_at = models.DateTimeField(auto_now_add=True)


class Use(models.Model):
    """A running task stands for this task of a submitted dataflow."""

    dataflow = models.ForeignKey("catalog.DataflowRecord", on_delete=models.PROTECT, related_name="uses")
    task_id = models.CharField(max_length=200)
    position = models.PositiveIntegerField()
    is_sink = models.BooleanField()
    running_task = models.ForeignKey(RunningTaskRow, on_delete=models.PROTECT, related_name="uses")

    class Meta:
        ordering = ["position"]
        constraints = [models.UniqueConstraint(fields=["dataflow", "task_id"], name="one_use_a_task")]


class FragmentRow(models.Model):
    """A chain of running tasks that one query executes."""

    id = models.CharField(max_length=40, primary_key=True)
    tasks = models.JSONField()
    slot = models.CharField(max_length=80)
    active = models.PositiveIntegerField()
    outlets = models.JSONField(default=dict)
    started_generation = models.PositiveIntegerField()
    started_at = models.DateTimeField(auto_now_add=True)


class NodeRow(models.Model):
    """A machine and how many slots it offers."""

    name = models.CharField(max_length=60, primary_key=True)
    slots = models.PositiveSmallIntegerField()
    seen = models.DateTimeField(null=True)

    class Meta:
        ordering = ["name"]


class HistoryPoint(models.Model):
    """Rates at one moment: of a scope of the estate (the shared tasks, or a team's private ones), or of a dataflow."""

    at = models.DateTimeField(db_index=True)
    scope = models.CharField(max_length=40, blank=True)
    dataflow = models.ForeignKey("catalog.DataflowRecord", null=True, on_delete=models.CASCADE, related_name="history")
    events_in_per_s = models.FloatField()
    events_out_per_s = models.FloatField()
    running_tasks = models.PositiveIntegerField()
    tasks_without_reuse = models.PositiveIntegerField()
    latency_p50_ms = models.FloatField(null=True)
    latency_p99_ms = models.FloatField(null=True)

    class Meta:
        indexes = [models.Index(fields=["dataflow", "at"]), models.Index(fields=["scope", "at"])]
