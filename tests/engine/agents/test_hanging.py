"""Queries that hang are told from those that wait, work, or are slow; and a failing one is not well for hanging."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from scheduler.contracts.desired import Input, WantedFragment
from scheduler.contracts.reports import QUERY_REPORTS
from tests.engine.channels.played_redis import PlayedRedis
from workers.engine.agents.backoff import HEALTHY_MS
from workers.engine.agents.failing.hanging import HANGS_MS, WANDERS_MS, Doing, HangingQueries, HangingWatch, hangs
from workers.engine.agents.reconciling.fragment_run import FragmentRun
from workers.engine.agents.reconciling.reconcile import FragmentState
from workers.engine.channels import keys
from workers.engine.spark.failure_messages import FragmentFailed
from workers.engine.spark.listener import QueryListener

LOOK_MS = 5_000


def looked(seconds: int, *, every_ms: int = LOOK_MS, **changes: Any) -> list[int]:
    """When a query was found to hang (ms), that is looked at for so long; ``changes`` may be functions of the time."""
    watch, hung_ms = HangingQueries(), []
    facts = {"run_id": "r1", "newest": 4, "interval_ms": 1_000, "has_unread": True, "works": False, "place": "a.b"}
    for now_ms in range(every_ms, 1_000 * seconds + 1, every_ms):
        at = {name: value(now_ms) if callable(value) else value for name, value in (facts | changes).items()}
        doing = Doing(at["run_id"], at["newest"], at["interval_ms"], lambda at=at: at["has_unread"],
                      lambda at=at: at["works"], lambda at=at: at["place"])
        if watch.look({"f1-0": doing}, now_ms=now_ms):
            hung_ms.append(now_ms)
    return hung_ms


def test_a_query_that_stands_in_one_place_with_unread_events_hangs_after_a_minute() -> None:
    first = looked(120)[0]
    assert HANGS_MS <= first <= HANGS_MS + 2 * LOOK_MS
    assert looked(120, newest=-1)[0] == first, "its first batch may hang, too"


@pytest.mark.parametrize("changes", [
    {"has_unread": False}, {"works": True}, {"newest": lambda now_ms: now_ms // 50_000},
    {"run_id": lambda now_ms: f"r{now_ms // 50_000}"}, {"has_unread": lambda now_ms: now_ms % 50_000 > 0},
    {"works": lambda now_ms: now_ms % 55_000 == 0}, {"interval_ms": 400_000},
], ids=["waits for events", "is slow", "ends batches", "is new", "catches up", "works", "is slow by design"])
def test_no_other_query_hangs(changes: dict[str, Any]) -> None:
    assert looked(600, **changes) == []


def test_one_whose_thread_moves_hangs_when_it_has_brought_nothing_for_longer() -> None:
    first = looked(600, place=lambda now_ms: f"a.b{now_ms}")[0]
    assert WANDERS_MS <= first <= WANDERS_MS + 2 * LOOK_MS


def test_a_driver_that_has_no_turn_makes_no_query_hang_sooner() -> None:
    assert looked(1_200, every_ms=60_000)[0] >= 10 * 60_000, "each look counts for five seconds"


def test_who_hangs_is_told_where_without_what_java_does_below() -> None:
    failure = hangs("jdk.internal.misc.Unsafe.park(Native Method)\njava.lang.Object.wait(Object.java)\n"
                    "org.apache.spark.util.KeyLock.acquireLock(KeyLock.scala:46)\norg.apache.spark.x")
    assert "org.apache.spark.util.KeyLock.acquireLock(KeyLock.scala:46)" in str(failure)
    assert "Unsafe.park" in failure.traceback and not failure.may_pass


@pytest.mark.parametrize(("is_behind", "error"), [(True, "no number"), (False, None)])
def test_a_query_that_failed_and_stands_still_has_not_recovered(is_behind: bool, error: str | None) -> None:
    run = FragmentRun("f1-0", now_ms=0)
    for _ in range(2):
        run.begin(FragmentState.STARTING, now_ms=0)
        run.end()
        run.failed(FragmentFailed("no number"), now_ms=0)
    run.begin(FragmentState.STARTING, now_ms=0)
    run.runs(object(), "run", outlets={}, routes={}, active=1, now_ms=0)
    report = QUERY_REPORTS.read(run.report({}, throttled_by=None, now_ms=HEALTHY_MS, is_behind=is_behind))
    assert report.error == error and report.failures == 2
    report = QUERY_REPORTS.read(run.report({"batch": 1}, throttled_by=None, now_ms=HEALTHY_MS, is_behind=is_behind))
    assert report.error is None and report.failures == 0, "it has done a batch"


@pytest.mark.parametrize("fields", [{"capacity": "x"}, {"last": b"\xff"}, {"capacity": 1, "last": "here"}])
def test_a_channel_that_its_writer_forged_ends_no_slot_that_reads_it(fields: dict[str, Any]) -> None:
    run, query, broker = FragmentRun("f1-0", now_ms=0), Query(is_in_batch=False), PlayedRedis()
    run.begin(FragmentState.STARTING, now_ms=0)
    run.end()
    run.runs(query, "r1", outlets={}, routes={}, active=1, now_ms=0)
    run.fragment = WantedFragment("f1-0", (), inputs=(Input("f0-9.0", "s"),))
    broker.hset(keys.meta("f0-9.0"), mapping=fields)
    watch, failures = HangingWatch(broker, QueryListener(lambda run_id: None)), []
    watch._listener.listening = True
    for now_ms in range(LOOK_MS, 2 * HANGS_MS, LOOK_MS):
        watch.look(Driver(), [run], throttled={}, now_ms=now_ms, on_hang=lambda *facts: failures.append(facts))
    assert not failures and run.query is query


class Query:
    """A query that is in a batch for ever, without a job, or in none; it ends when it is stopped."""

    runId = "r1"

    def __init__(self, *, is_in_batch: bool = True) -> None:
        self.stopped = threading.Event()
        status = SimpleNamespace(isTriggerActive=lambda: is_in_batch, isDataAvailable=lambda: is_in_batch)
        self._jsq = SimpleNamespace(status=lambda: status)

    def stop(self) -> None:
        self.stopped.set()


class Driver:
    """A driver in which no job runs, and one thread waits."""

    def __init__(self) -> None:
        frame = SimpleNamespace(toString=lambda: "org.apache.spark.util.KeyLock.acquireLock(KeyLock.scala:46)")
        thread = SimpleNamespace(getName=lambda: "stream execution thread for f1-0 [id = i, runId = r1]")
        tracker = SimpleNamespace(getActiveJobsIds=list, getJobIdsForGroup=lambda run_id: [])
        threads = SimpleNamespace(getAllStackTraces=lambda: Stacks(thread, [frame]))
        self.sparkContext = SimpleNamespace(
            statusTracker=lambda: tracker,
            _jvm=SimpleNamespace(java=SimpleNamespace(lang=SimpleNamespace(Thread=threads))))


class Stacks:
    """The stacks of threads as py4j gives them."""

    def __init__(self, thread: Any, frames: list[Any]) -> None:
        self._thread, self._frames = thread, frames

    def keySet(self) -> list[Any]:
        return [self._thread]

    def __getitem__(self, thread: Any) -> list[Any]:
        return self._frames


@pytest.mark.parametrize(
    ("throttled", "is_crowded"), [({}, False), ({"f1-0": "f1-0.0"}, False), ({}, True)],
    ids=["hangs", "waits for room in a channel", "waits for room in the broker"])
def test_a_query_that_hangs_is_stopped_and_begun_again(throttled: dict[str, str], is_crowded: bool) -> None:
    run, failures, waits = FragmentRun("f1-0", now_ms=0), [], bool(throttled or is_crowded)
    run.begin(FragmentState.STARTING, now_ms=0)
    run.end()
    query = Query()
    run.runs(query, "r1", outlets={}, routes={}, active=1, now_ms=0)
    broker = PlayedRedis()
    if is_crowded:
        broker.set(keys.CROWDED, 1)
    watch = HangingWatch(broker, QueryListener(lambda run_id: None))
    watch._listener.listening = True

    def on_hang(run: FragmentRun, failure: FragmentFailed) -> None:
        run.failed(failure, now_ms=HANGS_MS)
        failures.append(failure)

    for now_ms in range(LOOK_MS, 2 * HANGS_MS, LOOK_MS):
        watch.look(Driver(), [run], throttled=throttled, now_ms=now_ms, on_hang=on_hang)
        assert failures or watch.is_behind("f1-0", now_ms=now_ms) is (not waits and now_ms > 3 * LOOK_MS)
    if waits:
        assert not failures and run.query is query
        return
    [failure] = failures
    assert "KeyLock.acquireLock" in str(failure) and run.state is FragmentState.BACKOFF and run.query is None
    assert query.stopped.wait(10)
