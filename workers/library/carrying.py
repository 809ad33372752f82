"""Events that travel through a fold as they are: their columns in one text, and back.

A fold keeps doubles, booleans and text; lists, records, times and whole numbers would lose something on the way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import StructType

_OPTIONS = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "timeZone": "UTC"}


def packed(names: Sequence[str]) -> Column:
    """The columns as one text."""
    from pyspark.sql import functions as F

    return F.to_json(F.struct(*[F.col(name) for name in names]), _OPTIONS) if names else F.lit("{}")


def unpacked(
    text: str, names: Sequence[str], schema: StructType, *, renamed: dict[str, str] | None = None
) -> list[Column]:
    """The columns again, from the column that holds the text."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructField, StructType

    if not names:
        return []
    schema_kept = StructType([StructField(name, schema[name].dataType) for name in names])
    read = F.from_json(F.col(text), schema_kept, _OPTIONS)
    return [read[name].alias((renamed or {}).get(name, name)) for name in names]
