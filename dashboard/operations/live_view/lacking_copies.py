"""Queries with fewer copies of their state than they are to have: what the next loss of a machine would take."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from dashboard.operations.live_view.estate_view import View
from dashboard.operations.live_view.findings import NOTE, WARN, Finding
from scheduler.contracts.reports import QueryReport
from scheduler.elasticity.copied_queries import (
    BEHIND,
    CHANGING_HANDS,
    NO_ROOM,
    ON_ITS_WAY,
    TOO_FEW_NODES,
    TOO_MUCH_COMES,
)
from scheduler.model.fragment import Fragment, node_of
from scheduler.model.latency_limits import figure_in_words

COPIES = "copies"
_BY_ITSELF = (ON_ITS_WAY, CHANGING_HANDS)
_FIRST_MS = 10_000  # that a query has to get its holders and its first copy
_REMEDIES = {
    CHANGING_HANDS: "Copies count again once the bundles that take the keys have begun.",
    ON_ITS_WAY: "They come by themselves, each after its query's first batch.",
    TOO_FEW_NODES: "Start an agent on another machine: `./weir agent`. Copies then come by themselves.",
    NO_ROOM: "Raise `WEIR_COPIES_MB` on other nodes, see that `WEIR_COPIES` is the same on all, or start an agent on "
             "another machine.",
    BEHIND: "Give the slow tasks more threads by a schedule. Copies come back once they have caught up.",
    TOO_MUCH_COMES: "Lower `WEIR_COPY_S`, so that copies are made more often. Weir tries again after five minutes."}


def lacking_copies(view: View) -> Iterator[Finding]:
    """One finding for each node, with the reason of most of its queries. What is never copied is none.

    It is a note while all that is missing is on its way.
    """
    nodes: defaultdict[str, list[tuple[Fragment, QueryReport]]] = defaultdict(list)
    for fragment in view.fragments():
        for bundle in fragment.queries:
            report = view.bundle_report(bundle)
            if report.copies:
                nodes[node_of(bundle.slot)].append((fragment, report))
    for node, queries in sorted(nodes.items()):
        whys = [_why_fewer(view, node, fragment, report) for fragment, report in queries]
        fewer = [query for query, cause in zip(queries, whys, strict=True) if cause]
        reasons = Counter(filter(None, whys))
        if not reasons:
            continue
        reason = min(reasons, key=lambda cause: (cause in _BY_ITSELF, -reasons[cause], cause))
        without = sum(not report.survives for _, report in fewer)
        is_coming = reason in _BY_ITSELF
        yield Finding(
            COPIES, node, "waiting" if is_coming else "low", NOTE if is_coming else WARN,
            f"{len(fewer)} of {len(queries)} queries on {node} have fewer copies of their state than asked for: "
            f"{reason}. {_if_lost(node, without)}",
            _REMEDIES.get(reason, "The page of each query says why it has no more.") + _until_all(fewer),
            dataflows=view.users(task for fragment, _ in fewer for task in fragment.active_tasks))


def _why_fewer(view: View, node: str, fragment: Fragment, report: QueryReport) -> str:
    """The reason why a query has fewer copies than it is to have; empty if it has all.

    A query that has just begun lacks none, so that a new dataflow is no alarm, unless it continues another's state.
    """
    if (report.survives or 0) >= (report.copies or 0):
        return ""
    at_ms = reported.at_ms if (reported := view.node_report(node)) else 0
    if at_ms - report.since_ms < _FIRST_MS:
        return ON_ITS_WAY if fragment.inherits else ""
    return report.not_copied or ON_ITS_WAY


def _until_all(fewer: Sequence[tuple[Fragment, QueryReport]]) -> str:
    """The time until about all of these queries have their copies; empty unless that is known of each."""
    times = [report.copy_left_ms for _, report in fewer if report.not_copied == ON_ITS_WAY]
    measured = [time_ms for time_ms in times if time_ms is not None]
    if len(measured) < len(fewer):
        return ""
    return f" All are there in about {figure_in_words(max(1.0, max(measured) / 1000), most=1)}."


def _if_lost(node: str, without: int) -> str:
    """The effect of the loss of a node now, with so many queries that have no copy."""
    if not without:
        return f"If {node} is lost now, all of them continue elsewhere."
    return f"If {node} is lost now, the state of {without} is lost with it."
