"""Types of columns as Arrow has them: of those that are declared, and what Parquet's are in Spark, without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .columns import STREAM, decimal_of

if TYPE_CHECKING:
    import pyarrow as pa


def arrow_type(kind: str) -> pa.DataType:
    """The type of a column that is declared as “name:kind”."""
    import pyarrow as pa

    digits = decimal_of(kind)
    return pa.decimal128(*digits) if digits else {
        "string": pa.string(), "double": pa.float64(), "bigint": pa.int64(), "boolean": pa.bool_(),
        "timestamp": pa.timestamp("us", tz="UTC"), "binary": pa.binary()}[kind]


def values_of_column(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """The values of a column; a time that Python has none for (beyond the year 9999) as Arrow writes it."""
    import pyarrow as pa

    none = (ValueError, OverflowError, LookupError, pa.ArrowException)  # LookupError: of a zone that nobody knows
    try:
        return column.to_pylist()
    except none:
        pass
    texts = [f"what cannot be shown ({str(column.type)[:80]})"] * len(column)
    if pa.types.is_temporal(column.type):
        with suppress(*none):
            texts = column.cast(pa.string()).to_pylist()
    values = []
    for index, text in enumerate(texts):
        try:
            values.append(column[index].as_py())
        except none:
            values.append(text)
    return values


def rows_in(events: pa.Table | pa.RecordBatch) -> list[dict[str, Any]]:
    """Events as dictionaries, with the values of `values_of_column`."""
    names = events.schema.names
    columns = [values_of_column(column) for column in events.columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)] if names else []


def parquet_types(files: Sequence[Path]) -> dict[str, str | None] | None:
    """The columns of Parquet files of one recording, without Weir's own; None where they cannot be read together."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        schema = pa.unify_schemas([pq.read_schema(file) for file in files], promote_options="default")
    except (pa.ArrowException, OSError):
        return None
    return {field.name: spark_type(field.type) for field in schema if field.name not in STREAM}


def spark_type(kind: pa.DataType) -> str | None:
    """The Spark type that an Arrow type becomes, as its ``simpleString``; None for one that is not told here."""
    import pyarrow as pa

    plain = {
        pa.bool_(): "boolean", pa.int8(): "tinyint", pa.int16(): "smallint", pa.int32(): "int", pa.int64(): "bigint",
        pa.float32(): "float", pa.float64(): "double", pa.string(): "string", pa.large_string(): "string",
        pa.date32(): "date", pa.binary(): "binary",
    }
    if kind in plain:
        return plain[kind]
    if pa.types.is_dictionary(kind):
        return spark_type(kind.value_type)
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz else "timestamp_ntz"
    if pa.types.is_decimal128(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        element = spark_type(kind.value_type)
        return element and f"array<{element}>"
    if pa.types.is_struct(kind):
        types = [(field.name, spark_type(field.type)) for field in kind]
        return "struct<{}>".format(",".join(f"{name}:{inner}" for name, inner in types)) if all(
            inner for _, inner in types) else None
    return None
