"""The slots that something new may be placed on."""

from __future__ import annotations

from datetime import timedelta

from django.db.models import Max, QuerySet

from dashboard.operations.models import NodeRow, SlotRow

SILENT_AFTER = timedelta(seconds=45)  # a report lives for 15 s, and is looked for every 10 s


def offered_slots() -> QuerySet[SlotRow]:
    """Slots that nothing has reserved, of nodes that are heard of, for what is placed on a silent one would not begin;
    and that are not drained."""
    return unreserved_slots().exclude(node__in=silent_nodes())


def unreserved_slots() -> QuerySet[SlotRow]:
    """Slots that nothing has reserved, of nodes that are not drained."""
    return SlotRow.objects.filter(reserved_for="", node__draining_since=None)


def silent_nodes() -> QuerySet[NodeRow]:
    """The nodes that were last heard of long before the others: while the site was away, nobody was."""
    newest = NodeRow.objects.aggregate(newest=Max("seen"))["newest"]
    return NodeRow.objects.none() if newest is None else NodeRow.objects.filter(seen__lt=newest - SILENT_AFTER)
