"""Declarations that all live sources share: how messages are written, their columns, their time, certificates."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any
from zoneinfo import available_timezones

from scheduler.model.columns import Columns
from scheduler.model.task_types import Parameter

from .columns import COLUMN_TYPES, typed_columns
from .config import InvalidConfig

FORMATS = ("json", "ndjson", "csv", "arrow", "text", "bytes")
AVRO = "avro"  # framed for a schema registry
# What a source knows of a message beside its content, by the column that holds it where `include` asks for it.
INCLUDED: Mapping[str, str] = {
    "kafka_key": "string", "kafka_headers": "string", "kafka_time": "timestamp", "kafka_topic": "string",
    "kafka_partition": "bigint", "kafka_offset": "bigint", "mqtt_topic": "string", "mqtt_retained": "boolean",
    "file_name": "string",
    "file_time": "timestamp"}
COLUMNS = Parameter(
    "columns", "list", "The fields of an event, each “name” or “name:type” (types: " + ", ".join(COLUMN_TYPES) + "); "
    "of csv in their order. Without any, an event is one column “value”.", default=(), items="string")
TIME_FIELD = Parameter(
    "time_field", "string", "The column with the event's time: a timestamp, text in ISO 8601, or a number. Without it, "
    "the time is that of arrival.")
TIME_UNIT = Parameter(
    "time_unit", "string", "What a number counts since 1970, in time_field and in columns of type timestamp.",
    default="ms", choices=("s", "ms", "us", "ns"))
TIME_ZONE = Parameter(
    "time_zone", "string", "The zone of times that name none, such as Europe/Berlin; UTC by default. Of an hour that "
    "comes twice when summer time ends, the first is meant; a time that is skipped when summer time begins is a dead "
    "letter.", added=True)
AHEAD = Parameter(
    "ahead", "number", "How far ahead of its arrival an event's time may be; one that is further is a dead letter.",
    default=300, minimum=0, maximum=315_576_000, unit="s", added=True)
KEEP_DEAD = Parameter(
    "keep_dead", "integer", "How many of the newest messages that could not be read are kept with their reasons.",
    default=1000, minimum=1, maximum=100_000)
EVENTS = (COLUMNS, TIME_FIELD, TIME_UNIT, TIME_ZONE, AHEAD, KEEP_DEAD)
CA = Parameter("ca", "string", "Certificates (PEM) of the authorities to trust, instead of the machine's.", secret=True)
KAFKA_ACCESS = (
    Parameter("security", "string", "The protocol of the connection to the servers.", default="plaintext",
              choices=("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")),
    Parameter("mechanism", "string", "The SASL mechanism.", default="PLAIN",
              choices=("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")),
    Parameter("username", "string", "The SASL user."),
    Parameter("password", "string", "The password of the SASL user.", secret=True),
)
CLIENT_CERTIFICATE = (
    Parameter("certificate", "string", "The client's certificate (PEM), with those between it and its authority.",
              secret=True),
    Parameter("private_key", "string", "The private key of that certificate (PEM), without a passphrase.", secret=True))


def written_as(*choices: str, default: str = "json") -> Parameter:
    """The parameter that says how messages are written."""
    return Parameter("format", "string", "How messages are written.", default=default, choices=choices)


def include(prefix: str) -> Parameter:
    """The parameter that names what else is wanted of a message, of one kind of source."""
    names = ", ".join(name for name in INCLUDED if name.startswith(prefix))
    return Parameter(
        "include", "list", f"What else of a message becomes a column of that name behind the others: {names}.",
        default=(), items="string", is_set=True)


def included(values: Mapping[str, Any]) -> dict[str, str]:
    """The columns beside an event's fields that a config asks for, with their types."""
    names = frozenset(values.get("include") or ())
    return {name: kind for name, kind in INCLUDED.items() if name in names}


def columns_of(inputs: Columns, values: Mapping[str, Any]) -> Columns:
    """The declared fields, or one column ``value``; and what else the config includes."""
    raw = "binary" if values.get("format") == "bytes" else "string"
    return Columns.stream({**(typed_columns(values["columns"]) or {"value": raw}), **included(values)})


def check_events(values: Mapping[str, Any], *, prefix: str = "") -> None:
    """Raise ``InvalidConfig`` where events cannot be read so; ``prefix`` is that of what the source may include."""
    columns = typed_columns(values["columns"])
    if columns and values["format"] in ("text", "bytes"):
        raise InvalidConfig(f"The format {values['format']} has no columns.", remedy="Leave columns out.")
    if not columns and values["format"] in ("csv", "arrow", "parquet", AVRO):
        raise InvalidConfig(f"The format {values['format']} needs columns.", remedy="Name them in their order.")
    for name in values.get("include") or ():
        includable = [column for column in INCLUDED if prefix and column.startswith(prefix)]
        if name not in includable:
            raise InvalidConfig(f"include names {name}, which this source does not know.",
                                remedy=f"Name some of {', '.join(includable)}.")
        if name in columns:
            raise InvalidConfig(f"{name} is both a field and included.", remedy="Leave it out of one of them.")
    columns = {**columns, **included(values)}
    time_field = values["time_field"]
    if time_field is not None and time_field not in columns:
        raise InvalidConfig(f"time_field names {time_field}, which is no column.",
                            remedy=f"Name one of {', '.join(columns) or 'the columns'}.")
    zone = values.get("time_zone")
    if zone is not None and zone not in _zones():
        raise InvalidConfig(f"time_zone names {zone}, which is no zone.",
                            remedy="Name one of the IANA database, such as Europe/Berlin.", parameter="time_zone")
    if time_field is not None and columns[time_field] in ("boolean", "binary"):
        raise InvalidConfig(f"{time_field} is {columns[time_field]}, which is no time.",
                            remedy="Declare it as timestamp, string or a number.")


@lru_cache(maxsize=1)
def _zones() -> frozenset[str]:
    return frozenset(available_timezones())


def check_start(start: str) -> None:
    """Raise ``InvalidConfig`` unless a start is newest, oldest or a time."""
    if start in ("newest", "oldest"):
        return
    try:
        datetime.fromisoformat(start)
    except ValueError:
        raise InvalidConfig(f"“{start}” is no start.",
                            remedy="Write newest, oldest, or a time such as 2026-05-01T00:00:00Z.") from None


def check_certificate(values: Mapping[str, Any], *, encrypted: bool, how: str) -> None:
    """Raise ``InvalidConfig`` where a client's certificate is half there, or the connection is not encrypted."""
    if bool(values["certificate"]) != bool(values["private_key"]):
        raise InvalidConfig("certificate and private_key belong together.", remedy="Name both, as secrets.")
    if values["certificate"] and not encrypted:
        raise InvalidConfig("A certificate needs an encrypted connection.", remedy=how)
