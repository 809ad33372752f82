"""Schedules that cannot be: refused by page, API and command with code, numbers and remedy, and nothing changes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from dashboard.approvals.models import Proposal
from dashboard.approvals.services import prepare_proposal, propose_schedule, submit_dataflow
from dashboard.audit.models import AuditEntry
from dashboard.catalog.models import DataflowRecord, DataflowVersion
from dashboard.operations.estate_store.estate_loader import stored_estate
from dashboard.operations.models import EstateState, FragmentRow, NodeRow, RunningTaskRow, SlotRow
from dashboard.operations.services import register_node
from dashboard.plans.choices import ScheduleChoice
from dashboard.plans.computing import compute
from dashboard.plans.models import PlanRecord
from scheduler.model.errors import InsufficientSlots, WeirError
from tests.cases import each
from tests.dashboard.building import World, planned
from tests.pages.markup import Markup
from tests.pages.scheduling import linear, measured

KEPT = (Proposal, PlanRecord, DataflowRecord, DataflowVersion, AuditEntry, EstateState, FragmentRow, RunningTaskRow,
        NodeRow, SlotRow)


@dataclass(frozen=True)
class Case:
    """What is asked, and how it is answered: the error's code, and what its message has to tell."""

    code: str
    told: tuple[str, ...]
    rate: str = "50"
    pair: str = "MBA-SAM"
    text: Callable[..., str] = linear
    slots: int = 8


CASES = {
    "a rate that no slot holds": Case("rate_not_held", ("1e+09 events/s of urban_sensing", "one sustains"), rate="1e9"),
    "too few slots": Case("insufficient_slots", ("and 8 are free here", "machines to buy"), rate="1500"),
    "too few slots for the least": Case(
        "insufficient_slots", ("takes at least", "and 8 are free here"), rate="1500", pair="MBA-exact"),
    "no slot": Case("insufficient_slots", ("and 0 are free here", "machines to buy"), slots=0),
    "no slot for the least": Case("insufficient_slots", ("and 0 are free here",), pair="MBA-exact", slots=0),
    "an unknown pair": Case("invalid_choice", ("MBA/FIFO is no pair", "MBA/SAM"), pair="MBA-FIFO"),
    "a rate of 0": Case("invalid_resources", ("0", "no rate"), rate="0"),
    "a rate below 0": Case("invalid_resources", ("-3", "no rate"), rate="-3"),
    "a rate that is no number": Case("invalid_resources", ("nan", "no rate"), rate="nan"),
}
Answer = tuple[str, str]  # code, where the way tells one, and text


def over_the_page(world: World, record: DataflowRecord, case: Case, folder: Path) -> Answer:
    answer = _client(world).post(
        f"/dataflows/{record.pk}/schedule/propose", {"pair": case.pair, "rate": case.rate}, follow=True)
    assert answer.request["PATH_INFO"] == f"/dataflows/{record.pk}/schedule", "it is told where it was chosen"
    return "", unescape(answer.content.decode())


def over_the_api(world: World, record: DataflowRecord, case: Case, folder: Path) -> Answer:
    return _refusal(_client(world).post(
        f"/api/dataflows/{record.pk}/schedule", _choice(case), content_type="application/json"))


def submitted_over_the_api(world: World, record: DataflowRecord, case: Case, folder: Path) -> Answer:
    return _refusal(_client(world).post(
        "/api/dataflows", f'{{"text": {json.dumps(case.text("second"))}, "team": "city", "schedule": {_choice(case)}}}',
        content_type="application/json"))


def by_command(world: World, record: DataflowRecord, case: Case, folder: Path) -> Answer:
    return _commanded("schedule", record.name, case.pair, username="carla", rate=float(case.rate))


def submitted_by_command(world: World, record: DataflowRecord, case: Case, folder: Path) -> Answer:
    (file := folder / "second.json").write_text(case.text("second"))
    return _commanded("submit", str(file), username="carla", schedule=case.pair, rate=float(case.rate))


def _choice(case: Case) -> str:
    return json.dumps({"pair": case.pair.split("-"), "rate_per_s": float(case.rate)})  # NaN, too, as Python writes it


def _client(world: World) -> Client:
    client = Client()
    client.force_login(world.carla)
    return client


def _refusal(answer: Any) -> Answer:
    body = answer.json()
    assert 400 <= answer.status_code < 500 and set(body) == {"code", "message", "remedy", "facts"} and body["remedy"]
    assert answer.status_code == {"invalid_choice": 422, "invalid_resources": 422}.get(body["code"], 409)
    return body["code"], f"{body['message']} {body['remedy']}"


def _commanded(*words: str, **options: Any) -> Answer:
    with pytest.raises(CommandError) as refused:  # the launcher then ends with 1
        call_command(*words, **options)
    assert isinstance(refused.value.__cause__, WeirError)
    return refused.value.__cause__.code, str(refused.value)


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


@pytest.fixture
def record(world: World, case: Case) -> Iterator[DataflowRecord]:
    """A submission that waits for its decision; the test must leave all as it is now."""
    measured(world)
    dataflow = planned(world.carla, world.city, case.text("first")).dataflow
    register_node(name="n1", slots=case.slots)
    before = {model: list(model.objects.order_by("pk").values()) for model in KEPT}
    yield dataflow
    assert {model: list(model.objects.order_by("pk").values()) for model in KEPT} == before


WAYS = (over_the_page, over_the_api, submitted_over_the_api, by_command, submitted_by_command)
FIRST = next(iter(CASES))


@pytest.mark.parametrize(("case", "way"), [  # every way and every case; the long run has each case by each way
    pytest.param(name, way, marks=() if name == FIRST or way is over_the_api else pytest.mark.long)
    for name in CASES for way in WAYS], indirect=["case"])
def test_what_has_no_schedule_is_refused_before_anything_is_proposed(
    world: World, record: DataflowRecord, case: Case, way: Callable[..., Answer], tmp_path: Path
) -> None:
    code, text = way(world, record, case, tmp_path)
    assert code in (case.code, "")
    for words in case.told:
        assert words in text, text


def test_comparing_says_the_same_and_changes_nothing(world: World, record: DataflowRecord, case: Case) -> None:
    """Where slots would have to be bought Compare has schedules, with what to buy; of pairs it knows its own."""
    client = _client(world)
    page = client.get(f"/dataflows/{record.pk}/schedule", {"rate": case.rate, "pair": case.pair})
    answer = client.get(f"/api/dataflows/{record.pk}/schedules", {"rate_per_s": case.rate})
    text = unescape(page.content.decode())
    if case.code in ("insufficient_slots", "invalid_choice"):
        assert page.status_code == answer.status_code == 200
        bought = [machine for row in answer.json()["schedules"] for machine in row["machines"] if machine["to_buy"]]
        assert bool(bought) == (case.code == "insufficient_slots") == bool(Markup(page.text).having("data-buy"))
        return
    assert _refusal(answer)[0] == case.code
    assert page.status_code == (422 if case.code == "invalid_resources" else 200)
    for words in case.told:
        assert words in text, text


@pytest.mark.parametrize("submitted_with_it", [True, False])
def test_a_plan_decides_by_the_estate_of_its_own_time(world: World, submitted_with_it: bool) -> None:
    """Slots that go after something was proposed are found missing by its plan, and another choice takes its place."""
    measured(world, slots=200)
    much, as_submitted = (ScheduleChoice.of(pair=("MBA", "SAM"), rate_per_s=rate) for rate in (1500, None))
    if submitted_with_it:
        proposal = submit_dataflow(actor=world.carla, team=world.city, text=linear(), schedule=much)
    else:
        record = planned(world.carla, world.city, linear()).dataflow
        proposal = propose_schedule(actor=world.carla, dataflow_id=record.pk, choice=much)
    register_node(name="n1", slots=8)
    failed = prepare_proposal(proposal_id=proposal.pk)
    assert failed.status == "unplannable" and failed.plan.error["code"] == "insufficient_slots"
    assert failed.plan.error["facts"]["available"] == 8 and "machines to buy" in failed.plan.error["message"]
    assert not FragmentRow.objects.exists()
    with pytest.raises(InsufficientSlots):
        propose_schedule(actor=world.carla, dataflow_id=proposal.dataflow_id, choice=much)
    fewer = propose_schedule(actor=world.carla, dataflow_id=proposal.dataflow_id, choice=as_submitted)
    assert prepare_proposal(proposal_id=fewer.pk).status == "pending"


@each("pair", ["MBA-SAM", "LSA-RSM", "MBA-exact"])
def test_what_is_let_through_has_a_plan_and_what_is_not_has_none(world: World, pair: str) -> None:
    """The check is of what the plan asks: on one estate both say the same (of our own mapping it may let through)."""
    measured(world)
    record = planned(world.carla, world.city, linear()).dataflow
    refused = []
    for rate_per_s in (10, 60, 100, 200, 400):
        choice = ScheduleChoice.of(pair=pair.split("-"), rate_per_s=rate_per_s)
        try:
            proposal = propose_schedule(actor=world.carla, dataflow_id=record.pk, choice=choice)
        except InsufficientSlots as error:
            refused.append(rate_per_s)
            plan_record = PlanRecord(dataflow=record, kind="submit", version=1,
                options={"schedule": choice.as_option()})
            with pytest.raises(InsufficientSlots) as by_plan:
                compute(plan_record, stored_estate())
            assert error.facts["needed"] <= by_plan.value.facts["needed"] and error.facts["available"] == 8
        else:
            prepared = prepare_proposal(proposal_id=proposal.pk)
            takes_more = pair == "MBA-exact" and (prepared.plan.error or {}).get("code") == "insufficient_slots"
            assert prepared.status == "pending" or takes_more, prepared.plan.error
    assert refused and refused == [200, 400][-len(refused):], "few are enough, and not many"
