"""Trials in the broker: ordered once, taken once, watched, cancelled, and what came of them."""

from __future__ import annotations

import json

import pytest
import redis

from scheduler.contracts.trials import (
    TRIAL_RESULTS,
    InvalidTrial,
    TrialOrder,
    TrialProgress,
    TrialResult,
    TrialSample,
)
from workers.engine import trial_store

ORDER = TrialOrder(
    "t1", "n1", "0", "pi_viete", {"iterations": 1600}, threads=2, rate_per_s=50.0,
    feed=({"type": "urban_sensing", "config": {"rate_per_s": 5}},),
)
RESULT = TrialResult(
    "t1", True, threads=2, rate_per_s=50.0, achieved_per_s=49.5, latency_slope=0.001, cpu=0.7, memory=0.02,
    latency_s={"p50": 0.3}, series=(TrialSample(0.5, 0.31, 50.0, 0.7, 0.02), TrialSample(1.0, None, 0.0, 0.1, 0.02)),
    machine={"class": "a"}, versions={"type": 1},
)


@pytest.mark.parametrize("wrong", [
    {"threads": 0}, {"rate_per_s": 0.0}, {"rate_per_s": float("inf")}, {"rate_per_s": float("nan")}, {"seconds": 0.0},
    {"warm_up_s": -1.0},
])
def test_an_order_that_measures_nothing_is_refused(wrong: dict) -> None:
    with pytest.raises(InvalidTrial) as error:
        TrialOrder(**{**{"id": "t", "node": "n", "slot": "0", "task_type": "x", "config": {}, "threads": 1,
                         "rate_per_s": 1.0}, **wrong})
    assert error.value.remedy and error.value.facts


@pytest.mark.broker
class TestBroker:
    def test_an_order_is_taken_once_and_as_it_was_given(self, broker: redis.Redis) -> None:
        trial_store.order(broker, ORDER)
        assert trial_store.progress(broker, "t1") == TrialProgress("ordered")
        assert trial_store.take(broker, "n2", wait_s=0.05) is None
        assert trial_store.take(broker, "n1", wait_s=0.05) == ORDER
        assert trial_store.progress(broker, "t1") == TrialProgress(
            "taken"), "at once: nobody takes it for lost in between"
        assert trial_store.take(broker, "n1", wait_s=0.05) is None

    def test_an_order_that_an_agent_drew_and_never_read_waits_for_nobody(self, broker: redis.Redis) -> None:
        trial_store.order(broker, ORDER)
        broker.lpop(trial_store.queue("n1"))  # and the agent was killed
        assert trial_store.progress(broker, "t1") is None
        trial_store.order(broker, ORDER)
        assert trial_store.take(broker, "n1", wait_s=0.05) == ORDER

    @pytest.mark.parametrize("text", ['{"of": "another version"}', "[1]", "no JSON"])
    def test_what_cannot_be_read_is_said_on_both_sides(self, broker: redis.Redis, text: str) -> None:
        trial_store.order(broker, ORDER)
        [written] = broker.keys("weir:trial:t1:order")
        broker.set(written, text)
        assert trial_store.take(broker, "n1", wait_s=0.05) is None
        result = trial_store.result(broker, "t1")
        assert (result.ok, result.code, result.passing) == (False, "unreadable_order", False) and result.remedy
        assert trial_store.progress(broker, "t1") is None
        broker.set("weir:trial:t1:result", text)
        assert trial_store.result(broker, "t1").code == "unreadable_result"

    @pytest.mark.parametrize("name,figure", [
        ("cpu", "NaN"), ("latency_slope", "Infinity"), ("selectivity", "-Infinity"), ("latency_s", '{"p50": NaN}'),
        ("series", '[{"at_s": 1, "latency_s": NaN, "events_per_s": 1, "cpu": 1, "memory": 1}]'),
        ("batches", "[[0.5, Infinity, 1, 1, null]]"), ("machine", '{"class": "a", "speed": NaN}'),
    ])
    def test_figures_that_are_no_finite_numbers_are_not_taken_in(
        self, broker: redis.Redis, name: str, figure: str
    ) -> None:
        trial_store.finish(broker, RESULT)
        document = json.loads(broker.get("weir:trial:t1:result"))
        text = json.dumps(document | {name: "forged"}).replace('"forged"', figure)
        broker.set("weir:trial:t1:result", text)
        result = trial_store.result(broker, "t1")
        assert (result.ok, result.code) == (False, "unreadable_result")
        assert "no finite number" in result.message and result.remedy

    @pytest.mark.parametrize("machine", [
        {"slot_threads": -1}, {"slot_threads": 0}, {"slot_threads": "all"}, {"slot_threads": 1.5},
        {"slot_threads": True}, {"slot_threads": 2**70}, {"slot_threads": [2]}, {"trigger_ms": "soon"}, {"speed": "1"},
        {"speed": -1.0}, {"cores": "two"}, {"load": {}}, {"stolen": 10**400},
    ])
    def test_numbers_of_a_machine_that_are_out_of_bounds_are_not_taken_in(
        self, broker: redis.Redis, machine: dict
    ) -> None:
        document = TRIAL_RESULTS.document(RESULT) | {"machine": {"class": "a", "slot_threads": 2, **machine}}
        broker.set("weir:trial:t1:result", json.dumps(document))
        result = trial_store.result(broker, "t1")
        assert (result.ok, result.code, result.passing) == (False, "unreadable_result", False)
        assert f"{next(iter(machine))} of the trial's machine is" in result.message and result.remedy

    def test_orders_of_a_node_are_taken_in_their_order(self, broker: redis.Redis) -> None:
        for name in ("a", "b"):
            trial_store.order(broker, TrialOrder(name, "n1", "0", "x", {}, threads=1, rate_per_s=1.0))
        assert [trial_store.take(broker, "n1").id for _ in "ab"] == ["a", "b"]

    def test_what_comes_of_it_is_told_whole(self, broker: redis.Redis) -> None:
        trial_store.tell(broker, "t1", TrialProgress("measuring", at_ms=7, of_s=4.0))
        assert trial_store.progress(broker, "t1") == TrialProgress("measuring", at_ms=7, of_s=4.0)
        assert trial_store.result(broker, "t1") is None
        trial_store.finish(broker, RESULT)
        assert trial_store.result(broker, "t1") == RESULT
        assert trial_store.progress(broker, "t1") is None

    def test_a_cancelled_trial_does_not_begin_and_has_no_result(self, broker: redis.Redis) -> None:
        trial_store.order(broker, ORDER)
        trial_store.cancel(broker, "t1")
        assert trial_store.take(broker, "n1", wait_s=0.05) is None
        assert trial_store.is_cancelled(broker, "t1")
        trial_store.finish(broker, RESULT)
        assert trial_store.result(broker, "t1") is None

    def test_nothing_of_it_stays_for_good(self, broker: redis.Redis) -> None:
        trial_store.order(broker, ORDER)
        trial_store.tell(broker, "t1", TrialProgress("measuring"))
        trial_store.cancel(broker, "t2")
        trial_store.finish(broker, RESULT)
        keys = broker.keys("*")
        assert len(keys) == 4
        assert all(broker.ttl(key) > 0 for key in keys)


def test_what_hindered_the_trial_and_not_the_task_may_pass() -> None:
    assert TrialResult("t", False, code="slot_died").passing
    assert not TrialResult("t", False, code="task_failed").passing
