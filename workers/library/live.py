"""Live sources: what comes over HTTP, MQTT, Kafka and from tables of PostgreSQL, while it comes.

The connector host of the slot's node reads them and writes their events to a channel (``workers.engine.connectors``);
the tasks here pass on what has arrived. Where a connector goes is decided by a document, so the operator names the
hosts (``WEIR_CONNECTOR_HOSTS``, ``WEIR_DATABASE_HOSTS``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from scheduler.model.task_types import Parameter, TaskType

from .config import InvalidConfig, settings
from .live_events import (
    AVRO,
    CA,
    CLIENT_CERTIFICATE,
    EVENTS,
    FORMATS,
    KAFKA_ACCESS,
    check_certificate,
    check_events,
    check_start,
    columns_of,
    include,
    written_as,
)
from .reach import SERVER, require_allowed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

HTTP_INGEST = TaskType(
    name="http_ingest", kind="source", family="source", title="HTTP posts",
    doc="Events that are posted to the address /ingest/TEAM/NAME of the site, with the token as bearer: JSON (an "
        "object or a list), lines of JSON, or an Arrow stream. 429 when its readers are behind. What is "
        "posted again within a day under the same Idempotency-Key is taken once.",
    build="workers.library.live:http_ingest", effects=("network",), connector="",
    parameters=(
        Parameter("name", "string", "The end of the address.", required=True, pattern=r"[a-z0-9][a-z0-9_-]{0,62}",
                  pattern_words="lower-case letters, digits, - and _"),
        Parameter("token", "string", "The sender passes it as “Authorization: Bearer …”.", required=True, secret=True),
        written_as("json", "ndjson", "csv", "arrow", "text", "bytes"), *EVENTS,
    ),
    cost_us=5,
)
MQTT = TaskType(
    name="mqtt", kind="source", family="source", title="MQTT",
    doc="Messages of MQTT topics (3.1.1 or 5). The other broker keeps a session, so that with QoS 1 or 2 nothing is "
        "lost while Weir is away. A message may come twice where an acknowledgement was lost: put a task behind it "
        "that leaves repetitions out where that matters.",
    build="workers.library.live:mqtt", effects=("network",),
    connector="workers.engine.connectors.mqtt_source:open_mqtt",
    parameters=(
        Parameter("server", "string", "host or host:port; the operator must allow it (WEIR_CONNECTOR_HOSTS).",
                  required=True, pattern=SERVER, pattern_words="host or host:port"),
        Parameter("topics", "list", "Topics, with the wildcards + and #.", required=True, items="string", is_set=True),
        Parameter("qos", "integer", "Quality of service: 0 (may be lost), 1, or 2, which is read as 1: at least once.",
                  default=1, minimum=0, maximum=2),
        Parameter("version", "string", "Version of the protocol.", default="5", choices=("3.1.1", "5")),
        Parameter("tls", "boolean", "Whether the connection is encrypted.", default=False),
        CA, *CLIENT_CERTIFICATE,
        Parameter("username", "string", "Name that the broker knows."),
        Parameter("password", "string", "Password of that user.", secret=True),
        written_as(*FORMATS), include("mqtt_"), *EVENTS,
    ),
    cost_us=5,
)
KAFKA = TaskType(
    name="kafka", kind="source", family="source", title="Kafka",
    doc="Messages of Kafka topics, all partitions, each exactly once: the offsets are kept with the events. A dataflow "
        "that joins a running one gets the messages from then on.",
    build="workers.library.live:kafka", effects=("network",),
    connector="workers.engine.connectors.kafka_source:open_kafka",
    parameters=(
        Parameter("servers", "list", "Bootstrap servers, each host:port; the operator must allow them "
                  "(WEIR_CONNECTOR_HOSTS).", required=True, items="string", is_set=True),
        Parameter("topics", "list", "Topics.", required=True, items="string", is_set=True),
        Parameter("start", "string", "Where reading begins the first time: newest, oldest, or an ISO time.",
                  default="newest"),
        *KAFKA_ACCESS,
        CA, *CLIENT_CERTIFICATE, written_as(*FORMATS, AVRO),
        Parameter("registry", "string", "For format avro: the schema registry, http://host:port or https; the "
                  "operator must allow it (WEIR_CONNECTOR_HOSTS).", pattern=rf"https?://{SERVER}", added=True),
        Parameter("registry_user", "string", "Name that the registry knows.", added=True),
        Parameter("registry_password", "string", "Password of that user.", secret=True, added=True),
        include("kafka_"), *EVENTS,
    ),
    cost_us=5,
)
POSTGRESQL = TaskType(
    name="postgresql", kind="source", family="source", title="PostgreSQL",
    doc="New rows of a table of PostgreSQL, by a column whose values only rise (a serial number, say), each exactly "
        "once. Later changes and deletions of rows are not noticed.",
    build="workers.library.live:postgresql", effects=("database",),
    connector="workers.engine.connectors.postgresql_source:open_postgresql",
    parameters=(
        Parameter("database", "string", "postgresql://user:password@host/name, as a secret; the operator must allow "
                  "the host (WEIR_DATABASE_HOSTS).", required=True, secret=True),
        Parameter("ca", "string", "Certificates (PEM) of the authorities to trust: the connection is encrypted then, "
                  "and the host's name is held to its certificate.", secret=True),
        Parameter("table", "string", "The table, with its schema where it needs one.", required=True,
                  pattern=r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)?"),
        Parameter("column", "string", "The column that grows; it needs an index.", required=True,
                  pattern=r"[A-Za-z_]\w*"),
        Parameter("every", "number", "The time between two looks for new rows.",
                  default=1, minimum=0.1, maximum=3600, unit="s"),
        Parameter("start", "string", "Where reading begins the first time.", default="newest",
                  choices=("newest", "oldest")),
        *EVENTS,
    ),
    cost_us=5,
)
TASK_TYPES = (HTTP_INGEST, MQTT, KAFKA, POSTGRESQL)


def http_ingest(inputs: DataFrame, config: Mapping[str, Any]) -> DataFrame:
    """The events as they were posted."""
    return inputs


mqtt = kafka = postgresql = http_ingest


http_ingest_columns = mqtt_columns = kafka_columns = postgresql_columns = columns_of


def http_ingest_check(config: Mapping[str, Any]) -> None:
    """Raise ``InvalidConfig`` where events cannot be read so."""
    check_events(settings(HTTP_INGEST, config))


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
    check_certificate(values, encrypted=values["tls"], how="Set tls to true.")
    check_events(values, prefix="mqtt_")


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
    check_start(values["start"])
    if values["security"].startswith("sasl") and not (values["username"] and values["password"]):
        raise InvalidConfig("SASL needs username and password.", remedy="Name both, the password as a secret.")
    check_certificate(values, encrypted=values["security"].endswith("ssl"), how="Set security to ssl or sasl_ssl.")
    _check_registry(values)
    check_events(values, prefix="kafka_")


def postgresql_check(config: Mapping[str, Any]) -> None:
    """Raise ``InvalidConfig`` where no column is named, or events cannot be read so."""
    values = settings(POSTGRESQL, config)
    if not values["columns"]:
        raise InvalidConfig("It names no columns.", remedy="Name the columns of the table to be read, with types.")
    check_events({**values, "format": "json"})


def _check_registry(values: Mapping[str, Any]) -> None:
    if (values["format"] == AVRO) != bool(values["registry"]):
        raise InvalidConfig("The format avro and a registry belong together.", remedy="Name both, or neither.")
    if values["registry"]:
        require_allowed(values["registry"].partition("://")[2], usual_port=8081)
    if bool(values["registry_user"]) != bool(values["registry_password"]):
        raise InvalidConfig("A registry's user needs a password.", remedy="Name both, the password as a secret.")


def _check_password(values: Mapping[str, Any]) -> None:
    if values["password"] and not values["username"]:
        raise InvalidConfig("There is a password and no username.", remedy="Name the user, too.")
