"""Open batches by the loop of controllers: opened, asked about, kept or taken back, and never half done."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from dashboard.approvals.models import Proposal
from dashboard.approvals.services import (
    approve_proposal,
    move_query,
    prepare_proposal,
    reject_proposal,
    roll_back_proposal,
    set_rules,
)
from dashboard.approvals.services.adapting import PlanActuator
from dashboard.approvals.services.enacting import require_calm
from dashboard.audit.models import AuditEntry
from dashboard.catalog.models import DataflowRecord
from dashboard.catalog.services import choose_latency
from dashboard.controllers import selectors
from dashboard.controllers.latency_told import latency_prices_told, latency_told
from dashboard.controllers.models import ReasonRow, RoundRow
from dashboard.controllers.services import set_mode
from dashboard.controllers.site_world import StoredWorld
from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.operations.live_view.estate_view import view_for
from dashboard.operations.live_view.telemetry import EVERYTHING
from dashboard.operations.models import BatchFigures, FragmentRow, ModesWanted
from dashboard.tasks.controlling import ACTUATORS
from dashboard.teams.permissions import viewer_of
from scheduler.approving import Clause, Freeze, Rules
from scheduler.controllers.batch_opening import LIMITED, BatchOpening
from scheduler.controllers.dry_run import dry_run
from scheduler.controllers.evidence import mode_evidence
from scheduler.controllers.loop_values import Policy
from scheduler.model import settings_of_fragments as fragment_settings
from scheduler.model.errors import InvalidTransition, PermissionDenied
from scheduler.model.latency_limits import LatencyLimit
from tests.dashboard.building import World, approved, document, enacted, planned, running
from tests.dashboard.controlling import phases
from tests.dashboard.played import OPEN_BATCHES, Played, intervals, opened


@pytest.fixture
def played(played: Played) -> Played:
    played.refusal = ""
    return played


@pytest.fixture
def record(world: World) -> DataflowRecord:
    """City's dataflow, which no micro-batches are quick enough for."""
    return running(world.carla, world.city, document("live", latency="50 ms"), world.ana)


def rounds() -> list[str]:
    return phases(OPEN_BATCHES)


def mode(world: World, chosen: str, *, city: bool = True) -> None:
    set_mode(actor=world.dev if city else world.root, controller=OPEN_BATCHES,
             team=world.city if city else world.mobility, mode=chosen)


def proposed() -> Proposal:
    """The newest proposal of a round."""
    return Proposal.objects.exclude(round=None).order_by("-created")[0]


def limit_shown(world: World, record: DataflowRecord) -> dict:
    (limit,) = latency_told(viewer_of(world.carla), record.pk)["limits"]
    return limit


def test_it_acts_at_once_and_keeps_what_came(
    world: World, played: Played, record: DataflowRecord, sent: list, django_capture_on_commit_callbacks
) -> None:
    played.run(14)
    assert not opened(record), "the pacer alone opens nothing"
    assert ModesWanted.objects.get().queries
    sent.clear()
    with django_capture_on_commit_callbacks(execute=True):
        played.run(1)
    assert opened(record) and rounds() == ["begun"]
    assert "weir.enact" in [name for name, _ in sent]
    assert (proposed().status, proposed().plan.kind) == ("executing", "set")
    played.run(115)
    row = RoundRow.objects.get()
    assert row.phase == "kept" and LIMITED in row.why and proposed().status == "done"
    assert {"controller.begin", "dataflow.recommend_open_batches", "controller.kept"} <= set(
        AuditEntry.objects.values_list("verb", flat=True))


class Killed(BaseException):
    """As a worker that is killed: nothing catches it."""


@pytest.mark.parametrize("after", [pytest.param(False, marks=pytest.mark.long), True])  # test_controllers.py has before
def test_a_worker_that_is_killed_leaves_its_command_to_the_next(
    world: World, played: Played, record: DataflowRecord, monkeypatch: pytest.MonkeyPatch, *, after: bool
) -> None:
    carry_out = PlanActuator.carry_out
    commands = []

    def dies(self: PlanActuator, command: object) -> None:
        commands.append(command)
        if after:
            carry_out(self, command)
        raise Killed

    played.run(14)
    with monkeypatch.context() as patched:
        patched.setattr(PlanActuator, "carry_out", dies)
        with pytest.raises(Killed):
            played.run(1)
    assert (rounds(), Proposal.objects.exclude(round=None).exists()) == (["begun"], after)
    played.run(10)
    assert opened(record)
    ACTUATORS[OPEN_BATCHES].carry_out(commands[0])
    assert Proposal.objects.exclude(round=None).count() == 1, "a command that is given again is done once"
    assert len(AuditEntry.objects.filter(verb="dataflow.recommend_open_batches")) == 1
    played.run(10)
    assert rounds() == ["checking"]


@pytest.mark.long  # test_controllers.py has commands that come too late
def test_a_command_that_comes_after_its_round_was_given_up_does_nothing(
    world: World, played: Played, record: DataflowRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = []
    with monkeypatch.context() as patched:
        patched.setattr(PlanActuator, "carry_out", lambda _, command: commands.append(command))
        played.run(15)
        mode(world, "off")
        played.run(20)
    assert rounds() == ["declined"]
    ACTUATORS[OPEN_BATCHES].carry_out(commands[0])
    assert not opened(record)


@pytest.mark.long  # tests/scheduler/controllers/test_opening.py has it, test_controllers.py the way back
def test_what_did_not_come_is_taken_back_and_not_tried_again(
    world: World, played: Played, record: DataflowRecord
) -> None:
    played.open_ms = 2_000.0
    played.run(120)
    assert rounds() == ["checking"], "it has five minutes"
    played.run(240)
    assert rounds() == ["rolled_back"] and not opened(record)
    row = RoundRow.objects.get()
    assert f"{LIMITED} 2,000 ms" in row.why
    played.open_ms = 5.0
    played.run(120)
    assert rounds() == ["rolled_back"] and not opened(record)
    assert ReasonRow.objects.get(controller=OPEN_BATCHES, dataflow=record).why.startswith(
        "The same change broke its promise within the last day.")
    remedy = limit_shown(world, record)["remedies"][0]
    assert remedy["kind"] == "open" and "broke its promise" in remedy["words"]


@pytest.mark.long  # test_controllers.py has recommendations
def test_a_team_may_be_asked_first(world: World, played: Played, record: DataflowRecord, client: Client) -> None:
    mode(world, "recommends")
    played.run(30)
    assert rounds() == ["asked"] and not opened(record)
    limit = limit_shown(world, record)
    assert limit["state"] == "impossible"
    opens, ask = limit["remedies"][:2]
    assert opens["words"].startswith("Would be met by open batches of ")
    assert "waits for its approvals" in opens["words"]
    assert ask["limit_s"] > limit["limit_s"], "less can be had as things are"
    proposal = proposed()
    assert (proposal.status, [team.slug for team in proposal.teams.all()]) == ("pending", ["city"])
    with pytest.raises(PermissionDenied):  # an engineer's yes is not enough, as for any other plan
        approve_proposal(actor=world.carla, proposal_id=proposal.pk, digest=proposal.plan.digest)
    client.force_login(world.ana)
    assert f"/proposals/{proposal.pk}" in client.get("/controllers/").text
    page = client.get(f"/proposals/{proposal.pk}/").text
    assert "its batches stay open" in page and "50 ms" in page
    approve_proposal(actor=world.ana, proposal_id=proposal.pk, digest=proposal.plan.digest)
    assert opened(record)
    played.run(120)
    assert rounds() == ["kept"] and limit_shown(world, record)["state"] == "met"


def test_who_has_to_approve_is_asked_first_as_it_was_told(world: World, played: Played, record: DataflowRecord) -> None:
    set_rules(actor=world.dev, team=world.city, rules=Rules(otherwise=Clause(approvals=2)))
    played.run(14)
    assert "or asks those first who have to approve" in limit_shown(world, record)["remedies"][0]["words"]
    played.run(16)
    assert not opened(record) and rounds() == ["asked"]
    assert "waits for its approvals" in limit_shown(world, record)["remedies"][0]["words"]


def test_a_freeze_holds_a_setting_like_any_plan(world: World, played: Played, record: DataflowRecord) -> None:
    year_ms = 365 * 86_400_000
    set_rules(actor=world.dev, team=world.city, rules=Rules(freezes=(Freeze(0, 100 * year_ms, "the fair"),)))
    played.run(40)
    assert not opened(record) and proposed().held["reason"] == "freeze: the fair"


def test_an_approval_waits_for_the_plan_that_is_being_enacted(
    world: World, played: Played, record: DataflowRecord
) -> None:
    mode(world, "recommends")
    played.run(20)
    proposal = proposed()
    plan = approved(planned(world.carla, world.city, document("another", rates={"sense": 60})), world.ana)
    with pytest.raises(InvalidTransition, match="the one to submit another"):
        approve_proposal(actor=world.abe, proposal_id=proposal.pk, digest=Proposal.objects.get(
            pk=proposal.pk).plan.digest)
    assert not opened(record)
    enacted(plan)
    approve_proposal(actor=world.abe, proposal_id=proposal.pk, digest=Proposal.objects.get(pk=proposal.pk).plan.digest)
    assert opened(record)


def test_a_plan_waits_for_a_setting_that_is_being_enacted(
    world: World, played: Played, record: DataflowRecord
) -> None:
    played.run(15)
    assert opened(record) and rounds() == ["begun"]
    with pytest.raises(InvalidTransition, match="the one to set live"):
        require_calm(world.carla)
    played.run(20)
    assert rounds() == ["checking"]
    require_calm(world.carla)


def test_the_loop_waits_for_the_plan_that_people_approved(
    world: World, played: Played, record: DataflowRecord
) -> None:
    plan = approved(planned(world.carla, world.city, document("another", window=20)), world.ana)
    played.run(40)
    assert rounds() == ["begun"] and not opened(record)
    enacted(plan)
    played.run(10)
    assert opened(record)


def test_what_people_turn_down_is_left_in_peace(world: World, played: Played, record: DataflowRecord) -> None:
    mode(world, "recommends")
    played.run(20)
    reject_proposal(actor=world.ana, proposal_id=proposed().pk, comment="not now")
    played.run(60)
    assert rounds() == ["declined"] and not opened(record)
    assert RoundRow.objects.get().why == "ana turned it down: not now"


@pytest.mark.long  # test_controllers.py has what is overtaken
def test_a_question_that_has_answered_itself_is_withdrawn(
    world: World, played: Played, record: DataflowRecord
) -> None:
    mode(world, "recommends")
    played.run(20)
    choose_latency(actor=world.carla, dataflow_id=record.pk, limits=(LatencyLimit(10.0),))
    played.run(100)
    assert rounds() == ["declined"] and "not be chosen any more" in RoundRow.objects.get().why


@pytest.mark.long  # test_controllers.py has other teams that are asked
def test_teams_that_share_a_query_are_asked_unless_they_let_weir_act(
    world: World, played: Played, record: DataflowRecord
) -> None:
    running(world.mo, world.mobility, document("calm", window=20, latency="20 s"), world.ben, world.ana)
    mode(world, "recommends", city=False)
    played.run(30)
    row = RoundRow.objects.filter(phase="asked").get()
    proposal = row.proposal
    assert (row.mode, [team.slug for team in proposal.teams.all()]) == ("acts", ["mobility"])
    with pytest.raises(PermissionDenied):
        approve_proposal(actor=world.ana, proposal_id=proposal.pk, digest=proposal.plan.digest)
    approve_proposal(actor=world.ben, proposal_id=proposal.pk, digest=proposal.plan.digest)
    assert opened(record)
    played.run(120)
    row.refresh_from_db()
    assert row.phase == "kept"


@pytest.mark.long  # tests/scheduler/controllers/test_chaining.py has a team that turned it off
def test_what_is_off_stays_as_it_is_and_says_so(world: World, played: Played, record: DataflowRecord) -> None:
    mode(world, "off")
    played.run(20)
    assert rounds() == [] and not opened(record)
    limit = limit_shown(world, record)
    assert "The controller Open batches is off for City." in limit["remedies"][0]["words"]
    strict = next(offer for offer in latency_prices_told(viewer_of(world.carla), record.pk)["offers"]
                  if offer["limit_s"] == 0.05)
    assert (strict["met"], strict["open_queries"]) == (False, 0)
    mode(world, "acts")
    played.run(30)
    assert opened(record)
    mode(world, "off")
    choose_latency(actor=world.carla, dataflow_id=record.pk, limits=(LatencyLimit(10.0),))
    played.run(60)
    assert opened(record), "another limit changes no mode where it is off"


@pytest.mark.long  # test_controllers.py has what people take back
def test_it_is_taken_back_by_hand_and_left_in_peace(world: World, played: Played, record: DataflowRecord) -> None:
    played.run(130)
    assert rounds() == ["kept"]
    roll_back_proposal(actor=world.ana, proposal_id=proposed().pk)
    assert not opened(record)
    played.run(120)
    assert rounds() == ["rolled_back"] and not opened(record)
    assert proposed().status == "rolled_back"


@pytest.mark.long  # tests/scheduler/latency/test_real_time.py has where one cannot
def test_a_slot_that_refuses_has_micro_batches_at_once(world: World, played: Played, record: DataflowRecord) -> None:
    played.run(60)
    assert opened(record)
    played.refusal = "it runs Python (MapInArrow)"
    played.run(10)
    assert not opened(record), "what cannot be needs no decision"
    played.run(10)
    assert rounds() == ["rolled_back"]
    assert "it runs Python (MapInArrow)" in RoundRow.objects.get().why


def test_the_pacer_sets_intervals_and_leaves_modes_that_were_set_since_it_looked(
    world: World, played: Played, record: DataflowRecord
) -> None:
    played.run(14)
    before = view_for(EVERYTHING)
    played.run(1)
    [query] = opened(record)
    assert not before.estate.settings.get(query, fragment_settings.USUAL).real_time
    played.pacer.look(before, played.now_s + 5)
    assert opened(record) == {query}


def moved(world: World, record: DataflowRecord) -> tuple[str, str]:
    """The query that was open, and its heir on the other slot."""
    [query] = opened(record)
    other = next(slot for slot in ("n1/0", "n1/1") if slot != load_estate().fragments[query].slot)
    proposal = prepare_proposal(proposal_id=move_query(
        actor=world.carla, dataflow_id=record.pk, query=query, slot=other).pk)
    enacted(approved(proposal, world.ana))
    [heir] = [name for name, fragment in load_estate().fragments.items() if query in fragment.inherits]
    return query, heir


def test_a_query_that_moves_goes_on_in_open_batches(world: World, played: Played, record: DataflowRecord) -> None:
    played.run(130)
    assert rounds() == ["kept"]
    before_ms = intervals(record)
    query, heir = moved(world, record)
    assert opened(record) == {heir} and intervals(record) == before_ms
    played.run(60)
    assert opened(record) == {heir} and rounds() == ["kept"], "nothing was decided anew"
    assert not BatchFigures.objects.filter(pk=query).exists()


@pytest.mark.long  # tests/scheduler/latency/test_real_time.py has it
def test_a_slot_full_of_open_batches_gives_what_comes_micro_batches(
    world: World, played: Played, record: DataflowRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    played.run(130)
    monkeypatch.setattr(fragment_settings, "MOST_OPEN_A_SLOT", 0)
    moved(world, record)
    assert not opened(record)


@pytest.mark.long  # tests/scheduler/controllers/test_opening.py has dry runs, test_chaining.py one of the site
def test_a_dry_run_plays_the_rates_that_were_kept(world: World, played: Played, record: DataflowRecord) -> None:
    played.steps = False
    played.run(600)
    FragmentRow.objects.update(started_at=played.at - timedelta(hours=1))
    frames = list(mode_evidence.frames(StoredWorld(played.at), played.at.timestamp() - 2400, played.at.timestamp()))
    assert not frames[0].evidence.changes, "nothing was kept of that time"
    result = dry_run(BatchOpening(), frames, {"city": Policy("acts", 9, 9, 60.0)})
    [turn] = result.rounds
    assert turn.decision.target == str(record.pk) and "50 ms" in turn.decision.why
    assert not opened(record)
    DataflowRecord.objects.update(created=timezone.now() - timedelta(hours=2))
    page = selectors.played(viewer_of(world.vera), BatchOpening(), team="city", hours=1, policy=Policy("off"))
    assert page.frames == 13
