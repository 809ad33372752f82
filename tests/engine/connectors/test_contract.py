"""What every connector promises, asked of each with a real server: whatever dies or is away, nothing is lost, and
nothing comes twice where the source can be read again."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from scheduler.model.columns import number_of

from .playing import Played, PlayedReader, fragment_of, until
from .rigs import rig_of

pytestmark = pytest.mark.broker
KINDS = ("kafka", "mqtt 5", "postgresql", "files")
VARIANTS = ("mqtt 3.1.1", "mqtt 5 QoS 2", "files of S3", "of a package")  # the long run has them


@pytest.fixture(scope="module", params=[*KINDS, *(pytest.param(kind, marks=pytest.mark.long) for kind in VARIANTS)])
def server(request: pytest.FixtureRequest) -> Iterator[Any]:
    with rig_of(request.param) as rig:
        yield rig


@pytest.fixture
def rig(server: Any, tmp_path: Any) -> Any:
    server.anew()
    return server


@pytest.fixture
def host(rig: Any, broker: redis.Redis, broker_url: str, tmp_path: Any) -> Iterator[Played]:
    played = Played(broker, broker_url, tmp_path / "data", rig.environment)
    played.start()
    yield played
    played.close()


def reading(host: Played, rig: Any, **config: Any) -> PlayedReader:
    """A fragment that reads the source, once the source is being read."""
    task = rig.task(**config)
    host.want(fragment_of(task))
    reader = PlayedReader(host.broker, task.id)
    until(lambda: reader.has_place and host.source(task.id).get("state") == "running", saying=lambda: host.report)
    return reader


def require(reader: PlayedReader, rig: Any, numbers: list[int], host: Played) -> None:
    """Wait until all of the numbers have come, and no other; each once, or at least once."""
    until(lambda: set(reader.numbers()) >= set(numbers),
          saying=lambda: (sorted(set(numbers) - set(reader.numbers()))[:10], host.report))
    time.sleep(0.3)
    counts = Counter(reader.numbers())
    assert set(counts) == set(numbers)
    if rig.exact:
        assert max(counts.values()) == 1
    assert [number_of(row["_seq"]) for row in reader.rows] == list(range(len(reader.rows)))


@pytest.mark.long  # the test below has both, too, where nothing comes twice
def test_events_come_in_order_with_their_columns(host, rig):
    reader = reading(host, rig)
    rig.send(range(50))
    require(reader, rig, list(range(50)), host)
    assert [row["n"] for row in reader.rows] == list(range(50))
    assert reader.rows[7]["text"] == "event 7" and reader.rows[7]["_time"] == reader.rows[7]["_born"]


def test_a_host_that_is_killed_at_any_moment_loses_nothing(host, rig):
    reader = reading(host, rig)
    rng = random.Random(7)
    sent = 0
    for _ in range(4):
        for _ in range(6):
            rig.send(range(sent, sent + 40))
            sent += 40
            reader.read()
        time.sleep(rng.random() * 0.2)
        host.kill()
        host.start()
    require(reader, rig, list(range(sent)), host)
    assert all(row["text"] == f"event {row['n']}" and row["_time"] == row["_born"] for row in reader.rows)
    if rig.exact:
        assert [row["n"] for row in reader.rows] == list(range(sent))


@pytest.mark.long
def test_a_source_that_is_away_is_told_and_read_on(host, rig):
    reader = reading(host, rig)
    rig.send(range(20))
    require(reader, rig, list(range(20)), host)
    rig.leave()
    state = until(lambda: (source := host.source(rig.task().id)).get("state") == "away" and source,
                  within_s=120, saying=lambda: host.report)
    assert state["error"] and state["retry_at_ms"]
    until(lambda: "connector_failed" in {event["kind"] for event in host.events})
    assert all(event["at_ms"] for event in host.events), "its agent passes on no event without a time"
    rig.return_()
    rig.send(range(20, 40))
    require(reader, rig, list(range(40)), host)
    until(lambda: host.source(rig.task().id)["state"] == "running" and not host.source(rig.task().id)["error"])


@pytest.mark.long
def test_a_full_channel_holds_the_source_back_and_loses_nothing(host, rig):
    reader = reading(host, rig)
    task, sent, capacity = rig.task().id, 0, 3
    host.broker.hset(f"weir:ch:in-{task}.0:meta", "capacity", capacity)
    while not reader.store.is_full(task):
        rig.send(range(sent, sent + 5))
        sent += 5
        time.sleep(0.05)
        assert sent < 2_000
    until(lambda: host.source(task)["state"] == "throttled")
    rig.send(range(sent, sent + 300))
    sent += 300
    time.sleep(0.5)
    assert host.broker.xlen(f"weir:ch:in-{task}.0") == capacity + 1
    require(reader, rig, list(range(sent)), host)


@pytest.mark.long
def test_garbage_becomes_a_dead_letter_with_its_reason(host, rig):
    reader = reading(host, rig)
    rig.send([1])
    rig.send_garbage()
    rig.send([2])
    require(reader, rig, [1, 2], host)
    [letter] = reader.store.letters(rig.task().id)
    assert letter.reason and letter.place and letter.sample
    until(lambda: host.source(rig.task().id)["dead"] == 1)


@pytest.mark.long
def test_a_schema_that_changes_under_way_is_read_as_far_as_it_fits(host, rig):
    reader = reading(host, rig)
    rig.send([1])
    rig.send_other(2)
    rig.send([3])
    require(reader, rig, [1, 2, 3], host)
    assert [row["text"] for row in reader.rows] == ["event 1", None, "event 3"]


@pytest.mark.long
def test_a_source_that_pauses_goes_on_from_its_position(host, rig):
    reader = reading(host, rig)
    rig.send(range(10))
    require(reader, rig, list(range(10)), host)
    host.want(fragment_of(rig.task(), active=0))
    until(lambda: not host.report["connectors"], saying=lambda: host.report)
    rig.send(range(10, 20))
    host.want(fragment_of(rig.task()))
    require(reader, rig, list(range(20)), host)


@pytest.mark.long
def test_a_source_that_is_let_go_leaves_nothing_and_begins_anew(host, rig, broker):
    reader = reading(host, rig)
    rig.send(range(10))
    require(reader, rig, list(range(10)), host)
    host.want()
    until(lambda: not host.report["connectors"])
    host.want(fragment_of(rig.task(), "f3-0"))
    later = PlayedReader(broker, rig.task().id, "f3-0")
    until(lambda: later.has_place and host.source(rig.task().id).get("state") == "running")
    rig.send(range(10, 20))
    until(lambda: set(later.numbers()) >= set(range(10, 20)))
    assert number_of(later.rows[0]["_seq"]) == 0
    assert set(later.numbers()) <= set(range(20)) and broker.hget(
        f"weir:connector:{rig.task().id}", "readers") == b'["f3-0"]'


@pytest.mark.long
def test_who_joins_reads_from_now_on_and_an_heir_from_where_the_other_ended(host, rig, broker):
    task = rig.task()
    reader = reading(host, rig)
    rig.send(range(10))
    require(reader, rig, list(range(10)), host)
    host.want(fragment_of(task, "f2-0", inherits=("f1-0",)))  # the node keeps f1-0 as handing over
    heir = PlayedReader(broker, task.id, "f2-0")
    rig.send(range(10, 20))
    until(lambda: len(set(reader.numbers())) == 20)
    assert not heir.has_place
    place = heir.ends_after(reader)
    rig.send(range(20, 30))
    until(lambda: set(heir.numbers()) >= set(range(20, 30)))
    assert number_of(heir.rows[0]["_seq"]) == len(reader.rows) and place
