"""Filters: events out of range, and events whose key is not a member."""

from __future__ import annotations

from scheduler.model.task_types import Parameter, TaskType

RANGE_FILTER = TaskType(
    name="range_filter", kind="transform", family="filter",
    doc="Drops readings that are out of their range, or blanks them for an interpolation to fill.",
    build="workers.library.filter:range_filter",
    parameters=(
        Parameter("ranges", "object", "By observation (or column): [lowest, highest], both inclusive.", required=True),
        Parameter("outside", "string", "drop the event, or blank its value.", default="drop",
                  choices=("drop", "blank")),
    ),
    selectivity=0.9, cost_us=3,
)
BLOOM_FILTER = TaskType(
    name="bloom_filter", kind="transform", family="filter",
    doc="Keeps events whose key is a member of a set, held in a Bloom filter: no member is lost, few others pass.",
    build="workers.library.filter:bloom_filter",
    parameters=(
        Parameter("field", "string", "Column that holds the key.", default="sensor_id", pattern=r"\w+"),
        Parameter("members", "list", "The members.", items="string"),
        Parameter("prefix", "string", "Members by number: prefix-0000, prefix-0001, … as the generators name them.",
                  pattern=r"[\w-]+"),
        Parameter("count", "integer", "How many members by number.", minimum=1, maximum=200_000),
        Parameter("expected_insertions", "integer", "Members that the filter is sized for.", default=10_000,
                  minimum=1, maximum=1_000_000),
        Parameter("false_positive_ratio", "number", "Share of others that may pass when it is full.", default=0.01,
                  minimum=0.000001, maximum=0.5),
    ),
    selectivity=0.8, cost_us=6,
)

TASK_TYPES = (RANGE_FILTER, BLOOM_FILTER)
