"""The event schemas of RIoTBench (city, taxi, grid, health), by the names that the library gives them.

A field is an id, a piece of metadata that travels along, or an observation that tasks work on. RIoTBench's division
into metadata and observations is kept, except that a wearable's gyroscopes and magnetometers count as metadata there.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EventSchema:
    """Names and SenML units of one kind of event; ``strings`` are the fields that SenML writes as ``sv``."""

    name: str
    id_field: str
    meta_fields: tuple[str, ...]
    fields: tuple[str, ...]
    units: dict[str, str]
    strings: frozenset[str]


def _schema(name: str, id_field: str, meta: str, fields: str, units: dict[str, str], strings: str = "") -> EventSchema:
    return EventSchema(
        name=name, id_field=id_field, meta_fields=tuple(meta.split()), fields=tuple(fields.split()), units=units,
        strings=frozenset([id_field, *strings.split()]),
    )


URBAN = _schema(
    "urban", "source", "longitude latitude", "temperature humidity light dust airquality_raw",
    {"source": "string", "longitude": "lon", "latitude": "lat", "temperature": "far", "humidity": "per",
     "light": "per", "dust": "per", "airquality_raw": "per"},
)
TAXI = _schema(
    "taxi", "taxi_identifier",
    "hack_license pickup_datetime pickup_longitude pickup_latitude dropoff_longitude dropoff_latitude payment_type",
    "trip_time_in_secs trip_distance fare_amount surcharge mta_tax tip_amount tolls_amount total_amount",
    {"taxi_identifier": "string", "hack_license": "string", "pickup_datetime": "time", "trip_time_in_secs": "second",
     "trip_distance": "meter", "pickup_longitude": "lon", "pickup_latitude": "lat", "dropoff_longitude": "lon",
     "dropoff_latitude": "lat", "payment_type": "string", "fare_amount": "dollar", "surcharge": "percentage",
     "mta_tax": "percentage", "tip_amount": "dollar", "tolls_amount": "dollar", "total_amount": "dollar"},
    "hack_license pickup_datetime pickup_longitude pickup_latitude dropoff_longitude dropoff_latitude payment_type",
)
METER = _schema("meter", "meterid", "", "energyconsumed", {"meterid": "string", "energyconsumed": "kwh"})


def _axes(*sensors: str) -> str:
    return " ".join(f"{sensor}_{axis}" for sensor in sensors for axis in "xyz")


def _wearable() -> EventSchema:
    meta = f"{_axes('gyro_ankle', 'magnetometer_ankle', 'gyro_arm', 'magnetometer_arm')} label"
    fields = f"{_axes('acc_chest')} ecg_lead_1 ecg_lead_2 {_axes('acc_ankle', 'acc_arm')}"
    kinds = {"acc": "m/s2", "ecg": "mV", "gyro": "deg/s", "magnetometer": "tesla", "label": "number"}
    units = {name: kinds[name.split("_")[0]] for name in f"{meta} {fields}".split()}
    return _schema("wearable", "subjectId", meta, fields, {"subjectId": "string", **units})


WEARABLE = _wearable()
SCHEMAS: dict[str, EventSchema] = {schema.name: schema for schema in (URBAN, TAXI, METER, WEARABLE)}
