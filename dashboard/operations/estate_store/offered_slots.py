"""The slots that something new may be placed on."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta

from django.db.models import Max, Q, QuerySet

from dashboard.operations.models import NodeRow, SlotRow

SILENT_AFTER = timedelta(seconds=45)  # a report lives for 15 s, and is looked for every 10 s


def offered_slots() -> QuerySet[SlotRow]:
    """Slots that nothing has reserved, of nodes that are heard of, for what is placed on a silent one would not begin;
    and that are not drained."""
    return unreserved_slots().exclude(node__in=silent_nodes())


def unreserved_slots(*, drained_too: Collection[str] = ()) -> QuerySet[SlotRow]:
    """Slots that nothing has reserved, of nodes that are not drained, but for some by name."""
    return SlotRow.objects.filter(Q(node__draining_since=None) | Q(name__in=drained_too), reserved_for="")


def closed_slots(names: Collection[str] | None = None) -> dict[str, str]:
    """The slots that nothing new may be placed on, of these or of all, each with the reason in a few words."""
    silent = set(silent_nodes().values_list("name", flat=True))
    closed = {}
    rows = SlotRow.objects.all() if names is None else SlotRow.objects.filter(name__in=names)
    for name, node, reserved_for, draining_since in rows.values_list(
            "name", "node", "reserved_for", "node__draining_since"):
        if draining_since is not None:
            closed[name] = f"{node} is drained"
        elif reserved_for:
            closed[name] = "a measurement has it to itself"
        elif node in silent:
            closed[name] = f"{node} does not report"
    return closed


def silent_nodes() -> QuerySet[NodeRow]:
    """The nodes that are missed, and those that were last heard of long before the others: while the site was away,
    nobody was."""
    missed = Q(missed_since__isnull=False)
    newest = NodeRow.objects.aggregate(newest=Max("seen"))["newest"]
    return NodeRow.objects.filter(missed if newest is None else missed | Q(seen__lt=newest - SILENT_AFTER))
