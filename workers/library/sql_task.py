"""The task ``sql``: a SELECT over the events that enter it, each by itself.

What it computes fails for no value: what cannot be computed is null. It gives the same whenever and wherever a batch is
repeated, because nothing that it may call depends on anything but the event.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from scheduler.model.columns import Columns
from scheduler.model.refinement import Refined
from scheduler.model.task_types import Parameter, TaskType

from .config import settings
from .select.compiling import compiled
from .select.containing import contained
from .select.form import one_form
from .select.functions import NAMES
from .select.grammar import parse
from .select.parsed_text import read_condition, select_entries
from .state import task_being_built

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SQL = TaskType(
    name="sql", kind="transform", family="operator",
    doc="A SELECT over its input: expressions, conditions, functions on text, times, JSON and lists, explode. It sees "
        "one event at a time; what cannot be computed is null.",
    build="workers.library.sql_task:sql", effects=(),
    parameters=(
        Parameter("query", "string", "SELECT … FROM input [WHERE …] in Spark's SQL. Weir's columns are always there. "
                  f"Functions: {', '.join(sorted(NAMES))}.",
                  required=True, pattern=r"(?s).*\S.*", column="within", form=one_form, expression=True),
    ),
    cost_us=3,
)
TASK_TYPES = (SQL,)


def sql(inputs: DataFrame, config: Mapping[str, Any]) -> DataFrame:
    """The query's result by Spark, once the query is checked against the columns that really come."""
    values = settings(SQL, config)
    columns = Columns(dict(inputs.dtypes))
    plan = compiled(parse(values["query"]), columns, task=task_being_built())
    events = inputs if plan.where is None else inputs.where(read_condition(inputs, plan.where, columns=columns.types))
    return select_entries(events, plan.entries, columns=columns.types)


def sql_check(config: Mapping[str, Any]) -> None:
    """Raise ``InvalidConfig`` where the query is none, or cannot be a task's."""
    parse(settings(SQL, config)["query"])


def sql_columns(inputs: Columns, values: Mapping[str, Any]) -> Columns:
    """Weir's, and those that the query gives."""
    return compiled(parse(values["query"]), inputs).columns


def sql_contains(wide: Mapping[str, Any], narrow: Mapping[str, Any]) -> Refined | None:
    """A SELECT whose condition is stronger and which needs nothing that the wide one leaves out."""
    query = contained(wide["query"], narrow["query"])
    return None if query is None else Refined("sql", {"query": query})
