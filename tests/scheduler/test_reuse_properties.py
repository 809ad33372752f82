"""Merging and unmerging over random histories, against equivalence by its definition."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.applying import apply_plan
from scheduler.model.estate import Estate
from scheduler.model.plan import Plan
from scheduler.planning import plan_removal, plan_submission
from scheduler.reuse.fragments import LONGEST_CHAIN

from .catalogue import EMPTY, PRICES, TYPES, remove, submit
from .invariants import check_chains, check_estate, check_plan
from .reference import Reference
from .stored import check_stored
from .strategies import dataflows, histories

SHORT = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
LONG = settings(SHORT, max_examples=10_000)


def planned(estate: Estate, dataflow_id: str, dataflow, team: str, longest_chain: int) -> Plan:
    if dataflow is None:
        return plan_removal(estate, dataflow_id, task_types=TYPES, prices=PRICES)
    return plan_submission(
        estate, dataflow, dataflow_id=dataflow_id, team=team, task_types=TYPES, prices=PRICES,
        longest_chain=longest_chain,
    )


def live(history, longest_chain: int = LONGEST_CHAIN) -> tuple[Estate, Reference]:
    """Go through a history, checking every plan and every estate on the way."""
    estate, reference = EMPTY, Reference(TYPES)
    check_estate(estate, reference)
    for dataflow_id, dataflow, team in history:
        plan = planned(estate, dataflow_id, dataflow, team, longest_chain)
        check_stored(plan)
        check_plan(estate, plan)
        if dataflow is None:
            reference.remove(dataflow_id)
        else:
            reference.add(dataflow_id, dataflow, team)
        estate = apply_plan(estate, plan)
        check_chains(estate, plan, TYPES, longest_chain)
        check_estate(estate, reference)
    return estate, reference


def drained_in_any_order(history, data: st.DataObject) -> None:
    estate, _ = live(history)
    for dataflow_id in data.draw(st.permutations(sorted(estate.submitted))):
        estate = remove(estate, dataflow_id)
    assert (estate.tasks, estate.submitted, estate.fragments) == ({}, {}, {})


@SHORT
@given(histories(), st.sampled_from([LONGEST_CHAIN, LONGEST_CHAIN, 1, 2]))
def test_every_estate_on_the_way_keeps_the_invariants(history, longest_chain):
    live(history, longest_chain)


@settings(SHORT, max_examples=60)
@given(histories(), st.data())
def test_removal_in_any_order_drains_the_estate(history, data):
    drained_in_any_order(history, data)


@settings(SHORT, max_examples=60)
@given(st.lists(dataflows(), min_size=2, max_size=4), st.data())
def test_the_order_of_submission_does_not_change_what_runs(submissions, data):
    named = [(f"d{number}", dataflow) for number, dataflow in enumerate(submissions)]
    one = other = EMPTY
    for dataflow_id, dataflow in named:
        one = submit(one, dataflow, dataflow_id)
    for dataflow_id, dataflow in data.draw(st.permutations(named)):
        other = submit(other, dataflow, dataflow_id)
    assert one.tasks == other.tasks
    assert one.submitted == other.submitted


@settings(SHORT, max_examples=60)
@given(histories(longest=4), dataflows())
def test_removing_what_was_just_submitted_leaves_what_was_there(history, dataflow):
    before, _ = live(history)
    after = remove(submit(before, dataflow, "passing"), "passing")
    assert (after.tasks, after.submitted, after.fragments) == (before.tasks, before.submitted, before.fragments)


@pytest.mark.long
@pytest.mark.timeout(3600)
@LONG
@given(histories(longest=12), st.sampled_from([LONGEST_CHAIN, LONGEST_CHAIN, 1, 2]))
def test_ten_thousand_histories_keep_the_invariants(history, longest_chain):
    live(history, longest_chain)


@pytest.mark.long
@pytest.mark.timeout(3600)
@settings(LONG, max_examples=2_000)  # each lives through a history, checked, before it drains
@given(histories(), st.data())
def test_two_thousand_estates_drain(history, data):
    drained_in_any_order(history, data)
