"""Of an element one alternate works in each batch; another one from a batch boundary on, without a restart."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from workers.engine.channels import keys
from workers.engine.channels.spark_channels import one_of, shared

from .rig import Rig, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.broker]


def in_python(frames: Iterator) -> Iterator:
    for frame in frames:
        frame["made"] = "python"
        yield frame


def forked(events: DataFrame) -> DataFrame:
    """Two branches of one stream, and their union."""
    both = shared(events)
    left = both.where("_seq % 2 = 0").withColumn("made", F.lit("left"))
    right = both.where("_seq % 2 = 1").mapInPandas(in_python, "_seq long, _time long, _born long, made string")
    return left.unionByName(right).coalesce(1)


BUILDS = {
    "plain": lambda events: events.withColumn("made", F.lit("plain")),
    "python": lambda events: events.mapInPandas(
        in_python, "_seq long, _time long, _born long, made string"),
    "evens": lambda events: events.where("_seq % 2 = 0").withColumn("made", F.lit("evens")),
    "forked": forked,
}


def element(rig: Rig, events: DataFrame, builds: dict = BUILDS) -> DataFrame:
    """An element at position 1, behind a task whose stream is published."""
    first = rig.publish(events, "a", 0)
    made = one_of(first, builds, rig.config, task="t", fragment="a", position=1)
    rig.channels.open_channel("a.1", schema_json=made.schema.json(), retain=1_000_000)
    rig.channels.open_outlet("a", 1, from_batch=0)
    return rig.valve(made, "a", 1)


def switches(rig: Rig) -> list[dict]:
    """What was noted, by batch."""
    noted = rig.channels._redis.hvals(keys.switches("t"))
    return sorted((json.loads(note) for note in noted), key=lambda switch: switch["batch"])


def expected(numbers: list[int], noted: list[dict]) -> list[tuple[int, str]]:
    """What comes of events when the recorded sequence of alternates works on them."""
    made = []
    for number in numbers:
        name = max((note for note in noted if note["seq"] <= number), key=lambda note: note["seq"])["alternate"]
        if name == "forked":
            made.append((number, "python" if number % 2 else "left"))
        elif name != "evens" or number % 2 == 0:
            made.append((number, name))
    return made


# The last test says the same of one switch and all its events, test_behind_folds.py of branches that part and meet,
# test_alternates.py of slots of eight switches of four elements, with state behind them and a kill.
@pytest.mark.long
def test_each_event_passes_the_alternate_that_the_recorded_sequence_names(rig: Rig) -> None:
    rig.channels.switch("a", 1, "plain", from_batch=0)
    query = rig.start(element(rig, rig.ticks("a", rate_per_s=500)), "a")
    turns = ["python", "evens", "plain", "forked", "python"]
    for number, name in enumerate(turns, 2):
        assert rig.channels.switch("a", 1, name)
        assert not rig.channels.switch("a", 1, name)
        wait_until(lambda number=number: len(switches(rig)) == number, what=f"switch to {name}", alive=(query,))
        wait_until(  # once no batch can need the one before
            lambda name=name: rig.channels.alternates("a") == {1: (name, True)}, what="its step", alive=(query,))
    wait_until(lambda: rig.numbers("a.1")[-1] > switches(rig)[-1]["seq"] + 20, what="events", alive=(query,))
    query.stop()
    wait_until(lambda: not query.isActive, what="the stop")
    noted, made = switches(rig), [(row["_seq"], row["made"]) for row in rig.events("a.1")]
    assert [note["alternate"] for note in noted] == ["plain", *turns]
    numbers = rig.numbers("a.0")  # each event once where it came from, though there are four ways, one of them forked
    assert numbers == sorted(set(numbers))
    assert sorted(made) == expected(numbers, noted)[:len(made)]
    for part in (0, 1):  # each branch keeps the order
        of_branch = [number for number, _ in made if number % 2 == part]
        assert of_branch == sorted(of_branch)
    assert rig.channels.meters("a")["0:n"] <= len(rig.numbers("a.0"))


def test_an_alternate_that_is_off_is_no_part_of_a_batch(rig: Rig) -> None:
    rig.channels.switch("a", 1, "plain", from_batch=0)
    query = rig.start(element(rig, rig.ticks("a", rate_per_s=500)), "a")
    wait_until(lambda: len(rig.batches("a.1")) > 3, what="batches", alive=(query,))
    plan = query._query._jsq.explainInternal(False) if hasattr(query, "_query") else ""
    assert "MapInPandas" not in plan
    rig.channels.switch("a", 1, "python")
    wait_until(lambda: len(switches(rig)) == 2, what="the switch", alive=(query,))
    wait_until(lambda: "MapInPandas" in query._query._jsq.explainInternal(False), what="its plan", alive=(query,))
    plan = query._query._jsq.explainInternal(False)
    assert "Union" not in plan
    assert plan.count("weir_valve(a.0)") == 1


def test_a_switch_that_no_batch_has_seen_is_taken_back(rig: Rig) -> None:
    rig.channels.switch("a", 1, "plain", from_batch=0)
    assert rig.channels.switch("a", 1, "python")
    assert rig.channels.switch("a", 1, "plain")
    assert rig.channels.alternates("a")[1][0] == "plain"


def test_a_batch_that_is_repeated_passes_the_same_alternate(rig: Rig) -> None:
    small = rig.with_config(max_rows=40)

    def started(limit: int):
        return small.start(element(small, small.ticks("a", rate_per_s=2_000, limit=limit)), "a")

    rig.channels.switch("a", 1, "plain", from_batch=0)
    query = started(400)
    wait_until(lambda: len(rig.numbers("a.1")) >= 80, what="events", alive=(query,))
    rig.channels.switch("a", 1, "python")
    wait_until(lambda: len(switches(rig)) == 2, what="the switch", alive=(query,))
    query.stop()  # wherever it is
    wait_until(lambda: not query.isActive, what="the stop")
    before = switches(rig)
    query = started(400)
    wait_until(lambda: len(rig.numbers("a.1")) == 400, what="all events", alive=(query,))
    assert [(row["_seq"], row["made"]) for row in rig.events("a.1")] == expected(list(range(400)), before)
    after = switches(rig)  # a query that begins behind the switch notes what is on there, too
    assert after[:len(before)] == before
    assert {switch["alternate"] for switch in after[len(before):]} <= {before[-1]["alternate"]}
