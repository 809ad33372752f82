"""Records of many dataflows for repeated reads: the rows are read each time, records are made only of changed rows.

Rows change without the estate and without a notice, so the database is asked each time. Most of the work is to make
records of the rows, and nearly always the rows are as before.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from django.db import connections
from django.db.models import QuerySet

from dashboard.catalog.models import DataflowRecord

_kept_records: tuple[list[Any], Sequence[DataflowRecord]] = ([], ())


def records_of(ids: Collection[str]) -> Sequence[DataflowRecord]:
    """The existing ones of these dataflows, each with its team. Callers share the objects: do not change them."""
    global _kept_records
    if not ids:
        return ()
    rows = DataflowRecord.objects.filter(pk__in=list(ids)).select_related("team")
    answer, (before, records) = _answer_to(rows), _kept_records
    if answer != before:
        records = list(rows)
        if _answer_to(rows) == answer:  # else they changed between the two reads
            _kept_records = (answer, records)
    return records


def _answer_to(rows: QuerySet[DataflowRecord]) -> list[Any]:
    """The rows as the database gives them."""
    with connections[rows.db].cursor() as cursor:
        cursor.execute(*rows.query.sql_with_params())
        return cursor.fetchall()
