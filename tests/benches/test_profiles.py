"""`./weir bench profiles`, with a formula in the slot's place: what it asks for, finds and writes."""

from __future__ import annotations

import json
import threading
from dataclasses import replace

import pytest
import redis

from scheduler.contracts.trials import TrialOrder, TrialResult
from scheduler.model.profile_csv import read_profiles
from scheduler.performance.modelling import Sweep
from tests.benches import profiles
from workers.engine import trial_store

BOUNDS = Sweep(largest_threads=4, smallest_rate_per_s=2.0)
WAIT = profiles.SweepTarget("wait", "wait", {"pause": 50})


def by_formula(order: TrialOrder) -> TrialResult:
    """A task that waits 50 ms an event in each thread."""
    peak = 20.0 * order.threads
    return TrialResult(
        order.id, True, threads=order.threads, rate_per_s=order.rate_per_s, achieved_per_s=min(order.rate_per_s, peak),
        latency_slope=0.0 if order.rate_per_s <= peak else 0.3, cpu=0.1, memory=0.01 * order.threads, took_s=6.0,
        machine={"class": "a machine", "load": 0.1})


def test_a_sweep_asks_until_the_profile_is_there_and_writes_it(tmp_path, capsys):
    profile = profiles.sweep(WAIT, BOUNDS, by_formula, warm_up_s=1.0, seconds=2.0)
    assert [point.threads for point in profile.done.points] == [1, 2, 3, 4]
    for point in profile.done.points:
        assert 20 * point.threads / 1.05 <= point.rate_per_s <= 20 * point.threads
    assert {result.threads for result in profile.results} == {1, 2, 3, 4}
    profiles._write(tmp_path / "out", [profile])
    [read] = read_profiles((tmp_path / "out.csv").read_text())
    assert (read.points, read.machine, read.task_type) == (profile.done.points, "a machine", "wait")
    [written] = json.loads((tmp_path / "out.json").read_text())["sweeps"]
    assert len(written["trials"]) == len(profile.results) and written["config"] == {"pause": 50}
    assert capsys.readouterr().out.count("stable") >= len(profile.results)


def test_what_nobody_knows_is_not_measured():
    with pytest.raises(SystemExit, match="no task type nothing"):
        profiles.main(["--type", "nothing"])


def test_a_source_is_measured_without_a_feed():
    assert profiles._target("urban_sensing", {}, profiles.FEED).feed == ()
    assert profiles._target("pi", {"iterations": 5}, profiles.FEED).config == {"iterations": 5}


@pytest.mark.broker
@pytest.mark.parametrize("codes,comes", [
    (["slot_died", ""], "ok"), (["task_failed"], "is broken"), (["slot_died"] * 3, "is broken")])
def test_what_may_pass_is_tried_again_and_nothing_else(broker: redis.Redis, codes: list[str], comes: str):
    order = TrialOrder("t", profiles.NODE, "0", "wait", {}, threads=1, rate_per_s=5.0)

    def serve() -> None:
        for code in codes:
            taken = trial_store.take(broker, profiles.NODE, wait_s=5.0)
            result = replace(by_formula(taken), ok=not code, code=code, message="it is broken")
            trial_store.finish(broker, result)

    node = threading.Thread(target=serve)
    node.start()
    if comes == "ok":
        assert profiles.ordered(broker, order).ok
    else:
        with pytest.raises(profiles.NotMeasured, match=comes):
            profiles.ordered(broker, order)
    node.join()
    assert not broker.exists(trial_store.queue(profiles.NODE)), "it asked once more than it should"


def test_what_could_not_be_fed_is_no_verdict_on_the_task():
    """Else a feeder that is the bottleneck would make the task's peak."""
    result = TrialResult("t", True, threads=1, rate_per_s=100.0, achieved_per_s=60.0, offered_per_s=60.0)
    assert Sweep().starved(profiles.trial_of(result))
    assert not Sweep().starved(profiles.trial_of(replace(result, held_back=True))), "the query did not read"
    assert not Sweep().starved(profiles.trial_of(replace(result, offered_per_s=0.0))), "not told, by an earlier version"
