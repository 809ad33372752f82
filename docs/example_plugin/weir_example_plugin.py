"""A task type of one's own: alarms where a reading passes a limit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from scheduler.model.columns import Columns
from scheduler.model.task_types import Parameter, TaskType
from workers.library.config import InvalidConfig, require_columns, settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LIMIT_ALARM = TaskType(
    name="limit_alarm", kind="transform", family="alarms",
    doc="Passes on the readings above a limit, with how far they are above it.",
    build="weir_example_plugin:limit_alarm",
    parameters=(
        Parameter("obs", "string", "The observation to watch.", required=True),
        Parameter("limit", "number", "Readings above this are alarms.", required=True),
        Parameter("severe_above", "number", "Readings above this are severe; without it none are."),
    ),
    selectivity=0.05, cost_us=3,
    effects=(),  # reaches nothing beyond Weir; without this line it would run only as reviewers have approved it
)
TASK_TYPES = [LIMIT_ALARM]


def limit_alarm(inputs: DataFrame, config: Mapping[str, Any]) -> DataFrame:
    """Built once when a slot compiles a fragment; Spark is imported here and not above."""
    from pyspark.sql import functions as F

    values = settings(LIMIT_ALARM, config)
    require_columns(inputs.columns, ["obs", "value"], task_type="limit_alarm", remedy="Put a parser before it.")
    severe = F.lit(False) if values["severe_above"] is None else F.col("value") > values["severe_above"]
    alarms = inputs.where((F.col("obs") == values["obs"]) & (F.col("value") > values["limit"]))
    return alarms.withColumns({"excess": F.col("value") - values["limit"], "severe": severe})


def limit_alarm_columns(inputs: Columns, values: Mapping[str, Any]) -> Columns:
    """The columns of what comes out: checked, and completed in the editor, before anything runs."""
    inputs.require("obs", remedy="Put a parser before it.")
    inputs.require_number("value", remedy="Put a parser before it.")
    return inputs.plus({"excess": "double", "severe": "boolean"})


def limit_alarm_check(config: Mapping[str, Any]) -> None:
    """What the declared types and bounds cannot say."""
    values = settings(LIMIT_ALARM, config)
    if values["severe_above"] is not None and values["severe_above"] < values["limit"]:
        raise InvalidConfig("severe_above is below limit.", remedy="Give severe_above a value above limit.")
