"""Live sources that Spark reads itself: any streaming format of its own or of a package that the operator brings."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from scheduler.model.task_types import Parameter, TaskType

from .columns import typed_columns
from .config import InvalidConfig, settings
from .live import http_ingest
from .live_events import COLUMNS, KEEP_DEAD, TIME_FIELD, TIME_UNIT, check_events, columns_of

VARIABLE = "WEIR_SPARK_SOURCES"
SPARK_SOURCE = TaskType(
    name="spark_source", kind="source", family="source", title="Spark source",
    doc="Rows of a streaming format that Spark knows, or that a package of the operator brings to it. Each once where "
        "the format gives the same rows in the same order when a batch is repeated (as rate-micro-batch, Kafka and "
        "files do), else each at least once.",
    build="workers.library.spark_sources:spark_source", effects=("network", "files"),
    connector="workers.engine.connectors.spark_source:open_spark_source",
    keeps_on_node=True,
    parameters=(
        Parameter("source", "string", "The format's name, as readStream.format takes it; the operator must allow it "
                  "(WEIR_SPARK_SOURCES).", required=True, pattern=r"[A-Za-z_][\w.-]{0,199}"),
        Parameter("options", "object", "The options of the format, each a text.", default={}),
        Parameter("secret_options", "string", "Further options that nobody may see: a JSON object of texts.",
                  secret=True),
        Parameter("schema", "string", "The schema of formats that need one, as DDL: “id BIGINT, name STRING”.",
                  pattern=r".{1,5000}"),
        Parameter("every", "number", "The time between two of Spark's batches.",
                  default=1, minimum=0.1, maximum=3600, unit="s"),
        COLUMNS, TIME_FIELD, TIME_UNIT, KEEP_DEAD,
    ),
    cost_us=8,
)
TASK_TYPES = (SPARK_SOURCE,)

spark_source = http_ingest  # the events as they were read
spark_source_columns = columns_of


def spark_source_check(config: Mapping[str, Any]) -> None:
    """Raise ``InvalidConfig`` where the format is not allowed, an option is none, or no columns are named."""
    values = settings(SPARK_SOURCE, config)
    require_source(values["source"])
    for name, value in values["options"].items():
        if not isinstance(value, str):
            raise InvalidConfig(
                f"The option {name} is no text.", remedy="Put it into double quotes as you wrote it: without them YAML "
                f"reads a value, here {json.dumps(value)}, and 010 and 1e1 are both 10.")
    if not typed_columns(values["columns"]):
        raise InvalidConfig("It names no columns.", remedy="Name the columns of the format to be read, with types.")
    check_events({**values, "format": "json"})


def require_source(name: str) -> None:
    """Raise ``InvalidConfig`` where the operator does not allow a format."""
    allowed = {source.strip().lower() for source in os.environ.get(VARIABLE, "").split(",") if source.strip()}
    if name.lower() not in allowed:
        raise InvalidConfig(
            f"Spark's format {name} may not be read.", remedy=f"Ask the operator to name {name} in {VARIABLE}.",
            source=name)
