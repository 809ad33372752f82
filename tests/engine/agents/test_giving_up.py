"""A query that can only fail again is not tried without end; somebody who has mended the cause has it tried again."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import redis

from scheduler.contracts.desired import WantedFragment
from scheduler.contracts.reports import QUERY_REPORTS
from scheduler.model.dataflow import Task
from workers.engine.agents.backoff import HEALTHY_MS, LONGEST_MS, RETRIES
from workers.engine.agents.reconciling.fragment_run import FragmentRun
from workers.engine.agents.reconciling.handover_stages import HandoverStage
from workers.engine.agents.reconciling.reconcile import End, FragmentState, Leave, Pause, Start, Stop, reconcile
from workers.engine.agents.slot import SlotLoop
from workers.engine.agents.supervising.line_writer import LineWriter
from workers.engine.channels import keys
from workers.engine.spark.failure_messages import FragmentFailed
from workers.engine.worker_settings import Settings

WANTED = WantedFragment("f1-0", (Task("t", "any", {}),))


def fail(run: FragmentRun, *messages: str, may_pass: bool = False, now_ms: int = 0) -> int | None:
    """Let a run be started and fail so; when it is tried again after the last time."""
    for message in messages:
        run.begin(FragmentState.STARTING, now_ms=now_ms)
        run.end()
        retry_at_ms = run.failed(FragmentFailed(message, may_pass=may_pass, tasks=["t"]), now_ms=now_ms)
    return retry_at_ms


def report_of(run: FragmentRun):
    return QUERY_REPORTS.read(run.report({}, throttled_by=None, now_ms=0))


def test_the_same_error_ends_after_so_many_retries_whatever_its_numbers_are():
    run = FragmentRun("f1-0", now_ms=0)
    assert fail(run, *(f"row {number}: no number" for number in range(RETRIES))) is not None
    assert not report_of(run).gave_up
    assert fail(run, "row 99: no number") is None
    report = report_of(run)
    assert report.gave_up and report.retry_at_ms is None and report.failed_tasks == ("t",)
    assert reconcile([WANTED], {run.id: run.actual()}, 10**12) == ()


def test_whichever_event_the_error_names_it_is_the_same():
    run = FragmentRun("f1-0", now_ms=0)
    assert fail(run, *(f"could not convert '{word}'" for word in "abcdefgh"), "could not convert 'i'") is None


def test_what_may_pass_is_tried_without_end_and_so_is_what_changes():
    run = FragmentRun("f1-0", now_ms=0)
    assert fail(run, *["no answer"] * (3 * RETRIES), may_pass=True) is not None
    run = FragmentRun("f1-0", now_ms=0)
    assert fail(run, *["one", "other"] * (2 * RETRIES)) is not None


def runs_for_a_minute_and_fails(run: FragmentRun, *, batch: int | None) -> int | None:
    run.begin(FragmentState.STARTING, now_ms=0)
    run.runs(object(), "run", outlets={}, routes={}, active=1, now_ms=0)
    run.report({"batch": batch}, throttled_by=None, now_ms=HEALTHY_MS)
    return run.failed(FragmentFailed("no number"), now_ms=HEALTHY_MS)


def test_who_has_run_for_a_while_and_come_further_begins_anew_however_often():
    run = FragmentRun("f1-0", now_ms=0)
    fail(run, *["no number"] * RETRIES)
    assert all(runs_for_a_minute_and_fails(run, batch=number) is not None for number in range(3 * RETRIES))


def test_a_batch_that_takes_minutes_to_fail_is_not_repeated_without_end():
    run = FragmentRun("f1-0", now_ms=0)
    results = [runs_for_a_minute_and_fails(run, batch=None) for _ in range(RETRIES + 1)]
    assert None not in results[:-1] and results[-1] is None
    assert report_of(run).gave_up


def test_it_is_still_paused_stopped_and_handed_over():
    run = FragmentRun("f1-0", now_ms=0)
    fail(run, *["no number"] * (RETRIES + 1))
    actual = {run.id: run.actual()}
    paused = WantedFragment("f1-0", WANTED.tasks, active=0)
    assert reconcile([paused], actual, 0) == (Pause(paused),)
    assert reconcile([], actual, 0) == (Stop("f1-0", keep=False),)
    assert reconcile([], actual, 0, outgoing=[(WANTED, HandoverStage.WORK)]) == ()
    leaving = WantedFragment("f1-0", WANTED.tasks, leaving=True)
    for now_ms in (0, LONGEST_MS):  # others need what it was about to do; it can only fail, again and again
        is_due = now_ms == LONGEST_MS
        assert reconcile([], actual, now_ms, outgoing=[(WANTED, HandoverStage.END)]) == (End(WANTED),) * is_due
        assert reconcile([leaving], actual, now_ms) == (Leave(leaving),) * is_due


def test_whoever_pauses_and_resumes_it_has_it_tried_anew():
    run = FragmentRun("f1-0", now_ms=0)
    fail(run, *["no number"] * (RETRIES + 1))
    run.begin(FragmentState.DRAINING, now_ms=0)
    run.stopped(retry_at_ms=None, now_ms=0)
    assert reconcile([WANTED], {run.id: run.actual()}, 0) == ()  # the action is not over yet
    run.end()
    assert reconcile([WANTED], {run.id: run.actual()}, 0) == (Start(WANTED),)
    assert fail(run, *["no number"] * RETRIES) is not None


@pytest.mark.broker
def test_it_is_tried_again_when_somebody_says_so(broker: redis.Redis, broker_url: str, tmp_path: Path):
    slot = SlotLoop(Settings(redis_url=broker_url, data_dir=tmp_path), "0", tell=LineWriter(io.StringIO()))
    run = slot._runs["f1-0"] = FragmentRun("f1-0", now_ms=0)
    fail(run, *["no number"] * (RETRIES + 1))
    slot._look_who_is_to_be_tried_again(0)
    assert run.actual().gave_up
    broker.set(keys.try_again("f1-0"), "1")
    slot._look_who_is_to_be_tried_again(5_000)
    assert reconcile([WANTED], {run.id: run.actual()}, 5_000) == (Start(WANTED),)
    assert fail(run, "no number") is not None, "it is tried as often as before"
    assert not broker.exists(keys.try_again("f1-0"))
