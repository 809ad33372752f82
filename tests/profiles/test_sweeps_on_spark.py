"""A sweep through the site over a real broker, agent and driver: from what is asked for to a profile that is true."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import redis
from django.utils import timezone

from dashboard import jobs
from dashboard.operations.services import register_node
from dashboard.profiles.lifecycle import OPEN
from dashboard.profiles.services.sweep_driver import advance_sweeps
from dashboard.profiles.services.sweeps import start_sweep
from dashboard.profiles.stored_profiles import profile_of
from dashboard.profiles.targets import target_of_type
from dashboard.profiles.trial_orders import order_id
from scheduler.performance.modelling import Sweep
from tests.dashboard.building import World
from tests.engine.spark.rig import NODE, catalogue, running_agent

pytestmark = [pytest.mark.spark, pytest.mark.broker, pytest.mark.long, pytest.mark.timeout(1200)]
WAIT_MS = 50


def test_a_sweep_whose_slot_is_killed_ends_with_a_profile(
    world: World, broker: redis.Redis, broker_url: str, settings, tmp_path: Path, with_jar: Callable[[Path], Path]
) -> None:
    settings.REDIS_URL = broker_url
    register_node(name=NODE, slots=1)
    target = target_of_type("wait", {"pause": WAIT_MS}, feed_key="source:urban_sensing")
    bounds = Sweep(largest_threads=2, smallest_rate_per_s=10.0, rate_precision=0.15)
    with running_agent(broker, broker_url, with_jar(tmp_path / "data"), task_types=catalogue()) as rig:
        sweep = start_sweep(actor=world.carla, target=target, slot=f"{NODE}/0", bounds=bounds)
        killed = []

        def is_over() -> bool:
            advance_sweeps(at=timezone.now())
            sweep.refresh_from_db()
            trial = sweep.trials.filter(ended=None).exclude(sent=None).first()
            state = jobs.trial_progress(order_id(trial)) if trial else None
            if not killed and state is not None and state.state == "measuring":
                os.kill(rig.slot_pid(), signal.SIGKILL)
                killed.append(trial.number)
            return sweep.status not in OPEN

        rig.wait(is_over, within_s=1000, what="the sweep has ended")
    trials = list(sweep.trials.all())
    figures = [(trial.threads, trial.rate_per_s, trial.stable, trial.latency_slope, trial.achieved_per_s)
        for trial in trials]
    assert sweep.status == "done", (sweep.reason, figures)
    assert [trial.number for trial in trials if trial.attempts] == killed, "that trial was ordered again"
    first, two = profile_of(sweep.profile).points
    assert (first.threads, two.threads) == (1, 2)
    assert 10 <= first.rate_per_s <= 1000 / WAIT_MS, figures
    assert first.rate_per_s < two.rate_per_s <= 2 * 1000 / WAIT_MS, figures
