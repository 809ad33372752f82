"""Prediction from a stream's recent past."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from scheduler.model.columns import Columns
from scheduler.model.task_types import Parameter, TaskType

from .columns import OBSERVATION_NEEDED, OBSERVATION_REMEDY, STREAM, kept_columns, require_observations
from .config import require_columns, settings
from .folds import SlidingLinearRegression as Regression
from .state import fold_stream
from .statistics import selected

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

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
    stateful=True, movable_state=True, key="sensor_id, obs", selectivity=1.0, cost_us=8,
)

TASK_TYPES = (SLIDING_LINEAR_REGRESSION,)


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
