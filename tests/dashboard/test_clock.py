"""The clock: of several workers one does what is due, and another goes on when that one is gone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
from django.db import DatabaseError
from kombu.exceptions import OperationalError

from dashboard import jobs
from dashboard.tasks import clock, execution, planning
from dashboard.tasks.clock import SCHEDULE, DueJob, JobClock
from tests.dashboard.building import World, approved, document, planned

pytestmark = [pytest.mark.broker, pytest.mark.django_db]


class Noted:
    """A job that notes what it is given, waits for ``may_end`` and fails where it is to; or is sent."""

    def __init__(self, name: str = "noted", *, fails: Exception | None = None) -> None:
        self.name, self.fails = name, fails
        self.given: list[dict] = []
        self.sent: list[dict] = []
        self.may_end = threading.Event()
        self.may_end.set()

    def __call__(self, **given: object) -> None:
        self.given.append(given)
        self.may_end.wait(60)
        if self.fails is not None:
            raise self.fails

    def apply_async(self, **how: object) -> None:
        if self.fails is not None:
            raise self.fails
        self.sent.append(how)


class AtOnce:
    """Does in the test's own thread, with its transaction, what others do in theirs."""

    def __init__(self, most: int, **_: object) -> None:
        del most

    def submit(self, act: Callable, job: DueJob):
        act(job)
        return Done()

    def shutdown(self, **_: object) -> None:
        pass


class Done:
    def done(self) -> bool:
        return True


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "ThreadPoolExecutor", AtOnce)


@pytest.fixture
def make(settings, broker_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., JobClock]]:
    """Makes clocks whose turn is held in the test's own broker."""
    settings.REDIS_URL = broker_url
    monkeypatch.setattr(clock, "_use_connection", lambda: None)  # which would end the test's transaction
    made: list[JobClock] = []

    def make(*schedule: DueJob) -> JobClock:
        made.append(JobClock(schedule))
        made[-1].tick(0)  # what is due begins in the next round
        return made[-1]

    yield make
    for job_clock in made:
        job_clock.stop()


def test_one_of_two_does_it_and_the_other_goes_on_after_it(make: Callable[..., JobClock], at_once: None) -> None:
    first, second = Noted(), Noted()
    holds, waits = make(DueJob(first, 1)), make(DueJob(second, 1))
    for now_s in (1, 2):
        holds.tick(now_s)
        waits.tick(now_s)
    assert (len(first.given), len(second.given)) == (2, 0)
    holds.stop()
    for now_s in (3, 4):
        waits.tick(now_s)
        holds.tick(now_s)
    assert (len(first.given), len(second.given)) == (2, 1)  # its first look at a job begins nothing


def test_a_job_is_done_once_in_each_of_its_rounds_also_where_seconds_are_missed_or_come_again(
    make: Callable[..., JobClock], at_once: None
) -> None:
    often, seldom = Noted("often"), Noted("seldom")
    ticks = make(DueJob(often, 2, given=(("in_full", False),)), DueJob(seldom, 5))
    done = []
    for now_s in (1, 2, 3, 4, 9, 9, 10, 4):  # at last the clock is set back
        ticks.tick(now_s)
        done.append((len(often.given), len(seldom.given)))
    assert done == [(0, 0), (1, 0), (1, 0), (2, 0), (3, 1), (3, 1), (4, 2), (5, 3)]
    assert often.given[0] == {"in_full": False}


def test_while_the_broker_is_away_nothing_is_done_and_nothing_fails(settings) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    job = Noted()
    away = JobClock([DueJob(job, 1)])
    for now_s in range(3):
        away.tick(now_s)
    assert not job.given
    away.stop()


def test_what_fails_holds_nothing_up_and_is_tried_again(make: Callable[..., JobClock], at_once: None) -> None:
    fails, not_sent, works = (
        Noted("fails", fails=DatabaseError("gone")),
        Noted("not sent", fails=OperationalError()),
        Noted(),
    )
    ticks = make(DueJob(fails, 1), DueJob(not_sent, 1, is_queued=True), DueJob(works, 1))
    ticks.tick(1)
    not_sent.fails = None
    ticks.tick(2)
    assert [len(job) for job in (fails.given, not_sent.sent, works.given)] == [2, 1, 2]


def test_a_job_that_lasts_is_not_begun_again_and_holds_no_other_up(make: Callable[..., JobClock]) -> None:
    lasts, other = Noted("lasts"), Noted("other")
    lasts.may_end.clear()
    ticks = make(DueJob(lasts, 1), DueJob(other, 1))
    for now_s in (1, 2, 3):
        ticks.tick(now_s)
        ticks._futures["other"].result(60)
    assert (len(lasts.given), len(other.given)) == (1, 3)
    lasts.may_end.set()
    ticks._futures["lasts"].result(60)
    ticks.tick(4)
    ticks._futures["lasts"].result(60)
    assert len(lasts.given) == 2


def test_what_is_due_often_is_done_where_there_is_something_to_do(
    make: Callable[..., JobClock], at_once: None, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not any(job.is_wanted() for job in SCHEDULE if job.is_wanted)
    (due,) = (job for job in SCHEDULE if job.task == execution.advance_proposals)
    always, followed = Noted(), []
    monkeypatch.setattr(execution, "follow_plans", lambda *given, **named: followed.append(given))
    ticks = make(due, DueJob(always, 1))
    ticks.tick(1)
    assert (len(followed), len(always.given)) == (0, 1)
    approved(planned(world.carla, world.city, document("traffic")), world.ana)
    ticks.tick(2)
    assert (len(followed), len(always.given)) == (1, 2)


def test_a_thread_ticks_each_second(make: Callable[..., JobClock]) -> None:
    job = Noted()
    runs = make(DueJob(job, 1))
    job.may_end.clear()
    runs.start()
    try:
        while not job.given:
            assert runs.is_alive()
            threading.Event().wait(0.01)
    finally:
        job.may_end.set()
        runs.stop()
    assert not runs.is_alive()
    assert jobs.hold_turn(clock.TURN, "another", for_ms=1_000)


def test_every_job_that_is_due_is_one_of_the_workers() -> None:
    names = [job.task.name for job in SCHEDULE]
    assert len(set(names)) == len(names) and planning.guard.name in names
