"""What the broker has of waves: all that one changes at once, each change once, whoever publishes and how often."""

from __future__ import annotations

import json

import pytest
import redis

from scheduler.model.canonical import canonical_config
from scheduler.model.estate import Estate
from scheduler.model.fragment import Fragment, RunningTask, Slot
from scheduler.model.settings_of_fragments import FragmentSettings
from scheduler.model.task_types import DYNAMIC
from scheduler.model.wave_elements import WaveElement, wave_elements
from workers.engine.channels import keys
from workers.engine.wave_publishing import KEPT, publish_waves
from workers.library.registry import task_types

pytestmark = pytest.mark.broker


def known_waves(broker: redis.Redis, task: str) -> list:
    return json.loads(broker.get(keys.waves(task)) or "[]")


def newest(broker: redis.Redis, source: str) -> int:
    return int(broker.get(keys.wave(source)) or 0)


def test_what_differs_begins_a_wave_for_the_sources_that_it_concerns(broker: redis.Redis) -> None:
    a, b = WaveElement("a", "x", ("s", "t")), WaveElement("b", "x", ("t",))
    assert publish_waves(broker, [a, b], generation=1, revision=0) == 1
    assert publish_waves(broker, [a, b], generation=2, revision=0) == 0
    b = WaveElement("b", "y", ("t",))
    assert publish_waves(broker, [a, b], generation=3, revision=0) == 2
    assert (known_waves(broker, "a"), known_waves(broker, "b")) == ([[1, "x"]], [[1, "x"], [2, "y"]])
    assert (newest(broker, "s"), newest(broker, "t")) == (1, 2)


def test_an_older_estate_changes_nothing(broker: redis.Redis) -> None:
    publish_waves(broker, [WaveElement("a", "x", ("s",))], generation=7, revision=2)
    for generation, revision in ((6, 9), (7, 1)):
        assert publish_waves(broker, [WaveElement("a", "y", ("s",))], generation=generation, revision=revision) == 0
    assert known_waves(broker, "a") == [[1, "x"]]
    assert publish_waves(broker, [WaveElement("a", "y", ("s",))], generation=7, revision=3) == 2


def test_what_has_left_is_forgotten_and_numbers_go_on(broker: redis.Redis) -> None:
    publish_waves(broker, [WaveElement("a", "x", ("s",))], generation=1, revision=0)
    publish_waves(broker, [], generation=2, revision=0)
    assert {key.decode() for key in broker.keys("weir:wave*")} == {keys.wave_counter()}
    assert publish_waves(broker, [WaveElement("a", "x", ("s",))], generation=3, revision=0) == 2


def test_so_many_switches_are_kept(broker: redis.Redis) -> None:
    for number in range(KEPT + 3):
        publish_waves(broker, [WaveElement("a", "xy"[number % 2], ())], generation=number, revision=0)
    waves = [wave for wave, _ in known_waves(broker, "a")]
    assert waves == list(range(4, KEPT + 4))


def test_elements_are_what_switches_in_waves_with_all_sources_before_it() -> None:
    ways = [{"name": name, "type": "sql", "config": {"query": "SELECT * FROM input"}} for name in ("x", "y")]

    def dynamic(name: str, parents: tuple[str, ...], switching: str) -> RunningTask:
        config = canonical_config(task_types()[DYNAMIC], {"alternates": ways, "switching": switching})
        return RunningTask(name, DYNAMIC, config, parents)

    tasks = [
        RunningTask("s", "urban_sensing", {}, ()), RunningTask("t", "urban_sensing", {}, ()),
        RunningTask("u", "urban_sensing", {}, ()), RunningTask("m", "senml_parse", {}, ("s", "t")),
        dynamic("a", ("m",), "wave"), dynamic("b", ("u", "a"), "wave"), dynamic("c", ("u",), "fast")]
    estate = Estate(
        tasks={task.id: task for task in tasks},
        fragments={f"f-{task.id}": Fragment(f"f-{task.id}", (task.id,), "n/0", 1) for task in tasks},
        slots=(Slot("n", 0),), settings={"f-b": FragmentSettings(alternates={"b": "y"})})
    assert wave_elements(estate) == [WaveElement("a", "x", ("s", "t")), WaveElement("b", "y", ("s", "t", "u"))]


@pytest.mark.parametrize(
    "forged", [b"{", b"7", b'{"a": 1}', b"[7]", b'[["x", "y"], [1]]', b'[[1e999, "x"]]', b'[[nan, "x"]]', b"\xff",
               b"[" * 5_000, None, b'[[1,"x"]' + b',[1,"x"]' * 70_000 + b"]"],
    ids=["cut", "number", "mapping", "numbers", "others", "infinite", "none", "bytes", "deep", "list", "long"])
def test_what_a_slot_has_forged_of_one_task_stops_no_other(broker: redis.Redis, forged: bytes | None) -> None:
    a, b = WaveElement("a", "x", ("s",)), WaveElement("b", "x", ("t",))
    publish_waves(broker, [a, b], generation=1, revision=0)
    broker.delete(keys.waves("a"), keys.wave("s"))
    for key in (keys.waves("a"), keys.wave("s")):
        broker.set(key, forged) if forged is not None else broker.lpush(key, "x")
    a, b = WaveElement("a", "y", ("s",)), WaveElement("b", "y", ("t",))
    assert publish_waves(broker, [a, b], generation=2, revision=0) == 2
    assert (known_waves(broker, "a"), known_waves(broker, "b")) == ([[2, "y"]], [[1, "x"], [2, "y"]])
    assert (newest(broker, "s"), newest(broker, "t")) == (2, 2)
