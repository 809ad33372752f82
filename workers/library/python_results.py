"""The result of a package's function: a table of the columns that its task declares, in their types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from scheduler.model.columns import nearest

from .arrow_types import arrow_type
from .columns import STREAM
from .python_calls import wrong

if TYPE_CHECKING:
    import pyarrow as pa


def complete(result: pa.Table, columns: Mapping[str, str]) -> pa.Table:
    """A result with all columns, in their order; one that failed has no values."""
    import pyarrow as pa

    names = [*STREAM, *columns]
    return pa.table([
        result.column(name) if name in result.column_names else pa.nulls(result.num_rows, arrow_type(columns[name]))
        for name in names], names=names)


def checked(result: Any, columns: Mapping[str, str], function: str) -> pa.Table:
    """The result of a function, in the order and types that are declared.

    Raises
    ------
    InvalidConfig
        It is no table, or one of other columns.
    """
    import pyarrow as pa

    if isinstance(result, pa.RecordBatch):
        result = pa.Table.from_batches([result])
    if not isinstance(result, pa.Table):
        raise wrong(function, f"gave {type(result).__name__} and no Arrow table", "Let it give a pyarrow.Table.")
    kinds = {**dict.fromkeys(STREAM, "bigint"), **columns}
    names = result.column_names
    if missing := [name for name in kinds if name not in names]:
        near = nearest(missing[0], [name for name in names if name not in kinds])
        remedy = ("Keep _seq, _time and _born of the events that a result is made from." if missing[0] in STREAM else
                  f"It gave {near}: give it that name, or declare that one." if near else
                  "Let it give that column, or leave it out of “columns”.")
        raise wrong(function, f"gave no column {', '.join(missing)}", remedy)
    if further := [name for name in names if name not in kinds] or [
            name for name in dict.fromkeys(names) if names.count(name) > 1]:
        raise wrong(function, f"gave a column {', '.join(further)} that is not declared once",
                     "Declare it in “columns” with its type, or let the function leave it out.")
    return pa.table({name: _cast(result.column(name), name, kind, function) for name, kind in kinds.items()})


def _cast(values: pa.ChunkedArray, name: str, kind: str, function: str) -> pa.ChunkedArray:
    import pyarrow as pa

    types = pa.types
    if types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    fits = {
        "string": lambda of: types.is_string(of) or types.is_large_string(of),
        "double": lambda of: types.is_floating(of) or types.is_integer(of),
        "bigint": types.is_integer, "boolean": types.is_boolean, "timestamp": types.is_timestamp,
        "binary": lambda of: types.is_binary(of) or types.is_large_binary(of),
        "decimal": lambda of: types.is_decimal(of) or types.is_integer(of),
    }[kind.partition("(")[0]](values.type) or types.is_null(values.type)
    arrow_kind = arrow_type(kind)
    if not fits:
        raise wrong(function, f"gave the column {name} as {values.type}, which is declared as {kind}",
                     f"Declare it otherwise, or let the function make {arrow_kind} of it.")
    if name in STREAM and values.null_count:
        raise wrong(function, f"gave null as {name}", "Keep _seq, _time and _born of the events.")
    try:
        return values.cast(arrow_kind)
    except pa.ArrowInvalid as error:
        raise wrong(function, f"gave a value as {name} that is no {kind} ({error})",
                     "Let it give such values.") from None
