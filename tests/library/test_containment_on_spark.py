"""Containment on Spark: what a refinement gives out of the wide task's stream is what the narrow task gives alone."""

from __future__ import annotations

import math
import random

import pytest

from scheduler.model.alternates import alternates_in
from scheduler.model.canonical import canonical_config
from scheduler.model.refinement import Refined
from scheduler.model.task_types import DYNAMIC
from scheduler.reuse.narrower_alternates import PASSES, refined_alternates
from workers.library import registry

from .conftest import START_MS, build

pytestmark = pytest.mark.spark
OBSERVATIONS = ("_seq bigint, _time bigint, _born bigint, msg_id string, sensor_id string, obs string, meta string, "
                "value double")
WIDE = "_seq bigint, _time bigint, _born bigint, sensor_id string, t double, u double"


def readings(count: int) -> list[tuple]:
    """Readings of three sensors, some missing, with numbers whose floating-point sums depend on their order."""
    chance = random.Random(5)
    rows = []
    for seq in range(count):
        for name in ("temperature", "humidity"):
            value = chance.choice([
                None, 0.1, 0.2, 0.3, 1e16, -1e16, 40.0, 39.999999999999, -0.0, 12.5, math.nan, math.inf,
                chance.uniform(-20, 60)])
            time_ms = START_MS + seq * 100
            sensor = None if seq % 11 == 5 else f"s-{seq % 3:04d}"
            rows.append((seq, time_ms, time_ms + seq % 5, f"m{seq}", sensor, name, "{}", value))
    return rows


def wide_events(count: int) -> list[tuple]:
    return [
        (seq, START_MS + seq, START_MS, f"s-{seq % 3:04d}", float(seq % 50), None if seq % 9 == 4 else seq % 7 - 3.0)
        for seq in range(count)
    ]


CASES = {
    "range, dropped": ("range_filter", {"ranges": {"temperature": [0, 40]}},
                       {"ranges": {"temperature": [0.15, 40], "humidity": [-5, 50]}}, OBSERVATIONS),
    "range, blanked": ("range_filter", {"ranges": {"temperature": [0, 40]}, "outside": "blank"},
                       {"ranges": {"temperature": [0.15, 39.9]}, "outside": "blank"}, OBSERVATIONS),
    "range, columns": ("range_filter", {"ranges": {"t": [5, 45]}}, {"ranges": {"t": [10, 40], "u": [-2, 2]}}, WIDE),
    "range, columns blanked": ("range_filter", {"ranges": {"t": [5, 45]}, "outside": "blank"},
                               {"ranges": {"t": [10, 40], "u": [-2, 2]}, "outside": "blank"}, WIDE),
    # Sized far too small on purpose: most of what passes is a false positive.
    "members": ("bloom_filter", {"prefix": "s", "count": 2, "expected_insertions": 4, "false_positive_ratio": 0.5},
                {"prefix": "s", "count": 1, "expected_insertions": 4, "false_positive_ratio": 0.5}, OBSERVATIONS),
    "blocks": ("exact_average", {"window": 3}, {"window": 12}, OBSERVATIONS),
    "blocks by observation": ("exact_average", {"window": 4, "by": ["obs"], "fields": ["humidity"]},
                              {"window": 8, "by": ["obs"], "fields": ["humidity"]}, OBSERVATIONS),
}


# One of each kind of refinement; the long run has the others.
IN_SHORT = {"range, dropped", "range, columns blanked", "members", "blocks by observation"}


@pytest.mark.parametrize("case", [
    case if case in IN_SHORT else pytest.param(case, marks=pytest.mark.long) for case in CASES])
def test_contained_it_gives_what_it_gives_alone_event_by_event(case, stream):
    name, wide, narrow, columns = CASES[case]
    task_type = registry.task_types()[name]
    wide, narrow = (canonical_config(task_type, config) for config in (wide, narrow))
    refined = registry.refinement(task_type, wide, narrow)
    rows = readings(120) if columns == OBSERVATIONS else wide_events(150)

    alone = stream(columns)
    alone.add(rows, sizes=[])
    expected = alone.run(lambda frame: build(name, frame, **narrow))

    on_top = stream(columns)
    on_top.add(rows[:150], sizes=[1, 7, 40])
    results = on_top.run(lambda frame: build(refined.type, build(name, frame, **wide), **refined.config))
    on_top.add(rows[150:], sizes=[33])  # after a restart
    results += on_top.run(lambda frame: build(refined.type, build(name, frame, **wide), **refined.config))

    assert len(expected) >= 5
    assert list(map(repr, results)) == list(map(repr, expected)), "all columns, Weir's included, to the last bit"


def test_alternates_on_top_of_a_static_task_give_what_they_give_alone(stream):
    """One is equal to it, one is a narrower one, one goes on behind it."""
    types = registry.task_types()
    wide = canonical_config(types["range_filter"], {"ranges": {"temperature": [0, 40]}})
    high = {"id": "high", "type": "sql", "config": {"query": "SELECT * FROM input WHERE value > 5"}}
    row = [{"from": "input", "to": "all"}, {"from": "all", "to": "high"}, {"from": "high", "to": "output"}]
    config = canonical_config(types[DYNAMIC], {"alternates": [
        {"name": "equal", "type": "range_filter", "config": wide},
        {"name": "narrow", "type": "range_filter", "config": {"ranges": {"temperature": [1, 30]}}},
        {"name": "behind", "tasks": [{"id": "all", "type": "range_filter", "config": wide}, high], "streams": row}]})

    def refining(name, stated):
        return Refined(PASSES, {}) if stated == wide else registry.refinement(types[name], wide, stated)

    refined = refined_alternates(config, refining, task_types=types)
    pairs = list(zip(*(alternates_in(DYNAMIC, alternates) for alternates in (
        config, canonical_config(types[DYNAMIC], refined.config))), strict=True))
    assert {way.name: way.type for _, way in pairs} == {"equal": "union", "narrow": "range_filter", "behind": "sql"}
    source = stream(OBSERVATIONS)
    frame = source.spark.createDataFrame(readings(120), source.schema).coalesce(1)
    through = build("range_filter", frame, **wide)
    for alone, on_top in pairs:
        made = build(on_top.type, through, **on_top.config)
        expected = build(alone.type, frame, **alone.config)
        assert made.dtypes == expected.dtypes
        assert list(map(repr, made.collect())) == list(map(repr, expected.collect())) != []


def test_a_refinement_has_the_columns_of_the_task_that_it_replaces(stream):
    for name, wide, narrow, columns in CASES.values():
        task_type = registry.task_types()[name]
        wide, narrow = (canonical_config(task_type, config) for config in (wide, narrow))
        refined = registry.refinement(task_type, wide, narrow)
        frame = stream(columns).spark.createDataFrame([], stream(columns).schema)
        if task_type.stateful:
            continue  # declared by one and the same line of DDL
        on_top = build(refined.type, build(name, frame, **wide), **refined.config)
        assert on_top.dtypes == build(name, frame, **narrow).dtypes
