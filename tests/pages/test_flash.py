"""Messages that wait for somebody who reads no page."""

from __future__ import annotations

import json

from django.test import Client

from dashboard.pages import flash
from tests.dashboard.building import World
from tests.pages.markup import Markup


def test_messages_that_nobody_reads_fill_no_session(world: World) -> None:
    """Each quoted what was sent, up to 1 MiB, and all were read and written again with each request."""
    client = Client()
    client.force_login(world.dev, backend="dashboard.teams.logins.ThrottledBackend")
    for number in range(flash.MOST_WAITING + 10):
        client.post("/teams/city/members", {"username": f"{number} {'x' * 20_000}", "role": "1"})
    assert len(json.dumps(dict(client.session.items()))) < 2 * flash.MOST_WAITING * flash.LONGEST
    assert Markup(client.get("/teams/").text).flashes == ["not_found"] * flash.MOST_WAITING
    client.post("/teams/city/members", {"username": "nobody", "role": "1"})
    assert Markup(client.get("/teams/").text).flashes == ["not_found"]
