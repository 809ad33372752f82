"""Rows of a database: for each event those that a query finds, its values bound and never written into the text.

Any team may keep a database's address as a secret, so the operator names the hosts that it may lead to
(``WEIR_DATABASE_HOSTS``) and SQLite files lie in a replay folder. Every query runs read-only, with a time limit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from scheduler.model.columns import Columns
from scheduler.model.task_types import Parameter, TaskType

from .columns import typed_columns
from .config import InvalidConfig, settings
from .databases import Database, DatabaseLocation, locate, open_database
from .outside import ON_ERROR, PATIENCE, NotAnswered, typed, with_answers
from .spark_text import columns_ddl
from .sql import require_reading

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SQL_LOOKUP = TaskType(
    name="sql_lookup", kind="transform", family="io",
    doc="Looks up in a database what belongs to an event, and adds the columns that it finds; reads only.",
    build="workers.library.tables:sql_lookup", effects=("database",),
    parameters=(
        Parameter("database", "string", "The database's address: postgresql://user:password@host/name, whose host must "
                  "be one that the operator allows (WEIR_DATABASE_HOSTS), or sqlite:FILE in a replay folder.",
                  required=True, secret=True),
        Parameter("query", "string", "One SELECT, VALUES or WITH … SELECT that reads. :column stands for the event's "
                  "value.", required=True, pattern=r"(?is)\s*(select|with|values)\b.*", query=True),
        Parameter("columns", "list", "The query's columns in their order, each “name” or “name:type” (string, double, "
                  "bigint, boolean, timestamp).", required=True, items="string"),
        Parameter("rows", "string", "first: one event for each, its columns null where nothing is found; all: an event "
                  "for each row, and none without rows.", default="first", choices=("first", "all")),
        PATIENCE, ON_ERROR,
    ),
    cost_us=300,
)
TASK_TYPES = (SQL_LOOKUP,)
MOST_ROWS = 10_000  # for one event
# What a placeholder may not stand in: text, quoted names, comments; and PostgreSQL's casts.
_PARTS = re.compile(
    r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?(?:\*/|\Z)|::|:(?P<name>[A-Za-z_]\w*)", re.DOTALL)
_open: dict[tuple[DatabaseLocation, float], Database] = {}  # of this Python worker


@dataclass(frozen=True, slots=True)
class TableQuery:
    """A query with its placeholders found: what stands between them, and the columns that they name."""

    between: tuple[str, ...]
    names: tuple[str, ...]

    def text(self, style: str) -> str:
        """In the style of a driver: ``named`` (:name) or ``pyformat`` (%(name)s, a percent sign doubled)."""
        if style == "pyformat":
            parts = [part.replace("%", "%%") for part in self.between]
            placeholders = [f"%({name})s" for name in self.names]
        else:
            parts, placeholders = list(self.between), [f":{name}" for name in self.names]
        return "".join(part + placeholder for part, placeholder in zip(parts, [*placeholders, ""], strict=True))


def read_query(text: str) -> TableQuery:
    """Find the placeholders of a query."""
    between, names, start = [], [], 0
    for part in _PARTS.finditer(text):
        if part["name"]:
            between.append(text[start:part.start()])
            names.append(part["name"])
            start = part.end()
    return TableQuery((*between, text[start:]), tuple(names))


def sql_lookup(inputs: DataFrame, config: Mapping[str, Any]) -> DataFrame:
    """Each event with the columns of its row, or of each of its rows."""
    values = settings(SQL_LOOKUP, config)
    columns, query = typed_columns(values["columns"]), read_query(values["query"])
    nothing = (None,) * len(columns)
    ask = partial(
        look_up, location=locate(values["database"]), query=query, kinds=tuple(columns.values()),
        first=values["rows"] == "first", patience_s=float(values["patience"]),
    )
    return with_answers(
        inputs, task_type="sql_lookup", reads=list(dict.fromkeys(query.names)), ask=ask,
        adds=columns_ddl(columns), nothing=nothing,
        on_error=values["on_error"],
    )


def sql_lookup_check(config: Mapping[str, Any]) -> None:
    """Raise ``InvalidConfig`` where the config cannot be built; the database itself is known to the slot alone."""
    require_reading(str(config.get("query") or ""))
    columns = typed_columns(config.get("columns") or ())
    if not columns:
        raise InvalidConfig("sql_lookup adds no column.", remedy="Name the query's columns in “columns”.")


def sql_lookup_columns(inputs: Columns, values: Mapping[str, Any]) -> Columns:
    """The input's, and those of the row."""
    for name in dict.fromkeys(read_query(values["query"]).names):
        inputs.require(name, parameter="query")
    return inputs.renewed(typed_columns(values["columns"]))


def look_up(
    event: Mapping[str, Any], *, location: DatabaseLocation, query: TableQuery, kinds: tuple[str, ...], first: bool,
    patience_s: float,
) -> list[tuple]:
    """The rows that belong to an event, over this worker's connection; opened anew once where it was lost.

    Parameters
    ----------
    event : mapping
        The event's columns, whose values the query binds.
    kinds : tuple of str
        The types of the columns that the query gives.
    first : bool
        True where only the first row counts: an event without rows gets one of nulls.

    Raises
    ------
    NotAnswered
        The database refused the query, or did not answer in time.
    """
    key = (location, patience_s)
    for is_last in (key not in _open, True):
        try:
            database = _open.get(key) or _open.setdefault(key, open_database(location, patience_s=patience_s))
            rows = database.rows(query.text(database.style), event, most=1 if first else MOST_ROWS)
        except ConnectionError as error:
            if database := _open.pop(key, None):
                database.close()
            if is_last:
                raise NotAnswered(f"The database cannot be reached: {error}") from None
            continue
        except LookupError as error:
            raise NotAnswered(f"The database refused the query: {error}") from None
        wrong = next((len(row) for row in rows if len(row) != len(kinds)), None)
        if wrong is not None:
            raise NotAnswered(f"The query gives {wrong} columns, “columns” names {len(kinds)}.")
        typed_rows = [tuple(typed(value, kind) for value, kind in zip(row, kinds, strict=True)) for row in rows]
        return typed_rows or ([(None,) * len(kinds)] if first else [])
    raise AssertionError("the last try returns or raises")
