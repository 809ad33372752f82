"""Prediction from a stream's recent past."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from scheduler.model.columns import Columns
from scheduler.model.task_types import Parameter, TaskType

from .columns import (
    OBSERVATION_NEEDED,
    OBSERVATION_REMEDY,
    STREAM,
    kept_columns,
    key_columns,
    require_observations,
    require_scalar,
)
from .config import InvalidConfig, require_columns, settings
from .folds import SlidingLinearRegression as Regression
from .spark_text import columns_ddl
from .state import fold_stream, key_text
from .statistics import selected

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from .forecasting import HourlyForecast

SLIDING_LINEAR_REGRESSION = TaskType(
    name="sliding_linear_regression", kind="transform", family="predict",
    doc="Fits a line to each sensor's last readings and predicts the next ones.",
    build="workers.library.predict:sliding_linear_regression", effects=(),
    parameters=(
        Parameter("train", "integer", "Readings that the line is fitted to.", default=10, minimum=2, maximum=100_000),
        Parameter("predict", "integer", "Readings ahead to predict: so many events at a time.", default=10, minimum=1,
                  maximum=10_000),
        Parameter("every", "integer", "Predict after every so many readings.", default=10, minimum=1,
                  maximum=1_000_000),
        Parameter("fields", "list", "Observations to work on; without it all. Others are not passed on.",
                  items="string", is_set=True),
    ),
    stateful=True, movable_state=True, by_key=True, passes_key=True, key="sensor_id, obs", selectivity=1.0, cost_us=8,
)
FORECAST_METHODS = {  # what each does: `forecasts.METHODS`, which takes numpy along
    "nyiso": "the five highest of ten similar days (of three at weekends and on holidays the two highest), without the "
             "day before, corrected by at most 20% by the two hours that began four hours before",
    "casce": "all of ten similar days, corrected by at most 40% by three of the four hours before",
    "caiso": "the three highest of ten similar days, corrected by at most 20% by three of the four hours before",
    "sliding_hour": "the mean of the last hour",
    "sliding_days": "the last three days, on the level of the last hour",
    "tree": "a regression tree",
    "arima": "an autoregression of the differences from the day before",
    "random": "any of these, anew for each customer and hour",
}
FORECAST = TaskType(
    name="forecast", kind="transform", family="predict",
    doc="Forecasts what each customer will use in the next hour, and tells the error of the forecast before.",
    build="workers.library.predict:forecast", effects=(),
    parameters=(
        Parameter("method", "string", "; ".join(f"{name}: {does}" for name, does in FORECAST_METHODS.items()) + ".",
                  default="sliding_hour", choices=tuple(FORECAST_METHODS)),
        Parameter("by", "list", "Columns that tell customers apart.", default=["sensor_id"], items="string",
                  column="names"),
        Parameter("value", "string", "The column with the consumption: a number.", default="value", column="names"),
        Parameter("at", "string", "The column with the time at which a reading's interval begins, in ms.",
                  default="_time", column="names"),
        Parameter("holiday", "string", "The column that says that a reading's day is a holiday. Without it only "
                  "weekends are.", column="names"),
        Parameter("interval", "integer", "The time between two readings of a customer; an hour must be a whole number "
                  "of them.", default=900, minimum=60, maximum=1800, unit="s"),
        Parameter("utc_offset", "number", "How far the customers' clocks are ahead of UTC.", default=0, minimum=-14,
                  maximum=14, near="never"),
        Parameter("seed", "integer", "The seed of methods that use chance.", default=1, minimum=0, maximum=2**31 - 1,
                  near="never"),
    ),
    stateful=True, movable_state=True, by_key=True, passes_key=True, key="by", selectivity=0.25, cost_us=300,
    has_long_steps=True, shares_state=("method", "seed"),
)

TASK_TYPES = (SLIDING_LINEAR_REGRESSION, FORECAST)
_FORECAST = {"start": "bigint", "method": "string", "forecast": "array<double>", "error": "double",
             "variances": "array<double>"}


def sliding_linear_regression(inputs: DataFrame, config: Mapping[str, Any]) -> DataFrame:
    """Predictions: the sensor, the observation, ``value`` (predicted) and ``step`` (readings ahead)."""
    values = settings(SLIDING_LINEAR_REGRESSION, config)
    require_columns(inputs.columns, list(OBSERVATION_NEEDED), task_type="sliding_linear_regression",
                    remedy=OBSERVATION_REMEDY)
    return fold_stream(
        selected(inputs, values["fields"]), Regression(values["train"], values["predict"], values["every"]),
        by=["sensor_id", "obs"], reads=["value"], kept=[*STREAM, "sensor_id", "obs"],
        added="value double, step bigint",
    )


def sliding_linear_regression_columns(inputs: Columns, values: Mapping[str, Any]) -> Columns:
    """The sensor, the observation, the prediction and how far ahead it is."""
    require_observations(inputs, by=["sensor_id", "obs"])
    return Columns.stream({**kept_columns(inputs, ["sensor_id", "obs"]), "value": "double", "step": "bigint"})


def forecast(inputs: DataFrame, config: Mapping[str, Any]) -> DataFrame:
    """One event an hour and customer: the key, ``start`` (ms), ``method``, ``forecast``, ``error``, ``variances``."""
    from pyspark.sql import functions as F

    values = settings(FORECAST, config)
    by = key_columns(values["by"], added=_FORECAST)
    read = [values["value"], values["at"], *([values["holiday"]] if values["holiday"] else [])]
    require_columns(inputs.columns, [*by, *read], task_type="forecast", remedy="Name columns of the input.")
    holiday = F.col(values["holiday"]).try_cast("boolean") if values["holiday"] else F.lit(False)
    selected = inputs.where(F.col(values["at"]).isNotNull()).withColumns({
        "_at": F.floor(values["at"]).cast("double"), "_value": F.col(values["value"]).cast("double"),
        "_holiday": F.coalesce(holiday, F.lit(False)), "_customer": key_text(inputs, by)})
    return fold_stream(selected, hourly_forecast(values), by=by, reads=["_at", "_value", "_holiday", "_customer"],
                       kept=[*STREAM, *by], added=columns_ddl(_FORECAST))


def hourly_forecast(values: Mapping[str, Any]) -> HourlyForecast:
    """The fold of a config."""
    from .forecasting import HourlyForecast

    return HourlyForecast(
        values["method"], values["interval"] * 1000, round(values["utc_offset"] * 3_600_000), values["seed"])


def forecast_check(config: Mapping[str, Any]) -> None:
    """Raise ``InvalidConfig`` where the config cannot be built."""
    values = settings(FORECAST, config)
    key_columns(values["by"], added=_FORECAST)
    if 3600 % values["interval"]:
        raise InvalidConfig(f"An hour has no whole number of intervals of {values['interval']} s.",
                            remedy="Give a divisor of 3600 s: 300, 900 or 1800.", parameter="interval")


def forecast_columns(inputs: Columns, values: Mapping[str, Any]) -> Columns:
    """The customer's, and a forecast's."""
    for name in ("value", "at"):
        inputs.require_number(values[name], parameter=name)
    if values["holiday"]:
        require_scalar(inputs, values["holiday"], parameter="holiday")
    return Columns.stream({**kept_columns(inputs, values["by"]), **_FORECAST})
