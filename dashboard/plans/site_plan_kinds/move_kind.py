"""Moves on the site: queries go on in another slot."""

from __future__ import annotations

from collections.abc import Mapping

from dashboard.catalog import lifecycle as dataflows
from dashboard.operations.estate_store.file_secrets import file_secrets
from dashboard.operations.estate_store.offered_slots import closed_slots, silent_nodes
from dashboard.operations.live_view.going_on import copy_holders
from dashboard.plans.models import PlanRecord
from dashboard.plans.site_plan_kinds.site_plan_kind import SitePlanKind, computed_with
from scheduler.interruptions import interruptions_of
from scheduler.model.errors import InvalidTransition, WeirError
from scheduler.model.fragment import node_of
from scheduler.model.plan import Plan
from scheduler.model.plan_kinds import MOVE
from scheduler.moving import plan_move
from scheduler.read_set import ReadTrackingView


def _move(record: PlanRecord, estate: ReadTrackingView) -> Plan:
    options, submitted = record.options, estate.submitted.get(str(record.dataflow_id))
    tasks = set(submitted.running.values()) if submitted is not None else ()
    silent = frozenset(silent_nodes().values_list("name", flat=True))
    others = options.get("others", {})
    slots = {**dict.fromkeys((options["query"], *options.get("along", ())), options["slot"]), **others}
    return plan_move(
        estate, query=options["query"], slot=options["slot"], along=options.get("along", ()),
        others=others, bundles=options.get("bundles", {}), why=options.get("why", ""),
        file_secrets=file_secrets(estate.tasks[task] for task in tasks if task in estate.tasks),
        silent=silent, closed=closed_slots(set(slots.values())), copied=_copied(slots) if silent else (),
        **computed_with(record))


def _copied(slots: Mapping[str, str]) -> frozenset[str]:
    """The queries that would go on from a copy of their state on the node of the slot where they go."""
    return frozenset(name for name, holder in copy_holders(slots).items() if holder == node_of(slots[name]))


def _hindrance(plan: Plan) -> WeirError | None:
    """The reason why a move would not begin: nothing is heard of the node that it goes to, or leaves."""
    leaving = {bundle.id: node_of(bundle.slot) for interruption in interruptions_of(plan)
               for bundle in interruption.queries}
    reached = {node_of(bundle.slot) for fragment in plan.fragments_after.values() for bundle in fragment.queries}
    all_silent = set(silent_nodes().filter(name__in={*reached, *leaving.values()}).values_list("name", flat=True))
    if not all_silent:
        return None
    copied = {name for name, holder in copy_holders(leaving).items() if holder in reached}
    former_nodes = {node for name, node in leaving.items() if name not in copied}
    silent = min(all_silent & (reached | former_nodes), default=None)
    if silent is None:
        return None
    if silent in reached:
        return InvalidTransition(
            f"{silent}, where something would move to, does not report.",
            remedy="Move it to another node, or start that one's agent and compute the plan again.")
    return InvalidTransition(
        f"{silent}, where something would move from, does not report.",
        remedy="Start its agent, and compute the plan again.")


MOVING = SitePlanKind(MOVE, _move, None, (dataflows.RUNNING,), hindrance=_hindrance)
