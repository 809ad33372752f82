"""Sources that generate events: seeded, with a daily rhythm, noise, gaps and outliers."""

from __future__ import annotations

from scheduler.model.task_types import Parameter, TaskType

_SENSORS = "How many distinct ids report, in turn."


def _parameters(sensors: int, sensors_doc: str = _SENSORS) -> tuple[Parameter, ...]:
    return (
        Parameter("seed", "integer", "Which stream of chance: the same seed gives the same events.", default=1,
                  minimum=0, maximum=2**31 - 1),
        Parameter("sensors", "integer", sensors_doc, default=sensors, minimum=1, maximum=1_000_000),
        Parameter("gap_share", "number", "Share of readings that are missing.", default=0.02, minimum=0, maximum=0.9),
        Parameter("outlier_share", "number", "Share of readings that are far out of their range.", default=0.01,
                  minimum=0, maximum=0.5),
        Parameter("day_s", "number", "Seconds that the daily rhythm takes; less than a day shows it sooner.",
                  default=86_400, minimum=10, maximum=86_400),
    )


def _source(name: str, doc: str, parameters: tuple[Parameter, ...], cost_us: float) -> TaskType:
    return TaskType(
        name=name, kind="source", family="source", doc=doc, build=f"workers.library.generators:{name}",
        parameters=parameters, cost_us=cost_us,
    )


URBAN_SENSING = _source(
    "urban_sensing", "Generates a city's sensor stations (temperature, humidity, light, dust, air quality) as SenML.",
    _parameters(100, "How many stations report, in turn."), cost_us=25,
)
TAXI_TRIPS = _source(
    "taxi_trips", "Generates the end-of-trip records of a city's taxis (time, distance, fare, tips, tolls) as SenML.",
    _parameters(500, "How many taxis report, in turn."), cost_us=35,
)
SMART_METER = _source(
    "smart_meter", "Generates the consumption of households' electricity meters, in kWh, as SenML.",
    _parameters(200, "How many meters report, in turn."), cost_us=10,
)
WEARABLE = _source(
    "wearable", "Generates the motion and heart sensors that people wear (accelerometers, ECG, gyroscopes) as SenML.",
    _parameters(10, "How many people report, in turn."), cost_us=80,
)

TASK_TYPES = (URBAN_SENSING, TAXI_TRIPS, SMART_METER, WEARABLE)
