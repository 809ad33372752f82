"""Enacting: what the nodes report moves a proposal on; an operator takes it back."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dashboard.approvals.lifecycle import DONE, EXECUTING, FAILED, ROLLED_BACK, ROLLING_BACK
from dashboard.approvals.models import Proposal
from dashboard.approvals.services import record_progress, remove_dataflow, roll_back_proposal
from dashboard.approvals.services.enacting import PATIENCE_S, require_calm
from dashboard.audit.models import AuditEntry
from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.plans.selectors import plan_of
from scheduler.model.errors import InvalidTransition, PermissionDenied
from scheduler.plan_progress import PlanProgress
from tests.dashboard.building import World, approved, document, enacted, planned, removal_planned, running

START = datetime(2030, 1, 1, tzinfo=UTC)


def after(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def seen(proposal: Proposal, done: Collection[str] = (), failing: Mapping[str, str] | None = None) -> dict[str, Any]:
    """What nodes report of a proposal's plan."""
    return {"plan_id": proposal.plan_id, "progress": PlanProgress(done, failing or {})}


@pytest.fixture
def executing(world: World):
    return approved(planned(world.carla, world.city, document("traffic")), world.ana)


def test_progress_is_kept_in_the_plans_order_and_done_when_complete(world: World):
    running(world.carla, world.city, document("traffic"), world.ana)
    proposal = approved(planned(world.mo, world.mobility, document("jams", window=20)), world.ben, world.ana)
    keys = [step.key for step in plan_of(proposal.plan).steps]
    assert len(keys) >= 2
    half = record_progress(proposal_id=proposal.pk, **seen(proposal, {keys[-1], "other:step"}), at=START)
    assert (half.status, half.progress["done"]) == (EXECUTING, [keys[-1]])
    done = record_progress(proposal_id=proposal.pk, **seen(proposal, keys), at=after(3))
    assert (done.status, done.progress["done"], done.finished_at) == (DONE, keys, after(3))


def test_progress_without_a_change_of_state_leaves_no_audit_row(executing):
    entries = AuditEntry.objects.count()
    record_progress(proposal_id=executing.pk, **seen(executing), at=START)
    assert AuditEntry.objects.count() == entries


def test_a_query_that_fails_for_long_fails_the_proposal_until_it_recovers(executing):
    plan = plan_of(executing.plan)
    fragment = next(iter(plan.fragments_after))
    failing = seen(executing, failing={fragment: "java.lang.OutOfMemoryError", "foreign": "not of this plan"})

    def progress(observed: dict[str, Any], seconds: float):
        return record_progress(proposal_id=executing.pk, **observed, at=after(seconds))

    assert progress(failing, 0).status == EXECUTING
    # Between two attempts it is starting, which is not failing; the patience goes on from the first failure.
    assert progress(seen(executing), 10).progress["failing"][fragment]["since"] == START.isoformat()
    assert progress(failing, PATIENCE_S).status == EXECUTING
    failed = progress(failing, PATIENCE_S + 1)
    assert failed.status == FAILED
    assert failed.progress["failing"] == {
        fragment: {"cause": "java.lang.OutOfMemoryError", "since": START.isoformat()}}
    assert progress(seen(executing, [step.key for step in plan.steps]), PATIENCE_S + 5).status == DONE


def test_a_failed_proposal_executes_again_once_its_query_runs(world: World):
    running(world.carla, world.city, document("traffic"), world.ana)
    proposal = approved(planned(world.mo, world.mobility, document("jams", window=20)), world.ben, world.ana)
    plan = plan_of(proposal.plan)
    fragment = next(name for name in plan.fragments_after if name not in plan.fragments_before)
    failing = seen(proposal, failing={fragment: "boom"})
    record_progress(proposal_id=proposal.pk, **failing, at=START)
    assert record_progress(proposal_id=proposal.pk, **failing, at=after(PATIENCE_S * 2)).status == FAILED
    started = seen(proposal, {f"start_fragment:{fragment}"})
    again = record_progress(proposal_id=proposal.pk, **started, at=after(PATIENCE_S * 2 + 1))
    assert (again.status, again.progress["failing"]) == (EXECUTING, {})


def test_what_failed_at_its_start_can_be_removed_by_whoever_may_remove_a_dataflow(world: World, executing):
    fragment = next(iter(plan_of(executing.plan).fragments_after))
    for seconds in (0, PATIENCE_S + 1):
        with pytest.raises(InvalidTransition, match="nothing to remove yet"):
            remove_dataflow(actor=world.carla, dataflow_id=executing.dataflow_id)
        record_progress(
            proposal_id=executing.pk, **seen(executing, failing={fragment: "ambiguous reference"}), at=after(seconds))
    removal = approved(removal_planned(world.carla, executing.dataflow), world.ana)
    executing.refresh_from_db()
    assert executing.status == ROLLED_BACK and executing.finished_at is not None
    assert load_estate().submitted == {}
    done = enacted(removal)
    assert (done.status, done.dataflow.status) == (DONE, "removed")
    require_calm(world.carla)


def test_reports_about_a_proposal_at_rest_change_nothing(executing):
    done = enacted(executing)
    again = record_progress(proposal_id=done.pk, **seen(done), at=START)
    assert (again.status, again.finished_at) == (DONE, done.finished_at)


def test_what_was_seen_of_a_plan_is_not_held_for_its_reverse(world: World, executing):
    """Some steps of both have the same keys, and a look at the nodes takes a moment."""
    rolling = roll_back_proposal(actor=world.ana, proposal_id=executing.pk)
    every = [step.key for record in (rolling.plan, rolling.rollback_plan) for step in plan_of(record).steps]
    late = record_progress(proposal_id=executing.pk, **seen(executing, every), at=START)
    assert (late.status, late.progress["done"]) == (ROLLING_BACK, [])
    assert enacted(rolling).status == ROLLED_BACK


def test_what_keeps_a_change_waiting_is_named_to_who_may_know_of_it(world: World):
    require_calm(world.carla)
    hidden = approved(planned(world.carla, world.city, document("hidden", visibility="private")), world.ana)
    for actor, reason in ((world.carla, "the one to submit hidden"), (world.mo, "that you may not see")):
        with pytest.raises(InvalidTransition, match=reason):
            require_calm(actor)
    at_last = PATIENCE_S + 1
    for seconds in (0, at_last):
        fragment = next(iter(plan_of(hidden.plan).fragments_after))
        record_progress(proposal_id=hidden.pk, **seen(hidden, failing={fragment: "boom"}), at=after(seconds))
    with pytest.raises(InvalidTransition, match="cannot finish") as raised:
        require_calm(world.carla)
    assert "roll it back" in raised.value.remedy
    with pytest.raises(InvalidTransition, match="that you may not see"):
        require_calm(None)


def test_rolling_back_a_submission_takes_it_out_of_the_estate(world: World, executing):
    rolling = roll_back_proposal(actor=world.ana, proposal_id=executing.pk)
    assert (rolling.status, rolling.dataflow.status) == (ROLLING_BACK, "removing")
    assert load_estate().submitted == {}
    back = enacted(rolling)
    assert (back.status, back.dataflow.status) == (ROLLED_BACK, "removed")


def test_rolling_back_leaves_what_others_have_built_on_it(world: World):
    first = approved(planned(world.carla, world.city, document("traffic")), world.ana)
    second = running(world.mo, world.mobility, document("jams", window=20), world.ben, world.ana)
    roll_back_proposal(actor=world.ana, proposal_id=first.pk)
    estate = load_estate()
    assert list(estate.submitted) == [str(second.pk)]
    assert set(estate.submitted[str(second.pk)].running.values()) == set(estate.tasks)


def test_rolling_back_a_removal_puts_the_dataflow_back(world: World):
    record = running(world.carla, world.city, document("traffic"), world.ana)
    removal = approved(removal_planned(world.carla, record), world.ana)
    rolling = roll_back_proposal(actor=world.ana, proposal_id=removal.pk)
    assert list(load_estate().submitted) == [str(record.pk)]
    assert (enacted(rolling).status, enacted(rolling).dataflow.status) == (ROLLED_BACK, "running")


@pytest.mark.parametrize("who", ["carla", "vera", "ben", "outsider"])
def test_who_may_not_roll_back(world: World, executing, who: str):
    with pytest.raises(PermissionDenied):
        roll_back_proposal(actor=world.users[who], proposal_id=executing.pk)
    assert len(load_estate().submitted) == 1


def test_what_is_done_is_not_rolled_back(world: World, executing):
    with pytest.raises(InvalidTransition):
        roll_back_proposal(actor=world.ana, proposal_id=enacted(executing).pk)
    assert len(load_estate().submitted) == 1
