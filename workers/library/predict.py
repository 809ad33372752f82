"""Prediction from a stream's recent past."""

from __future__ import annotations

from scheduler.model.task_types import Parameter, TaskType

SLIDING_LINEAR_REGRESSION = TaskType(
    name="sliding_linear_regression", kind="transform", family="predict",
    doc="Fits a line to each sensor's last readings and predicts the next ones.",
    build="workers.library.predict:sliding_linear_regression",
    parameters=(
        Parameter("train", "integer", "Readings that the line is fitted to.", default=10, minimum=2, maximum=100_000),
        Parameter("predict", "integer", "Readings ahead to predict: so many events at a time.", default=10, minimum=1,
                  maximum=10_000),
        Parameter("every", "integer", "Predict after every so many readings.", default=10, minimum=1,
                  maximum=1_000_000),
        Parameter("fields", "list", "Observations to work on; without it all. Others are not passed on.",
                  items="string"),
    ),
    stateful=True, key="sensor_id, obs", selectivity=1.0, cost_us=30,
)

TASK_TYPES = (SLIDING_LINEAR_REGRESSION,)
