"""Changes of the estate that are no plan: nodes and their slots, and failed queries that are tried again."""

from __future__ import annotations

from uuid import UUID

from dashboard import jobs
from dashboard.audit.trail import audited
from dashboard.catalog.permissions import dataflow_for
from dashboard.operations.estate_writer import store_slots
from dashboard.operations.failures import failures
from dashboard.operations.generation import lock_generation
from dashboard.operations.models import NodeRow
from dashboard.teams.models import Role, User
from dashboard.teams.permissions import require_role, viewer_of
from scheduler.model.errors import NothingToChange


def register_node(*, name: str, slots: int, actor: User | None = None) -> NodeRow:
    """Take a node with its number of slots into the estate, or its new number.

    Fragments on slots that are no longer offered move to the node's other slots, in order of slot; their queries go on
    there from their checkpoints.
    """
    with audited(actor=actor, verb="node.register") as audit:
        generation = lock_generation()
        node, created = NodeRow.objects.select_for_update().get_or_create(name=name, defaults={"slots": slots})
        audit.subject, audit.details = node, {"slots": slots, "slots_before": 0 if created else node.slots}
        if not created and node.slots == slots:
            audit.nothing_changed()
            return node
        node.slots = slots
        node.save(update_fields=["slots"])
        audit.details["fragments_moved"] = store_slots(node, generation=generation)
        jobs.republish()
    return node


def try_again(*, actor: User, dataflow_id: UUID | str) -> list[str]:
    """Let the failing queries that a dataflow works in be tried again now, also those that were given up; their ids.

    Raises
    ------
    BrokerAway
        The nodes cannot be told.
    NothingToChange
        None fails.
    PermissionDenied
        The actor is no engineer of its team.
    """
    viewer = viewer_of(actor)
    record = dataflow_for(viewer, dataflow_id)
    require_role(viewer, record.team, Role.ENGINEER)
    queries = [failure.query for failure in failures(viewer, record.pk)]
    if not queries:
        raise NothingToChange("None of its queries fails.", remedy="Nothing needs to be tried again.")
    with audited(actor=actor, verb="dataflow.try_again", subject=record, team=record.team) as audit:
        audit.details = {"queries": queries}
        jobs.try_again(queries)
    return queries
