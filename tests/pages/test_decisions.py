"""The decision about a proposal: what others lose or pay, what it still lacks, and how long such plans take."""

from __future__ import annotations

import re
from datetime import timedelta
from itertools import product

import pytest
from django.utils import timezone

from dashboard.approvals.difference import difference
from dashboard.approvals.models import Proposal
from dashboard.approvals.review_decisions import ReviewDecision, counts_in_words, decision_of, usual_s, usual_steps_s
from dashboard.approvals.selectors import review_of
from dashboard.approvals.services import prepare_proposal, record_progress, switch_alternate
from dashboard.plans.selectors import plan_of
from dashboard.teams.permissions import viewer_of
from scheduler.model.plan_kinds import PLAN_KINDS, PlanKind
from scheduler.plan_progress import PlanProgress
from tests.dashboard.building import World, approved, document, dynamic, planned, removal_planned, running
from tests.pages.conftest import ClientOf
from tests.pages.markup import Markup


def decision(world: World, proposal: Proposal) -> ReviewDecision:
    viewer = viewer_of(world.root)
    return decision_of(proposal, diff=difference(viewer, proposal), review=review_of(viewer, proposal))


def test_each_team_that_still_has_to_approve_is_named_with_how_many_did(world: World, client_of: ClientOf) -> None:
    running(world.carla, world.city, document("traffic"), world.ana)
    proposal = planned(world.mo, world.mobility, document("jams", window=20))
    assert decision(world, proposal).lacking == ["0 of 1: an approver of City", "0 of 1: an approver of Mobility"]
    approved(proposal, world.ana)
    proposal.refresh_from_db()
    assert decision(world, proposal).lacking == ["0 of 1: an approver of Mobility"]
    page = Markup(client_of("ben").get(f"/proposals/{proposal.pk}/").text)
    assert page.one("data-part", "lacking").text.endswith("0 of 1: an approver of Mobility")
    assert page.submits(f"/proposals/{proposal.pk}/approve")


def test_tasks_of_others_that_stay_are_called_as_these_call_them(world: World) -> None:
    running(world.carla, world.city, document("traffic"), world.ana)
    shown = difference(viewer_of(world.root), planned(world.mo, world.mobility, document("jams", window=20)))
    assert {task["name"] for task in shown["tasks"] if task["status"] == "neighbour"} == {"average", "out"}


def test_state_that_is_lost_and_who_pays_more_are_warned_of(world: World, client_of: ClientOf) -> None:
    traffic = running(world.carla, world.city, document("traffic"), world.ana)
    running(world.mo, world.mobility, document("jams", window=20), world.ana, world.ben)
    proposal = removal_planned(world.carla, traffic)
    warnings = dict(decision(world, proposal).warnings)
    assert warnings["state"] == "The state of average is lost."
    assert warnings["bill"].startswith("Mobility pays ") and warnings["bill"].endswith(" an hour more.")
    page = Markup(client_of("ana").get(f"/proposals/{proposal.pk}/").text)
    assert set(page.values("data-warning")) == warnings.keys()
    approved(proposal, world.ana)
    proposal.refresh_from_db()
    assert decision(world, proposal).warnings == () and decision(world, proposal).lacking == ()


def test_what_the_other_dataflows_of_a_team_pay_more_is_not_said_of_the_whole_team(world: World) -> None:
    traffic = running(world.carla, world.city, document("traffic"), world.ana)
    running(world.carla, world.city, document("jams", window=20), world.ana)
    made = decision(world, removal_planned(world.carla, traffic))
    assert dict(made.warnings)["bill"].startswith("The other dataflows of City pay ")
    assert made.summary == "2 tasks stop, 2 go on for others"


@pytest.mark.parametrize("kind", PLAN_KINDS.values(), ids=lambda kind: kind.name)
def test_a_decision_says_of_tasks_that_they_are_tasks(kind: PlanKind) -> None:
    names = ("started", "resumed", "stopped", "rested", "reused")
    for numbers in product((0, 1, 2), repeat=len(names)):
        words = counts_in_words(dict(zip(names, numbers, strict=True)), kind)
        assert words.count("task") == 1
        assert [int(number) for number in re.findall(r"\d+", words)] == [number for number in numbers if number]


@pytest.mark.parametrize(("options", "shown"), [({}, "60 min"), ({"hold_s": 604_800.0}, "7 days")])
def test_who_reviews_a_switch_by_hand_reads_for_how_long_it_is_held(
    world: World, client_of: ClientOf, options: dict[str, float], shown: str
) -> None:
    record = running(world.carla, world.city, dynamic("air"), world.ana)
    proposal = prepare_proposal(proposal_id=switch_alternate(
        actor=world.carla, dataflow_id=record.pk, task="work", alternate="few", **options).pk)
    page = Markup(client_of("ana").get(f"/proposals/{proposal.pk}/").text)
    assert f"is held for {shown}." in page.one("data-part", "held-for").text
    assert page.one("data-part", "held-for").text.count("learned") == 0
    assert proposal.status == "pending" and "go on" in page.one("id", "decision").text


def test_a_submission_that_disturbs_nobody_has_no_warning(world: World) -> None:
    assert decision(world, planned(world.carla, world.city, document("traffic"))).warnings == []


def test_how_long_plans_take_is_the_median_of_enough_of_their_kind(world: World) -> None:
    for number in range(3):
        assert usual_s("submit") is None
        record = running(world.carla, world.city, document(f"flow-{number}", window=5 + number), world.ana)
        at = timezone.now()
        Proposal.objects.filter(dataflow=record).update(
            approved_at=at, finished_at=at + timedelta(seconds=(2, 40, 7)[number]))
    assert usual_s("submit") == 7.0
    assert usual_s("remove") is None


def test_steps_say_how_long_such_steps_took_and_what_they_took(world: World, client_of: ClientOf) -> None:
    for number, waited_s in enumerate((2, 40, 7)):
        assert usual_steps_s() == {}
        proposal = approved(planned(world.carla, world.city, document(f"flow-{number}", window=5 + number)), world.ana)
        keys = [step.key for step in plan_of(proposal.plan).steps]
        for at_s in (waited_s, waited_s + 30):  # seen again later: the first time counts
            record_progress(
                proposal_id=proposal.pk, plan_id=proposal.plan_id, progress=PlanProgress(keys[:1]),
                at=proposal.approved_at + timedelta(seconds=at_s))
        done = record_progress(
            proposal_id=proposal.pk, plan_id=proposal.plan_id, progress=PlanProgress(keys),
            at=proposal.approved_at + timedelta(seconds=100))
        assert done.status == "done"
        assert done.progress["in_force_s"] == dict.fromkeys(keys[1:], 100.0) | {keys[0]: float(waited_s)}
    assert [key.partition(":")[0] for key in keys] == ["start_fragment", "open_outlet"]
    assert usual_steps_s() == {"start_fragment": 7.0}, "only two of these plans opened an outlet"

    page = Markup(client_of("ana").get(f"/proposals/{done.pk}/").text)
    assert "in force after 7.0 s" in page.one("data-step", keys[0]).text
    waiting = planned(world.carla, world.city, document("another", window=30))
    for bars in ([], ["Steps in force"]):
        page = Markup(client_of("ana").get(f"/proposals/{waiting.pk}/").text)
        begins, opens = (page.one("data-step", step.key).text for step in plan_of(waiting.plan).steps)
        assert "usually 7.0 s" in begins and "usually" not in opens
        assert [bar.attributes["aria-label"] for bar in page.every("progress")] == bars, "progress is shown once"
        if not bars:
            approved(waiting, world.ana)
    assert "after the approval" in page.one("data-part", "current-step").text
