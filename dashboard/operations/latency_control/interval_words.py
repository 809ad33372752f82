"""Changes of the batches of a dataflow's queries, in a sentence for its charts."""

from __future__ import annotations

from statistics import median

from scheduler.latency.pacing import Queries
from scheduler.latency.real_time import BatchModes
from scheduler.model.latency_limits import figure_in_words


def change_in_words(queries: Queries, chosen: BatchModes, was_open: frozenset[str], changed: list[str]) -> str:
    """The changes of some queries of a dataflow: modes first, else how far apart batches or groups begin."""
    opened = [query for query in changed if query in chosen.open and query not in was_open]
    if opened:
        return f"{_number(opened, 'leaves its', 'leave their')} batches open: events go on as they come."
    closed = [query for query in changed if query in was_open and query not in chosen.open]
    if closed:
        return f"{_number(closed, 'has', 'have')} micro-batches again."
    gathers = [query for query in changed if query in chosen.open]
    before, after = (figure_in_words(median(seconds[query] for query in gathers or changed))
                     for seconds in (queries.before_s, chosen.interval_s))
    if gathers:
        return f"{_number(gathers, 'gathers', 'gather')} events for {after} instead of {before}."
    return f"{_number(changed, 'has', 'have')} batches {after} apart instead of {before}."


def _number(queries: list[str], singular: str, plural: str) -> str:
    return f"A query {singular}" if len(queries) == 1 else f"{len(queries)} queries {plural}"
