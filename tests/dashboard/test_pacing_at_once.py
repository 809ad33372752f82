"""Another limit is paced for in the next second; and whether it is hopeless is known as soon."""

from __future__ import annotations

import pytest

from dashboard.catalog.services import choose_latency
from dashboard.operations.latency_control.limit_statuses import is_met_by_measurement
from dashboard.operations.latency_control.pacer import SOONEST_S, Pacer
from dashboard.operations.models import LatencyStatus
from scheduler.model.latency_limits import LatencyLimit
from tests.dashboard.building import World, document, running
from tests.dashboard.played import Played, intervals, status


def test_another_limit_is_paced_for_in_the_next_second(world: World, played: Played) -> None:
    record = running(world.carla, world.city, document("tuned"), world.ana)
    played.run(64)
    before = intervals(record)
    choose_latency(actor=world.carla, dataflow_id=record.pk, limits=(LatencyLimit(0.4),))
    played.run(1)
    assert max(intervals(record)) < min(before) / 5
    assert status(record).limit == 0.4


def test_what_is_new_is_paced_for_in_the_next_second(world: World, played: Played) -> None:
    running(world.carla, world.city, document("old"), world.ana)
    played.run(64)
    record = running(world.carla, world.city, document("new", window=20, latency="400 ms"), world.ana)
    played.run(1)
    assert max(intervals(record)) < 400


def test_limits_that_come_one_after_the_other_do_not_keep_the_recorder_busy(
    world: World, played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    record, rounds, choose = running(world.carla, world.city, document("busy"), world.ana), [], Pacer._round
    monkeypatch.setattr(Pacer, "_round", lambda *args: rounds.append(args[-1]) or choose(*args))
    played.run(60)
    assert len(rounds) == 6, "nothing has changed"
    for number in range(9):
        choose_latency(actor=world.carla, dataflow_id=record.pk, limits=(LatencyLimit(1.0 + number),))
        played.run(1)
    assert len(rounds) - 6 <= 9 / SOONEST_S
    played.run(1)
    assert status(record).limit == 9.0, "the last one counts"


def test_a_limit_is_hopeless_where_neither_intervals_nor_open_batches_meet_it(world: World, played: Played) -> None:
    record = running(world.carla, world.city, document("tuned"), world.ana)
    played.run(124)
    assert not status(record).hopeless
    choose_latency(actor=world.carla, dataflow_id=record.pk, limits=(LatencyLimit(0.05),))
    played.run(1)
    assert (status(record).state, status(record).hopeless) == ("impossible", True)
    played.run(20)
    assert status(record).hopeless, "batches are at other intervals meanwhile, and were not seen yet"
    choose_latency(actor=world.carla, dataflow_id=record.pk, limits=(LatencyLimit(2.0),))
    played.run(2)
    assert not status(record).hopeless


@pytest.mark.long  # tests/scheduler/latency/test_status.py has what is beyond reach
def test_a_limit_is_not_hopeless_that_open_batches_would_meet(world: World, played: Played) -> None:
    played.refusal, played.steps = "", False
    record = running(world.carla, world.city, document("tuned"), world.ana)
    played.run(124)
    choose_latency(actor=world.carla, dataflow_id=record.pk, limits=(LatencyLimit(0.05),))
    played.run(1)
    assert (status(record).state, status(record).hopeless) == ("impossible", False)


def test_a_limit_is_not_hopeless_while_its_queries_are_not_known(world: World, played: Played) -> None:
    played.state = "starting"
    record = running(world.carla, world.city, document("tuned", latency="50 ms"), world.ana)
    played.run(30)
    assert (status(record).state, status(record).hopeless) == ("impossible", False)


def test_a_limit_that_changes_place_in_the_list_takes_along_what_is_known_of_it(world: World, played: Played) -> None:
    played.batch_s, played.beyond_s = 0.3, -0.4  # events take less than any model would believe
    record = running(world.carla, world.city, document("moved"), world.ana)
    strict, loose = LatencyLimit(0.1), LatencyLimit(20.0, along=("sense", "parse"))
    choose_latency(actor=world.carla, dataflow_id=record.pk, limits=(strict, loose))
    played.run(130)
    before = {row.number: row for row in LatencyStatus.objects.filter(dataflow=record)}
    assert (before[0].state, is_met_by_measurement(before[0]), before[1].state) == ("met", True, "met")

    choose_latency(actor=world.carla, dataflow_id=record.pk, limits=(loose, strict))
    played.run(3)

    after = {row.number: row for row in LatencyStatus.objects.filter(dataflow=record)}
    assert (after[0].limit, after[1].limit) == (before[1].limit, before[0].limit)
    assert (after[1].state, is_met_by_measurement(after[1])) == ("met", True), "by the model it cannot be, but it held"
    for number, row in after.items():
        former = before[1 - number]
        assert (row.measured_s, row.other_s, row.since) == (
            pytest.approx(former.measured_s, rel=0.05), pytest.approx(former.other_s), former.since)
