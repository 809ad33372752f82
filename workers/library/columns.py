"""Names of columns that tasks agree on, and the reading of “name:type” lists."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .config import InvalidConfig

STREAM = ("_seq", "_time", "_born")
OBSERVATION = (*STREAM, "msg_id", "sensor_id", "obs", "meta", "value")
OBSERVATION_NEEDED = ("sensor_id", "obs", "value")
OBSERVATION_REMEDY = "Put a senml_parse with layout long, or an observations task, before it."
COLUMN_TYPES = ("string", "double", "bigint", "boolean", "timestamp")


def typed_columns(columns: Sequence[str]) -> dict[str, str]:
    """Names to Spark types, from “name” or “name:type”; a column without a type is a string.

    Raises
    ------
    InvalidConfig
        A name is not a plain one, stands twice, or is Weir's own; or the type is unknown.
    """
    found: dict[str, str] = {}
    for column in columns:
        name, _, kind = str(column).partition(":")
        kind = kind or "string"
        if not re.fullmatch(r"[A-Za-z_]\w*", name) or name in STREAM or name in found or kind not in COLUMN_TYPES:
            raise InvalidConfig(
                f"“{column}” is not a column to read.",
                remedy=f"Write “name” or “name:type”, each name once, not {', '.join(STREAM)}; "
                f"types are {', '.join(COLUMN_TYPES)}.", column=column,
            )
        found[name] = kind
    return found


def key_columns(by: Sequence[str], *, added: Sequence[str]) -> list[str]:
    """The key columns of a config.

    Raises
    ------
    InvalidConfig
        There is none, one stands twice, or one has the name of a column that the task adds or that is Weir's own.
    """
    names = [str(name) for name in by]
    taken = sorted({name for name in names if name in (*STREAM, *added) or names.count(name) > 1})
    if taken or not names:
        raise InvalidConfig(
            f"{', '.join(taken)} cannot be a key." if taken else "A key needs at least one column.",
            remedy="Name in “by” each column once that tells keys apart, such as sensor_id or obs.", by=names,
        )
    return names
