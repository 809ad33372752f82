"""Warming up: a switch to an alternate with state begins it, time ends it, and people end or cancel it."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from dashboard import jobs
from dashboard.approvals.lifecycle import PENDING
from dashboard.approvals.models import Proposal
from dashboard.approvals.policy_drafts import PolicyDraft
from dashboard.approvals.services import prepare_proposal, roll_back_proposal, switch_alternate
from dashboard.approvals.services.alternate_holds import HELD_FOR
from dashboard.approvals.services.source_switches import APART, propose_switches
from dashboard.catalog.models import DataflowRecord
from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.operations.live_view.dynamic_reader import dynamic_tasks, with_switches
from dashboard.operations.models import AlternateHold, FragmentRow
from dashboard.operations.policies.guard_watches import GuardWatches
from dashboard.tasks.warm_ups import WarmUps
from dashboard.teams.permissions import viewer_of
from scheduler.contracts.switches import AlternateSwitch
from scheduler.guards.policy_sources import WantedSwitch
from scheduler.guards.task_figures import subject_of
from scheduler.model.errors import InvalidTransition
from scheduler.model.fragment import RunningTask
from tests.dashboard.building import World, approved, enacted, running
from tests.dashboard.policies import NOW_S, in_force, switched

pytestmark = pytest.mark.django_db
WARM_S = 600


def document() -> str:
    whole = json.loads(switched("air"))
    whole["tasks"][2] = {"id": "work", "begin": "fresh", "warm": "10 min", "alternates": [
        {"name": "long", "type": "block_average", "config": {"window": 100}, "value": 2},
        {"name": "short", "type": "block_average", "config": {"window": 10}, "guard": "rate >= 50"}]}
    return json.dumps(whole)


@pytest.fixture
def record(world: World, monkeypatch: pytest.MonkeyPatch) -> DataflowRecord:
    monkeypatch.setattr(jobs, "switches_of", lambda tasks, **_: {task: tuple(NOTED) for task in tasks})
    NOTED.clear()
    return running(world.carla, world.city, document(), world.ana)


NOTED: list[AlternateSwitch] = []


def task() -> RunningTask:
    [running_task] = [running for running in load_estate().tasks.values() if running.type == "dynamic_fold"]
    return running_task


def at_work() -> str:
    estate = load_estate()
    return estate.settings[estate.places[task().id][0]].alternates[task().id]


def note(on: str, warming: str, at_s: int) -> None:
    query = load_estate().places[task().id][0]
    NOTED.append(AlternateSwitch(on, query, len(NOTED), 10 * len(NOTED), 1000 * at_s, warming))


def by_hand(world: World, record: DataflowRecord, alternate: str, **more: object) -> Proposal:
    proposal = prepare_proposal(proposal_id=switch_alternate(
        actor=world.carla, dataflow_id=record.pk, task="work", alternate=alternate, **more).pk)
    return enacted(approved(proposal, world.ana) if proposal.status == PENDING else proposal)  # what costs less goes on


def warmed(second: int) -> list[WantedSwitch]:
    return list(WarmUps().look(load_estate(), {}, NOW_S + second))


def test_a_switch_warms_up_first_and_its_time_begins_with_its_first_event(world: World, record: DataflowRecord) -> None:
    proposal = by_hand(world, record, "short")
    assert at_work() == "long+short"
    hold = AlternateHold.objects.get()
    finished = Proposal.objects.get(pk=proposal.pk).finished_at
    assert (hold.alternate, hold.until) == ("short", finished + HELD_FOR + timedelta(seconds=WARM_S))
    assert warmed(10_000) == [], "no event of it has come"
    note("long", "", NOW_S - 5)
    note("long", "short", NOW_S)
    assert warmed(WARM_S - 1) == []
    [wanted] = warmed(WARM_S)  # by another process as well
    assert (wanted.alternate, wanted.warmed) == ("short", True)
    later = timezone.now() + 2 * APART
    assert not propose_switches([WantedSwitch(task().id, "long", "a guard")], load_estate(), at=later), "it is held"
    [ends] = propose_switches([wanted], load_estate(), at=later)
    enacted(prepare_proposal(proposal_id=ends.pk))
    assert at_work() == "short" and warmed(10_000) == []
    roll_back_proposal(actor=world.ana, proposal_id=ends.pk)
    assert at_work() == "long", "it does not warm up again"


def test_what_was_cancelled_meanwhile_is_not_switched_on(world: World, record: DataflowRecord) -> None:
    by_hand(world, record, "short")
    note("long", "short", NOW_S)
    [wanted] = warmed(WARM_S)
    ends = propose_switches([wanted], load_estate(), at=timezone.now() + 2 * APART)
    assert len(ends) == 1
    estate = load_estate()
    query = estate.places[task().id][0]
    FragmentRow.objects.filter(pk=query).update(alternates={task().id: "long"})
    assert prepare_proposal(proposal_id=ends[0].pk).plan.error["code"] == InvalidTransition.code


def test_what_does_not_warm_up_is_reviewed_all_the_same(world: World, record: DataflowRecord) -> None:
    """An emergency stop is at once, too, and nobody has to approve that."""
    proposal = prepare_proposal(proposal_id=switch_alternate(
        actor=world.carla, dataflow_id=record.pk, task="work", alternate="short", at_once=True).pk)
    assert (proposal.status, [team.slug for team in proposal.teams.all()]) == (PENDING, ["city"])


def test_people_end_and_cancel_a_warm_up(world: World, record: DataflowRecord) -> None:
    by_hand(world, record, "short")
    by_hand(world, record, "long")
    assert at_work() == "long" and AlternateHold.objects.get().alternate == "long"
    by_hand(world, record, "short", at_once=True)
    assert at_work() == "short"
    by_hand(world, record, "long")
    assert at_work() == "short+long"
    by_hand(world, record, "long", at_once=True)
    assert at_work() == "long"


def test_guards_begin_a_warm_up_once_and_cancel_it(world: World, record: DataflowRecord) -> None:
    rate = subject_of(load_estate(), task().id).series("rate")[0]

    def wanted(watches: GuardWatches, second: int, per_s: float) -> list[str]:
        return [switch.alternate for switch in watches.look(load_estate(), {rate: per_s}, NOW_S + second)]

    document_of = {"long": "rate < 50", "short": "rate >= 50"}
    in_force(world, record, PolicyDraft(document_of, kind="activation"))
    watches = GuardWatches()
    assert wanted(watches, 0, 20.0) == []
    switches = watches.look(load_estate(), {rate: 90.0}, NOW_S + 1)
    [begins] = propose_switches(switches, load_estate(), at=timezone.now())
    enacted(prepare_proposal(proposal_id=begins.pk))
    assert at_work() == "long+short" and not AlternateHold.objects.exists()
    assert wanted(watches, 2, 90.0) == [], "it warms up already"
    switches = watches.look(load_estate(), {rate: 20.0}, NOW_S + 3)
    assert [switch.alternate for switch in switches] == ["long"]
    [cancels] = propose_switches(switches, load_estate(), at=timezone.now() + 2 * APART)
    enacted(prepare_proposal(proposal_id=cancels.pk))
    assert at_work() == "long"


def test_pages_and_answers_say_since_when_and_until_when(world: World, record: DataflowRecord, client: Client) -> None:
    by_hand(world, record, "short")
    note("long", "short", NOW_S)
    viewer = viewer_of(world.carla)
    [element] = with_switches(viewer, dynamic_tasks(viewer, record.pk))
    assert (element.on, element.warming, element.warming_since_ms) == ("long", "short", 1000 * NOW_S)
    assert element.warming_until_ms == 1000 * (NOW_S + WARM_S)
    client.force_login(world.carla)
    [answer] = client.get(f"/api/dataflows/{record.pk}/alternates").json()
    assert (answer["warming"], answer["warming_until_ms"]) == ("short", element.warming_until_ms)
    page = client.get(f"/dataflows/{record.pk}/dynamic").content.decode()
    assert 'data-warming="short"' in page and "data-cancel-warm-up" in page
    assert "short works beside long until" in " ".join(page.split())
    response = client.post(reverse("hold_alternate", args=[record.pk, "work"]), {"alternate": "long"})
    assert response.status_code == 302 and Proposal.objects.open().get().plan.options["alternate"] == "long"
