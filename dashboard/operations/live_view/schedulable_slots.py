"""The slots that a schedule may use, and what they and machines to buy cost."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby

from django.conf import settings

from dashboard.operations.estate_store.offered_slots import offered_slots
from dashboard.operations.live_view.learned_costs import costs_here
from dashboard.operations.models import NodeRow
from scheduler.model.fragment import Slot
from scheduler.model.prices import Prices, VmSize
from scheduler.model.resources import NOTHING_TAKEN, Catalogue, Node, Supply, TakenShare
from scheduler.model.tenancy import SlotTenants, is_open_to
from scheduler.model.usage import NANO, SlotLoad
from scheduler.performance.declared import DECLARED_MEMORY
from scheduler.performance.pricing import query_cores

NO_LOAD = SlotLoad()
LEAST_REST = 0.1  # of a slot: what has less left is not offered


def catalogue() -> Catalogue:
    """The sizes of machine that could be bought, by the settings; a slot that is there has the price of its node."""
    return Catalogue(
        tuple(settings.VM_SIZES.values()), currency=settings.CURRENCY, slot_hour=settings.CORE_HOUR_PRICE)


def node_sizes() -> dict[str, VmSize]:
    """The size of each node that has one: as the settings say, and as machines were ordered."""
    if not (settings.MACHINE_COMMAND or settings.MACHINE_WEBHOOK):
        return settings.NODE_SIZES
    ordered = NodeRow.objects.filter(size__in=settings.VM_SIZES).values_list("name", "size")
    return {name: settings.VM_SIZES[size] for name, size in ordered} | settings.NODE_SIZES


def supply(
    tenants: SlotTenants, *, team: str, dataflow_loads: Mapping[str, SlotLoad] | None = None,
    besides: Mapping[str, SlotLoad] | None = None,
) -> Supply:
    """The slots that nothing else runs on, then what is left of others that no schedule counts on; then what to buy.

    Parameters
    ----------
    tenants : SlotTenants
        The estate: where teams are apart, a slot that holds another's queries is not offered.
    dataflow_loads : mapping of str to SlotLoad, optional
        The loads of the slots that are to be scheduled anew, by name: this room counts as free, and comes first.
    """
    ours, more = dataflow_loads or {}, besides or {}
    offered: dict[Slot, TakenShare] = {}
    threads: dict[str, int] = {}
    query = query_cores(Prices(trigger_ms=settings.TRIGGER_MS, costs=costs_here()))
    # Values, not rows: an estate has hundreds, and they are read anew while a slider moves.
    rows = offered_slots().order_by("node_id", "index").values_list(
        "node_id", "index", "queries", "task_nanocores", "bundles", "node__threads")
    teams = tenants.teams_on([Slot(row[0], row[1]).name for row in rows]) if tenants.teams_apart else {}
    for node, index, queries, nanocores, bundles, threads_there in rows:
        slot = Slot(node, index)
        if not is_open_to(team, teams.get(slot.name, ())):
            continue
        others = SlotLoad(queries, nanocores, bundles) - ours.get(slot.name, NO_LOAD) + more.get(slot.name, NO_LOAD)
        taken = NOTHING_TAKEN if others == NO_LOAD else _expected_share(others, query_cores=query)
        if not others.bundles and taken.rest >= LEAST_REST:
            offered[slot] = taken
            if threads_there is not None:
                threads[node] = threads_there
    sizes = node_sizes()
    slots = sorted(offered, key=lambda slot: slot.name not in ours)
    ranks = {node: rank for rank, node in enumerate(dict.fromkeys(slot.node for slot in slots))}
    slots.sort(key=lambda slot: ranks[slot.node])
    nodes = tuple(
        Node(name, tuple(node_slots), size=sizes.get(name), rack=settings.NODE_RACKS.get(name, ""))
        for name, node_slots in groupby(slots, key=lambda slot: slot.node))
    return Supply(
        nodes, catalogue(), taken={slot: taken for slot, taken in offered.items() if taken.rest < 1}, threads=threads)


def _expected_share(others: SlotLoad, *, query_cores: float) -> TakenShare:
    """The expected part of others in a slot, by what their types declare."""
    spent = others.nanocores(query_cores=query_cores)
    return TakenShare(min(1.0, spent / NANO), min(1.0, others.queries * DECLARED_MEMORY), others.queries)
