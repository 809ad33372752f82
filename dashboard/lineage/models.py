"""The progress of emission."""

from __future__ import annotations

from django.db import models


class LineageMark(models.Model):
    """The moment from which plans that were done are sent; each is sent once, by the keys of the outbox."""

    since = models.DateTimeField()
