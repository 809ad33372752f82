"""Spark's readers of JSON, CSV and XML, with numbers by their text: a number that becomes a text is the text that came,
and a decimal has every digit or is null. What they do with it in the driver is ``WrittenNumbers.java``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from .columns import decimal_of
from .spark_text import columns_ddl

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

READING = {"mode": "PERMISSIVE", "timeZone": "UTC"}


def from_json(inputs: DataFrame, text: Column, ddl: str) -> Column:
    """Spark's ``from_json``, where the schema (DDL) has a string the very text of a number."""
    from pyspark.sql import functions as F

    _register(inputs)
    return F.from_json(F.call_function("weir_kept", text, F.lit(ddl)), ddl, READING)


def typed_values(
    inputs: DataFrame, text: Column, types: Mapping[str, str], read: Callable[[Column, str], Column]
) -> list[Column]:
    """The columns of a text.

    Parameters
    ----------
    read : callable
        Spark's reader, of a text and a schema (DDL): it reads decimals as text, since it would round them.
    """

    _register(inputs)
    record = read(text, columns_ddl({name: "string" if decimal_of(kind) else kind for name, kind in types.items()}))
    return [_exact(record[name], kind).alias(name) for name, kind in types.items()]


def _exact(value: Column, kind: str) -> Column:
    from pyspark.sql import functions as F

    digits = decimal_of(kind)
    return F.call_function("weir_decimal", value, *map(F.lit, digits)) if digits else value


def _register(inputs: DataFrame) -> None:
    session = inputs.sparkSession
    session._jvm.weir.WrittenNumbers.register(session._jsparkSession)
