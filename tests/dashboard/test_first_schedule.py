"""The first schedule of a dataflow that runs without one, on the site: asked for, reviewed, stored, taken back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dashboard.approvals.difference import difference
from dashboard.approvals.models import Proposal
from dashboard.approvals.services import pause_dataflow, prepare_proposal, roll_back_proposal
from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.plans.models import PlanRecord
from dashboard.plans.scheduling_problem import problem_of
from dashboard.plans.selectors import plan_of
from dashboard.teams.permissions import viewer_of
from scheduler.model.encoding import freeze_plan, plan_to_json
from scheduler.model.errors import InvalidTransition
from tests.dashboard.building import World, approved, enacted, running
from tests.dashboard.checks import check_rows
from tests.pages.scheduling import linear

from .schedules import SAM, proposed, rescheduled, scheduled


def test_what_runs_fused_is_cut_and_divided_by_its_first_schedule(profiled: World):
    record = running(profiled.carla, profiled.city, linear(), profiled.ana)
    problem = problem_of(record)
    assert not problem.blocked and problem.compare(50).schedules
    [fused] = load_estate().fragments.values()
    proposal = rescheduled(profiled, record, SAM)
    plan = plan_of(proposal.plan)
    rows = {(row["id"], row["change"]) for row in difference(viewer_of(profiled.ana), proposal)["bundles"]}
    assert (fused.id, "stops") in rows and len(rows) == len(plan.promise.bundles) + 1
    assert "ends" in plan.notes[0]
    enacted(approved(proposal, profiled.ana))
    check_rows()
    estate = load_estate()
    assert fused.id not in estate.fragments and all(len(fragment.tasks) == 1 for fragment in estate.fragments.values())
    assert rescheduled(profiled, record, SAM).plan.error["code"] == "nothing_to_change"


def test_what_is_being_cut_is_not_paused_meanwhile(profiled: World):
    record = running(profiled.carla, profiled.city, linear(), profiled.ana)
    under_way = approved(rescheduled(profiled, record, SAM), profiled.ana)
    other = running(profiled.carla, profiled.city, linear("other", rate=49), profiled.ana)
    pause = prepare_proposal(proposal_id=pause_dataflow(actor=profiled.carla, dataflow_id=other.pk).pk)
    with pytest.raises(InvalidTransition, match="being cut or fused"):
        approved(pause, profiled.ana)
    enacted(under_way)
    approved(pause, profiled.ana)


def test_a_cut_that_is_taken_back_leaves_each_task_where_it_was(profiled: World):
    record = running(profiled.carla, profiled.city, linear(), profiled.ana)
    [fused] = load_estate().fragments.values()
    proposal = approved(rescheduled(profiled, record, SAM), profiled.ana)
    roll_back_proposal(actor=profiled.ana, proposal_id=proposal.pk)
    check_rows()
    for fragment in load_estate().fragments.values():
        [bundle] = [query for query in fragment.queries if not query.leaving]
        assert (bundle.slot, bundle.threads, bundle.weight) == (fused.slot, 1, 1.0)


def of_before(proposal: Proposal) -> Proposal:
    """The same proposal as if its plan had been frozen before it was kept with a dataflow that it has a schedule."""
    plan = plan_of(proposal.plan)
    plan = freeze_plan(replace(plan, dataflow=replace(plan.dataflow, scheduled=False)))
    PlanRecord.objects.filter(pk=proposal.plan_id).update(document=plan_to_json(plan), digest=plan.digest)
    proposal.refresh_from_db()
    return proposal


@pytest.mark.parametrize("kind", ["submit", "schedule", "pause"])
def test_plans_that_waited_while_it_came_to_be_kept_leave_a_schedule_known(profiled: World, kind: str):
    if kind == "submit":
        waiting = of_before(proposed(profiled, SAM))
    elif kind == "schedule":
        waiting = of_before(rescheduled(profiled, running(profiled.carla, profiled.city, linear(), profiled.ana), SAM))
    else:
        pause = pause_dataflow(actor=profiled.carla, dataflow_id=scheduled(profiled).pk)
        waiting = of_before(prepare_proposal(proposal_id=pause.pk))
    done = enacted(approved(waiting, profiled.ana))
    entry = load_estate().submitted[str(done.dataflow_id)]
    assert entry.scheduled and entry.paused == (kind == "pause")
