"""What every sink promises, asked of each with a real server: whatever dies or is away, each event is outside once, or
at least once where the other system cannot tell."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest
import redis

from scheduler.contracts.desired import WantedFragment
from workers.engine.channels import block_codec, keys, scripts
from workers.engine.channels.channel_config import CAPACITY_BLOCKS
from workers.engine.channels.channel_registry import Channels
from workers.engine.connectors.formats import MessageLayout
from workers.engine.sinks.again import REFUSED as REFUSED_ONES
from workers.engine.sinks.again import SINCE
from workers.engine.sinks.sink_store import Order, SinkStore

from .playing import Played, until
from .sink_rigs import REFUSED, sink_rig_of

pytestmark = pytest.mark.broker
KINDS = ("postgresql upsert", "delta folder", "s3 parquet", "kafka", "mqtt 5")
VARIANTS = ("postgresql append", "delta s3", "s3 json", "mqtt 3.1.1", "of a package")  # the long run has them


class PlayedQuery:
    """The query of a sink, as Spark writes its channel: a batch at a time, and none while it is full."""

    def __init__(self, broker: redis.Redis, channel: str) -> None:
        self._broker, self.channel, self.channels = broker, channel, Channels(broker)
        layout = MessageLayout("json", {"n": "bigint", "text": "string"}, time_field=None)
        self.channels.open_channel(channel, schema_json=layout.schema_json)
        self.channels.join(channel, keys.SINK)
        self.fence, self._batch, self._seq = self.channels.take_fence(channel), 0, 0

    def send(self, numbers: Sequence[int]) -> None:
        """One batch with these numbers, of one block."""
        until(lambda: not self.channels.info(self.channel).is_full)
        now_ms, seqs = time.time_ns() // 1_000_000, range(self._seq, self._seq + len(numbers))
        self._seq += len(numbers)
        rows = pa.record_batch({
            "_seq": pa.array(seqs, pa.int64()), "_time": pa.array([now_ms] * len(numbers), pa.int64()),
            "_born": pa.array([now_ms] * len(numbers), pa.int64()), "n": pa.array(numbers, pa.int64()),
            "text": pa.array([f"event {n}" for n in numbers])})
        self._batch += 1
        names = [key(self.channel) for key in (keys.channel, keys.meta, keys.readers)]
        assert scripts.run(self._broker, "write", names, [
            self.fence, self._batch, 0, len(numbers), block_codec.encode_block(rows), now_ms]) == 1


@pytest.fixture(scope="module", params=[*KINDS, *(pytest.param(kind, marks=pytest.mark.long) for kind in VARIANTS)])
def server(request: pytest.FixtureRequest) -> Iterator[Any]:
    with sink_rig_of(request.param) as rig:
        yield rig


@pytest.fixture
def rig(server: Any) -> Any:
    server.anew()
    return server


@pytest.fixture
def host(rig: Any, broker: redis.Redis, broker_url: str, tmp_path: Any) -> Iterator[Played]:
    played = Played(broker, broker_url, tmp_path / "data", rig.environment)
    rig.hosted_in(tmp_path / "data")
    played.start()
    yield played
    played.close()


def writing(host: Played, rig: Any, *, fragment: str = "f1-0", **config: Any) -> PlayedQuery:
    """A sink that runs, and the query before it."""
    task = rig.task(**config)
    query = PlayedQuery(host.broker, f"{fragment}.0")
    host.want(WantedFragment(fragment, (task,)))
    return query


def sink(host: Played, rig: Any) -> dict[str, Any]:
    return host.report.get("sinks", {}).get(rig.task().id, {})


def require(rig: Any, numbers: Sequence[int], host: Played) -> None:
    """Wait until just these numbers are outside, each once or at least once, and the sink says that it is done."""
    until(lambda: set(rig.numbers()) >= set(numbers),
          saying=lambda: (sorted(set(numbers) - set(rig.numbers()))[:10], host.report))
    until(lambda: sink(host, rig).get("waiting") == 0, saying=lambda: host.report)
    counts = rig.numbers()
    assert set(counts) == set(numbers)
    if rig.exact:
        assert max(counts.values()) == 1


def test_a_host_that_is_killed_at_any_moment_leaves_each_event_outside(host, rig):
    query = writing(host, rig)
    rng, sent = random.Random(5), 0
    for _ in range(5):
        for _ in range(6):
            query.send(range(100 + sent, 100 + sent + 40))
            sent += 40
            time.sleep(rng.random() * 0.05)
        time.sleep(rng.random() * 0.3)
        host.kill()
        host.start()
    require(rig, range(100, 100 + sent), host)
    until(lambda: sink(host, rig).get("events") == sent or not rig.exact, saying=lambda: host.report)


def test_a_table_that_was_deleted_is_made_anew_with_what_comes_and_that_is_told(host, rig):
    if not hasattr(rig, "delete"):
        pytest.skip("Weir does not make this kind of target, so it cannot find one made anew")
    query = writing(host, rig)
    query.send(range(5))
    require(rig, range(5), host)
    assert "sink_found_otherwise" not in {event["kind"] for event in host.events}
    rig.delete()
    query.send(range(20, 25))
    require(rig, range(20, 25), host)
    [notice] = [event for event in host.events if event["kind"] == "sink_found_otherwise"]
    assert "deleted" in notice["what"] and "Write again" in notice["what"]
    assert notice["fragment"] == query.channel.partition(".")[0]


def test_what_is_refused_is_kept_with_its_reason_and_taken_on_request(host, rig):
    if not rig.refuses:
        pytest.skip("this system takes every event, or none")
    query = writing(host, rig)
    query.send(range(10, 30))
    query.send([30])
    require(rig, [n for n in range(10, 31) if n != REFUSED], host)
    until(lambda: sink(host, rig)["refused"] == 1)
    store = SinkStore(host.broker)
    [letter] = store.letters(query.channel)
    assert letter.reason and "row 3" in letter.place and b'"n":13' in letter.sample
    rig.mend()
    store.ask(query.channel, Order(REFUSED_ONES))
    require(rig, range(10, 31), host)
    until(lambda: not store.letters(query.channel) and sink(host, rig)["refused"] == 0)


@pytest.mark.long
def test_the_other_systems_word_counts_where_a_host_died_before_it_noted_what_it_wrote(host, rig):
    if not rig.exact:
        pytest.skip("this system does not say how far the sink has come")
    query = writing(host, rig)
    for start in (100, 120, 140):
        query.send(range(start, start + 20))
        require(rig, range(100, start + 20), host)
    host.kill()
    host.broker.hset(keys.sink(query.channel), "position", "1-0")
    query.send(range(160, 180))
    host.start()
    require(rig, range(100, 180), host)


@pytest.mark.long
def test_a_system_that_is_away_is_told_and_written_on(host, rig):
    query = writing(host, rig)
    query.send(range(100, 120))
    require(rig, range(100, 120), host)
    rig.leave()
    query.send(range(120, 140))
    state = until(lambda: (report := sink(host, rig)).get("state") == "away" and report, within_s=120,
                  saying=lambda: host.report)
    assert state["error"] and state["retry_at_ms"]
    until(lambda: "sink_failed" in {event["kind"] for event in host.events})
    assert all(event["at_ms"] for event in host.events), "its agent passes on no event without a time"
    state = until(lambda: (report := sink(host, rig)).get("waiting") == 20 and report, saying=lambda: host.report)
    assert state["waiting_since_ms"]
    rig.return_()
    query.send(range(140, 160))
    require(rig, range(100, 160), host)
    until(lambda: sink(host, rig)["state"] == "running" and not sink(host, rig)["error"])


@pytest.mark.long
def test_one_that_takes_nothing_holds_its_channel_alone_and_loses_nothing(host, rig):
    query = writing(host, rig)
    other = PlayedQuery(host.broker, "f1-1.0")  # of another sink, which nobody keeps from going on
    query.send([100])
    require(rig, [100], host)
    rig.break_()
    sent = 101
    while not query.channels.info(query.channel).is_full:
        query.send([sent])
        sent += 1
        assert sent < 3_000
    state = until(lambda: (report := sink(host, rig)).get("state") in ("retrying", "away") and report, within_s=120)
    assert state["error"]
    assert host.broker.xlen(keys.channel(query.channel)) <= CAPACITY_BLOCKS + 2
    other.send([1])
    rig.mend()
    require(rig, range(100, sent), host)
    query.send(range(sent, sent + 50))
    require(rig, range(100, sent + 50), host)


@pytest.mark.long
def test_two_hosts_at_once_write_each_event_once(host, rig, broker_url, tmp_path):
    if not rig.exact:
        pytest.skip("this system does not tell one writer from another")
    query = writing(host, rig)
    second = Played(host.broker, broker_url, host.data_dir, rig.environment)
    second.start()
    try:
        for start in range(100, 1_300, 40):
            query.send(range(start, start + 40))
            time.sleep(0.02)
        require(rig, range(100, 1_300), host)
    finally:
        second.close()
    query.send([1_300])
    require(rig, range(100, 1_301), host)


@pytest.mark.long
def test_columns_that_change_under_way_lose_no_event(host, rig):
    if not rig.has_types:
        pytest.skip("this system takes whatever columns come")
    query = writing(host, rig)
    query.send(range(100, 120))
    require(rig, range(100, 120), host)
    for start, change in ((120, "added"), (140, "widened")):  # both take what came before
        rig.alter(change)
        query.send(range(start, start + 20))
        require(rig, range(100, start + 20), host)

    rig.alter("changed")  # no event fits: they are kept with the reason, and written when it is mended
    query.send(range(160, 180))
    until(lambda: sink(host, rig).get("refused") == 20, saying=lambda: host.report)
    rig.alter("back")
    SinkStore(host.broker).ask(query.channel, Order(REFUSED_ONES))
    require(rig, range(100, 180), host)

    rig.alter("needed")  # no fault of any event: all of them wait
    query.send(range(180, 200))
    state = until(lambda: (report := sink(host, rig)).get("error") and report, within_s=60, saying=lambda: host.report)
    assert "needs a value of needed" in state["error"] and state["waiting"] == 20 and state["refused"] == 0
    rig.alter("left")
    require(rig, range(100, 200), host)


@pytest.mark.long
def test_what_waits_is_written_though_nobody_wants_the_sink_any_more(host, rig):
    query = writing(host, rig)
    until(lambda: sink(host, rig).get("state"), saying=lambda: host.report)
    query.send(range(100, 200))
    host.want()
    query.send(range(200, 300))
    until(lambda: set(rig.numbers()) == set(range(100, 300)), saying=lambda: host.report)
    until(lambda: host.report.get("idle"), within_s=60)
    assert not host.broker.smembers(keys.sinks("n1"))


@pytest.mark.long
def test_what_is_kept_is_written_again_on_request(host, rig):
    query = writing(host, rig)
    query.send(range(100, 110))
    require(rig, range(100, 110), host)
    until(lambda: sink(host, rig)["kept"] == 10)
    time.sleep(0.01)
    since_ms = time.time_ns() // 1_000_000
    query.send(range(110, 120))
    require(rig, range(100, 120), host)
    SinkStore(host.broker).ask(query.channel, Order(SINCE, since_ms))
    until(lambda: not SinkStore(host.broker).oldest_order(query.channel), saying=lambda: host.report)
    expected = {n: 2 if n >= 110 and not rig.task().config.get("key") else 1 for n in range(100, 120)}
    counts = until(lambda: (counts := rig.numbers()) and set(counts) == set(expected) and counts)
    assert counts == expected or (not rig.exact and all(counts[n] >= times for n, times in expected.items()))


@pytest.mark.long
def test_nothing_is_lost_where_the_other_system_has_more_than_a_restored_channel(host, rig):
    query = writing(host, rig)
    query.send(range(100, 120))
    require(rig, range(100, 120), host)
    host.kill()
    copied = {key: host.broker.dump(key) for key in host.broker.scan_iter("weir:*") if key != keys.WORKER.encode()}
    restored = host.broker.xinfo_stream(keys.channel(query.channel))["last-generated-id"]
    host.start()
    query.send(range(120, 140))
    require(rig, range(100, 140), host)

    host.kill()
    for key, value in copied.items():
        host.broker.restore(key, 0, value, replace=True)
    host.broker.hset(keys.sink(query.channel), "restored", restored)
    query._batch, query._seq = 1, 20
    query.send(range(200, 220))  # as the batch that is there already, with other events
    host.start()
    until(lambda: set(rig.numbers()) >= {*range(100, 140), *range(200, 220)}, saying=lambda: host.report)
    assert not host.broker.hexists(keys.sink(query.channel), "restored")
    if rig.exact:
        assert max(rig.numbers().values()) == 1


@pytest.mark.long
def test_a_sink_goes_on_as_itself_where_the_other_system_has_no_more_than_a_restored_channel(host, rig):
    query = writing(host, rig)
    query.send(range(100, 120))
    require(rig, range(100, 120), host)
    host.kill()
    life = host.broker.hget(keys.sink(query.channel), "life")
    newest = host.broker.xinfo_stream(keys.channel(query.channel))["last-generated-id"]
    host.broker.hset(keys.sink(query.channel), "restored", newest)
    host.start()
    query.send(range(120, 140))
    require(rig, range(100, 140), host)
    assert host.broker.hget(keys.sink(query.channel), "life") == life
