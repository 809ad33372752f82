"""Live sources: what comes over HTTP, MQTT, Kafka and from tables of PostgreSQL, while it comes.

The connector host of the slot's node reads them and writes their events to a channel (``workers.engine.connectors``);
the tasks here pass on what has arrived. Where a connector goes is decided by a document, so the operator names the
hosts (``WEIR_CONNECTOR_HOSTS``, ``WEIR_DATABASE_HOSTS``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from scheduler.model.columns import Columns
from scheduler.model.task_types import Parameter, TaskType

from .columns import COLUMN_TYPES, typed_columns
from .config import InvalidConfig, settings
from .reach import SERVER, require_allowed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FORMATS = ("json", "ndjson", "csv", "arrow", "text", "bytes")
COLUMNS = Parameter(
    "columns", "list", "The fields of an event, each “name” or “name:type” (types: " + ", ".join(COLUMN_TYPES) + "); "
    "of csv in their order. Without any, an event is one column “value”.", default=(), items="string")
TIME_FIELD = Parameter(
    "time_field", "string", "The column with the event's time: a timestamp, text in ISO 8601, or a number. Without it, "
    "the time is that of arrival.")
TIME_UNIT = Parameter(
    "time_unit", "string", "What a number in time_field counts since 1970.", default="ms",
    choices=("s", "ms", "us", "ns"))
KEEP_DEAD = Parameter(
    "keep_dead", "integer", "How many of the newest messages that could not be read are kept with their reasons.",
    default=1000, minimum=1, maximum=100_000)
_EVENTS = (COLUMNS, TIME_FIELD, TIME_UNIT, KEEP_DEAD)
_CA = Parameter("ca", "string", "Certificates (PEM) of the authorities to trust, instead of the machine's.",
                secret=True)


def _format(*choices: str) -> Parameter:
    return Parameter("format", "string", "How messages are written.", default="json", choices=choices)


HTTP_INGEST = TaskType(
    name="http_ingest", kind="source", family="source",
    doc="Events that are posted to the address /ingest/TEAM/NAME of the site, with the token as bearer: JSON (an "
        "object or a list), lines of JSON, or an Arrow stream. 429 when its readers are behind. What is "
        "posted again within a day under the same Idempotency-Key is taken once.",
    build="workers.library.live:http_ingest", effects=("network",), connector="",
    parameters=(
        Parameter("name", "string", "The end of the address.", required=True, pattern=r"[a-z0-9][a-z0-9_-]{0,62}"),
        Parameter("token", "string", "Who posts sends it as “Authorization: Bearer …”.", required=True, secret=True),
        _format("json", "ndjson", "csv", "arrow", "text", "bytes"), *_EVENTS,
    ),
    cost_us=5,
)
MQTT = TaskType(
    name="mqtt", kind="source", family="source",
    doc="Messages of MQTT topics (3.1.1 or 5). The other broker keeps a session, so that with QoS 1 or 2 nothing is "
        "lost while Weir is away. A message may come twice where an acknowledgement was lost: put a task behind it "
        "that leaves repetitions out where that matters.",
    build="workers.library.live:mqtt", effects=("network",), connector="workers.engine.connectors.mqtt:open_mqtt",
    parameters=(
        Parameter("server", "string", "host or host:port; the operator must allow it (WEIR_CONNECTOR_HOSTS).",
                  required=True, pattern=SERVER),
        Parameter("topics", "list", "Topics, with the wildcards + and #.", required=True, items="string", is_set=True),
        Parameter("qos", "integer", "Quality of service: 0 (may be lost), 1 or 2.", default=1, minimum=0, maximum=2),
        Parameter("version", "string", "Of the protocol.", default="5", choices=("3.1.1", "5")),
        Parameter("tls", "boolean", "Whether the connection is encrypted.", default=False),
        _CA,
        Parameter("username", "string", "Who reads."),
        Parameter("password", "string", "Of that user.", secret=True),
        _format(*FORMATS), *_EVENTS,
    ),
    cost_us=5,
)
KAFKA = TaskType(
    name="kafka", kind="source", family="source",
    doc="Messages of Kafka topics, all partitions, each exactly once: the offsets are kept with the events. Who joins "
        "one that runs gets what comes from then on.",
    build="workers.library.live:kafka", effects=("network",), connector="workers.engine.connectors.kafka:open_kafka",
    parameters=(
        Parameter("servers", "list", "Bootstrap servers, each host:port; the operator must allow them "
                  "(WEIR_CONNECTOR_HOSTS).", required=True, items="string", is_set=True),
        Parameter("topics", "list", "Topics.", required=True, items="string", is_set=True),
        Parameter("start", "string", "Where it begins where nothing was read yet: newest, oldest, or an ISO time.",
                  default="newest"),
        Parameter("security", "string", "How servers are spoken to.", default="plaintext",
                  choices=("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")),
        Parameter("mechanism", "string", "Of SASL.", default="PLAIN",
                  choices=("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")),
        Parameter("username", "string", "Of SASL."),
        Parameter("password", "string", "Of SASL.", secret=True),
        _CA, _format(*FORMATS), *_EVENTS,
    ),
    cost_us=5,
)
POSTGRESQL = TaskType(
    name="postgresql", kind="source", family="source",
    doc="New rows of a table of PostgreSQL, by a column whose values only rise (a serial number, say), each exactly "
        "once. Rows that are changed or deleted later are not told.",
    build="workers.library.live:postgresql", effects=("database",),
    connector="workers.engine.connectors.postgresql:open_postgresql",
    parameters=(
        Parameter("database", "string", "postgresql://user:password@host/name, as a secret; the operator must allow "
                  "the host (WEIR_DATABASE_HOSTS).", required=True, secret=True),
        Parameter("table", "string", "The table, with its schema where it needs one.", required=True,
                  pattern=r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)?"),
        Parameter("column", "string", "The column that grows; it needs an index.", required=True,
                  pattern=r"[A-Za-z_]\w*"),
        Parameter("every", "number", "Between two looks.", default=1, minimum=0.1, maximum=3600, unit="s"),
        Parameter("start", "string", "Where it begins when nothing was read yet.", default="newest",
                  choices=("newest", "oldest")),
        *_EVENTS,
    ),
    cost_us=5,
)
TASK_TYPES = (HTTP_INGEST, MQTT, KAFKA, POSTGRESQL)


def http_ingest(inputs: DataFrame, config: Mapping[str, Any]) -> DataFrame:
    """The events as they were posted."""
    return inputs


mqtt = kafka = postgresql = http_ingest


def http_ingest_columns(inputs: Columns, values: Mapping[str, Any]) -> Columns:
    """The declared fields, or one column ``value``."""
    raw = "binary" if values.get("format") == "bytes" else "string"
    return Columns.stream(typed_columns(values["columns"]) or {"value": raw})


mqtt_columns = kafka_columns = postgresql_columns = http_ingest_columns


def http_ingest_check(config: Mapping[str, Any]) -> None:
    """Raise ``InvalidConfig`` where events cannot be read so."""
    _check_events(settings(HTTP_INGEST, config))


def mqtt_check(config: Mapping[str, Any]) -> None:
    """Raise ``InvalidConfig`` where the host is not allowed, a topic is none, or events cannot be read so."""
    values = settings(MQTT, config)
    require_allowed(values["server"], usual_port=8883 if values["tls"] else 1883)
    if not values["topics"]:
        raise InvalidConfig("There is no topic.", remedy="Name one at least.")
    for topic in values["topics"]:
        if not re.fullmatch(r"([^+#/]*|\+)(/([^+#/]*|\+))*(/#)?|#", topic) or not topic or len(topic) > 1000:
            raise InvalidConfig(f"“{topic}” is no topic.", remedy="+ stands for one level, # for all at the end.")
    _check_password(values)
    _check_events(values)


def kafka_check(config: Mapping[str, Any]) -> None:
    """Raise ``InvalidConfig`` where a host is not allowed, a topic or the start is none, or columns do not fit."""
    values = settings(KAFKA, config)
    for server in values["servers"]:
        require_allowed(server, usual_port=9092)
    if not values["servers"] or not values["topics"]:
        raise InvalidConfig("It needs a server and a topic.", remedy="Name one of each at least.")
    for topic in values["topics"]:
        if not re.fullmatch(r"[A-Za-z0-9._-]{1,249}", topic):
            raise InvalidConfig(f"“{topic}” is no topic.", remedy="Name topics one by one, without wildcards.")
    if values["start"] not in ("newest", "oldest"):
        try:
            datetime.fromisoformat(values["start"])
        except ValueError:
            raise InvalidConfig(f"“{values['start']}” is no start.",
                                remedy="Write newest, oldest, or a time such as 2026-05-01T00:00:00Z.") from None
    if values["security"].startswith("sasl") and not (values["username"] and values["password"]):
        raise InvalidConfig("SASL needs username and password.", remedy="Name both, the password as a secret.")
    _check_events(values)


def postgresql_check(config: Mapping[str, Any]) -> None:
    """Raise ``InvalidConfig`` where no column is named, or events cannot be read so."""
    values = settings(POSTGRESQL, config)
    if not values["columns"]:
        raise InvalidConfig("It names no columns.", remedy="Name the columns of the table to be read, with types.")
    _check_events({**values, "format": "json"})


def _check_password(values: Mapping[str, Any]) -> None:
    if values["password"] and not values["username"]:
        raise InvalidConfig("There is a password and no username.", remedy="Name the user, too.")


def _check_events(values: Mapping[str, Any]) -> None:
    columns = typed_columns(values["columns"])
    raw = values["format"] in ("text", "bytes")
    if columns and raw:
        raise InvalidConfig(f"The format {values['format']} has no columns.", remedy="Leave columns out.")
    if not columns and values["format"] in ("csv", "arrow"):
        raise InvalidConfig(f"The format {values['format']} needs columns.", remedy="Name them in their order.")
    time_field = values["time_field"]
    if time_field is not None and time_field not in columns:
        raise InvalidConfig(f"time_field names {time_field}, which is no column.",
                            remedy=f"Name one of {', '.join(columns) or 'the columns'}.")
    if time_field is not None and columns[time_field] == "boolean":
        raise InvalidConfig(f"{time_field} is boolean, which is no time.",
                            remedy="Declare it as timestamp, string, bigint or double.")
