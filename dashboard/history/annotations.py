"""Annotations: what happened, stored and read."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from dashboard.history.models import AnnotationRow
from dashboard.history.series_ids import of_subjects
from scheduler.history.series import Annotation

_LONGEST, _LONGEST_SUBJECT = (AnnotationRow._meta.get_field(name).max_length for name in ("text", "subject"))


def store(notes: Collection[Annotation]) -> None:
    """Keep what happened; what is there already is not kept twice."""
    AnnotationRow.objects.bulk_create(
        [AnnotationRow(at_s=note.at_s, what=note.what, kind=note.kind, subject=note.subject[:_LONGEST_SUBJECT],
                       text=note.text[:_LONGEST], team=note.team)
         for note in notes], ignore_conflicts=True)


def read(
    *, begin_s: int, end_s: int, subjects: Collection[tuple[str, str]], teams: Collection[str] | None = None
) -> Sequence[Annotation]:
    """The annotations of some subjects in a range, the oldest first.

    Parameters
    ----------
    begin_s, end_s : int
        The range, in seconds since the epoch; its end is not part of it.
    teams : collection of str, optional
        Of what is for the members of one team, that of these teams; None: all of it.
    """
    of_range = AnnotationRow.objects.filter(
        at_s__gte=begin_s, at_s__lt=end_s, **({} if teams is None else {"team__in": ["", *teams]}))
    rows = [row for condition in of_subjects(subjects) for row in of_range.filter(condition)]
    notes = [Annotation(row.at_s, row.what, row.kind, row.subject, row.text, row.team) for row in rows]
    return sorted(notes, key=lambda note: (note.at_s, note.what, note.kind, note.subject))


def forget(before_s: int) -> None:
    """Drop what happened before a moment."""
    AnnotationRow.objects.filter(at_s__lt=before_s).delete()
