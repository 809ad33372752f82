"""Controllers on the site: from a decision to a promise that is kept, or broken and taken back; kills; dry runs."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from dashboard import jobs
from dashboard.approvals.lifecycle import CANCELLED, DONE, EXECUTING, PENDING, ROLLING_BACK
from dashboard.approvals.models import Ask, Proposal
from dashboard.approvals.services import adapting, reject_proposal, roll_back_proposal
from dashboard.audit.models import AuditEntry
from dashboard.catalog.models import DataflowRecord
from dashboard.controllers import loop_runner, selectors
from dashboard.controllers.collecting import COLLECTORS
from dashboard.controllers.models import ReasonRow, RoundRow
from dashboard.controllers.services import InvalidPolicy, policy_of, set_mode, set_policy
from dashboard.controllers.site_world import StoredWorld
from dashboard.controllers.stored_rounds import policies_of
from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.operations.models import FragmentRow
from dashboard.tasks.controlling import ACTUATORS
from dashboard.teams.permissions import viewer_of
from scheduler.approving import Clause, Rules
from scheduler.controllers.controller_registry import CONTROLLERS
from scheduler.controllers.loop_values import Policy
from scheduler.model.errors import NotFound, PermissionDenied
from scheduler.model.plan_kinds import DEFRAGMENT
from tests.cases import each
from tests.dashboard.building import (
    World,
    approved,
    document,
    enacted,
    held_to_estate,
    planned,
    removal_planned,
    ruled,
    running,
)
from tests.dashboard.controlling import Loop, made_by_weir, measured, phases
from tests.dashboard.rearranging import prepared


@pytest.fixture
def loop(world: World, settings, monkeypatch: pytest.MonkeyPatch) -> Loop:
    settings.DEFRAGMENT_RATIO = 0.0
    monkeypatch.setattr(jobs, "read_live", lambda *_: jobs.LiveReading())
    return Loop(world)


@pytest.fixture
def fragmented(world: World, loop: Loop) -> DataflowRecord:
    """A dataflow in two queries, because the one whose chain was continued is gone."""
    first = running(world.carla, world.city, document("traffic"), world.ana)
    remaining = running(world.carla, world.city, document("jams", window=20), world.ana)
    enacted(approved(removal_planned(world.carla, first), world.ana))
    return remaining


def fused(loop: Loop) -> Proposal:
    """The proposal of a defragmentation that acts, carried out."""
    loop.set("acts")
    loop.run()
    [proposal] = made_by_weir()
    prepared(proposal)
    proposal.refresh_from_db()
    assert proposal.status == EXECUTING and not proposal.teams.exists()
    return enacted(proposal)


def afterwards(loop: Loop, record: DataflowRecord, **figures: float) -> None:
    """Let the time of a promise pass, and history say this of it."""
    estate = load_estate()
    tasks = set(estate.submitted[str(record.pk)].running.values())
    loop.run()
    measured(
        loop.at, loop.at + timedelta(minutes=16), dataflow=str(record.pk), queries=list(estate.fragments), tasks=tasks,
        **figures)
    loop.run(later_s=960)


def before(loop: Loop, record: DataflowRecord, *, cores: float = 0.6) -> None:
    """What was measured of a dataflow until now."""
    estate = load_estate()
    measured(
        loop.at - timedelta(minutes=9), loop.at, dataflow=str(record.pk), queries=list(estate.fragments),
        tasks=set(estate.submitted[str(record.pk)].running.values()), cores=cores)


# From decision to promise ---------------------------------------------------------------------------------------------


def test_it_recommends_one_step_to_a_team_that_wants_it(world: World, loop: Loop, fragmented: DataflowRecord):
    loop.set("off")
    loop.run()
    assert made_by_weir() == []
    loop.set("recommends")
    loop.run(later_s=310)
    [proposal] = made_by_weir()
    assert (proposal.author_name, proposal.plan.kind) == ("Weir", DEFRAGMENT.name)
    proposal = prepared(proposal)
    assert proposal.status == PENDING and [team.slug for team in proposal.teams.all()] == ["city"]
    loop.run(later_s=310)
    assert phases() == ["asked"] and len(made_by_weir()) == 1, "one is open"
    reject_proposal(actor=world.ana, proposal_id=proposal.pk, comment="Not now.")
    loop.run(later_s=310)
    loop.run(later_s=310)
    assert phases() == ["declined"] and RoundRow.objects.get().why == "ana turned it down: Not now."
    assert "turned down" in ReasonRow.objects.first().why and len(made_by_weir()) == 1
    assert {"controller.begin", "controller.asked", "controller.declined"} <= set(
        AuditEntry.objects.values_list("verb", flat=True))


def test_a_recommendation_that_is_overtaken_is_taken_back(world: World, loop: Loop, fragmented: DataflowRecord):
    loop.run()
    [proposal] = made_by_weir()
    prepared(proposal)
    loop.run()
    enacted(approved(planned(world.mo, world.mobility, document("apart", rates={"sense": 5})), world.ben))
    held_to_estate(proposal)
    loop.run()
    loop.run(later_s=310)
    proposal.refresh_from_db()
    assert proposal.status == CANCELLED and phases()[0] == "declined"
    loop.run(later_s=310)
    assert len(made_by_weir()) == 2


def test_it_acts_where_every_team_concerned_lets_it_and_keeps_what_helps(loop: Loop, fragmented: DataflowRecord):
    before(loop, fragmented)
    fused(loop)
    assert len(load_estate().fragments) == 1
    afterwards(loop, fragmented, cores=0.3)
    assert phases() == ["kept"]
    row = RoundRow.objects.get()
    assert "0.3 cores (before 0.6" in row.why
    loop.run(later_s=310)
    assert phases() == ["kept"] and ReasonRow.objects.first().why.endswith("as few as they can be.")


@each("rules, asks", [
    (Rules(), 0), (Rules(otherwise=Clause(role="admin")), 0), (Rules(otherwise=Clause(approvals=2)), 2),
    (Rules(clauses=(Clause(kinds=("defragment",), role="admin"),), otherwise=Clause(approvals=2)), 0)])
def test_acting_counts_as_the_approval_of_one(
    world: World, loop: Loop, fragmented: DataflowRecord, rules: Rules, asks: int
):
    ruled(world.city, rules, world.ana, world.abe)
    loop.set("acts")  # by an admin, alone
    loop.run()
    proposal = prepared(*made_by_weir())
    assert proposal.status == (PENDING if asks else EXECUTING)
    assert Ask.objects.get(plan=proposal.plan).approvals == asks
    if asks:
        assert approved(proposal, world.ana).status == PENDING and approved(proposal, world.abe).status == EXECUTING


def test_what_did_not_bring_what_was_promised_is_taken_back(world: World, loop: Loop, fragmented: DataflowRecord):
    before(loop, fragmented)
    as_it_was = sorted(part.kept_tasks for part in load_estate().fragments.values())
    proposal = fused(loop)
    afterwards(loop, fragmented, cores=0.9)
    proposal.refresh_from_db()
    assert phases() == ["rolling_back"] and proposal.status == ROLLING_BACK
    assert sorted(part.kept_tasks for part in load_estate().fragments.values()) == as_it_was
    enacted(proposal)
    loop.run()
    assert phases() == ["rolled_back"]
    loop.run(later_s=3600)
    assert phases() == ["rolled_back"], "the same is not tried again"
    assert "broke its promise" in ReasonRow.objects.first().why


@pytest.mark.long  # tests/scheduler/controllers/test_promises.py has promises
def test_later_events_break_a_promise_as_well(loop: Loop, fragmented: DataflowRecord):
    before(loop, fragmented)
    fused(loop)
    afterwards(loop, fragmented, cores=0.3, latency_ms=900.0)
    assert phases() == ["rolling_back"] and "latency, median 900 ms" in RoundRow.objects.get().why


@pytest.mark.long  # tests/scheduler/controllers/test_promises.py has comparable figures
def test_figures_at_another_load_say_nothing(loop: Loop, fragmented: DataflowRecord, monkeypatch):
    """Twice the events take more CPU: that is no broken promise."""
    running_tasks = load_estate().submitted[str(fragmented.pk)].running.values()
    flows = jobs.observed.Flows(tasks={
        task: jobs.observed.TaskFlow(50.0, 1, None, None) for task in running_tasks})
    monkeypatch.setattr(jobs, "read_live", lambda *_: jobs.LiveReading(flows=flows, measured=True))
    before(loop, fragmented)
    fused(loop)
    afterwards(loop, fragmented, cores=0.9, rate_per_s=100.0)
    assert phases() == ["checking"]
    loop.run(later_s=900)
    assert phases() == ["unchecked"]


def test_what_people_approved_is_theirs_to_take_back(world: World, loop: Loop, fragmented: DataflowRecord):
    before(loop, fragmented)
    loop.run()
    [proposal] = made_by_weir()
    enacted(approved(prepared(proposal), world.ana))
    afterwards(loop, fragmented, cores=0.9)
    proposal.refresh_from_db()
    assert (phases(), proposal.status) == (["broken"], DONE)
    enacted(roll_back_proposal(actor=world.ana, proposal_id=proposal.pk))
    loop.run(later_s=310)
    assert phases() == ["rolled_back"]


def test_other_teams_whose_streams_pause_are_asked_unless_they_let_weir_act(world: World, loop: Loop):
    first = running(world.carla, world.city, document("traffic"), world.ana)
    running(world.carla, world.city, document("jams", window=20), world.ana)
    running(world.mo, world.mobility, document("third", window=30), world.ben, world.ana)
    enacted(approved(removal_planned(world.carla, first), world.ana))
    loop.set("acts")
    loop.set("off", team=world.mobility)
    loop.run()
    [proposal] = made_by_weir()
    assert [team.slug for team in prepared(proposal).teams.all()] == ["mobility"]


# Kills ----------------------------------------------------------------------------------------------------------------


class Killed(BaseException):
    """As a worker that is killed: nothing catches it."""


def test_a_worker_that_is_killed_before_a_command_leaves_it_to_the_next(
    world: World, loop: Loop, fragmented: DataflowRecord, monkeypatch
):
    def dies(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(adapting.PlanActuator, "carry_out", dies)
        with pytest.raises(Killed):
            loop.run()
    assert (phases(), made_by_weir()) == (["begun"], [])
    loop.run()
    assert len(made_by_weir()) == 1
    command = loop_runner.take_turn(
        CONTROLLERS["defragmentation"], ACTUATORS["defragmentation"], StoredWorld(loop.at)).commands[0]
    ACTUATORS["defragmentation"].carry_out(command)
    assert len(made_by_weir()) == 1, "a command that is given again is done once"


def test_a_command_that_comes_too_late_does_nothing(world: World, loop: Loop, fragmented: DataflowRecord, monkeypatch):
    """A worker that stood still carries out what it was told, after its round was given up."""
    commands = []
    with monkeypatch.context() as patched:
        patched.setattr(adapting.PlanActuator, "carry_out", lambda _, command: commands.append(command))
        loop.run()
    loop.set("off")
    loop.run()
    loop.run()
    assert phases() == ["declined"]
    ACTUATORS["defragmentation"].carry_out(commands[0])
    assert made_by_weir() == []


def test_a_rollback_that_cannot_be_is_told_and_ends(world: World, loop: Loop, fragmented: DataflowRecord):
    before(loop, fragmented)
    fused(loop)
    enacted(approved(removal_planned(world.carla, fragmented), world.ana))
    loop.run()
    loop.run(later_s=960)
    loop.run(later_s=960)
    assert phases() == ["unchecked"], "what it changed has gone"


def test_a_failing_controller_keeps_no_other_from_its_turn(loop: Loop, fragmented: DataflowRecord, monkeypatch):
    def fails(*_: object, **__: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(CONTROLLERS["remeasuring"], "evaluate", fails, raising=False)
    loop.run()
    assert len(made_by_weir()) == 1


# Settings, budgets, reasons -------------------------------------------------------------------------------------------


def test_who_may_say_what_it_may_do(world: World):
    with pytest.raises(PermissionDenied):
        set_mode(actor=world.ana, controller="defragmentation", team=world.city, mode="acts")
    with pytest.raises(PermissionDenied):
        set_mode(actor=world.dev, controller="remeasuring", team=None, mode="acts")
    with pytest.raises(NotFound):
        set_mode(actor=world.dev, controller="nothing", team=world.city, mode="acts")
    for wrong in (Policy("sometimes"), Policy(changes_per_hour=-1), Policy(cool_down_s=1e9)):
        with pytest.raises(InvalidPolicy):
            set_policy(actor=world.dev, controller="remeasuring", team=world.city, policy=wrong)
    with pytest.raises(InvalidPolicy):
        policy_of(mode="acts", changes_per_hour=1, changes_per_day=1, cool_down_s=float("nan"))
    set_mode(actor=world.root, controller="remeasuring", team=None, mode="off")
    assert policies_of(CONTROLLERS["remeasuring"])[""].mode == "off"
    assert AuditEntry.objects.get(verb="controller.set").details["after"]["mode"] == "off"


@pytest.mark.long  # tests/scheduler/controllers/test_promises.py has the budget
def test_a_used_up_budget_is_said(world: World, loop: Loop, fragmented: DataflowRecord):
    set_policy(
        actor=world.dev, controller="defragmentation", team=world.city, policy=Policy("acts", changes_per_hour=0))
    loop.run()
    assert made_by_weir() == []
    assert ReasonRow.objects.get(dataflow=fragmented).why.startswith("The budget of 0 changes an hour is used up.")


def test_the_same_reason_is_one_reason(loop: Loop, fragmented: DataflowRecord, settings):
    settings.DEFRAGMENT_RATIO = 1e9
    for _ in range(3):
        loop.run(later_s=310)
    reason = ReasonRow.objects.get(dataflow=fragmented)
    assert reason.times == 3 and "not enough" in reason.why and made_by_weir() == []


def test_every_controller_is_told_something_and_carried_out_by_somebody():
    assert set(ACTUATORS) == set(CONTROLLERS)
    assert {controller.reads for controller in CONTROLLERS.values()} == set(COLLECTORS)


def test_nothing_private_shows_to_another_team(world: World, loop: Loop):
    first = running(world.carla, world.city, document("one", visibility="private"), world.ana)
    running(world.carla, world.city, document("other", window=20, visibility="private"), world.ana)
    enacted(approved(removal_planned(world.carla, first), world.ana))
    loop.run()
    assert selectors.rounds(viewer_of(world.vera)).count() == 1
    assert selectors.rounds(viewer_of(world.mo)).count() == 0
    client = Client()
    client.force_login(world.mo)
    assert "other" not in client.get("/controllers/defragmentation/").text
    assert client.get("/api/controllers/defragmentation/rounds").json()["items"] == []
    assert client.get("/api/controllers/defragmentation/dry-run?team=city").status_code == 404


@pytest.mark.parametrize("visibility", ["shared", "private"])
def test_a_round_that_waits_names_the_plan_that_it_waits_for(
    world: World, loop: Loop, fragmented: DataflowRecord, visibility: str
):
    text = document("flood", visibility=visibility, tasks=[  # it shares nothing
        {"id": "sense", "type": "urban_sensing", "config": {"seed": 9}}, {"id": "parse", "type": "senml_parse"},
        {"id": "average", "type": "block_average"}, {"id": "out", "type": "output", "config": {"name": "flood-out"}}])
    other = approved(planned(world.mo, world.mobility, text), world.ben)
    loop.set("acts")
    loop.run()
    assert (phases(), other.status) == (["begun"], EXECUTING)
    for person, is_told in ((world.carla, visibility == "shared"), (world.dev, True)):
        client = Client()
        client.force_login(person)
        page = " ".join(client.get("/controllers/defragmentation/").text.split())
        assert (f'<a href="/proposals/{other.pk}/">the plan to submit flood</a>' in page) is is_told
        assert ("Waits for a plan of another team." in page) is not is_told
    enacted(other)
    assert "Waits for" not in client.get("/controllers/defragmentation/").text


# Dry runs -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("controller", [*CONTROLLERS])
def test_a_dry_run_that_would_take_long_is_given_up(
    world: World, monkeypatch: pytest.MonkeyPatch, controller: str
):
    monkeypatch.setattr(selectors, "WORKS_S", -1.0)
    client = Client()
    client.force_login(world.outsider)  # anybody may ask for one
    answer = client.get(f"/api/controllers/{controller}/dry-run?hours=168")
    assert (answer.status_code, answer.json()["code"]) == (422, "dry_run_too_long")
    assert client.get(f"/controllers/{controller}/dry-run").status_code == 422


def test_a_dry_run_shows_what_it_would_have_done_and_changes_nothing(
    world: World, loop: Loop, fragmented: DataflowRecord, settings
):
    settings.DEFRAGMENT_RATIO = 2.0
    now = timezone.now()
    FragmentRow.objects.update(started_at=now - timedelta(hours=5))
    DataflowRecord.objects.update(created=now - timedelta(hours=5))
    estate = load_estate()
    measured(
        now - timedelta(hours=3), now, dataflow=str(fragmented.pk), queries=list(estate.fragments), cores=0.6,
        tasks=set(estate.submitted[str(fragmented.pk)].running.values()), rate_per_s=40.0)
    played = selectors.played(
        viewer_of(world.vera), CONTROLLERS["defragmentation"], team="city", hours=6, policy=Policy("off"))
    [turn] = played.rounds
    assert turn.decision.target == str(fragmented.pk) and played.frames == 61
    # Its queries have run for a quarter of the day by which it pays: not at once.
    assert (now - timedelta(hours=5)).timestamp() < turn.begun_s < now.timestamp()
    assert any("not enough" in reason.why for _, reason in played.reasons)
    assert (RoundRow.objects.count(), Proposal.objects.filter(author=None).count()) == (0, 0)
    client = Client()
    client.force_login(world.vera)
    answer = client.get("/api/controllers/defragmentation/dry-run?team=city&hours=6").json()
    assert [row["target"] for row in answer["rounds"]] == [str(fragmented.pk)]


