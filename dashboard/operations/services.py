"""Changes of the estate that are no plan: nodes and their slots."""

from __future__ import annotations

from dashboard import jobs
from dashboard.audit.trail import audited
from dashboard.operations.estate_writer import store_slots
from dashboard.operations.generation import lock_generation
from dashboard.operations.models import NodeRow
from dashboard.teams.models import User


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
