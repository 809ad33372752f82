"""The rows of kept history: which series there are, blocks of their points, annotations, and lines of queries."""

from __future__ import annotations

from django.db import models

from scheduler.history.series import Series


class SeriesRow(models.Model):
    """A series. Its id says in which blocks its points are: those of its shard, ``id // size`` for each grain.

    ``seen_s`` is when points of it were there last.
    """

    id = models.AutoField(primary_key=True)
    kind = models.CharField(max_length=10)
    subject = models.CharField(max_length=210)
    metric = models.CharField(max_length=40)
    seen_s = models.BigIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["kind", "subject", "metric"], name="one_row_a_series")]

    @property
    def series(self) -> Series:
        """The value that it stands for."""
        return Series(self.kind, self.subject, self.metric)


class Block(models.Model):
    """Points of one grain, of the series of one shard, from ``begins_s`` on; ``payload`` as ``blocks.py`` has it."""

    grain_s = models.PositiveSmallIntegerField()
    shard = models.PositiveIntegerField()
    begins_s = models.BigIntegerField()
    payload = models.BinaryField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["grain_s", "shard", "begins_s"], name="one_block_a_shard_and_time")]
        indexes = [models.Index(fields=["grain_s", "begins_s"])]


class AnnotationRow(models.Model):
    """An event at a moment of one subject."""

    at_s = models.BigIntegerField(db_index=True)
    what = models.CharField(max_length=20)
    kind = models.CharField(max_length=10)
    subject = models.CharField(max_length=210)
    text = models.CharField(max_length=500, blank=True)
    team = models.CharField(max_length=40, blank=True)  # whose members alone may read it; "-": administrators

    class Meta:
        ordering = ["at_s", "what", "kind", "subject"]
        constraints = [
            models.UniqueConstraint(fields=["kind", "subject", "at_s", "what", "text"], name="one_row_an_annotation")]


class QueryLine(models.Model):
    """A ``former`` query, which ended at ``at_s``, and a successor: the direct one (``distance`` 1) or a later one.

    ``is_main``: its points are shown as the successor's own history; other former queries were fused with it.
    """

    query = models.CharField(max_length=100)
    former = models.CharField(max_length=100, db_index=True)
    distance = models.PositiveSmallIntegerField()
    is_main = models.BooleanField()
    at_s = models.BigIntegerField(db_index=True)

    class Meta:
        ordering = ["query", "distance", "former"]
        constraints = [models.UniqueConstraint(fields=["query", "former"], name="one_row_a_former_query")]
