"""Machines on order for pages, API and commands, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.utils import timezone

from dashboard.controllers.machine_providers import machine_provider
from dashboard.controllers.machine_states import OPEN_STATES, UNPAID_STATES
from dashboard.controllers.models import MachineOrder
from dashboard.operations.live_view.estate_view import View
from dashboard.operations.live_view.findings import WARN, Finding
from scheduler.adaptation.adaptation_port import left_of_begun_hour
from scheduler.adaptation.machine_orders import REST_AFTER_FAILURE_S

SHOWN = 100


def machines_told(*, with_errors: bool) -> dict[str, Any]:
    """The newest orders of machines: their states, until when each is paid, what it costs, and why. Everybody may know
    these, as nodes.

    Parameters
    ----------
    with_errors : bool
        Also what the operator's command said: for those who administer the installation.
    """
    return {
        "provider": "command" if settings.MACHINE_COMMAND else "webhook" if settings.MACHINE_WEBHOOK else "none",
        "most_slots": settings.MACHINE_SLOTS,
        "most_per_hour": settings.MACHINE_PRICE, "currency": settings.CURRENCY,
        "machines": [_order_answer(order, with_errors=with_errors) for order in MachineOrder.objects.all()[:SHOWN]]}


@dataclass(frozen=True, slots=True)
class PaidMachine:
    """A machine on order: from when until when it is paid, and works (seconds since the epoch); None: it never did."""

    node: str
    size: str
    paid_s: tuple[float, float]
    works_s: tuple[float, float] | None
    why: str


def paid_between(begin_s: float, end_s: float) -> list[PaidMachine]:
    """The machines that were on order in a time, the first ordered first."""
    now, machines = timezone.now(), []
    orders = MachineOrder.objects.exclude(state__in=UNPAID_STATES).filter(
        ordered__lt=datetime.fromtimestamp(end_s, UTC)).order_by("ordered", "pk")
    for order in orders:
        ended_s = (order.ended or now).timestamp()
        begun_s = order.ordered.timestamp()
        paid_until_s = ended_s + left_of_begun_hour(begun_s, ended_s)
        if paid_until_s > begin_s:
            works = None if order.reported is None else (order.reported.timestamp(), ended_s)
            machines.append(PaidMachine(
                order.node, order.size, (begun_s, paid_until_s), works, f"{order.why} {order.why_back}".strip()))
    return machines[-SHOWN:]


def wrong_machines(_view: View, others: Sequence[Finding]) -> Iterator[Finding]:
    """Orders that the provider did not take, and machines that never reported, for as long as none is started after."""
    if machine_provider() is None:
        return
    keys = {finding.key for finding in others}
    since = timezone.now() - timedelta(seconds=REST_AFTER_FAILURE_S)
    failing = MachineOrder.objects.filter(state__in=OPEN_STATES).exclude(error="")
    given_up = MachineOrder.objects.filter(gave_up=True, ordered__gt=since, error="")
    for order in [*failing, *given_up]:
        ask = "stopped" if order.why_back else "started"
        cause = (f"Machine {order.node} cannot be {ask}: its provider did not take that."
                 if order.error else f"Machine {order.node} was given up. {order.why_back}")
        finding = Finding(
            "node", order.node, order.state, WARN, cause,
            "`./weir node machines` tells what the command of WEIR_MACHINE_COMMAND, or WEIR_MACHINE_WEBHOOK, said. "
            "Weir asks again by itself, less and less often." if order.error else
            "See why its agent did not report: the machine's log, its network, the broker's address.")
        if finding.key not in keys:
            yield finding


def _order_answer(order: MachineOrder, *, with_errors: bool) -> Mapping[str, Any]:
    now, begun_s = timezone.now(), order.ordered.timestamp()
    ended = order.ended or now
    paid_until = ended + timedelta(seconds=left_of_begun_hour(begun_s, ended.timestamp()))
    hours = max(1, round((paid_until.timestamp() - begun_s) / 3600))
    if order.state in UNPAID_STATES:
        paid_until, hours = order.ordered, 0
    return {
        "node": order.node, "size": order.size, "slots": order.slots, "per_hour": order.per_hour, "state": order.state,
        "ordered": order.ordered, "reported": order.reported, "ended": order.ended, "paid_until": paid_until,
        "cost": round(hours * order.per_hour, 6), "gave_up": order.gave_up, "why": order.why,
        "why_back": order.why_back, "error": order.error if with_errors else ""}
