"""How far events were emitted."""

from __future__ import annotations

from django.db import models


class LineageMark(models.Model):
    """From when on plans that were done are told of; each is told once, by the keys of the outbox."""

    since = models.DateTimeField()
