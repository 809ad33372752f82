"""Tables to look something up in: read as a whole, kept in each Python worker, and read again after a while.

It is for tables of up to some hundred thousand rows that are used for every event. A larger table, or one that must be
as new as the event, is queried row by row by ``sql_lookup``. A table comes from a replay folder (CSV, Parquet) or from
a read-only database (`databases`). While it cannot be read again, the last rows stay in use.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scheduler.model.columns import Columns
from scheduler.model.task_types import Parameter, TaskType

from .casting import MOST_PLACES
from .columns import require_scalar, typed_columns
from .config import InvalidConfig, settings
from .databases import DatabaseLocation, locate, open_database
from .files import replay_path
from .outside import NotAnswered, typed, with_answers
from .spark_text import columns_ddl
from .sql import require_reading

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LOOKUP = TaskType(
    name="lookup", kind="transform", family="operator",
    doc="Adds to each event the columns of its row in a table that is read as a whole, and again after a while.",
    build="workers.library.lookups:lookup", effects=("database",),
    parameters=(
        Parameter("path", "string", "The table as a file in a replay folder: CSV with a header, or Parquet.",
                  is_file=True, pattern=r"[^/\\].*"),
        Parameter("database", "string", "The address of the database that holds the table, instead of a file; written "
                  "as for sql_lookup.", secret=True),
        Parameter("query", "string", "With database: one SELECT that gives the key's columns, then those of “columns”, "
                  "in their order.", pattern=r"(?is)\s*(select|with|values)\b.*", query=True),
        Parameter("on", "list", "Columns by which an event finds its row, each “column” or, where the file's has "
                  "another name, “column=name there”. They are compared as text; of several rows the last one counts.",
                  required=True, items="string", column="within"),
        Parameter("columns", "list", "Columns to add, each “name” or “name:type” (string, double, bigint, boolean, "
                  "timestamp).", required=True, items="string"),
        Parameter("refresh", "number", "The time after which the table is read again.", default=300, minimum=1,
                  maximum=604_800, unit="s"),
        Parameter("missing", "string", "What becomes of an event without a row: it goes on with nulls, or is left out.",
                  default="null", choices=("null", "drop")),
    ),
    cost_us=10,
)
TASK_TYPES = (LOOKUP,)
MOST_ROWS = 1_000_000
PATIENCE_S = 30.0
Rows = dict[tuple[str | None, ...], tuple]


@dataclass(frozen=True, slots=True)
class TableSource:
    """The source of a table: a file, or a database and the query for it; the key's columns there, and the others with
    their types."""

    path: str
    location: DatabaseLocation | None
    query: str
    keys: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]


@dataclass(slots=True)
class _Kept:
    rows: Rows
    due_s: float


_tables: dict[TableSource, _Kept] = {}  # of this Python worker


def lookup(inputs: DataFrame, config: Mapping[str, Any]) -> DataFrame:
    """Each event with the columns of its row."""
    values = settings(LOOKUP, config)
    on, columns = joined_on(values["on"]), typed_columns(values["columns"])
    location = locate(values["database"]) if values["database"] else None
    source = TableSource(
        str(replay_path(values["path"])) if values["path"] else "", location, values["query"] or "", tuple(on.values()),
        tuple(columns.items()))
    ask = partial(row_of, source=source, on=tuple(on), refresh_s=float(values["refresh"]),
                  drops=values["missing"] == "drop")
    return with_answers(
        inputs, task_type="lookup", reads=list(on), ask=ask, nothing=(None,) * len(columns), on_error="fail",
        adds=columns_ddl(columns))


def lookup_check(config: Mapping[str, Any]) -> None:
    """Raise ``InvalidConfig`` where the config cannot be built; the database itself is known to the slot alone."""
    values = settings(LOOKUP, config)
    columns, on = typed_columns(values["columns"]), joined_on(values["on"])
    if not columns or not on:
        raise InvalidConfig("A lookup needs a key and columns to add.", remedy="Name them in “on” and “columns”.")
    if (values["path"] is None) == (values["database"] is None) or (values["database"] is None) != (
            values["query"] is None):
        raise InvalidConfig("A table is a file, or a database with a query.",
                            remedy="Give path alone, or database and query.")
    if values["path"]:
        path = replay_path(values["path"])
        present = _reader(path)[1](path)
        if missing := sorted({*on.values(), *columns} - set(present)):
            raise InvalidConfig(f"The table {values['path']} has no column {', '.join(missing)}.",
                                remedy=f"It has {', '.join(present)}.", parameter="columns")
    else:
        require_reading(values["query"])


def lookup_columns(inputs: Columns, values: Mapping[str, Any]) -> Columns:
    """The input's, and those of the row."""
    for name in joined_on(values["on"]):
        require_scalar(inputs, name, parameter="on")
    return inputs.renewed(typed_columns(values["columns"]))


def joined_on(entries: Sequence[str]) -> dict[str, str]:
    """The key: by the event's column, the table's."""
    pairs = [str(entry).partition("=") for entry in entries]
    return {name.strip(): (table_column or name).strip() for name, _, table_column in pairs}


def row_of(
    event: Mapping[str, Any], *, source: TableSource, on: tuple[str, ...], refresh_s: float, drops: bool,
    clock: Callable[[], float] = time.monotonic,
) -> list[tuple]:
    """The row that belongs to an event, from the table as this worker has it.

    Parameters
    ----------
    on : tuple of str
        The event's columns of the key, in the table's order.
    refresh_s : float
        The seconds after which the table is read again.
    drops : bool
        True where an event without a row gets none; else it gets one of nulls.

    Raises
    ------
    NotAnswered
        The table could not be read, and was not before.
    """
    table, now_s = _tables.get(source), clock()
    if table is None or now_s >= table.due_s:
        try:
            table = _Kept(read_table(source), now_s + refresh_s)
        except NotAnswered:
            if table is None:
                raise
            table.due_s = now_s + min(refresh_s, 10.0)
        _tables[source] = table
    row = table.rows.get(tuple(_text(event[name]) for name in on))
    if row is not None:
        return [row]
    return [] if drops else [(None,) * len(source.columns)]


def read_table(source: TableSource) -> Rows:
    """All rows by their key; ``NotAnswered`` where they cannot be read, or are too many."""
    names = [*source.keys, *(name for name, _ in source.columns)]
    try:
        rows = _from_database(source, len(names)) if source.location is not None else _from_file(source, names)
    except (ConnectionError, LookupError, OSError, ValueError, InvalidConfig) as error:
        raise NotAnswered(f"The table cannot be read: {error}") from None
    if len(rows) > MOST_ROWS:
        raise NotAnswered(f"The table has more than {MOST_ROWS:,} rows.")
    count, kinds = len(source.keys), [kind for _, kind in source.columns]
    return {
        tuple(map(_text, row[:count])): tuple(map(typed, row[count:], kinds)) for row in rows}


def _from_database(source: TableSource, width: int) -> list[tuple]:
    database = open_database(source.location, patience_s=PATIENCE_S)
    try:
        text = source.query.replace("%", "%%") if database.style == "pyformat" else source.query
        rows = database.rows(text, {}, most=MOST_ROWS + 1)
    finally:
        database.close()
    if rows and len(rows[0]) != width:
        raise LookupError(f"the query gives {len(rows[0])} columns, the key and “columns” are {width}")
    return rows


def _from_file(source: TableSource, names: Sequence[str]) -> list[tuple]:
    path = Path(source.path)
    table = _reader(path)[0](path, list(dict.fromkeys(names)))
    columns = {name: table.column(name).to_pylist() for name in table.column_names}
    return list(zip(*(columns[name] for name in names), strict=True))


def _reader(path: Path) -> tuple[Callable[[Path, list[str]], Any], Callable[[Path], list[str]]]:
    """How a file is read, and its columns told."""
    if path.suffix.lower() == ".parquet":
        return _parquet, _parquet_columns
    if path.suffix.lower() == ".csv":
        return _csv, _csv_columns
    raise InvalidConfig(f"{path.name} is neither CSV nor Parquet.", remedy="Name a .csv or .parquet file.",
                        parameter="path")


def _parquet(path: Path, columns: list[str]) -> Any:
    import pyarrow.parquet as pq

    return pq.read_table(path, columns=columns)


def _parquet_columns(path: Path) -> list[str]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.read_schema(path).names
    except (pa.ArrowException, OSError) as error:
        raise InvalidConfig(f"{path.name} cannot be read as Parquet: {error}", remedy="Name another file.",
                            parameter="path") from error


def _csv(path: Path, columns: list[str]) -> Any:
    import pyarrow as pa
    from pyarrow import csv

    options = csv.ConvertOptions(
        column_types=dict.fromkeys(columns, pa.string()), include_columns=columns, strings_can_be_null=True,
        null_values=[""], quoted_strings_can_be_null=False)
    return csv.read_csv(path, convert_options=options)


def _csv_columns(path: Path) -> list[str]:
    import csv

    with path.open(encoding="utf-8-sig", newline="", errors="replace") as lines:
        try:
            return next(csv.reader(lines), [])
        except csv.Error as error:
            raise InvalidConfig(f"The header of {path.name} cannot be read as CSV: {error}.",
                                remedy="Mend its first line, or name another file.", parameter="path") from None


def _text(value: Any) -> str | None:
    """A key's value as it is compared: text; a number as short as it can be written, whole ones without a point."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    elif isinstance(value, Decimal) and value.is_finite() and abs(value.adjusted()) <= MOST_PLACES:
        text = f"{value:f}"
        value = (text.rstrip("0").rstrip(".") if "." in text else text) if value else "0"
    return None if value is None else str(value)
