"""Rows of bills: who needed which running task when, what was read last, what each hour used, and prices over time."""

from __future__ import annotations

from django.db import models


class NeedRow(models.Model):
    """A dataflow needed a running task, from a moment until another, or still does."""

    dataflow = models.ForeignKey("catalog.DataflowRecord", on_delete=models.PROTECT, related_name="needs")
    task_id = models.CharField(max_length=200)
    type = models.CharField(max_length=100)
    fingerprint = models.CharField(max_length=100)
    since = models.DateTimeField()
    until = models.DateTimeField(null=True)

    class Meta:
        indexes = [models.Index(fields=["fingerprint", "until"]), models.Index(fields=["dataflow", "until"])]
        constraints = [models.UniqueConstraint(
            fields=["dataflow", "task_id"], condition=models.Q(until=None), name="one_open_need_a_task")]


class SlotReading(models.Model):
    """A slot's counters as they were read last, with the tasks of its queries; what comes is measured against them."""

    slot = models.CharField(max_length=80, primary_key=True)
    at = models.DateTimeField()
    counters = models.JSONField()
    tasks = models.JSONField(default=dict)
    alternates = models.JSONField(default=dict)  # which was on of its dynamic tasks, by running task
    same_since = models.DateTimeField(null=True)  # since when its process has run the same queries with the same tasks


SUMMED = (
    "cpu_us", "memory_mb_s", "traffic_bytes", "disk_kb_s", "cost_nanos", "alone_nanos", "needed_ms", "user_ms",
    "batches_cpu_us", "batches_nanos", "limit_cpu_us", "limit_nanos", "limit_known_ms")


class UsageHour(models.Model):
    """A dataflow's part in a running task over one hour, or an old day; without a dataflow, what nobody needed.

    ``cost_nanos`` is what it pays, ``alone_nanos`` what it would pay if nobody else needed the task. ``needed_ms`` is
    for how long it needed the task, ``user_ms`` that time multiplied by how many needed it meanwhile. Of what it pays
    ``batches_…`` is for batches, and of that ``limit_…`` for its latency limits; for ``limit_known_ms`` of the time
    that is known: for none of it in hours from before it was told apart.
    """

    hour = models.DateTimeField()
    dataflow = models.ForeignKey("catalog.DataflowRecord", null=True, on_delete=models.PROTECT, related_name="usage")
    fingerprint = models.CharField(max_length=100, blank=True)
    cpu_us = models.BigIntegerField(default=0)
    memory_mb_s = models.BigIntegerField(default=0)
    traffic_bytes = models.BigIntegerField(default=0)
    disk_kb_s = models.BigIntegerField(default=0)  # on disk for it, because it read too slowly
    cost_nanos = models.BigIntegerField(default=0)
    alone_nanos = models.BigIntegerField(default=0)
    needed_ms = models.BigIntegerField(default=0)
    user_ms = models.BigIntegerField(default=0)
    batches_cpu_us = models.BigIntegerField(default=0)
    batches_nanos = models.BigIntegerField(default=0)
    limit_cpu_us = models.BigIntegerField(default=0)
    limit_nanos = models.BigIntegerField(default=0)
    limit_known_ms = models.BigIntegerField(default=0)

    class Meta:
        indexes = [models.Index(fields=["dataflow", "hour"]), models.Index(fields=["fingerprint", "hour"]),
                   models.Index(fields=["hour"])]
        constraints = [models.UniqueConstraint(fields=["hour", "dataflow", "fingerprint"], name="one_row_an_hour")]


class PriceList(models.Model):
    """Prices that applied from a time on, until the next list."""

    since = models.DateTimeField()
    prices = models.JSONField()

    class Meta:
        ordering = ["-since"]
