"""What old plans changed in detail goes; what runs, what can be taken back, and what was approved by whom stay."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from dashboard.approvals.models import Proposal, Review
from dashboard.approvals.services import cancel_proposal, forget_plans, prepare_proposal, recompute_proposal
from dashboard.audit.models import AuditEntry
from dashboard.operations.models import EstateState
from dashboard.plans.models import PlanRecord
from dashboard.plans.selectors import plan_of
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

LATER = timedelta(days=400)


@pytest.fixture
def old(world: World) -> dict[str, Proposal]:
    """Proposals by what became of them."""
    removed = running(world.carla, world.city, document("gone"), world.ana)
    removal = enacted(approved(removal_planned(world.carla, removed), world.ana))
    runs = running(world.carla, world.city, document("runs"), world.ana)
    cancelled = planned(world.carla, world.city, document("never", window=7))
    cancel_proposal(actor=world.carla, proposal_id=cancelled.pk)
    return {
        "cancelled": cancelled, "removal": removal,
        "gone": Proposal.objects.get(dataflow=removed, plan__kind="submit"),
        "runs": Proposal.objects.get(dataflow=runs), "waits": planned(world.mo, world.mobility, document("waits"))}


def details(old: dict[str, Proposal]) -> set[str]:
    """Which of them still say what they change."""
    return {name for name, proposal in old.items() if PlanRecord.objects.get(pk=proposal.plan_id).document}


def test_details_of_plans_that_ended_long_ago_go_but_of_what_runs_or_waits(old: dict[str, Proposal], settings) -> None:
    now = timezone.now()
    assert forget_plans(now) == 0 and details(old) == set(old)
    assert set(PlanRecord.objects.exclude(reads="").values_list("pk", flat=True)) == {old["waits"].plan_id}
    settings.PLANS_KEEP_DAYS = 0
    assert forget_plans(now + LATER) == 0
    settings.PLANS_KEEP_DAYS = 365
    assert (forget_plans(now + LATER), forget_plans(now + LATER)) == (2, 0)
    assert details(old) == {"removal", "runs", "waits"}, "what sets how a dataflow runs, and what is open"
    assert PlanRecord.objects.get(pk=old["cancelled"].plan_id).digest
    assert Review.objects.filter(plan=old["gone"].plan_id).exists()
    assert AuditEntry.objects.get(verb="plan.forget").details["plans"] == 2


def test_pages_and_api_say_that_the_details_are_gone(world: World, old: dict[str, Proposal], client: Client) -> None:
    forget_plans(timezone.now() + LATER)
    client.force_login(world.ana, backend="dashboard.teams.logins.ThrottledBackend")
    for name in ("cancelled", "gone"):
        page = client.get(f"/proposals/{old[name].pk}/").content.decode()
        assert 'data-note="forgotten"' in page and old[name].plan.digest in page
        answer = client.get(f"/api/proposals/{old[name].pk}").json()
        assert answer["difference"] is None and answer["id"] == str(old[name].pk)
    assert 'data-note="forgotten"' not in client.get(f"/proposals/{old['waits'].pk}/").content.decode()


def test_a_plan_that_was_replaced_goes_with_age_and_the_one_in_its_place_stays(world: World) -> None:
    proposal = planned(world.carla, world.city, document("traffic"))
    first = proposal.plan_id
    approved(planned(world.mo, world.mobility, document("jams", window=20)), world.ben)
    assert held_to_estate(proposal).status == "stale"
    recompute_proposal(actor=world.carla, proposal_id=proposal.pk)
    proposal = prepare_proposal(proposal_id=proposal.pk)
    assert proposal.plan_id != first and forget_plans(timezone.now() + LATER) == 1
    assert not PlanRecord.objects.get(pk=first).document
    assert plan_of(Proposal.objects.get(pk=proposal.pk).plan) is not None
    assert EstateState.objects.get().generation == plan_of(Proposal.objects.get(pk=proposal.pk).plan).generation
