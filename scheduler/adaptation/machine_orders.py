"""Orders of machines: which to start, and which to give back, for the slots that adaptation wants.

Machines are paid by begun hours. So a machine is given back only if it is empty, nobody wants its slots, and its paid
hour ends, as in `vm_repacking.give_back`.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

from scheduler.model.checks import FiniteFigures
from scheduler.model.latency_limits import figure_in_words
from scheduler.simulation.elastic import RentedVm, VmClass

from .adaptation_port import left_of_begun_hour
from .vm_repacking import cheapest

ENDS_S = 180.0  # of a paid hour: what is given back so late is gone before it is paid again
REST_S = 300.0  # after an order, until the next machine is started: what came is to be used first
REST_AFTER_FAILURE_S = 3600.0


@dataclass(frozen=True, slots=True)
class MachineBounds(FiniteFigures):
    """Bounds of ordered machines: slots together, and cost an hour."""

    most_slots: int
    most_per_hour: float


@dataclass(frozen=True, slots=True)
class OrderedMachine:
    """A machine that was ordered and is not gone.

    Parameters
    ----------
    is_leaving : bool
        True if it is on its way out: it is paid, and its slots are nobody's.
    is_empty : bool
        True if nothing is on it, also because it has not reported yet.
    """

    node: str
    vm: RentedVm
    is_leaving: bool = False
    is_empty: bool = True


@dataclass(frozen=True, slots=True)
class StartMachine:
    """Start a machine of a class, and why."""

    kind: VmClass
    why: str


@dataclass(frozen=True, slots=True)
class StopMachine:
    """Give a machine back, and why."""

    node: str
    why: str


def orders_for(
    wanted_slots: int, free_slots: int, machines: Collection[OrderedMachine], kinds: Collection[VmClass], *,
    bounds: MachineBounds, at_s: float, ordered_s: float | None = None, failed_s: float | None = None,
) -> tuple[StartMachine | StopMachine, ...]:
    """The machines to start or to give back now; never both.

    Parameters
    ----------
    wanted_slots, free_slots : int
        Slots that are wanted besides, and those on which nothing is but those of ``machines``.
    kinds : collection of VmClass
        The catalogue; the cheapest classes with so many slots together are taken.
    at_s, ordered_s, failed_s : float
        The present moment, that of the newest order, and when an order last failed, in seconds since the epoch.

    Returns
    -------
    tuple of StartMachine and StopMachine
        Empty where all is as it should be, or bounds or a rest stand against it.
    """
    staying = [machine for machine in machines if not machine.is_leaving]
    free = free_slots + sum(machine.vm.kind.cores for machine in staying if machine.is_empty)
    if wanted_slots <= free:
        return tuple(_given_back(staying, spare=free - wanted_slots, at_s=at_s))
    rests = (ordered_s, REST_S), (failed_s, REST_AFTER_FAILURE_S)
    if any(since_s is not None and at_s < since_s + rest_s for since_s, rest_s in rests):
        return ()
    here = sum(machine.vm.kind.cores for machine in machines)
    spent = sum(machine.vm.kind.per_hour for machine in machines)
    in_order = tuple(sorted(kinds, key=lambda kind: (-kind.cores, kind.name)))  # of the same price the fewest machines
    for missing in range(min(wanted_slots - free, bounds.most_slots - here), 0, -1):
        price, chosen = cheapest(in_order, missing)
        if (math.isfinite(price) and spent + price <= bounds.most_per_hour + 1e-9
                and here + sum(kind.cores for kind in chosen) <= bounds.most_slots):
            reason = f"{wanted_slots} more slots are needed, and {free} are free or ordered."
            return tuple(StartMachine(kind, reason) for kind in chosen)
    return ()


def _given_back(staying: Collection[OrderedMachine], *, spare: int, at_s: float) -> list[StopMachine]:
    """The machines whose paid hour ends and whose slots are spare, the dearest first."""
    orders = []
    for machine in sorted(staying, key=lambda rented: (-rented.vm.kind.per_hour, rented.node)):
        left_s = left_of_begun_hour(machine.vm.begun_s, at_s)
        if machine.is_empty and machine.vm.kind.cores <= spare and left_s < ENDS_S:
            spare -= machine.vm.kind.cores
            orders.append(StopMachine(
                machine.node, "Nothing runs on it, nobody needs its slots, and its paid hour ends in "
                              f"{figure_in_words(left_s, most=2)}."))
    return orders
