"""The estate's rows against the scheduler's value: whatever is approved, in whatever order, they are the same."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from dashboard import jobs
from dashboard.approvals.models import Proposal
from dashboard.approvals.services import carry_over_waiting, prepare_proposal, remove_dataflow, submit_dataflow
from dashboard.audit.models import AuditEntry
from dashboard.audit.trail import audited
from dashboard.operations.estate_store.estate_loader import current_estate, load_estate, stored_estate
from dashboard.operations.estate_store.estate_writer import NodeInUse, store_plan
from dashboard.operations.selectors import slots_around
from dashboard.operations.services import register_node
from dashboard.plans.computing import compute
from dashboard.plans.selectors import plan_of
from dashboard.tasks.execution import touched_nodes
from scheduler.applying import apply_plan
from scheduler.model.errors import StalePlan
from scheduler.model.fragment import Slot
from tests.dashboard.building import (
    World,
    approved,
    document,
    enacted,
    make_world,
    planned,
    removal_planned,
    running,
)
from tests.dashboard.checks import check_rows
from tests.dashboard.node_parts import load_part_of
from workers.engine.desired_publishing import desired_of


class RowsAgree(TestCase):
    """Hypothesis with Django: every example in a transaction of its own."""

    @settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(st.tuples(st.integers(2, 5), st.booleans()), min_size=1, max_size=7))
    def test_rows_equal_the_value_after_any_plans(self, moves: list[tuple[int, bool]]) -> None:
        world = make_world()
        expected, rows = load_estate(), {}
        for window, private in moves:
            key = (window, private)
            if key in rows:
                proposal = removal_planned(world.carla, rows.pop(key))
            else:
                visibility = "private" if private else "shared"
                text = document(f"d{window}-{int(private)}", window=window, visibility=visibility)
                proposal = planned(world.carla, world.city, text)
                rows[key] = proposal.dataflow
            assert proposal.plan.digest == compute(proposal.plan, expected).digest, "the part differs from the whole"
            expected = apply_plan(expected, plan_of(proposal.plan))
            enacted(approved(proposal, world.ana))
            assert load_estate() == expected
            assert current_estate() == expected
            check_rows()


def test_a_nodes_desired_state_needs_its_own_part_alone(world: World):
    register_node(name="n2", slots=1)
    register_node(name="n3", slots=2)
    for window in range(2, 9):
        running(world.carla, world.city, document(f"d{window}", window=window), world.ana)
    whole, types = load_estate(), jobs.task_types()
    for node in ("n1", "n2", "n3"):
        part = load_part_of(node)
        assert len(part.tasks) < len(whole.tasks) and any(fragment.slot[:2] == node
            for fragment in part.fragments.values())
        expected, from_part = (desired_of(estate, node, types) for estate in (whole, part))
        assert from_part == expected
    plan = plan_of(Proposal.objects.latest("created").plan)
    assert touched_nodes(plan) == {
        fragment.slot[:2] for fragment in whole.fragments.values()
        if fragment.id in plan.fragments_after}
    for fragment in whole.fragments.values():
        read = {whole.places[parent][0] for parent in whole.tasks[fragment.tasks[0]].parents}
        read_by = {reader for readers in fragment.outlets.values() for reader in readers}
        assert slots_around([fragment]) == {whole.fragments[fragment_id].slot for fragment_id in read | read_by}
    assert slots_around([]) == set()


def test_a_plan_takes_few_statements_however_much_runs(world: World):
    statements = {}
    for window in range(2, 12):
        text = document(f"d{window}", window=window)
        proposal = submit_dataflow(actor=world.carla, team=world.city, text=text)
        with CaptureQueriesContext(connection) as submission:
            compute(proposal.plan, stored_estate())
        record = enacted(approved(prepare_proposal(proposal_id=proposal.pk), world.ana)).dataflow
        removal = remove_dataflow(actor=world.carla, dataflow_id=record.pk)
        with CaptureQueriesContext(connection) as leaving:
            compute(removal.plan, stored_estate())
        statements[window] = len(submission), len(leaving)
    assert len({statements[window] for window in range(3, 12)}) == 1, statements
    assert max(statements[11]) <= 15, statements


def test_storing_a_plan_takes_as_many_statements_in_a_large_estate(world: World):
    statements = []
    for window in range(2, 12):
        proposal = planned(world.carla, world.city, document(f"d{window}", window=window))
        with CaptureQueriesContext(connection) as approval:
            approved(proposal, world.ana)
        statements.append(len(approval))
        enacted(Proposal.objects.get(pk=proposal.pk))
    assert len(set(statements[1:])) == 1, statements


def test_rows_that_moved_on_are_not_overwritten(world: World):
    late = plan_of(planned(world.carla, world.city, document("late")).plan)
    running(world.carla, world.city, document("traffic"), world.ana)
    before = load_estate()
    with pytest.raises(RuntimeError):
        store_plan(late)  # outside an audited command
    with pytest.raises(StalePlan), audited(actor=None, verb="test", subject=world.city):
        store_plan(late)
    assert load_estate() == before


def test_a_smaller_node_moves_its_fragments_and_brings_plans_that_change_those_up_to_date(world: World):
    records = [
        running(world.carla, world.city, document(f"d{window}", window=window), world.ana) for window in range(2, 6)]
    waiting = planned(world.carla, world.city, document("late", window=9))
    removals = [removal_planned(world.carla, record) for record in records]
    before = load_estate()
    assert {fragment.slot for fragment in before.fragments.values()} == {"n1/0", "n1/1"}
    register_node(name="n1", slots=1)
    after = load_estate()
    assert after.slots == (Slot(node="n1", index=0),)
    assert {fragment.slot for fragment in after.fragments.values()} == {"n1/0"}
    assert (set(after.fragments), after.generation) == (set(before.fragments), before.generation + 1)
    digests = {removal.pk: removal.plan.digest for removal in removals}
    renewed = set()
    carry_over_waiting()
    for removal in Proposal.objects.filter(pk__in=digests).select_related("plan"):
        plan = plan_of(removal.plan)
        assert (removal.status, removal.plan.generation) == ("pending", after.generation)
        assert all(after.fragments[name] == fragment for name, fragment in plan.fragments_before.items())
        moved = any(before.fragments[name].slot == "n1/1" for name in plan.fragments_before)
        assert (plan.digest != digests[removal.pk]) is moved
        renewed.add(moved)
    assert renewed == {True, False}
    waiting = Proposal.objects.get(pk=waiting.pk)  # what it reads from has stayed, and it is placed on what is there
    plan = plan_of(waiting.plan)
    assert (waiting.status, waiting.plan.generation) == ("pending", after.generation)
    assert {fragment.slot for fragment in plan.fragments_after.values()} == {"n1/0"}


def test_registering_the_same_again_changes_nothing(world: World):
    entries, generation = AuditEntry.objects.count(), load_estate().generation
    register_node(name="n1", slots=2)
    assert (AuditEntry.objects.count(), load_estate().generation) == (entries, generation)


def test_a_node_that_runs_something_cannot_lose_all_its_slots(world: World):
    running(world.carla, world.city, document("traffic"), world.ana)
    with pytest.raises(NodeInUse):
        register_node(name="n1", slots=0)
    assert len(load_estate().slots) == 2
