"""Newest events of streams: whose they are, which a document's tasks would share, and what is shown of the others."""

from __future__ import annotations

import json
from dataclasses import asdict
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
import redis

from dashboard import jobs
from dashboard.catalog.models import DataflowRecord
from dashboard.explorer.streams import NOT_YET, RECORDED, RESTS, RUNS, stream_events, streams_of
from dashboard.operations.live_view.live_sources import dead_letters
from dashboard.operations.models import FragmentRow, RunningTaskRow, Use
from dashboard.operations.selectors import output_tail
from dashboard.teams.permissions import viewer_of
from dashboard.teams.services import set_secret
from scheduler.model.errors import InvalidDataflow, NotFound, PermissionDenied
from scheduler.model.fragment import RunningBundle
from tests.dashboard.building import World, document, running
from tests.dashboard.rearranging import paused
from workers.engine.channels import block_codec, keys

pytestmark = [pytest.mark.django_db, pytest.mark.broker]


@pytest.fixture(autouse=True)
def _broker(broker: redis.Redis, broker_url: str, settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.DATA_DIR, settings.REDIS_URL = tmp_path, broker_url
    monkeypatch.delenv("WEIR_SECRETS_KEY", raising=False)
    jobs.broker.cache_clear()
    yield
    jobs.broker.cache_clear()


def running_id(record: DataflowRecord, task: str) -> str:
    return Use.objects.get(dataflow=record, task_id=task).running_task_id


def copied(broker: redis.Redis, task_id: str, *numbers: int, query: str = "", block_of: int = 1) -> None:
    """What the valve of a task's query has copied of these numbers, in order; each event was born when it says."""
    query = query or RunningTaskRow.objects.get(pk=task_id).fragment
    for first in range(0, len(numbers), block_of):
        column = pa.array(numbers[first:first + block_of], pa.int64())
        block = block_codec.encode_block(pa.record_batch({"_seq": column, "_born": column, "obs": ["t"] * len(column)}))
        broker.lpush(keys.tapped(task_id, query), block)
    broker.sadd(keys.tapped(task_id), query)


def divided(task_id: str, *bundles: RunningBundle, inherits: tuple[str, ...] = ()) -> None:
    """Let a schedule divide the fragment of a task."""
    FragmentRow.objects.filter(pk=RunningTaskRow.objects.get(pk=task_id).fragment).update(
        bundles=[asdict(bundle) for bundle in bundles], inherits=list(inherits))


def seqs(viewer, task_id: str, *, count: int = 5) -> list[int]:
    return [event["_seq"] for event in stream_events(viewer, task_id, count=count).events]


def states(team, text: str) -> dict[str, str]:
    return {stream.task: stream.state for stream in streams_of(team, text)}


def test_the_newest_events_of_a_stream_within_a_query_are_shown_newest_first(world: World, broker) -> None:
    task = running_id(running(world.carla, world.city, document("traffic"), world.ana), "parse")
    assert stream_events(viewer_of(world.mo), task).events == []
    assert broker.ttl(keys.tap(RunningTaskRow.objects.get(pk=task).fragment)) > 0, "valves copy from the first look on"
    copied(broker, task, 1, 2, 3)
    newest = stream_events(viewer_of(world.mo), task, count=2)
    assert [event["_seq"] for event in newest.events] == [3, 2]
    assert newest.types == {"_seq": "bigint", "_born": "bigint", "obs": "string"}


def test_of_a_divided_task_each_query_shows_some_of_its_events_the_newest_of_all_first(world: World, broker) -> None:
    """Though one of them copies many at a time, and another one is slow."""
    task = running_id(running(world.carla, world.city, document("traffic"), world.ana), "parse")
    fragment_id = RunningTaskRow.objects.get(pk=task).fragment
    divided(task, RunningBundle(fragment_id, "n1/0", 1, 0.5), RunningBundle("busy", "n1/1", 1, 0.5),
            RunningBundle("gone", "n1/0", 1, 0.0))
    viewer = viewer_of(world.mo)
    assert seqs(viewer, task) == []
    assert all(broker.ttl(keys.tap(query)) > 0 for query in (fragment_id, "busy", "gone"))
    copied(broker, task, 1, 4, query=fragment_id)
    copied(broker, task, *range(10, 30), query="busy", block_of=5)
    copied(broker, task, 6, 7, query="gone")
    assert seqs(viewer, task) == [29, 28, 27, 4, 1]
    assert seqs(viewer, task, count=1) == [29]
    assert seqs(viewer, task, count=3) == [29, 28, 4]
    broker.delete(keys.tapped(task, "busy"))
    assert seqs(viewer, task) == [4, 1, 7, 6], "one that leaves has nothing newer, but nothing else is there"


def test_while_a_query_hands_over_what_it_copied_is_shown_and_it_is_looked_at(world: World, broker) -> None:
    task = running_id(running(world.carla, world.city, document("traffic"), world.ana), "parse")
    fragment_id = RunningTaskRow.objects.get(pk=task).fragment
    divided(task, inherits=("before",))
    copied(broker, task, 1, 2, query="before")
    copied(broker, task, 3, query="part-of-before")
    viewer = viewer_of(world.mo)
    assert seqs(viewer, task) == [3, 2, 1]
    assert all(broker.ttl(keys.tap(query)) > 0 for query in (fragment_id, "before", "part-of-before"))
    copied(broker, task, 8, 9, query=fragment_id)
    assert seqs(viewer, task, count=2) == [9, 8] and seqs(viewer, task) == [9, 8, 3, 2, 1]
    broker.delete(keys.tapped(task, "before"), keys.tapped(task, "part-of-before"))
    assert seqs(viewer, task) == [9, 8]
    assert broker.smembers(keys.tapped(task)) == {fragment_id.encode()}, "what ended long ago is forgotten"


def test_an_output_shows_what_its_channel_retains(world: World, broker) -> None:
    record = running(world.carla, world.city, document("traffic"), world.ana)
    task = running_id(record, "out")
    row = RunningTaskRow.objects.get(pk=task)

    def retained(query: str, *numbers: int) -> None:
        column = pa.array(numbers, pa.int64())
        block = block_codec.encode_block(pa.record_batch({"_seq": column, "_born": column}))
        broker.xadd(keys.channel(f"{query}.{row.position}"), {"b": block, "n": len(numbers), "t": 0})

    retained(row.fragment, 7, 8)
    viewer = viewer_of(world.mo)
    assert seqs(viewer, task) == [8, 7]
    divided(task, RunningBundle(row.fragment, "n1/0", 1, 0.5), RunningBundle("other", "n1/1", 1, 0.5))
    retained("other", *range(20, 30))
    assert seqs(viewer, task) == [29, 28, 27, 8, 7]


def test_nobody_looks_at_private_tasks_of_another_team(world: World, broker) -> None:
    task = running_id(
        running(world.carla, world.city, document("hush", visibility="private"), world.ana), "parse")
    copied(broker, task, 1)
    for name in ("mo", "outsider"):
        with pytest.raises(NotFound):
            stream_events(viewer_of(world.users[name]), task)
    assert not broker.exists(keys.tap(RunningTaskRow.objects.get(pk=task).fragment)), "nor does looking change anything"
    for name in ("vera", "root"):
        assert stream_events(viewer_of(world.users[name]), task).events


def posted(name: str, **extra) -> str:
    return json.dumps({
        "name": name, "tasks": [
            {"id": "posted", "type": "http_ingest", "config": {
                "name": "meters", "token": {"secret": "meters"}, "columns": ["a:bigint"]}},
            {"id": "out", "type": "output", "config": {"name": "out"}}],
        "streams": [{"from": "posted", "to": "out"}], **extra})


def test_what_a_credential_reads_is_for_its_team_though_the_dataflow_is_shared(world: World, broker) -> None:
    set_secret(actor=world.dev, team=world.city, name="meters", value="a-token-of-the-meters")
    set_secret(actor=world.dev, team=world.mobility, name="meters", value="another-token-of-theirs")
    record = running(world.carla, world.city, posted("meters"), world.ana)
    for task in ("posted", "out"):
        copied(broker, running_id(record, task), 1)
        assert stream_events(viewer_of(world.vera), running_id(record, task)).events
        with pytest.raises(PermissionDenied):
            stream_events(viewer_of(world.mo), running_id(record, task))
    assert dead_letters(viewer_of(world.vera), record.pk, "posted") == []
    assert output_tail(viewer_of(world.vera), record.pk, "out") == []
    for read in (lambda: output_tail(viewer_of(world.mo), record.pk, "out"),
                 lambda: dead_letters(viewer_of(world.mo), record.pk, "posted")):
        with pytest.raises(PermissionDenied, match="another team's credential"):
            read()
    # The same text under the other team's own secret is another source, and shows nothing of this one.
    assert states(world.city, posted("again")) == {"posted": RUNS, "out": RUNS}
    assert states(world.mobility, posted("theirs")) == {"posted": NOT_YET, "out": NOT_YET}


def test_a_document_shows_the_running_tasks_that_it_would_share(world: World) -> None:
    traffic = running(world.carla, world.city, document("traffic"), world.ana)
    streams = {stream.task: stream for stream in streams_of(world.mobility, document("jams", window=20))}
    assert {task: stream.state for task, stream in streams.items()} == {
        "sense": RUNS, "parse": RUNS, "average": NOT_YET, "out": NOT_YET}
    assert streams["parse"].running == running_id(traffic, "parse")
    assert streams["average"].columns.type_of("sensor_id") == "string", "columns are known before anything runs"
    assert streams["average"].note and streams["average"].remedy


def test_a_private_task_of_another_team_changes_nothing_in_it(world: World) -> None:
    text = document("mine", visibility="private")
    running(world.carla, world.city, document("hush", visibility="private"), world.ana)
    assert set(states(world.mobility, text).values()) == {NOT_YET}
    assert states(world.city, text)["average"] == RUNS


def test_a_paused_task_is_told_from_one_that_does_not_run(world: World) -> None:
    paused(world, running(world.carla, world.city, document("traffic"), world.ana))
    assert states(world.city, document("jams", window=20))["parse"] == RESTS


def test_a_recording_shows_its_first_events_and_a_missing_one_is_told(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEIR_REPLAY_DIRS", str(tmp_path))
    (tmp_path / "trips.csv").write_text("time,fare\n" + "".join(f"{i},{i}.5\n" for i in range(9)))
    text = json.dumps({
        "name": "trips", "tasks": [
            {"id": "trips", "type": "replay", "config": {"path": "trips.csv", "time_column": "time"}},
            {"id": "out", "type": "output", "config": {"name": "out"}}],
        "streams": [{"from": "trips", "to": "out"}]})
    [trips, _] = streams_of(world.city, text)
    assert (trips.state, trips.events) == (RECORDED, [{"csv": f"{i},{i}.5"} for i in range(5)])


@pytest.mark.parametrize(("type_", "config"), [
    ("urban_sensing", {}), ("mqtt", {"server": "127.0.0.1:1883", "topics": ["a"], "columns": ["a:bigint"]})])
def test_a_source_that_cannot_be_looked_into_says_what_to_do(
    world: World, type_: str, config: dict, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEIR_CONNECTOR_HOSTS", "127.0.0.1")
    text = json.dumps({
        "name": "new", "tasks": [
            {"id": "source", "type": type_, "config": config},
            {"id": "out", "type": "output", "config": {"name": "out"}}],
        "streams": [{"from": "source", "to": "out"}]})
    [source, _] = streams_of(world.city, text)
    assert source.state == NOT_YET and source.events == [] and source.note and source.remedy
    assert set(source.columns) > {"_seq", "_time", "_born"}


def test_a_document_with_problems_is_refused_as_a_submission_is(world: World) -> None:
    with pytest.raises(InvalidDataflow):
        streams_of(world.city, "name: x")


def test_values_that_json_has_none_for_are_text_in_answers_and_on_the_page(world: World, broker, client) -> None:
    task = running_id(running(world.carla, world.city, document("traffic"), world.ana), "parse")
    block = block_codec.encode_block(pa.record_batch({
        "_seq": [1], "_born": [1], "v": [float("nan")], "w": [float("-inf")], "id": [2**63 - 1],
        "cost": pa.array([Decimal("1234567890123456789.10")], pa.decimal128(38, 2)), "raw": [b"\xff"],
        "at": pa.array([10_000 * 366 * 86_400_000_000], pa.timestamp("us", "UTC")), "long": ["x" * 8_000_000],
        "list": [[float("inf"), 1.5]]}))
    broker.lpush(keys.tapped(task, RunningTaskRow.objects.get(pk=task).fragment), block)
    client.force_login(world.mo)
    answer = client.get(f"/api/estate/tasks/{task}/events")
    assert answer.status_code == 200 and len(answer.content) < 50_000

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    [event] = json.loads(answer.content, parse_constant=refuse)["events"]
    assert (event["v"], event["w"], event["cost"], event["raw"], event["list"], event["id"]) == (
        "NaN", "-Infinity", "1234567890123456789.10", "/w==", ["Infinity", 1.5], 2**63 - 1)
    assert event["at"].startswith("11990") and event["long"].endswith("(8,000,000 characters)")
    page = client.get(f"/estate/tasks/{task}/events").content.decode()
    assert all(text in page for text in ("NaN", "-Infinity", "1234567890123456789.10", "11990"))
