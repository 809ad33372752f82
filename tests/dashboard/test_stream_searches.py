"""Searches of running streams: what they find, how long, how much, who may, and what is left of them."""

from __future__ import annotations

import io
import json
from datetime import timedelta

import pytest
import redis
from django.core.management import call_command
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from dashboard import jobs
from dashboard.audit.models import AuditEntry
from dashboard.catalog.models import DataflowRecord
from dashboard.commands.management.commands import search as command
from dashboard.explorer import stream_searches
from dashboard.explorer.stream_searches import MOST_EVENTS, MOST_SECONDS, begin_search, end_search, search
from dashboard.teams.models import Membership
from dashboard.teams.permissions import viewer_of
from dashboard.teams.services import create_token
from scheduler.guards.event_conditions import InvalidEventCondition
from scheduler.model.errors import NotFound
from tests.dashboard.building import World, document, running
from tests.dashboard.test_streams import copied, running_id
from tests.pages.markup import Markup
from workers.engine import search_store
from workers.engine.channels import keys
from workers.engine.slot_values import newest_in
from workers.engine.taps import SEARCHED_EVENTS

pytestmark = [pytest.mark.django_db, pytest.mark.broker]


@pytest.fixture(autouse=True)
def _site(broker: redis.Redis, broker_url: str, settings) -> None:
    settings.REDIS_URL = broker_url
    jobs.broker.cache_clear()
    yield
    jobs.broker.cache_clear()


@pytest.fixture
def dataflow(world: World) -> DataflowRecord:
    return running(world.carla, world.city, document("traffic"), world.ana)


@pytest.fixture
def task(dataflow: DataflowRecord) -> str:
    return running_id(dataflow, "parse")


def passes(monkeypatch: pytest.MonkeyPatch, seconds: int) -> None:
    """Let so many seconds pass for searches."""
    later = timezone.now() + timedelta(seconds=seconds)
    monkeypatch.setattr(stream_searches.timezone, "now", lambda: later)


def test_each_event_that_comes_is_looked_at_once_and_those_that_meet_the_condition_are_kept(
    world: World, broker: redis.Redis, task: str
) -> None:
    viewer = viewer_of(world.carla)
    copied(broker, task, 1, 2, 3, block_of=2)
    search_id = begin_search(actor=world.carla, task_id=task, where="_seq >= 2 AND obs = 't'")
    first = search(viewer, search_id)
    assert ([event["_seq"] for event in first.events], first.looked_at, first.found) == ([3, 2], 3, 2)
    assert not first.is_over and first.types["obs"] == "string"
    again = search(viewer, search_id)
    assert (again.looked_at, again.found) == (3, 2), "nothing has come"
    copied(broker, task, 0, 4)
    later = search(viewer, search_id)
    assert ([event["_seq"] for event in later.events], later.looked_at, later.found) == ([4, 3, 2], 5, 3)


def test_a_block_that_was_looked_at_is_not_decoded_again(
    world: World, broker: redis.Redis, task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied(broker, task, 1, 2, 3, block_of=1)
    search_id = begin_search(actor=world.carla, task_id=task, where="_seq >= 2")
    decoded: list[bytes] = []
    monkeypatch.setattr(
        search_store, "newest_in", lambda block, room: decoded.append(block) or newest_in(block, room))
    search(viewer_of(world.carla), search_id)
    assert len(decoded) == 3
    search(viewer_of(world.carla), search_id)
    assert len(decoded) == 3, "nothing has come"


def test_valves_copy_more_while_somebody_searches_also_where_another_looks(
    world: World, broker: redis.Redis, task: str
) -> None:
    from dashboard.operations.models import RunningTaskRow

    tap = keys.tap(RunningTaskRow.objects.get(pk=task).fragment)
    jobs.newest_events(stream_searches.tapped_stream(viewer_of(world.carla), task), count=5)
    assert broker.get(tap) == b"1"
    search_id = begin_search(actor=world.carla, task_id=task, where="_seq > 1")
    search(viewer_of(world.carla), search_id)
    assert broker.get(tap) == str(SEARCHED_EVENTS).encode()
    jobs.newest_events(stream_searches.tapped_stream(viewer_of(world.carla), task), count=5)
    assert broker.get(tap) == str(SEARCHED_EVENTS).encode() and 0 < broker.ttl(tap) <= 15


def test_a_search_ends_by_itself_and_keeps_so_many_events(
    world: World, broker: redis.Redis, task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    search_id = begin_search(
        actor=world.carla, task_id=task, where="_seq >= 0", seconds=10**6, count=10**6)
    [facts] = [json.loads(broker.hget(key, "facts")) for key in broker.keys("weir:search:*") if b"facts" in
               broker.hkeys(key)]
    assert facts["count"] == MOST_EVENTS
    copied(broker, task, *range(80), block_of=20)
    seen = search(viewer_of(world.carla), search_id)
    assert seen.found == 80 and [event["_seq"] for event in seen.events] == list(range(79, 79 - MOST_EVENTS, -1))
    passes(monkeypatch, MOST_SECONDS + 1)
    copied(broker, task, 100)
    over = search(viewer_of(world.carla), search_id)
    assert over.is_over and over.looked_at == 80 and len(over.events) == MOST_EVENTS
    assert all(0 < broker.ttl(key) <= search_store.LIVES_S for key in broker.keys("weir:search*"))


def test_a_condition_is_held_to_the_columns_when_they_are_known(world: World, broker: redis.Redis, task: str) -> None:
    search_id = begin_search(actor=world.carla, task_id=task, where="nothing > 1")
    assert not search(viewer_of(world.carla), search_id).is_over, "no event has come, so columns are not known"
    copied(broker, task, 1)
    later = search(viewer_of(world.carla), search_id)
    assert later.is_over and "no column nothing" in later.message and later.remedy
    with pytest.raises(InvalidEventCondition, match="no column nothing"):
        begin_search(actor=world.carla, task_id=task, where="nothing > 1")


def test_a_search_is_its_users_alone_and_a_later_one_ends_it(world: World, broker: redis.Redis, task: str) -> None:
    first = begin_search(actor=world.carla, task_id=task, where="_seq > 1")
    for user in (world.ana, world.root):
        with pytest.raises(NotFound):
            search(viewer_of(user), first)
        end_search(viewer_of(user), first)
    second = begin_search(actor=world.carla, task_id=task, where="_seq > 2")
    with pytest.raises(NotFound):
        search(viewer_of(world.carla), first)
    end_search(viewer_of(world.carla), second)
    with pytest.raises(NotFound):
        search(viewer_of(world.carla), second)
    assert not [key for key in broker.keys("weir:search:*")]


def test_who_may_not_know_of_a_task_does_not_search_it_and_who_does_is_in_the_trail(
    world: World, task: str
) -> None:
    hidden = running_id(running(world.carla, world.city, document("hush", visibility="private"), world.ana), "parse")
    with pytest.raises(NotFound):
        begin_search(actor=world.mo, task_id=hidden, where="_seq > 1")
    assert not AuditEntry.objects.filter(verb="stream.search").exists()
    begin_search(actor=world.carla, task_id=task, where="_seq > 1", seconds=5)
    entry = AuditEntry.objects.get(verb="stream.search")
    assert (entry.actor, entry.team, entry.subject_id) == (world.carla, world.city, task)
    assert entry.details == {"where": "_seq > 1", "seconds": 5, "events": 20}


def test_who_may_look_no_more_reads_nothing_of_a_search_that_is_over(
    world: World, broker: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    hidden = running_id(running(world.carla, world.city, document("hush", visibility="private"), world.ana), "parse")
    search_id = begin_search(actor=world.carla, task_id=hidden, where="_seq > 1", seconds=5)
    copied(broker, hidden, 2)
    assert search(viewer_of(world.carla), search_id).found == 1
    passes(monkeypatch, 6)
    assert search(viewer_of(world.carla), search_id).is_over
    Membership.objects.filter(user=world.carla).delete()
    with pytest.raises(NotFound):
        search(viewer_of(world.carla), search_id)


def test_the_api_begins_asks_and_ends_a_search(world: World, broker: redis.Redis, task: str) -> None:
    _, token = create_token(actor=world.carla, name="ci")
    client = Client(headers={"authorization": f"Bearer {token}"})
    copied(broker, task, 1, 2)
    address = f"/api/estate/tasks/{task}/searches"
    begun = client.post(address, {"where": "_seq = 2"}, content_type="application/json")
    assert begun.status_code == 202
    answer = client.get(f"/api/estate/searches/{begun.json()['id']}").json()
    assert (answer["found"], answer["looked_at"], [event["_seq"] for event in answer["events"]]) == (1, 2, [2])
    assert client.delete(f"/api/estate/searches/{answer['id']}").status_code == 204
    assert client.get(f"/api/estate/searches/{answer['id']}").status_code == 404
    wrong = client.post(address, {"where": "nothing > 1"}, content_type="application/json")
    assert (wrong.status_code, wrong.json()["code"]) == (422, "invalid_condition")
    for body in ({"where": ""}, {"where": "x" * 5000}, {"where": "_seq > 1", "seconds": 61}):
        assert client.post(address, body, content_type="application/json").status_code == 422


def test_the_page_shows_what_is_found_and_why_nothing_can_be(
    world: World, broker: redis.Redis, dataflow: DataflowRecord, task: str
) -> None:
    client = Client()
    client.force_login(world.carla)
    copied(broker, task, 1, 2)
    for page in (reverse("running_task", args=[task]), reverse("dataflow_task", args=[dataflow.pk, "parse"])):
        assert f'action="{reverse("search_begin", args=[task])}"' in client.get(page).text
    begun = client.post(reverse("search_begin", args=[task]), {"where": "_seq = 2"}).json()
    shown = Markup(client.get(begun["address"]).text)
    assert len(shown.having("data-event")) == 1 and shown.values("data-search") == ["under-way"]
    wrong = client.post(reverse("search_begin", args=[task]), {"where": "nothing > 1"}).json()
    assert wrong["address"] == "" and Markup(wrong["html"]).values("data-error") == ["invalid_condition"]


def test_the_command_prints_what_it_found(
    world: World, broker: redis.Redis, dataflow: DataflowRecord, task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied(broker, task, 1, 2)
    monkeypatch.setattr(command.time, "sleep", lambda _: passes(monkeypatch, MOST_SECONDS + 1))
    out = io.StringIO()
    call_command("search", "traffic", "parse", "_seq = 2", "--as", "carla", stdout=out)
    event, summary = out.getvalue().splitlines()
    assert json.loads(event)["_seq"] == 2 and summary == "1 of 2 events met the condition."
