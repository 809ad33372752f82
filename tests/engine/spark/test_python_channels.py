"""Slots where no JDK is found: the same fragments over the Python channels."""

import pytest
import redis

from scheduler.model.estate import Fragment, RunningTask

from .rig import NODE, catalogue, estate_of, running_agent

pytestmark = [pytest.mark.spark, pytest.mark.broker]


@pytest.mark.long  # the contract of channels is tested on both implementations anyway
def test_two_fragments_run_over_python_channels(broker_url, tmp_path, test_types):
    folder, types = test_types
    tasks = [
        RunningTask("source", "numbers", {"rate_per_s": 20.0}, ()),
        RunningTask("shift", "shift", {"by": 0}, ("source",)),
        RunningTask("one", "kept", {}, ("shift",)),
        RunningTask("two", "kept", {}, ("source",)),
    ]
    fragments = [
        Fragment("p1-0", ("source", "shift", "one"), f"{NODE}/0", 3, {"source": ("p1-1",)}),
        Fragment("p1-1", ("two",), f"{NODE}/0", 1),
    ]
    with redis.Redis.from_url(broker_url) as broker:
        broker.flushall()
        with running_agent(
            broker, broker_url, tmp_path, plugin=folder, task_types=catalogue(*types), WEIR_CHANNEL="python"
        ) as rig, rig.collecting("p1-0.2", "p1-1.0") as collected:
            rig.publish(estate_of(fragments, tasks))
            rig.wait_running("p1-0", "p1-1")
            rig.wait(lambda: all(len(events) > 60 for events in collected.values()))
            for events in collected.values():
                assert [event["n"] for event in events] == list(range(len(events)))
            rig.publish(estate_of([], []))
            rig.wait(lambda: not rig.report()["slots"]["0"]["fragments"])
