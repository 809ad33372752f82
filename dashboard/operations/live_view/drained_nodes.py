"""The queries on a node that is drained: nothing new is placed there, and each query that can move goes to another
node.

The moves are plans that Weir makes one after the other (`dashboard.approvals.services.draining`); how each query stands
is in `dashboard.approvals.drains`.
"""

from __future__ import annotations

from collections.abc import Collection

from dashboard import jobs
from dashboard.operations.estate_store.file_secrets import file_secrets
from scheduler.model.estate import Estate
from scheduler.model.fragment import Fragment, RunningBundle, node_of
from scheduler.model.node_parts import FileSecrets
from scheduler.model.task_types import TaskTypes
from scheduler.moving import why_not_moved, why_not_to_other_nodes

LEAVES = "it stops by itself once it has read its waiting events"  # why a query is not moved


def queries_there(
    estate: Estate, node: str, *, copied: Collection[str] = ()
) -> list[tuple[Fragment, RunningBundle, str]]:
    """The queries on a node, by fragment, each with why it cannot go to another; empty where it can, also where it is
    one of those that go on from a copy of their state (``copied``)."""
    types = jobs.task_types()
    fragments = [
        estate.fragments[name] for name in sorted(estate.fragments)
        if any(node_of(bundle.slot) == node for bundle in estate.fragments[name].queries)]
    bound = file_secrets(estate.tasks[task] for fragment in fragments for task in fragment.kept_tasks)
    return [
        (fragment, bundle, _why_not(estate, fragment, bundle, types, bound, from_copy=bundle.id in copied))
        for fragment in fragments for bundle in fragment.queries if node_of(bundle.slot) == node]


def queries_of_node(estate: Estate, node: str) -> list[str]:
    """The ids of the queries on a node."""
    return [
        bundle.id for name in sorted(estate.fragments) for bundle in estate.fragments[name].queries
        if node_of(bundle.slot) == node]


def _why_not(
    estate: Estate, fragment: Fragment, bundle: RunningBundle, types: TaskTypes, bound: FileSecrets, *, from_copy: bool
) -> str:
    if bundle.leaving:
        return LEAVES
    return why_not_moved(estate, fragment, task_types=types, from_copy=from_copy) or why_not_to_other_nodes(
        estate, fragment, bundle, task_types=types, file_secrets=() if from_copy else bound)
