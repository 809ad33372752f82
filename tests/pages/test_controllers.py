"""The pages of controllers: nothing yet, settings, dry runs, and figures that are none."""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone

from dashboard.catalog.models import DataflowRecord
from dashboard.controllers.stored_rounds import policies_of
from dashboard.operations.models import FragmentRow
from scheduler.controllers.controller_registry import CONTROLLERS
from tests.dashboard.building import World, document, running
from tests.pages.conftest import ClientOf
from tests.pages.markup import Markup

LIMITS = {"team": "city", "mode": "acts", "changes_per_hour": "3", "changes_per_day": "9", "cool_down_min": "20"}


def test_where_nothing_has_happened_the_pages_say_what_will(client_of: ClientOf) -> None:
    client = client_of("carla")
    assert "no-round" in Markup(client.get("/controllers/").text).notes
    page = Markup(client.get("/controllers/defragmentation/").text)
    assert {"no-round", "no-reason"} <= page.notes and page.links("/controllers/defragmentation/dry-run")
    assert Markup(client.get("/controllers/remeasuring/dry-run?team=city").text).notes >= {"would-do-nothing"}
    assert client.get("/controllers/nothing/").status_code == 404


def test_limits_that_are_none_are_refused_and_nothing_changes(world: World, client_of: ClientOf) -> None:
    client = client_of("dev")
    for wrong, code in (
            ({"changes_per_hour": "many"}, "bad_input"), ({"cool_down_min": "1e9"}, "invalid_value"),
            ({"mode": "sometimes"}, "invalid_value")):
        page = client.post("/controllers/defragmentation/set", LIMITS | wrong, follow=True)
        assert Markup(page.text).flashes == [code]
    defragmentation = CONTROLLERS["defragmentation"]
    assert policies_of(defragmentation)["city"] == defragmentation.usual
    client.post("/controllers/defragmentation/set", LIMITS)
    assert policies_of(defragmentation)["city"].cool_down_s == 1200
    assert client.get("/controllers/defragmentation/dry-run?team=city&hours=6&changes_per_day=x").status_code == 400


def test_a_dry_run_says_why_it_would_have_done_nothing(world: World, client_of: ClientOf) -> None:
    running(world.carla, world.city, document("traffic"), world.ana)
    begun = timezone.now() - timedelta(minutes=9)
    DataflowRecord.objects.update(created=begun)
    FragmentRow.objects.update(started_at=begun)
    page = client_of("carla").get("/controllers/defragmentation/dry-run?team=city&hours=1")
    assert Markup(page.text).number("frames") == 2 and "are as few as they can be" in page.text
