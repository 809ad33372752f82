"""Types that may be divided by key: a key's rows are the same from one bundle, two or five, and where its state goes
from ring to ring meanwhile. Folds are run as Spark runs them, on what Spark gives them of a stream."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from scheduler.key_division import key_of, ranges_of, whole_groups
from scheduler.model.ring import Ring, key_group
from workers.library.key_states import states_of_keys
from workers.library.registry import task_types
from workers.library.state import FoldedStream, folded_by, key_text

from .conftest import START_MS, build
from .package import install_package

pytestmark = pytest.mark.spark
OBSERVED = ("_seq bigint, _time bigint, _born bigint, msg_id string, sensor_id string, obs string, meta string, "
            "value double, at double, count bigint, sum string")
NAMES = ("load", "heat")
SENSORS = 23
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
    "python_by_key": {"function": "sensors.checks:summed", "version": "1.2", "by": ["sensor_id"],
                      "reads": ["value"], "columns": ["sum:double"]},
}


def rows(chance: random.Random) -> Iterator[tuple]:
    """Readings of sensors in any order, some without a value, some keys null, zero either way, or with an escape."""
    for seq in range(300):
        sensor = chance.randrange(SENSORS)
        name = None if sensor == 3 else "s\x1f\x00" if sensor == 4 else f"s{sensor}"
        at = [0.0, -0.0, float("nan"), 1.5, None][sensor % 5]
        value = None if chance.random() < 0.1 else chance.randint(-20, 20) / 4
        when = START_MS + seq * 600_000 + chance.randint(-5, 5) * 1000
        yield (seq, when, when, f"m{seq // 2}", name, chance.choice(NAMES), "", value, at, 3, "1.5")


def test_every_type_that_says_so_is_held_to_it():
    assert {name for name, kind in task_types().items() if kind.by_key} == set(CONFIGS)


@pytest.mark.parametrize("name", CONFIGS)
def test_rows_of_a_key_do_not_depend_on_the_number_of_bundles(name, spark, tmp_path, monkeypatch):
    install_package(tmp_path, monkeypatch)
    folded: list[FoldedStream] = []

    def take(stream: FoldedStream) -> Any:
        folded.append(stream)
        return spark.createDataFrame([], stream.gives)

    events = spark.createDataFrame(list(rows(random.Random(name))), OBSERVED).coalesce(1)
    by = key_of(task_types()[name], CONFIGS[name])
    with folded_by(take):
        build(name, events, **CONFIGS[name])
    [stream] = folded
    frame = stream.frame.toPandas()
    routed = {row[0] for row in events.select(key_text(events, by)).collect()}
    assert set(frame["_key"]) <= routed, "a writer divides by the text by which states are kept"
    alone = divided(stream, frame, [1])
    assert len(alone) > 4 and alone == divided(stream, frame, [2]) == divided(stream, frame, [5])
    assert alone == divided(stream, frame, [1, 3, 2, 5, 1])


def divided(stream: FoldedStream, frame: Any, bundles: list[int]) -> dict[str, list]:
    """Rows by key where so many bundles have the keys, one number after the other, for an even part of the events."""
    by_key: dict[str, list] = defaultdict(list)
    texts: list[str | None] = [None]
    cuts = [len(frame) * part // len(bundles) for part in range(len(bundles) + 1)]
    for count, (first, last) in zip(bundles, pairwise(cuts), strict=True):
        ranges = ranges_of(list(whole_groups({place: 1 / count for place in range(count)}).values()))
        ring = Ring(("k",), {token: str(place) for place, (token, _) in enumerate(ranges)})
        states = [json.loads(states_of_keys([(text, [own]) for text in texts]) or "{}") for own in ranges]
        for place in range(first, last):
            event = frame.iloc[place: place + 1].reset_index(drop=True)
            key = event["_key"][0]
            given = stream.work(states[int(ring.owner(key_group(key)))], event)
            by_key[key] += [repr(row) for row in zip(*given, strict=True)]
        texts = [json.dumps(own) for own in states]
    return dict(by_key)
