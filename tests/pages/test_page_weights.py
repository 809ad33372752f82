"""What a page weighs on its way to a browser that has the static files: 100 kB at the most, compressed."""

from __future__ import annotations

import gzip
from collections.abc import Iterator

import pytest
from django.test import Client
from django.urls import reverse

from dashboard.operations.estate_store.estate_loader import load_estate
from tests.browser.documents import wide
from tests.dashboard.building import World, document, planned, running
from tests.pages.conftest import ClientOf
from tests.pages.markup import Markup
from tests.pages.test_every_page import FILTERED, PLAIN
from tests.pages.test_one_source import FEW, MANY, filled, things_go_wrong

MOST_BYTES = 100_000
ASKED = ("data-graph", "data-heatmap", "data-merged", "data-deployment", "data-charts", "data-history", "data-plots",
         "data-output")


def weights(client: Client, addresses: Iterator[str]) -> dict[str, int]:
    """Bytes by page: its own, and those of what its scripts ask for at once."""
    weighed: dict[str, int] = {}
    for address in addresses:
        response = client.get(address)
        assert response.status_code == 200, address
        page = Markup(response.text)
        has_graph = any(element.attributes.get("type") == "application/json" for element in page.every("script"))
        fetched = {value for name in ASKED if name != "data-graph" or not has_graph for value in page.values(name)}
        texts = [response.content]
        for more in sorted(value for value in fetched if value.startswith("/") and not value.startswith("/static/")):
            texts.append(client.get(more).content)
        weighed[address] = sum(len(gzip.compress(text, 6, mtime=0)) for text in texts)
    return weighed


def addresses_of(world: World) -> Iterator[str]:
    """A page of every kind."""
    yield from (reverse(name) for name in PLAIN)
    yield from FILTERED
    estate, record = load_estate(), next(iter(load_estate().submitted))
    task = estate.submitted[record].running["parse"]
    yield reverse("proposal", args=[planned(world.carla, world.city, document("one-more", window=7)).pk])
    yield f"/dataflows/{record}/"
    yield from (reverse(name, args=[record]) for name in (
        "dataflow_tasks", "bill", "schedule", "schedule_outcome", "savepoints", "dynamic", "simulate", "adaptation"))
    yield reverse("dataflow_task", args=[record, "parse"])
    yield reverse("running_task", args=[task])
    child = next(task for task in estate.tasks.values() if task.parents)
    yield reverse("stream", args=[child.parents[0], child.id])
    yield reverse("query", args=[next(iter(estate.fragments.values())).queries[0].id])
    one, other, *_ = estate.submitted
    yield reverse("overlap_pair", args=[one, other])


@pytest.mark.parametrize("count", [FEW, pytest.param(MANY, marks=pytest.mark.long)])
def test_no_page_is_heavier_than_100_kb(
    world: World, client_of: ClientOf, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    things_go_wrong(world, filled(world, count), monkeypatch)
    weighed = weights(client_of("root"), addresses_of(world))
    assert len(weighed) > 50
    assert not {address: size for address, size in weighed.items() if size > MOST_BYTES}


@pytest.mark.long  # the short run has pages of every kind, of a few tasks
def test_pages_of_1500_tasks_are_no_heavier(world: World, client_of: ClientOf) -> None:
    record = running(world.carla, world.city, wide(1500), world.ana)
    proposal = planned(world.carla, world.city, wide(1498))
    weighed = weights(client_of("carla"), iter([f"/dataflows/{record.pk}/", f"/proposals/{proposal.pk}/"]))
    assert not {address: size for address, size in weighed.items() if size > MOST_BYTES}


def test_the_site_sends_pages_compressed(world: World, client_of: ClientOf) -> None:
    response = client_of("carla").get("/dataflows/new", headers={"accept-encoding": "gzip"})
    assert response.headers["Content-Encoding"] == "gzip" and "Accept-Encoding" in response.headers["Vary"]
    assert "<html" in gzip.decompress(response.content).decode()
