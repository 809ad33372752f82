"""Posting events: with the source's token and no other, once under a key, and never more than its readers can take."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
import redis
from django.test import Client

from dashboard import jobs
from dashboard.operations.live_view.live_sources import dead_letters
from dashboard.operations.models import RunningTaskRow
from dashboard.teams.permissions import viewer_of
from dashboard.teams.services import set_secret
from scheduler.model.bounds import DEAD_LETTERS
from scheduler.model.errors import NotFound
from tests.written_blocks import read_blocks
from workers.engine.channels import keys
from workers.engine.channels.channel_registry import Channels
from workers.engine.connectors.formats import layout_of
from workers.engine.connectors.intake import IntakeStore

from .building import running

pytestmark = [pytest.mark.django_db, pytest.mark.broker]
TOKEN, URL = "a-token-of-the-meters", "/ingest/city/meters"


class Posted:
    """A running dataflow with a source that is posted to, opened as a host does it, and who posts."""

    def __init__(self, world, broker: redis.Redis) -> None:
        set_secret(actor=world.dev, team=world.city, name="meters", value=TOKEN)
        self.record = running(world.carla, world.city, json.dumps({
            "name": "meters", "visibility": "private",
            "tasks": [
                {"id": "posted", "type": "http_ingest", "config": {
                    "name": "meters", "token": {"secret": "meters"}, "columns": ["a:bigint"], "keep_dead": 3}},
                {"id": "out", "type": "output", "config": {"name": "out"}}],
            "streams": [{"from": "posted", "to": "out"}]}), world.ana)
        row = RunningTaskRow.objects.get(type="http_ingest")
        self.task, self.store, self.channels = row.pk, IntakeStore(broker), Channels(broker)
        self.store.open(self.task, layout_of(row.config), known_readers=["f1-0"], node="n1")
        self.store.join(self.task, "f1-0")
        self._client = Client(enforce_csrf_checks=True)

    def post(self, body, *, token: str = TOKEN, url: str = URL, content_type: str = "application/json", **headers):
        data = body if isinstance(body, bytes | str) else json.dumps(body)
        return self._client.post(
            url, data=data, content_type=content_type, headers={"Authorization": f"Bearer {token}", **headers})

    def rows(self) -> list[int]:
        return [row["a"] for _, rows in read_blocks(self.channels, keys.intake(self.task)) for row in rows]


@pytest.fixture
def posted(world, broker, broker_url, settings, tmp_path, monkeypatch) -> Posted:
    settings.DATA_DIR, settings.REDIS_URL = tmp_path, broker_url
    monkeypatch.delenv("WEIR_SECRETS_KEY", raising=False)
    jobs.broker.cache_clear()
    return Posted(world, broker)


def test_events_are_taken_in_every_format_in_order(posted: Posted):
    table = pa.table({"a": [5, 6]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    for body, content_type in (
            ({"a": 1}, "application/json"), ([{"a": 2}, {"a": 3}], "application/json; charset=utf-8"),
            ('{"a": 4}\n', "application/x-ndjson"),
            (sink.getvalue().to_pybytes(), "application/vnd.apache.arrow.stream"), ("7\n8", "text/csv")):
        assert posted.post(body, content_type=content_type).status_code == 202
    assert posted.rows() == [1, 2, 3, 4, 5, 6, 7, 8]
    assert posted.store.state(posted.task).seq == 8


def test_without_the_token_an_address_is_as_if_it_were_not_there(posted: Posted, client):
    wrong = [posted.post({"a": 1}, token="other"), posted.post({"a": 1}, token=""),
             posted.post({"a": 1}, url="/ingest/city/none"), posted.post({"a": 1}, url="/ingest/mobility/meters")]
    answers = {(response.status_code, response.content) for response in wrong}
    assert len(answers) == 1 and answers.pop()[0] == 401
    assert posted.rows() == []
    assert client.get(URL).status_code == 405


def test_what_is_posted_again_under_its_key_is_taken_once_and_answered_as_at_first(posted: Posted):
    body = '{"a": 1}\n{"a": "x"}\n'
    answers = [posted.post(body, content_type="application/x-ndjson", **{"Idempotency-Key": key}).json()
               for key in ("x", "x", "y")]
    assert [answer.pop("again") for answer in answers] == [False, True, False]
    assert answers[0] == answers[1] and (answers[0]["taken"], answers[0]["dead"]) == (1, 1)
    assert posted.rows() == [1, 1] and posted.store.state(posted.task).dead == 2
    assert posted.post([{"a": 1}], **{"Idempotency-Key": "x" * 201}).status_code == 400


def test_a_request_that_is_refused_keeps_no_key(posted: Posted):
    answers = [posted.post(body, **{"Idempotency-Key": "x"}) for body in ({"a": "no"}, {"a": "no"}, {"a": 3}, {"a": 3})]
    assert [answer.status_code for answer in answers] == [422, 422, 202, 202]
    assert [answer.json()["taken"] for answer in answers[2:]] == [1, 1] and posted.rows() == [3]
    posted.store.leave(posted.task, "f1-0")
    assert posted.post({"a": 4}, **{"Idempotency-Key": "y"}).status_code == 503
    posted.store.join(posted.task, "f1-0")
    assert posted.post({"a": 5}, **{"Idempotency-Key": "y"}).json()["taken"] == 1


@pytest.mark.parametrize(("other", "content_type"), [
    ({"a": 2}, "application/json"), ({"a": "no"}, "application/json"), ('{"a": 1}', "application/x-ndjson")])
def test_a_key_that_another_body_took_is_refused(posted: Posted, other, content_type):
    assert posted.post('{"a": 1}', **{"Idempotency-Key": "x"}).status_code == 202
    refused = posted.post(other, content_type=content_type, **{"Idempotency-Key": "x"})
    assert (refused.status_code, refused.json()["code"]) == (409, "key_used")
    assert "key of its own" in refused.json()["remedy"]
    assert posted.rows() == [1] and posted.store.state(posted.task).dead == 0


def test_a_key_that_an_earlier_version_took_is_taken_still(posted: Posted, broker):
    broker.zadd(keys.posted(posted.task), {"x": 2**41})
    assert posted.post({"a": 1}, **{"Idempotency-Key": "x"}).json()["again"] and posted.rows() == []


def test_what_is_known_of_a_key_goes_after_a_day(posted: Posted, broker):
    assert posted.post({"a": 1}, **{"Idempotency-Key": "x"}).status_code == 202
    broker.zadd(keys.posted(posted.task), {"x": 1})
    assert posted.post({"a": 2}, **{"Idempotency-Key": "y"}).status_code == 202
    assert broker.hkeys(keys.answers(posted.task)) == [b"y"]
    assert posted.post({"a": 3}, **{"Idempotency-Key": "x"}).json()["taken"] == 1


def test_of_several_sources_none_takes_what_one_has_another_body_for(posted: Posted, world):
    running(world.carla, world.city, json.dumps({
        "name": "again",
        "tasks": [
            {"id": "posted", "type": "http_ingest", "config": {
                "name": "meters", "token": {"secret": "meters"}, "columns": ["a:double"]}},
            {"id": "out", "type": "output", "config": {"name": "out"}}],
        "streams": [{"from": "posted", "to": "out"}]}), world.ana)
    [other] = RunningTaskRow.objects.filter(type="http_ingest").exclude(pk=posted.task)
    posted.store.open(other.pk, layout_of(other.config), known_readers=["f2-0"], node="n1")
    posted.store.join(other.pk, "f2-0")
    taken = posted.post({"a": 1.5}, **{"Idempotency-Key": "x"})
    assert taken.status_code == 202 and taken.json()["taken"] == 1, "the double takes it"
    assert posted.post({"a": 2}, **{"Idempotency-Key": "x"}).status_code == 409
    assert posted.rows() == [] and posted.store.state(other.pk).seq == 1


def test_a_full_source_says_so_and_takes_nothing_and_then_all(posted: Posted, broker):
    broker.hset(keys.meta(keys.intake(posted.task)), "capacity", 2)
    for number in range(3):
        assert posted.post({"a": number}).status_code == 202
    refused = posted.post({"a": 3})
    assert (refused.status_code, refused.json()["code"], refused["Retry-After"]) == (429, "source_full", "1")
    posted.channels.commit(keys.intake(posted.task), "f1-0", posted.channels.info(keys.intake(posted.task)).last)
    assert posted.post({"a": 3}).status_code == 202
    assert posted.rows() == [3]


def test_of_several_sources_all_take_what_is_posted_or_none_and_one_that_rests_gets_none(posted: Posted, world, broker):
    running(world.carla, world.city, json.dumps({
        "name": "again",
        "tasks": [
            {"id": "posted", "type": "http_ingest", "config": {
                "name": "meters", "token": {"secret": "meters"}, "columns": ["a:double"]}},
            {"id": "out", "type": "output", "config": {"name": "out"}}],
        "streams": [{"from": "posted", "to": "out"}]}), world.ana)
    [other] = RunningTaskRow.objects.filter(type="http_ingest").exclude(pk=posted.task)
    posted.store.open(other.pk, layout_of(other.config), known_readers=["f2-0"], node="n1")
    assert posted.post({"a": 1}).status_code == 202, "the other rests"
    posted.store.join(other.pk, "f2-0")
    assert posted.post({"a": 2}).status_code == 202
    for full in (posted.task, other.pk):
        broker.hset(keys.meta(keys.intake(full)), "capacity", 0)
        assert posted.post({"a": 3}).status_code == 429
        broker.hset(keys.meta(keys.intake(full)), "capacity", 256)
    assert posted.rows() == [1, 2] and posted.store.state(other.pk).seq == 1


def test_a_source_that_nobody_reads_takes_nothing(posted: Posted):
    posted.store.leave(posted.task, "f1-0")
    refused = posted.post({"a": 1})
    assert (refused.status_code, refused.json()["code"]) == (503, "source_paused")
    assert posted.store.state(posted.task).seq == 0


def test_a_refusal_says_what_is_wrong_with_the_first_event(posted: Posted):
    value, text = (posted.post(body).json()["remedy"] for body in ('{"a": "x"}', "{garbage"))
    assert value.startswith("The first: field a is 'x', which is no ") and text.startswith("The first: is no JSON")


def test_what_cannot_be_read_is_counted_and_browsable_by_who_may_see_the_dataflow(posted: Posted, world):
    answer = posted.post('{"a": 1}\n{"a": "x"}\n', content_type="application/x-ndjson")
    assert answer.status_code == 202 and (answer.json()["taken"], answer.json()["dead"]) == (1, 1)
    refused = posted.post("{garbage")
    assert (refused.status_code, refused.json()["code"]) == (422, "nothing_read")
    letters = dead_letters(viewer_of(world.carla), posted.record.pk, "posted")
    assert [letter.sample.splitlines()[0] for letter in letters] == ["{garbage", '{"a": "x"}']
    assert "is no bigint" in letters[1].reason
    for number in range(5):
        posted.post(f"{{{number}")
    assert len(dead_letters(viewer_of(world.carla), posted.record.pk, "posted")) == 3, "the newest are kept"
    assert posted.store.state(posted.task).dead == 7
    with pytest.raises(NotFound):
        dead_letters(viewer_of(world.mo), posted.record.pk, "posted")
    page = Client()
    page.force_login(world.carla, backend="dashboard.teams.logins.ThrottledBackend")
    address = f"/dataflows/{posted.record.pk}/"
    assert "{4" in page.get(f"{address}dead-letters/posted").content.decode()
    assert "/ingest/city/meters" in page.get(address).content.decode()
    assert page.get(f"/api{address}sources/posted/dead-letters").json()[0]["sample"] == "{4"
    assert page.get(f"/api{address}live").json()["sources"]["posted"]["address"] == "/ingest/city/meters"


@pytest.mark.parametrize(("content_type", "body"), [
    ("application/json", "[" + "{}," * 2_000_000 + "{}]"), ("application/x-ndjson", "{}\n" * 2_000_000),
    ("text/csv", "1\n" * 2_000_000), ("application/vnd.apache.arrow.stream", None)],
    ids=["json", "ndjson", "csv", "arrow"])
def test_a_request_that_decodes_to_too_much_is_refused_and_takes_nothing(posted: Posted, content_type, body):
    if body is None:
        table, sink = pa.table({"a": [0] * 4_000_000}), pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
            writer.write_table(table)
        body = sink.getvalue().to_pybytes()
        assert len(body) < 2_000
    refused = posted.post(body, content_type=content_type)
    assert (refused.status_code, refused.json()["code"]) == (413, "too_large")
    assert "WEIR_INGEST_EVENTS" in refused.json()["remedy"] and posted.store.state(posted.task).dead == 0
    assert posted.post({"a": 1}).status_code == 202 and posted.rows() == [1]


def test_of_many_dead_letters_of_one_request_the_newest_are_kept_and_all_counted(posted: Posted, broker):
    RunningTaskRow.objects.filter(pk=posted.task).update(config=RunningTaskRow.objects.get(
        pk=posted.task).config | {"keep_dead": 100_000})
    posted.post("\n".join(["{}", *["x"] * 1_500]), content_type="application/x-ndjson")
    assert posted.store.state(posted.task).dead == 1_500
    assert len(posted.store.letters(posted.task, count=5_000)) == DEAD_LETTERS.most


def test_many_who_post_at_once_get_numbers_of_their_own(posted: Posted, monkeypatch):
    write, interrupted = IntakeStore.write, []

    def overtaken_once(self, *arguments, **more):
        if not interrupted:
            interrupted.append(True)
            assert posted.post({"a": 1}).status_code == 202
        return write(self, *arguments, **more)

    monkeypatch.setattr(IntakeStore, "write", overtaken_once)
    assert posted.post({"a": 2}).status_code == 202
    assert posted.rows() == [1, 2]
