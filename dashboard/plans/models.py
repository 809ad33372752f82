"""Plans as records."""

from __future__ import annotations

import uuid

from django.db import models

from dashboard.plans.lifecycle import COMPUTING, LIFECYCLE


class PlanRecord(models.Model):
    """A plan: first a request, then a frozen document with its digest and the estate's generation.

    Its digest is of what it means: while it waits, it is carried over to later generations under the same one.
    ``generation`` is the newest at which it was found to stand; its document is numbered anew when it is taken in.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    kind = models.CharField(max_length=10)  # of `scheduler.model.plan_kinds`
    dataflow = models.ForeignKey("catalog.DataflowRecord", on_delete=models.CASCADE, related_name="plans")
    version = models.PositiveIntegerField()
    # How a submission joins what runs, {"fresh": bool, "begin": text} or {"begin_from": id of a savepoint}, and by what
    # schedule it or a running dataflow is to run, {"schedule": {"pair": [names], "rate_per_s": number or null,
    # "routing": name}}; which queries a defragmentation fuses, {"queries": [ids]}, where a controller has chosen them,
    # and {"for_latency": true} where it need not save anything; of a new version the number of the one that it takes
    # the place of, {"former": number}.
    options = models.JSONField(default=dict)
    status = models.CharField(max_length=10, choices=[(s, s) for s in LIFECYCLE.states], default=COMPUTING)
    generation = models.PositiveIntegerField(null=True)
    digest = models.CharField(max_length=64, blank=True)
    has_promise = models.BooleanField(default=False)  # whether the plan has a schedule, which promises something
    document = models.TextField(blank=True)  # canonical JSON as text: what was hashed is what is kept
    reads = models.TextField(blank=True, default="")  # what of the estate it was made from (`scheduler.read_set.Reads`)
    error = models.JSONField(null=True)
    created = models.DateTimeField(auto_now_add=True)
    enqueued = models.DateTimeField(auto_now_add=True)
    finished = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-created"]
        indexes = [models.Index(fields=["status"])]
