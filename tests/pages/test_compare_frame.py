"""What stands around the pairs of Compare: slots that are there, what runs now, and the ways there and back."""

from __future__ import annotations

from django.urls import reverse

from dashboard.approvals.models import Proposal
from dashboard.approvals.services import prepare_proposal
from dashboard.catalog.models import DataflowRecord
from dashboard.operations.services import register_node
from dashboard.schedules.promises import in_force
from tests.pages.building import chosen, selected
from tests.pages.conftest import ClientOf
from tests.pages.markup import Markup, assert_sound
from tests.pages.observed import RATE


def test_free_slots_are_those_that_the_page_of_slots_calls_so(client_of: ClientOf, scheduled: DataflowRecord) -> None:
    """Its own are counted apart: a schedule may take them, and they are not free."""
    slots, client = len(in_force([scheduled.pk])[str(scheduled.pk)].promise.slots), client_of("carla")
    assert 0 < slots < 16
    page = Markup(client.get(f"/dataflows/{scheduled.pk}/schedule").text)
    assert [page.number(f"slots.{name}") for name in ("free", "own", "shared")] == [16 - slots, slots, 0]
    assert Markup(client.get("/estate/slots").text).number("slots.free") == 16 - slots
    answer = client.get(f"/api/dataflows/{scheduled.pk}/schedules").json()
    assert (answer["free_slots"], answer["own_slots"], answer["shared_slots"]) == (16 - slots, slots, 0)


def test_what_runs_now_stands_above_what_could(client_of: ClientOf, scheduled: DataflowRecord) -> None:
    page = Markup(client_of("carla").get(f"/dataflows/{scheduled.pk}/schedule").text)
    row = page.one("data-as-it-runs")
    assert "As it runs now" in row.text and row.number("cores") > 0 and row.number("slots") >= 1
    assert "estimated" in row.text, "nothing of it was measured yet"


def test_what_a_dataflow_runs_by_is_said_as_long_as_it_does(client_of: ClientOf, scheduled: DataflowRecord) -> None:
    address = f"/dataflows/{scheduled.pk}/schedule"
    response = client_of("vera").get(address)
    assert_sound(response, address)
    now = Markup(response.text).one("data-runs-by").attributes
    assert (now["data-runs-by"], float(now["data-value"])) == ("MBA-SAM", RATE)
    DataflowRecord.objects.filter(pk=scheduled.pk).update(status="paused")
    assert not Markup(client_of("vera").get(address).text).having("data-runs-by")


def test_back_to_the_submitted_rate_leaves_pair_and_routing_as_they_were(
    client_of: ClientOf, waiting: DataflowRecord
) -> None:
    address = f"/dataflows/{waiting.pk}/schedule"
    page = Markup(client_of("carla").get(f"{address}?rate=20&pair=LSA-DSM&routing=shuffle").text)
    back = page.one("data-part", "own").attributes
    assert "hidden" not in back
    text = client_of("carla").get(address + back["href"]).text
    assert chosen(text) == "LSA-DSM" and selected(text, "routing") == "shuffle" and Markup(text).number("rate") == 50
    assert "hidden" in Markup(text).one("data-part", "own").attributes, "there is nothing to go back to"


def test_a_schedule_that_cannot_be_planned_leads_back_to_the_others(client_of: ClientOf,
        waiting: DataflowRecord) -> None:
    client = client_of("carla")
    client.post(reverse("schedule_propose", args=[waiting.pk]), {"pair": "MBA-SAM", "rate": "150"})
    register_node(name="n1", slots=0)
    proposal = Proposal.objects.get(dataflow=waiting)
    address = reverse("proposal", args=[proposal.pk])
    back = f"{reverse('schedule', args=[waiting.pk])}?pair=MBA-SAM&rate=150.0&routing=slot_aware"
    assert not Markup(client.get(address).text).links(back), "its plan is being computed"
    assert prepare_proposal(proposal_id=proposal.pk).status == "unplannable"
    page = client.get(address)
    assert_sound(page, address)
    assert Markup(page.text).links(back)
