"""Generated events: RIoTBench's form and fields, deterministic, with rhythm, gaps and outliers as asked for."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from statistics import fmean

import pytest

from workers.library.event_schemas import SCHEMAS
from workers.library.generators import METER_READINGS, URBAN_READINGS, WEARABLE_READINGS
from workers.library.taxis import USUAL_RANGES

from .conftest import START_MS, build

pytestmark = pytest.mark.spark
SOURCES = {"urban_sensing": "urban", "taxi_trips": "taxi", "smart_meter": "meter", "wearable": "wearable"}
RANGES = {
    **{reading.name: (reading.low, reading.high) for reading in (*URBAN_READINGS, *METER_READINGS, *WEARABLE_READINGS)},
    **USUAL_RANGES,
}


def entries_of(line: str) -> dict[str, str]:
    time, _, body = line.partition(",")
    message = json.loads(body)
    assert message["bt"] == int(time)
    return {entry["n"]: entry.get("v", entry.get("sv")) for entry in message["e"]}


def messages(frame) -> list[dict[str, str]]:
    return [entries_of(row.senml) for row in frame.collect()]


@pytest.mark.parametrize("source", SOURCES)
def test_events_carry_the_schema(source, ticks):
    schema = SCHEMAS[SOURCES[source]]
    rows = build(source, ticks(40), gap_share=0, outlier_share=0).collect()
    assert [row._seq for row in rows] == list(range(40))
    for row in rows:
        assert row.senml.startswith(f"{row._time},")
        entries = {entry["n"]: entry for entry in json.loads(row.senml.partition(",")[2])["e"]}
        assert set(entries) == {schema.id_field, *schema.meta_fields, *schema.fields}
        for name, entry in entries.items():
            assert entry["u"] == schema.units[name]
            assert set(entry) == {"u", "n", "sv" if name in schema.strings else "v"}
            if name in RANGES:
                low, high = RANGES[name]
                assert low - 0.01 <= float(entry["v"]) <= high + 0.01


@pytest.mark.parametrize("source", [  # the others are made of the same expressions
    source if source == "urban_sensing" else pytest.param(source, marks=pytest.mark.long)
    for source in SOURCES])
def test_an_event_depends_on_seed_number_and_time_alone(source, ticks):
    whole = build(source, ticks(30)).collect()
    parts = build(source, ticks(11)).collect() + build(source, ticks(19, start=11)).collect()
    assert whole == parts
    other = build(source, ticks(30), seed=2).collect()
    assert sum(ours.senml == theirs.senml for ours, theirs in zip(whole, other, strict=True)) < 10


def test_sensors_report_in_turn(ticks):
    names = Counter(message["source"] for message in messages(build("urban_sensing", ticks(60), sensors=20)))
    assert names == {f"urban-{number:04d}": 3 for number in range(20)}


@pytest.mark.parametrize("source", [
    source if source in ("urban_sensing", "taxi_trips") else pytest.param(source, marks=pytest.mark.long)
    for source in SOURCES])
def test_gaps_and_outliers_come_as_often_as_asked_for(source, ticks):
    schema = SCHEMAS[SOURCES[source]]
    count = min(3_000, 15_000 // len(schema.fields))  # what a share is taken of are readings
    values = messages(build(source, ticks(count), gap_share=0.1, outlier_share=0.05))
    present = outside = 0
    for message in values:
        for name in schema.fields:
            if name in message:
                present += 1
                low, high = RANGES[name]
                outside += not low - 0.01 <= float(message[name]) <= high + 0.01
    expected = count * len(schema.fields)
    assert 1 - present / expected == pytest.approx(0.1, abs=0.02)
    assert outside / present == pytest.approx(0.05, abs=0.015)


@pytest.mark.parametrize("source,peaks_h", [
    ("urban_sensing", {"temperature": 15, "light": 13}), ("smart_meter", {"energyconsumed": 20})])
def test_readings_follow_the_day(source, peaks_h, ticks):
    """Two days, a reading a minute: the hours around the peak lie well above those opposite to it."""
    day_ms = 86_400_000
    frame = build(source, ticks(2 * 1440, rate_per_s=1 / 60), sensors=10, gap_share=0, outlier_share=0)
    rows = [(int((row._time % day_ms) / 3_600_000), entries_of(row.senml)) for row in frame.collect()]
    for name, peak_h in peaks_h.items():
        by_hour = defaultdict(list)
        for hour, entries in rows:
            by_hour[hour].append(float(entries[name]))
        means = {hour: fmean(values) for hour, values in by_hour.items()}
        phase = sum(value * complex(math.cos(math.tau * hour / 24), math.sin(math.tau * hour / 24))
                    for hour, value in means.items())
        found_h = math.atan2(phase.imag, phase.real) / math.tau * 24 % 24
        assert len(means) == 24
        assert abs((found_h - peak_h + 12) % 24 - 12) < 1.5
        assert means[peak_h] > means[(peak_h + 12) % 24] + 1


def test_a_shorter_day_shows_the_rhythm_sooner(ticks):
    frame = build("urban_sensing", ticks(600), sensors=1, day_s=60, gap_share=0, outlier_share=0)
    values = [(row._time % 60_000, float(entries_of(row.senml)["temperature"])) for row in frame.collect()]
    warm = fmean(value for at, value in values if 30_000 <= at < 45_000)  # around 15 h of 24
    cold = fmean(value for at, value in values if at < 15_000)
    assert warm > cold + 5


def test_a_taxi_trip_adds_up(ticks):
    trips = messages(build("taxi_trips", ticks(300), gap_share=0, outlier_share=0))
    parts = ("fare_amount", "surcharge", "mta_tax", "tip_amount", "tolls_amount")
    for trip in trips:
        assert float(trip["total_amount"]) == pytest.approx(sum(float(trip[part]) for part in parts), abs=0.011)
        assert trip["payment_type"] in ("CSH", "CRD")
        assert trip["payment_type"] == "CRD" or float(trip["tip_amount"]) == 0
    far = sorted(trips, key=lambda trip: float(trip["trip_distance"]))
    assert fmean(float(trip["fare_amount"]) for trip in far[200:]) > 2 * fmean(
        float(trip["fare_amount"]) for trip in far[:100])


def test_a_taxi_trip_ends_at_its_event_time_in_utc(ticks, spark):
    from datetime import UTC, datetime

    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
    try:
        [trip] = messages(build("taxi_trips", ticks(1), gap_share=0, outlier_share=0))
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    pickup = datetime.fromisoformat(trip["pickup_datetime"]).replace(tzinfo=UTC)
    assert pickup.timestamp() + float(trip["trip_time_in_secs"]) == START_MS // 1000
