"""A draft of a placement: whatever is done to it, its figures are those of the whole placement worked out anew."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.adaptation.adaptation_port import AdaptationProblem
from scheduler.adaptation.greedy_deployment import deploy_sharded
from scheduler.adaptation.placement_draft import PlacementDraft
from scheduler.adaptation.vm_repacking import cheapest, move_to_smallest, repack
from scheduler.simulation.elastic import Alternate, ElasticDataflow, ElasticPlacement, RentedVm, VmClass
from scheduler.simulation.problem import Conditions, work_out

from .elastic_cases import QUICK, SMALL, TWO, check_placement, elastic_problems, generator


@given(elastic_problems(), st.data())
def test_after_any_changes_throughput_is_that_of_the_whole(
    case: tuple[AdaptationProblem, dict[str, float]], data: st.DataObject
) -> None:
    problem, rates = case
    first = deploy_sharded(problem, rates, rng=generator())
    waiting = data.draw(st.dictionaries(st.sampled_from(sorted(first.active)), st.floats(0, 1e4)))
    speeds = data.draw(st.dictionaries(st.sampled_from(sorted(first.vms)), st.floats(0.1, 2.0)))
    bandwidths = data.draw(st.dictionaries(st.sampled_from(sorted(first.vms)), st.floats(1e4, 1e6)))
    conditions = problem.conditions(rates, waiting=waiting, speeds=speeds, bandwidths=bandwidths)
    draft = PlacementDraft(problem.dataflow, first, conditions)
    for _ in range(data.draw(st.integers(1, 12))):
        task = data.draw(st.sampled_from(sorted(first.active)))
        change = data.draw(st.sampled_from(["switch", "give", "take", "rent", "restore"]))
        free = sorted(vm for vm, cores in draft.free.items() if cores)
        if change == "switch":
            draft.switch(task, data.draw(st.sampled_from(sorted(problem.dataflow.tasks[task]))))
        elif change == "give" and free:
            draft.give(task, data.draw(st.sampled_from(free)))
        elif change == "take" and draft.cores[task]:
            draft.give(task, data.draw(st.sampled_from(sorted(draft.cores[task]))), -1)
        elif change == "rent":
            draft.give(task, draft.rent(QUICK))
        elif change == "restore":
            draft.restore(draft.finished())
        worked = work_out(problem.dataflow, draft.finished(), conditions)
        assert draft.throughput == pytest.approx(worked.reached, abs=1e-9)
        for name in first.active:
            assert draft.done[name] == pytest.approx(
                draft.events[name] - worked.waiting[name], rel=1e-6, abs=1e-6)
            assert draft.instances[name] == sum(draft.cores[name].values())


def test_a_core_on_another_machine_widens_the_network_to_who_reads() -> None:
    """Of 50 events/s of 100 bytes, a machine of a and one of b pass 10; with a second one of a 20."""
    dataflow = ElasticDataflow(
        {"a": {"1": Alternate("1", 1.0, 0.01)}, "b": {"1": Alternate("1", 1.0, 0.01)}}, (("a", "b"),))
    narrow = VmClass("narrow", 1, 1.0, 1000.0, 0.06)
    draft = PlacementDraft(
        dataflow, ElasticPlacement(
            {"a": "1", "b": "1"}, {"v": RentedVm(narrow), "w": RentedVm(narrow)}, {"a": {"v": 1}, "b": {"w": 1}}),
        Conditions({"a": 50.0}))
    assert draft.throughput == pytest.approx(0.2)

    other = draft.rent(narrow)
    draft.give("a", other)
    assert draft.throughput == pytest.approx(0.4)
    draft.give("a", other, -1)
    assert draft.throughput == pytest.approx(0.2)


@given(elastic_problems())
def test_repacking_keeps_the_throughput_and_costs_no_more(case: tuple[AdaptationProblem, dict[str, float]]) -> None:
    problem, rates = case
    first = deploy_sharded(problem, rates, rng=generator())
    draft = PlacementDraft(problem.dataflow, first, problem.conditions(rates))
    before = draft.throughput

    repack(draft, problem)

    def per_hour(placement: ElasticPlacement) -> float:
        return sum(vm.kind.per_hour for vm in placement.vms.values())

    packed = draft.finished()
    check_placement(problem, packed)
    assert per_hour(packed) <= per_hour(first) + 1e-9
    assert draft.throughput >= min(problem.least, before) - 1e-6
    move_to_smallest(draft, problem)
    check_placement(problem, draft.finished())
    assert draft.throughput >= min(problem.least, before) - 1e-6


def test_the_cheapest_machines_for_three_cores() -> None:
    price, kinds = cheapest((SMALL, TWO, QUICK), 3)
    assert (round(price, 9), sorted(kind.name for kind in kinds)) == (0.17, ["small", "two"])


@given(elastic_problems())
def test_cores_that_are_not_there_are_refused(case: tuple[AdaptationProblem, dict[str, float]]) -> None:
    problem, rates = case
    draft = PlacementDraft(
        problem.dataflow, deploy_sharded(problem, rates, rng=generator()), problem.conditions(rates))
    task, vm = next(iter(draft.active)), draft.rent(SMALL)
    with pytest.raises(ValueError, match="has not -1 cores"):
        draft.give(task, vm, -1)
    with pytest.raises(ValueError, match="has not 2 cores"):
        draft.give(task, vm, 2)
    draft.give(task, vm)
    with pytest.raises(ValueError, match="has cores of"):
        draft.release(vm)
