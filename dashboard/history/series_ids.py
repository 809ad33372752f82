"""The ids of series: given once, and known by whoever reads."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import groupby
from operator import or_
from typing import Any

from django.db.models import Q

from dashboard.history.models import SeriesRow
from scheduler.history.series import Series

AT_ONCE = 400  # values in one query: a database takes no more than some hundreds everywhere
FEW = 20  # metrics


def ids_of(series: Collection[Series], *, at_s: int) -> dict[Series, int]:
    """The ids of series. New series get consecutive ids, so that series written together are stored together."""
    ids = known_ids(series)
    new = [line for line in dict.fromkeys(series) if line not in ids]
    if new:
        SeriesRow.objects.bulk_create(
            [SeriesRow(kind=line.kind, subject=line.subject, metric=line.metric, seen_s=at_s) for line in new],
            ignore_conflicts=True)  # two may meet it at once
        ids |= known_ids(new)
    return ids


def known_ids(series: Iterable[Series]) -> dict[Series, int]:
    """The ids of those that have one."""
    wanted_lines = {(line.kind, line.subject, line.metric): line for line in series}
    metrics = {metric for _, _, metric in wanted_lines}
    ids: dict[Series, int] = {}
    for condition in of_subjects((kind, subject) for kind, subject, _ in wanted_lines):
        rows = SeriesRow.objects.filter(condition)
        if len(metrics) <= FEW:  # of subjects that have many more
            rows = rows.filter(metric__in=metrics)
        ids |= {wanted_lines[line]: pk for pk, *columns in rows.values_list("pk", "kind", "subject", "metric")
                if (line := tuple(columns)) in wanted_lines}
    return ids


def series_of(kind: str, subjects: Collection[str]) -> Sequence[Series]:
    """The series that are known of some subjects of a kind, in order of subject and metric."""
    rows = _rows((kind, subject) for subject in subjects)
    return sorted((row.series for row in rows), key=lambda line: (line.subject, line.metric))


def metrics_of(first_id: int, last_id: int) -> Mapping[int, str]:
    """The metric of each series whose id is from one to another."""
    return dict(SeriesRow.objects.filter(pk__gte=first_id, pk__lte=last_id).values_list("pk", "metric"))


def note_seen(ids: Sequence[int], at_s: int, *, every_s: int) -> None:
    """Store that series had points."""
    for some in _portions(ids):
        SeriesRow.objects.filter(pk__in=some, seen_s__lt=at_s - every_s).update(seen_s=at_s)


def of_subjects(subjects: Iterable[tuple[str, str]]) -> Iterator[Q]:
    """Conditions by which rows are of any of these subjects, each with its kind: for as few statements as it takes."""
    for some in _portions(sorted(set(subjects))):
        by_kind = groupby(some, key=lambda subject: subject[0])
        yield reduce(or_, (Q(kind=kind, subject__in=[name for _, name in names]) for kind, names in by_kind))


def _rows(subjects: Iterable[tuple[str, str]]) -> Iterator[SeriesRow]:
    for condition in of_subjects(subjects):
        yield from SeriesRow.objects.filter(condition)


def _portions(items: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for begin in range(0, len(items), AT_ONCE):
        yield items[begin:begin + AT_ONCE]
