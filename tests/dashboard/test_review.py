"""Reviewing: who may approve what, this plan and no other, and how a proposal is overtaken."""

from __future__ import annotations

import pytest

from dashboard.approvals import selectors
from dashboard.approvals.lifecycle import CANCELLED, EXECUTING, PENDING, REJECTED, STALE
from dashboard.approvals.models import Proposal, Review
from dashboard.approvals.services import (
    approve_proposal,
    cancel_proposal,
    prepare_proposal,
    recompute_proposal,
    reject_proposal,
)
from dashboard.approvals.services.reviewing import AlreadyReviewed, DigestMismatch
from dashboard.audit.models import AuditEntry
from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.teams.permissions import viewer_of
from scheduler.model.errors import InvalidTransition, NotFound, PermissionDenied, StalePlan, WeirError
from tests.cases import each
from tests.dashboard.building import (
    World,
    approved,
    document,
    held_to_estate,
    planned,
    removal_planned,
    running,
    taken_back,
)


def approve(proposal: Proposal, who) -> Proposal:
    return approve_proposal(actor=who, proposal_id=proposal.pk, digest=proposal.plan.digest)


# Who may approve a proposal of the team City that touches nobody else: without and with self-approval.
MATRIX = [
    # author, reviewer, allowed, allowed with WEIR_SELF_APPROVAL
    ("carla", "ana", True, True),
    ("carla", "abe", True, True),
    ("carla", "dev", True, True),
    ("carla", "carla", False, False),
    ("carla", "vera", False, False),
    ("carla", "ben", False, False),
    ("carla", "mo", False, False),
    ("carla", "outsider", False, False),
    ("carla", "root", False, True),
    ("ana", "ana", False, True),
    ("ana", "abe", True, True),
    ("dev", "dev", False, True),
    ("root", "root", False, True),
]


@each("self_approval", [False, True])
@each("author", sorted({author for author, *_ in MATRIX}))
def test_who_may_approve(world: World, settings, author, self_approval):
    settings.SELF_APPROVAL = self_approval
    proposal = planned(world.users[author], world.city, document("traffic"))
    expected = {reviewer: of_own if self_approval else usual for by, reviewer, usual, of_own in MATRIX if by == author}
    viewers = {reviewer: viewer_of(world.users[reviewer]) for reviewer in expected}
    assert {reviewer: selectors.review_of(viewer, proposal)["may_approve"] for reviewer, viewer in viewers.items()
            } == expected
    assert {reviewer: selectors.awaiting(viewer).filter(pk=proposal.pk).exists() for reviewer, viewer in viewers.items()
            } == expected
    assert {reviewer: is_approved_by(proposal, world.users[reviewer]) for reviewer in expected} == expected


def is_approved_by(proposal: Proposal, who) -> bool:
    """Whether somebody's approval is taken; it is taken back."""
    with taken_back():
        try:
            assert approve(proposal, who).status == EXECUTING
        except PermissionDenied:
            assert not Review.objects.exists() and load_estate().generation == 1
            return False
    return True


def test_every_touched_team_must_approve(world: World):
    running(world.carla, world.city, document("traffic"), world.ana)
    proposal = planned(world.mo, world.mobility, document("jams", window=20))
    assert approve(proposal, world.ben).status == PENDING
    with pytest.raises(AlreadyReviewed):
        approve(proposal, world.ben)
    assert not selectors.awaiting(viewer_of(world.ben)).exists()
    assert selectors.awaiting(viewer_of(world.ana)).get() == proposal
    assert approve(proposal, world.ana).status == EXECUTING


def test_one_person_speaks_for_every_team_where_the_role_allows(world: World):
    running(world.carla, world.city, document("traffic"), world.ana)
    proposal = approve(planned(world.mo, world.mobility, document("jams", window=20)), world.dev)
    assert proposal.status == EXECUTING
    assert {review.team for review in Review.objects.filter(proposal=proposal)} == {world.city, world.mobility}


def test_the_estate_takes_the_plan_with_the_last_approval(world: World, sent, django_capture_on_commit_callbacks):
    proposal = planned(world.carla, world.city, document("traffic"))
    with django_capture_on_commit_callbacks(execute=True):
        proposal = approve(proposal, world.ana)
    estate = load_estate()
    assert (estate.generation, len(estate.tasks), list(estate.submitted)) == (2, 4, [str(proposal.dataflow_id)])
    assert (proposal.dataflow.status, proposal.approved_at is not None) == ("running", True)
    assert sent == [("weir.carry_over", {}), ("weir.enact", {"proposal_id": str(proposal.pk)})]


def test_the_digest_of_another_plan_is_refused(world: World):
    proposal = planned(world.carla, world.city, document("traffic"))
    with pytest.raises(DigestMismatch):
        approve_proposal(actor=world.ana, proposal_id=proposal.pk, digest="0" * 64)
    assert not Review.objects.exists()


def test_of_two_plans_for_one_generation_the_second_is_overtaken(world: World):
    first = planned(world.carla, world.city, document("traffic"))
    second = planned(world.mo, world.mobility, document("jams", window=20))
    approve(first, world.ana)
    for _ in range(2):  # when it is found, and when it is known
        with pytest.raises(StalePlan):
            approve(second, world.ben)
        second = held_to_estate(second)
        assert (second.status, second.plan.status) == (STALE, "stale")
    assert not Review.objects.filter(proposal=second).exists()
    assert AuditEntry.objects.filter(verb="proposal.overtaken", subject_id=str(second.pk)).count() == 1


def test_recomputing_makes_a_new_plan_and_asks_anew(world: World):
    other = running(world.carla, world.city, document("other", window=3), world.ana)
    second = planned(world.mo, world.mobility, document("jams", window=20))
    approve(second, world.ben)
    approve(removal_planned(world.carla, other), world.ana)
    old = held_to_estate(second).plan
    recompute_proposal(actor=world.mo, proposal_id=second.pk)
    again = prepare_proposal(proposal_id=second.pk)
    assert (again.status, again.plan.generation) == (PENDING, load_estate().generation)
    assert again.plan.digest != old.digest
    assert not selectors.review_of(viewer_of(world.ben), again)["teams"][0]["verdict"]
    assert Review.objects.filter(plan=old).exists()  # the history stays
    with pytest.raises(DigestMismatch):
        approve_proposal(actor=world.ben, proposal_id=again.pk, digest=old.digest)
    assert approve(again, world.ben).status == EXECUTING


def test_only_stale_and_unplannable_proposals_are_recomputed(world: World):
    proposal = planned(world.carla, world.city, document("traffic"))
    with pytest.raises(InvalidTransition):
        recompute_proposal(actor=world.carla, proposal_id=proposal.pk)


def test_a_rejection_needs_a_comment_and_ends_the_proposal(world: World):
    proposal = planned(world.carla, world.city, document("traffic"))
    with pytest.raises(WeirError):
        reject_proposal(actor=world.ana, proposal_id=proposal.pk, comment=" \0 ")
    rejected = reject_proposal(actor=world.ana, proposal_id=proposal.pk, comment="Use the window of the others.")
    assert (rejected.status, rejected.dataflow.status) == (REJECTED, "rejected")
    assert selectors.live_proposal(viewer_of(world.vera), proposal.pk)["reviews"]["city"]["comment"]
    with pytest.raises(InvalidTransition, match="This proposal is rejected: it cannot be approved"):
        approve(proposal, world.abe)


@pytest.mark.parametrize("who", ["carla", "vera", "ben", "outsider", "root"])
def test_who_may_not_reject(world: World, who: str):
    proposal = planned(world.carla, world.city, document("traffic"))
    with pytest.raises(PermissionDenied):
        reject_proposal(actor=world.users[who], proposal_id=proposal.pk, comment="No.")


@pytest.mark.parametrize(("who", "allowed"), [
    ("carla", True), ("dev", True), ("root", True), ("ana", False), ("ben", False), ("vera", False)])
def test_who_may_cancel(world: World, who: str, allowed: bool):
    proposal = planned(world.carla, world.city, document("traffic"))
    assert selectors.review_of(viewer_of(world.users[who]), proposal)["may_cancel"] is allowed
    if not allowed:
        with pytest.raises(PermissionDenied):
            cancel_proposal(actor=world.users[who], proposal_id=proposal.pk)
        return
    cancelled = cancel_proposal(actor=world.users[who], proposal_id=proposal.pk)
    assert (cancelled.status, cancelled.dataflow.status) == (CANCELLED, "withdrawn")


def test_what_is_being_executed_is_not_cancelled(world: World):
    proposal = approved(planned(world.carla, world.city, document("traffic")), world.ana)
    with pytest.raises(InvalidTransition):
        cancel_proposal(actor=world.carla, proposal_id=proposal.pk)


def test_a_removal_that_disturbs_nobody_asks_the_own_team_alone(world: World):
    running(world.carla, world.city, document("traffic"), world.ana)
    jams = running(world.mo, world.mobility, document("jams", window=20), world.ben, world.ana)
    removal = removal_planned(world.mo, jams)
    assert set(removal.teams.all()) == {world.mobility}
    assert approve(removal, world.ben).status == EXECUTING
    jams.refresh_from_db()
    assert jams.status == "removing"
    assert len(load_estate().submitted) == 1


def test_a_rejected_removal_leaves_the_dataflow_running(world: World):
    record = running(world.carla, world.city, document("traffic"), world.ana)
    removal = removal_planned(world.carla, record)
    reject_proposal(actor=world.ana, proposal_id=removal.pk, comment="We need it.")
    record.refresh_from_db()
    assert record.status == "running"


def test_a_removal_is_proposed_once(world: World):
    record = running(world.carla, world.city, document("traffic"), world.ana)
    assert removal_planned(world.carla, record).pk == removal_planned(world.ana, record).pk


def test_what_does_not_run_is_not_removed(world: World):
    proposal = planned(world.carla, world.city, document("traffic"))
    with pytest.raises(InvalidTransition):
        removal_planned(world.carla, proposal.dataflow)


def test_a_private_proposal_is_not_there_for_others(world: World):
    proposal = planned(world.carla, world.city, document("secret", visibility="private"))
    for act in (
        lambda: approve(proposal, world.ben),
        lambda: reject_proposal(actor=world.ben, proposal_id=proposal.pk, comment="No."),
        lambda: cancel_proposal(actor=world.ben, proposal_id=proposal.pk),
        lambda: recompute_proposal(actor=world.ben, proposal_id=proposal.pk),
    ):
        with pytest.raises(NotFound):
            act()


@pytest.mark.parametrize("wrong", ["", "x", "1", "00000000-0000-4000-8000-000000000000", "\0"])
def test_an_id_that_is_none_is_not_found(world: World, wrong: str):
    with pytest.raises(NotFound):
        approve_proposal(actor=world.ana, proposal_id=wrong, digest="")
