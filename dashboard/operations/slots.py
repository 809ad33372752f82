"""The slots that a schedule may use, and what they and machines to buy cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from itertools import groupby

from django.conf import settings

from dashboard.operations.models import SlotRow
from scheduler.model.estate import Fragment, Slot
from scheduler.model.resources import Catalogue, Node, Supply


def catalogue() -> Catalogue:
    """The sizes of machine that could be bought, by the settings; a slot that is there has the price of its node."""
    return Catalogue(
        tuple(settings.VM_SIZES.values()), currency=settings.CURRENCY, slot_hour=settings.CORE_HOUR_PRICE)


def supply(*, own: Collection[Fragment] = ()) -> Supply:
    """The slots that nothing else runs on, then machines to buy.

    Parameters
    ----------
    own : collection of Fragment
        What is to be scheduled anew: the slots that these alone are on count as free, and come first.
    """
    queries = Counter(bundle.slot for fragment in own if not fragment.paused for bundle in fragment.parts)
    rows = SlotRow.objects.filter(reserved_for="")
    free = [row for row in rows.order_by("node_id", "index") if row.queries == queries[row.name]]
    free.sort(key=lambda row: not queries[row.name])
    ranks = {node: rank for rank, node in enumerate(dict.fromkeys(row.node_id for row in free))}
    free.sort(key=lambda row: ranks[row.node_id])
    nodes = tuple(
        Node(name, tuple(Slot(row.node_id, row.index) for row in rows), size=settings.NODE_SIZES.get(name))
        for name, rows in groupby(free, key=lambda row: row.node_id))
    return Supply(nodes, catalogue())
