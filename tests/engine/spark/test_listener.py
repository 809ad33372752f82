"""What the listener keeps of a query's progress."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

pytest.importorskip("pyspark")

from workers.engine.channels.open_streams import OpenTimes
from workers.engine.spark.listener import QueryListener, Work, parse_phases, parse_progress, parse_work
from workers.engine.spark.queries import OpenQuery, StartedQuery


def progress(run_id: str, batch: int, *, trigger_ms: int, asking_ms: int, name: str = "f1-0") -> dict:
    return {
        "runId": run_id, "name": name, "batchId": batch, "inputRowsPerSecond": 5.0,
        "durationMs": {"triggerExecution": trigger_ms, "latestOffset": asking_ms},
    }


def test_waiting_for_events_is_no_work():
    assert parse_work(progress("r", 0, trigger_ms=220, asking_ms=190)) == Work(batches=1, busy_ms=30)
    assert parse_work({"runId": "r", "batchId": 0}) == Work(batches=1, busy_ms=0)


def test_what_an_open_batch_waits_for_events_is_no_work_either():
    document = {
        "runId": "r", "batchId": 3, "durationMs": {"triggerExecution": 10_050, "latestOffset": 2, "addBatch": 10_010},
        "batchDuration": 10_050, "sources": [{"metrics": {"throttled_by": "", "waited_ms": "9800"}}]}
    assert parse_work(document) == Work(batches=1, busy_ms=248)
    assert parse_progress(document).batch_ms == 250
    assert parse_phases(document)["working"] == 210


def test_a_batch_is_told_by_its_phases():
    document = progress("r", 3, trigger_ms=100, asking_ms=40)
    document["durationMs"] |= {"queryPlanning": 5, "getBatch": 1, "addBatch": 30, "walCommit": 9, "commitOffsets": 11}
    assert parse_phases(document) == {"asking": 40, "planning": 6, "working": 30, "logging": 20}
    assert parse_progress(document).phases_ms == parse_phases(document)
    assert parse_phases({"durationMs": {"addBatch": 1}}) == {"working": 1}
    assert parse_phases({}) == {}


def test_a_batch_tells_how_long_its_state_took_and_when_it_was_done():
    document = progress("r", 3, trigger_ms=100, asking_ms=40) | {
        "timestamp": "2026-05-01T12:00:00.250Z", "stateOperators": [{"commitTimeMs": 7}, {"commitTimeMs": 5}, {}]}
    document["durationMs"] |= {"addBatch": 50}
    assert parse_phases(document) == {"asking": 40, "working": 50, "committing": 12}
    assert parse_progress(document).committed_at_ms == 1_777_636_800_250 + 100
    for timestamp in (None, "soon"):
        assert parse_progress(document | {"timestamp": timestamp}).committed_at_ms is None


def test_work_adds_up_over_batches_and_restarts_but_a_batch_that_is_seen_twice_counts_once():
    listener = QueryListener(lambda run_id: None)
    listener._keep(progress("first", 7, trigger_ms=40, asking_ms=10))
    listener._keep(progress("first", 7, trigger_ms=40, asking_ms=10))
    listener._keep(progress("first", 8, trigger_ms=50, asking_ms=0))
    listener._keep(progress("second", 8, trigger_ms=5, asking_ms=0))
    listener._keep(progress("other", 1, trigger_ms=9, asking_ms=0, name="f1-1"))
    assert listener.work("f1-0") == Work(batches=3, busy_ms=85)
    assert listener.work("f1-1") == Work(batches=1, busy_ms=9)
    assert listener.work("unknown") == Work()


def test_what_an_open_batch_has_done_so_far_counts_and_never_falls_when_it_ends():
    listener, busy_ms = QueryListener(lambda run_id: None), [0]
    query = OpenQuery(SimpleNamespace(_jsq=None), lambda: False, lambda: 0, lambda: busy_ms[0])
    figures = []
    for batch in range(3):
        for busy_ms[0] in (10, 400, 900, 0):  # the last: it has ended, and Spark has not said so yet
            figures.append(listener.work("f1-0", query).busy_ms)
        listener._keep(progress("r", batch, trigger_ms=1_000, asking_ms=50))
    assert figures == [10, 400, 900, 900, 960, 1350, 1850, 1850, 1910, 2300, 2800, 2800]
    assert listener.work("f1-0") == Work(batches=3, busy_ms=2850)


def test_all_queries_of_a_report_ask_the_jvm_once_for_their_open_batches():
    calls, now_s = [], [5.0]

    def open_times(redis_url: str) -> str:
        calls.append(redis_url)
        return f"{100 * len(calls)} 7 f1-0\n30 6100 f 2\n"

    jvm = SimpleNamespace(weir=SimpleNamespace(RealTime=SimpleNamespace(openTimes=open_times)))
    times = OpenTimes(SimpleNamespace(_jvm=jvm), "redis://b", monotonic_s=lambda: now_s[0])
    assert [times.busy_ms(name) for name in ("f1-0", "f 2", "gone")] == [100, 30, 0]
    assert [times.still_ms(name) for name in ("f1-0", "f 2", "gone")] == [7, 6_100, 0]
    assert calls == ["redis://b"]
    now_s[0] += 1.0
    assert [times.busy_ms("f1-0"), times.still_ms("f1-0"), len(calls)] == [200, 7, 2]


def test_the_run_of_a_query_is_asked_for_once():
    calls = []
    query = StartedQuery(SimpleNamespace(runId=lambda: calls.append("run") or SimpleNamespace(toString=lambda: "r1")))
    listener = QueryListener(lambda run_id: None)
    listener.listening = True
    listener._keep(progress("r1", 4, trigger_ms=40, asking_ms=10))
    for _ in range(3):
        assert listener.progress(query).batch == 4
    assert calls == ["run"]
