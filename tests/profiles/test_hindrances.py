"""Sweeps that are asked for twice, driven by several workers at once, killed in between, or left without their slot."""

from __future__ import annotations

import json
import threading
from contextlib import suppress
from datetime import timedelta

import pytest

from dashboard.operations.models import SlotRow
from dashboard.operations.services import register_node
from dashboard.profiles.models import SweepRecord
from dashboard.profiles.services import sweeps
from dashboard.profiles.services.sweep_driver import advance_sweep, advance_sweeps
from dashboard.profiles.services.sweeps import TooManySweeps, cancel_sweep, pause_sweep, resume_sweep
from dashboard.profiles.targets import target_of_task
from dashboard.teams.permissions import viewer_of
from dashboard.teams.services import set_secret
from scheduler.model.errors import NotFound, PermissionDenied
from tests.dashboard.building import World, document, running
from tests.dashboard.concurrency import at_once
from tests.pages.scheduling import linear
from tests.profiles.building import slot, started
from tests.profiles.nodes import Node


class Killed(BaseException):
    """What a worker does not catch."""


def test_workers_that_find_a_trial_due_at_once_order_it_once(committed_world: World, node: Node, monkeypatch):
    started(committed_world)
    meeting = threading.Barrier(2)

    def progress(trial_id: str):
        told_progress = node.progress(trial_id)
        with suppress(threading.BrokenBarrierError):  # both have looked before either orders, where both look
            meeting.wait(timeout=1.0)
        return told_progress

    monkeypatch.setattr("dashboard.jobs.trial_progress", progress)
    assert at_once(*[lambda: advance_sweeps(at=node.now)] * 2) == [1, 1]
    assert len(node.orders) == 1


def test_a_worker_that_is_killed_before_it_orders_costs_a_while_and_nothing_else(world: World, node: Node, monkeypatch):
    sweep = started(world)

    def killed(order):
        raise Killed

    monkeypatch.setattr("dashboard.jobs.order_trial", killed)
    with pytest.raises(Killed):
        advance_sweep(sweep_id=sweep.pk, at=node.now)
    monkeypatch.setattr("dashboard.jobs.order_trial", node.order)
    node.run()
    assert not node.orders, "it may be under way"
    node.run(seconds=60)
    assert [order.id[-2:] for order in node.orders] == ["-0"]
    assert node.finish(sweep).status == "done"


def test_a_broker_that_goes_away_while_it_is_told_is_told_again_at_once(world: World, node: Node, monkeypatch):
    sweep = started(world)

    def away(order):
        node.away = True
        node.progress(order.id)

    monkeypatch.setattr("dashboard.jobs.order_trial", away)
    with pytest.raises(sweeps.jobs.BrokerAway):
        advance_sweeps(at=node.now)
    node.away = False
    monkeypatch.setattr("dashboard.jobs.order_trial", node.order)
    node.run()
    assert len(node.orders) == 1 and node.finish(sweep).status == "done"


def test_what_is_asked_for_twice_is_measured_once(world: World, node: Node):
    first = started(world)
    assert started(world).pk == started(world, actor=world.mo).pk == first.pk
    assert started(world, seconds=5.0).pk != first.pk
    pause_sweep(actor=world.carla, sweep_id=first.pk)
    assert started(world).pk != first.pk, "what rests is not under way"


def test_what_is_asked_for_twice_at_once_is_measured_once(committed_world: World, node: Node):
    started_sweeps = at_once(*[lambda: started(committed_world).pk] * 4)
    assert len(set(started_sweeps)) == 1 == SweepRecord.objects.count(), started_sweeps


def test_more_than_anybody_waits_for_is_refused(world: World, node: Node, monkeypatch):
    monkeypatch.setattr(sweeps, "MOST_OPEN", 2)
    first, _ = started(world), started(world, seconds=5.0)
    with pytest.raises(TooManySweeps) as caught:
        started(world, seconds=6.0)
    assert caught.value.facts == {"open": 2, "most": 2}
    cancel_sweep(actor=world.carla, sweep_id=first.pk)
    started(world, seconds=6.0)


def test_people_of_one_team_leave_room_for_others_also_with_what_they_let_rest(world: World, node: Node, monkeypatch):
    monkeypatch.setattr(sweeps, "MOST_OPEN_TEAM", 1)
    first = started(world)
    pause_sweep(actor=world.carla, sweep_id=first.pk)
    started(world, seconds=5.0)
    with pytest.raises(TooManySweeps) as caught:
        resume_sweep(actor=world.carla, sweep_id=first.pk)
    assert caught.value.facts == {"open": 1, "most": 1}
    with pytest.raises(TooManySweeps):
        started(world, seconds=6.0)
    started(world, actor=world.mo, seconds=6.0)


@pytest.mark.parametrize("name", ["n9/0", "", "n1/1\0"])
def test_a_slot_that_is_none_is_not_found(world: World, node: Node, name: str):
    with pytest.raises(NotFound):
        started(world, slot=name)


def test_a_slot_that_comes_back_is_reserved_again_before_the_next_trial(world: World, node: Node):
    sweep = started(world)
    node.run(steps=3)
    register_node(name="n1", slots=1)
    register_node(name="n1", slots=2)
    assert slot().reserved_for == ""
    node.run(steps=2)
    assert str(sweep.pk) in slot().reserved_for
    assert node.finish(sweep).status == "done"


def test_a_slot_that_came_back_and_is_in_use_ends_the_sweep_with_the_reason(world: World, node: Node):
    sweep = started(world)
    node.run(steps=3)
    register_node(name="n1", slots=1)
    register_node(name="n1", slots=2)
    for number in range(3):
        running(world.carla, world.city, document(f"d{number}", window=20 + number), world.ana)
    assert SlotRow.objects.get(name="n1/1").queries
    sweep = node.finish(sweep)
    assert sweep.status == "failed" and "Slot n1/1 runs" in sweep.reason


def test_a_slot_that_is_gone_ends_the_sweep_with_the_reason(world: World, node: Node):
    sweep = started(world)
    node.run(steps=3)
    register_node(name="n1", slots=1)
    sweep = node.finish(sweep)
    assert sweep.status == "failed" and "No node offers a slot n1/1" in sweep.reason


def test_an_attempt_that_was_lost_does_not_count_what_comes_of_it_later(world: World, node: Node):
    sweep = started(world)
    node.run()
    lost = node.orders[0]
    late = node.results.pop(lost.id)
    node.under_way[lost.id] = sweeps.jobs.TrialProgress("measuring")
    advance_sweeps(at=node.now)
    node.under_way.clear()
    node.now += timedelta(seconds=60)
    advance_sweeps(at=node.now)
    node.results[lost.id] = late
    node.run(steps=2)
    first = sweep.trials.get(number=1)
    assert first.attempts == 1 and first.ended is not None
    assert node.finish(sweep).status == "done"


def test_a_teams_secret_is_opened_for_its_own_engineers_alone(world: World, node: Node, monkeypatch):
    monkeypatch.setenv("WEIR_HTTP_HOSTS", "localhost")
    set_secret(actor=world.dev, team=world.city, name="key", value="a value that nobody reads")
    text = json.loads(linear("fetching", get=True))
    next(task for task in text["tasks"] if task["id"] == "get")["config"]["token"] = {"secret": "key"}
    record = running(world.carla, world.city, json.dumps(text), world.ana)
    for task in ("get", "out"):  # its own config, and what feeds it
        target = target_of_task(viewer_of(world.mo), record.pk, task)
        with pytest.raises(PermissionDenied, match="secret of team City"):
            started(world, actor=world.mo, target=target)
        sweep = started(world, target=target)
        pause_sweep(actor=world.carla, sweep_id=sweep.pk)
        with pytest.raises(PermissionDenied):
            resume_sweep(actor=world.mo, sweep_id=sweep.pk)
        sweep.refresh_from_db()
        assert sweep.status == "paused"
        resume_sweep(actor=world.carla, sweep_id=sweep.pk)
    assert started(world, actor=world.mo, target=target_of_task(viewer_of(world.mo), record.pk, "parse"))
