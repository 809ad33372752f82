"""Who sets which alternate is on: sources of their own by policies, and people, who hold what they set."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from dashboard.approvals.lifecycle import EXECUTING
from dashboard.approvals.models import Proposal
from dashboard.approvals.policy_drafts import PolicyDraft
from dashboard.approvals.policy_retention import forget_policies
from dashboard.approvals.services import (
    pause_dataflow,
    prepare_proposal,
    release_alternate,
    roll_back_proposal,
    switch_alternate,
)
from dashboard.approvals.services.alternate_holds import HELD_FOR
from dashboard.approvals.services.source_switches import propose_switches
from dashboard.audit.models import AuditEntry
from dashboard.catalog.models import DataflowRecord
from dashboard.history.models import AnnotationRow
from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.operations.models import AlternateHold, KeyHold, PolicyVersion
from dashboard.operations.policies import policy_choosers
from dashboard.operations.policies.guard_watches import GuardWatches, elements_of
from dashboard.operations.policies.policy_choosers import PolicyChoosers
from dashboard.operations.policies.policy_reader import hold_of, policy_told
from dashboard.teams.account_errors import InvalidValue
from dashboard.teams.permissions import viewer_of
from scheduler.guards.policy_sources import MODELS, WantedSwitch
from scheduler.history.series import SWITCHED
from scheduler.model.errors import NotFound, PermissionDenied
from tests.dashboard.building import World, approved, enacted, running
from tests.dashboard.policies import NOW_S, in_force, posted, rates, switched, two

pytestmark = pytest.mark.django_db


@pytest.fixture
def record(world: World) -> DataflowRecord:
    return running(world.carla, world.city, switched("air"), world.ana)


class _Model:
    """A policy source of its own, as a model would be."""

    stored = 0

    def look(self, estate: Any, values: Any, now_s: int) -> list[WantedSwitch]:
        return [WantedSwitch(element.task, "few", "it has learned so", MODELS)
                for element in elements_of(estate, MODELS).values() if element.on != "few"]

    def store(self) -> None:
        type(self).stored += 1


def test_a_source_of_its_own_decides_for_the_tasks_whose_policies_name_it(
    world: World, record: DataflowRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    choosers = {**policy_choosers.CHOOSERS, MODELS: _Model}
    monkeypatch.setattr("dashboard.approvals.policy_drafts.CHOOSERS", choosers)
    sources = PolicyChoosers(choosers)
    assert sources.look(load_estate(), rates(5.0), NOW_S) == []
    in_force(world, record, PolicyDraft(source=MODELS))
    switches = sources.look(load_estate(), rates(5.0), NOW_S)
    [proposal] = propose_switches(switches, load_estate(), at=timezone.now())
    assert proposal.plan.options["source"] == MODELS and proposal.plan.options["reason"] == "it has learned so"
    assert prepare_proposal(proposal_id=proposal.pk).status == EXECUTING, "its policy was approved"
    sources.store()
    assert _Model.stored == 1


def test_an_alternate_is_held_for_a_stated_time_and_released(world: World, record: DataflowRecord) -> None:
    in_force(world, record)
    held = prepare_proposal(proposal_id=switch_alternate(
        actor=world.carla, dataflow_id=record.pk, task="work", alternate="all", hold_s=7200).pk)
    enacted(approved(held, world.ana))
    done = Proposal.objects.get(pk=held.pk).finished_at
    [task] = elements_of(load_estate(), "rules")
    assert hold_of(task, at=done).until == done + timedelta(hours=2) and hold_of(task, at=done).alternate == "all"
    watches = GuardWatches()
    watches.look(load_estate(), rates(20.0), NOW_S)
    switches = watches.look(load_estate(), rates(200.0), NOW_S + 1)
    assert switches and propose_switches(switches, load_estate(), at=done + timedelta(minutes=119)) == []
    with pytest.raises(PermissionDenied):
        release_alternate(actor=world.vera, dataflow_id=record.pk, task="work")
    release_alternate(actor=world.carla, dataflow_id=record.pk, task="work")
    assert AuditEntry.objects.filter(verb="dataflow.release_alternate").count() == 1
    with pytest.raises(NotFound, match="Nobody holds"):
        release_alternate(actor=world.carla, dataflow_id=record.pk, task="work")
    assert len(propose_switches(switches, load_estate(), at=done + timedelta(minutes=119))) == 1


def test_each_task_that_is_switched_along_is_held_as_it_is(world: World) -> None:
    record = running(world.carla, world.city, two(), world.ana)
    both = switch_alternate(
        actor=world.carla, dataflow_id=record.pk, task="work", alternate="few", along={"more": "short"})
    enacted(approved(prepare_proposal(proposal_id=both.pk), world.ana))
    held = {name: policy_told(viewer_of(world.carla), record.pk, name).held for name in ("work", "more")}
    assert held == {"work": "few", "more": "short"}


def test_a_switch_that_is_taken_back_holds_nothing(world: World, record: DataflowRecord) -> None:
    proposal = enacted(approved(prepare_proposal(proposal_id=switch_alternate(
        actor=world.carla, dataflow_id=record.pk, task="work", alternate="few").pk), world.ana))
    hold = AlternateHold.objects.get()
    assert hold.until == Proposal.objects.get(pk=proposal.pk).finished_at + HELD_FOR
    roll_back_proposal(actor=world.ana, proposal_id=proposal.pk)
    assert not AlternateHold.objects.exists()


@pytest.mark.parametrize("hold_s", [-1, 0, 59, 32 * 86_400, float("inf"), float("nan")])
def test_an_alternate_is_held_from_a_minute_to_a_month(world: World, record: DataflowRecord, hold_s: float) -> None:
    with pytest.raises(InvalidValue, match="cannot be held"):
        switch_alternate(actor=world.carla, dataflow_id=record.pk, task="work", alternate="few", hold_s=hold_s)


def wanting(record: DataflowRecord, **alternates: str) -> list[WantedSwitch]:
    running_tasks = load_estate().submitted[str(record.pk)].running
    return [WantedSwitch(running_tasks[task], name, f"{task} wants {name}") for task, name in alternates.items()]


class TestAtTheSameTime:
    """What several sources of switches want in one second."""

    def test_of_one_dataflow_it_is_one_plan(self, world: World) -> None:
        record = running(world.carla, world.city, two(), world.ana)
        [proposal] = propose_switches(
            wanting(record, work="few", more="short"), load_estate(), at=timezone.now())
        options = proposal.plan.options
        assert {options["task"]: options["alternate"], **options["along"]} == {"work": "few", "more": "short"}
        assert options["reason"] == "work wants few; more wants short"
        assert propose_switches(wanting(record, more="short"), load_estate(), at=timezone.now()) == [], "it is asked"
        enacted(prepare_proposal(proposal_id=proposal.pk))
        on = {name for settings in load_estate().settings.values() for name in settings.alternates.values()}
        assert on == {"few", "short"}
        texts = AnnotationRow.objects.filter(what=SWITCHED).values_list("text", flat=True)
        assert all(text.startswith("work, more of two: few, short are on, because work wants few; ") for text in texts)
        assert texts

    def test_a_task_that_several_use_switches_by_whichever_can(self, world: World) -> None:
        first = running(world.carla, world.city, switched("air"), world.ana)
        other = running(world.mo, world.mobility, switched("roads"), world.ben, world.ana)
        ways = wanting(first, work="few")
        assert ways == wanting(other, work="few"), "they share it"
        busy, free = sorted([first, other], key=lambda record: str(record.pk))
        approver = {first.pk: world.ana, other.pk: world.ben}[busy.pk]
        author = {first.pk: world.carla, other.pk: world.mo}[busy.pk]
        pause = approved(prepare_proposal(
            proposal_id=pause_dataflow(actor=author, dataflow_id=busy.pk).pk), approver)
        assert pause.status == EXECUTING
        [proposal] = propose_switches(ways, load_estate(), at=timezone.now())
        assert proposal.dataflow_id == free.pk

    def test_a_plan_that_concerns_others_tells_only_what_they_may_know(self, world: World) -> None:
        running(world.mo, world.mobility, switched("roads"), world.ben)
        record = running(world.carla, world.city, two(), world.ana, world.ben)
        [proposal] = propose_switches(wanting(record, more="short", work="few"), load_estate(), at=timezone.now())
        assert proposal.plan.options["reason"] == "work wants few", "City alone has the other task"


def test_what_is_over_and_policies_of_tasks_that_are_gone_are_forgotten(world: World, record: DataflowRecord) -> None:
    in_force(world, record)
    now, [task] = timezone.now(), elements_of(load_estate(), "rules")
    posted(world)
    hour = timedelta(hours=1)
    for name, until in ((task, now + hour), ("gone", now + hour), ("over", now - hour)):
        AlternateHold.objects.create(task=name, alternate="all", until=until, by=world.carla)
        KeyHold.objects.create(task=name, key="m0", alternate="all", until=until, by=world.carla)
    gone = PolicyVersion.objects.get()
    gone.pk, gone.task = None, "gone"
    gone.save()
    going = switch_alternate(actor=world.carla, dataflow_id=record.pk, task="work", alternate="few")
    going = approved(prepare_proposal(proposal_id=going.pk), world.ana)
    assert going.status == EXECUTING
    assert forget_policies(now) == 2, "while a plan is under way tasks may come back"
    assert set(AlternateHold.objects.values_list("task", flat=True)) == {task, "gone"}
    enacted(going)
    assert forget_policies(timezone.now()) == 3
    assert set(KeyHold.objects.values_list("task", flat=True)) == {task}
    assert set(AlternateHold.objects.values_list("task", flat=True)) == {task}
    assert set(PolicyVersion.objects.values_list("task", flat=True)) == {task}
    assert forget_policies(now + timedelta(days=8)) == 3, "the event and the holds"
