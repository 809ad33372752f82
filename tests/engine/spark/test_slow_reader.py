"""A slow reader of a shared stream: the other goes on at its rate, and both get every event, over kills too."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
import redis

from scheduler.applying import apply_plan
from scheduler.isolating import plan_isolation
from scheduler.model.behind import LOSE_OLDEST
from scheduler.model.estate import Submitted
from scheduler.model.prices import Prices
from scheduler.reuse.isolation import slowest_task
from tests.conftest import running_broker
from workers.engine import observed

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


def users_of(**tasks: tuple[str, ...]) -> dict[str, Submitted]:
    """Dataflows by name, with the tasks that they need; each is its team's."""
    return {name: Submitted(name, name, name, {task: task for task in line}, line[-1:]) for name, line in tasks.items()}


def numbers(rig: Rig, channel: str) -> list[int]:
    return [event["n"] for event in rig.events(channel)]


def test_who_shares_with_a_slow_reader_notices_nothing_and_both_get_all(bounded: Rig) -> None:
    all_of_it = ("kept", {"keep_events": 100_000})
    first = chain("a", ("numbers", {"rate_per_s": RATE_PER_S}), all_of_it)
    slow = chain("b", ("wait", {"pause": 60.0}), all_of_it, parent="a0")
    fragments = [fragment("s1-0", first, outlets={"a0": ("s1-1",)}), fragment("s1-1", slow)]
    users = users_of(d1=("a0", "a1"), d2=("a0", "b0", "b1"))
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


def test_a_reader_that_loses_the_oldest_says_exactly_how_many_over_a_kill(bounded: Rig) -> None:
    all_of_it = ("kept", {"keep_events": 100_000})
    first = chain("a", ("numbers", {"rate_per_s": 100.0}), all_of_it)
    slow = chain("b", ("wait", {"pause": 20.0}), all_of_it, parent="a0")
    fragments = [fragment("s1-0", first, outlets={"a0": ("s1-1",)}), fragment("s1-1", slow)]
    estate = replace(
        estate_of(fragments, [*first, *slow], slots=1), submitted=users_of(d1=("a0", "a1"), d2=("a0", "b0", "b1")))
    bounded.trigger_ms = 100
    bounded.publish(estate, when_behind={"d2": LOSE_OLDEST})
    bounded.wait_running("s1-0", "s1-1")
    bounded.wait(lambda: bounded.report()["losses"], within_s=300, what="a loss")
    os.kill(bounded.slot_pid(), signal.SIGKILL)
    bounded.wait(lambda: bounded.report()["slots"]["0"]["restarts"] > 0, what="the kill is seen")
    lost_before = lost(bounded)
    bounded.wait(lambda: lost(bounded) > lost_before, within_s=300, what="another loss")
    bounded.channels.pause("s1-0")
    total = len(numbers(bounded, "s1-0.1"))
    bounded.wait(
        lambda: len(numbers(bounded, "s1-1.1")) + lost(bounded) >= len(numbers(bounded, "s1-0.1")) >= total,
        within_s=300, what="the slow reader")
    fast, slow_numbers = numbers(bounded, "s1-0.1"), numbers(bounded, "s1-1.1")
    assert fast == list(range(len(fast)))
    assert slow_numbers == sorted(set(slow_numbers)) and slow_numbers[-1] == fast[-1]
    assert len(slow_numbers) + lost(bounded) == len(fast)
    bounded.wait(lambda: not list(bounded.data_dir.rglob("*.blocks")) and not bounded.report()["spills"])


def lost(rig: Rig) -> int:
    """Events that the slow one gave up, as the channel counts them."""
    return sum(count.events for count in rig.channels.info("s1-0.0").lost.values())


def test_a_slow_task_is_found_and_cut_out_of_a_query_that_others_need(bounded: Rig) -> None:
    all_of_it = ("kept", {"keep_events": 100_000})
    whole = chain("a", ("numbers", {"rate_per_s": RATE_PER_S}), ("wait", {"pause": 60.0}), all_of_it)
    other = chain("b", all_of_it, parent="a0")
    fragments = [fragment("s1-0", whole, outlets={"a0": ("s1-1",)}), fragment("s1-1", other)]
    estate = replace(
        estate_of(fragments, [*whole, *other], slots=1), generation=1,
        submitted=users_of(d1=("a0", "b0"), d2=("a0", "a1", "a2")))
    bounded.trigger_ms = 100
    bounded.want(estate)
    bounded.wait_running("s1-0", "s1-1")
    before = observed.read_meters(bounded.broker, ["s1-0"])

    def slow_position() -> int | None:
        flows = observed.flows(before, observed.read_meters(bounded.broker, ["s1-0"]), [fragments[0]], {}).tasks
        return slowest_task([flows[task.id].latency_p50_ms for task in whole], least_ms=400)

    bounded.wait(lambda: slow_position() == 1, within_s=120, what="the slow task is told by what is measured")
    plan = plan_isolation(
        estate, "d2", slow="a1", task_types=bounded.task_types, prices=Prices(trigger_ms=bounded.trigger_ms))
    estate = apply_plan(estate, plan)
    bounded.want(estate)
    upper, lower = (step.fragment for step in plan.steps)
    bounded.wait_running(upper, lower)
    bounded.wait(lambda: bounded.report()["spills"], within_s=300, what="the slow part goes on from disk")
    bounded.wait(lambda: len(numbers(bounded, "s1-1.0")) > 1_600, within_s=300, what="the other at its rate")
    assert bounded.report()["spills"][lower]["mb"] > 0
    seen = numbers(bounded, "s1-1.0")
    assert seen == list(range(len(seen)))
    bounded.channels.pause(upper)
    output = estate.channel_of("a2")
    bounded.wait(
        lambda: len(numbers(bounded, output)) == len(numbers(bounded, "s1-1.0")), within_s=600, what="the slow part")
    assert numbers(bounded, output) == numbers(bounded, "s1-1.0") == list(range(len(numbers(bounded, output))))
