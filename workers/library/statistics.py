"""Stateful statistics over observations: smoothing, averages, moments, distinct counts, filling gaps, joining."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from scheduler.model.columns import NUMBERS, STREAM_TYPES, Columns
from scheduler.model.task_types import Parameter, TaskType

from .columns import (
    OBSERVATION,
    OBSERVATION_NEEDED,
    OBSERVATION_REMEDY,
    STREAM,
    kept_columns,
    key_columns,
    require_observations,
    typed_columns,
)
from .config import InvalidConfig, require_columns, settings
from .distinct import DistinctCount
from .event_schemas import SCHEMAS
from .folds import Accumulate, BlockAverage, Fold, Interpolate, JoinByMessage, KalmanFilter, SecondOrderMoment
from .spark_text import columns_ddl
from .state import fold_stream, key_value

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_FIELDS = Parameter("fields", "list", "Observations to work on; without it all. Others are not passed on.",
                    items="string", is_set=True)
_BY = Parameter("by", "list", "Columns whose values each have a state of their own.", default=["sensor_id", "obs"],
                items="string", column="names")
_SENSOR_AND_OBS = "sensor_id, obs"


def _statistic(name: str, doc: str, parameters: tuple[Parameter, ...], **facts) -> TaskType:
    return TaskType(name=name, kind="transform", family="statistics", doc=doc, stateful=True, movable_state=True,
                    by_key=True, passes_key=True, build=f"workers.library.statistics:{name}", effects=(),
                    parameters=parameters, opens=True, **facts)


KALMAN_FILTER = _statistic(
    "kalman_filter", "Smooths each sensor's readings with a one-dimensional Kalman filter; fills gaps by its estimate.",
    (
        Parameter("process_noise", "number", "Variance that the true value gains between readings.", default=0.125,
                  minimum=0),
        Parameter("sensor_noise", "number", "Variance of a reading's error.", default=0.32, minimum=0.000001),
        Parameter("estimated_error", "number", "Variance of the first estimate.", default=30.0, minimum=0),
        _FIELDS,
    ),
    key=_SENSOR_AND_OBS, cost_us=8,
)
BLOCK_AVERAGE = _statistic(
    "block_average", "Averages each block of readings; a missing reading does not count.",
    (Parameter("window", "integer", "Readings in a block.", default=10, minimum=1, maximum=1_000_000), _FIELDS, _BY),
    key="by", selectivity=0.1, cost_us=8,
)
SECOND_ORDER_MOMENT = _statistic(
    "second_order_moment",
    "Estimates the second moment of the values' frequencies (how uneven they are), after Alon, Matias and Szegedy.",
    (
        Parameter("variables", "integer", "Positions of the stream that are followed; more are more exact.",
                  default=10, minimum=1, maximum=10_000),
        Parameter("decimals", "integer", "Values that agree to so many decimals count as one.", default=0,
                  minimum=-6, maximum=9),
        Parameter("seed", "integer", "Chooses the positions.", default=1, minimum=0, maximum=2**31 - 1, near="never"),
        _FIELDS, _BY,
    ),
    key="by", cost_us=8,
)
DISTINCT_COUNT = _statistic(
    "distinct_count", "Estimates how many distinct ids (or values) came so far, with HyperLogLog.",
    (
        Parameter("field", "string", "Column whose distinct values are counted.", default="sensor_id", pattern=r"\w+",
                  column="names"),
        Parameter("precision", "integer", "Two to this power registers; the error is 1.04/√registers.", default=10,
                  minimum=4, maximum=14),
        Parameter("window", "integer", "Events after which a count is given and starts anew; 0: a running count with "
                  "every event.", default=0, minimum=0, maximum=10_000_000),
        _FIELDS,
        Parameter("by", "list", "Columns whose values each have a count of their own.", default=["obs"],
                  items="string", column="names"),
    ),
    key="by", cost_us=8,
)
INTERPOLATE = _statistic(
    "interpolate", "Fills missing readings from the last ones of the same sensor.",
    (
        Parameter("window", "integer", "How many last readings to use.", default=5, minimum=1, maximum=10_000),
        Parameter("method", "string", "mean of the last readings, or the line through them continued.",
                  default="mean", choices=("mean", "linear")),
        Parameter("fields", "list", "Observations to fill; without it all. Others pass unchanged.", items="string",
                  is_set=True),
    ),
    key=_SENSOR_AND_OBS, cost_us=8,
)
JOIN_BY_MESSAGE = _statistic(
    "join_by_message", "Joins the observations of a message again into one event with a column for each.",
    (
        Parameter("schema", "string", "Which observations a message has; own: the parameter fields says it.",
                  default="urban", choices=("urban", "taxi", "meter", "wearable", "own")),
        Parameter("fields", "list", "Observations that make a message complete; without it those of the schema.",
                  items="string"),
        Parameter("open_messages", "integer", "Messages of a sensor that may wait for the rest of their observations.",
                  default=4, minimum=1, maximum=10_000),
        Parameter("incomplete", "string", "What becomes of a message that waited too long: emit it with the missing "
                  "columns empty, or drop it.", default="emit", choices=("emit", "drop")),
    ),
    key="sensor_id", selectivity=0.2, cost_us=8,
)
ACCUMULATE = _statistic(
    "accumulate", "Collects each block of readings into one event that lists them.",
    (Parameter("window", "integer", "Readings in a block.", default=10, minimum=1, maximum=100_000), _FIELDS, _BY),
    key="by", selectivity=0.1, cost_us=8,
)

_VALUE_AND_COUNT = "value double, count bigint"

TASK_TYPES = (
    KALMAN_FILTER, BLOCK_AVERAGE, SECOND_ORDER_MOMENT, DISTINCT_COUNT, INTERPOLATE, JOIN_BY_MESSAGE, ACCUMULATE,
)


def kalman_filter(inputs: DataFrame, config: Mapping[str, Any]) -> DataFrame:
    """``value`` becomes the estimate; ``measured`` is what it was."""
    values = settings(KALMAN_FILTER, config)
    fold = KalmanFilter(float(values["process_noise"]), float(values["sensor_noise"]), float(values["estimated_error"]))
    return _each_observation(inputs, fold, values, reads=["value"], added="value double, measured double")


def interpolate(inputs: DataFrame, config: Mapping[str, Any]) -> DataFrame:
    """``value`` is filled where it was missing; ``filled`` says so."""
    values = settings(INTERPOLATE, config)
    fold = Interpolate(values["window"], values["method"], frozenset(values["fields"] or ()))
    return _each_observation(inputs, fold, {"fields": None}, reads=["value", "_time", "obs"],
                             added="value double, filled boolean")


def block_average(inputs: DataFrame, config: Mapping[str, Any]) -> DataFrame:
    """One event a block: the key, ``value`` (the mean) and ``count``."""
    values = settings(BLOCK_AVERAGE, config)
    return _each_key(inputs, BlockAverage(values["window"]), values, reads=["value"], added=_VALUE_AND_COUNT)


def accumulate(inputs: DataFrame, config: Mapping[str, Any]) -> DataFrame:
    """One event a block: the key, ``values`` and their ``times``."""
    values = settings(ACCUMULATE, config)
    return _each_key(inputs, Accumulate(values["window"]), values, reads=["value", "_time"],
                     added="values array<double>, times array<bigint>")


def second_order_moment(inputs: DataFrame, config: Mapping[str, Any]) -> DataFrame:
    """One event a reading: the key, ``value`` (the moment so far) and ``count`` (readings so far)."""
    values = settings(SECOND_ORDER_MOMENT, config)
    fold = SecondOrderMoment(values["variables"], values["decimals"], values["seed"])
    return _each_key(inputs, fold, values, reads=["value"], added=_VALUE_AND_COUNT)


def distinct_count(inputs: DataFrame, config: Mapping[str, Any]) -> DataFrame:
    """One event a reading, or a window: the key, ``value`` (the estimate) and ``count`` (readings counted)."""

    values = settings(DISTINCT_COUNT, config)
    by, field = key_columns(values["by"], added=["value", "count"]), values["field"]
    needed = [field, *by, *(["obs"] if values["fields"] else [])]
    require_columns(inputs.columns, needed, task_type="distinct_count", remedy="Name columns of the input.")
    counted = selected(inputs, values["fields"]).withColumn(
        "_counted", key_value(inputs, field).cast("string"))
    fold = DistinctCount(values["precision"], values["window"])
    return fold_stream(counted, fold, by=by, reads=["_counted"], kept=[*STREAM, *by],
                       added=_VALUE_AND_COUNT)


def _each_observation_columns(added: Mapping[str, str]):
    def columns(inputs: Columns, values: Mapping[str, Any]) -> Columns:
        require_observations(inputs, by=["sensor_id", "obs"])
        columns_kept = [name for name in OBSERVATION if name in inputs and name != "value"]
        return Columns({**kept_columns(inputs, columns_kept), **added}, inputs.complete)

    return columns


kalman_filter_columns = _each_observation_columns({"value": "double", "measured": "double"})
interpolate_columns = _each_observation_columns({"value": "double", "filled": "boolean"})


def _value_and_count_columns(inputs: Columns, values: Mapping[str, Any]) -> Columns:
    require_observations(inputs, fields=values["fields"], by=values["by"])
    return Columns.stream({**kept_columns(inputs, values["by"]), "value": "double", "count": "bigint"})


block_average_columns = second_order_moment_columns = _value_and_count_columns


def accumulate_columns(inputs: Columns, values: Mapping[str, Any]) -> Columns:
    """The key's, the values and their times."""
    require_observations(inputs, fields=values["fields"], by=values["by"])
    return Columns.stream(
        {**kept_columns(inputs, values["by"]), "values": "array<double>", "times": "array<bigint>"})


def distinct_count_columns(inputs: Columns, values: Mapping[str, Any]) -> Columns:
    """The key's, the estimate and the readings counted."""
    if values["fields"]:
        inputs.require("obs", remedy=OBSERVATION_REMEDY)
    return Columns.stream({**kept_columns(inputs, values["by"]), "value": "double", "count": "bigint"})


def join_by_message_columns(inputs: Columns, values: Mapping[str, Any]) -> Columns:
    """A message's, with a column for each observation."""
    require_observations(inputs, by=["obs", "msg_id", "sensor_id", "meta"])
    names = {**STREAM_TYPES, "msg_id": "string", "sensor_id": "string", "meta": "string"}
    return Columns(names | dict.fromkeys(message_fields(values), "double"))


def _value_and_count_check(config: Mapping[str, Any]) -> None:
    key_columns(config.get("by", ["obs"]), added=["value", "count"])


def accumulate_check(config: Mapping[str, Any]) -> None:
    """Raise ``InvalidConfig`` where the config cannot be built."""
    key_columns(config.get("by", ["obs"]), added=["values", "times"])


block_average_check = second_order_moment_check = distinct_count_check = _value_and_count_check


def join_by_message(inputs: DataFrame, config: Mapping[str, Any]) -> DataFrame:
    """Wide events, as senml_parse gives them with layout wide."""
    values = settings(JOIN_BY_MESSAGE, config)
    fields = message_fields(values)
    along = [*STREAM, "msg_id", "sensor_id", "meta"]
    require_columns(inputs.columns, [*along, "obs", "value"], task_type="join_by_message", remedy=OBSERVATION_REMEDY)
    fold = JoinByMessage(fields, values["open_messages"], values["incomplete"] == "emit")
    added = "_seq bigint, _time bigint, _born bigint, msg_id string, sensor_id string, meta string, "
    return fold_stream(inputs, fold, by=["sensor_id"], reads=["msg_id", "obs", "value", *along], kept=[],
                       added=added + columns_ddl(dict.fromkeys(fields, "double")))


def join_by_message_check(config: Mapping[str, Any]) -> None:
    """Raise ``InvalidConfig`` where the config cannot be built."""
    message_fields(settings(JOIN_BY_MESSAGE, config))


def message_fields(values: Mapping[str, Any]) -> tuple[str, ...]:
    """The observations that make a message complete."""
    fields = tuple(values["fields"] or ())
    if values["schema"] == "own" and not fields:
        raise InvalidConfig("The schema “own” needs fields.", remedy="Name the observations of a message.")
    reserved = [name for name in fields if name in ("msg_id", "sensor_id", "meta")]
    if reserved:
        raise InvalidConfig(f"{', '.join(reserved)} cannot be observations.", remedy="Choose other names.")
    return tuple(typed_columns(fields)) or SCHEMAS[values["schema"]].fields


def selected(inputs: DataFrame, fields: Sequence[str] | None) -> DataFrame:
    """The observations to work on, all where none are named; whole-number and shorter values as doubles."""
    from pyspark.sql import functions as F

    kind = dict(inputs.dtypes).get("value", "double")
    if kind != "double" and (kind in NUMBERS or kind.startswith("decimal")):
        inputs = inputs.withColumn("value", F.col("value").cast("double"))
    return inputs.where(F.col("obs").isin(list(fields))) if fields else inputs


def _each_observation(
    inputs: DataFrame, fold: Fold, values: Mapping[str, Any], *, reads: Sequence[str], added: str
) -> DataFrame:
    """A fold for each sensor and observation whose output keeps the observation's columns."""
    require_columns(inputs.columns, list(OBSERVATION_NEEDED), task_type="The task", remedy=OBSERVATION_REMEDY)
    columns_kept = [name for name in OBSERVATION if name in inputs.columns and name != "value"]
    return fold_stream(selected(inputs, values["fields"]), fold, by=["sensor_id", "obs"], reads=reads,
                       kept=columns_kept, added=added)


def _each_key(
    inputs: DataFrame, fold: Fold, values: Mapping[str, Any], *, reads: Sequence[str], added: str
) -> DataFrame:
    """A fold for each key whose output holds the key and what the fold gives."""
    by = key_columns(values["by"], added=[part.split()[0] for part in added.split(", ")])
    needed = ["value", *by, *(["obs"] if values["fields"] else [])]
    require_columns(inputs.columns, needed, task_type="The task", remedy=OBSERVATION_REMEDY)
    return fold_stream(selected(inputs, values["fields"]), fold, by=by, reads=reads, kept=[*STREAM, *by], added=added)
