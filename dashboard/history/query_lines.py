"""Lines of queries: which ones came before a query, and which ones came after. A query has one history over moves."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from dashboard.history.models import QueryLine

LONGEST = 50  # queries before one that are remembered


def store(successors: Mapping[str, Sequence[str]], *, at_s: int) -> None:
    """Store the predecessors of new queries.

    Parameters
    ----------
    successors : mapping
        By new query: its ending predecessors, first the one whose line it continues
        (``scheduler.history.successions``).
    at_s : int
        Their end, in seconds since the epoch.
    """
    if not successors:
        return
    before: dict[str, list[QueryLine]] = {}
    formers = {former for some in successors.values() for former in some}
    for row in QueryLine.objects.filter(query__in=formers):
        before.setdefault(row.query, []).append(row)
    stored: list[QueryLine] = []
    for query, some in successors.items():
        rows: dict[str, QueryLine] = {}
        for position, former in enumerate(some):
            rows.setdefault(former, QueryLine(former=former, distance=1, is_main=position == 0, at_s=at_s))
            for row in before.get(former, ()):
                if row.former != query and row.distance < LONGEST:
                    rows.setdefault(row.former, QueryLine(
                        former=row.former, distance=row.distance + 1, is_main=row.is_main and position == 0,
                        at_s=row.at_s))
        for row in rows.values():
            row.query = query
        stored += rows.values()
    # A plan that is rolled back gives a query its id again, and another line.
    QueryLine.objects.filter(query__in=successors).delete()
    QueryLine.objects.bulk_create(stored)


def before(queries: Collection[str], *, since_s: int = 0) -> list[str]:
    """The queries of these ones' lines that ended since a moment, the newest of each first."""
    rows = QueryLine.objects.filter(query__in=queries, is_main=True, at_s__gte=since_s)
    return list(dict.fromkeys(rows.values_list("former", flat=True)))


def after(query: str) -> Sequence[str]:
    """The queries that took the place of one, at once or through others, those of its own line first."""
    return heirs_of([query]).get(query, [])


def heirs_of(formers: Collection[str]) -> dict[str, list[str]]:
    """The heirs of several queries, by query; those without heirs are left out."""
    rows = QueryLine.objects.filter(former__in=formers).order_by("-is_main", "id").values_list("former", "query")
    heirs: dict[str, list[str]] = {}
    for former, query in rows:
        heirs.setdefault(former, []).append(query)
    return heirs


def forget(before_s: int) -> None:
    """Drop queries that ended before a moment."""
    QueryLine.objects.filter(at_s__lt=before_s).delete()
