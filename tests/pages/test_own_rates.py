"""What is asked where nobody gave a rate: each source's own, on the page, in its JSON, in the API and in a proposal."""

from __future__ import annotations

import pytest
from django.core.management import call_command
from django.urls import reverse

from dashboard.approvals.models import Proposal
from dashboard.approvals.services import prepare_proposal
from dashboard.catalog.models import DataflowRecord
from dashboard.plans.selectors import plan_of
from tests.dashboard.building import World, planned
from tests.pages.building import JSON, rows, texts
from tests.pages.conftest import ClientOf
from tests.pages.markup import Markup, assert_sound
from tests.pages.scheduling import linear, measured, two_sources

OWN = {"slow": 10, "fast": 40}


@pytest.fixture
def waiting(world: World) -> DataflowRecord:
    """A dataflow in review with a source of 10 events/s and one of 40."""
    measured(world, slots=16)
    return planned(world.carla, world.city, two_sources(rates=(OWN["slow"], OWN["fast"]))).dataflow


def asked_rates(page: str) -> set[str | None]:
    """The rates that the form and the proposal would send."""
    markup = Markup(page)
    return {markup.one(*name).attributes["value"] for name in (("id", "rate"), ("data-part", "propose-rate"))}


def planned_rates(proposal: Proposal) -> dict[str, float]:
    """What the proposal's plan promises of the sources."""
    plan = plan_of(prepare_proposal(proposal_id=proposal.pk).plan)
    return {source: plan.promise.rates_per_s[source] for source in OWN}


def test_what_is_proposed_is_what_was_shown(client_of: ClientOf, waiting: DataflowRecord) -> None:
    client, address = client_of("carla"), f"/dataflows/{waiting.pk}/schedule"
    response = client.get(address)
    assert_sound(response, address)
    assert asked_rates(response.text) == {""} and Markup(response.text).number("rate.together") == 50
    # What the page asks for a moment later is the same.
    again = client.get(f"{address}/pairs.json", {"rate": ""}, headers=JSON).json()
    assert again["rate"] == "" and again["together_per_s"] == 50
    assert texts(again["pairs"]) == texts(response.text)
    client.post(reverse("schedule_propose", args=[waiting.pk]), {
        "pair": "MBA-SAM", "rate": ""})
    assert planned_rates(Proposal.objects.open().get()) == OWN


def test_a_rate_that_is_asked_for_is_that_of_each_source(client_of: ClientOf, waiting: DataflowRecord) -> None:
    client, address = client_of("carla"), f"/dataflows/{waiting.pk}/schedule"
    page = client.get(f"{address}?rate=20").text
    assert asked_rates(page) == {"20"} and Markup(page).number("rate") == 20
    back = Markup(page).one("data-part", "own").attributes
    assert "hidden" not in back and "rate" not in back["href"], "as submitted: each source by its own rate"
    assert client.get(f"{address}/pairs.json?rate=20", headers=JSON).json()["rate"] == 20
    client.post(reverse("schedule_propose", args=[waiting.pk]), {"pair": "MBA-SAM", "rate": "20"})
    assert planned_rates(Proposal.objects.open().get()) == {"slow": 20, "fast": 20}


def test_the_api_and_the_command_line_say_the_same(client_of: ClientOf, waiting: DataflowRecord) -> None:
    client, address = client_of("carla"), f"/api/dataflows/{waiting.pk}"
    usual, at_20 = (client.get(f"{address}/schedules", query).json()["schedules"] for query in ({}, {"rate_per_s": 20}))
    assert {row["rate_per_s"] for row in usual} == {50} and {row["rate_per_s"] for row in at_20} == {20}
    made = [
        {bundle["task"]: bundle["rate_per_s"] for bundle in rows[0]["bundles"]
            if bundle["task"] in OWN} for rows in (usual, at_20)]
    assert made == [OWN, {"slow": 20, "fast": 20}]
    client.post(f"{address}/schedule", {"pair": ["MBA", "SAM"]}, content_type="application/json")
    assert planned_rates(Proposal.objects.open().get()) == OWN
    call_command("schedule", "two", "MBA-SAM", username="carla", rate=30.0)
    assert planned_rates(Proposal.objects.open().get()) == {"slow": 30, "fast": 30}
    call_command("schedule", "two", "MBA-SAM", username="carla")
    assert planned_rates(Proposal.objects.open().get()) == OWN


def test_a_lower_rate_is_compared_where_no_slot_holds_the_sources_own(world: World, client_of: ClientOf) -> None:
    measured(world, slots=16)
    record = planned(world.carla, world.city, linear(rate=1_000_000)).dataflow
    address = f"/dataflows/{record.pk}/schedule"
    page = client_of("carla").get(address)
    assert_sound(page, address)
    assert Markup(page.text).values("data-error") == ["rate_not_held"]
    assert Markup(page.text).one("id", "rate").attributes["value"] == "1000000"
    lower = client_of("carla").get(f"{address}?rate=50")
    assert_sound(lower, address)
    assert rows(lower.text)["MBA-SAM"].number("slots") >= 1
    assert Markup(lower.text).number("rate.submitted") == 1_000_000
