"""Orders of machines: bounds, paid hours, rests, and nothing back and forth."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scheduler.adaptation.machine_orders import (
    ENDS_S,
    REST_AFTER_FAILURE_S,
    REST_S,
    MachineBounds,
    OrderedMachine,
    StartMachine,
    StopMachine,
    orders_for,
)
from scheduler.adaptation.shared_slots import AdaptationRoom
from scheduler.controllers.adapted_dataflows import Adaptations, AdaptedDataflow, slots_wanted
from scheduler.controllers.loop_values import ACTS, RECOMMENDS, Policy
from scheduler.model.dataflow_goals import DataflowGoals
from scheduler.simulation.elastic import Alternate, ElasticDataflow, RentedVm, VmClass

HOUR_S, STEP_S = 3600.0, 30.0
KINDS = tuple(VmClass(f"D{n}", slots, 1.0, 1e6, 0.1 * slots) for n, slots in enumerate((1, 2, 4, 8), 1))
BOUNDS = MachineBounds(most_slots=8, most_per_hour=0.7)


@given(st.lists(st.integers(0, 12), min_size=1, max_size=60), st.integers(0, 3), st.sampled_from([10, 60, 120]),
       st.integers(1, 12), st.floats(0.0, 1.5))
def test_whatever_is_wanted_bounds_hold_and_no_paid_hour_is_thrown_away(
    wants: list[int], free: int, steps: int, most_slots: int, most_per_hour: float
) -> None:
    """Machines come at once and take what is wanted; each want lasts for some steps."""
    bounds = MachineBounds(most_slots, most_per_hour)
    rented: dict[str, RentedVm] = {}
    starts_s: list[float] = []
    at_s, ordered_s = 0.0, None
    for wanted in (want for want in wants for _ in range(steps)):
        left = max(0, wanted - free)  # what is wanted beyond the own slots takes machines, one after the other
        machines = []
        for node, vm in sorted(rented.items()):
            machines.append(OrderedMachine(node, vm, is_empty=left <= 0))
            left -= vm.kind.cores
        taken = sum(machine.vm.kind.cores for machine in machines if not machine.is_empty)
        orders = orders_for(
            max(0, wanted - free - taken), max(0, free - wanted), machines, KINDS, bounds=bounds, at_s=at_s,
            ordered_s=ordered_s)
        assert len({type(order) for order in orders}) <= 1, "never both at a time"
        for order in orders:
            if isinstance(order, StopMachine):
                vm = rented.pop(order.node)
                assert next(machine for machine in machines if machine.node == order.node).is_empty
                assert (at_s - vm.begun_s) % HOUR_S > HOUR_S - ENDS_S or (at_s - vm.begun_s) % HOUR_S == 0
                assert at_s - vm.begun_s > HOUR_S - ENDS_S, "nothing back and forth"
            else:
                rented[f"m{len(starts_s)}"] = RentedVm(order.kind, at_s)
                assert not starts_s or starts_s[-1] == at_s or at_s - starts_s[-1] >= REST_S
                starts_s.append(at_s)
        ordered_s = at_s if orders else ordered_s
        assert sum(vm.kind.cores for vm in rented.values()) <= most_slots
        assert sum(vm.kind.per_hour for vm in rented.values()) <= most_per_hour + 1e-6
        at_s += STEP_S


def test_the_cheapest_classes_with_so_many_slots_are_started() -> None:
    dear = (*KINDS, VmClass("cheap", 3, 1.0, 1e6, 0.2))
    orders = orders_for(3, 0, (), dear, bounds=BOUNDS, at_s=0.0)
    assert [(type(order), order.kind.name) for order in orders if isinstance(order, StartMachine)] == [
        (StartMachine, "cheap")]
    assert orders[0].why == "3 more slots are needed, and 0 are free or ordered."


def test_as_much_is_started_as_bounds_allow() -> None:
    orders = orders_for(40, 0, (), KINDS, bounds=BOUNDS, at_s=0.0)
    assert sum(order.kind.cores for order in orders if isinstance(order, StartMachine)) == 7
    assert not orders_for(40, 0, (), KINDS, bounds=MachineBounds(0, 1.0), at_s=0.0)
    assert not orders_for(40, 0, (), KINDS, bounds=MachineBounds(8, 0.05), at_s=0.0)


def test_machines_that_come_or_leave_count() -> None:
    coming = OrderedMachine("m1", RentedVm(KINDS[1]))
    assert not orders_for(2, 0, [coming], KINDS, bounds=BOUNDS, at_s=REST_S), "it is on its way"
    leaving = OrderedMachine("m1", RentedVm(KINDS[1]), is_leaving=True)
    [order] = orders_for(2, 0, [leaving], KINDS, bounds=BOUNDS, at_s=REST_S)
    assert isinstance(order, StartMachine)
    full = MachineBounds(3, 1.0)
    [order] = orders_for(2, 0, [leaving], KINDS, bounds=full, at_s=REST_S)
    assert isinstance(order, StartMachine) and order.kind.cores == 1, "what leaves is paid, and counts"


def test_after_an_order_and_longer_after_a_failure_nothing_is_started() -> None:
    def started(at_s: float, **since: float) -> bool:
        return bool(orders_for(1, 0, (), KINDS, bounds=BOUNDS, at_s=at_s, **since))

    assert not started(REST_S - 1, ordered_s=0.0) and started(REST_S, ordered_s=0.0)
    assert not started(REST_AFTER_FAILURE_S - 1, ordered_s=0.0, failed_s=0.0)
    assert started(REST_AFTER_FAILURE_S, ordered_s=0.0, failed_s=0.0)


def test_a_machine_is_kept_while_it_is_paid_used_or_wanted() -> None:
    def stopped(at_s: float, *, wanted: int = 0, is_empty: bool = True) -> list[str]:
        machine = OrderedMachine("m1", RentedVm(KINDS[1]), is_empty=is_empty)
        return [order.node for order in orders_for(
            wanted, 0, [machine], KINDS, bounds=BOUNDS, at_s=at_s) if isinstance(order, StopMachine)]

    late_s = HOUR_S - ENDS_S + 1
    assert stopped(late_s) == ["m1"]
    assert not stopped(late_s - 2), "its hour is paid"
    assert not stopped(HOUR_S + 1), "its next hour is paid by now"
    assert not stopped(late_s, wanted=1), "a part of it is wanted"
    assert not stopped(late_s, is_empty=False)


def dataflow(*, per_s: float, most_per_hour: float = 10.0, cheap: bool = False) -> AdaptedDataflow:
    """One task of 10 ms for an event on one slot at 0.1 an hour; with a cheap alternate of 0.1 ms."""
    ways = {"full": Alternate("full", 1.0, 0.01)} | ({"few": Alternate("few", 0.5, 0.0001)} if cheap else {})
    return AdaptedDataflow(
        "d", "city", DataflowGoals(most_per_hour, 0.0), ElasticDataflow({"work": ways}), {"work": "full"},
        {"work": "work"} if cheap else {}, {}, {"work": per_s}, {},
        AdaptationRoom({"n1/0": 1.0}, {"work": {"n1/0": 1.0}}), 0.1)


def test_slots_are_wanted_where_adaptation_acts_no_alternate_helps_and_goals_pay() -> None:
    def wanted(mode: str = ACTS, **more: object) -> int:
        return slots_wanted(Adaptations((dataflow(**more),)), {"city": Policy(mode)})

    assert wanted(per_s=50.0) == 0
    assert 1 <= wanted(per_s=300.0) <= 2, "three cores are needed, and there is one"
    assert wanted(per_s=300.0, mode=RECOMMENDS) == 0
    assert wanted(per_s=300.0, cheap=True) == 0, "alternates come first"
    assert wanted(per_s=300.0, most_per_hour=0.05) == 0
    assert wanted(per_s=2000.0, most_per_hour=0.35) == 2, "one is paid for already"
