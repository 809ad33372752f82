"""Sinks on pages and in the API: what was refused, and writing again what is kept."""

from __future__ import annotations

import json
import re
import textwrap
import time
from pathlib import Path

import pyarrow as pa
import pytest
import redis
from django.test import Client

from dashboard import jobs
from dashboard.audit.models import AuditEntry
from dashboard.core.http_errors import BadInput
from dashboard.operations.estate_store.estate_loader import current_estate
from dashboard.operations.live_view.sink_statuses import refused_events, write_again
from dashboard.teams.permissions import viewer_of
from scheduler.contracts.offsets import Offset
from scheduler.model.errors import NotFound, NothingToChange, PermissionDenied
from tests.dashboard.building import World, running
from tests.dashboard.test_api import client_of, post
from workers.engine.channels.spill import SpilledBlock
from workers.engine.sinks.sink_store import Order, SinkStore

pytestmark = [pytest.mark.django_db, pytest.mark.broker]


class Written:
    """A dataflow with a sink, of which an event was refused."""

    def __init__(self, world: World, broker: redis.Redis) -> None:
        self.record = running(world.carla, world.city, json.dumps({
            "name": "rows", "visibility": "private",
            "tasks": [{"id": "sense", "type": "urban_sensing"},
                      {"id": "out", "type": "to_mqtt", "config": {"server": "mqtt.example.org", "topic": "a"}}],
            "streams": [{"from": "sense", "to": "out"}]}), world.ana)
        estate = current_estate()
        self.channel = estate.channel_of(estate.submitted[str(self.record.pk)].running["out"])
        self.store = SinkStore(broker)
        event = pa.table({"n": [13]})
        entry = SpilledBlock(Offset("5-0"), 1, 0, b"")
        for _ in range(2):  # a batch that is repeated
            self.store.refuse(
                self.channel, [(entry, 0, "is not taken: too <b>large", event, b'{"n":13}')], keep=10,
                now_ms=time.time_ns() // 1_000_000)


@pytest.fixture
def written(world: World, broker: redis.Redis, broker_url: str, settings, monkeypatch) -> Written:
    monkeypatch.setenv("WEIR_CONNECTOR_HOSTS", "mqtt.example.org")
    settings.REDIS_URL = broker_url
    jobs.broker.cache_clear()
    return Written(world, broker)


def test_what_was_refused_is_browsable_by_who_may_see_the_dataflow(written: Written, world: World):
    [letter] = refused_events(viewer_of(world.carla), written.record.pk, "out")
    assert letter.reason == "is not taken: too <b>large" and letter.sample == '{"n":13}'
    with pytest.raises(NotFound):
        refused_events(viewer_of(world.mo), written.record.pk, "out")
    with pytest.raises(NotFound):
        refused_events(viewer_of(world.carla), written.record.pk, "sense")
    page = Client()
    page.force_login(world.carla, backend="dashboard.teams.logins.ThrottledBackend")
    address = f"/dataflows/{written.record.pk}/"
    text = page.get(f"{address}sinks/out").content.decode()
    assert "too &lt;b&gt;large" in text and "Write refused events again" in text
    assert f"{address}sinks/out" in page.get(address).content.decode()
    assert page.get(f"/api{address}sinks/out/refused").json()[0]["sample"] == '{"n":13}'
    page.force_login(world.vera, backend="dashboard.teams.logins.ThrottledBackend")
    assert "Write again" not in page.get(f"{address}sinks/out").content.decode()


def test_a_sink_is_asked_by_its_team_alone_and_knowingly(written: Written, world: World):
    sink = {"dataflow_id": written.record.pk, "task_id": "out"}
    with pytest.raises(PermissionDenied):
        write_again(actor=world.vera, extent="refused", **sink)
    with pytest.raises(NotFound):
        write_again(actor=world.mo, extent="refused", **sink)
    with pytest.raises(BadInput, match="twice"):
        write_again(actor=world.carla, extent="since", **sink)
    with pytest.raises(BadInput, match="no time"):
        write_again(actor=world.carla, extent="since", since="yesterday", understood=True, **sink)
    assert written.store.oldest_order(written.channel) is None
    write_again(actor=world.carla, extent="refused", **sink)
    write_again(actor=world.carla, extent="since", since="1970-01-01T00:00:01Z", understood=True, **sink)
    assert written.store.oldest_order(written.channel) == Order("refused")
    written.store.done(written.channel)
    assert written.store.oldest_order(written.channel) == Order("since", 1000)
    entries = AuditEntry.objects.filter(verb="dataflow.write_again")
    assert [entry.details["what"] for entry in entries.order_by("pk")] == ["refused", "since"]


def test_nothing_is_asked_where_nothing_was_refused(written: Written, world: World):
    written.store.taken(written.channel, written.store.all_letters(written.channel))
    with pytest.raises(NothingToChange):
        write_again(actor=world.carla, dataflow_id=written.record.pk, task_id="out", extent="refused")


def test_pages_and_the_api_ask_alike(written: Written, world: World):
    page = Client()
    page.force_login(world.carla, backend="dashboard.teams.logins.ThrottledBackend")
    address = f"/dataflows/{written.record.pk}/"
    answer = page.post(f"{address}write-again/out", {"what": "since", "since": "", "understood": "yes"})
    assert answer.status_code == 302 and answer["Location"].endswith("/sinks/out")
    assert written.store.oldest_order(written.channel) == Order("since", 0)
    written.store.done(written.channel)
    answer = page.post(f"/api{address}sinks/out/write-again", {"what": "refused"}, content_type="application/json")
    assert (answer.status_code, answer.json()) == (202, {"asked": "refused"})
    assert written.store.oldest_order(written.channel) == Order("refused")
    answer = page.post(f"/api{address}sinks/out/write-again", {"what": "since"}, content_type="application/json")
    assert answer.status_code == 400 and "twice" in answer.json()["message"]


def documents() -> list[str]:
    """The documents of sinks in docs/connectors.md: indented blocks that begin with a name."""
    text = (Path(__file__).parents[2] / "docs" / "connectors.md").read_text().partition("# Connectors out")[2]
    return [textwrap.dedent(block) for block in re.findall(r"^    name: .*\n(?:    .+\n)+", text, flags=re.MULTILINE)]


@pytest.mark.parametrize("text", documents(), ids=lambda text: text.splitlines()[0].removeprefix("name: "))
def test_the_documents_that_the_docs_show_are_sound(text: str, world: World, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WEIR_CONNECTOR_HOSTS", "mqtt.example.org,kafka.example.org,s3.example.org,"
                       "s3.eu-west-1.amazonaws.com")
    answer = post(client_of(world.carla), "/api/validate", {"text": text})
    assert answer.json()["problems"] == [], answer.json()
