"""The search over everything: what it finds, and that it finds nothing that is hidden."""

from __future__ import annotations

import pytest
from django.urls import reverse

from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.operations.models import Use
from dashboard.operations.selectors import live_dataflow
from dashboard.pages.templatetags.weir import words
from dashboard.teams.permissions import viewer_of
from tests.dashboard.building import World, document, running
from tests.pages.conftest import ClientOf
from tests.pages.test_one_source import observed


def groups_of(client_of: ClientOf, name: str, search: str) -> dict[str, list[str]]:
    """The addresses that a search finds, by group."""
    groups = client_of(name).get(reverse("find"), {"q": search}).json()["groups"]
    return {group["title"]: [item["url"] for item in group["items"]] for group in groups}


def test_each_kind_of_thing_is_found_by_its_name_and_leads_to_its_page(world: World, client_of: ClientOf) -> None:
    record = running(world.carla, world.city, document("traffic"), world.ana)
    average = Use.objects.get(dataflow=record, task_id="average").running_task_id
    assert groups_of(client_of, "carla", "traf")["Dataflows"] == [f"/dataflows/{record.pk}/"]
    assert groups_of(client_of, "carla", "average")["Running tasks"] == [f"/estate/tasks/{average}"]
    assert "/task-types/?q=block_average" in groups_of(client_of, "carla", "block aver")["Task types"]
    assert groups_of(client_of, "carla", "city")["Teams"] == ["/teams/#team-city"]
    assert groups_of(client_of, "carla", "getting")["Help"] == ["/help/start"]
    for groups in (groups_of(client_of, "carla", search) for search in ("traf", "average", "city", "getting")):
        for address in (address for addresses in groups.values() for address in addresses):
            assert client_of("carla").get(address.partition("#")[0]).status_code == 200, address
    assert groups_of(client_of, "carla", "") == groups_of(client_of, "carla", "zzzz") == {}


def test_names_come_first_and_states_are_those_of_the_pages(
    world: World, client_of: ClientOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = running(world.carla, world.city, document("statistics"), world.ana)
    running(world.carla, world.city, document("newer", window=11, description="Of the statistics"), world.ana)
    observed(monkeypatch, failing=next(iter(load_estate().fragments.values())).queries[0].id)
    [items] = [group["items"] for group in client_of("carla").get(reverse("find"), {"q": "stat"}).json()["groups"]
               if group["title"] == "Dataflows"]
    assert [item["name"] for item in items] == ["statistics", "newer"]
    state = live_dataflow(viewer_of(world.carla), record.pk)["totals"]["state"]
    assert state != record.status and items[0]["about"].endswith(f"· {words(state)}")


def test_nothing_private_of_others_is_found(world: World, client_of: ClientOf) -> None:
    running(world.carla, world.city, document("hush", visibility="private"), world.ana)
    for search, group in (("hush", "Dataflows"), ("average", "Running tasks"), ("city", "Teams")):
        assert group in groups_of(client_of, "carla", search)
        assert group not in groups_of(client_of, "mo", search), search


def test_one_running_task_of_many_dataflows_is_found_once(world: World, client_of: ClientOf) -> None:
    for window in range(5):
        running(world.carla, world.city, document(f"d{window}", window=10 + window), world.ana)
    assert len(groups_of(client_of, "carla", "sense")["Running tasks"]) == 1
    assert len(groups_of(client_of, "carla", "a")["Task types"]) == 6, "each group is bounded"
