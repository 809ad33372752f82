"""Alternates behind a task with state in one query: its state is kept once, however many readers its stream has."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import partial

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from workers.engine.channels.spark_channels import first_events_noted, one_of, shared
from workers.engine.noted_switches import noted_switches
from workers.engine.spark import fold_files
from workers.library.folds import BlockAverage
from workers.library.state import fold_stream, going_on
from workers.library.switched_folds import one_task

from .rig import Rig, wait_until
from .test_switched_state import switched

pytestmark = [pytest.mark.spark, pytest.mark.broker]
STREAM = ["_seq", "_time", "_born"]
KEYS = 3


def means(window: int, events: DataFrame, *, of: str) -> DataFrame:
    """Means of so many values of a meter each."""
    made = fold_stream(events, BlockAverage(window), by=["meter"], reads=["x"], kept=[*STREAM, "meter"],
                       added="mean double, count bigint")
    return made.select(*STREAM, "meter", F.col("mean").alias("x"), F.lit(of).alias("made"))


def forked(events: DataFrame) -> DataFrame:
    """Branches that part, and part again, and meet."""
    both = shared(events)
    others = shared(both.where("meter <> 'm0'"))
    branches = [
        both.where("meter = 'm0'").withColumn("made", F.lit("left")),
        others.where("meter = 'm1'").withColumn("made", F.lit("middle")),
        others.where("meter = 'm2'").withColumn("made", F.lit("right"))]
    return branches[0].unionByName(branches[1]).unionByName(branches[2]).coalesce(1)


def plain(events: DataFrame) -> DataFrame:
    return events.withColumn("made", F.lit("plain"))


def operators(rig: Rig) -> set[str]:
    """The operators with state that the query's checkpoint knows."""
    return {folder.name for folder in (rig.checkpoint("a") / "state").iterdir() if folder.name.isdigit()}


def through(
    rig: Rig, element_of: Callable[[DataFrame], DataFrame], turns: list[str],
    between: Callable[[], None] = lambda: None,
) -> tuple[list[dict], Callable[[int], str]]:
    """What comes out behind a fold when each turn is switched to once events came, the query being stopped behind each,
    with what happens ``between``; and what was at work from a mean's number on."""
    rig.spark.conf.set("spark.sql.streaming.unsupportedOperationCheck", "false")  # as in slots
    for number, turn in enumerate([*turns, ""], 1):
        ticks = rig.ticks("a", rate_per_s=1_000).select(
            *STREAM, F.concat(F.lit("m"), F.col("_seq") % KEYS).alias("meter"), F.col("_seq").cast("double").alias("x"))
        with going_on("s", fragment="a"):
            first = rig.publish(means(2, ticks, of="s").drop("made"), "a", 0)
        with going_on("t", fragment="a"):
            made = element_of(first)
        query = rig.start(rig.publish(made, "a", 1), "a")
        seen = len(rig.events("a.1"))
        wait_until(lambda seen=seen: len(rig.events("a.1")) > seen + 60, what=f"turn {number}", alive=(query,))
        if turn:
            rig.channels.switch("a", 1, turn)
            wait_until(lambda number=number: len(noted_switches(rig.channels._redis, "t")) > number,
                       what=turn, alive=(query,))
        query.stop()
        wait_until(lambda query=query: not query.isActive, what="the stop")
        between()
    switches = noted_switches(rig.channels._redis, "t")

    def at_work(seq: int) -> str:
        newest = max((switch for switch in switches if switch.seq <= seq), key=lambda switch: switch.seq)
        return "+".join(filter(None, (newest.alternate, newest.warming)))

    return rig.events("a.1"), at_work


def first_means(upto: int) -> list[tuple[int, str, float]]:
    """What the fold before makes: the nth reading of a meter has the number n."""
    return [(seq, f"m{seq % KEYS}", seq - KEYS / 2) for seq in range(upto + 1) if seq // KEYS % 2]


def test_branches_behind_a_fold_go_on_with_its_state(rig: Rig) -> None:
    rig = rig.with_config(max_rows=40)

    def element_of(events: DataFrame) -> DataFrame:
        return one_of(events, {"plain": plain, "forked": forked}, rig.config, task="t", fragment="a", position=1)

    def as_if_planned_twice() -> None:
        """What earlier versions left in a checkpoint: a copy that nothing has worked on."""
        assert operators(rig) == {"0"}
        state = rig.checkpoint("a") / "state"
        for place in ("_metadata", "0/_metadata"):
            shutil.copytree(state / "0" / place, state / "1" / place)
        for file in (state / "1").rglob("metadata"):
            head, _, text = file.read_text().partition("\n")
            noted = json.loads(text)
            noted["operatorInfo"]["operatorId"] = 1
            file.write_text(f"{head}\n{json.dumps(noted)}")
            (file.parent / f".{file.name}.crc").unlink(missing_ok=True)
        fold_files.forget_copies(rig.checkpoint("a"))
        assert operators(rig) == {"0"}

    rig.channels.switch("a", 1, "plain", from_batch=0)
    out, at_work = through(rig, element_of, ["forked", "plain"], as_if_planned_twice)
    names = {"m0": "left", "m1": "middle", "m2": "right"}
    expected = [
        (*mean, "plain" if at_work(mean[0]) == "plain" else names[mean[1]])
        for mean in first_means(max(row["_seq"] for row in out))]
    assert {row[-1] for row in expected} == {"plain", *names.values()}
    assert sorted((row["_seq"], row["meter"], row["x"], row["made"]) for row in out) == expected


@pytest.mark.long  # test_switched_state.py has what warms up, the test above what is behind a fold
def test_an_alternate_warms_up_behind_a_fold(rig: Rig) -> None:
    rig = rig.with_config(max_rows=40)
    windows = {"twos": 2, "threes": 3, "fours": 4}  # the third is never on
    builds = {name: partial(means, window, of=name) for name, window in windows.items()}

    def element_of(events: DataFrame) -> DataFrame:
        noted = first_events_noted(events, rig.config, task="t", fragment="a", position=1)
        return switched(rig, noted, {name: one_task(build) for name, build in builds.items()}, warms=True)

    def has_two_folds() -> None:
        assert operators(rig) == {"0", "1"}

    rig.channels.switch("a", 1, "twos", from_batch=0)
    out, at_work = through(rig, element_of, ["twos+threes", "threes"], has_two_folds)
    expected, states = [], {name: {} for name in windows}
    for seq, meter, value in first_means(out[-1]["_seq"]):
        for name in at_work(seq).split("+"):
            fold = BlockAverage(windows[name])
            made = fold.step(states[name].setdefault(meter, fold.start()), value)
            if name == at_work(seq).split("+")[0]:
                expected += [(seq, meter, row[0], name) for row in made]
    assert {row[-1] for row in expected} == {"twos", "threes"}
    assert [(row["_seq"], row["meter"], row["x"], row["made"]) for row in out] == expected
