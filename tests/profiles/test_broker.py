"""Sweeps over a real broker: what is ordered is what a node takes, and what it says is what is stored."""

from __future__ import annotations

import json

import pytest
import redis
from django.utils import timezone

from dashboard import jobs
from dashboard.operations.models import SlotRow
from dashboard.profiles.services.sweep_driver import advance_sweep
from dashboard.profiles.services.sweeps import cancel_sweep
from dashboard.profiles.sweep_progress import progress_of
from scheduler.contracts.trials import TRIAL_RESULTS, TrialOrder, TrialProgress, TrialResult, TrialSample
from tests.dashboard.building import World
from tests.profiles.building import started
from workers.engine import trial_store

pytestmark = pytest.mark.broker


@pytest.fixture
def node_broker(broker: redis.Redis, broker_url: str, settings) -> redis.Redis:
    settings.REDIS_URL = broker_url
    return broker


def result_of(order: TrialOrder) -> TrialResult:
    held = order.rate_per_s <= 100
    return TrialResult(
        order.id, ok=True, threads=order.threads, rate_per_s=order.rate_per_s,
        achieved_per_s=order.rate_per_s if held else 80.0, latency_slope=0.0 if held else 1.0, cpu=0.5,
        memory=0.2, took_s=5.0, latency_s={"p50": 0.1, "p99": 4.0},
        series=(TrialSample(0.5, None, 0.0, 0.1, 0.1), TrialSample(1.0, 0.2, order.rate_per_s, 0.5, 0.2)),
        machine={"class": "cpu-a", "load": 0.5}, versions={"type": 1})


def test_a_trial_goes_to_a_node_and_its_figures_come_back(world: World, node_broker: redis.Redis):
    sweep = advance_sweep(sweep_id=started(world).pk, at=timezone.now())
    assert progress_of(sweep)["under_way"]["state"] == "waits for the node's agent"
    for _ in range(6):
        order = trial_store.take(node_broker, "n1", wait_s=0.1)
        assert (order.slot, order.task_type, order.feed[0]["type"]) == ("1", "senml_parse", "urban_sensing")
        trial_store.tell(node_broker, order.id, TrialProgress("measuring"))
        sweep = advance_sweep(sweep_id=sweep.pk, at=timezone.now())
        assert progress_of(sweep)["under_way"]["state"] == "measuring" and sweep.trials.get(ended=None).taken
        trial_store.finish(node_broker, result_of(order))
        sweep = advance_sweep(sweep_id=sweep.pk, at=timezone.now())
    done = list(sweep.trials.exclude(ended=None))
    assert {trial.stable for trial in done} == {True, False} and all(len(trial.series) == 2 for trial in done)
    unstable = next(trial for trial in done if not trial.stable)
    assert (unstable.latency_slope, unstable.quantiles["p99"], unstable.series[0][1]) == (1.0, 4.0, None)


@pytest.mark.parametrize("threads", [-1, "all", 2**70], ids=str)
def test_a_forged_number_of_threads_ends_the_sweep_and_frees_its_slot(
    world: World, node_broker: redis.Redis, threads: object
):
    """Who breaks out of a task's code may forge it; the sweep was open for ever, and nobody else got the slot."""
    sweep = advance_sweep(sweep_id=started(world).pk, at=timezone.now())
    order = trial_store.take(node_broker, "n1", wait_s=0.1)
    document = TRIAL_RESULTS.document(result_of(order))
    forged = document | {"machine": {"class": "cpu-a", "slot_threads": threads}}
    node_broker.set(f"weir:trial:{order.id}:result", json.dumps(forged))
    sweep = advance_sweep(sweep_id=sweep.pk, at=timezone.now())
    assert (sweep.status, SlotRow.objects.get(name=sweep.slot).reserved_for) == ("failed", "")
    assert "slot_threads of the trial's machine" in sweep.reason and "slot_threads" in sweep.trials.get().error


@pytest.mark.django_db(transaction=True)
def test_a_cancelled_sweeps_order_is_taken_by_nobody(committed_world: World, node_broker: redis.Redis):
    sweep = advance_sweep(sweep_id=started(committed_world).pk, at=timezone.now())
    cancel_sweep(actor=committed_world.carla, sweep_id=sweep.pk)
    assert trial_store.take(node_broker, "n1", wait_s=0.1) is None


def test_without_a_broker_everything_says_so(world: World):
    sweep = started(world)
    with pytest.raises(jobs.BrokerAway):
        advance_sweep(sweep_id=sweep.pk, at=timezone.now())
    sweep.refresh_from_db()
    sweep.trials.update(sent=timezone.now())
    assert (sweep.status, progress_of(sweep)["under_way"]["state"]) == ("running", "the broker is away")
