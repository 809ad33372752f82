"""Problems: worst first, with course and direction from history, where the cause is, and tracebacks for their teams."""

from __future__ import annotations

import json
import time

import pytest
import redis
from django.utils import timezone

from dashboard import jobs
from dashboard.history.history_store import DatabaseHistory
from dashboard.operations.diagnosis.problems import BETTER, WORSE, problems
from dashboard.operations.estate_store.estate_loader import load_estate
from dashboard.teams.permissions import viewer_of
from scheduler.history.courses import COMES_AND_GOES, LASTING
from scheduler.history.series import ALARM, OVER, Annotation, Series
from tests.dashboard.building import World, document, running
from tests.dashboard.test_workers import report

TRACEBACK = "Traceback\nValueError: n/a of {task}"


@pytest.fixture
def observed(broker: redis.Redis, broker_url: str, settings) -> redis.Redis:
    settings.REDIS_URL = broker_url
    jobs._window.cache_clear()
    return broker


def found_by(world: World, who: str) -> dict[str, object]:
    return {problem.finding.key: problem for problem in problems(viewer_of(world.users[who])).now}


@pytest.mark.broker
def test_a_failing_query_is_told_with_its_course_and_its_team_sees_the_traceback(
    world: World, observed: redis.Redis
) -> None:
    record = running(world.carla, world.city, document("traffic"), world.ana)
    query, task = next(iter(load_estate().fragments)), load_estate().submitted[str(record.pk)].running["parse"]
    now_s = int(time.time())
    report(observed, state="backoff", error=f"ValueError in {task}", traceback=TRACEBACK.format(task=task),
           since_ms=1000 * (now_s - 5), failures=3)
    DatabaseHistory().annotate([
        *(Annotation(now_s - ago_s, ALARM, "query", query, "x") for ago_s in (3000, 2000, 400)),
        *(Annotation(now_s - ago_s, OVER, "query", query, "x") for ago_s in (2500, 1500)),
        *(Annotation(now_s - ago_s, "fragment_failed", "query", query, "x") for ago_s in (1500, 600, 300, 100, 20))])
    observed.xadd("weir:events", {name: json.dumps(value) for name, value in {
        "kind": "fragment_failed", "node": "n1", "at_ms": 1000 * now_s, "fragment": query,
        "error": f"ValueError {task}", "retry_at_ms": None}.items()})
    problem = found_by(world, "vera")[f"query/{query}"]
    assert (problem.course.kind, problem.course.since_s, problem.course.begun) == (COMES_AND_GOES, now_s - 400, 3)
    assert (problem.direction, problem.kind, problem.subject) == (WORSE, "query", query)
    assert problem.traceback == "Traceback\nValueError: n/a of parse of traffic"
    foreign = found_by(world, "mo")[f"query/{query}"]
    assert foreign.finding.cause == problem.finding.cause and foreign.traceback == ""
    [error] = problems(viewer_of(world.vera)).errors
    assert "parse of traffic" in error.what and error.fragment == query


@pytest.mark.broker
def test_what_is_private_is_no_problem_of_others(world: World, observed: redis.Redis) -> None:
    running(world.carla, world.city, document("hush", visibility="private"), world.ana)
    query = next(iter(load_estate().fragments))
    report(observed, state="backoff", error="ValueError", traceback="secret", since_ms=1)
    DatabaseHistory().annotate([Annotation(int(time.time()) - 60, OVER, "query", query, "hush was slow")])
    observed.xadd("weir:events", {name: json.dumps(value) for name, value in {
        "kind": "fragment_failed", "node": "n1", "at_ms": 1, "fragment": query, "error": "x",
        "retry_at_ms": None}.items()})
    for who, sees in (("vera", True), ("mo", False), ("outsider", False)):
        report_now = problems(viewer_of(world.users[who]))
        failing = [problem for problem in report_now.now if problem.finding.part == "query"]
        assert (bool(failing), bool(report_now.errors), bool(report_now.past)) == (sees,) * 3, who


@pytest.mark.broker
def test_what_gets_better_comes_after_what_does_not_and_what_is_over_is_told_once(
    world: World, observed: redis.Redis
) -> None:
    record = running(world.carla, world.city, document("traffic"), world.ana)
    query, now_s = next(iter(load_estate().fragments)), int(timezone.now().timestamp())
    report(observed, throttled_by=f"{query}.1")
    history, line = DatabaseHistory(), Series("dataflow", str(record.pk), "latency_p99_ms")
    for step in range(80):
        history.append(now_s - 880 + 11 * step, {line: 9000.0 - 100 * step})
        if step % 5 == 4:
            history.flush()
    history.flush()
    history.annotate([
        Annotation(now_s - ago_s, what, kind, subject, "A batch did not end.")
        for ago_s, what in ((900, ALARM), (800, OVER), (700, ALARM), (600, OVER))
        for kind, subject in (("dataflow", str(record.pk)), ("query", query))])
    report_now = problems(viewer_of(world.vera))
    [slow] = [problem for problem in report_now.now if problem.finding.part == "channel"]
    assert (slow.direction, slow.course.kind, slow.kind) == (BETTER, LASTING, "query")
    assert list(slow.causes) == list(load_estate().fragments[query].outlets.get(
        load_estate().fragments[query].tasks[1], ()))
    [past] = report_now.past
    assert (past.kind, past.subject, past.times) == ("query", query, 2)
    assert (past.begun_s, past.over_s) == (now_s - 700, now_s - 600)
