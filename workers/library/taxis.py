"""The taxi source: end-of-trip records whose parts agree (a longer trip takes longer and costs more)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .chance import normal, rounded, uniform
from .config import settings
from .event_schemas import TAXI
from .generators import (
    message,
    message_columns,
    reading_entry,
    sensor_name,
    sensor_number,
    source_type,
    text_entry,
    with_outliers,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

TAXI_TRIPS = source_type(
    "taxi_trips", "Generates the end-of-trip records of a city's taxis (time, distance, fare, tips, tolls) as SenML.",
    sensors=500, sensors_doc="How many taxis report, in turn.", cost_us=30, build="workers.library.taxis:taxi_trips",
)
TASK_TYPES = (TAXI_TRIPS,)

USUAL_RANGES = {  # outside of these only outliers lie
    "trip_time_in_secs": (60.0, 7200.0), "trip_distance": (0.3, 30.0), "fare_amount": (2.5, 200.0),
    "surcharge": (0.0, 1.0), "mta_tax": (0.0, 0.5), "tip_amount": (0.0, 40.0), "tolls_amount": (0.0, 18.0),
    "total_amount": (3.0, 260.0),
}


def taxi_trips(ticks: DataFrame, config: Mapping[str, Any]) -> DataFrame:
    """Taxis report in turn; at rush hours trips of the same length take longer."""
    from pyspark.sql import functions as F

    values = settings(TAXI_TRIPS, config)
    trips = _with_trip(ticks, values)
    sensor = sensor_number(values)
    pickup = F.expr(  # in UTC whatever the session's time zone
        "cast(timestamp_ntz'1970-01-01 00:00:00' + make_dt_interval(0, 0, 0, "
        "cast(_time div 1000 - trip_time_in_secs as bigint)) as string)")
    texts = {
        "taxi_identifier": sensor_name("taxi", sensor),
        "hack_license": F.upper(F.md5(F.concat(F.lit(f"{values['seed']}/"), sensor.cast("string")))),
        "pickup_datetime": pickup,
        **{name: F.col(name).cast("string") for name in TAXI.meta_fields if name.endswith("tude")},
        "payment_type": F.when(F.col("card"), "CRD").otherwise("CSH"),
    }
    first = [text_entry(name, TAXI.units[name], value) for name, value in texts.items()]
    return message(trips, first, _readings(values))


taxi_trips_columns = message_columns


def _with_trip(ticks: DataFrame, values: Mapping[str, Any]) -> DataFrame:
    from pyspark.sql import functions as F

    seed, seq = values["seed"], F.col("_seq")
    day_ms = values["day_s"] * 1000.0
    hour = F.pmod(F.col("_time"), F.lit(day_ms)) / day_ms
    rush = (F.cos(F.lit(4 * math.pi) * (hour - 8.5 / 24)) + 1) / 2  # peaks at 8:30 and 20:30
    distance = F.least(F.lit(30.0), F.greatest(F.lit(0.3), F.exp(F.lit(1.05) + 0.85 * normal(seed, "distance", seq))))
    pace_s = F.lit(150.0) + 110 * rush + 25 * normal(seed, "pace", seq)  # seconds a mile
    coordinates = {
        name: rounded(F.lit(-73.98 if "longitude" in name else 40.75) + 0.03 * normal(seed, name, seq), 6)
        for name in TAXI.meta_fields if name.endswith("tude")
    }
    evening = (hour > 20 / 24) | (hour < 6 / 24)
    longer = ticks.withColumn("trip_distance", rounded(distance, 2)).withColumns({
        "trip_time_in_secs": rounded(F.greatest(F.lit(60.0), F.col("trip_distance") * pace_s), 0),
        "card": uniform(seed, "card", seq) < 0.5, "surcharge": F.when(evening, 0.5).otherwise(0.0),
        "mta_tax": F.lit(0.5), **coordinates,
    })
    tip = F.when(F.col("card"), F.col("fare_amount") * (F.lit(0.1) + 0.15 * uniform(seed, "tip", seq))).otherwise(0.0)
    toll = F.when((F.col("trip_distance") > 8) & (uniform(seed, "toll", seq) < 0.4), 4.8).otherwise(0.0)
    paid = longer.withColumn(
        "fare_amount", rounded(2.5 + 2.5 * F.col("trip_distance") + 0.003 * F.col("trip_time_in_secs"), 1),
    ).withColumns({"tip_amount": rounded(tip, 2), "tolls_amount": toll})
    parts = ("fare_amount", "surcharge", "mta_tax", "tip_amount", "tolls_amount")
    return paid.withColumn("total_amount", rounded(sum((F.col(part) for part in parts[1:]), F.col(parts[0])), 2))


def _readings(values: Mapping[str, Any]) -> Column:
    """One expression over a table of the readings: written out for each, it would take long to plan every batch."""
    from pyspark.sql import functions as F

    table = F.array(*[
        F.struct(F.lit(name).alias("name"), F.lit(TAXI.units[name]).alias("unit"), F.lit(low).alias("low"),
                 F.lit(high).alias("high"), F.col(name).cast("double").alias("value"))
        for name, (low, high) in USUAL_RANGES.items()
    ])

    def entry(reading: Column) -> Column:
        value = rounded(with_outliers(reading["value"], reading["low"], reading["high"], reading["name"], values), 2)
        present = uniform(values["seed"], "gap", F.col("_seq"), reading["name"]) >= values["gap_share"]
        return F.when(present, reading_entry(reading["name"], reading["unit"], value))

    return F.transform(table, entry)
