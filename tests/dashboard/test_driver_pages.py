"""Spark's own pages on the site: for administrators alone, and made harmless."""

from __future__ import annotations

import pytest
from django.urls import reverse

from dashboard import jobs, node_calls
from scheduler.contracts.driver_pages import NO_DRIVER, DriverPage, DriverPageOrder
from scheduler.contracts.reports import Reports
from tests.dashboard.building import World
from tests.pages.conftest import ClientOf, client_of
from tests.pages.markup import Markup, assert_sound

__all__ = ["client_of"]
pytestmark = pytest.mark.django_db
HTML = ("<html><body onload=x()><script>alert(1)</script><h3>Active</h3><table><tr><td><a href='/jobs/job/?id=7'>7</a>"
        "<a href='/jobs/job/kill/?id=7'>(kill)</a><a href='/environment/'>all</a></td></tr></table>")


@pytest.fixture
def orders(monkeypatch: pytest.MonkeyPatch) -> list[DriverPageOrder]:
    """What nodes are asked: n1 has pages, and answers with one."""
    sent: list[DriverPageOrder] = []
    monkeypatch.setattr(node_calls, "driver_page", lambda order: sent.append(order) or DriverPage(HTML))
    reports = Reports.of({"n1": {"at_ms": 0, "slots": {"0": {"state": "running", "has_spark_page": True}}}})
    monkeypatch.setattr(jobs, "read_live", lambda *_: jobs.LiveReading(reports=reports))
    return sent


def test_an_administrator_gets_the_page_without_what_could_harm(
    world: World, client_of: ClientOf, orders: list[DriverPageOrder]
) -> None:
    address = reverse("driver_page", args=["n1", 0])
    client = client_of("root")
    assert Markup(client.get(reverse("slot", args=["n1", 0])).text).links(address)
    response = client.get(f"{address}jobs/")
    assert_sound(response, address)
    page = Markup(response.text)
    assert page.links(f"{address}jobs/job/?id=7") and not [link for link in page.values("href") if "kill" in link]
    assert "alert(1)" not in response.text and "onload" not in response.text and "environment" not in response.text
    [order] = orders
    assert (order.node, order.slot, order.path, dict(order.query)) == ("n1", "0", "jobs/", {})
    assert client.get(f"{address}jobs/job/?id=7").status_code == 200 and orders[-1].query == {"id": "7"}


def test_nobody_else_gets_one_and_no_other_page_is_asked_for(
    world: World, client_of: ClientOf, orders: list[DriverPageOrder]
) -> None:
    address = reverse("driver_page", args=["n1", 0])
    for name in ("carla", "ana", "vera", "outsider"):
        assert client_of(name).get(address).status_code == 403, name
        assert not Markup(client_of(name).get(reverse("slot", args=["n1", 0])).text).links(address)
    client = client_of("root")
    for path in ("environment/", "jobs/job/kill/?id=0", "jobs/?x=1", "api/v1/applications", "jobs/job/?id=../x",
                 "jobs/job/?id=0&id=1&terminate=true"):
        assert client.get(address + path).status_code == 404, path
    for method in (client.post, client.put, client.delete):
        assert method(f"{address}jobs/").status_code == 405
    assert client.get(reverse("driver_page", args=["n1", 99])).status_code == 404
    assert not orders


@pytest.mark.parametrize("page", [None, DriverPage(failure=NO_DRIVER), DriverPage("<p>much", is_cut=True)])
def test_why_there_is_none_or_not_all_is_said(
    world: World, client_of: ClientOf, orders: list[DriverPageOrder], page: DriverPage | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(node_calls, "driver_page", lambda order: page)
    response = client_of("root").get(reverse("driver_page", args=["n1", 0]))
    assert_sound(response, "spark")
    shown = Markup(response.text)
    is_cut = page is not None and page.is_cut
    assert ("cut" in shown.notes) is is_cut and bool(shown.values("data-failure")) is not is_cut
