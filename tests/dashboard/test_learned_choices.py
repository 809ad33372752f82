"""A learned guard at work: forecasts in the output of a task switch its keys, and another process goes on."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import call_command
from django.test import Client
from django.utils import timezone

from dashboard import jobs
from dashboard.approvals.lifecycle import DONE, PENDING, ROLLED_BACK
from dashboard.approvals.models import Proposal
from dashboard.approvals.services import (
    PolicyDraft,
    prepare_proposal,
    propose_policy,
    release_key,
    roll_back_proposal,
    switch_key,
)
from dashboard.approvals.services.key_holds import TooManyKeys
from dashboard.approvals.wording import step_text
from dashboard.audit.models import AuditEntry
from dashboard.catalog.models import DataflowRecord
from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.operations.live_view.dynamic_reader import dynamic_tasks, with_switches
from dashboard.operations.models import AlternateHold, KeyHold, RunningTaskRow
from dashboard.plans.selectors import plan_of
from dashboard.tasks import learned_choices
from dashboard.tasks.learned_choices import LearnedChoices, outputs_of
from dashboard.teams.account_errors import InvalidValue
from dashboard.teams.permissions import viewer_of
from scheduler.contracts.switches import KeySwitch
from scheduler.guards.policy_sources import PEOPLE
from scheduler.model.bounds import KEYS_BY_HAND
from scheduler.model.errors import NotFound, PermissionDenied
from tests.cases import each
from tests.dashboard.building import World, approved, enacted, running
from tests.dashboard.policies import switched
from workers.engine.keyed_choices import KeyedChoices, chosen_by_key
from workers.library.forecasts import METHODS

pytestmark = pytest.mark.django_db


def document(guard: dict | None, *, name: str = "households") -> str:
    config = {"by": ["meter"], "value": "kwh", "at": "at"}
    return json.dumps({
        "name": name, "tasks": [
            {"id": "meters", "type": "smart_meters"},
            {"id": "next", "begin": "shared", "by": ["meter"], "alternates": [
                {"name": name, "type": "forecast", "config": {**config, "method": name}} for name in METHODS],
             **({} if guard is None else {"learned": guard})},
            {"id": "out", "type": "output", "config": {"name": name}}],
        "streams": [{"from": "meters", "to": "next"}, {"from": "next", "to": "out"}]})


class BrokerOfChoices:
    """What the broker has: an output's events, what was chosen, and what queries were element."""

    def __init__(self) -> None:
        self.events: dict[str, list[dict]] = {}
        self.choices: dict[str, KeyedChoices] = {}
        self.switched: list[tuple[list, dict]] = []
        self.is_away = self.is_killed = False

    def output_tail(self, channel: str, count: int) -> list[dict]:
        if self.is_away:
            raise jobs.BrokerAway("away")
        return self.events.get(channel, [])[-count:]

    def switch_keys(self, task_id: str, places: list, alternates: dict) -> None:
        if self.is_killed:
            raise SystemExit
        self.switched.append((list(places), dict(alternates)))


@pytest.fixture
def broker_of_choices(monkeypatch: pytest.MonkeyPatch) -> BrokerOfChoices:
    broker = BrokerOfChoices()
    monkeypatch.setattr(jobs, "output_tail", broker.output_tail)
    monkeypatch.setattr(jobs, "broker", lambda url: broker)
    monkeypatch.setattr(learned_choices, "read_choices", lambda client, task: client.choices.get(task, KeyedChoices()))
    monkeypatch.setattr(learned_choices, "write_choices", lambda client, *chosen: client.choices.__setitem__(*chosen))
    monkeypatch.setattr(learned_choices, "switch_keys", lambda client, *switched: client.switch_keys(*switched))
    return broker


@pytest.fixture
def record(world: World) -> DataflowRecord:
    return running(world.carla, world.city, document({"bound": 0.2}), world.ana)


def task_id() -> str:
    [task] = [task.id for task in load_estate().tasks.values() if task.type == "dynamic_fold"]
    return task


def forecasts(begin: int, *meters: str) -> list[dict]:
    return [{"_seq": begin + place, "_born": 7, "meter": meter, "error": 0.5,
             "variances": [0.01 * place, 0.3, 0.1, 0, 2]}
            for place, meter in enumerate(meters)]


def test_what_comes_switches_keys_and_a_process_that_is_killed_leaves_nothing_half_done(
    record: DataflowRecord, broker_of_choices: BrokerOfChoices
) -> None:
    broker, estate, task = broker_of_choices, load_estate(), task_id()
    [channel] = outputs_of(estate, task)
    place = estate.places[task]
    chooser = LearnedChoices()
    assert chooser.look(estate, {}, 1) == () and broker.switched == [([place], {})]
    broker.events[channel] = forecasts(1, "m0", "m1")
    chooser.look(estate, {}, 2)
    first = chosen_by_key(KeyedChoices(), broker.events[channel], by=["meter"], among=METHODS, bound=0.2)
    assert broker.choices[task] == first and broker.switched[-1] == ([place], first.alternates)
    chooser.look(estate, {}, 3)
    assert len(broker.switched) == 2, "nothing new, nothing told"

    broker.events[channel] += forecasts(3, "m0", "m2")
    broker.is_killed = True
    with pytest.raises(SystemExit):  # killed after it has written what it chose
        chooser.look(estate, {}, 4)
    broker.is_killed = False
    LearnedChoices().look(estate, {}, 5)
    whole = chosen_by_key(KeyedChoices(), broker.events[channel], by=["meter"], among=METHODS, bound=0.2)
    assert broker.choices[task] == whole and broker.switched[-1] == ([place], whole.alternates)
    assert whole.states.keys() == {"m0", "m1", "m2"}


def test_a_broker_that_is_away_is_read_later(record: DataflowRecord, broker_of_choices: BrokerOfChoices) -> None:
    broker, estate, chooser = broker_of_choices, load_estate(), LearnedChoices()
    [channel] = outputs_of(estate, task_id())
    broker.events[channel], broker.is_away = forecasts(1, "m0"), True
    assert chooser.look(estate, {}, 1) == () and not broker.choices
    broker.is_away = False
    chooser.look(estate, {}, 2)
    assert broker.choices[task_id()].states.keys() == {"m0"}


def test_an_output_that_rests_is_not_read_where_another_one_works(record: DataflowRecord, world: World) -> None:
    [first] = outputs_of(load_estate(), task_id())
    running(world.carla, world.city, document({"bound": 0.2}, name="others"), world.ana)
    estate = load_estate()
    sinks = {task.id: estate.fragments[estate.places[task.id][0]] for task in estate.tasks.values()
             if task.type == "output"}
    channels = {sink: fragment.channel_of(sink) for sink, fragment in sinks.items()}
    assert len(channels) == 2 and first in channels.values()

    def working(*names: str) -> list[str]:
        fragments = dict(estate.fragments)
        for sink in sinks.keys() - set(names):
            fragment = fragments[estate.places[sink][0]]
            begin = fragment.tasks.index(sink)
            fragments[fragment.id] = replace(fragment, active=begin, resting=len(fragment.tasks) - begin)
        return list(outputs_of(replace(estate, fragments=fragments), task_id()))

    assert [working(sink) for sink in sinks] == [[channels[sink]] for sink in sinks] and working() == []


@pytest.mark.parametrize("wrong", ["no list", [1, "no number"], {"a": 1}])
def test_an_output_that_cannot_be_read_stops_nobody_else(
    record: DataflowRecord, broker_of_choices: BrokerOfChoices, wrong: object
) -> None:
    broker, estate, chooser = broker_of_choices, load_estate(), LearnedChoices()
    [channel] = outputs_of(estate, task_id())
    broker.events[channel] = [{**event, "variances": wrong} for event in forecasts(1, "m0")]
    assert chooser.look(estate, {}, 1) == () and chooser.are_there and not broker.choices
    broker.events[channel] = forecasts(2, "m1")
    chooser.look(estate, {}, 2)
    assert broker.choices[task_id()].states.keys() == {"m1"}


def test_without_a_learned_guard_nobody_chooses(world: World, broker_of_choices: BrokerOfChoices) -> None:
    running(world.carla, world.city, document(None), world.ana)
    LearnedChoices().look(load_estate(), {}, 1)
    assert [table for _, table in broker_of_choices.switched] == [{}] and not broker_of_choices.choices


def test_the_recorded_sequence_has_what_changed_for_which_keys(
    record: DataflowRecord, monkeypatch: pytest.MonkeyPatch, world: World
) -> None:
    noted = (KeySwitch({"m0": "tree", "m1": "tree", "m2": "casce"}, "q", 8, 71, 5),
             KeySwitch({"m1": "casce", "m2": ""}, "q", 9, 90, 6))
    monkeypatch.setattr(
        jobs, "switches_of", lambda tasks, of_keys=False: dict.fromkeys(tasks, noted if of_keys else ()))
    [task] = with_switches(viewer_of(world.carla), dynamic_tasks(viewer_of(world.carla), record.pk))
    assert task.by == ("meter",) and task.key_switches == noted
    assert task.keys_by_alternate == {"tree": 1, "casce": 1}, "of each key what was noted last"


@each("wrong", [
    {"variances": "abcde"}, {"variances": [-9.0] * 5}, {"variances": ["a"] * 5}, {"variances": [0.1]},
    {"error": "large", "variances": [0.1] * 5}, {"_born": None}])
def test_an_output_that_holds_no_forecasts_takes_no_other_task_with_it(
    world: World, record: DataflowRecord, broker_of_choices: BrokerOfChoices, wrong: dict
) -> None:
    other = json.loads(document({"bound": 0.3}))
    running(world.carla, world.city, json.dumps(other | {"name": "others"}), world.ana)
    broker, estate, chooser = broker_of_choices, load_estate(), LearnedChoices()
    tasks = [task.id for task in estate.tasks.values() if task.type == "dynamic_fold"]
    assert len(tasks) == 2
    channels = {task: channel for task in tasks for channel in outputs_of(estate, task)}
    for hostile, channel in channels.items():
        broker.choices.clear()
        broker.events = {channel: forecasts(1, "m0") for channel in channels.values()}
        broker.events[channel] = [{**event, **wrong} for event in forecasts(1, "m0", "m0")]
        chooser = LearnedChoices()
        assert chooser.look(estate, {}, 1) == chooser.look(estate, {}, 2) == ()
        assert set(broker.choices) - {hostile} == set(tasks) - {hostile}
        broker.events[channel] = forecasts(1, "m0")
        chooser.look(estate, {}, 3)
        assert set(broker.choices) == set(tasks), "and it goes on with what comes then"


def test_keys_of_events_that_a_credential_reads_are_for_its_team(
    record: DataflowRecord, monkeypatch: pytest.MonkeyPatch, world: World
) -> None:
    noted = KeySwitch({"m0": "tree"}, "q", 8, 71, 5)
    monkeypatch.setattr(
        jobs, "switches_of", lambda tasks, of_keys=False: dict.fromkeys(tasks, (noted,) if of_keys else ()))
    estate = load_estate()
    source = RunningTaskRow.objects.get(pk=estate.tasks[task_id()].parents[0])
    source.config |= {"token": {"secret": "meters", "team": world.city.slug}}
    source.save()
    seen = {}
    for user in (world.carla, world.mo):
        viewer = viewer_of(user)
        [task] = with_switches(viewer, dynamic_tasks(viewer, record.pk))
        seen[user.username] = task.key_switches
    assert seen == {"carla": (noted,), "mo": ()}


# -- by hand ----------------------------------------------------------------------------------------------------------


def key_set(world: World, record: DataflowRecord, key: str, alternate: str, **more: object) -> Proposal:
    proposal = prepare_proposal(proposal_id=switch_key(
        actor=world.carla, dataflow_id=record.pk, task="next", key=[key], alternate=alternate, **more).pk)
    assert proposal.plan.error is None, proposal.plan.error
    return enacted(approved(proposal, world.ana) if proposal.status == PENDING else proposal)


def test_a_key_is_set_by_hand_whatever_is_learned_and_released(
    world: World, record: DataflowRecord, broker_of_choices: BrokerOfChoices
) -> None:
    broker, chooser, at_s = broker_of_choices, LearnedChoices(), int(timezone.now().timestamp())
    [channel] = outputs_of(load_estate(), task_id())
    broker.events[channel] = forecasts(1, "m0", "m1")
    chooser.look(load_estate(), {}, at_s)
    learned = dict(broker.switched[-1][1])
    proposal = key_set(world, record, "m1", "tree", hold_s=600)
    plan = plan_of(proposal.plan)
    assert [step_text(plan, step, {task_id(): "next"}) for step in plan.steps] == [
        "Switch next to its alternate tree for m1"]
    chooser.look(load_estate(), {}, at_s + 1)
    assert broker.switched[-1][1] == learned | {"m1": "tree"}
    broker.events[channel] += forecasts(5, "m1", "m1")
    chooser.look(load_estate(), {}, at_s + 2)
    assert broker.switched[-1][1]["m1"] == "tree" == broker.choices[task_id()].in_force["m1"]
    [element] = dynamic_tasks(viewer_of(world.carla), record.pk)
    [held] = element.held_keys
    assert (held.key, held.alternate, held.by) == (("m1",), "tree", "carla")

    LearnedChoices().look(load_estate(), {}, at_s + 700)  # its time is over, in another process
    assert broker.switched[-1][1] == broker.choices[task_id()].alternates
    with pytest.raises(PermissionDenied):
        release_key(actor=world.vera, dataflow_id=record.pk, task="next", key=["m1"])
    release_key(actor=world.carla, dataflow_id=record.pk, task="next", key=["m1"])
    assert not KeyHold.objects.exists()
    [row] = AuditEntry.objects.filter(verb="dataflow.release_key")
    assert row.details["key"] == ["m1"]
    with pytest.raises(NotFound, match="Nobody has set"):
        release_key(actor=world.carla, dataflow_id=record.pk, task="next", key=["m1"])


@pytest.mark.long  # test_alternates.py rolls a switch back
def test_a_key_set_by_hand_is_rolled_back_like_any_plan(
    world: World, record: DataflowRecord, broker_of_choices: BrokerOfChoices
) -> None:
    first, other = (key_set(world, record, key, "tree") for key in ("m1", "m2"))
    roll_back_proposal(actor=world.ana, proposal_id=first.pk)
    assert [hold.key for hold in KeyHold.objects.all()] == ["m2"]
    assert enacted(Proposal.objects.select_related("rollback_plan", "plan").get(pk=first.pk)).status == ROLLED_BACK
    assert other.status == DONE


def test_keys_by_hand_are_bounded_and_are_keys(
    world: World, record: DataflowRecord, broker_of_choices: BrokerOfChoices, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dashboard.approvals.services.key_holds.KEYS_BY_HAND", replace(KEYS_BY_HAND, most=2))
    key_set(world, record, "m1", "tree")
    switch_key(actor=world.carla, dataflow_id=record.pk, task="next", key=["m2"], alternate="tree")  # is open
    with pytest.raises(TooManyKeys, match="2 keys of next"):
        switch_key(actor=world.carla, dataflow_id=record.pk, task="next", key=["m3"], alternate="tree")
    switch_key(actor=world.carla, dataflow_id=record.pk, task="next", key=["m1"], alternate="arima")
    for wrong in (["m1", "m2"], [], ["m" * 201], [" "], [""]):
        with pytest.raises(InvalidValue, match="no key of next"):
            switch_key(actor=world.carla, dataflow_id=record.pk, task="next", key=wrong, alternate="tree")


def test_a_task_without_a_key_has_none_set_by_hand(world: World) -> None:
    record = running(world.carla, world.city, switched("air"), world.ana)
    with pytest.raises(InvalidValue, match="one alternate for all keys"):
        switch_key(actor=world.carla, dataflow_id=record.pk, task="work", key=["m1"], alternate="few")


def test_pages_answers_and_commands_set_show_and_release_a_key(
    world: World, record: DataflowRecord, broker_of_choices: BrokerOfChoices, client: Client,
    monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "switches_of", lambda tasks, **_: dict.fromkeys(tasks, ()))
    client.force_login(world.carla)
    address = f"/api/dataflows/{record.pk}/alternates"
    answer = client.post(address, json.dumps({"task": "next", "alternate": "tree", "key": ["m7"]}),
                         content_type="application/json")
    assert answer.status_code == 200, answer.content
    proposal = prepare_proposal(proposal_id=answer.json()["id"])
    enacted(approved(proposal, world.ana) if proposal.status == PENDING else proposal)
    assert [held["key"] for held in client.get(address).json()[0]["held_keys"]] == [["m7"]]
    page = client.get(f"/dataflows/{record.pk}/dynamic").content.decode()
    assert 'data-held-key="m7"' in page and 'data-part="set-key"' in page and "1 is set by hand, of 100 at most" in page
    out = StringIO()
    call_command("switch", "households", username="carla", stdout=out)
    assert "carla holds tree for m7 until" in out.getvalue()
    posted = client.post(f"/dataflows/{record.pk}/dynamic/next/hold", {"key": "m7", "release": "1"})
    assert posted.status_code == 302 and not KeyHold.objects.exists()
    call_command("switch", "households", "next", "tree", key=["m8"], username="carla", stdout=StringIO())
    assert Proposal.objects.open().get().plan.options["of_key"] == "m8"
    key_set(world, record, "m9", "tree")
    assert client.post(f"{address}/next/release?key=m7").status_code == 404
    assert client.post(f"{address}/next/release?key=m9").status_code == 200 and not KeyHold.objects.exists()


def test_what_somebody_holds_or_leaves_to_people_is_left_alone(
    world: World, record: DataflowRecord, broker_of_choices: BrokerOfChoices
) -> None:
    broker, chooser = broker_of_choices, LearnedChoices()
    [channel] = outputs_of(load_estate(), task_id())
    broker.events[channel] = forecasts(1, "m0")
    hold = AlternateHold.objects.create(
        task=task_id(), alternate=min(METHODS), until=timezone.now() + timedelta(hours=1), by=world.carla)
    chooser.look(load_estate(), {}, 1)
    assert not broker.choices and [table for _, table in broker.switched] == [{}]
    hold.delete()
    chooser.look(load_estate(), {}, 2)
    assert broker.choices[task_id()].states.keys() == {"m0"}
    enacted(approved(prepare_proposal(proposal_id=propose_policy(
        actor=world.carla, dataflow_id=record.pk, task="next", draft=PolicyDraft(source=PEOPLE)).pk), world.ana))
    broker.events[channel] += forecasts(5, "m1")
    chooser.look(load_estate(), {}, 3)
    assert broker.choices[task_id()].states.keys() == {"m0"}
