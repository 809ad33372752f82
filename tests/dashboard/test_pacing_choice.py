"""How intervals are chosen is a setting of the estate: who may choose, what counts without, and what follows."""

from __future__ import annotations

import pytest

from dashboard.audit.models import AuditEntry
from dashboard.operations.estate_store.estate_choices import UnknownWay
from dashboard.operations.latency_control.interval_choice import INTERVAL_CHOICES, ByManagers, ByPlan, ChosenInForce
from dashboard.operations.latency_control.open_batches import may_be_open
from dashboard.operations.latency_control.pacing_choice import PACING_CHOICE, PACINGS
from dashboard.operations.models import EstateState
from scheduler.model.errors import PermissionDenied

from .conftest import World

pytestmark = pytest.mark.django_db


def test_the_environment_says_until_an_administrator_chooses(world: World, settings) -> None:
    settings.PACING, choice = "steps", ChosenInForce()
    assert (PACING_CHOICE.in_force().kind.name, PACING_CHOICE.in_force().is_chosen) == ("steps", False)
    assert isinstance(choice.now(), ByManagers) and not may_be_open()

    PACING_CHOICE.choose(actor=world.root, name="planned")
    assert PACING_CHOICE.in_force().is_chosen and may_be_open()
    first = choice.now()
    assert isinstance(first, ByPlan) and choice.now() is first

    PACING_CHOICE.choose(actor=world.root, name="")
    assert isinstance(choice.now(), ByManagers) and not PACING_CHOICE.in_force().is_chosen
    EstateState.objects.update(pacing="by dice")  # as another version may have had
    assert isinstance(choice.now(), ByManagers) and not PACING_CHOICE.in_force().is_chosen


def test_each_choice_is_audited_once(world: World) -> None:
    for name in ("steps", "steps", ""):
        PACING_CHOICE.choose(actor=world.root, name=name)
    entries = AuditEntry.objects.filter(verb="estate.choose_pacing").order_by("pk")
    assert [(entry.details["before"], entry.details["after"]) for entry in entries] == [
        ("", "steps"), ("steps", "")]
    assert {entry.actor for entry in entries} == {world.root}


def test_only_administrators_choose_and_only_what_there_is(world: World) -> None:
    with pytest.raises(PermissionDenied):
        PACING_CHOICE.choose(actor=world.ana, name="steps")
    with pytest.raises(UnknownWay, match="no way to choose") as raised:
        PACING_CHOICE.choose(actor=world.root, name="by chance")
    assert "planned" in raised.value.remedy
    assert not PACING_CHOICE.in_force().is_chosen


def test_every_way_has_an_implementation() -> None:
    assert PACINGS.keys() == INTERVAL_CHOICES.keys()


def test_the_page_says_what_each_way_does_and_costs_and_lets_administrators_choose(world: World, client) -> None:
    client.force_login(world.ana)
    page = client.get("/estate/pacing").content.decode()
    assert all(kind.title in page and kind.costs in page for kind in PACINGS.values()) and "<form" not in page.split(
        "<main", 1)[-1].split("</main", 1)[0]
    assert client.post("/estate/pacing/choose", {"pacing": "steps"}).status_code in {302, 403}
    assert not PACING_CHOICE.in_force().is_chosen

    client.force_login(world.root)
    assert 'value="steps"' in client.get("/estate/pacing").content.decode()
    assert client.post("/estate/pacing/choose", {"pacing": "steps"}).status_code == 302
    assert PACING_CHOICE.in_force().kind.name == "steps"


def test_the_api_tells_and_chooses(world: World, client) -> None:
    client.force_login(world.root)
    before = client.get("/api/pacing").json()
    assert (before["pacing"], before["is_chosen"], [way["name"] for way in before["ways"]]) == (
        "planned", False, ["planned", "steps"])
    after = client.put("/api/pacing", {"pacing": "steps"}, content_type="application/json")
    assert (after.status_code, after.json()["pacing"], after.json()["is_chosen"]) == (200, "steps", True)
    assert client.put("/api/pacing", {"pacing": "dice"}, content_type="application/json").status_code >= 400
    client.force_login(world.ana)
    assert client.put("/api/pacing", {"pacing": "planned"}, content_type="application/json").status_code == 403
