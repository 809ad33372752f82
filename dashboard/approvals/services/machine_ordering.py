"""Machines on order: what adaptation lacks is started, and given back once nobody wants it and its paid hour ends.

What is decided is stored before the provider is asked (`dashboard.controllers.machine_providers`), and it is asked
again until it took the order. So a worker that is killed in between loses no machine that somebody pays for. Weir gives
back only what it has ordered itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial

import structlog
from django.conf import settings

from dashboard.approvals.drains import drain_of, pause_s
from dashboard.audit.trail import Audit, audited
from dashboard.controllers.machine_providers import MachineNotOrdered, MachineProvider, machine_provider
from dashboard.controllers.machine_states import (
    DECLINED,
    GONE,
    LEAVING,
    MACHINE_LIFECYCLE,
    OPEN_STATES,
    ORDERED,
    RECOMMENDED,
    SERVING,
    STARTING,
    STOPPED,
    UNPAID_STATES,
)
from dashboard.controllers.models import MachineOrder
from dashboard.controllers.site_world import StoredWorld
from dashboard.controllers.stored_rounds import policies_of
from dashboard.operations.estate_store.generation import lock_generation
from dashboard.operations.estate_store.offered_slots import offered_slots, silent_nodes
from dashboard.operations.live_view.nodes import take_out_node
from dashboard.operations.models import NodeRow
from dashboard.operations.services import drain_node
from dashboard.teams.models import User
from dashboard.teams.permissions import require_superuser
from scheduler.adaptation.machine_orders import MachineBounds, OrderedMachine, StartMachine, StopMachine, orders_for
from scheduler.controllers.adapted_dataflows import slots_wanted
from scheduler.controllers.controller_registry import BY_GOALS
from scheduler.controllers.evidence.adaptations import evidence as evidence_of
from scheduler.controllers.loop_values import RECOMMENDS
from scheduler.controllers.vetoes import PEACE_S
from scheduler.model.errors import NotFound, WeirError
from scheduler.simulation.elastic import RentedVm, VmClass

FIRST_PAUSE_S, LONGEST_PAUSE_S = 15, 600  # after an order that the provider did not take
ENDS_WITHIN = timedelta(seconds=120)  # a stopped machine's agent; before that nobody asks whether it reports

log = structlog.get_logger(__name__)


class MachineBoundsReached(WeirError):
    """Machines on order have as many slots, or cost as much, as the operator lets them."""

    code = "machine_bounds_reached"


def is_wanted() -> bool:
    """True if machines can be ordered here."""
    return machine_provider() is not None


def advance_machines(*, at: datetime, provider: MachineProvider | None = None) -> int:
    """Follow what was ordered, decide what more is, and ask the provider for the next; how many are not gone.

    Parameters
    ----------
    provider : MachineProvider, optional
        The provider of the settings, unless told; without one nothing is done.
    """
    provider = provider or machine_provider()
    if provider is None:
        return 0
    for order in MachineOrder.objects.filter(state__in=OPEN_STATES):
        try:
            if (next_state := _followed(order, at=at)) is not None:
                _move(order, *next_state)
        except WeirError as error:  # it is looked at again soon
            log.info("machine_not_followed", node=order.node, why=error.message)
    _decide(at=at)
    for order in MachineOrder.objects.filter(state__in=(ORDERED, LEAVING), next_try__lte=at).order_by("next_try", "pk"):
        if order.state == ORDERED or _may_stop(order.node):
            _ask(provider, order, at=at)
            break  # a command may take a minute
    return MachineOrder.objects.filter(state__in=OPEN_STATES).count()


# Following ------------------------------------------------------------------------------------------------------------


def _followed(order: MachineOrder, *, at: datetime) -> tuple[str, Mapping[str, object]] | None:
    """The new state of an order and its changed fields; None where that is nothing."""
    has_reported = NodeRow.objects.filter(name=order.node).exclude(seen=None).exists()
    late_s = settings.MACHINE_REPORT_S
    if order.state == STARTING and has_reported:
        return SERVING, {"reported": at, "error": ""}
    if order.state in (ORDERED, STARTING) and at >= order.ordered + timedelta(seconds=late_s):
        return LEAVING, {"gave_up": True, "next_try": at,
                         "why_back": f"Its agent did not report within {late_s:g} s of the order."}
    if order.state == SERVING and silent_nodes().filter(
            name=order.node, seen__lt=at - timedelta(seconds=late_s)).exists():
        return LEAVING, {"gave_up": True, "next_try": at, "why_back": f"It has not reported for {late_s:g} s."}
    if order.state == LEAVING and has_reported:
        drain_node(name=order.node)
    if order.state == STOPPED and at >= order.next_try:
        if NodeRow.objects.filter(name=order.node, slots__gt=0).exists():
            take_out_node(name=order.node)
        return GONE, {}
    return None


def _may_stop(node: str) -> bool:
    """True if nothing is on a node that leaves: by the estate, and by its agent unless that is silent."""
    if not NodeRow.objects.filter(name=node, slots__gt=0).exists():
        return True
    drain = drain_of(node)
    is_silent = silent_nodes().filter(name=node).exists()
    return drain.draining and (drain.is_empty or (is_silent and not drain.queries and not drain.others))


def _move(order: MachineOrder, state: str, changes: Mapping[str, object]) -> None:
    """Move one on, unless another worker has by now."""
    with audited(actor=None, verb=f"machine.{state}") as audit:
        row = MachineOrder.objects.select_for_update().get(pk=order.pk)
        audit.subject = row
        if row.state != order.state:
            audit.nothing_changed()
            return
        MACHINE_LIFECYCLE.check(row.state, state)
        row.state = state
        for name, value in changes.items():
            setattr(row, name, value)
        row.save(update_fields=["state", *changes])
        if state == SERVING:  # from now on its slots have the price of its size
            NodeRow.objects.filter(name=row.node).update(size=row.size)
        audit.details = {"why": row.why_back} if row.why_back else {}


# Deciding -------------------------------------------------------------------------------------------------------------


def _decide(*, at: datetime) -> None:
    """Store what is to be started and given back; nothing where nobody knows what runs."""
    evidence = evidence_of(StoredWorld(at))
    if evidence is None:
        return
    policies = policies_of(BY_GOALS)
    wanted_slots = slots_wanted(evidence, policies)
    advised = wanted_slots + slots_wanted(evidence, policies, mode=RECOMMENDS)
    orders = list(MachineOrder.objects.filter(state__in=OPEN_STATES))
    paid = MachineOrder.objects.exclude(state__in=UNPAID_STATES)
    newest, failed = paid.first(), paid.filter(gave_up=True).first()
    decide = partial(
        orders_for, free_slots=_free_slots(), machines=[_machine(order) for order in orders],
        kinds=[VmClass(size.name, size.slots, 1.0, 1.0, size.hour) for size in settings.VM_SIZES.values()],
        bounds=_bounds(), at_s=at.timestamp(),
        ordered_s=None if newest is None else newest.ordered.timestamp(),
        failed_s=None if failed is None else failed.ordered.timestamp())
    decided = decide(advised)  # what only a recommendation needs is not given back either
    starts = [decision for decision in decide(wanted_slots) if isinstance(decision, StartMachine)]
    advice = [] if starts else [decision for decision in decided if isinstance(decision, StartMachine)]
    with audited(actor=None, verb="machine.decide") as audit:
        latest = paid.select_for_update().first()
        is_alone = (None if latest is None else latest.pk) == (None if newest is None else newest.pk)
        for decision in starts if is_alone else ():  # unless somebody else has decided meanwhile
            row = _ordered(decision, at=at)
            audit.also(verb="machine.order", subject=row, team=None, why=row.why, size=row.size)
        _advise(audit, advice, is_wanted=not starts and any(
            isinstance(decision, StartMachine) for decision in decide(advised, ordered_s=None, failed_s=None)), at=at)
        audit.nothing_changed()  # but for what has its own row
    by_node = {order.node: order for order in orders}
    for decision in decided:
        if isinstance(decision, StopMachine):
            _move(by_node[decision.node], LEAVING, {"why_back": decision.why, "next_try": at})


def _advise(audit: Audit, advice: Sequence[StartMachine], *, is_wanted: bool, at: datetime) -> None:
    """Recommend machines where none is recommended, and not for a day after one was declined; ``is_wanted`` says
    whether those that are recommended are wanted still."""
    recommended = MachineOrder.objects.select_for_update().filter(state=RECOMMENDED)
    if not is_wanted:
        for row in recommended:
            row.state, row.ended, row.why_back = DECLINED, at, "Its slots are no longer needed."
            row.save(update_fields=["state", "ended", "why_back"])
            audit.also(verb="machine.withdraw", subject=row, team=None, why=row.why_back)
        return
    if recommended.exists() or MachineOrder.objects.filter(
            declined_by__isnull=False, ended__gt=at - timedelta(seconds=PEACE_S)).exists():
        return
    for machine in advice:
        row = _ordered(machine, at=at, state=RECOMMENDED)
        audit.also(verb="machine.recommend", subject=row, team=None, why=row.why, size=row.size)


def order_machine(*, actor: User, node: str, at: datetime) -> MachineOrder:
    """Order a machine that is recommended; by an administrator of the installation.

    Raises
    ------
    NotFound
        No machine of that name was recommended.
    InvalidTransition
        It was ordered or declined meanwhile.
    MachineBoundsReached
        With it machines would have more slots, or cost more, than the operator lets them.
    """
    return _answer(actor, node, "machine.order", ORDERED, {"ordered": at, "next_try": at})


def decline_machine(*, actor: User, node: str, at: datetime) -> MachineOrder:
    """Decline a machine that is recommended: none is for a day; by an administrator of the installation."""
    return _answer(actor, node, "machine.decline", DECLINED, {
        "ended": at, "declined_by": actor, "why_back": f"{actor.username} declined it."})


def _answer(actor: User, node: str, verb: str, state: str, changes: Mapping[str, object]) -> MachineOrder:
    with audited(actor=actor, verb=verb) as audit:
        lock_generation()  # two orders at once are within the bounds together
        require_superuser(audit.viewer)
        row = MachineOrder.objects.select_for_update().filter(node=node).first()
        if row is None:
            raise NotFound(f"No machine {node} is recommended.", remedy="See those that are: `./weir node machines`.")
        MACHINE_LIFECYCLE.check(row.state, state)
        if state == ORDERED:
            _require_bounds(row)
        row.state = state
        for name, value in changes.items():
            setattr(row, name, value)
        row.save(update_fields=["state", *changes])
        audit.subject, audit.details = row, {"size": row.size, "why": row.why}
        return row


def _bounds() -> MachineBounds:
    return MachineBounds(settings.MACHINE_SLOTS, settings.MACHINE_PRICE)


def _require_bounds(row: MachineOrder) -> None:
    orders, bounds = [row, *MachineOrder.objects.select_for_update().filter(state__in=OPEN_STATES)], _bounds()
    slots, per_hour = sum(order.slots for order in orders), sum(order.per_hour for order in orders)
    if slots > bounds.most_slots or per_hour > bounds.most_per_hour + 1e-9:
        raise MachineBoundsReached(
            f"With {row.node} machines on order would have {slots} slots and cost {per_hour:.4g} an hour; "
            f"{bounds.most_slots} and {bounds.most_per_hour:.4g} may be.",
            remedy="Wait until one is given back, or raise WEIR_MACHINE_SLOTS and WEIR_MACHINE_PRICE.", node=row.node)


def _ordered(order: StartMachine, *, at: datetime, state: str = ORDERED) -> MachineOrder:
    stem = re.sub(r"[^A-Za-z0-9]", "", order.kind.name).lower()[:40] or "machine"
    number = MachineOrder.objects.count() + 1
    while NodeRow.objects.filter(name=f"{stem}-{number}").exists():
        number += 1
    return MachineOrder.objects.create(
        node=f"{stem}-{number}", size=order.kind.name, slots=order.kind.cores, per_hour=order.kind.per_hour,
        why=order.why, ordered=at, next_try=at, state=state)


def _machine(order: MachineOrder) -> OrderedMachine:
    is_empty = order.state in (ORDERED, STARTING) or (
        order.state == SERVING and drain_of(order.node).is_empty)
    kind = VmClass(order.size, order.slots, 1.0, 1.0, order.per_hour)
    return OrderedMachine(
        order.node, RentedVm(kind, order.ordered.timestamp()), order.state in (LEAVING, STOPPED), is_empty)


def _free_slots() -> int:
    """Slots that are free to use, but those of machines that were ordered."""
    ordered = MachineOrder.objects.filter(state__in=OPEN_STATES).values("node")
    return offered_slots().filter(queries=0, bundles=0).exclude(node__in=ordered).count()


# Asking the provider --------------------------------------------------------------------------------------------------


def _ask(provider: MachineProvider, order: MachineOrder, *, at: datetime) -> None:
    """Give the provider an order once, and note what came of it."""
    is_start = order.state == ORDERED
    try:
        (provider.start if is_start else provider.stop)(order)
    except MachineNotOrdered as error:
        pause = timedelta(seconds=pause_s(order.tries + 1, first_s=FIRST_PAUSE_S, most_s=LONGEST_PAUSE_S))
        with audited(actor=None, verb="machine.fail", subject=order) as audit:
            MachineOrder.objects.filter(pk=order.pk).update(
                error=str(error), tries=order.tries + 1, next_try=at + pause)
            audit.details = {"error": str(error), "order": "start" if is_start else "stop"}
        return
    if is_start:
        _move(order, STARTING, {"error": "", "tries": 0})
    else:
        _move(order, STOPPED, {"error": "", "tries": 0, "ended": at, "next_try": at + ENDS_WITHIN})
