"""Stateful statistics over observations: smoothing, averages, moments, distinct counts, filling gaps, joining."""

from __future__ import annotations

from scheduler.model.task_types import Parameter, TaskType

_FIELDS = Parameter("fields", "list", "Observations to work on; without it all. Others are not passed on.",
                    items="string")
_BY = Parameter("by", "list", "Columns whose values each have a state of their own.", default=["sensor_id", "obs"],
                items="string")
_SENSOR_AND_OBS = "sensor_id, obs"


def _statistic(name: str, doc: str, parameters: tuple[Parameter, ...], **facts) -> TaskType:
    return TaskType(name=name, kind="transform", family="statistics", doc=doc, stateful=True,
                    build=f"workers.library.statistics:{name}", parameters=parameters, **facts)


KALMAN_FILTER = _statistic(
    "kalman_filter", "Smooths each sensor's readings with a one-dimensional Kalman filter; fills gaps by its estimate.",
    (
        Parameter("process_noise", "number", "Variance that the true value gains between readings.", default=0.125,
                  minimum=0),
        Parameter("sensor_noise", "number", "Variance of a reading's error.", default=0.32, minimum=0.000001),
        Parameter("estimated_error", "number", "Variance of the first estimate.", default=30.0, minimum=0),
        _FIELDS,
    ),
    key=_SENSOR_AND_OBS, cost_us=25,
)
BLOCK_AVERAGE = _statistic(
    "block_average", "Averages each block of readings; a missing reading does not count.",
    (Parameter("window", "integer", "Readings in a block.", default=10, minimum=1, maximum=1_000_000), _FIELDS, _BY),
    key=_SENSOR_AND_OBS, selectivity=0.1, cost_us=20,
)
SECOND_ORDER_MOMENT = _statistic(
    "second_order_moment",
    "Estimates the second moment of the values' frequencies (how uneven they are), after Alon, Matias and Szegedy.",
    (
        Parameter("variables", "integer", "Positions of the stream that are followed; more are more exact.",
                  default=10, minimum=1, maximum=10_000),
        Parameter("decimals", "integer", "Values that agree to so many decimals count as one.", default=0,
                  minimum=-6, maximum=9),
        Parameter("seed", "integer", "Chooses the positions.", default=1, minimum=0, maximum=2**31 - 1),
        _FIELDS, _BY,
    ),
    key=_SENSOR_AND_OBS, cost_us=30,
)
DISTINCT_COUNT = _statistic(
    "distinct_count", "Estimates how many distinct ids (or values) came so far, with HyperLogLog.",
    (
        Parameter("field", "string", "Column whose distinct values are counted.", default="sensor_id", pattern=r"\w+"),
        Parameter("precision", "integer", "Two to this power registers; the error is 1.04/√registers.", default=10,
                  minimum=4, maximum=14),
        Parameter("window", "integer", "Events after which a count is given and starts anew; 0: a running count with "
                  "every event.", default=0, minimum=0, maximum=10_000_000),
        _FIELDS,
        Parameter("by", "list", "Columns whose values each have a count of their own.", default=["obs"],
                  items="string"),
    ),
    key="obs", cost_us=20,
)
INTERPOLATE = _statistic(
    "interpolate", "Fills missing readings from the last ones of the same sensor.",
    (
        Parameter("window", "integer", "How many last readings to use.", default=5, minimum=1, maximum=10_000),
        Parameter("method", "string", "mean of the last readings, or the line through them continued.",
                  default="mean", choices=("mean", "linear")),
        Parameter("fields", "list", "Observations to fill; without it all. Others pass unchanged.", items="string"),
    ),
    key=_SENSOR_AND_OBS, cost_us=20,
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
    key="sensor_id", selectivity=0.2, cost_us=25,
)
ACCUMULATE = _statistic(
    "accumulate", "Collects each block of readings into one event that lists them.",
    (Parameter("window", "integer", "Readings in a block.", default=10, minimum=1, maximum=100_000), _FIELDS, _BY),
    key=_SENSOR_AND_OBS, selectivity=0.1, cost_us=20,
)

TASK_TYPES = (
    KALMAN_FILTER, BLOCK_AVERAGE, SECOND_ORDER_MOMENT, DISTINCT_COUNT, INTERPOLATE, JOIN_BY_MESSAGE, ACCUMULATE,
)
