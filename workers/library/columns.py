"""Names of columns that tasks agree on, and the reading of “name:type” lists."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from scheduler.model.columns import Columns, WrongColumnType

from .config import InvalidConfig

STREAM = ("_seq", "_time", "_born")
OBSERVATION = (*STREAM, "msg_id", "sensor_id", "obs", "meta", "value")
OBSERVATION_NEEDED = ("sensor_id", "obs", "value")
OBSERVATION_REMEDY = "Put a senml_parse with layout long, or an observations task, before it."
COLUMN_TYPES = ("string", "double", "bigint", "decimal(p,s)", "boolean", "timestamp", "binary")
_DECIMAL = re.compile(r"decimal\( ?(\d{1,2}) ?(?:, ?(\d{1,2}) ?)?\)")
MOST_DIGITS = 38  # of a decimal


OBSERVATION_TYPES = {
    "msg_id": "string", "sensor_id": "string", "obs": "string", "meta": "string", "value": "double"}


def same_columns(inputs: Columns, values: Mapping[str, Any]) -> Columns:
    """The columns of a task that passes on what it gets."""
    return inputs


def kept_type(name: str, kind: str | None) -> str | None:
    """The type that a column has behind a fold (``state.fold_stream``): text, where it is no double and no boolean.

    Weir's columns are whole numbers and never null; other integers would lose digits where pandas meets a null.
    """
    if name in STREAM:
        return "bigint"
    return kind if kind in ("double", "boolean", None) else "string"


def kept_columns(inputs: Columns, names: Sequence[str]) -> dict[str, str | None]:
    """Columns of the input as they are behind a fold."""
    return {name: kept_type(name, inputs.type_of(name)) for name in names}


def require_observations(inputs: Columns, *, fields: Sequence[str] | None = None, by: Sequence[str] = ()) -> None:
    """Raise a `ColumnError` where the input does not have what a statistic reads.

    Parameters
    ----------
    fields : sequence of str, optional
        The observations that are chosen: they are told by ``obs``.
    """
    inputs.require_number("value", remedy=OBSERVATION_REMEDY)
    for name in [*by, *(["obs"] if fields else [])]:
        inputs.require(name, parameter="by" if name in by else "", remedy=OBSERVATION_REMEDY)


def require_scalar(inputs: Columns, name: str, *, parameter: str) -> None:
    """Raise a `ColumnError` where a column is not there, or holds lists, mappings or records."""
    kind = inputs.require(name, parameter=parameter)
    if kind is not None and kind.startswith(("array", "map", "struct", "binary")):
        raise WrongColumnType(
            f"The column {name} is {kind}; this reads single values.",
            remedy="Take one value out of it in a sql task before it.", parameter=parameter, value=name, column=name,
            type=kind)


def decimal_of(kind: str) -> tuple[int, int] | None:
    """Precision and scale of a decimal's type (digits in all, and digits behind the point); None for another type.

    Examples
    --------
    >>> decimal_of("decimal(12,2)")
    (12, 2)
    """
    match = _DECIMAL.fullmatch(kind)
    if match is None:
        return None
    precision, scale = int(match[1]), int(match[2] or 0)
    return (precision, scale) if 1 <= precision <= MOST_DIGITS and scale <= precision else None


def column_type(kind: str) -> str | None:
    """A type that may be declared, as Spark's ``simpleString`` has it; None for what is none."""
    if digits := decimal_of(kind):
        return "decimal({},{})".format(*digits)
    return kind if kind in COLUMN_TYPES and "(" not in kind else None


def typed_columns(columns: Sequence[str]) -> dict[str, str]:
    """Names to Spark types, from “name” or “name:type”; a column without a type is a string.

    Raises
    ------
    InvalidConfig
        A name is not a plain one, stands twice, or is Weir's own; or the type is unknown.
    """
    types: dict[str, str] = {}
    taken = set(STREAM)  # Spark does not see case
    for column in columns:
        name, _, written = str(column).partition(":")
        kind = column_type(written or "string")
        if not re.fullmatch(r"[A-Za-z_]\w*", name) or name.lower() in taken or kind is None:
            raise InvalidConfig(
                f"“{column}” is not a column to read.",
                remedy=f"Write “name” or “name:type”, each name once (whatever its case), not {', '.join(STREAM)}; "
                f"types are {', '.join(COLUMN_TYPES)} (p digits, at most {MOST_DIGITS}, s of them behind the point).",
                column=column,
            )
        types[name] = kind
        taken.add(name.lower())
    return types


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
