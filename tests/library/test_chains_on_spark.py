"""Whole dataflows as one streaming query, against the same tasks written in plain Python."""

from __future__ import annotations

import json
from collections import defaultdict
from functools import reduce
from statistics import fmean

import pytest
import yaml

from scheduler.reuse.fragments import LONGEST_CHAIN
from workers.library.bloom import BloomFilter
from workers.library.event_schemas import URBAN
from workers.library.samples import SAMPLES

from .conftest import build

pytestmark = pytest.mark.spark
TICKS = "_seq bigint, _time bigint, _born bigint"


def sample(name: str) -> dict:
    return yaml.safe_load(SAMPLES.joinpath(f"{name}.yaml").read_text())


def chain(frame, document: dict, *ids: str):
    """The named tasks of a sample, one behind the other."""
    tasks = {task["id"]: task for task in document["tasks"]}
    for task_id in ids:
        frame = build(tasks[task_id]["type"], frame, **tasks[task_id].get("config", {}))
    return frame


def reference(senml: list[str], ranges: dict, stations: BloomFilter):
    """Messages as (sequence number, id, readings with gaps and outliers as None), of known stations only."""
    for seq, line in enumerate(senml):
        entries = {entry["n"]: entry.get("v", entry.get("sv")) for entry in json.loads(line.partition(",")[2])["e"]}
        if entries["source"] not in stations:
            continue
        values = {}
        for name in URBAN.fields:
            value = float(entries[name]) if name in entries else None
            inside = value is not None and ranges[name][0] <= value <= ranges[name][1]
            values[name] = value if inside else None
        yield seq, entries["source"], values


@pytest.mark.long  # each of its tasks is held to plain Python alone; test_outputs_sacred.py runs the whole
def test_etl(stream, ticks):
    document = sample("urban_etl")
    config = {task["id"]: task.get("config", {}) for task in document["tasks"]}
    config["stations"] |= {"sensors": 12, "gap_share": 0.1, "outlier_share": 0.1}
    config["known"] |= {"count": 8}
    events = stream(TICKS)
    events.add([tuple(row) for row in ticks(300).collect()], sizes=[1, 140])  # each batch costs seconds
    ids = ("stations", "parse", "in_range", "known", "fill", "join", "annotate", "to_senml", "publish")
    events_out = events.run(lambda frame: chain(frame, document, *ids))

    senml = [row.senml for row in chain(ticks(300), document, "stations").collect()]
    stations = BloomFilter.of([f"urban-{number:04d}" for number in range(8)], expected_insertions=10_000,
                              false_positive_ratio=0.01)
    last: dict = defaultdict(list)
    expected = []
    for seq, sensor, values in reference(senml, config["in_range"]["ranges"], stations):
        filled = {}
        for name, value in values.items():
            past = last[sensor, name][-5:]
            if value is not None:
                last[sensor, name].append(value)
            elif past:
                value = fmean(past)
            filled[name] = value
        expected.append((seq, sensor, filled))
    assert [row[0] for row in events_out] == [seq for seq, _, _ in expected]
    assert sum(None in values.values() for _, _, values in expected) < 20 < len(expected)
    for row, (_, sensor, values) in zip(events_out, expected, strict=True):
        entries = {entry["n"]: entry.get("v", entry.get("sv")) for entry in json.loads(row[3].partition(",")[2])["e"]}
        assert entries["source"] == sensor
        assert entries["location"] and entries["type"] and entries["longitude"]
        for name, value in values.items():
            assert (float(entries[name]) if name in entries else None) == (
                value if value is None else pytest.approx(value))


@pytest.mark.long  # several folds in a query: the channels' test_hosted_folds.py; one: test_state_on_spark.py
@pytest.mark.parametrize("ids", [("smooth", "forecast", "forecasts"), ("average", "averages"), ("distinct", "counts")])
def test_stats_do_not_depend_on_batches(ids, stream, ticks):
    """Two stateful tasks in one query included; a checkpoint is taken up half-way."""
    document = sample("urban_stats")
    for task in document["tasks"]:
        if task["id"] == "stations":
            task["config"]["sensors"] = 4
    rows = [tuple(row) for row in ticks(160).collect()]

    def tasks(frame):
        return chain(frame, document, "stations", "parse", *ids)

    whole, cut = stream(TICKS), stream(TICKS)
    whole.add(rows, sizes=[])
    expected = whole.run(tasks)
    cut.add(rows[:90], sizes=[3])
    events_out = cut.run(tasks)
    cut.add(rows[90:], sizes=[])
    events_out += cut.run(tasks)
    assert len(expected) > 50
    assert events_out == expected


def test_a_chain_as_long_as_one_may_be_is_planned_and_run(stream):
    line = stream(f"{TICKS}, a double")
    line.add([(0, 1, 1, 0.5)], sizes=[])
    [row] = line.run(lambda frame: reduce(
        lambda rows, number: build("sql", rows, query=f"SELECT a + {number} AS a FROM input"),
        range(LONGEST_CHAIN), frame))
    assert row == (0, 1, 1, 0.5 + sum(range(LONGEST_CHAIN)))
