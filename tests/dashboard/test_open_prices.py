"""Prices, estimates and bills where batches stay open: by the rule that opens them, and by what that takes."""

from __future__ import annotations

import pytest
from django.test import Client

from dashboard.controllers.services import set_mode
from dashboard.operations.latency_control.pacer import priced_ms_of
from dashboard.operations.models import BatchFigures
from dashboard.plans import latency_prices as prices_module
from dashboard.plans.latency_prices import latency_prices
from dashboard.plans.selectors import plan_of
from dashboard.teams.permissions import viewer_of
from scheduler.model.settings_of_fragments import LEAST_THREADS
from tests.dashboard.building import World, document, planned, running
from tests.dashboard.played import OPEN_BATCHES, Played, opened


def test_prices_and_bills_know_of_open_batches(world: World, played: Played, settings) -> None:
    played.refusal = ""
    viewer, early = viewer_of(world.carla), planned(world.carla, world.city, document("early", latency="100 ms"))
    before = latency_prices(viewer, early.dataflow_id)["offers"]
    slow = running(world.carla, world.city, document("slow", latency="20 s"), world.ana)
    fast = running(world.carla, world.city, document("quick", window=20, latency="50 ms"), world.ana)
    played.run(60)
    assert opened(fast)
    client = Client()
    client.force_login(world.carla)

    offers = client.get(f"/api/dataflows/{fast.pk}/latency/prices").json()["offers"]
    strict = next(offer for offer in offers if offer["limit_s"] == 0.05)
    assert (strict["met"], strict["open_queries"]) == (True, strict["queries"])
    shared = BatchFigures.objects.filter(fragment__real_time=True).exclude(alone_ms={}).get()
    equal_ms = priced_ms_of([shared.pk])[shared.pk]
    alone_ms = shared.alone_ms
    assert alone_ms[str(fast.pk)] == equal_ms <= alone_ms[str(slow.pk)], "what a bill divides is what open ones take"

    frozen = latency_prices(viewer, early.dataflow_id)
    assert frozen["cores"] == plan_of(early.plan).price.cores_alone, "what was planned is told until it runs"
    later = planned(world.carla, world.city, document("early-too", latency="100 ms", visibility="private"))
    after = latency_prices(viewer, later.dataflow_id)
    assert after["estimated"]
    then, now = ({offer["limit_s"]: offer for offer in offers} for offers in (before, after["offers"]))
    assert not then[0.05]["met"] and now[0.05]["met"], "types like its own were seen in open batches by now"
    assert now[0.1]["cores"] < 0.7 * then[0.1]["cores"]
    assert now[0.1]["open_queries"] and not then[0.1]["open_queries"]
    by_schedule = latency_prices(viewer, early.dataflow_id, scheduled=True)["offers"]
    assert not any(offer["open_queries"] for offer in by_schedule), "a schedule's promise is of micro-batches"
    page = client.get(f"/dataflows/{fast.pk}/").content.decode()
    assert 'data-offer="batches"' in page
    priced = planned(world.carla, world.city, document("late", latency="100 ms")).plan
    assert "open, which takes as much" in plan_of(priced).price.basis
    assert set(plan_of(priced).settings_after) == plan_of(priced).fragments_after.keys() - plan_of(
        priced).fragments_before.keys(), "what is priced as open begins so"
    begun = running(
        world.carla, world.city, document("begun", latency="100 ms", visibility="private"), world.ana)
    assert opened(begun), "by its plan, before anybody looked at it"
    set_mode(actor=world.dev, controller=OPEN_BATCHES, team=world.city, mode="off")
    without = plan_of(planned(world.carla, world.city, document("closed", latency="100 ms", visibility="private")).plan)
    assert not without.settings_after, "its team lets none be opened"
    assert "open, which takes" not in without.price.basis
    assert plan_of(priced).price.cores_alone < without.price.cores_alone
    assert any("limit" in note for note in without.notes), "and is told what micro-batches do not keep"
    set_mode(actor=world.dev, controller=OPEN_BATCHES, team=world.city, mode="recommends")
    assert plan_of(planned(
        world.carla, world.city, document("asked", latency="100 ms", visibility="private")).plan).settings_after
    settings.REAL_TIME = False
    micro = planned(world.carla, world.city, document("later", latency="100 ms")).plan
    assert "open, which takes" not in plan_of(micro).price.basis
    assert plan_of(priced).price.cores_alone < plan_of(micro).price.cores_alone


def test_the_first_dataflow_begins_with_open_batches_where_its_types_say_so(world: World, played: Played) -> None:
    """Nothing of its types ran before; a driver with too few threads opens none."""
    def begin_open(name: str) -> bool:
        return bool(plan_of(planned(
            world.carla, world.city, document(name, latency="100 ms", visibility="private")).plan).settings_after)

    assert not begin_open("few")
    played.threads = LEAST_THREADS
    assert begin_open("enough")


@pytest.mark.parametrize("bound", ["WORKS_S", "MOST_QUERIES"])
@pytest.mark.parametrize("runs", [False, True])
def test_prices_that_would_take_long_are_given_up(
    world: World, played: Played, monkeypatch: pytest.MonkeyPatch, bound: str, runs: bool
) -> None:
    if runs:
        key = running(world.carla, world.city, document("large", latency="20 s"), world.ana).pk
        played.run(60)
    else:
        key = planned(world.carla, world.city, document("large", latency="20 s")).dataflow_id
    client = Client()
    client.force_login(world.vera)
    assert client.get(f"/api/dataflows/{key}/latency/prices").json()["estimated"] is not runs
    monkeypatch.setattr(prices_module, bound, -1)
    for address in (f"/api/dataflows/{key}/latency/prices", f"/dataflows/{key}/latency/prices?scheduled=1"):
        answer = client.get(address, headers={"Accept": "application/json"})
        assert (answer.status_code, answer.json()["code"]) == (422, "prices_too_long")
