"""Events to feed: kept in a file, replayed in a cycle, written when they are due."""

from __future__ import annotations

import errno
import os
import signal
import time
from dataclasses import replace

import pyarrow as pa
import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st

from tests.written_blocks import read_blocks
from workers.engine.channels.channel_registry import Channels
from workers.engine.measuring import feed
from workers.engine.measuring.feed import EventFeed
from workers.engine.measuring.feeder import GENTLY, Assignment, Feeder
from workers.engine.measuring.feeder_process import Feeding
from workers.engine.trial_store import TrialFailed
from workers.library.registry import task_types

SCHEMA = pa.schema([("_seq", pa.int64()), ("_time", pa.int64()), ("_born", pa.int64()), ("x", pa.string())])


def events(count: int, *, born: int = 5) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [pa.array(range(10, 10 + count)), pa.array(range(0, 20 * count, 20)), pa.array([born] * count, pa.int64()),
         pa.array([f"e{number}" for number in range(count)])], schema=SCHEMA)


@given(rows=st.integers(1, 40), first=st.integers(0, 100), count=st.integers(0, 100), most=st.integers(1, 30))
def test_a_cycle_gives_every_event_in_its_turn_and_never_goes_back(rows: int, first: int, count: int, most: int):
    batches = list(EventFeed(events(rows), "{}").between(first, first + count, now_ms=77, most=most))
    assert all(0 < batch.num_rows <= most and batch.schema == SCHEMA for batch in batches)
    turned = [row for batch in batches for row in batch.to_pylist()]
    assert [row["x"] for row in turned] == [f"e{number % rows}" for number in range(first, first + count)]
    assert all(row["_born"] == 77 for row in turned)
    for column in ("_seq", "_time"):
        values = [row[column] for row in turned]
        assert values == sorted(set(values))


def test_a_file_keeps_events_and_their_schema(tmp_path):
    path = feed.path_of(tmp_path, "abc")
    assert feed.write(path, [events(3), events(2)], schema_json='{"a": 1}') == 5
    stored = feed.read(path)
    assert stored.schema_json == '{"a": 1}' and stored.events.num_rows == 5 and stored.events.schema == SCHEMA
    assert feed.write(path, [events(feed.EVENTS), events(9)], schema_json="{}") == feed.EVENTS


@pytest.mark.parametrize("left", [0, 1, 0.5, -1])
def test_a_file_that_a_power_loss_cut_short_is_as_good_as_none(tmp_path, left: float):
    path = tmp_path / "f.arrow"
    assert feed.read_kept(path) is None
    feed.write(path, [events(30)], schema_json="{}")
    whole = path.read_bytes()
    assert feed.read_kept(path).events.num_rows == 30
    path.write_bytes(whole[:int(left * len(whole)) if isinstance(left, float) else left])
    assert feed.read_kept(path) is None
    path.write_bytes(bytes(len(whole)))
    assert feed.read_kept(path) is None


def test_a_file_is_there_once_it_is_on_the_disk(tmp_path, monkeypatch: pytest.MonkeyPatch):
    def full(_file: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        feed.write(tmp_path / "f.arrow", [events(3)], schema_json="{}")
    assert not (tmp_path / "f.arrow").exists()


def test_a_feed_is_known_by_what_its_tasks_mean(monkeypatch: pytest.MonkeyPatch):
    types = task_types()

    def name(config, extra=()):
        return feed.digest([{"type": "urban_sensing", "config": config}, *extra], types)

    seed = types["urban_sensing"].parameter("seed").default
    assert name({}) == name({"seed": seed}) != name({"seed": seed + 1})
    assert name({}) != name({}, [{"type": "senml_parse", "config": {}}])
    before = name({})
    monkeypatch.setattr(feed, "code_digest", lambda task_type: "other")
    assert name({}) != before


def test_another_recording_under_the_same_name_is_another_feed(tmp_path, monkeypatch: pytest.MonkeyPatch):
    """Else a task would be measured with events of a file that is no longer there."""
    monkeypatch.setenv("WEIR_REPLAY_DIRS", str(tmp_path))

    def name() -> str:
        return feed.digest([{"type": "replay", "config": {"path": "day.csv"}}], task_types())

    names = [name()]
    for content in ("1,a\n", "1,a\n2,b\n"):
        (tmp_path / "day.csv").write_text(content)
        names.append(name())
        assert name() == names[-1]
    assert len(set(names)) == 3


@given(rate=st.floats(0.5, 5_000), threads=st.integers(1, 64), gently_s=st.floats(0, 30), at_s=st.floats(0, 60))
def test_what_is_due_begins_gently_and_then_keeps_to_the_rate(
    rate: float, threads: int, gently_s: float, at_s: float
):
    assignment = Assignment("", "c", 0, "", rate, threads)
    assert assignment.due(0.0, gently_s=0.0) == threads
    begun = assignment.due(gently_s, gently_s=gently_s)
    assert begun - threads <= GENTLY * rate * gently_s + 1
    assert abs(assignment.due(gently_s + at_s, gently_s=gently_s) - begun - rate * at_s) <= 1


def test_what_was_fed_is_told_of_any_time_and_whether_a_full_channel_was_why():
    feeding = Feeding(100.0)
    assert (feeding.offered_per_s(0.0, 9.0), feeding.held_back(0.0, 9.0)) == (100.0, False), "it said nothing"
    feeding.began_s = 1_000.0
    for passed_s, sent, held_back in ((1.0, 100, 0), (2.0, 200, 0), (4.0, 300, 0), (5.0, 310, 3), (6.0, 310, 9)):
        feeding._messages.put({"passed_s": passed_s, "sent": sent, "held_back": held_back})
    assert (feeding.offered_per_s(1_001.0, 1_002.0), feeding.held_back(1_001.0, 1_002.0)) == (100.0, False)
    assert (feeding.offered_per_s(1_002.0, 1_004.0), feeding.held_back(1_002.0, 1_004.5)) == (50.0, False)
    assert (feeding.offered_per_s(1_004.0, 1_006.0), feeding.held_back(1_004.0, 1_006.0)) == (5.0, True)


def test_a_feeder_that_has_ended_is_no_finding_about_the_task():
    with Feeding(100.0) as feeding:
        feeding.check()
        feeding._has_begun = True
        feeding.check()
        [pid] = feeding.pids
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(TrialFailed, match="has ended with -9") as caught:
            for _ in range(500):
                feeding.check()
                time.sleep(0.02)
        assert caught.value.code == "agent_stopped"


@pytest.mark.broker
class TestFeeder:
    ASSIGNMENT = Assignment("", "trial-t.in", fence=1, feed="", rate_per_s=100.0)

    def feeder(self, broker: redis.Redis, **changes) -> Feeder:
        channels = Channels(broker)
        channels.open_channel("trial-t.in", schema_json="{}", readers=["trial-t"])
        assert channels.take_fence("trial-t.in") == 1
        return Feeder(broker, replace(self.ASSIGNMENT, **changes), EventFeed(events(1_000), "{}"))

    def test_it_writes_blocks_as_any_writer_does(self, broker: redis.Redis):
        feeder = self.feeder(broker)
        for passed_s in (0.0, 1.0, 1.0, 1.5, 41.5):
            feeder.write_due(passed_s, now_ms=1_000)
            if passed_s == 1.0:
                feeder.faster.set()
        info = Channels(broker).info("trial-t.in")
        assert feeder.sent == self.ASSIGNMENT.due(41.5, gently_s=1.0) > 2_000
        blocks = read_blocks(Channels(broker), "trial-t.in", count=1_000)
        written = [event for _, block in blocks for event in block]
        assert [event["x"] for event in written] == [f"e{number % 1_000}" for number in range(feeder.sent)]
        assert info.rejected == 0 and max(len(block) for _, block in blocks) <= 2_000
        assert info.readers == {"trial-t": "0-0"}

    def test_it_leaves_a_channel_alone_whose_reader_is_far_behind(self, broker: redis.Redis, monkeypatch):
        monkeypatch.setattr("workers.engine.measuring.feeder.FULL_BLOCKS", 2)
        feeder = self.feeder(broker)
        feeder.faster.set()
        for passed_s in range(10):
            feeder.write_due(float(passed_s), now_ms=1_000)
        assert Channels(broker).info("trial-t.in").blocks == 3
        assert feeder.sent == self.ASSIGNMENT.due(2.0, gently_s=0.0) and feeder.held_back == 7


def test_a_source_that_nobody_feeds_is_not_taken_for_one_whose_feeder_has_ended() -> None:
    with Feeding(100.0) as feeding:
        feeding.began_s = 1_000.0  # the query's
        feeding.faster()
        feeding._process.stdin.close()  # as if the process had nothing to wait for
        feeding._process.wait(timeout=120)
        feeding.check()
