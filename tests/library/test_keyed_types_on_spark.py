"""Types that may be divided by key: a key's rows are the same from one bundle, two or five, and where its state goes
from ring to ring meanwhile. Folds are run as Spark runs them, on what Spark gives them of a stream."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import functions as F

from scheduler.key_division import key_of, ranges_of, whole_groups
from scheduler.model.ring import Ring, key_group
from workers.library.key_states import states_of_keys
from workers.library.registry import task_types
from workers.library.state import LATE, FoldedStream, folded_by, key_text
from workers.library.watermarks import NO_EVENT, STREAM_NUMBER, TOLD

from .conftest import START_MS, build
from .package import install_package
from .told_marks import PartitionMarks

pytestmark = pytest.mark.spark
OBSERVED = ("_seq bigint, _time bigint, _born bigint, msg_id string, sensor_id string, obs string, meta string, "
            "value double, at double, count bigint, sum string, model string")
NAMES = ("load", "heat")
SENSORS, BATCH = 23, 20  # cuts between rings are at multiples: how streams interleave follows from batches
LINE = {"kind": "linear_regression", "features": ["count"], "intercept": 0.5}
CONFIGS: dict[str, dict[str, Any]] = {
    "kalman_filter": {},
    "block_average": {"window": 3, "by": ["at", "obs"]},
    "second_order_moment": {"variables": 3, "by": ["sensor_id"]},
    "distinct_count": {"field": "msg_id", "precision": 6, "by": ["sensor_id"]},
    "interpolate": {"method": "linear", "window": 3},
    "join_by_message": {"schema": "own", "fields": list(NAMES), "open_messages": 2},
    "accumulate": {"window": 3},
    "sliding_linear_regression": {"train": 3, "predict": 2, "every": 2},
    "forecast": {"method": "random", "by": ["sensor_id"], "interval": 1800},
    "exact_average": {"window": 3, "by": ["at", "sensor_id"]},
    "roll_up": {"blocks": 2},
    "window": {"aggregates": ["n=count(*)", "sum=sum(value)", "last=last(count)"], "size": 3600, "lateness": 600,
               "by": ["sensor_id", "at"]},
    "deduplicate": {"by": ["sensor_id", "obs"], "within": 3600},
    "python_by_key": {"function": "sensors.checks:summed", "version": "1.2", "by": ["sensor_id"],
                      "reads": ["value"], "columns": ["sum:double"]},
    "join": {"on": ["sensor_id", "at"], "left": "obs = 'load'", "left_columns": ["l=value"], "right": "obs = 'heat'",
             "right_columns": ["r=msg_id"], "before": 20_000, "after": 10_000, "lateness": 600, "late": "mark",
             "unmatched": "emit"},
    "align": {"on": ["sensor_id"], "side": "obs", "sides": list(NAMES), "columns": ["l=load.value", "r=heat.msg_id"],
              "most": 2, "incomplete": "emit"},
    "train": {"features": ["count"], "target": "value", "window": 5, "every": 3, "by": ["sensor_id"]},
    "predict": {"features": ["count"], "by": ["sensor_id", "at"]},
}
CASES = [*CONFIGS.items(), *(("window", {**CONFIGS["window"], **more}) for more in (
    {"kind": "sliding", "size": 7200, "slide": 1800, "late": "mark"}, {"kind": "session", "idle": 600}))]


def rows(chance: random.Random) -> Iterator[tuple]:
    """Readings of sensors in any order, some without a value, some keys null, zero either way, or with an escape."""
    for seq in range(300):
        sensor = chance.randrange(SENSORS)
        name = None if sensor == 3 else "s\x1f\x00" if sensor == 4 else f"s{sensor}"
        at = [0.0, -0.0, float("nan"), 1.5, None][sensor % 5]
        value = None if chance.random() < 0.1 else chance.randint(-20, 20) / 4
        when = START_MS + seq * 600_000 + chance.randint(-5, 5) * 1000
        model = json.dumps({**LINE, "coefficients": [seq / 8], "version": f"{seq}-0"}) if seq % 5 == 0 else None
        yield (seq, when, when, f"m{seq // 2}", name, chance.choice(NAMES), "", value, at, 3, "1.5", model)


def test_every_type_that_says_so_is_held_to_it():
    assert {name for name, kind in task_types().items() if kind.by_key} == set(CONFIGS)


def test_the_key_and_how_far_marks_go_are_what_the_config_says():
    types = task_types()
    assert key_of(types["accumulate"], {"by": ["a", "b"]}) == ("a", "b")
    assert key_of(types["join"], {"on": ["a"]}) == ("a",) and key_of(types["align"], {}) == ()
    assert key_of(types["window"], {"by": ["a"], "landmark": None}) == ("a",)
    assert key_of(types["window"], {"by": ["a"], "landmark": "ends"}) == (), "one key's event ends all keys' windows"
    assert [types[name].ahead_ms({"ahead": 0.5}) for name in ("window", "accumulate")] == [500, None]
    assert types["deduplicate"].ahead_ms({}) == 0


# By a number, by two columns, by marks, and a function of a package. Of the others test_folds.py has that keys do not
# disturb each other.
IN_SHORT = {"block_average", "join", "join_by_message", "python_by_key"}


@pytest.mark.parametrize(("name", "config"), [
    pytest.param(*case, marks=() if case[0] in IN_SHORT else pytest.mark.long) for case in CASES])
def test_rows_of_a_key_do_not_depend_on_the_number_of_bundles(name, config, spark, tmp_path, monkeypatch):
    install_package(tmp_path, monkeypatch)
    folded: list[FoldedStream] = []

    def take(stream: FoldedStream) -> Any:
        folded.append(stream)
        return spark.createDataFrame([], stream.gives)

    kind = task_types()[name]
    events = spark.createDataFrame(list(rows(random.Random(name))), OBSERVED).coalesce(1)
    ahead_ms, by = kind.ahead_ms(config), key_of(kind, config)
    if ahead_ms is not None:  # what is late comes a little later, and what is in order twice
        events = events.orderBy(F.expr("_seq + CASE WHEN _seq % 7 = 0 THEN 30 ELSE 0 END")).coalesce(1)
        events = events.withColumn(TOLD, F.lit(None).cast("string"))
    if kind.several_streams:
        events = events.withColumn(STREAM_NUMBER, F.when(F.col("obs") == NAMES[0], 0).otherwise(1).cast("bigint"))
        events = events.withMetadata(STREAM_NUMBER, {"streams": 2})
    with folded_by(take):
        build(name, events, **config)
    [stream] = folded
    frame = stream.frame.toPandas()
    texts = [row[0] for row in events.select(key_text(events, by)).collect()]
    if ahead_ms is None:
        assert set(frame["_key"]) <= set(texts), "a writer divides by the text by which states are kept"
        texts = list(frame["_key"])

    def rows_of(*bundles: int) -> dict[str, list]:
        return divided(stream, frame, bundles, texts, ahead_ms)

    alone = rows_of(1)
    assert len(alone) > 4 and alone == rows_of(2) == rows_of(5) == rows_of(1, 3, 2, 5, 1)


def divided(
    stream: FoldedStream, frame: Any, bundles: Sequence[int], texts: Sequence[str], ahead_ms: int | None
) -> dict[str, list]:
    """Rows by key where so many bundles have the keys, one number after the other, for an even part of the events.

    ``texts`` has the key of each. Who goes by marks keeps one state for all keys, and is told them, as parts are.
    """
    by_key: dict[str, list] = defaultdict(list)
    left: list[str | None] = [None]
    cuts = [len(frame) * part // len(bundles) for part in range(len(bundles) + 1)]
    for count, (first, last) in zip(bundles, pairwise(cuts), strict=True):
        ranges = ranges_of(list(whole_groups({place: 1 / count for place in range(count)}).values()))
        ring = Ring(("k",), {token: str(place) for place, (token, _) in enumerate(ranges)})
        states = [json.loads(states_of_keys([(text, [piece]) for text in left]) or "{}") for piece in ranges]
        owners = [int(ring.owner(key_group(text))) for text in texts]
        if ahead_ms is None:
            for place in range(first, last):
                event = frame.iloc[place: place + 1].reset_index(drop=True)
                given = stream.work(states[owners[place]], event)
                by_key[texts[place]] += [repr(row) for row in zip(*given, strict=True)]
        else:
            keys = dict(zip(frame["_seq"], texts, strict=True))  # a row has the number of an event of its key
            for begin in range(first, last, BATCH):
                batch = frame.iloc[begin: min(begin + BATCH, last)]
                for number, part in enumerate(parts_of(batch, owners[begin:last], ahead_ms, count)):
                    for row in zip(*(stream.work(states[number], part) if len(part) else ()), strict=True):
                        is_event = LATE not in stream.gives.names or row[-1] == 0
                        by_key[keys[row[0]] if is_event else LATE].append(repr(row) if is_event else row[-1])
        left = [json.dumps(state) for state in states]
    return {**by_key, LATE: sum(by_key[LATE])} if LATE in by_key else dict(by_key)


def parts_of(batch: Any, owners: Sequence[int], ahead_ms: int, count: int) -> Iterator[Any]:
    """A batch as each part has it: one stream behind the other, each as its writer divides it."""
    owned = batch.assign(_own=owners[:len(batch)])
    streams = [of_stream for _, of_stream in owned.groupby(STREAM_NUMBER)] if STREAM_NUMBER in batch else [owned]
    divided = [list(parts_of_stream(stream, ahead_ms, count)) for stream in streams]
    for parts in zip(*divided, strict=True):
        yield pd.concat(parts).drop(columns="_own").reset_index(drop=True)


def parts_of_stream(stream: Any, ahead_ms: int, count: int) -> Iterator[Any]:
    """What a writer makes of a batch of its stream."""
    marks = PartitionMarks(ahead_ms=ahead_ms, parts=count)
    number = {name: stream[name].iloc[0] for name in (STREAM_NUMBER,) if name in stream}

    def as_text(text: str | None) -> str | None:
        """As a join says it to its fold."""
        return ";".join(f"{number[STREAM_NUMBER]}.{entry}" for entry in text.split(";")) if text and number else text

    before = [as_text(marks.before(*event)) for event in zip(
        stream["_seq"], stream["_time"], stream["_born"], stream["_own"], strict=True)]
    everything = stream.assign(**{TOLD: before})
    for part_number in range(count):
        part = everything[everything["_own"] == part_number]
        if (behind := as_text(marks.behind(part_number))) is not None:
            # Missing doubles are NaN, as Spark gives them: with None, a column without any value would hold objects,
            # and the fold would take NaN there for a value.
            missing = {name: float("nan") if kind == "float64" else None for name, kind in part.dtypes.items()}
            no_event = missing | number
            no_event |= {"_seq": NO_EVENT, "_time": 0, "_born": 0, "_key": "", TOLD: behind, "_own": part_number}
            part = pd.concat([part, pd.DataFrame([no_event])])
        yield part
