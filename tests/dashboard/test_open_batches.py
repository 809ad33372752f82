"""Open batches by the loop of controllers: opened, asked about, kept or taken back, and never half done."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client

from dashboard.approvals.services import move_query, prepare_proposal
from dashboard.approvals.services.answering import accept_round, decline_round, take_back_round
from dashboard.approvals.services.enacting import require_calm
from dashboard.audit.models import AuditEntry
from dashboard.catalog.models import DataflowRecord
from dashboard.catalog.services import choose_latency
from dashboard.controllers import selectors
from dashboard.controllers.collecting import COLLECTORS
from dashboard.controllers.latency_told import latency_prices_told, latency_told
from dashboard.controllers.mode_changing import ModeActuator
from dashboard.controllers.models import ReasonRow, RoundRow
from dashboard.controllers.services import set_mode
from dashboard.operations import modes
from dashboard.operations.estate import load_estate
from dashboard.operations.models import FragmentPace, FragmentRow, ModesWanted
from dashboard.tasks.controlling import ACTUATORS
from dashboard.teams.permissions import viewer_of
from scheduler.controllers.dry_run import dry_run
from scheduler.controllers.opening import LIMITED, Opening
from scheduler.controllers.values import Policy
from scheduler.model.errors import InvalidTransition, PermissionDenied
from scheduler.model.latency import LatencyLimit
from tests.dashboard.building import World, approved, document, enacted, planned, running
from tests.dashboard.controlling import phases
from tests.dashboard.played import OPEN_BATCHES, Played, opened


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


def told(world: World, record: DataflowRecord) -> dict:
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
    assert "weir.republish_desired" in [name for name, _ in sent]
    played.run(115)
    row = RoundRow.objects.get()
    assert row.phase == "kept" and LIMITED in row.why and row.answer == ""
    assert {"controller.begin", "controller.carry_out", "controller.kept"} <= set(
        AuditEntry.objects.values_list("verb", flat=True))


class Killed(BaseException):
    """As a worker that is killed: nothing catches it."""


@pytest.mark.parametrize("after", [False, True])
def test_a_worker_that_is_killed_leaves_its_command_to_the_next(
    world: World, played: Played, record: DataflowRecord, monkeypatch: pytest.MonkeyPatch, *, after: bool
) -> None:
    carry_out = ModeActuator.carry_out
    commands = []

    def dies(self: ModeActuator, command: object) -> None:
        commands.append(command)
        if after:
            carry_out(self, command)
        raise Killed

    played.run(14)
    with monkeypatch.context() as patched:
        patched.setattr(ModeActuator, "carry_out", dies)
        with pytest.raises(Killed):
            played.run(1)
    assert (rounds(), bool(opened(record))) == (["begun"], after)
    played.run(10)
    assert opened(record)
    carried = RoundRow.objects.get().carried
    ACTUATORS[OPEN_BATCHES].carry_out(commands[0])
    assert RoundRow.objects.get().carried == carried, "a command that is given again is done once"
    assert len(AuditEntry.objects.filter(verb="controller.carry_out")) == 1
    played.run(10)
    assert rounds() == ["checking"]


def test_a_command_that_comes_after_its_round_was_given_up_does_nothing(
    world: World, played: Played, record: DataflowRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = []
    with monkeypatch.context() as patched:
        patched.setattr(ModeActuator, "carry_out", lambda _, command: commands.append(command))
        played.run(15)
        mode(world, "off")
        played.run(20)
    assert rounds() == ["declined"]
    ACTUATORS[OPEN_BATCHES].carry_out(commands[0])
    assert not opened(record)


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
        "The same change did not bring what it promised within the last day.")
    remedy = told(world, record)["remedies"][0]
    assert remedy["kind"] == "open" and "did not bring what it promised" in remedy["words"]


def test_a_team_may_be_asked_first(world: World, played: Played, record: DataflowRecord, client: Client) -> None:
    mode(world, "recommends")
    played.run(30)
    assert rounds() == ["asked"] and not opened(record)
    limit = told(world, record)
    assert limit["state"] == "impossible"
    opens, ask = limit["remedies"][:2]
    assert opens["words"].startswith("Would be met by open batches of ")
    assert "That waits for a yes of City" in opens["words"]
    assert ask["limit_s"] > limit["limit_s"], "less can be had as things are"
    key = RoundRow.objects.get().key
    with pytest.raises(PermissionDenied):
        accept_round(actor=world.vera, key=key)
    with pytest.raises(PermissionDenied):
        accept_round(actor=world.mo, key=key)
    client.force_login(world.mo)
    assert "wait for your answer" not in client.get("/").text
    client.force_login(world.carla)
    assert 'title="1 wait for your answer">1<' in client.get("/").text
    assert f"/controllers/rounds/{key}/accept" in client.get("/controllers/").text
    answer = client.post(f"/api/rounds/{key}/accept").json()
    assert (answer["phase"], answer["asked_of"], answer["may_be_taken_back"]) == ("asked", [], False)
    assert opened(record)
    assert "wait for your answer" not in client.get("/").text
    with pytest.raises(InvalidTransition):
        accept_round(actor=world.carla, key=key)
    played.run(120)
    assert rounds() == ["kept"] and told(world, record)["state"] == "met"


def test_a_yes_waits_for_the_plan_that_is_being_enacted(world: World, played: Played, record: DataflowRecord) -> None:
    mode(world, "recommends")
    played.run(20)
    key = RoundRow.objects.get().key
    plan = approved(planned(world.carla, world.city, document("another", window=20)), world.ana)
    with pytest.raises(InvalidTransition, match="the one to submit another"):
        accept_round(actor=world.carla, key=key)
    row = RoundRow.objects.get()
    assert (row.answer, row.asked_of, opened(record)) == ("", ["city"], frozenset()), "nothing of the answer is kept"
    enacted(plan)
    accept_round(actor=world.carla, key=key)
    assert opened(record)


def test_a_plan_waits_for_modes_that_are_being_changed(world: World, played: Played, record: DataflowRecord) -> None:
    played.run(15)
    assert opened(record) and rounds() == ["begun"]
    with pytest.raises(InvalidTransition, match="for batches that stay open"):
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
    decline_round(actor=world.carla, key=RoundRow.objects.get().key)
    played.run(60)
    assert rounds() == ["declined"] and not opened(record)
    assert RoundRow.objects.get().why == "It was turned down by carla."


def test_a_question_that_has_answered_itself_is_withdrawn(
    world: World, played: Played, record: DataflowRecord
) -> None:
    mode(world, "recommends")
    played.run(20)
    choose_latency(actor=world.carla, dataflow_id=record.pk, limits=(LatencyLimit(10.0),))
    played.run(100)
    assert rounds() == ["declined"] and "not be chosen any more" in RoundRow.objects.get().why


def test_teams_that_share_a_query_are_asked_unless_they_let_weir_act(
    world: World, played: Played, record: DataflowRecord
) -> None:
    running(world.mo, world.mobility, document("calm", window=20, latency="20 s"), world.ben, world.ana)
    mode(world, "recommends", city=False)
    played.run(30)
    row = RoundRow.objects.filter(phase="asked").get()
    assert (row.mode, row.asked_of) == ("acts", ["mobility"])
    with pytest.raises(PermissionDenied):
        accept_round(actor=world.carla, key=row.key)
    accept_round(actor=world.mo, key=row.key)
    assert opened(record)
    played.run(120)
    row.refresh_from_db()
    assert row.phase == "kept"


def test_what_is_off_stays_as_it_is_and_says_so(world: World, played: Played, record: DataflowRecord) -> None:
    mode(world, "off")
    played.run(20)
    assert rounds() == [] and not opened(record)
    limit = told(world, record)
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


def test_it_is_taken_back_by_hand_and_left_in_peace(world: World, played: Played, record: DataflowRecord) -> None:
    played.run(130)
    row = RoundRow.objects.get()
    assert row.phase == "kept"
    with pytest.raises(PermissionDenied):
        take_back_round(actor=world.vera, key=row.key)
    client = Client()
    client.force_login(world.carla)
    assert f"/controllers/rounds/{row.key}/take_back" in client.get("/controllers/open_batches/").text
    client.post(f"/controllers/rounds/{row.key}/take_back")
    assert not opened(record)
    played.run(120)
    assert rounds() == ["rolled_back"] and not opened(record)
    with pytest.raises(InvalidTransition):
        take_back_round(actor=world.carla, key=row.key)


def test_a_slot_that_refuses_has_micro_batches_at_once(world: World, played: Played, record: DataflowRecord) -> None:
    played.run(60)
    assert opened(record)
    played.refusal = "it runs Python (MapInArrow)"
    played.run(10)
    assert not opened(record), "what cannot be needs no decision"
    played.run(10)
    assert rounds() == ["rolled_back"]
    assert "it runs Python (MapInArrow)" in RoundRow.objects.get().why


def test_what_the_pacer_writes_loses_no_mode(world: World, played: Played, record: DataflowRecord) -> None:
    """It had read the modes when they were changed."""
    played.run(14)
    paces = FragmentPace.objects.in_bulk()
    played.run(1)
    assert opened(record)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(type(FragmentPace.objects), "in_bulk", lambda *_, **__: paces)
        played.steps = False
        played.run(10)
    assert opened(record)


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
    query, heir = moved(world, record)
    paces = FragmentPace.objects.in_bulk([query, heir])
    assert paces[heir].real_time and paces[heir].trigger_ms == paces[query].trigger_ms
    played.run(60)
    assert opened(record) == {heir} and rounds() == ["kept"], "nothing was decided anew"
    assert not FragmentPace.objects.filter(pk=query).exists()


def test_a_slot_full_of_open_batches_gives_what_comes_micro_batches(
    world: World, played: Played, record: DataflowRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    played.run(130)
    monkeypatch.setattr(modes, "MOST_A_SLOT", 0)
    moved(world, record)
    assert not opened(record)


def test_a_dry_run_plays_the_rates_that_were_kept(world: World, played: Played, record: DataflowRecord) -> None:
    played.steps = False
    played.run(600)
    FragmentRow.objects.update(started_at=played.at - timedelta(hours=1))
    frames = list(COLLECTORS["modes"].frames(played.at - timedelta(minutes=40), played.at))
    assert not frames[0].evidence.changes, "nothing was kept of that time"
    result = dry_run(Opening(), frames, {"city": Policy("acts", 9, 9, 60.0)})
    [turn] = result.rounds
    assert turn.decision.target == str(record.pk) and "50 ms" in turn.decision.why
    assert not opened(record)
    page = selectors.played(viewer_of(world.vera), Opening(), team="city", hours=1, policy=Policy("off"))
    assert page.frames == 13
