"""Emergency stops: a dataflow is paused at once, by whoever may submit it, and its team is told."""

from __future__ import annotations

from io import StringIO

import pytest
from django.core.management import call_command
from django.test import Client
from django.utils import timezone

from dashboard.alerts.models import Alert
from dashboard.approvals.emergency_stops import emergency_stops
from dashboard.approvals.models import Ask, Proposal
from dashboard.approvals.services import (
    cancel_proposal,
    pause_at_once,
    pause_dataflow,
    prepare_proposal,
    resume_dataflow,
    roll_back_proposal,
    set_rules,
)
from dashboard.approvals.services.following import follow_plans
from dashboard.approvals.services.source_switches import propose_switches
from dashboard.approvals.services.submission import UNBOUNDED_STOPS
from dashboard.audit.models import AuditEntry
from dashboard.catalog.models import DataflowRecord
from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.outbox.models import Delivery
from dashboard.teams.team_limits import AskedTooOften, TeamLimitReached
from scheduler.alerting.grouping import WAIT_S
from scheduler.approving import Freeze, Rules
from scheduler.contracts.reports import Reports
from scheduler.guards.policy_sources import WantedSwitch
from scheduler.model.errors import InvalidTransition, NotFound, PermissionDenied
from scheduler.model.names import NameNotPlain
from tests.dashboard.alerting import AlertingEstate
from tests.dashboard.building import World, approved, document, dynamic, enacted, planned, running
from tests.dashboard.rearranging import paused, prepared, status

pytestmark = pytest.mark.django_db
FAR_MS = 100 * 365 * 24 * 3600 * 1000


@pytest.fixture
def traffic(world: World) -> DataflowRecord:
    return running(world.carla, world.city, document("traffic"), world.ana)


def stopped(world: World, record: DataflowRecord, reason: str = "It writes wrong rows.") -> Proposal:
    """An emergency stop by an engineer, planned."""
    return prepared(pause_at_once(actor=world.carla, dataflow_id=record.pk, reason=reason))


def test_an_engineer_alone_stops_and_those_who_share_go_on(world: World, traffic: DataflowRecord) -> None:
    other = running(world.mo, world.mobility, document("jams", window=20), world.ben, world.ana)
    before = load_estate()
    proposal = stopped(world, traffic)
    assert (proposal.status, status(traffic)) == ("executing", "pausing")
    assert not Ask.objects.filter(plan=proposal.plan).exists()
    enacted(proposal)
    after = load_estate()
    assert (status(traffic), status(other)) == ("paused", "running")
    for task in before.submitted[str(other.pk)].running.values():
        fragment = after.fragments[after.places[task][0]]
        assert task in fragment.active_tasks, "what the other one needs works on, in the query that it had"
        assert after.places[task] == before.places[task]
    entry = AuditEntry.objects.get(verb="dataflow.pause_at_once")
    assert (entry.actor, entry.details["reason"]) == (world.carla, "It writes wrong rows.")


def test_no_freeze_and_no_limit_holds_it_up(world: World, traffic: DataflowRecord, settings) -> None:
    set_rules(actor=world.ana, team=world.city, rules=Rules(freezes=(Freeze(0, FAR_MS, "the fair"),)))
    settings.TEAM_PROPOSALS = settings.TEAM_PLANS_PER_H = 0
    with pytest.raises((TeamLimitReached, AskedTooOften)):
        pause_dataflow(actor=world.carla, dataflow_id=traffic.pk)
    assert stopped(world, traffic).status == "executing"


def test_a_pause_that_waits_gives_way_and_asking_twice_is_one(world: World, traffic: DataflowRecord) -> None:
    waiting = prepared(pause_dataflow(actor=world.carla, dataflow_id=traffic.pk))
    first = pause_at_once(actor=world.carla, dataflow_id=traffic.pk, reason="It writes wrong rows.")
    assert pause_at_once(actor=world.ana, dataflow_id=traffic.pk, reason="Stop it!") == first
    waiting.refresh_from_db()
    assert waiting.status == "cancelled"
    enacted(prepared(first))
    with pytest.raises(InvalidTransition):
        stopped(world, traffic)


def test_who_may_not_submit_may_not_stop_and_a_reason_is_needed(world: World, traffic: DataflowRecord) -> None:
    for actor in (world.vera, world.mo):
        with pytest.raises(PermissionDenied):
            pause_at_once(actor=actor, dataflow_id=traffic.pk, reason="It writes wrong rows.")
    private = running(world.carla, world.city, document("secret", visibility="private"), world.ana)
    with pytest.raises(NotFound):
        pause_at_once(actor=world.mo, dataflow_id=private.pk, reason="It writes wrong rows.")
    for reason in ("", "  ", "a\nb", "x" * 301):
        with pytest.raises(NameNotPlain):
            pause_at_once(actor=world.carla, dataflow_id=traffic.pk, reason=reason)
    assert not Proposal.objects.filter(plan__kind="pause").exists()


def test_its_approvers_are_told_until_it_is_resumed_as_ever(
    world: World, traffic: DataflowRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.ana.email = "ana@example.org"
    world.ana.save()
    estate = AlertingEstate(monkeypatch)
    enacted(stopped(world, traffic))
    [alert] = estate.round()
    assert (alert.kind, alert.phase, alert.severity) == ("emergency_stop", "firing", "critical")
    assert alert.text == "carla paused traffic at once: It writes wrong rows."
    estate.round(seconds=WAIT_S)
    [mail] = Delivery.objects.all()
    assert mail.to == "ana@example.org" and "It writes wrong rows." in mail.payload["text"]
    proposal = prepared(resume_dataflow(actor=world.carla, dataflow_id=traffic.pk))
    assert proposal.status == "pending" and [team.slug for team in proposal.teams.all()] == ["city"]
    enacted(approved(proposal, world.ana))
    estate.round()
    assert [alert.phase for alert in Alert.objects.all()] == ["resolved"]


def test_what_an_approved_pause_rests_is_no_emergency(world: World, traffic: DataflowRecord) -> None:
    stop = stopped(world, traffic)
    assert set(emergency_stops([traffic.pk])) == {str(traffic.pk)}
    roll_back_proposal(actor=world.ana, proposal_id=stop.pk)
    assert emergency_stops([traffic.pk]) == {} and status(traffic) == "running"
    stop.refresh_from_db()
    enacted(stop)
    paused(world, traffic)
    assert emergency_stops([traffic.pk]) == {}


def test_page_api_and_command_stop(world: World, traffic: DataflowRecord, client: Client) -> None:
    client.force_login(world.carla)
    address = f"/dataflows/{traffic.pk}/pause-at-once"
    assert address in client.get(f"/dataflows/{traffic.pk}/").text
    assert 'data-flash="name_not_plain"' in client.post(address, follow=True).text
    client.post(address, {"reason": "It writes wrong rows."})
    enacted(prepare_proposal(proposal_id=Proposal.objects.get(plan__kind="pause").pk))
    page = client.get(f"/dataflows/{traffic.pk}/").text
    assert 'data-note="stopped"' in page and "It writes wrong rows." in page and address not in page
    jams = running(world.carla, world.city, document("jams", window=20), world.ana)
    answer = client.post(
        f"/api/dataflows/{jams.pk}/pause-at-once", {"reason": "Enough."}, content_type="application/json")
    assert (answer.status_code, answer.json()["kind"]) == (200, "pause")
    tides = running(world.carla, world.city, document("tides", window=30), world.ana)
    out = StringIO()
    call_command("pause", "tides", "--at-once", "Enough.", stdout=out)
    assert f"/proposals/{Proposal.objects.get(dataflow=tides, plan__kind='pause').pk}/" in out.getvalue()


def test_who_cancels_stops_and_asks_again_meets_the_limits_in_the_end(
    world: World, traffic: DataflowRecord, settings
) -> None:
    other = running(world.carla, world.city, document("jams", window=20), world.ana)
    settings.TEAM_PLANS_PER_H = 0
    for _ in range(UNBOUNDED_STOPS):
        proposal = pause_at_once(actor=world.carla, dataflow_id=traffic.pk, reason="It writes wrong rows.")
        cancel_proposal(actor=world.carla, proposal_id=proposal.pk)
    with pytest.raises(AskedTooOften):
        pause_at_once(actor=world.carla, dataflow_id=traffic.pk, reason="It writes wrong rows.")
    assert stopped(world, other).status == "executing", "one dataflow's stops hold up no other's"


def at_first_report() -> None:
    """Nodes report for the first time, and nothing of what was asked for runs."""
    follow_plans(Reports.of({}), at=timezone.now())


@pytest.mark.parametrize("stop_ends_first", [True, False])
def test_it_overtakes_a_start_that_is_under_way(world: World, stop_ends_first: bool) -> None:
    start = approved(planned(world.carla, world.city, document("traffic")), world.ana)
    record = start.dataflow
    stop = stopped(world, record)
    assert (start.status, stop.status, status(record)) == ("executing", "executing", "pausing")
    for end in ((lambda: enacted(stop)), at_first_report) if stop_ends_first else (at_first_report,):
        end()
    assert Proposal.objects.get(pk=start.pk).status == "done", "nothing more is to come of it"
    assert status(record) == ("paused" if stop_ends_first else "pausing")
    enacted(Proposal.objects.get(pk=stop.pk))
    assert status(record) == "paused"
    enacted(approved(prepared(resume_dataflow(actor=world.carla, dataflow_id=record.pk)), world.ana))
    assert status(record) == "running"


def test_it_overtakes_switches_that_guards_make(world: World) -> None:
    record = running(world.carla, world.city, dynamic("air"), world.ana)
    task = load_estate().submitted[str(record.pk)].running["work"]
    [switch] = propose_switches([WantedSwitch(task, "few", "rate = 9")], load_estate(), at=timezone.now())
    assert prepared(switch).status == "executing"
    stop = stopped(world, record)
    assert (stop.status, status(record)) == ("executing", "pausing")
    at_first_report()
    assert Proposal.objects.get(pk=switch.pk).status == "done" and status(record) == "pausing"
