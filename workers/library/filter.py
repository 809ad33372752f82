"""Filters: events out of range, and events whose key is not a member."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from scheduler.model.columns import Columns
from scheduler.model.refinement import Refined
from scheduler.model.task_types import Parameter, TaskType

from .bloom import BloomFilter
from .columns import same_columns
from .config import InvalidConfig, require_columns, settings

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

RANGE_FILTER = TaskType(
    name="range_filter", kind="transform", family="filter",
    doc="Drops readings that are out of their range, or blanks them for an interpolation to fill.",
    build="workers.library.filter:range_filter", effects=(), opens=True,
    parameters=(
        Parameter("ranges", "object", "The range of each observation (or column): [lowest, highest], both inclusive.",
                  required=True,
                  bounds=True, near="ratio"),
        Parameter("outside", "string", "drop the event, or blank its value.", default="drop",
                  choices=("drop", "blank")),
    ),
    selectivity=0.9, cost_us=1,
)
BLOOM_FILTER = TaskType(
    name="bloom_filter", kind="transform", family="filter",
    doc="Keeps events whose key is a member of a set, held in a Bloom filter: no member is lost, few others pass.",
    build="workers.library.filter:bloom_filter", effects=(), opens=True,
    parameters=(
        Parameter("field", "string", "Column that holds the key.", default="sensor_id", pattern=r"\w+", column="names"),
        Parameter("members", "list", "The members.", items="string", is_set=True, near="ratio"),
        Parameter("prefix", "string", "Members by number: prefix-0000, prefix-0001, … as the generators name them.",
                  pattern=r"[\w-]+"),
        Parameter("count", "integer", "How many members by number.", minimum=1, maximum=200_000),
        Parameter("expected_insertions", "integer", "Members that the filter is sized for.", default=10_000,
                  minimum=1, maximum=1_000_000),
        Parameter("false_positive_ratio", "number", "Share of others that may pass when it is full.", default=0.01,
                  minimum=0.000001, maximum=0.5, unit="1"),
    ),
    selectivity=0.8, cost_us=6,
)

TASK_TYPES = (RANGE_FILTER, BLOOM_FILTER)


def range_filter(inputs: DataFrame, config: Mapping[str, Any]) -> DataFrame:
    """On observations a range is looked up by ``obs``; on other events by column. A missing reading passes."""
    from pyspark.sql import functions as F

    values = settings(RANGE_FILTER, config)
    ranges = value_ranges(values["ranges"])
    if {"obs", "value"} <= set(inputs.columns):
        out = _outside_by_name(ranges)
        if values["outside"] == "drop":
            return inputs.where(~out)
        return inputs.withColumn("value", F.when(~out, F.col("value")))
    require_columns(inputs.columns, list(ranges), task_type="range_filter",
                    remedy="Give ranges for observations, or for columns of the input.")
    outside = {name: _outside(F.col(name), *bounds) for name, bounds in ranges.items()}
    if values["outside"] == "blank":
        return inputs.withColumns({name: F.when(~out, F.col(name)) for name, out in outside.items()})
    for out in outside.values():
        inputs = inputs.where(~out)
    return inputs


def range_filter_check(config: Mapping[str, Any]) -> None:
    """Raise ``InvalidConfig`` where the config cannot be built."""
    value_ranges(settings(RANGE_FILTER, config)["ranges"])


def range_filter_columns(inputs: Columns, values: Mapping[str, Any]) -> Columns:
    """The input's: ranges are of observations where it has ``obs`` and ``value``, else of columns."""
    if "obs" in inputs and "value" in inputs:
        inputs.require_number("value")
        for name in values["ranges"]:
            inputs.require_observation(name, named=values["ranges"], parameter="ranges")
    elif inputs.complete:
        for name in values["ranges"]:
            inputs.require_number(name, parameter="ranges")
    return inputs


def range_filter_contains(wide: Mapping[str, Any], narrow: Mapping[str, Any]) -> Refined | None:
    """The narrow filter can be computed from the wide filter's output, if each of its ranges lies within a wide one.

    A value outside the wide range is outside the narrow range too. What the wide filter dropped or blanked, the narrow
    one would drop or blank as well. Each event is judged alone, in order.
    """
    if wide["outside"] != narrow["outside"]:
        return None
    outer, inner = value_ranges(wide["ranges"]), value_ranges(narrow["ranges"])
    inside = all(
        name in inner and low <= inner[name][0] and inner[name][1] <= high for name, (low, high) in outer.items())
    return Refined("range_filter", narrow) if inside and inner != outer else None


def value_ranges(ranges: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    """Checked ranges by name."""
    checked = {}
    for name, bounds in ranges.items():
        numbers = isinstance(bounds, list | tuple) and len(bounds) == 2 and all(
            isinstance(bound, int | float) and not isinstance(bound, bool) for bound in bounds)
        if not numbers or not bounds[0] <= bounds[1]:
            raise InvalidConfig(f"The range of {name} is not two numbers, the lower first.",
                                remedy=f"Write {name}: [lowest, highest].", name=name, range=bounds)
        checked[name] = (float(bounds[0]), float(bounds[1]))
    if not checked:
        raise InvalidConfig("There is no range to filter by.", remedy="Write ranges: {name: [lowest, highest]}.")
    return checked


def _outside(value: Column, low: float, high: float) -> Column:
    from pyspark.sql import functions as F

    return F.coalesce(~value.between(low, high), F.lit(False))


def _outside_by_name(ranges: Mapping[str, tuple[float, float]]) -> Column:
    from pyspark.sql import functions as F

    outside = F.lit(False)
    for name, bounds in ranges.items():
        outside = F.when(F.col("obs") == name, _outside(F.col("value"), *bounds)).otherwise(outside)
    return outside


def bloom_filter(inputs: DataFrame, config: Mapping[str, Any]) -> DataFrame:
    """The bits are a constant of the query; Spark's own MD5 finds the places to look."""
    from pyspark.sql import functions as F

    values = settings(BLOOM_FILTER, config)
    field = values["field"]
    require_columns(inputs.columns, [field], task_type="bloom_filter", remedy="Set field to the column of the key.")
    members = bloom_members(values)
    bloom = BloomFilter.of(
        members, expected_insertions=values["expected_insertions"],
        false_positive_ratio=values["false_positive_ratio"],
    )
    digest = F.md5(F.col(field).cast("string"))
    first, step = (F.conv(F.substring(digest, start, 8), 16, 10).cast("bigint") for start in (1, 9))
    bits, turns = F.lit(bloom.bits), F.sequence(F.lit(0), F.lit(bloom.hashes - 1))

    def is_set(bit: Column) -> Column:
        octet = F.conv(F.hex(F.substr(bits, (F.shiftright(bit, 3) + 1).cast("int"), F.lit(1))), 16, 10).cast("int")
        return F.getbit(octet, F.pmod(bit, F.lit(8)).cast("int")) == 1

    # One small expression: each micro-batch plans it anew, and unrolled over its turns it would take 40 ms to plan.
    # Where the digest is bound to a variable, it is computed once a key.
    is_member = F.exists(F.array(F.struct(first.alias("first"), step.alias("step"))), lambda hashed: F.forall(
        turns, lambda turn: is_set(F.pmod(hashed["first"] + turn * hashed["step"], F.lit(bloom.size)))))
    return inputs.where(F.col(field).isNotNull() & is_member)


def bloom_filter_check(config: Mapping[str, Any]) -> None:
    """Raise ``InvalidConfig`` where the config cannot be built."""
    bloom_members(settings(BLOOM_FILTER, config))


bloom_filter_columns = same_columns


def bloom_filter_contains(wide: Mapping[str, Any], narrow: Mapping[str, Any]) -> Refined | None:
    """A filter of fewer members, of the same size: its bits are among the wide one's, so whatever passes it, false
    positives included, passes the wide one."""
    sized = ("field", "expected_insertions", "false_positive_ratio")
    alike = all(wide[name] == narrow[name] for name in sized)
    counted = narrow["prefix"] is None or (
        narrow["prefix"] == wide["prefix"] and (narrow["count"] or 0) <= (wide["count"] or 0))
    inside = alike and counted and set(narrow["members"] or ()) <= set(wide["members"] or ())
    return Refined("bloom_filter", narrow) if inside and dict(wide) != dict(narrow) else None


def bloom_members(values: Mapping[str, Any]) -> list[str]:
    """The members that a config lists, and those that it counts."""
    members = [str(member) for member in values["members"] or ()]
    if (values["prefix"] is None) != (values["count"] is None):
        raise InvalidConfig("Members by number need both prefix and count.", remedy="Give both, or neither.")
    if values["prefix"] is not None:
        members += [f"{values['prefix']}-{number:04d}" for number in range(values["count"])]
    if not members:
        raise InvalidConfig("The Bloom filter has no members.", remedy="Give members, or prefix and count.")
    return members
