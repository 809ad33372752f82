"""The source of demand response: a reading is of its number alone, and households do what their kind does."""

from __future__ import annotations

from collections import defaultdict
from statistics import fmean, pstdev

import pytest

from workers.library.smart_meters import DAY_MS, EPOCH_MS, KINDS_OF_HOUSEHOLDS

from .conftest import build

pytestmark = pytest.mark.spark


def test_a_reading_depends_on_seed_and_number_alone(ticks):
    """Cut anywhere, at another rate, in other partitions: the same readings."""
    whole = build("smart_meters", ticks(300), meters=7).collect()
    parts = [row for start, end in ((0, 1), (1, 113), (113, 300)) for row in build(
        "smart_meters", ticks(end - start, start=start), meters=7).collect()]
    assert whole == parts
    assert [row[3:] for row in build("smart_meters", ticks(300, rate_per_s=0.5).repartition(3), meters=7).sort(
        "_seq").collect()] == [row[3:] for row in whole]
    other = build("smart_meters", ticks(300), meters=7, seed=2).collect()
    assert sum(ours.kwh == theirs.kwh for ours, theirs in zip(whole, other, strict=True)) < 30


def test_meters_report_in_turn_each_at_its_own_time(ticks):
    rows = build("smart_meters", ticks(40), meters=20, interval=900, gap_share=0).collect()
    assert [row.meter for row in rows] == [f"meter-{number:04d}" for number in range(20)] * 2
    assert [row["at"] for row in rows] == [EPOCH_MS] * 20 + [EPOCH_MS + 900_000] * 20
    assert all(row.kwh > 0 for row in rows)


def test_households_have_habits_weather_holidays_and_sudden_changes_of_variance(ticks):
    """Six weeks, a reading an hour, of 60 households."""
    meters, hours = 60, 42 * 24
    frame = build("smart_meters", ticks(meters * hours), meters=meters, interval=3600, unusual=0.3, holiday_share=0.1,
                  gap_share=0.05)
    of_kind, of_meter, free_days = defaultdict(list), defaultdict(list), {}
    missing = 0
    for row in frame.collect():
        missing += row.kwh is None
        day, hour = divmod((row["at"] - EPOCH_MS) * 24 // DAY_MS, 24)
        free_days[day] = row.holiday
        of_meter[row.meter].append(row.kwh)
        if row.kwh is not None:
            of_kind[row.kind, hour, row.holiday or day % 7 >= 5].append(row.kwh)
    assert missing / (meters * hours) == pytest.approx(0.05, abs=0.01)
    assert {kind for kind, *_ in of_kind} == {kind.kind for kind in KINDS_OF_HOUSEHOLDS}
    assert 1 <= sum(free_days.values()) <= 12
    assert fmean(of_kind["shop", 13, False]) > 2 * fmean(of_kind["shop", 13, True]), "shops close when others are free"
    assert fmean(of_kind["workers", 13, True]) > 1.3 * fmean(of_kind["workers", 13, False])
    assert fmean(of_kind["workers", 19, False]) > 2 * fmean(of_kind["workers", 3, False])
    assert fmean(of_kind["charging", 2, False]) > 2 * fmean(of_kind["charging", 14, False])
    spreads = [pstdev(six) / fmean(six) for values in of_meter.values() for start in range(0, hours - 6, 6)
               if None not in (six := values[start:start + 6])]
    still = [spread for spread in spreads if spread < 0.01]
    assert 0.05 < len(still) / len(spreads) < 0.3, "away: readings hardly move"
    assert sum(spread > 0.3 for spread in spreads) > 0.2 * len(spreads)
