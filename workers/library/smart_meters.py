"""The source of demand response: households' electricity meters, whose habits differ, change, and stop at once.

A household has the daily and weekly shape of its kind, follows the weather and holidays, and drifts from day to day.
For a quarter of a day to two days it may be away (a level that hardly moves) or restless (another level, much noise):
then the variance of its readings changes from one reading to the next. A reading is a pure function of the config and
its sequence number; its time is counted from `EPOCH_MS`, so that a stream of any rate shows whole weeks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import astuple, dataclass, fields
from typing import TYPE_CHECKING, Any

from scheduler.model.columns import Columns
from scheduler.model.task_types import Parameter, TaskType

from .chance import normal, rounded, uniform
from .config import settings
from .generators import sensor_name

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

EPOCH_MS = 1_704_067_200_000  # Monday, 1 January 2024, 00:00 UTC
DAY_MS = 86_400_000
_YEAR_DAYS = 365.25
_WEATHER_DAYS = 2.0  # between two draws of the weather
_DRIFT_DAYS = 0.25  # and of how far a household is from its habits
_AWAY_NOISE = 0.004

SMART_METERS = TaskType(
    name="smart_meters", kind="source", family="source",
    doc="Generates households' electricity meters for demand response: habits by kind, weather, holidays, and sudden "
        "changes of variance.",
    build="workers.library.smart_meters:smart_meters", effects=(), opens=True,
    parameters=(
        Parameter("seed", "integer", "The seed of the generator: the same seed gives the same events.", default=1,
                  minimum=0, maximum=2**31 - 1, near="never"),
        Parameter("meters", "integer", "How many meters report, in turn.", default=100, minimum=1, maximum=1_000_000),
        Parameter("interval", "integer", "The time between two readings of a meter, in its own time.", default=300,
                  minimum=60, maximum=3600, unit="s"),
        Parameter("unusual", "number", "Share of the time in which a household is away or restless.", default=0.25,
                  minimum=0, maximum=1, unit="1"),
        Parameter("holiday_share", "number", "Share of days that are holidays.", default=0.03, minimum=0, maximum=1,
                  unit="1"),
        Parameter("gap_share", "number", "Share of readings that are missing.", default=0.005, minimum=0, maximum=0.9,
                  unit="1"),
    ),
    cost_us=20,
)
TASK_TYPES = (SMART_METERS,)


@dataclass(frozen=True, slots=True)
class HouseholdKind:
    """The habits of a kind of household; powers are in kW, hours in hours of the day, shares of what is usual."""

    kind: str
    base: float
    morning: float
    morning_h: float
    evening: float
    evening_h: float
    midday: float  # on working days
    free_midday: float  # at weekends and on holidays
    night: float
    heating: float  # for each degree below 15 °C
    cooling: float  # for each degree above 22 °C
    drift: float
    noise: float


KINDS_OF_HOUSEHOLDS = (
    HouseholdKind("workers", 0.18, 0.9, 7.0, 1.6, 19.5, 0.05, 0.6, 0.0, 0.015, 0.05, 0.12, 0.06),
    HouseholdKind("family", 0.35, 1.2, 7.5, 2.2, 18.5, 0.4, 1.1, 0.1, 0.03, 0.1, 0.18, 0.12),
    HouseholdKind("retired", 0.25, 0.7, 9.0, 0.9, 18.0, 0.6, 0.6, 0.05, 0.04, 0.06, 0.06, 0.05),
    HouseholdKind("charging", 0.3, 0.5, 7.0, 1.0, 20.0, 0.1, 0.5, 3.2, 0.02, 0.05, 0.3, 0.04),
    HouseholdKind("shop", 0.5, 0.3, 8.0, 0.4, 18.0, 2.4, 0.2, 0.1, 0.02, 0.15, 0.05, 0.03),
)


def smart_meters(ticks: DataFrame, config: Mapping[str, Any]) -> DataFrame:
    """``meter``, ``kind``, ``at`` (ms, when the reading's interval begins), ``kwh``, ``temperature``, ``holiday``."""
    from pyspark.sql import functions as F

    values = settings(SMART_METERS, config)
    seed, interval_ms = values["seed"], values["interval"] * 1000
    number = F.floor(F.col("_seq") / F.lit(values["meters"]))
    meter = F.pmod(F.col("_seq"), F.lit(values["meters"]))
    at = F.lit(EPOCH_MS) + number * F.lit(interval_ms)
    kinds = _table()
    placed = ticks.select(
        "_seq", "_time", "_born", meter.alias("_meter"), at.alias("at"),
        ((at - F.lit(EPOCH_MS)) / F.lit(float(DAY_MS))).alias("_days"),
        F.get(kinds, F.floor(uniform(seed, "kind", meter) * len(KINDS_OF_HOUSEHOLDS)).cast("int")).alias("_kind"))
    dated = placed.withColumns({
        "holiday": uniform(seed, "holiday", F.floor("_days")) < values["holiday_share"],
        "temperature": _temperature(seed)})
    power = _power(values)
    gap = uniform(seed, "gap", F.col("_seq")) < values["gap_share"]
    return dated.select(
        "_seq", "_time", "_born", sensor_name("meter", F.col("_meter")).alias("meter"),
        F.col("_kind.kind").alias("kind"), "at",
        F.when(~gap, rounded(power * (interval_ms / 3_600_000), 5)).alias("kwh"),
        rounded(F.col("temperature"), 1).alias("temperature"), "holiday")


def smart_meters_columns(inputs: Columns, values: Mapping[str, Any]) -> Columns:
    """A reading's."""
    return Columns.stream({"meter": "string", "kind": "string", "at": "bigint", "kwh": "double",
                           "temperature": "double", "holiday": "boolean"})


def _table() -> Column:
    from pyspark.sql import functions as F

    names = [field.name for field in fields(HouseholdKind)]
    return F.array(*[
        F.struct(*[F.lit(value).alias(name) for name, value in zip(names, astuple(kind), strict=True)])
        for kind in KINDS_OF_HOUSEHOLDS])


def _smooth(point: Column, *parts: Column | int | str) -> Column:
    """Draws of the normal distribution at whole places, and between two of them what lies on the line."""
    from pyspark.sql import functions as F

    before = F.floor(point)
    share = point - before
    return normal(*parts, before) * (F.lit(1.0) - share) + normal(*parts, before + 1) * share


def _temperature(seed: int) -> Column:
    """Degrees Celsius, the same for all meters: the year, the day (warmest at 15 h), and the weather."""
    from pyspark.sql import functions as F

    days, turn = F.col("_days"), F.lit(2 * math.pi)
    year = F.cos(turn * (days - 200) / _YEAR_DAYS)
    day = F.cos(turn * (days - F.floor(days) - 15 / 24))
    return 14 + 9 * year + 5 * day + 4 * _smooth(days / _WEATHER_DAYS, seed, "weather")


def _bump(hour: Column, middle: Column | float, width_h: float) -> Column:
    """1 in the middle, and less the farther from there, around the clock."""
    from pyspark.sql import functions as F

    away = F.abs(F.pmod(hour - middle + F.lit(12.0), F.lit(24.0)) - 12.0) / width_h
    return F.exp(away * away * F.lit(-0.5))


def _power(values: Mapping[str, Any]) -> Column:
    """A meter's power, kW."""
    from pyspark.sql import functions as F

    seed, meter, days, kind = values["seed"], F.col("_meter"), F.col("_days"), F.col("_kind")
    hour = (days - F.floor(days)) * 24 - 0.6 * normal(seed, "phase", meter)
    is_free = (F.pmod(F.floor(days), F.lit(7)) >= 5) | F.col("holiday")
    habit = (
        kind["base"] + F.when(is_free, 0.6 * kind["morning"]).otherwise(kind["morning"])
        * _bump(hour, kind["morning_h"] + F.when(is_free, 2.0).otherwise(0.0), 1.0)
        + kind["evening"] * _bump(hour, kind["evening_h"], 1.8)
        + F.when(is_free, kind["free_midday"]).otherwise(kind["midday"]) * _bump(hour, 13.0, 2.6)
        + kind["night"] * _bump(hour, 2.0, 1.5)
        + kind["heating"] * F.greatest(F.lit(0.0), 15 - F.col("temperature"))
        + kind["cooling"] * F.greatest(F.lit(0.0), F.col("temperature") - 22))
    drifted = habit * F.exp(kind["drift"] * _smooth(days / _DRIFT_DAYS, seed, "drift", meter))
    block_days = F.lit(0.25) * F.pow(F.lit(2.0), F.floor(4 * uniform(seed, "steadiness", meter)))
    block = F.floor(days / block_days + uniform(seed, "offset", meter))
    mood, noise = uniform(seed, "mood", meter, block), normal(seed, "noise", F.col("_seq"))
    share = values["unusual"]
    restless = F.exp(0.5 * normal(seed, "level", meter, block) + 0.4 * noise)
    power = (
        F.when(mood < share / 2, kind["base"] * 0.7 * (F.lit(1.0) + _AWAY_NOISE * noise))
        .when(mood < share, drifted * restless)
        .otherwise(drifted * F.exp(kind["noise"] * noise)))
    size = F.exp(0.35 * normal(seed, "size", meter))
    return F.greatest(F.lit(0.01), size * power)
