"""The types that Parquet's columns have in Spark, told without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .columns import STREAM

if TYPE_CHECKING:
    import pyarrow as pa


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
