"""What stands around the pairs of Compare: slots that are there, what runs now, and the ways there and back."""

from __future__ import annotations

import html
import re

from django.urls import reverse

from dashboard.approvals.models import Proposal
from dashboard.approvals.services import prepare_proposal
from dashboard.catalog.models import DataflowRecord
from dashboard.operations.services import register_node
from dashboard.schedules.promises import in_force
from tests.pages.conftest import ClientOf
from tests.pages.observed import RATE
from tests.pages.test_every_page import assert_sound
from tests.pages.test_schedules import asked  # noqa: F401


def test_free_slots_are_those_that_the_page_of_slots_calls_so(client_of: ClientOf, scheduled: DataflowRecord) -> None:
    """Its own are counted apart: a schedule may take them, and they are not free."""
    own, client = len(in_force([scheduled.pk])[str(scheduled.pk)].promise.slots), client_of("carla")
    assert 0 < own < 16
    page = client.get(f"/dataflows/{scheduled.pk}/schedule").text
    assert f"on {16 - own} free slots, {own} that it runs on" in page
    assert f"{16 - own} slots free" in client.get("/estate/slots").text
    found = client.get(f"/api/dataflows/{scheduled.pk}/schedules").json()
    assert (found["free_slots"], found["own_slots"], found["shared_slots"]) == (16 - own, own, 0)


def test_what_a_dataflow_runs_by_is_said_as_long_as_it_does(client_of: ClientOf, scheduled: DataflowRecord) -> None:
    address, now = f"/dataflows/{scheduled.pk}/schedule", f"MBA with SAM</a> for {RATE}/s now."
    page = client_of("vera").get(address)
    assert_sound(page, address)
    assert now in page.text
    DataflowRecord.objects.filter(pk=scheduled.pk).update(status="paused")
    assert now not in client_of("vera").get(address).text


def test_back_to_the_submitted_rate_leaves_pair_and_routing_as_they_were(
    client_of: ClientOf, asked: DataflowRecord  # noqa: F811
) -> None:
    address = f"/dataflows/{asked.pk}/schedule"
    page = client_of("carla").get(f"{address}?rate=20&pair=LSA-DSM&routing=shuffle").text
    [back] = re.findall(r'data-part="own" href="([^"]+)" +>As submitted: 50/s<', page)
    own = client_of("carla").get(address + html.unescape(back)).text
    assert '<tr data-pair="LSA-DSM" data-chosen>' in own and '<option value="shuffle" selected>' in own
    assert ">50/s</output>" in own and re.search(r'data-part="own"[^>]+hidden>', own), "there is nothing to go back to"


def test_a_schedule_that_cannot_be_planned_leads_back_to_the_others(client_of: ClientOf, asked: DataflowRecord) -> None:  # noqa: F811
    client = client_of("carla")
    client.post(reverse("schedule_propose", args=[asked.pk]), {"pair": "MBA-SAM", "rate": "150"})
    register_node(name="n1", slots=0)
    proposal = Proposal.objects.get(dataflow=asked)
    address, back = reverse("proposal", args=[proposal.pk]), f"{reverse('schedule', args=[asked.pk])}?pair=MBA-SAM"
    assert back not in client.get(address).text, "its plan is being computed"
    assert prepare_proposal(proposal_id=proposal.pk).status == "unplannable"
    page = client.get(address)
    assert_sound(page, address)
    assert f'{back}&amp;rate=150.0&amp;routing=slot_aware">Compare with others' in page.text
