"""Ports: several streams that enter or leave a path as one, each with its own columns, and are told apart again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from scheduler.model.columns import Columns, UnknownColumn
from scheduler.model.stream_ports import PORT_PATTERN
from scheduler.model.task_types import Parameter, TaskType

from .columns import STREAM
from .config import settings
from .spark_text import identifier

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PORT = (Parameter("port", "string", "The name of the port.", required=True, pattern=PORT_PATTERN),)
INTO_PORT = TaskType(
    name="into_port", kind="transform", family="operator",
    doc="Gives a stream the name of a port, and its columns names of their own, so that it can be one of several.",
    build="workers.library.port_tasks:into_port", effects=(), parameters=_PORT, cost_us=2,
)
FROM_PORT = TaskType(
    name="from_port", kind="transform", family="operator",
    doc="Passes the stream of one port, with the columns that it had before into_port.",
    build="workers.library.port_tasks:from_port", effects=(), parameters=_PORT, selectivity=0.5, cost_us=2,
)
TASK_TYPES = (INTO_PORT, FROM_PORT)
_NAMED = "_port"  # the column that says which port an event is of


def into_port(inputs: DataFrame, config: Mapping[str, Any]) -> DataFrame:
    """The events, their columns as ``<port>/<column>``, and the port."""
    from pyspark.sql import functions as F

    port = settings(INTO_PORT, config)["port"]
    columns = [F.col(identifier(name)).alias(_prefix(port) + name) for name in inputs.columns if name not in STREAM]
    return inputs.select(*STREAM, *columns, F.lit(port).alias(_NAMED))


def into_port_columns(inputs: Columns, values: Mapping[str, Any]) -> Columns:
    """The input's under other names, and the port."""
    columns = {_prefix(values["port"]) + name: kind for name, kind in inputs.types.items() if name not in STREAM}
    return Columns({**dict.fromkeys(STREAM, "bigint"), **columns, _NAMED: "string"}, inputs.complete)


def from_port(inputs: DataFrame, config: Mapping[str, Any]) -> DataFrame:
    """The events of one port, with its columns alone."""
    from pyspark.sql import functions as F

    port = settings(FROM_PORT, config)["port"]
    columns = [F.col(identifier(name)).alias(column) for name, column in _columns_at(port, inputs.columns).items()]
    return inputs.where(F.col(_NAMED) == port).select(*STREAM, *columns)


def from_port_columns(inputs: Columns, values: Mapping[str, Any]) -> Columns:
    """The columns that one port had.

    Raises
    ------
    UnknownColumn
        No stream of its input was given a port.
    """
    if inputs.complete and _NAMED not in inputs:
        raise UnknownColumn(
            f"Its input has no port {values['port']}.", parameter="port", value=values["port"],
            remedy="Put an into_port before it, or let streams name inputs and outputs of a task with alternates.")
    columns = {column: inputs.type_of(name) for name, column in _columns_at(values["port"], inputs).items()}
    return Columns({**dict.fromkeys(STREAM, "bigint"), **columns}, inputs.complete)


def _columns_at(port: str, names: Any) -> dict[str, str]:
    """The names of a port's columns, and what they were before."""
    return {name: name.removeprefix(_prefix(port)) for name in names if name.startswith(_prefix(port))}


def _prefix(port: str) -> str:
    """What the columns of a port begin with: no column has a point, and no port a colon or a slash."""
    return port.replace(".", ":") + "/"
