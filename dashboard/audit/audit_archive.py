"""The archive of the audit trail: old months leave the database for compressed files, one a month, kept for good.

A file holds a JSON object a line, oldest first, and nothing else. It is written beside its place, read back and
compared, then moved. Only then are its rows deleted, in one transaction with an entry that has the file's name, its
SHA-256, and the range of its entries. Such entries stay in the trail for good: they tell if a file was altered or is
missing.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
from collections.abc import Collection, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from django.conf import settings
from django.db.models import Min, QuerySet

from dashboard.audit.models import AuditEntry
from dashboard.audit.trail import audited

ARCHIVED = "audit.archive"
FOLDER = "audit"


class NotArchived(RuntimeError):
    """A month stays in the database for now; the log of the worker says why."""


def archive_months(at: datetime) -> int:
    """Archive every whole month that is older than the trail is kept; how many entries left the database."""
    if not settings.AUDIT_KEEP_DAYS:
        return 0
    archived = 0
    for month in _months(before=at - timedelta(days=settings.AUDIT_KEEP_DAYS)):
        archived += archive_month(month)
    return archived


def archive_month(month: datetime) -> int:
    """Archive the entries of one month; how many. Safe to repeat after an end at any moment.

    Raises
    ------
    OSError
        The file could not be written: the entries stay where they are.
    """
    entries = _of(month)
    leaving = list(entries)
    if not leaving:
        return 0
    path = settings.DATA_DIR / FOLDER / f"{month:%Y-%m}.jsonl.gz"
    digest = _write(path, [*_archived(path, besides={entry.pk for entry in leaving}), *(map(_line, leaving))])
    with audited(actor=None, verb=ARCHIVED) as audit:
        # Not through the manager, which only appends: this is the one place where entries leave.
        rows = QuerySet(AuditEntry).filter(at__gte=month, at__lt=_next(month)).exclude(verb=ARCHIVED)
        if rows._raw_delete(rows.db) != len(leaving):
            raise NotArchived(f"Entries of {month:%Y-%m} came meanwhile: they are archived the next time.")
        audit.subject, audit.details = leaving[-1], {
            "file": path.name, "sha256": digest, "entries": len(leaving), "first": leaving[0].pk,
            "last": leaving[-1].pk}
    return len(leaving)


def _months(*, before: datetime) -> Iterator[datetime]:
    oldest = AuditEntry.objects.exclude(verb=ARCHIVED).aggregate(at=Min("at"))["at"]
    month = None if oldest is None else _first_of(oldest)
    while month is not None and _next(month) <= before:
        yield month
        month = _next(month)


def _of(month: datetime) -> QuerySet[AuditEntry]:
    """A month's entries, oldest first; those that say what was archived stay in the trail."""
    entries = AuditEntry.objects.filter(at__gte=month, at__lt=_next(month)).exclude(verb=ARCHIVED)
    return entries.select_related("actor", "team").order_by("id")


def _line(entry: AuditEntry) -> str:
    return json.dumps({
        "id": entry.pk, "at": entry.at.isoformat(), "actor": entry.actor.username if entry.actor else None,
        "verb": entry.verb, "subject_type": entry.subject_type, "subject_id": entry.subject_id,
        "team": entry.team.slug if entry.team else None, "details": entry.details})


def _archived(path: Path, *, besides: Collection[int]) -> list[str]:
    """Lines that the month's file holds and the database no longer does: nothing that was archived is written over."""
    if not path.exists():
        return []
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [line.rstrip("\n") for line in file if json.loads(line)["id"] not in besides]


def _write(path: Path, lines: list[str]) -> str:
    """Write the file, whole and durable; its SHA-256."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    scratch = path.with_name(f".{path.name}")
    text = "".join(f"{line}\n" for line in lines)
    try:
        with scratch.open("wb") as file:
            file.write(gzip.compress(text.encode(), mtime=0))
            file.flush()
            os.fsync(file.fileno())
        content = scratch.read_bytes()
        if gzip.decompress(content).decode() != text:
            raise NotArchived(f"{path.name} reads otherwise than it was written: check the disk.")
        scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return hashlib.sha256(content).hexdigest()


def _first_of(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def _next(month: datetime) -> datetime:
    return _first_of(month + timedelta(days=32))
