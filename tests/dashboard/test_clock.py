"""The clock: of several workers one sends what is due, and another goes on when that one is gone."""

from __future__ import annotations

from datetime import timedelta

import pytest
from celery.schedules import schedule
from kombu.exceptions import OperationalError

from dashboard import jobs, queue
from dashboard.tasks.clock import IS_WANTED, SCHEDULE, WAITS_S, TurnScheduler
from tests.dashboard.building import World, approved, document, planned

pytestmark = [pytest.mark.broker, pytest.mark.django_db]


class Sender(TurnScheduler):
    """Keeps what it would send."""

    producer = None  # which would connect to a broker

    def __init__(self) -> None:
        self.sent: list[str] = []
        super().__init__(queue.app, lazy=True)
        self.add(name="always", task=queue.GUARD, schedule=schedule(timedelta(0)))

    def apply_async(self, entry, **_: object) -> None:
        self.sent.append(entry.task)


def test_one_of_two_sends_and_the_other_goes_on_after_it(settings, broker_url: str) -> None:
    settings.REDIS_URL = broker_url
    first, second = Sender(), Sender()
    first.tick()
    assert second.tick() == WAITS_S
    assert first.sent == [queue.GUARD] and not second.sent
    first.close()
    second.tick()
    assert second.sent == [queue.GUARD]
    assert first.tick() == WAITS_S
    second.close()


def test_while_the_broker_is_away_nothing_is_sent_and_nothing_fails(settings) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    sender = Sender()
    assert sender.tick() == WAITS_S
    assert not sender.sent
    sender.close()


def test_what_cannot_be_sent_once_is_sent_the_next_time(monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing(Sender):
        failures = 1

        @property
        def producer(self) -> None:
            self.failures -= 1
            if self.failures >= 0:
                raise OperationalError("gone")

    monkeypatch.setattr(jobs, "hold_turn", lambda *given, **named: True)
    sender = Failing()
    assert sender.tick() == WAITS_S and not sender.sent
    sender.tick()
    assert sender.sent == [queue.GUARD]


def test_what_is_due_often_is_sent_where_there_is_something_to_do(
    settings, broker_url: str, world: World
) -> None:
    settings.REDIS_URL = broker_url
    assert set(IS_WANTED) <= {entry["task"] for entry in SCHEDULE.values()}
    assert not any(is_wanted() for is_wanted in IS_WANTED.values())
    sender = Sender()
    sender.add(name="often", task=queue.ADVANCE_PROPOSALS, schedule=schedule(timedelta(0)))
    due = {entry.task: entry for entry in sender.schedule.values()}
    for entry in due.values():
        sender.apply_entry(entry)
    assert sender.sent == [queue.GUARD]
    approved(planned(world.carla, world.city, document("traffic")), world.ana)
    sender.apply_entry(due[queue.ADVANCE_PROPOSALS])
    assert sender.sent == [queue.GUARD, queue.ADVANCE_PROPOSALS]
    sender.close()
