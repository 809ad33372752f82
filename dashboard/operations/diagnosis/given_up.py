"""Queries that were given up and keep others waiting: whose tasks failed, and which can be tried again without them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dashboard.catalog.models import DataflowRecord
from dashboard.operations.estate_store.estate_loader import current_estate
from dashboard.operations.estate_store.reader_terms import working_users
from scheduler.contracts.reports import FAILING, NodeReport, QueryReport, Reports
from scheduler.model.fragment import Fragment


@dataclass(frozen=True, slots=True)
class GivenUp:
    """A query that is not tried again: the last of its tasks that failed and still works (empty where none does), and
    the dataflows that need that task."""

    query: str
    failed: str
    users: tuple[DataflowRecord, ...]


def given_up_for_others(reports: Reports) -> list[GivenUp]:
    """Queries that were given up while others wait: dataflows that need tasks of it but not the failed one, or those
    that need its writer where the node can keep no more for it on disk.

    Where the error was in one of several tasks, the last of them is taken: it has the fewest users. If it was another,
    that one's turn comes when the query fails again.
    """
    waits = [
        _given_up(fragment, query_id, report, holds_back=bool(spill and spill.refused))
        for fragment, query_id, report, node in _unretried(reports) for spill in [node.spills.get(query_id)]]
    return [query for query in waits if query is not None]


def _unretried(reports: Reports) -> Iterator[tuple[Fragment, str, QueryReport, NodeReport]]:
    named = [
        (query_id, report, node) for node in reports.values() for slot in node.slots.values()
        for query_id, report in slot.fragments.items()
        if report.state == FAILING and report.gave_up and report.failed_tasks]
    if not named:
        return
    fragment_of = {
        bundle.id: fragment for fragment in current_estate().fragments.values() for bundle in fragment.queries}
    for query_id, report, node in sorted(named, key=lambda item: item[0]):
        if query_id in fragment_of and fragment_of[query_id].active:
            yield fragment_of[query_id], query_id, report, node


def _given_up(fragment: Fragment, query_id: str, report: QueryReport, *, holds_back: bool) -> GivenUp | None:
    failed = [task for task in fragment.active_tasks if task in report.failed_tasks]
    if not failed:  # they rest, or are gone
        return GivenUp(query_id, "", ())
    users = tuple(working_users(failed[-1]))
    needed_besides = {record.pk for task in fragment.active_tasks for record in working_users(task)} - {
        record.pk for record in users}
    return GivenUp(query_id, failed[-1], users) if holds_back or needed_besides else None
