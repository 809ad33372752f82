"""Alternates that keep state: one fold goes on through switches, by batch and by key, through stops and repetition."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from scheduler.model.dataflow import Stream, Task
from scheduler.model.paths import TaskPath
from scheduler.model.warm_up import working
from workers.engine.channels.spark_channels import (
    WARMING,
    alternate_of_event,
    each_by_key,
    first_events_noted,
    headed,
    shared,
    the_one_on,
)
from workers.engine.noted_switches import noted_key_switches, noted_switches
from workers.library.folds import BlockAverage
from workers.library.forecasting import HOUR_MS, HourlyForecast
from workers.library.registry import resolve, task_types
from workers.library.state import fold_stream, going_on, key_text
from workers.library.switched_folds import Way, along, one_task, shared_state, switched_states

from .rig import Query, Rig, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.broker]
STREAM = ["_seq", "_time", "_born"]
KEYS = 3
FORECAST = {"by": ["meter"], "value": "kwh", "at": "at", "interval": 900}


def readings(rig: Rig) -> DataFrame:
    """A reading a tick, of three meters in turn, a quarter of an hour after that of the meter before."""
    ticks = rig.ticks("a", rate_per_s=2_000)
    return ticks.select(
        *STREAM, F.concat(F.lit("m"), F.col("_seq") % KEYS).alias("meter"),
        (F.floor(F.col("_seq") / KEYS) * (HOUR_MS // 4)).alias("at"),
        (1.0 + F.col("_seq") * 37 % 101 / 100).alias("kwh"))


def reading(seq: int) -> tuple[str, int, float]:
    return f"m{seq % KEYS}", seq // KEYS * (HOUR_MS // 4), 1.0 + seq * 37 % 101 / 100


def forecasts(method: str) -> Callable[[DataFrame], DataFrame]:
    return lambda events: resolve(task_types()["forecast"])(events, {**FORECAST, "method": method})


def averages(window: int, *, of: str) -> Callable[[DataFrame], DataFrame]:
    """Blocks of a meter's readings; of the even numbers alone, with a column more on the way, where it is so named."""
    def build(events: DataFrame) -> DataFrame:
        if of == "evens":
            events = events.where("_seq % 2 = 0").withColumn("kwh", F.col("kwh") * 1.0).withColumn("even", F.lit(2))
        columns = [*STREAM, "meter", *(["even"] if of == "evens" else [])]
        made = fold_stream(events, BlockAverage(window), by=["meter"], reads=["kwh"], kept=columns,
                           added="mean double, count bigint")
        return made.select(*STREAM, "meter", "mean", "count", F.lit(of).alias("made"))
    return build


def switched(rig: Rig, events: DataFrame, ways: Mapping[str, Way], *, warms: bool = False, **more) -> DataFrame:
    """Alternates with state at position 1 of a query."""
    place = {"config": rig.config, "fragment": "a", "position": 1}
    on = partial(the_one_on, **place)
    return switched_states(
        events, ways, on, headed=headed, both_of=partial(on, beside=WARMING) if warms else None,
        working=lambda frame: alternate_of_event(frame, F.lit(""), [*ways], **place), **more)


def element(rig: Rig, element_of: Callable[[DataFrame], DataFrame]) -> Query:
    """A query whose task at position 1 has alternates, started."""
    rig.spark.conf.set("spark.sql.streaming.unsupportedOperationCheck", "false")  # as in slots
    with going_on("t", stores=rig.folder / "folds", fragment="a", large=1):
        read = rig.publish(readings(rig), "a", 0)
        made = element_of(first_events_noted(read, rig.config, task="t", fragment="a", position=1))
    rig.channels.open_channel("a.1", schema_json=made.schema.json(), retain=1_000_000)
    rig.channels.open_outlet("a", 1, from_batch=0)
    return rig.start(rig.valve(made, "a", 1), "a")


def through(rig: Rig, element_of: Callable[[DataFrame], DataFrame], turns: list[Callable[[], int]]) -> list[dict]:
    """All that comes out when each turn is switched once the one before is noted. A turn gives how many notes there
    will be. The query is stopped wherever it is after the first turn, the third and so on: a start costs seconds."""
    query = element(rig, element_of)
    for number, turn in enumerate(turns):
        seen = rig.numbers("a.0")
        wait_until(lambda seen=seen: len(rig.numbers("a.0")) > len(seen) + 30, what="events", alive=(query,))
        expected = turn()
        wait_until(lambda expected=expected: len(noted_switches(rig.channels._redis, "t")) + len(
            noted_key_switches(rig.channels._redis, "t")) >= expected, what="the switch", alive=(query,))
        if number % 2 == 0:
            _stop(query, what="the stop")
            query = element(rig, element_of)
    upto = rig.numbers("a.0")[-1] + 100
    wait_until(lambda: rig.numbers("a.1")[-1] > upto, what="what comes of events", alive=(query,))
    _stop(query, what="the end")
    return rig.events("a.1")


def _stop(query: Query, *, what: str) -> None:
    query.stop()
    wait_until(lambda: not query.isActive, what=what)


@pytest.mark.long  # paths do so below, and on slots: tests/engine/spark/test_alternates.py
def test_alternates_begin_without_state_when_they_are_switched_on(rig: Rig) -> None:
    rig = rig.with_config(max_rows=40)
    builds = {"all": averages(4, of="all"), "evens": averages(3, of="evens")}

    def element_of(events: DataFrame) -> DataFrame:
        return switched(rig, events, {name: one_task(build) for name, build in builds.items()})

    def turn(name: str, notes: int) -> Callable[[], int]:
        return lambda: (rig.channels.switch("a", 1, name), notes)[1]

    rig.channels.switch("a", 1, "all", from_batch=0)
    out = through(rig, element_of, [turn("evens", 2), turn("all", 3)])
    switches = noted_switches(rig.channels._redis, "t")
    assert [switch.alternate for switch in switches] == ["all", "evens", "all"]
    folds = {"all": BlockAverage(4), "evens": BlockAverage(3)}
    expected, states, owner = [], {}, None
    for seq in range(out[-1]["_seq"] + 1):
        name = max((switch for switch in switches if switch.seq <= seq), key=lambda switch: switch.seq).alternate
        states, owner = (states, owner) if owner == name else ({}, name)
        if name == "evens" and seq % 2:
            continue
        meter, _, value = reading(seq)
        state = states.setdefault(meter, folds[name].start())
        expected += [(seq, meter, *out, name) for out in folds[name].step(state, value)]
    assert [tuple(row[name] for name in ("_seq", "meter", "mean", "count", "made")) for row in out] == expected


def test_alternates_by_key_go_on_with_one_state(rig: Rig) -> None:
    rig = rig.with_config(max_rows=40)
    builds = {name: forecasts(name) for name in ("sliding_hour", "sliding_days", "random")}

    def element_of(events: DataFrame) -> DataFrame:
        return shared_state(events, builds, lambda frame: alternate_of_event(
            frame, key_text(frame, ["meter"]), [*builds], rig.config, fragment="a", position=1))

    def switched(alternates: Mapping[str, str], notes: int) -> Callable[[], int]:
        return lambda: (rig.channels.switch_keys("a", 1, alternates), notes)[1]

    def all_others(notes: int) -> Callable[[], int]:
        return lambda: (rig.channels.switch("a", 1, "random"), notes)[1]

    rig.channels.switch("a", 1, "sliding_hour", from_batch=0)
    assert rig.channels.switch_keys("a", 1, {"m0": "sliding_days"}, from_batch=0)
    assert not rig.channels.switch_keys("a", 1, {"m0": "sliding_days"})
    out = through(rig, element_of, [
        switched({"m0": "sliding_days", "m1": "random"}, 3), all_others(4),
        switched({"m1": "sliding_days", "m9": "nobody"}, 5)])
    of_keys, of_all = (noted(rig.channels._redis, "t") for noted in (noted_key_switches, noted_switches))
    assert of_keys[0].keys == {"m0": "sliding_days"}
    assert of_keys[-1].keys["m1"] == "sliding_days" and of_keys[-1].keys["m0"] == ""
    folds = {name: HourlyForecast(name, HOUR_MS // 4) for name in builds}
    expected, states = [], {}
    for seq in range(out[-1]["_seq"] + 1):
        meter, at, value = reading(seq)
        by_key = {key: name for switch in of_keys if switch.seq <= seq for key, name in switch.keys.items()}
        on = max((switch for switch in of_all if switch.seq <= seq), key=lambda switch: switch.seq).alternate
        name = by_key.get(meter) or on
        state = states.setdefault(meter, folds[name].start())
        expected += [(seq, meter, *out) for out in folds[name].step(state, at, value, False, meter)]
    made = [tuple(row[name] for name in ("_seq", "meter", "start", "method", "forecast", "error", "variances"))
            for row in out]
    assert len({row[3] for row in expected}) > 2
    assert made == expected


@pytest.mark.long  # one path does so beside another below
def test_an_alternate_warms_up_beside_the_one_that_is_on(rig: Rig) -> None:
    rig = rig.with_config(max_rows=40)
    builds = {"all": averages(4, of="all"), "evens": averages(50, of="evens")}
    def element_of(events: DataFrame) -> DataFrame:
        return switched(rig, events, {name: one_task(build) for name, build in builds.items()}, warms=True)

    def turn(to: str, notes: int) -> Callable[[], int]:
        return lambda: (rig.channels.switch("a", 1, to), notes)[1]

    rig.channels.switch("a", 1, "all", from_batch=0)
    out = through(rig, element_of, [
        turn("all+evens", 2), turn("all", 3), turn("all+evens", 4), turn("evens", 5)])
    switches = noted_switches(rig.channels._redis, "t")
    assert [(switch.alternate, switch.warming) for switch in switches] == [
        ("all", ""), ("all", "evens"), ("all", ""), ("all", "evens"), ("evens", "")]
    folds = {"all": BlockAverage(4), "evens": BlockAverage(50)}
    expected, states, warm = [], {}, {}
    for seq in range(out[-1]["_seq"] + 1):
        now = max((switch for switch in switches if switch.seq <= seq), key=lambda switch: switch.seq)
        if now.alternate == "evens" and warm:
            states, warm = warm, {}
        if not now.warming:
            warm = {}
        meter, _, value = reading(seq)
        for name, of in ((now.alternate, states), (now.warming, warm)):
            if not name or (name == "evens" and seq % 2):
                continue
            made = folds[name].step(of.setdefault(meter, folds[name].start()), value)
            expected += [(seq, meter, *out, name) for out in made] if of is states else []
    assert {row[-1] for row in expected} == {"all", "evens"}
    assert [tuple(row[name] for name in ("_seq", "meter", "mean", "count", "made")) for row in out] == expected


PATHS = {
    # Readings of m1 go past both folds, and those of m2 past the second.
    "deep": TaskPath(
        (Task("first", "block", {"window": 2}), Task("second", "block", {"window": 3}), Task("rest", "without_m0"),
         Task("passing", "only_m1")),
        tuple(Stream(*ends) for ends in (
            ("input", "first"), ("first", "second"), ("first", "rest"), ("input", "passing"), ("second", "output"),
            ("rest", "output"), ("passing", "output")))),
    "flat": TaskPath((Task("only", "block", {"window": 2}),), (Stream("input", "only"), Stream("only", "output"))),
    "plain": TaskPath((Task("passing", "only_m1"),), (Stream("input", "passing"), Stream("passing", "output")))}
COLUMNS = ["_seq", "meter", "kwh", "count", "made"]


def block(events: DataFrame, config: Mapping) -> DataFrame:
    made = fold_stream(
        events, BlockAverage(config["window"]), by=["meter"], reads=["kwh"], kept=[*STREAM, "meter"],
        added="mean double, count bigint")
    name = F.lit(f"{config['window']}")
    return made.select(*STREAM, "meter", F.col("mean").alias("kwh"), "count", name.alias("made"))


def without_m0(events: DataFrame, config: Mapping) -> DataFrame:
    return events.where("meter <> 'm0'").withColumn("made", F.lit("rest"))


def only_m1(events: DataFrame, config: Mapping) -> DataFrame:
    return events.where("meter = 'm1'").select(
        *STREAM, "meter", "kwh", F.lit(1).cast("bigint").alias("count"), F.lit("passing").alias("made"))


def ways_of(paths: Mapping[str, TaskPath]) -> dict[str, Way]:
    work = {"block": block, "without_m0": without_m0, "only_m1": only_m1}
    return {
        name: along(path, lambda task: lambda events: work[task.type](events, task.config), share=shared,
                    join=lambda left, right: left.unionByName(right).coalesce(1)) for name, path in paths.items()}


class Blocks:
    """What the folds of a path have, by task and meter."""

    def __init__(self) -> None:
        self.states: dict = {}

    def step(self, task: str, window: int, meter: str, value: float) -> list[tuple]:
        fold = BlockAverage(window)
        return list(fold.step(self.states.setdefault((task, meter), fold.start()), value))


def passed(name: str, blocks: Blocks, seq: int) -> list[tuple]:
    """What a path makes of a reading."""
    meter, _, value = reading(seq)
    passing = [(seq, meter, value, 1, "passing")] if meter == "m1" and name != "flat" else []
    if name == "plain":
        return passing
    made = [(seq, meter, *out) for out in blocks.step("first", 2, meter, value)]
    if name == "flat":
        return [(*row, "2") for row in made]
    rest = [(*row, "rest") for row in made if meter != "m0"]
    second = [
        (seq, meter, *out, "3") for row in made for out in blocks.step("second", 3, meter, row[2])]
    return [*second, *rest, *passing]


@pytest.mark.parametrize("begins", [  # keys of alternates with one state: the second test above; test_switched_folds.py
    True, pytest.param(False, marks=pytest.mark.long)], ids=["fresh", "shared"])
def test_the_folds_of_paths_are_a_row_of_folds(rig: Rig, begins: bool) -> None:
    rig = rig.with_config(max_rows=40)
    turns = ["flat", "deep", "plain", "deep"] + (["deep+flat", "flat", "flat+deep", "deep"] if begins else ["flat"])

    def element_of(events: DataFrame) -> DataFrame:
        return switched(rig, events, ways_of(PATHS), warms=begins, begins=begins)

    def turn(to: str, notes: int) -> Callable[[], int]:
        return lambda: (rig.channels.switch("a", 1, to), notes)[1]

    rig.channels.switch("a", 1, "deep", from_batch=0)
    out = through(rig, element_of, [turn(to, number) for number, to in enumerate(turns, 2)])
    switches = noted_switches(rig.channels._redis, "t")
    assert [working(switch.alternate, switch.warming) for switch in switches] == ["deep", *turns]
    expected, blocks, warm, was = [], Blocks(), Blocks(), switches[0]
    end = max(row["_seq"] for row in out)
    for seq in range(end + 1):
        now = max((switch for switch in switches if switch.seq <= seq), key=lambda switch: switch.seq)
        if begins and now.alternate != was.alternate:
            blocks = warm if was.warming == now.alternate else Blocks()
        if now.warming != was.warming:
            warm = Blocks()
        expected += passed(now.alternate, blocks, seq)
        if now.warming:
            passed(now.warming, warm, seq)
        was = now
    made = [tuple(row[name] for name in COLUMNS) for row in out]
    assert {row[-1] for row in made} == {"2", "3", "rest", "passing"}
    for branch in ("2", "3", "rest", "passing"):  # each has its order
        of_branch = [row for row in made if row[-1] == branch]
        assert of_branch == [row for row in expected if row[-1] == branch][:len(of_branch)]
        assert not [row for row in expected if row[-1] == branch and row[0] <= made[-1][0]][len(of_branch):]


def test_tasks_without_state_are_switched_by_key_in_the_order_of_events(rig: Rig) -> None:
    rig = rig.with_config(max_rows=40)
    builds = {
        "all": lambda events: events.select(*STREAM, "meter", F.lit("all").alias("made")),
        "twice": lambda events: events.select(
            *STREAM, "meter", F.explode(F.array(F.lit("one"), F.lit("two"))).alias("made")),
        "fourth": lambda events: events.where("_seq % 4 = 0").select(*STREAM, "meter", F.lit("fourth").alias("made"))}

    def element_of(events: DataFrame) -> DataFrame:
        return each_by_key(
            events, lambda frame: key_text(frame, ["meter"]), builds, rig.config, fragment="a", position=1)

    def by_key(alternates: Mapping[str, str], notes: int) -> Callable[[], int]:
        return lambda: (rig.channels.switch_keys("a", 1, alternates), notes)[1]

    rig.channels.switch("a", 1, "all", from_batch=0)
    rig.channels.switch_keys("a", 1, {"m0": "twice"}, from_batch=0)
    out = through(rig, element_of, [
        by_key({"m0": "twice", "m1": "fourth"}, 3), lambda: (rig.channels.switch("a", 1, "twice"), 4)[1],
        by_key({"m1": "all", "m9": "nobody"}, 5)])
    of_keys, of_all = (noted(rig.channels._redis, "t") for noted in (noted_key_switches, noted_switches))
    expected = []
    for seq in range(out[-1]["_seq"]):
        by_key_now = {key: name for switch in of_keys if switch.seq <= seq for key, name in switch.keys.items()}
        name = by_key_now.get(meter := f"m{seq % KEYS}") or max(
            (switch for switch in of_all if switch.seq <= seq), key=lambda switch: switch.seq).alternate
        ways = {"all": ["all"], "twice": ["one", "two"], "fourth": ["fourth"] if seq % 4 == 0 else []}[name]
        expected += [(seq, meter, way) for way in ways]
    made = [(row["_seq"], row["meter"], row["made"]) for row in out if row["_seq"] < out[-1]["_seq"]]
    assert {row[-1] for row in made} == {"all", "one", "two", "fourth"}
    assert made == expected
