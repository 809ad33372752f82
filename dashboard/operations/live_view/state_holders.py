"""Holders of the states of queries: the node of each, those of its copies and, while keys change hands, who gives them.

Every page that says what the loss of a machine or a zone takes has it from here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from dashboard import node_calls
from dashboard.operations.live_view.estate_view import View
from dashboard.operations.live_view.going_on import all_copy_holders
from scheduler.contracts.reports import STARTING
from scheduler.elasticity.copies import BundleHome, Survival, survival
from scheduler.model.fragment import Fragment, RunningBundle, node_of

_BEFORE_ITS_TURN = (STARTING, "waiting", "unknown")  # states of a query that takes keys and has not begun with them
Holders = tuple[str, ...]  # nodes


def zones(view: View) -> Mapping[str, str]:
    """The fault zone of each node that has named one."""
    return view.known_figures.once("zones", node_calls.zones)


def copy_nodes(view: View, query: RunningBundle) -> Holders:
    """The nodes from whose copy a query would go on now, the newest copy first."""
    return view.known_figures.once("copies", lambda: _all_copy_nodes(view)).get(query.id, ())


def _all_copy_nodes(view: View) -> dict[str, Holders]:
    """The nodes with copies of each query, as its node reports it; of nodes that are silent, and agents of earlier
    versions, by the broker."""
    named, unnamed = {}, {}
    for query in (query for fragment in view.fragments() for query in fragment.queries):
        report, node = view.bundle_report(query), node_of(query.slot)
        if view.node_report(node) is None or (report.survives and not report.held_by):
            unnamed[query.id] = node
        elif report.survives:
            named[query.id] = report.held_by
    holders = all_copy_holders(unnamed) if unnamed else {}
    return named | {name: tuple(node for node in nodes if node != unnamed[name]) for name, nodes in holders.items()}


def givers_of(view: View, fragment: Fragment, bundle: RunningBundle) -> Iterator[RunningBundle]:
    """The bundles that have states still which a bundle of theirs takes: those that leave, until they have left, and
    those that work on with other keys, until it has begun."""
    has_begun = _has_begun(view, bundle)
    for giver in fragment.before(bundle):
        if giver.id not in view.reading.reports.left if giver.leaving else not has_begun:
            yield giver


def _has_begun(view: View, bundle: RunningBundle) -> bool:
    report = view.bundle_report(bundle)
    return report.state not in _BEFORE_ITS_TURN or report.restarts > 0


def states_of(view: View, fragment: Fragment, query: RunningBundle) -> dict[str, Holders]:
    """The states that a query needs, by whose they are, each with the nodes that have it: its own, and without a copy
    of that those of bundles that have not given it all of its keys yet. One that takes keys and has not begun has no
    state of its own. A silent node counts only where no other has the state."""
    node, copies = node_of(query.slot), copy_nodes(view, query)
    if copies:
        return {query.id: copies if view.node_report(node) is None else (node, *copies)}
    given = {giver.id: (node_of(giver.slot),) for giver in givers_of(view, fragment, query)}
    return given if given and not _has_begun(view, query) else {query.id: (node,), **given}


def survival_now(view: View, queries: Iterable[tuple[Fragment, RunningBundle]]) -> Survival:
    """The losses at once that the states of all these queries survive, by machines and by zone."""
    holders_of = {
        (query.id, name): nodes for fragment, query in queries
        for name, nodes in states_of(view, fragment, query).items()}
    homes = {node: BundleHome(node, zones(view).get(node, "")) for nodes in holders_of.values() for node in nodes}
    return survival(holders_of, homes) if holders_of else Survival(0, ())
