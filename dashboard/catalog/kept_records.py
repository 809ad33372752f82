"""Rows of many dataflows for whoever looks again and again: made into records anew only where they are others.

Rows change without the estate, and nothing says so: the database is asked each time. But of a row most of the work is
making a record of it, and from one look to the next nearly all answers are the same.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from django.db import connections
from django.db.models import QuerySet

from dashboard.catalog.models import DataflowRecord

_kept_records: tuple[list[Any], Sequence[DataflowRecord]] = ([], ())


def records_of(ids: Collection[str]) -> Sequence[DataflowRecord]:
    """The existing ones of these dataflows, each with its team. To be read: others have the same objects."""
    global _kept_records
    if not ids:
        return ()
    rows = DataflowRecord.objects.filter(pk__in=list(ids)).select_related("team")
    answer, (before, records) = _answer_to(rows), _kept_records
    if answer != before:
        records = list(rows)
        if _answer_to(rows) == answer:  # else they changed meanwhile: it is not known which rows these records are of
            _kept_records = (answer, records)
    return records


def _answer_to(rows: QuerySet[DataflowRecord]) -> list[Any]:
    """The rows as the database gives them."""
    with connections[rows.db].cursor() as cursor:
        cursor.execute(*rows.query.sql_with_params())
        return cursor.fetchall()
