"""Sinks that write to other systems: PostgreSQL, Delta tables, S3, Kafka and MQTT.

The connector host of the slot's node writes them (``workers.engine.sinks``); the tasks here pass on what is to be
written. Where a connector goes is decided by a document, so the operator names the hosts (``WEIR_SINK_HOSTS``, or else
``WEIR_CONNECTOR_HOSTS`` and ``WEIR_DATABASE_HOSTS``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from scheduler.model.columns import Columns
from scheduler.model.task_types import Parameter, TaskType

from .columns import STREAM, require_scalar
from .config import InvalidConfig, settings
from .live_events import CA, KAFKA_ACCESS
from .reach import SERVER, require_allowed
from .sinks import FOLDER, require_place

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TABLE = r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)?"
PLACEHOLDER = re.compile(r"\{(\w+)\}")
COLUMNS = Parameter(
    "columns", "list", "The columns that are written; without any, all but Weir's own (" + ", ".join(STREAM) + ").",
    default=(), items="string", column="names")
KEEP_REFUSED = Parameter(
    "keep_refused", "integer", "How many of the newest events that the other system refused are kept, with their "
    "reasons.", default=1000, minimum=1, maximum=100_000)
KEEP_EVENTS = Parameter(
    "keep_events", "integer", "How many of the newest events are kept when they are written, so that they can be "
    "written again (1,000 blocks at most).", default=10_000, minimum=0, maximum=100_000)
_ALL = (COLUMNS, KEEP_EVENTS, KEEP_REFUSED)
_EVERY = Parameter("every", "number", "Events are written after this time at the latest, however few they are.",
                   default=30,
                   minimum=0.1, maximum=60, unit="s")
_MEGABYTES = Parameter("megabytes", "number", "Events are written sooner when they reach this size, in MB.", default=16,
                       minimum=0.1, maximum=64)
_S3 = (
    Parameter("endpoint", "string", "The address of the S3 service, https://host or https://host:port; the operator "
              "must allow the host (WEIR_SINK_HOSTS).", pattern=r"https?://[^\s/?#@]+"),
    Parameter("region", "string", "The region of the service.", default="us-east-1", pattern=r"[A-Za-z0-9-]+"),
    Parameter("access_key", "string", "The access key of who writes.", secret=True),
    Parameter("secret_key", "string", "The secret key of that access key.", secret=True),
)
_WRITTEN = {"kind": "sink", "family": "sink", "chain": "never", "terminal": "connector"}

TO_POSTGRESQL = TaskType(
    name="to_postgresql", title="PostgreSQL",
    doc="Writes events to a table of PostgreSQL, each exactly once: appended, or put in the place of the row that has "
        "the same key.",
    build="workers.library.live_sinks:to_postgresql", effects=("database",),
    writer="workers.engine.sinks.postgresql_sink:open_postgresql",
    parameters=(
        Parameter("database", "string", "postgresql://user:password@host/name, as a secret; the operator must allow "
                  "the host (WEIR_SINK_HOSTS).", required=True, secret=True),
        Parameter("table", "string", "The table, with its schema where it needs one.", required=True, pattern=TABLE),
        Parameter("key", "list", "The columns that identify a row; the table needs a unique index over them. Without "
                  "any, each event is a new row.", default=(), items="string", is_set=True, column="names"),
        *_ALL,
    ),
    cost_us=15, **_WRITTEN,
)
TO_DELTA = TaskType(
    name="to_delta", title="Delta table",
    doc="Appends events to a Delta table, each exactly once: in S3, or in a folder of the installation.",
    build="workers.library.live_sinks:to_delta", effects=("network",),
    writer="workers.engine.sinks.delta:open_delta",
    parameters=(
        Parameter(
            "url", "string", "The table in S3, s3://bucket/path.", pattern=r"s3://[a-z0-9][a-z0-9.-]+(/[^\s/]+)+"),
        Parameter("folder", "string", "The folder of the table, instead of S3, relative to the installation's folder "
                  "of tables.",
                  is_file=True, pattern=FOLDER.pattern),
        *_S3,
        Parameter("partition_by", "list", "Columns whose values get a folder each; for a table that is newly created.",
                  default=(), items="string", column="names"),
        _EVERY, _MEGABYTES, *_ALL,
    ),
    cost_us=15, **_WRITTEN,
)
TO_S3 = TaskType(
    name="to_s3", title="S3 objects",
    doc="Writes events to objects of a bucket, Parquet or JSON lines, each event in exactly one. An object is never "
        "changed.",
    build="workers.library.live_sinks:to_s3", effects=("network",), writer="workers.engine.sinks.objects:open_s3",
    parameters=(
        Parameter("bucket", "string", "The bucket.", required=True, pattern=r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]"),
        Parameter("prefix", "string", "What the names of the objects begin with; two sinks may have the same.",
                  default="", pattern=r"([\w.=-]+(/[\w.=-]+)*)?"),
        *_S3,
        Parameter("format", "string", "The format of the objects.", default="parquet", choices=("parquet", "json")),
        _EVERY, _MEGABYTES, *_ALL,
    ),
    cost_us=15, **_WRITTEN,
)
TO_KAFKA = TaskType(
    name="to_kafka", title="Kafka",
    doc="Writes events to a Kafka topic as JSON objects, in transactions, each exactly once for whoever reads "
        "committed messages alone.",
    build="workers.library.live_sinks:to_kafka", effects=("network",),
    writer="workers.engine.sinks.kafka_sink:open_kafka",
    parameters=(
        Parameter("servers", "list", "Bootstrap servers, each host:port; the operator must allow them "
                  "(WEIR_SINK_HOSTS).", required=True, items="string", is_set=True),
        Parameter("topic", "string", "The topic; it must be there.", required=True, pattern=r"[A-Za-z0-9._-]{1,249}"),
        Parameter("key", "string", "The column whose text is a message's key: events of one key keep their order.",
                  column="names"),
        *KAFKA_ACCESS,
        CA, *_ALL,
    ),
    cost_us=15, **_WRITTEN,
)
TO_MQTT = TaskType(
    name="to_mqtt", title="MQTT",
    doc="Publishes events to MQTT topics (3.1.1 or 5) as JSON objects, in order, each at least once: one whose "
        "acknowledgement was lost comes twice.",
    build="workers.library.live_sinks:to_mqtt", effects=("network",), writer="workers.engine.sinks.mqtt_sink:open_mqtt",
    parameters=(
        Parameter("server", "string", "host or host:port; the operator must allow it (WEIR_SINK_HOSTS).",
                  required=True, pattern=SERVER, pattern_words="host or host:port"),
        Parameter("topic", "string", "The topic; {column} in it stands for an event's value.", required=True,
                  pattern=r"[^+#\x00]{1,1000}"),
        Parameter("qos", "integer", "Quality of service: 1 or 2.", default=1, minimum=1, maximum=2),
        Parameter("retain", "boolean", "Whether the other broker keeps the newest message of each topic.",
                  default=False),
        Parameter("version", "string", "Version of the protocol.", default="5", choices=("3.1.1", "5")),
        Parameter("tls", "boolean", "Whether the connection is encrypted.", default=False),
        CA,
        Parameter("username", "string", "Name that the broker knows."),
        Parameter("password", "string", "Password of that user.", secret=True),
        *_ALL,
    ),
    cost_us=20, **_WRITTEN,
)
TASK_TYPES = (TO_POSTGRESQL, TO_DELTA, TO_S3, TO_KAFKA, TO_MQTT)


def to_postgresql(inputs: DataFrame, config: Mapping[str, Any]) -> DataFrame:
    """The events as they are; the connector host writes them."""
    return inputs


to_delta = to_s3 = to_kafka = to_mqtt = to_postgresql


# -- columns -----------------------------------------------------------------------------------------------------------


def to_postgresql_columns(inputs: Columns, values: Mapping[str, Any]) -> Columns:
    """The events as they are; those that are written must have the key."""
    written = _written(inputs, values)
    for name in values["key"]:
        require_scalar(written, name, parameter="key")
    return inputs


def to_delta_columns(inputs: Columns, values: Mapping[str, Any]) -> Columns:
    """The events as they are; those that are written must have the columns of the partitions."""
    written = _written(inputs, values)
    for name in values["partition_by"]:
        require_scalar(written, name, parameter="partition_by")
    return inputs


def to_s3_columns(inputs: Columns, values: Mapping[str, Any]) -> Columns:
    """The events as they are."""
    _written(inputs, values)
    return inputs


def to_kafka_columns(inputs: Columns, values: Mapping[str, Any]) -> Columns:
    """The events as they are; the key may be a column that is not written."""
    _written(inputs, values)
    if values["key"] is not None:
        require_scalar(inputs, values["key"], parameter="key")
    return inputs


def to_mqtt_columns(inputs: Columns, values: Mapping[str, Any]) -> Columns:
    """The events as they are; the topic may name columns that are not written."""
    _written(inputs, values)
    for name in PLACEHOLDER.findall(values["topic"]):
        require_scalar(inputs, name, parameter="topic")
    return inputs


def _written(inputs: Columns, values: Mapping[str, Any]) -> Columns:
    """The columns that are written."""
    for name in values["columns"]:
        inputs.require(name, parameter="columns")
    if values["columns"]:
        return Columns({name: inputs.type_of(name) for name in values["columns"]})
    return inputs.without(STREAM)


# -- checks ------------------------------------------------------------------------------------------------------------


def to_postgresql_check(config: Mapping[str, Any]) -> None:
    """Raise ``InvalidConfig`` where the key is not among the columns that are written."""
    values = settings(TO_POSTGRESQL, config)
    left_out = [name for name in values["key"] if values["columns"] and name not in values["columns"]]
    if left_out:
        raise InvalidConfig(f"The key {', '.join(left_out)} is not among the columns that are written.",
                            remedy="Name it in “columns”, too.")


def to_delta_check(config: Mapping[str, Any]) -> None:
    """Raise ``InvalidConfig`` where there is no one place for the table, or S3 may not be reached."""
    values = settings(TO_DELTA, config)
    if (values["url"] is None) == (values["folder"] is None):
        raise InvalidConfig("A Delta table is in S3 or in a folder.", remedy="Name either url or folder.")
    require_place(values["folder"] or "", parameter="folder", label="The folder's path")
    require_place((values["url"] or "").removeprefix("s3://"), parameter="url", label="The table's address")
    if values["url"] is not None:
        require_s3(values)


def to_s3_check(config: Mapping[str, Any]) -> None:
    """Raise ``InvalidConfig`` where S3 may not be reached, or objects would be called as none can be."""
    values = settings(TO_S3, config)
    require_place(values["prefix"], parameter="prefix", label="The prefix")
    require_s3(values)


def to_kafka_check(config: Mapping[str, Any]) -> None:
    """Raise ``InvalidConfig`` where a host is not allowed, or SASL lacks a user."""
    values = settings(TO_KAFKA, config)
    for server in values["servers"]:
        require_allowed(server, usual_port=9092, writes=True)
    if not values["servers"]:
        raise InvalidConfig("It needs a server.", remedy="Name one at least.")
    if values["security"].startswith("sasl") and not (values["username"] and values["password"]):
        raise InvalidConfig("SASL needs username and password.", remedy="Name both, the password as a secret.")


def to_mqtt_check(config: Mapping[str, Any]) -> None:
    """Raise ``InvalidConfig`` where the host is not allowed, or a password lacks its user."""
    values = settings(TO_MQTT, config)
    require_allowed(values["server"], usual_port=8883 if values["tls"] else 1883, writes=True)
    if values["password"] and not values["username"]:
        raise InvalidConfig("There is a password and no username.", remedy="Name the user, too.")


def require_s3(values: Mapping[str, Any]) -> None:
    """Raise ``InvalidConfig`` where an S3 service is not named in full, or may not be reached."""
    if not (values["endpoint"] and values["access_key"] and values["secret_key"]):
        raise InvalidConfig(
            "S3 needs endpoint, access_key and secret_key.",
            remedy="Name the address, such as https://s3.eu-west-1.amazonaws.com, and both keys as secrets.")
    parts = urlsplit(values["endpoint"])
    require_allowed(parts.netloc, usual_port=80 if parts.scheme == "http" else 443, writes=True)
