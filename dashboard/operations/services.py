"""Changes of the estate that are no plan: nodes and their slots, nodes that are drained, and failed queries that are
tried again."""

from __future__ import annotations

from uuid import UUID

from django.utils import timezone

from dashboard import jobs
from dashboard.audit.trail import audited
from dashboard.catalog.permissions import dataflow_for
from dashboard.operations.estate_store.estate_writer import store_slots
from dashboard.operations.estate_store.generation import lock_generation
from dashboard.operations.estate_store.offered_slots import offered_slots
from dashboard.operations.live_view.failing_queries import failures
from dashboard.operations.models import NodeRow
from dashboard.teams.models import Role, User
from dashboard.teams.permissions import require_role, require_superuser, viewer_of
from scheduler.model.errors import NotFound, NothingToChange, WeirError


class NothingElsewhere(WeirError):
    """A node is to be drained, and no other has slots."""

    code = "nothing_elsewhere"


def register_node(*, name: str, slots: int) -> NodeRow:
    """Take a node with its number of slots into the estate, or its new number.

    Fragments on slots that are no longer offered move to the node's other slots, in order of slot; their queries go on
    there from their checkpoints.
    """
    with audited(actor=None, verb="node.register") as audit:
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


def drain_node(*, name: str, actor: User | None = None) -> NodeRow:
    """Place nothing new on a node, and let what can move leave it (`dashboard.approvals.services.draining`)."""
    if actor is not None:
        require_superuser(viewer_of(actor))
    is_draining = node_row(name).draining_since is not None
    if not is_draining and not offered_slots().exclude(node=name).exists():
        raise NothingElsewhere(
            f"The queries on {name} cannot move: no other node has a free slot.",
            remedy="Start an agent on another machine, or free a reserved slot, then try again.", node=name)
    return _set(name, actor=actor, drains=True)


def undrain_node(*, name: str, actor: User | None = None) -> NodeRow:
    """Let a node be used again as any other. What has left stays where it is."""
    if actor is not None:
        require_superuser(viewer_of(actor))
    node_row(name)
    return _set(name, actor=actor, drains=False)


def _set(name: str, *, actor: User | None, drains: bool) -> NodeRow:
    with audited(actor=actor, verb="node.drain" if drains else "node.undrain") as audit:
        lock_generation()
        row = NodeRow.objects.select_for_update().get(name=name)
        audit.subject = row
        if (row.draining_since is not None) is drains:
            audit.nothing_changed()
        else:
            row.draining_since = timezone.now() if drains else None
            row.save(update_fields=["draining_since"])
    return row


def node_row(name: str) -> NodeRow:
    """A node that offers slots; ``NotFound`` where there is none of that name."""
    row = NodeRow.objects.filter(name=name).first()
    if row is None or not row.slots:
        raise NotFound(f"There is no node {name}.", remedy="`./weir node list` names those that there are.", node=name)
    return row


def try_again(*, actor: User, dataflow_id: UUID | str) -> list[str]:
    """Let the failing queries that a dataflow works in be tried again now, also those that were given up; their ids."""
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
