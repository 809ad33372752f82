"""Plans that wait for approval while others are approved: they stand, approvals and all, unless those touch them."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from dashboard.approvals.lifecycle import EXECUTING, PENDING, STALE
from dashboard.approvals.models import Proposal, Review
from dashboard.approvals.selectors import live_proposal, review_of
from dashboard.approvals.services import (
    approve_proposal,
    carry_over_waiting,
    enact_held,
    pause_dataflow,
    prepare_proposal,
    propose_schedule,
)
from dashboard.approvals.services.reviewing import DigestMismatch
from dashboard.audit.models import AuditEntry
from dashboard.audit.trail import audited
from dashboard.operations.estate_store.estate_loader import load_estate, stored_estate
from dashboard.operations.estate_store.reservations import reserve
from dashboard.operations.models import EstateState, SlotRow
from dashboard.operations.services import register_node
from dashboard.plans.carrying_over import PlanCarrier
from dashboard.plans.choices import ScheduleChoice
from dashboard.plans.computing import compute
from dashboard.plans.models import PlanRecord
from dashboard.plans.selectors import plan_of
from dashboard.plans.services import carry_over
from dashboard.teams.models import Team, User
from dashboard.teams.permissions import viewer_of
from scheduler.model.errors import AlteredPlan, PermissionDenied, StalePlan, WeirError
from tests.dashboard.building import (
    World,
    approved,
    document,
    enacted,
    held_to_estate,
    planned,
    removal_planned,
    running,
)
from tests.dashboard.checks import check_rows
from tests.pages.scheduling import linear, measured


def apart(name: str, *, window: int = 10) -> str:
    """A dataflow that shares no task with one of another name."""
    text = json.loads(document(name, window=window))
    text["tasks"][0]["config"] = {"seed": sum(256**place * ord(letter) for place, letter in enumerate(name[:3]))}
    return json.dumps(text)


def proposed_for_both(world: World) -> tuple[Proposal, Proposal]:
    """A removal of what two teams use, approved by one of them, and a submission that has no part in it."""
    record = running(world.carla, world.city, document("traffic"), world.ana)
    running(world.mo, world.mobility, document("jams", window=20), world.ben, world.ana)
    shared = planned(world.carla, world.city, document("third", window=30))
    assert record.team == world.city
    return approved(shared, world.ana), planned(world.mo, world.mobility, apart("busan"))


def test_an_approval_that_touches_nothing_of_it_leaves_a_plan_standing_with_its_approvals(world: World):
    waiting, other = proposed_for_both(world)
    digest, generation = waiting.plan.digest, waiting.plan.generation
    approved(other, world.ben)
    assert live_proposal(viewer_of(world.mo), waiting.pk)["generation"] == generation
    waiting = held_to_estate(waiting)
    assert (waiting.status, waiting.plan.status, waiting.plan.digest) == (PENDING, "ready", digest)
    assert (waiting.plan.generation, plan_of(waiting.plan).generation) == (generation + 1, generation), "left as it is"
    assert not AuditEntry.objects.filter(verb="plan.carry_over").exists()
    assert Review.objects.filter(plan=waiting.plan).count() == 1
    review = review_of(viewer_of(world.ben), waiting)
    assert [team["verdict"] for team in review["teams"]] == ["approve", None] and review["may_approve"]
    assert approved(waiting, world.ben).status == EXECUTING
    entry = AuditEntry.objects.get(verb="plan.carry_over", subject_id=str(waiting.plan_id))
    assert entry.details["generation"] == generation + 1 and entry.actor is None
    assert plan_of(held_to_estate(waiting).plan).generation == generation + 1, "numbered for what it was taken into"
    estate = check_rows()
    assert len(estate.submitted) == 4 and estate.generation == generation + 2


def test_the_plan_that_is_taken_in_later_is_the_one_that_would_be_planned_then(world: World):
    register_node(name="n2", slots=3)
    waiting = planned(world.carla, world.city, apart("turin"))
    for name in ("busan", "quito", "dakar"):
        enacted(approved(planned(world.mo, world.mobility, apart(name)), world.ben))
    expected = compute(held_to_estate(waiting).plan, stored_estate())
    waiting = enacted(approved(waiting, world.ana))
    assert plan_of(waiting.plan) == expected, "slots with least to do now among it"
    assert len({fragment.slot for fragment in check_rows().fragments.values()}) == 4


@pytest.mark.long  # tests/scheduler/test_rebasing.py has it
def test_plans_that_share_one_running_source_do_not_cost_each_other_their_approvals(world: World):
    running(world.carla, world.city, document("traffic"), world.ana)
    waiting = approved(planned(world.mo, world.mobility, document("jams", window=20)), world.ana)
    other = planned(world.carla, world.city, document("third", window=30))
    before, reviews = plan_of(waiting.plan), Review.objects.filter(plan=waiting.plan)
    approved(other, world.ana)
    waiting = held_to_estate(waiting)
    now = plan_of(waiting.plan)
    assert (waiting.status, reviews.count()) == (PENDING, 1) and now.digest != before.digest
    assert now.price == before.price and {task.id for task in now.started} == {task.id for task in before.started}
    assert now == compute(waiting.plan, stored_estate()), "made from the estate as it is"
    entry = AuditEntry.objects.get(verb="proposal.renew", subject_id=str(waiting.pk))
    assert (entry.details["digest_before"], entry.details["digest"]) == (before.digest, now.digest)
    with pytest.raises(DigestMismatch):
        approve_proposal(actor=world.ben, proposal_id=waiting.pk, digest=before.digest)
    assert enacted(approved(waiting, world.ben)).status == "done"
    assert len(check_rows().submitted) == 3


def test_a_team_that_comes_to_share_its_tasks_is_asked_beside_those_that_have_approved(world: World):
    running(world.carla, world.city, document("traffic"), world.ana)
    waiting = planned(world.carla, world.city, document("third", window=30))
    assert [team.slug for team in waiting.teams.all()] == ["city"]
    theirs = approved(planned(world.mo, world.mobility, document("jams", window=20)), world.ana)
    approved(theirs, world.ben)
    assert held_to_estate(waiting).status == PENDING
    assert sorted(team.slug for team in held_to_estate(waiting).teams.all()) == ["city", "mobility"]
    assert approved(held_to_estate(waiting), world.ana).status == PENDING, "the other team is asked"
    assert approved(held_to_estate(waiting), world.ben).status == EXECUTING


def test_what_changes_what_it_does_makes_it_stale_and_the_page_says_what(world: World, client):
    running(world.carla, world.city, document("traffic"), world.ana)
    other = running(world.carla, world.city, document("third", window=30), world.ana)
    waiting = planned(world.mo, world.mobility, document("jams", window=20))
    enacted(approved(removal_planned(world.carla, other), world.ana))  # fewer are left to share what it costs
    waiting = held_to_estate(waiting)
    assert (waiting.status, waiting.plan.status) == (STALE, "stale")
    error = live_proposal(viewer_of(world.mo), waiting.pk)["error"]
    assert error["code"] == "stale_plan" and "a query that it reads or changes has changed" in error["message"]
    client.force_login(world.mo)
    page = client.get(reverse("proposal", args=[waiting.pk])).content.decode()
    assert 'data-note="stale-estate"' in page and error["message"].rstrip(".") in page
    assert AuditEntry.objects.get(verb="proposal.overtaken", subject_id=str(waiting.pk)).details["why"]


@pytest.mark.long  # tests/scheduler/test_rebasing.py has it
def test_a_removal_and_a_pause_of_others_leave_it_standing_and_of_its_own_do_not(world: World):
    mine = running(world.carla, world.city, apart("turin"), world.ana)
    theirs = running(world.mo, world.mobility, apart("busan"), world.ben)
    pause = prepare_proposal(proposal_id=pause_dataflow(actor=world.carla, dataflow_id=mine.pk).pk)
    removal = removal_planned(world.carla, mine)
    enacted(approved(removal_planned(world.mo, theirs), world.ben))
    assert {held_to_estate(pause).status, held_to_estate(removal).status} == {PENDING}
    enacted(approved(held_to_estate(removal), world.ana))
    assert held_to_estate(pause).status == STALE and not check_rows().submitted
    assert "its dataflow was changed" in held_to_estate(pause).plan.error["message"]


def test_slots_that_go_or_are_reserved_move_what_is_not_placed_yet(world: World):
    register_node(name="n2", slots=2)
    waiting = planned(world.carla, world.city, apart("turin"))
    [slot] = {fragment.slot for fragment in plan_of(waiting.plan).fragments_after.values()}
    with audited(actor=None, verb="sweep.start", subject=EstateState.objects.get(pk=1)):
        reserve(slot, holder="a sweep")
    waiting = held_to_estate(waiting)
    assert waiting.status == PENDING
    [moved] = {fragment.slot for fragment in plan_of(waiting.plan).fragments_after.values()}
    assert moved != slot
    assert approved(held_to_estate(waiting), world.ana).status == EXECUTING
    assert {fragment.slot for fragment in load_estate().fragments.values()} == {moved}


@pytest.mark.long  # tests/scheduler/test_rebasing.py has it
def test_a_schedule_stands_as_long_as_its_slots_have_nothing_else_to_do(world: World):
    measured(world)
    register_node(name="n2", slots=12)
    record = planned(world.carla, world.city, linear()).dataflow
    proposal = prepare_proposal(proposal_id=propose_schedule(
        actor=world.carla, dataflow_id=record.pk, choice=ScheduleChoice.of(pair=("MBA", "SAM"), rate_per_s=50)).pk)
    promised = {load.slot for load in plan_of(proposal.plan).promise.bundles}
    approved(planned(world.mo, world.mobility, apart("busan")), world.ben)
    taken = {fragment.slot for fragment in load_estate().fragments.values()}
    assert held_to_estate(proposal).status == (STALE if taken & promised else PENDING)
    if taken & promised:
        assert "has other work" in held_to_estate(proposal).plan.error["message"]


def test_two_that_both_stand_do_not_take_each_others_numbers(world: World):
    """Both were planned for one generation, so that their new queries had the same names."""
    first, two, three = (
        planned(author, team, apart(name)) for author, team, name in (
            (world.carla, world.city, "turin"), (world.mo, world.mobility, "busan"),
            (world.mo, world.mobility, "oslo")))
    assert set(plan_of(first.plan).fragments_after) == set(plan_of(two.plan).fragments_after)
    for proposal, reviewer in ((first, world.ana), (two, world.ben), (three, world.ben)):
        proposal = held_to_estate(proposal)
        assert enacted(approved(proposal, reviewer)).status == "done"
    assert len(check_rows().fragments) == 3


def test_another_plan_is_not_carried_over_for_one(world: World):
    first, two = planned(world.carla, world.city, apart("turin")), planned(world.mo, world.mobility, apart("busan"))
    with pytest.raises(ValueError, match="another plan"):
        carry_over(record=first.plan, plan=plan_of(two.plan))


def test_a_plan_of_a_later_generation_than_its_record_is_no_frozen_plan(world: World):
    proposal = planned(world.carla, world.city, apart("turin"))
    PlanRecord.objects.filter(pk=proposal.plan_id).update(generation=proposal.plan.generation - 1)
    with pytest.raises(AlteredPlan):
        plan_of(PlanRecord.objects.get(pk=proposal.plan_id))


def test_plans_from_before_and_plans_that_cannot_be_read_are_stale_and_stop_nobody(world: World):
    older, broken = planned(world.carla, world.city, apart("turin")), planned(world.carla, world.city, apart("quito"))
    PlanRecord.objects.filter(pk=older.plan_id).update(reads="")
    PlanRecord.objects.filter(pk=broken.plan_id).update(document="{}")
    assert approved(planned(world.mo, world.mobility, apart("busan")), world.ben).status == EXECUTING
    with pytest.raises(WeirError):
        approved(broken, world.ana)
    assert {held_to_estate(older).status, held_to_estate(broken).status} == {STALE}
    assert not Review.objects.filter(proposal__in=[older, broken]).exists()


def test_where_no_slot_is_left_it_is_stale(world: World):
    waiting = planned(world.carla, world.city, apart("turin"))
    register_node(name="n1", slots=0)
    assert not SlotRow.objects.exists() and held_to_estate(waiting).status == STALE
    assert "no slot" in held_to_estate(waiting).plan.error["message"]


def others(world: World) -> dict[str, tuple[Proposal, Proposal]]:
    """A proposal that waits and one that is taken in before it, by what the latter does to the former."""
    running(world.carla, world.city, document("traffic"), world.ana)
    return {
        "nothing": (
            planned(world.mo, world.mobility, apart("turin")), planned(world.carla, world.city, apart("busan"))),
        "does the same": (
            planned(world.mo, world.mobility, document("jams", window=20)),
            planned(world.carla, world.city, document("third", window=30))),
        "does another": (
            planned(world.mo, world.mobility, document("same", window=40)),
            planned(world.carla, world.city, document("other", window=40))),
    }


@pytest.mark.parametrize("what", ["nothing", "does the same", "does another"])
def test_who_approves_before_the_job_has_looked_approves_what_is_taken_in_and_nothing_else(world: World, what: str):
    waiting, other = others(world)[what]
    digest, generation = waiting.plan.digest, load_estate().generation
    approved(other, world.ana)
    if what == "nothing":
        assert approved(waiting, world.ben).status == EXECUTING
        assert load_estate().generation == generation + 2 and check_rows()
        return
    error = DigestMismatch if what == "does the same" else StalePlan
    with pytest.raises(error) as raised:
        approve_proposal(actor=world.ben, proposal_id=waiting.pk, digest=digest)
    fresh = Proposal.objects.select_related("plan").get(pk=waiting.pk)
    assert load_estate().generation == generation + 1, "nothing is enacted"
    assert not Review.objects.filter(proposal=waiting).exists() and raised.value.remedy
    if what == "does another":
        assert (fresh.status, fresh.plan.error) == (STALE, raised.value.as_dict())
        with pytest.raises(StalePlan, match="a task that it would start already runs"):
            approve_proposal(actor=world.ben, proposal_id=waiting.pk, digest=digest)
        return
    assert fresh.status == PENDING and fresh.plan.digest == raised.value.facts["digest"] != digest
    assert enacted(approved(fresh, world.dev)).status == "done"


def test_one_that_is_refused_before_its_plan_is_looked_at_changes_nothing(world: World):
    waiting, other = others(world)["does the same"]
    approved(other, world.ana)
    for actor, digest in ((world.carla, waiting.plan.digest), (world.ben, "0" * 64)):
        with pytest.raises((PermissionDenied, DigestMismatch)):
            approve_proposal(actor=actor, proposal_id=waiting.pk, digest=digest)
    assert PlanRecord.objects.get(pk=waiting.plan_id).generation == waiting.plan.generation


def test_a_plan_that_was_held_is_not_enacted_before_those_have_approved_who_share_it_by_now(world: World):
    running(world.carla, world.city, document("traffic"), world.ana)
    waiting = planned(world.carla, world.city, document("third", window=30))
    theirs = planned(world.mo, world.mobility, document("jams", window=20))
    Proposal.objects.filter(pk=waiting.pk).update(held={"team": "City", "reason": "freeze", "until": None})
    Review.objects.create(proposal=waiting, plan=waiting.plan, team=world.city, reviewer=world.ana, verdict="approve")
    approved(theirs, world.ana, world.ben)
    enacted(theirs)
    assert enact_held(at=timezone.now()) == []
    fresh = Proposal.objects.get(pk=waiting.pk)
    assert (fresh.status, fresh.held) == (PENDING, None)
    assert [team.slug for team in fresh.teams.order_by("slug")] == ["city", "mobility"]
    assert approved(held_to_estate(waiting), world.ben).status == EXECUTING


def test_what_is_computed_while_the_estate_moves_on_is_thrown_away(world: World, monkeypatch):
    waiting, other = others(world)["does the same"]
    third = planned(world.carla, world.city, apart("quito"))
    approved(other, world.ana)
    computed = PlanCarrier.carried_over

    def and_meanwhile(carrier: PlanCarrier, record: PlanRecord):
        monkeypatch.setattr(PlanCarrier, "carried_over", computed)
        enacted(approved(third, world.ana))
        return computed(carrier, record)

    monkeypatch.setattr(PlanCarrier, "carried_over", and_meanwhile)
    waiting = held_to_estate(waiting)
    assert waiting.plan.generation == load_estate().generation == plan_of(waiting.plan).generation
    assert enacted(approved(waiting, world.dev)).status == "done" and len(check_rows().submitted) == 4


def test_what_changes_the_estate_asks_for_it_and_pays_nothing_for_those_that_wait(
    world: World, sent, django_capture_on_commit_callbacks
):
    def statements(act: Callable[[], object]) -> int:
        with CaptureQueriesContext(connection) as captured:
            act()
        return len(captured)

    def an_approval(name: str) -> int:
        proposal = planned(world.mo, world.mobility, apart(name))
        return statements(lambda: approved(proposal, world.ben))

    def wait(author: User, team: Team, count: int) -> None:
        for number in range(count):
            planned(author, team, apart(f"w{number}-{count}"))

    none = an_approval("busan")
    wait(world.carla, world.city, 5)
    assert an_approval("dakar") == none
    few = statements(carry_over_waiting)
    wait(world.carla, world.city, 10)
    assert an_approval("oslo") == none
    assert statements(carry_over_waiting) == few, "what stands is looked at, and noted, together"
    assert statements(carry_over_waiting) <= 2, "nothing is older"
    with django_capture_on_commit_callbacks(execute=True):
        register_node(name="n3", slots=2)
    assert ("weir.carry_over", {}) in sent
