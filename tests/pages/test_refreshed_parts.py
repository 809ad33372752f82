"""What a page that stands open asks for anew: its parts, without the frame around them."""

from __future__ import annotations

import re

from django.urls import reverse

from dashboard.operations.estate_store.estate_loader import load_estate
from tests.dashboard.building import World, document, running
from tests.pages.conftest import ClientOf
from tests.pages.markup import Markup

BY_HTMX = {"HX-Request": "true"}
_OF_THE_MOMENT = re.compile(r'name="csrfmiddlewaretoken" value="\w+"|\d{4}-\d\d-\d\dT[\d:]+')


def main_of(text: str) -> str:
    """What stands between the frame's parts, but for tokens of forms and times, which are others each time."""
    return _OF_THE_MOMENT.sub("", re.search(r"<main .*</main>", text, re.DOTALL)[0])


def test_a_refresh_gets_all_parts_and_no_frame(world: World, client_of: ClientOf) -> None:
    record = running(world.carla, world.city, document("traffic"), world.ana)
    query, _ = load_estate().places[record.uses.get(task_id="parse").running_task_id]
    client = client_of("carla")
    for address in ("/", "/wall/", "/problems/", "/alerts/", "/controllers/", reverse("dataflow", args=[record.pk]),
                    reverse("query", args=[query])):
        whole, parts = client.get(address).text, client.get(address, headers=BY_HTMX).text
        names = [part.attributes["id"] for part in Markup(whole).having("data-refresh")]
        assert names and names == [part.attributes["id"] for part in Markup(main_of(parts)).having("data-refresh")]
        assert main_of(parts) == main_of(whole), address
        assert not Markup(parts).having("data-alert-count") and len(parts) < len(whole), address


def test_a_refresh_leaves_messages_to_the_page_that_shows_them(client_of: ClientOf) -> None:
    client = client_of("carla")
    client.post(reverse("alert_acknowledge", args=[4711]))
    assert not Markup(client.get("/alerts/", headers=BY_HTMX).text).flashes
    assert Markup(client.get("/alerts/").text).flashes == ["not_found"]
