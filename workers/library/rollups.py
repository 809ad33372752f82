"""Averages of blocks whose sums are exact, so that those of longer blocks can be put together from shorter ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from scheduler.model.columns import Columns
from scheduler.model.refinement import Refined
from scheduler.model.task_types import Parameter, TaskType

from .columns import OBSERVATION_REMEDY, STREAM, kept_columns, key_columns, require_observations
from .config import require_columns, settings
from .exact import ExactAverage, RollUp
from .state import fold_stream, key_value
from .statistics import selected

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_BY = Parameter("by", "list", "Columns whose values each have a state of their own.", default=["sensor_id", "obs"],
                items="string", column="names")
_GIVEN = ["value", "count", "sum"]
_ADDED = "value double, count bigint, sum string"

EXACT_AVERAGE = TaskType(
    name="exact_average", kind="transform", family="statistics",
    doc="Averages each block of readings, as block_average does, but from an exact sum, which it gives along: averages "
        "of longer blocks can be made of it.",
    build="workers.library.rollups:exact_average", effects=(), opens=True,
    parameters=(
        Parameter("window", "integer", "Readings in a block.", default=10, minimum=1, maximum=1_000_000),
        Parameter("fields", "list", "Observations to work on; without it all. Others are not passed on.",
                  items="string", is_set=True),
        _BY,
    ),
    stateful=True, movable_state=True, by_key=True, passes_key=True, key="by", selectivity=0.1, cost_us=10,
)
ROLL_UP = TaskType(
    name="roll_up", kind="transform", family="statistics",
    doc="Puts blocks of exact_average together: the average of so many, to the last bit what exact_average would give.",
    build="workers.library.rollups:roll_up", effects=(), opens=True,
    parameters=(
        Parameter("blocks", "integer", "Blocks that make one.", required=True, minimum=1, maximum=1_000_000), _BY,
    ),
    stateful=True, movable_state=True, by_key=True, passes_key=True, key="by", selectivity=0.2, cost_us=10,
)

TASK_TYPES = (EXACT_AVERAGE, ROLL_UP)


def exact_average(inputs: DataFrame, config: Mapping[str, Any]) -> DataFrame:
    """One event a block: the key, ``value`` (the mean), ``count`` and ``sum`` (exact, as text)."""
    from pyspark.sql import functions as F

    values = settings(EXACT_AVERAGE, config)
    by = key_columns(values["by"], added=_GIVEN)
    needed = ["value", *by, *(["obs"] if values["fields"] else [])]
    require_columns(inputs.columns, needed, task_type="exact_average", remedy=OBSERVATION_REMEDY)
    # Keys as text: a key must be the same key in a stream of blocks, and a NaN would come out as null.
    typed = selected(inputs, values["fields"]).withColumns(
        {name: key_value(inputs, name).cast("string") for name in by} | {"value": F.col("value").cast("double")})
    return fold_stream(typed, ExactAverage(values["window"]), by=by, reads=["value"], kept=[*STREAM, *by], added=_ADDED)


def roll_up(inputs: DataFrame, config: Mapping[str, Any]) -> DataFrame:
    """The output of exact_average for longer blocks, from its output for shorter ones."""
    values = settings(ROLL_UP, config)
    by = key_columns(values["by"], added=_GIVEN)
    require_columns(inputs.columns, ["count", "sum", *by], task_type="roll_up",
                    remedy="Put an exact_average before it, of the same keys.")
    return fold_stream(inputs, RollUp(values["blocks"]), by=by, reads=["count", "sum"], kept=[*STREAM, *by],
                       added=_ADDED)


def exact_average_check(config: Mapping[str, Any]) -> None:
    """Raise ``InvalidConfig`` where the config cannot be built."""
    key_columns(config.get("by") or _BY.default, added=_GIVEN)


roll_up_check = exact_average_check


_ADDED_TYPES = {"value": "double", "count": "bigint", "sum": "string"}


def exact_average_columns(inputs: Columns, values: Mapping[str, Any]) -> Columns:
    """The key's, as text, the mean, the count and the sum."""
    require_observations(inputs, fields=values["fields"], by=values["by"])
    return Columns.stream(dict.fromkeys(values["by"], "string") | _ADDED_TYPES)


def roll_up_columns(inputs: Columns, values: Mapping[str, Any]) -> Columns:
    """The columns that exact_average gives."""
    for name in ("count", "sum"):
        inputs.require(name, remedy="Put an exact_average before it, of the same keys.")
    return Columns.stream(kept_columns(inputs, values["by"]) | _ADDED_TYPES)


def exact_average_contains(wide: Mapping[str, Any], narrow: Mapping[str, Any]) -> Refined | None:
    """Blocks of n readings make every block of a multiple of n: same keys, same readings, the sums exact.

    Adding up is associative where it is exact, a block ends with the reading that ends its last part, and blocks of
    other keys end in the same order: value, count, sum and Weir's columns are those of the longer window by itself.
    A block_average has no such rule: its sum is rounded with each reading, so it depends on where blocks begin.
    """
    blocks, remainder = divmod(narrow["window"], wide["window"])
    if remainder or blocks < 2 or wide["by"] != narrow["by"] or (wide["fields"] or []) != (narrow["fields"] or []):
        return None
    return Refined("roll_up", {"blocks": blocks, "by": narrow["by"]})
