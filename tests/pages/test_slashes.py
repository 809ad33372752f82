"""Pages by their address with a slash too few or too many; addresses of programs are exact."""

from __future__ import annotations

import re

import pytest
from django.test import Client
from django.urls import is_valid_path

from dashboard.pages.urls import urlpatterns
from tests.dashboard.building import World
from tests.pages.conftest import ClientOf

NAMES = {"uuid": "00000000-0000-4000-8000-000000000000", "slug": "city", "int": "1", "path": "x", "str": "x"}
ADDRESSES = ["/" + re.sub(r"<(\w+):\w+>", lambda kind: NAMES[kind[1]], str(route.pattern)) for route in urlpatterns]


@pytest.mark.django_db
def test_every_page_is_found_without_and_with_a_slash() -> None:
    client = Client()
    for address in ADDRESSES[1:]:
        other = address.removesuffix("/") if address.endswith("/") else f"{address}/"
        if is_valid_path(other):  # a name that may hold slashes
            continue
        for query in ("", "?q=a%2Fb&page=2"):
            response = client.get(other + query)
            assert (response.status_code, response["Location"]) == (301, address + query)
        assert client.post(other).status_code == 404, other


@pytest.mark.parametrize("address", [
    "/api/dataflows/", "/api/task-types/", "/live/snapshot/", "/ingest/city/meters/", "/healthz/x", "/no-such", "/no/"])
def test_nothing_else_is_led_anywhere(address: str, world: World, client_of: ClientOf) -> None:
    assert client_of("carla").get(address).status_code in (404, 405)


def test_the_list_of_dataflows_is_found_by_who_types_it(world: World, client_of: ClientOf) -> None:
    response = client_of("carla").get("/dataflows", follow=True)
    assert response.redirect_chain == [("/dataflows/", 301)] and response.status_code == 200


def test_nobody_is_led_to_another_host(world: World, client_of: ClientOf) -> None:
    for path in ("//evil.example/dataflows", "//dataflows", "//evil.example"):
        assert client_of("carla").get("/", PATH_INFO=path).status_code == 404, path
