"""A node that comes back with fewer slots while a plan is under way, and slots of what rests meanwhile."""

from __future__ import annotations

from dashboard.approvals.services import (
    following,
    prepare_proposal,
    resume_dataflow,
    roll_back_proposal,
    submit_dataflow,
)
from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.operations.services import register_node
from dashboard.plans.scheduling_problem import problem_of
from dashboard.plans.selectors import plan_of
from scheduler.contracts.reports import Reports
from scheduler.plan_progress import plan_progress
from scheduler.step_kinds import EnactmentEvidence
from tests.dashboard.building import World, approved, enacted, planned
from tests.dashboard.checks import check_rows
from tests.dashboard.node_parts import load_part_of
from tests.dashboard.rearranging import paused, used
from tests.dashboard.schedules import at, rescheduled, scheduled
from tests.pages.scheduling import linear


def resting() -> set[str]:
    """The slots of what rests."""
    return {
        bundle.slot for fragment in load_estate().fragments.values() if fragment.paused for bundle in fragment.queries}


def test_what_is_taken_back_comes_to_slots_that_are_there(profiled: World):
    record = scheduled(profiled, at(50))
    assert len(used()) > 2
    proposal = approved(rescheduled(profiled, record, at(18)), profiled.ana)
    register_node(name="n1", slots=2)
    rolled = roll_back_proposal(actor=profiled.ana, proposal_id=proposal.pk)
    assert used() <= {"n1/0", "n1/1"} and load_part_of("n1").fragments == load_estate().fragments
    check_rows()
    assert enacted(rolled).status == "rolled_back"


def test_a_plan_goes_on_where_the_estate_has_moved_its_bundles(profiled: World):
    record = scheduled(profiled, at(18))
    plan = plan_of(approved(rescheduled(profiled, record, at(50)), profiled.ana).plan)
    planned_on = {bundle.slot for fragment in plan.fragments_after.values() for bundle in fragment.queries}
    assert following.where_it_runs(plan) == plan and len(planned_on) > 2
    register_node(name="n1", slots=2)
    now = following.where_it_runs(plan)
    assert {bundle.slot for fragment in now.fragments_after.values() for bundle in fragment.queries} == {"n1/0", "n1/1"}
    assert [
        (bundle.id, bundle.threads, bundle.weight)
        for fragment in now.fragments_after.values() for bundle in fragment.queries
    ] == [
        (bundle.id, bundle.threads, bundle.weight)
        for fragment in plan.fragments_after.values() for bundle in fragment.queries]


def test_what_routes_by_a_silent_node_waits_for_it_and_says_so(profiled: World):
    plan = plan_of(rescheduled(profiled, scheduled(profiled, at(18)), at(50)).plan)
    routed = {step.fragment for step in plan.steps if step.kind == "route"}
    reports = Reports.of({"n1": {"node": "n1", "slots": {}}})
    progress = plan_progress(plan, EnactmentEvidence(reports, awaited={"n1", "n2"}))
    assert routed and progress.failing.keys() == routed
    assert all("n2" in cause for cause in progress.failing.values())
    assert plan_progress(plan, EnactmentEvidence(reports, awaited={"n1"})).failing == {}


def test_what_a_submission_wakes_is_not_room_for_its_schedule(profiled: World):
    """The same tasks with another output: only that is new, and all of the others work again."""
    paused(profiled, scheduled(profiled, at(50)))
    estate, problem = load_estate(), problem_of(planned(profiled.carla, profiled.city, linear("other")).dataflow)
    offered = {slot.name for node in problem.supply.free for slot in node.slots}
    woken = {
        bundle.slot for fragment in estate.fragments.values() for bundle in fragment.queries
        if estate.tasks[fragment.tasks[0]].type == "pi_viete"}
    assert woken and woken <= resting() and offered and offered.isdisjoint(woken)


def test_what_goes_on_beside_anothers_schedule_says_so(profiled: World):
    record = scheduled(profiled, at(50))
    paused(profiled, record)
    rest, text = resting(), linear("other").replace("900", "901")
    proposal = submit_dataflow(actor=profiled.carla, team=profiled.city, text=text, schedule=at(50, ("LSA", "DSM")))
    enacted(approved(prepare_proposal(proposal_id=proposal.pk), profiled.ana))
    working = {bundle.slot for fragment in load_estate().fragments.values() if not fragment.paused
        for bundle in fragment.queries}
    resumption = prepare_proposal(proposal_id=resume_dataflow(actor=profiled.carla, dataflow_id=record.pk).pk)
    notes = plan_of(resumption.plan).notes
    assert working & rest and any("bundles of another schedule by now" in note for note in notes)


def test_what_goes_on_where_nobody_came_has_no_note(profiled: World):
    record = scheduled(profiled, at(50))
    paused(profiled, record)
    resumption = prepare_proposal(proposal_id=resume_dataflow(actor=profiled.carla, dataflow_id=record.pk).pk)
    assert plan_of(resumption.plan).notes == ()
