"""Newest events of streams: whose they are, which a document's tasks would share, and what is shown of the others."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
import redis

from dashboard import jobs
from dashboard.catalog.models import DataflowRecord
from dashboard.explorer.streams import NOT_YET, RECORDED, RESTS, RUNS, stream_events, streams_of
from dashboard.operations.live_sources import dead_letters
from dashboard.operations.models import RunningTaskRow, Use
from dashboard.operations.selectors import output_tail
from dashboard.teams.permissions import viewer_of
from dashboard.teams.services import set_secret
from scheduler.model.errors import InvalidDataflow, NotFound, PermissionDenied
from tests.dashboard.building import World, document, running
from tests.dashboard.rearranging import paused
from workers.engine.channels import codec, keys

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


def copied(broker: redis.Redis, task_id: str, *numbers: int) -> None:
    """What a task's valve has copied: one block a number, in order."""
    row = RunningTaskRow.objects.get(pk=task_id)
    for number in numbers:
        block = codec.encode_block(pa.record_batch({"_seq": pa.array([number], pa.int64()), "obs": ["t"]}))
        broker.lpush(keys.tapped(row.fragment, row.position), block)


def states(team, text: str) -> dict[str, str]:
    return {stream.task: stream.state for stream in streams_of(team, text)}


def test_the_newest_events_of_a_stream_within_a_query_are_shown_newest_first(world: World, broker) -> None:
    task = running_id(running(world.carla, world.city, document("traffic"), world.ana), "parse")
    assert stream_events(viewer_of(world.mo), task).events == []
    assert broker.ttl(keys.tap(RunningTaskRow.objects.get(pk=task).fragment)) > 0, "valves copy from the first look on"
    copied(broker, task, 1, 2, 3)
    newest = stream_events(viewer_of(world.mo), task, count=2)
    assert [event["_seq"] for event in newest.events] == [3, 2]
    assert newest.types == {"_seq": "bigint", "obs": "string"}


def test_an_output_shows_what_its_channel_retains(world: World, broker) -> None:
    record = running(world.carla, world.city, document("traffic"), world.ana)
    task = running_id(record, "out")
    row = RunningTaskRow.objects.get(pk=task)
    block = codec.encode_block(pa.record_batch({"_seq": pa.array([7, 8], pa.int64())}))
    broker.xadd(keys.channel(f"{row.fragment}.{row.position}"), {"b": block, "n": 2, "t": 0})
    assert [event["_seq"] for event in stream_events(viewer_of(world.mo), task).events] == [8, 7]


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
