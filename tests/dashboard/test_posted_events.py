"""Events that teams post for their policies, and their calendars: who may, what is refused, how many."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from dashboard.approvals.policy_retention import forget_policies
from dashboard.operations.models import PostedEvent
from dashboard.operations.policies.posted_events import KEPT, MOST_FIGURES, post_event
from dashboard.teams.account_errors import InvalidValue
from dashboard.teams.services import set_calendar
from dashboard.teams.team_limits import AskedTooOften
from scheduler.model.errors import PermissionDenied
from tests.dashboard.building import World

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(("stream", "values", "message"), [
    ("", {}, "no name of a stream"), ("a.b", {}, "no name of a stream"), ("x" * 64, {}, "no name of a stream"),
    ("a", {"": 1}, "no name of a field"), ("a", {"b.c": 1}, "no name of a field"), ("a", {"v": float("nan")}, "finite"),
    ("a", {"v": float("inf")}, "finite"), ("a", {"v": 1e201}, "finite"), ("a", {"v": "x" * 201}, "characters"),
    ("a", {"v": "\0"}, "characters"), ("a", {"v": [1]}, "a list or a mapping"),
    ("a", {f"f{number}": 1 for number in range(MOST_FIGURES + 1)}, "fields"), ("kept", {"v": "text"}, "has been"),
    ("kept", {"v": True}, "has been")])
def test_an_event_that_cannot_be_one_is_refused(
    world: World, stream: str, values: dict[str, Any], message: str
) -> None:
    post_event(actor=world.carla, team=world.city, stream="kept", values={"v": 1})
    with pytest.raises(InvalidValue, match=message) as refused:
        post_event(actor=world.carla, team=world.city, stream=stream, values=values)
    assert refused.value.remedy and PostedEvent.objects.count() == 1


def test_times_of_events_are_bounded_by_the_clock_and_old_ones_go(world: World) -> None:
    def posted(at_ms: int | None) -> PostedEvent:
        return post_event(actor=world.carla, team=world.city, stream="a", values={}, at_ms=at_ms)

    before_ms = int(timezone.now().timestamp() * 1000)
    ahead = posted(before_ms + 10**9)
    assert ahead.at_ms <= int(timezone.now().timestamp() * 1000) + 1
    assert posted(before_ms - 60_000).at_ms == before_ms - 60_000
    with pytest.raises(InvalidValue, match="older than an hour"):
        posted(before_ms - 2 * 3_600_000)
    PostedEvent.objects.filter(pk=ahead.pk).update(posted=timezone.now() - KEPT - timedelta(minutes=1))
    assert forget_policies(timezone.now()) == 1, "nobody has to post another one"
    assert not PostedEvent.objects.filter(pk=ahead.pk).exists()


def test_a_team_posts_so_many_events_an_hour(world: World, settings: Any) -> None:
    settings.TEAM_EVENTS_PER_H = 2
    for _ in range(2):
        post_event(actor=world.carla, team=world.city, stream="alarm", values={})
    with pytest.raises(AskedTooOften) as refused:
        post_event(actor=world.carla, team=world.city, stream="alarm", values={})
    assert refused.value.facts["retry_after_s"] >= 1
    PostedEvent.objects.update(posted=timezone.now() - timedelta(minutes=61))
    post_event(actor=world.carla, team=world.city, stream="alarm", values={})


def test_who_may_post_and_who_may_set_a_calendar(world: World) -> None:
    for actor in (world.vera, world.mo):
        with pytest.raises(PermissionDenied):
            post_event(actor=actor, team=world.city, stream="a", values={})
    for actor in (world.carla, world.ben):
        with pytest.raises(PermissionDenied):
            set_calendar(actor=actor, team=world.city, name="h", days=[])
    with pytest.raises(InvalidValue):
        set_calendar(actor=world.ana, team=world.city, name="'", days=[])
    with pytest.raises(InvalidValue):
        set_calendar(actor=world.ana, team=world.city, name="h", days=[
            date(2020, 1, 1) + timedelta(days=day) for day in range(1_001)])


def test_events_and_calendars_over_the_api(world: World, client: Client) -> None:
    client.force_login(world.ana)
    posted = client.post("/api/teams/city/events/alert", {"values": {"level": "red", "n": 1}},
                         content_type="application/json")
    assert posted.status_code == 201 and posted.json()["stream"] == "alert"
    assert client.get("/api/teams/city/events").json() == [
        {"name": "alert", "figures": {"level": "text", "n": "number"}}]
    put = client.put("/api/teams/city/calendars/holidays", {"days": ["2026-12-25", "2026-12-25"]},
                     content_type="application/json")
    assert put.json() == {"name": "holidays", "days": ["2026-12-25"]}
    assert client.get("/api/teams/city/calendars").json() == [put.json()]
    assert client.put("/api/teams/city/calendars/h", {"days": ["25.12."]}, content_type="application/json"
                      ).status_code == 422
    assert client.delete("/api/teams/city/calendars/holidays").status_code == 204
    assert client.delete("/api/teams/city/calendars/holidays").status_code == 404


def test_the_page_of_teams_keeps_calendars(world: World, client: Client) -> None:
    client.force_login(world.ana)
    client.post("/teams/city/calendars", {"name": "holidays", "days": "2026-12-25, 2027-01-01"})
    assert world.city.calendars.get().days == ["2026-12-25", "2027-01-01"]
    assert "2026-12-25 2027-01-01" in client.get("/teams/").content.decode()
    wrong = client.post("/teams/city/calendars", {"name": "holidays", "days": "25.12."}, follow=True)
    assert "Write each as 2026-12-25." in wrong.content.decode()
    client.post("/teams/city/calendars", {"name": "holidays", "days": ""})
    assert not world.city.calendars.exists()
