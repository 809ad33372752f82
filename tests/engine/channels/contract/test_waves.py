"""Elements that switch in waves: an event meets the same choice in all of them, whichever query they are in, and
whatever of these was stopped meanwhile; nothing stands still for it."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from functools import partial

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from scheduler.contracts.savepoints import Savepoint
from scheduler.contracts.switches import AlternateSwitch
from scheduler.model.wave_elements import WaveElement
from workers.engine.agents.transport.copy_takeover import moved_on
from workers.engine.channels import keys, scripts
from workers.engine.channels.batch_ranges import begin_ranges, place_of, recorded_behind, take_ranges
from workers.engine.channels.channel_info import texts
from workers.engine.channels.spark_channels import one_of
from workers.engine.noted_switches import noted_switches
from workers.engine.wave_publishing import publish_waves

from .rig import Query, Rig, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.broker]
ELEMENTS = ("e1", "e2")
SOURCES = ("left", "right")
ALTERNATES = ("x", "y", "z")


def element(rig: Rig, events: DataFrame, task: str, fragment: str, position: int) -> DataFrame:
    """A task that says which of its alternates did it, in a column of its name."""
    def with_name(name: str, frame: DataFrame) -> DataFrame:
        return frame.withColumn(task, F.lit(name))

    return one_of(
        events, {name: partial(with_name, name) for name in ALTERNATES}, rig.config, task=task, fragment=fragment,
        position=position, in_waves=True)


def begin_wave(rig: Rig, on: str, generation: int) -> int:
    """Both elements are to be done so."""
    elements = [WaveElement(task, on, SOURCES) for task in ELEMENTS]
    return publish_waves(rig.channels._redis, elements, generation=generation, revision=0)


def left(rig: Rig) -> Query:
    """A source, the first element, and readers of both streams behind it."""
    events = rig.ticks("a", rate_per_s=300, source="left").withColumn("of", F.lit("left"))
    first = rig.publish(events, "a", 0)
    return rig.start(rig.publish(element(rig, first, "e1", "a", 1), "a", 1, readers=("b",)), "a")


def right(rig: Rig) -> Query:
    """Another source, which has nothing of the first element."""
    events = rig.ticks("c", rate_per_s=300, source="right").withColumn("of", F.lit("right"))
    return rig.start(rig.publish(events, "c", 0, readers=("b",)), "c", trigger_ms=170)


def both(rig: Rig) -> Query:
    """The second element, in a query that reads two streams."""
    events = rig.read("b", ["a.1"], ["c.0"], writes=("b.0",))
    return rig.start(rig.publish(element(rig, events, "e2", "b", 0), "b", 0), "b")


def of(source: str, events: Sequence[dict]) -> list[dict]:
    return [event for event in events if event["of"] == source]


def test_an_event_meets_the_same_choice_in_all_elements(rig: Rig) -> None:
    assert begin_wave(rig, "x", 1) == 1
    starts = {"a": left, "c": right, "b": both}
    queries = {name: start(rig) for name, start in starts.items()}

    def arrived(on: str) -> bool:
        newest = {event["of"]: event["e2"] for event in rig.channels.tail("b.0", 400)}
        return newest == dict.fromkeys(SOURCES, on)

    wait_until(lambda: arrived("x"), what="events", alive=tuple(queries.values()))
    for turn, (on, stopped) in enumerate((("y", ""), ("z", "b"), ("x", "a"), ("y", "c"), ("z", "b"))):
        assert begin_wave(rig, on, 2 + turn) == 2 + turn
        assert not begin_wave(rig, on, 2 + turn), "it is so already"
        assert not begin_wave(rig, "x" if on != "x" else "y", 1), "an older estate changes nothing"
        if stopped:  # wherever it is
            queries[stopped].stop()
            wait_until(lambda name=stopped: not queries[name].isActive, what="the stop")
            queries[stopped] = starts[stopped](rig)
        wait_until(lambda on=on: arrived(on), what=f"wave {on}", alive=tuple(queries.values()))

    made = rig.events("b.0")
    for source in SOURCES:
        assert [event["_seq"] for event in of(source, made)] == list(range(len(of(source, made))))
    assert [event for event in of("left", made) if event["e1"] != event["e2"]] == []
    turns = [event["e2"] for event in of("left", made)]
    assert [turn for turn, before in zip(turns, ["", *turns], strict=False) if turn != before] == list("xyzxyz")

    first = noted_switches(rig.channels._redis, "e1")
    assert [switch.alternate for switch in first] == list("xyzxyz")
    assert turns == [named(first, number) for number in range(len(turns))]
    assert json.loads(rig.channels._redis.get(keys.waves("e2"))) == [[n, on] for n, on in enumerate("xyzxyz", 1)]


def named(switches: Sequence[AlternateSwitch], number: int) -> str:
    """The alternate that the recorded sequence names for an event."""
    return max((switch for switch in switches if switch.seq <= number), key=lambda switch: switch.seq).alternate


def test_batches_that_are_repeated_from_a_copy_keep_their_wave(rig: Rig) -> None:
    rig, broker = rig.with_config(records_ranges=True), rig.channels._redis
    begin = {"t0": 1_000 * int(time.time()), "next": 0}
    place = place_of(Savepoint(source_offset=begin))

    def source(fragment: str) -> Query:
        events = rig.ticks(fragment, rate_per_s=300, source="left", begin=begin)
        return rig.start(rig.publish(events, fragment), fragment)

    begin_wave(rig, "x", 1)
    begin_ranges(broker, rig.channels, "a", place, {})
    lost = source("a")
    wait_until(lambda: len(recorded_behind(broker, "a", place) or ()) > 4, what="batches", alive=(lost,))
    lost.stop()
    begin_wave(rig, "y", 2)
    recorded = len(recorded_behind(broker, "a", place))
    assert take_ranges(broker, "a", "h")
    control = moved_on(texts(broker.hgetall(keys.valve("a"))), batches=0, recorded=recorded)
    broker.hset(keys.valve("h"), mapping={**control, keys.COPIED: "1"})
    heir = source("h")

    def noted() -> dict[str, str]:
        names = texts(broker.hgetall(keys.valve("h")))
        return {name.removeprefix("was:"): wave for name, wave in names.items() if "wave:" in name}

    wait_until(lambda: "2" in noted().values(), what="the next wave", alive=(heir,))
    assert noted() == {"wave:0": "1", f"wave:{recorded}": "2"}


def test_marks_are_kept_as_long_as_somebody_may_need_them(rig: Rig) -> None:
    rig.channels.open_channel("m.0", schema_json=rig.ticks("m", rate_per_s=1).schema.json(), readers=("n",))
    fence = rig.channels.take_fence("m.0")
    names = [keys.channel("m.0"), keys.meta("m.0"), keys.readers("m.0"), keys.meta("m.0")]

    def write(batch: int, wave: int) -> str:
        scripts.run(rig.channels._redis, "write", names, [fence, batch, 0, 1, b"", 0, wave])
        return (rig.channels._redis.hget(keys.meta("m.0"), "waves") or b"").decode()

    assert write(1, 0) == ""
    assert write(2, 7) == "2:7"
    assert write(3, 7) == "2:7"
    assert write(4, 0) == "2:7,4:0"
    assert write(5, 8) == "2:7,4:0,5:8"
    rig.channels._redis.hset(keys.readers("m.0"), "n", "4-0")
    rig.channels._redis.hset(keys.meta("m.0"), "trimmed", "4-0")
    assert write(6, 9) == "4:0,5:8,6:9"
