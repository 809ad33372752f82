"""State machines: every move of every table, and nothing but them."""

from __future__ import annotations

import itertools

import pytest

from dashboard.approvals import lifecycle as proposals
from dashboard.audit.trail import audited
from dashboard.catalog import lifecycle as dataflows
from dashboard.catalog.dataflow_states import move_dataflow
from dashboard.core.state_words import words
from dashboard.core.transitions import Transitions
from dashboard.plans import lifecycle as plans
from scheduler.model.errors import InvalidTransition
from tests.dashboard.building import World, document, planned

MACHINES = {
    "dataflow": (dataflows.LIFECYCLE, dataflows.SUBMITTED), "plan": (plans.LIFECYCLE, plans.COMPUTING),
    "proposal": (proposals.LIFECYCLE, proposals.COMPUTING),
}


def reachable(machine: Transitions, start: str) -> set[str]:
    seen, ahead = {start}, [start]
    while ahead:
        for state in machine.table[ahead.pop()] - seen:
            seen.add(state)
            ahead.append(state)
    return seen


@pytest.mark.parametrize("name", MACHINES)
def test_every_move_is_allowed_or_named_as_invalid(name: str):
    machine, _ = MACHINES[name]
    for before, after in itertools.product(machine.states, repeat=2):
        if after in machine.table[before]:
            machine.check(before, after)
        else:
            with pytest.raises(InvalidTransition) as caught:
                machine.check(before, after)
            assert caught.value.message == f"This {name} is {words(before)}: it cannot change to {words(after)}."
            assert caught.value.facts == {"subject": name, "before": before, "after": after}


@pytest.mark.parametrize("name", MACHINES)
def test_every_state_is_reached_and_none_stays_as_it_is(name: str):
    machine, start = MACHINES[name]
    assert reachable(machine, start) == set(machine.states)
    assert not any(machine.allows(state, state) for state in machine.states)


def test_whatever_is_open_or_under_way_can_end():
    final = {state for state in proposals.LIFECYCLE.states if reachable(proposals.LIFECYCLE, state) <= {
        state, proposals.ROLLING_BACK, proposals.ROLLED_BACK} and state != proposals.ROLLING_BACK}
    assert final == {"done", "rejected", "cancelled", "rolled_back"}, "what is done may be taken back, and no more"
    for state in proposals.LIFECYCLE.states:
        assert reachable(proposals.LIFECYCLE, state) & final
    assert proposals.OPEN | proposals.UNDER_WAY | final == set(proposals.LIFECYCLE.states)
    for state in dataflows.LIFECYCLE.states:
        assert reachable(dataflows.LIFECYCLE, state) & dataflows.AT_REST


def test_a_table_with_an_unknown_state_is_refused():
    with pytest.raises(ValueError, match="nowhere"):
        Transitions("thing", {"here": {"nowhere"}})


@pytest.mark.parametrize("after", [dataflows.REMOVING, dataflows.REMOVED])
def test_a_move_that_the_table_lacks_changes_nothing(world: World, after: str):
    record = planned(world.carla, world.city, document("traffic")).dataflow
    dataflow_before = record.status
    with pytest.raises(InvalidTransition), audited(actor=None, verb="test", subject=record):
        move_dataflow(record, after)
    record.refresh_from_db()
    assert record.status == dataflow_before
