"""Which proposals are in effect: asked of the database and of a proposal at hand, by one rule."""

from __future__ import annotations

from itertools import product

from django.utils import timezone

from dashboard.approvals.lifecycle import DONE, LIFECYCLE, ROLLED_BACK
from dashboard.approvals.models import Proposal
from dashboard.plans.models import PlanRecord
from scheduler.model.plan_kinds import PLAN_KINDS
from tests.dashboard.building import World, document, planned

KINDS = tuple(PLAN_KINDS)


def test_the_database_and_a_proposal_at_hand_say_the_same(world: World):
    record = planned(world.carla, world.city, document("traffic")).dataflow
    cases = {}
    for status, kind, ended in product(LIFECYCLE.states, KINDS, (False, True)):
        plan = PlanRecord.objects.create(kind=kind, dataflow=record, version=1)
        made = Proposal.objects.create(
            plan=plan, dataflow=record, status=status, finished_at=timezone.now() if ended else None)
        cases[made.pk] = (status, kind, ended)
    proposals = Proposal.objects.filter(pk__in=cases)
    by_database = {cases[pk] for pk in proposals.in_effect().values_list("pk", flat=True)}
    by_itself = {cases[proposal.pk] for proposal in proposals.select_related("plan") if proposal.is_in_effect}
    assert by_database == by_itself == {(DONE, kind, True) for kind in KINDS} | {(ROLLED_BACK, "remove", True)}
