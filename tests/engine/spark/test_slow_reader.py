"""A slow reader of a shared stream: the other goes on at its rate, and both get every event, over kills too."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
import redis

from scheduler.model.estate import Submitted
from tests.conftest import running_broker

from .conftest import TRIGGER_MS
from .rig import Rig, catalogue, estate_of, running_agent
from .test_slot import chain, fragment

pytestmark = [pytest.mark.spark, pytest.mark.broker, pytest.mark.long]

RATE_PER_S, EVENTS = 40.0, 4_000


@pytest.fixture
def bounded(tmp_path_factory, test_types, with_jar) -> Iterator[Rig]:
    """An agent that lets a reader hold others back for two seconds, and its slot."""
    plugin_folder, types = test_types
    data_dir = with_jar(tmp_path_factory.mktemp("data"))
    with running_broker(tmp_path_factory.mktemp("broker")) as url, redis.Redis.from_url(url) as client, running_agent(
        client, url, data_dir, plugin=plugin_folder, task_types=catalogue(*types), WEIR_HOLD_S="2",
    ) as rig:
        rig.trigger_ms = TRIGGER_MS
        yield rig


def test_who_shares_with_a_slow_reader_notices_nothing_and_both_get_all(bounded: Rig) -> None:
    all_of_it = ("kept", {"keep_events": 100_000})
    first = chain("a", ("numbers", {"rate_per_s": RATE_PER_S}), all_of_it)
    slow = chain("b", ("wait", {"pause": 60.0}), all_of_it, parent="a0")
    fragments = [fragment("s1-0", first, outlets={"a0": ("s1-1",)}), fragment("s1-1", slow)]
    users = {
        name: Submitted(name, name, name, {task: task for task in tasks}, tasks[-1:])
        for name, tasks in (("d1", ("a0", "a1")), ("d2", ("a0", "b0", "b1")))}
    bounded.publish(replace(estate_of(fragments, [*first, *slow], slots=1), submitted=users))
    bounded.wait_running("s1-0", "s1-1")
    bounded.wait(lambda: bounded.report()["spills"], what="a spill")
    while (count := len(bounded.events("s1-0.1"))) < EVENTS:
        if count > 3 * EVENTS // 4 and bounded.report()["slots"]["0"]["restarts"] == 0:
            os.kill(bounded.slot_pid(), signal.SIGKILL)
            bounded.wait(lambda: bounded.report()["slots"]["0"]["restarts"] > 0, what="the kill is seen")
        time.sleep(0.2)
    assert bounded.report()["spills"]["s1-1"]["mb"] > 0
    numbers = [event["n"] for event in bounded.events("s1-0.1")]
    assert numbers == list(range(len(numbers)))
    # The source rests, so that the slow one can catch up.
    bounded.channels.pause("s1-0")
    bounded.wait(
        lambda: len(bounded.events("s1-1.1")) == len(bounded.events("s1-0.1")), within_s=600, what="the slow reader")
    assert [event["n"] for event in bounded.events("s1-1.1")] == [event["n"] for event in bounded.events("s1-0.1")]
    bounded.wait(lambda: not list(bounded.data_dir.rglob("*.blocks")) and not bounded.report()["spills"])
