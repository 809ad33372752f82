"""Sources that generate events: seeded, with a daily rhythm, noise, gaps and outliers.

An event is a pure function of the config, its sequence number and its time. A reading is a mean, an offset of the
sensor's own, two waves (one of them daily) and noise, held within the physical range; an outlier leaves that range,
a gap leaves the reading out of the message. Everything is a Spark expression: no Python process takes part.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import astuple, dataclass, fields
from typing import TYPE_CHECKING, Any

from scheduler.model.columns import Columns
from scheduler.model.task_types import Parameter, TaskType

from . import event_schemas
from .chance import normal, rounded, uniform
from .config import settings

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_HOUR = 1 / 24


def _parameters(sensors: int, sensors_doc: str) -> tuple[Parameter, ...]:
    return (
        Parameter("seed", "integer", "The seed of the generator: the same seed gives the same events.", default=1,
                  minimum=0, maximum=2**31 - 1, near="never"),
        Parameter("sensors", "integer", sensors_doc, default=sensors, minimum=1, maximum=1_000_000),
        Parameter("gap_share", "number", "Share of readings that are missing.", default=0.02, minimum=0, maximum=0.9,
                  unit="1"),
        Parameter("outlier_share", "number", "Share of readings that are far out of their range.", default=0.01,
                  minimum=0, maximum=0.5, unit="1"),
        Parameter("day_s", "number", "Seconds that the daily rhythm takes; less than a day shows it sooner.",
                  default=86_400, minimum=10, maximum=86_400, unit="s"),
    )


def source_type(name: str, doc: str, *, sensors: int, sensors_doc: str, cost_us: float, build: str = "") -> TaskType:
    """The declaration of a generator; all generators share their parameters.

    Parameters
    ----------
    cost_us : float
        A first guess of CPU microseconds for each event.
    build : str
        The builder; by default this module's function of that name.
    """
    return TaskType(
        name=name, kind="source", family="source", doc=doc, build=build or f"workers.library.generators:{name}",
        parameters=_parameters(sensors, sensors_doc), cost_us=cost_us, effects=(), opens=True,
    )


URBAN_SENSING = source_type(
    "urban_sensing", "Generates a city's sensor stations (temperature, humidity, light, dust, air quality) as SenML.",
    sensors=100, sensors_doc="How many stations report, in turn.", cost_us=12,
)
SMART_METER = source_type(
    "smart_meter", "Generates the consumption of households' electricity meters, in kWh, as SenML.",
    sensors=200, sensors_doc="How many meters report, in turn.", cost_us=5,
)
WEARABLE = source_type(
    "wearable", "Generates the motion and heart sensors that people wear (accelerometers, ECG, gyroscopes) as SenML.",
    sensors=10, sensors_doc="How many people report, in turn.", cost_us=34,
)
TASK_TYPES = (URBAN_SENSING, SMART_METER, WEARABLE)


@dataclass(frozen=True, slots=True)
class ObservationModel:
    """A model of one observation: its mean, waves, noise and range. A wave's period counts in days, unless its name
    says ms."""

    name: str
    mean: float
    spread: float  # standard deviation between sensors
    daily: float  # amplitude of the daily wave
    peak: float  # when it peaks, as a fraction of the day
    noise: float
    low: float
    high: float
    decimals: int
    wave: float = 0.0  # amplitude of the second wave
    wave_days: float = 0.5
    wave_ms: float = 0.0


URBAN_READINGS = (
    ObservationModel("temperature", 18, 6, 7, 15 * _HOUR, 0.4, -12.5, 43.1, 1),
    ObservationModel("humidity", 52, 8, -14, 15 * _HOUR, 1.5, 10.7, 95.2, 1),
    ObservationModel("light", 300, 100, 2600, 13 * _HOUR, 40, 0, 9800, 0),
    ObservationModel("dust", 1400, 350, 500, 8 * _HOUR, 120, 186.61, 5188.21, 2),
    ObservationModel("airquality_raw", 32, 6, 8, 18 * _HOUR, 2, 17, 363, 0),
)
METER_READINGS = (ObservationModel("energyconsumed", 9, 3, 4, 20 * _HOUR, 0.8, 1.828, 36.658, 3, wave=2.5),)


def _wearable_readings() -> tuple[ObservationModel, ...]:
    shapes = {  # mean, daily, noise, range, wave's amplitude, its period in ms
        "acc": (-3.0, 1.2, 0.6, 20.0, 2.4, 1_100), "ecg": (0.0, 0.2, 0.15, 8.0, 0.9, 850),
        "gyro": (0.0, 0.1, 0.08, 3.0, 0.4, 1_100), "magnetometer": (0.2, 0.3, 0.4, 60.0, 1.5, 2_200),
    }
    readings = []
    for name in (*event_schemas.WEARABLE.fields, *event_schemas.WEARABLE.meta_fields):
        if name == "label":
            continue
        mean, daily, noise, bound, wave, wave_ms = shapes[name.split("_")[0]]
        readings.append(ObservationModel(name, mean, abs(mean) / 4, daily, 17 * _HOUR, noise, -bound, bound, 5,
                                wave=wave, wave_ms=wave_ms))
    return tuple(readings)


WEARABLE_READINGS = _wearable_readings()


def urban_sensing(ticks: DataFrame, config: Mapping[str, Any]) -> DataFrame:
    """Stations report in turn; each has its place."""
    values = settings(URBAN_SENSING, config)
    sensor = sensor_number(values)
    longitude = rounded(uniform(values["seed"], "longitude", sensor) * 360 - 180, 6)
    latitude = rounded(uniform(values["seed"], "latitude", sensor) * 130 - 55, 6)
    first = [
        text_entry("source", "string", sensor_name("urban", sensor)),
        number_entry("longitude", "lon", longitude), number_entry("latitude", "lat", latitude),
    ]
    return message(ticks, first, readings_entries(URBAN_READINGS, event_schemas.URBAN.units, values))


def smart_meter(ticks: DataFrame, config: Mapping[str, Any]) -> DataFrame:
    """Meters report in turn; consumption peaks in the morning and in the evening."""
    values = settings(SMART_METER, config)
    first = [text_entry("meterid", "string", sensor_name("meter", sensor_number(values)))]
    return message(ticks, first, readings_entries(METER_READINGS, event_schemas.METER.units, values))


def wearable(ticks: DataFrame, config: Mapping[str, Any]) -> DataFrame:
    """People report in turn; the second wave is the gait, or the heart."""
    from pyspark.sql import functions as F

    values = settings(WEARABLE, config)
    activity = F.floor(uniform(values["seed"], "label", F.col("_seq")) * 13)
    first = [
        text_entry("subjectId", "string", sensor_name("subject", sensor_number(values))),
        number_entry("label", "number", activity),
    ]
    return message(ticks, first, readings_entries(WEARABLE_READINGS, event_schemas.WEARABLE.units, values))


def sensor_number(values: Mapping[str, Any]) -> Column:
    """The sensor that reports: each in its turn, so that every one has a steady period."""
    from pyspark.sql import functions as F

    return F.pmod(F.col("_seq"), F.lit(values["sensors"]))


def sensor_name(prefix: str, number: Column) -> Column:
    """``prefix-0000`` and so on, as the Bloom filter's members by number are named."""
    from pyspark.sql import functions as F

    text = number.cast("string")
    return F.concat(F.lit(prefix + "-"), F.lpad(text, F.greatest(F.lit(4), F.length(text)), F.lit("0")))


def text_entry(name: str, unit: str, value: Column) -> Column:
    """A SenML entry whose value is a string."""
    from pyspark.sql import functions as F

    return F.concat(F.lit(f'{{"u":"{unit}","n":"{name}","sv":"'), value, F.lit('"}'))


def number_entry(name: str, unit: str, value: Column) -> Column:
    """A SenML entry whose value is a number, written as a string as RIoTBench does."""
    from pyspark.sql import functions as F

    return reading_entry(F.lit(name), F.lit(unit), value)


def reading_entry(name: Column, unit: Column, value: Column) -> Column:
    """The same, of columns; null where the value is."""
    from pyspark.sql import functions as F

    return F.concat(F.lit('{"v":"'), value.cast("string"), F.lit('","u":"'), unit, F.lit('","n":"'), name, F.lit('"}'))


def readings_entries(
    readings: tuple[ObservationModel, ...], units: Mapping[str, str], values: Mapping[str, Any]
) -> Column:
    """An array of SenML entries, null where a reading is missing.

    One expression over a table of constants rather than one for each reading: Spark's generated code stays small
    enough for the JVM to compile, however many readings there are.
    """
    from pyspark.sql import functions as F

    names = [field.name for field in fields(ObservationModel)]
    table = F.array(*[
        F.struct(*[
            F.lit(value if isinstance(value, str) else float(value)).alias(name)
            for name, value in zip(names, astuple(reading), strict=True)
        ], F.lit(units[reading.name]).alias("unit"), F.lit(_period_ms(reading, values["day_s"])).alias("period_ms"))
        for reading in readings
    ])
    day_ms = values["day_s"] * 1000.0
    return F.transform(table, lambda reading: _entry(reading, day_ms, values))


def _period_ms(reading: ObservationModel, day_s: float) -> float:
    return float(reading.wave_ms or reading.wave_days * day_s * 1000.0)


def _entry(reading: Column, day_ms: float, values: Mapping[str, Any]) -> Column:
    from pyspark.sql import functions as F

    seed, seq, sensor, name = values["seed"], F.col("_seq"), sensor_number(values), reading["name"]
    daily = F.cos(F.lit(2 * math.pi) * (F.pmod(F.col("_time"), F.lit(day_ms)) / day_ms - reading["peak"]))
    own_phase = uniform(seed, "phase", sensor, name)
    wave = F.cos(F.lit(2 * math.pi) * (F.pmod(F.col("_time"), reading["period_ms"]) / reading["period_ms"] + own_phase))
    usual = (
        reading["mean"] + reading["spread"] * normal(seed, "sensor", sensor, name) + reading["daily"] * daily
        + reading["wave"] * wave + reading["noise"] * normal(seed, "noise", seq, name)
    )
    clamped = F.greatest(reading["low"], F.least(reading["high"], usual))
    value = with_outliers(clamped, reading["low"], reading["high"], name, values)
    entry = reading_entry(name, reading["unit"], rounded(value, reading["decimals"]))
    return F.when(uniform(seed, "gap", seq, name) >= values["gap_share"], entry)


def with_outliers(value: Column, low: Column, high: Column, name: Column, values: Mapping[str, Any]) -> Column:
    """The value, or sometimes one that lies half a range to one and a half ranges outside of its range.

    Parameters
    ----------
    name : Column
        The observation's name, so that observations of one message draw apart.
    """
    from pyspark.sql import functions as F

    seed, seq = values["seed"], F.col("_seq")
    beyond = (high - low) * (uniform(seed, "far", seq, name) + 0.5)
    outlier = F.when(uniform(seed, "side", seq, name) < 0.5, low - beyond).otherwise(high + beyond)
    return F.when(uniform(seed, "outlier", seq, name) < values["outlier_share"], outlier).otherwise(value)


def message(ticks: DataFrame, first: list[Column], readings: Column) -> DataFrame:
    """The events: a SenML message in one column, with its time in front as RIoTBench writes it."""
    from pyspark.sql import functions as F

    time = F.col("_time").cast("string")
    senml = F.concat(
        time, F.lit(',{"e":['), F.concat_ws(",", *first, readings), F.lit('],"bt":'), time, F.lit("}"),
    )
    return ticks.select("_seq", "_time", "_born", senml.alias("senml"))


def message_columns(inputs: Columns, values: Mapping[str, Any]) -> Columns:
    """A generator's: the SenML message."""
    return Columns.stream({"senml": "string"})


urban_sensing_columns = smart_meter_columns = wearable_columns = message_columns
