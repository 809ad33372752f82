"""Trials in real slots: figures of tasks whose capacity is known, a whole sweep, and a slot that is killed midway."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

import psutil
import pytest

from scheduler.contracts.trials import TrialOrder
from scheduler.performance.modelling import Sweep
from tests.benches.profiles import SweepTarget, ordered, sweep
from workers.engine import trial_store
from workers.engine.channels import keys
from workers.library.code import code_digest
from workers.library.registry import task_types

from .rig import NODE, Rig

pytestmark = [pytest.mark.spark, pytest.mark.broker, pytest.mark.long]
FEED = ({"type": "numbers", "config": {"rate_per_s": 50}},)


def order(name: str, task_type: str, config: dict, *, threads: int, rate_per_s: float, **changes) -> TrialOrder:
    return TrialOrder(
        name, NODE, "1", task_type, config, threads=threads, rate_per_s=rate_per_s, feed=FEED, driver_warm_up_s=5.0,
        **changes)


def test_threads_that_wait_do_so_side_by_side(rig: Rig):
    rig.wait(lambda: rig.report()["slots"].get("1", {}).get("state") == "running")
    bounds = Sweep()
    for number, (threads, rate_per_s, holds) in enumerate([(1, 12, True), (1, 30, False), (4, 40, True)]):
        result = ordered(rig.broker, order(f"w{number}", "wait", {"pause": 50}, threads=threads, rate_per_s=rate_per_s))
        slope_ok = result.latency_slope <= bounds.latency_slope
        assert slope_ok is holds, result
        assert (result.achieved_per_s >= 0.9 * rate_per_s) is holds, result
        # Of what does not hold the first batch may be under way when it is over: then no event has come through.
        assert result.cpu < 0.6 and result.latency_s.get("p50", 1.0 if not holds else 0.0) >= 0.05
        assert result.offered_per_s == pytest.approx(rate_per_s, rel=0.05) and not result.held_back
        assert result.versions["code"] == code_digest(task_types()["wait"]) != "" and result.versions["weir"]


@pytest.mark.parametrize("task_type,config", [
    ("kept", {}), ("whole_files", {"folder": "f"}), ("total", {"name": "sum"})])
def test_sinks_and_states_are_measured_too(rig: Rig, task_type: str, config: dict):
    result = ordered(rig.broker, order(f"k-{task_type}", task_type, config, threads=1, rate_per_s=40.0))
    assert result.ok and result.selectivity == pytest.approx(1.0) and result.achieved_per_s > 30
    assert not list((rig.data_dir / "outputs").glob("*/trial-*")) and not rig.broker.keys("weir:ch:trial-*")


def test_a_source_is_measured_without_events_to_feed(rig: Rig):
    source = TrialOrder("s", NODE, "1", "numbers", {}, threads=1, rate_per_s=200.0)
    result = ordered(rig.broker, source)
    assert result.ok and result.achieved_per_s == pytest.approx(200.0, rel=0.1)


def test_what_a_task_fails_with_is_told(rig: Rig, tmp_path):
    broken = tmp_path / "broken"
    broken.touch()
    fragile = order("b", "fragile", {"broken_while": str(broken)}, threads=1, rate_per_s=20.0)
    trial_store.order(rig.broker, fragile)
    result = rig.wait(lambda: trial_store.result(rig.broker, "b"))
    assert (result.ok, result.code) == (False, "task_failed") and "broken is broken" in result.message


def test_a_sweep_finds_what_one_and_two_threads_sustain(rig: Rig):
    swept = sweep(
        SweepTarget("wait", "wait", {"pause": 50}, FEED), Sweep(
            largest_threads=2, smallest_rate_per_s=10.0, rate_precision=0.15),
        lambda order_: ordered(rig.broker, TrialOrder(**{
            **{name: getattr(order_, name) for name in TrialOrder.__slots__}, "node": NODE, "slot": "1"})),
        warm_up_s=2.0, seconds=3.0)
    single, two = swept.done.points
    assert 11 <= single.rate_per_s <= 20 and 1.4 * single.rate_per_s <= two.rate_per_s <= 40
    assert not swept.done.rough and swept.profile().peak.threads == 2


def test_nothing_stays_of_a_trial_whose_slot_is_killed(rig: Rig):
    trial_store.order(rig.broker, order("dead", "wait", {"pause": 20}, threads=2, rate_per_s=50.0, seconds=60.0))
    rig.wait(lambda: getattr(trial_store.progress(rig.broker, "dead"), "state", "") == "measuring")
    checkpoint = rig.data_dir / "checkpoints" / "trial-dead"
    assert checkpoint.is_dir() and rig.broker.exists(keys.channel("trial-dead.in")) and feeders(rig)
    os.kill(rig.slot_pid("1"), signal.SIGKILL)
    result = rig.wait(lambda: trial_store.result(rig.broker, "dead"))
    assert (result.code, result.passing) == ("slot_died", True)
    rig.wait(lambda: not feeders(rig), what="the feeder is gone")
    assert not checkpoint.exists()
    left = [key for key in rig.broker.keys("weir:*") if b"trial-dead" in key]
    assert all(rig.broker.ttl(key) > 0 for key in left), left
    assert ordered(rig.broker, order("next", "wait", {"pause": 20}, threads=1, rate_per_s=10.0)).ok


def feeders(rig: Rig) -> list[int]:
    """The processes that feed; one that has ended and waits to be collected does not."""
    processes = []
    for process in psutil.Process(rig.process.pid).children(recursive=True):
        with suppress(psutil.Error):
            if "workers.engine.measuring.feeder" in process.cmdline():
                processes.append(process.pid)
    return processes
