"""What one team may have of what all share: each limit refuses with its name, its figure and the way out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pytest

from dashboard.api.schemas import proposal_row
from dashboard.approvals.models import Proposal
from dashboard.approvals.services import (
    cancel_proposal,
    change_dataflow,
    prepare_proposal,
    recompute_proposal,
    remove_dataflow,
    submit_dataflow,
    take_savepoint,
)
from dashboard.catalog.models import DataflowRecord
from dashboard.config.environment import DECLARED
from dashboard.core.http_errors import http_status, response_for
from dashboard.live.hub import Hub
from dashboard.operations.policies.posted_events import post_event
from dashboard.outbox.models import PLAIN
from dashboard.outbox.services import add_endpoint
from dashboard.teams.permissions import viewer_of
from dashboard.teams.team_limits import TEAM_LIMITS, AskedTooOften, TeamLimitReached
from scheduler.model.errors import WeirError
from tests.dashboard.building import World, document, planned, running

pytestmark = pytest.mark.django_db


@dataclass(frozen=True)
class Case:
    """A setting, its value, what is within it, and what is one too many."""

    setting: str
    most: int
    within: Callable[[World], object]
    beyond: Callable[[World], object]
    error: type[WeirError] = TeamLimitReached


def submitted(world: World, name: str, *, mobility: bool = False) -> Proposal:
    author, team = (world.mo, world.mobility) if mobility else (world.carla, world.city)
    return submit_dataflow(actor=author, team=team, text=document(name))


def removal_of_what_runs(world: World) -> object:
    return remove_dataflow(actor=world.carla, dataflow_id=running(
        world.carla, world.city, document("air"), world.ana).pk)


def wider(world: World) -> object:
    """Another version of what runs, with a task more."""
    text = document("air").replace('"tasks": [', '"tasks": [{"id": "more", "type": "urban_sensing"}, {"id": "end", '
                                   '"type": "output", "config": {"name": "end"}}, ').replace(
        '"streams": [', '"streams": [{"from": "more", "to": "end"}, ')
    record = DataflowRecord.objects.get(name="air")
    return change_dataflow(actor=world.carla, dataflow_id=record.pk, text=text)


def webhook(world: World, name: str) -> object:
    return add_endpoint(actor=world.dev, name=name, url="https://hooks.example.org/x", format=PLAIN, team=world.city)


def saved(world: World, name: str) -> object:
    if not (record := DataflowRecord.objects.filter(name="saved").first()):
        record = running(world.carla, world.city, document("saved", window=11), world.ana)
    return take_savepoint(actor=world.carla, dataflow_id=record.pk, name=name)


def posted(world: World) -> object:
    return post_event(actor=world.carla, team=world.city, stream="alarm", values={})


CASES = {
    "a submission": Case(
        "WEIR_TEAM_PROPOSALS", 2, lambda world: [submitted(world, "a"), submitted(world, "b")],
        lambda world: submitted(world, "c")),
    "a removal": Case(
        "WEIR_TEAM_PROPOSALS", 1, lambda world: None,
        lambda world: [removal_of_what_runs(world), submitted(world, "b")]),
    "plans": Case(
        "WEIR_TEAM_PLANS_PER_H", 2, lambda world: [submitted(world, "a"), submitted(world, "b")],
        lambda world: submitted(world, "c"), AskedTooOften),
    "tasks": Case(
        "WEIR_TEAM_TASKS", 8, lambda world: [submitted(world, "a"), submitted(world, "b")],
        lambda world: submitted(world, "c")),
    "tasks of a version": Case(
        "WEIR_TEAM_TASKS", 5, lambda world: running(world.carla, world.city, document("air"), world.ana), wider),
    "webhooks": Case(
        "WEIR_TEAM_WEBHOOKS", 2, lambda world: [webhook(world, "a"), webhook(world, "b")],
        lambda world: webhook(world, "c")),
    "savepoints": Case(
        "WEIR_TEAM_SAVEPOINTS", 1, lambda world: saved(world, "a"), lambda world: saved(world, "b")),
    "posted events": Case(
        "WEIR_TEAM_EVENTS_PER_H", 2, lambda world: [posted(world), posted(world)], posted, AskedTooOften),
}


@pytest.fixture(autouse=True)
def _hosts(settings) -> None:
    settings.WEBHOOK_HOSTS = ("hooks.example.org",)


@pytest.mark.parametrize("name", CASES)
def test_one_more_than_a_team_may_have_is_refused_and_said_why(world: World, settings, rf, name: str):
    case = CASES[name]
    setattr(settings, case.setting.removeprefix("WEIR_"), case.most)
    case.within(world)
    with pytest.raises(case.error) as raised:
        case.beyond(world)
    error = raised.value
    assert error.message.startswith("City may have") and str(case.most) in error.message
    assert case.setting in error.remedy
    response = response_for(rf.post("/api/dataflows"), error)
    assert response.status_code == (429 if case.error is AskedTooOften else 409)
    assert ("Retry-After" in response) is (case.error is AskedTooOften)
    submitted(world, "theirs", mobility=True)  # another team has its own


def test_every_limit_is_a_setting_and_has_a_case():
    names = {limit.setting for limit in TEAM_LIMITS}
    assert names <= {declared.name for declared in DECLARED}
    assert names - {case.setting for case in CASES.values()} == {"WEIR_TEAM_CONNECTIONS"}, "below"


def test_what_is_cancelled_makes_room(world: World, settings):
    settings.TEAM_PROPOSALS = 1
    first = submitted(world, "a")
    with pytest.raises(TeamLimitReached):
        submitted(world, "b")
    cancel_proposal(actor=world.carla, proposal_id=first.pk)
    assert proposal_row(prepare_proposal(proposal_id=submitted(world, "b").pk))["status"] == "pending"


def test_a_plan_is_not_computed_again_more_often_than_that(world: World, settings):
    proposal = planned(world.carla, world.city, document("air"))
    settings.TEAM_PLANS_PER_H = 1
    Proposal.objects.filter(pk=proposal.pk).update(status="stale")
    with pytest.raises(AskedTooOften) as raised:
        recompute_proposal(actor=world.carla, proposal_id=proposal.pk)
    assert 3500 < raised.value.facts["retry_after_s"] <= 3600 and http_status(raised.value) == 429


def test_who_is_in_a_team_with_room_may_connect(world: World, settings):
    settings.TEAM_CONNECTIONS = 2
    viewers = {name: viewer_of(world.users[name]) for name in ("ana", "abe", "carla", "dev")}

    async def run() -> None:
        hub, checks = Hub(), {name: partial(print, name) for name in ("ana", "abe")}
        for name, check in checks.items():
            assert hub.has_room_for(viewers[name])
            hub.on_access_change(viewers[name], check)
        assert not hub.has_room_for(viewers["carla"]), "City has two"
        assert hub.has_room_for(viewers["dev"]), "Mobility has none"
        settings.LIVE_CONNECTIONS = 0
        assert not hub.has_room_for(viewers["dev"])
        for check in checks.values():
            hub.forget(check)

    asyncio.run(run())
