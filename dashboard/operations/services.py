"""Changes of the estate that are no plan: nodes and their slots."""

from __future__ import annotations

from dataclasses import replace

from dashboard import jobs
from dashboard.audit.trail import audited
from dashboard.operations.estate import load_estate, store_change
from dashboard.operations.models import NodeRow
from dashboard.teams.models import User
from scheduler.model.errors import WeirError
from scheduler.model.estate import Estate, Fragment, Slot


class NodeInUse(WeirError):
    """A node without slots still has fragments, and no other node could take them."""

    code = "node_in_use"
    http_status = 409


def register_node(*, name: str, slots: int, actor: User | None = None) -> NodeRow:
    """Take a node with its number of slots into the estate, or its new number.

    Fragments on slots that are no longer offered move to the node's other slots, in order of slot; their queries go on
    there from their checkpoints.
    """
    with audited(actor=actor, verb="node.register") as audit:
        before = load_estate(for_update=True)
        node, created = NodeRow.objects.select_for_update().get_or_create(name=name, defaults={"slots": slots})
        audit.subject, audit.details = node, {"slots": slots, "slots_before": 0 if created else node.slots}
        if not created and node.slots == slots:
            audit.nothing_changed()
            return node
        node.slots = slots
        node.save(update_fields=["slots"])
        moved = _moved(before, name, slots)
        audit.details["fragments_moved"] = len(moved)
        offered = tuple(slot for slot in before.slots if slot.node != name)
        offered += tuple(Slot(node=name, index=index) for index in range(slots))
        store_change(before, replace(
            before, generation=before.generation + 1, slots=offered, fragments={**before.fragments, **moved}))
        jobs.republish()
    return node


def _moved(estate: Estate, node: str, slots: int) -> dict[str, Fragment]:
    moved = {}
    for fragment in estate.fragments.values():
        on, _, index = fragment.slot.rpartition("/")
        if on == node and int(index) >= slots:
            if slots == 0:
                raise NodeInUse(f"{node} still runs {fragment.id}.", remedy="Remove its dataflows first.", node=node)
            moved[fragment.id] = replace(fragment, slot=Slot(node=node, index=int(index) % slots).name)
    return moved
