"""Queries that come and go leave nothing behind in a driver that stays."""

from __future__ import annotations

from collections import Counter

import pytest
import redis

from .rig import Rig, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.broker]


def weir_threads(rig: Rig) -> Counter:
    """The JVM's threads of ours, by name."""
    names = (thread.getName() for thread in rig.spark._jvm.java.lang.Thread.getAllStackTraces().keySet())
    return Counter(name for name in names if name.startswith("weir"))


def cycle(rig: Rig, times: int) -> None:
    for _ in range(times):
        query = rig.start(rig.valve(rig.read("b", "a.0"), "b"), "b")
        counted = rig.channels.meters("b").get("in:n", 0)
        wait_until(lambda counted=counted: rig.channels.meters("b").get("in:n", 0) > counted, what="a batch",
                   alive=(query,))
        query.stop()
        rig.queries.remove(query)


@pytest.mark.parametrize("times", [8, pytest.param(200, marks=[pytest.mark.long, pytest.mark.timeout(900)])])
def test_starts_and_stops_leave_no_threads_and_no_connections(rig: Rig, broker: redis.Redis, times: int) -> None:
    source = rig.start(rig.publish(rig.ticks("a", rate_per_s=200), "a", readers=("b",)), "a")
    cycle(rig, 3)
    threads, connections, topics = weir_threads(rig), len(broker.client_list()), len(broker.pubsub_channels("weir:*"))
    cycle(rig, times)
    assert source.exception() is None
    assert weir_threads(rig) == threads
    assert len(set(threads.values())) == 1  # one of each kind for each broker of the tests in this driver
    assert set(threads) == {"weir-arrivals", "weir-meters"}
    assert len(broker.client_list()) <= connections + 2  # the pool may hold a few more, as it did before
    assert len(broker.pubsub_channels("weir:*")) == topics
