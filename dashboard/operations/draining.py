"""Draining a node for maintenance: nothing new is placed there, and each query that can move goes to another node.

What is on the node is told with where it may go, or why it stays. The moves themselves are plans that Weir makes one
after the other (`dashboard.approvals.services.draining`).
"""

from __future__ import annotations

from dataclasses import dataclass

from dashboard import jobs
from dashboard.operations.estate import current_estate
from dashboard.operations.file_secrets import file_secrets
from dashboard.operations.services import node_row
from dashboard.operations.telemetry import EVERYTHING
from dashboard.operations.view import view_for
from dashboard.teams.permissions import Viewer
from scheduler.model.estate import Estate
from scheduler.model.fragment import Fragment, RunningBundle, node_of
from scheduler.model.task_types import TaskTypes
from scheduler.moving import FileSecrets, why_not_moved, why_not_to_other_nodes


@dataclass(frozen=True, slots=True)
class QueryThere:
    """A query on a node: its id, slot, types of tasks, and why it cannot go to another; empty where it can."""

    id: str
    slot: str
    name: str
    why_not: str


@dataclass(frozen=True, slots=True)
class Drain:
    """What is on a node, and whether it is drained. Whoever may not know of a query sees that it is there alone.

    ``leaving`` counts what has another place by now and that the node still has to do with: it ends it, hands it over,
    or has not heard of it yet. None while nothing is heard of the node.
    """

    node: str
    draining: bool
    queries: tuple[QueryThere, ...] = ()
    others: int = 0
    leaving: int | None = None

    @property
    def staying(self) -> tuple[QueryThere, ...]:
        """Those that cannot go."""
        return tuple(query for query in self.queries if query.why_not)

    @property
    def is_empty(self) -> bool:
        """Whether its agent can be stopped, and nothing notices."""
        return not self.queries and not self.others and self.leaving == 0


def drain_of(name: str, viewer: Viewer = EVERYTHING) -> Drain:
    """What is on a node and would go, or stays.

    Raises
    ------
    NotFound
        There is no such node.
    """
    row = node_row(name)
    estate = current_estate()
    report = view_for(EVERYTHING).reading.reports.node(name)
    seen = {fragment.id for fragment in view_for(viewer).fragments()}
    of_node = queries_there(estate, name)
    queries = tuple(
        QueryThere(bundle.id, bundle.slot, " → ".join(estate.tasks[task].type for task in fragment.kept_tasks
                                                      if task in estate.tasks), why)
        for fragment, bundle, why in of_node if fragment.id in seen)
    return Drain(name, row.draining_since is not None, queries, len(of_node) - len(queries), None if report is None else
        len({*report.handing_over, *(query for slot in report.slots.values() for query in slot.fragments)}
            - {bundle.id for _, bundle, _ in of_node}))


def queries_there(estate: Estate, node: str) -> list[tuple[Fragment, RunningBundle, str]]:
    """The queries on a node, by fragment, each with why it cannot go to another."""
    types = jobs.task_types()
    fragments = [
        estate.fragments[name] for name in sorted(estate.fragments)
        if any(node_of(bundle.slot) == node for bundle in estate.fragments[name].queries)]
    bound = file_secrets(estate.tasks[task] for fragment in fragments for task in fragment.active_tasks)
    return [
        (fragment, bundle, _why_not(estate, fragment, bundle, types, bound)) for fragment in fragments
        for bundle in fragment.queries if node_of(bundle.slot) == node]


def _why_not(
    estate: Estate, fragment: Fragment, bundle: RunningBundle, types: TaskTypes, bound: FileSecrets
) -> str:
    if bundle.leaving:
        return "it leaves by itself when it has read what it has"
    return why_not_moved(estate, fragment, task_types=types) or why_not_to_other_nodes(
        estate, fragment, bundle, task_types=types, file_secrets=bound)
