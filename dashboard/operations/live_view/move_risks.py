"""Risks of a longer or another move of a query, in sentences."""

from __future__ import annotations

from collections.abc import Iterator

from django.conf import settings

from dashboard import jobs
from dashboard.operations.live_view.estate_view import View
from dashboard.operations.live_view.handover_pauses import batch_ms_of
from scheduler.model.fragment import Fragment, node_of
from scheduler.model.latency_limits import figure_in_words

MB = 1_000_000
GOES_AHEAD_BYTES = 256 * 1024  # smaller state is in the record of the end alone


def risks_of(view: View, query: str, target: str) -> Iterator[str]:
    """The risks for a query that goes to a slot."""
    fragment = view.fragment_of[query]
    slot = next(bundle.slot for bundle in fragment.queries if bundle.id == query)
    report = view.reading.reports.query(slot, query)
    if report is None or report.cpu is None:
        yield f"What {query} takes is not measured yet, and counts as nothing here."
    if report is not None:
        batch_ms = batch_ms_of(report)
        if batch_ms > (report.trigger_ms or settings.TRIGGER_MS):
            yield f"Batches of {query} take {figure_in_words(batch_ms / 1000)}, and one has to end first."
        if report.failures:
            yield f"{query} has failed {report.failures} times lately."
    if node_of(slot) != node_of(target):  # on its node a store stays where it is
        yield from _of_state(view, fragment, report.state_kb if report is not None else None)
        yield from _of_connectors(view, fragment, node_of(target))


def _of_state(view: View, fragment: Fragment, state_kb: int | None) -> Iterator[str]:
    types, tasks = jobs.task_types(), view.estate.tasks
    stateful = dict.fromkeys(tasks[task].type for task in fragment.active_tasks if types[tasks[task].type].stateful)
    if not stateful:
        return
    names = ", ".join(stateful)
    if state_kb is None:
        yield f"The state of {names} moves along. Its size is not measured and may be large."
    elif 1024 * state_kb < GOES_AHEAD_BYTES:
        yield f"The state of {names} moves along: {state_kb} kB."
    else:
        yield (f"The state of {names} moves along: {1024 * state_kb / MB:.1f} MB. It is copied before the query "
               "pauses, which lengthens the move, not the pause; changes made meanwhile are copied in the pause.")


def _of_connectors(view: View, fragment: Fragment, node: str) -> Iterator[str]:
    types, tasks = jobs.task_types(), view.estate.tasks
    names = dict.fromkeys(
        tasks[task].type for task in fragment.active_tasks if types[tasks[task].type].connector
        or types[tasks[task].type].terminal == "connector")
    if names:
        yield (f"{', '.join(names)} is read or written from {node} then: Weir does not look beforehand whether that "
               "node has the settings for it and reaches the other system.")
