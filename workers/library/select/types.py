"""Spark's types as text: what a query writes as one, what two of them become together, what may be cast to what."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.errors import SqlglotError

from scheduler.model.sql_dialect import Dialect

from ..columns import MOST_DIGITS, decimal_of
from ..spark_types import is_field_name

INTEGERS = ("tinyint", "smallint", "int", "bigint")
_DIGITS = dict(zip(INTEGERS, (3, 5, 10, 19), strict=True))
VOID = "void"  # of NULL
UNKNOWN = None
_PLAIN = {
    exp.DataType.Type.TEXT: "string", exp.DataType.Type.VARCHAR: "string", exp.DataType.Type.INT: "int",
    exp.DataType.Type.BIGINT: "bigint", exp.DataType.Type.DOUBLE: "double", exp.DataType.Type.FLOAT: "float",
    exp.DataType.Type.BOOLEAN: "boolean", exp.DataType.Type.TIMESTAMP: "timestamp",
    exp.DataType.Type.TIMESTAMPTZ: "timestamp", exp.DataType.Type.DATE: "date",
    exp.DataType.Type.SMALLINT: "smallint", exp.DataType.Type.TINYINT: "tinyint"}
CASTS = frozenset({"string", "double", "bigint", "int", "boolean", "timestamp", "date"})
_FROM_STRING = CASTS
_CASTABLE = {
    "string": _FROM_STRING, "boolean": {"string", "double", "bigint", "int", "boolean"},
    "number": {"string", "double", "bigint", "int", "boolean"}, "timestamp": {"string", "timestamp", "date"},
    "date": {"string", "timestamp", "date"}}


def is_number(kind: str | None) -> bool:
    """True where a type is one of numbers."""
    return kind is not None and (kind in (*INTEGERS, "float", "double") or kind.startswith("decimal"))


def common_kind(one: str | None, other: str | None) -> str | None:
    """The type that values of two types have in common; raises ``ValueError`` where they have none."""
    if one is UNKNOWN or other is UNKNOWN:
        return UNKNOWN
    if one == other or other == VOID:
        return one
    if one == VOID:
        return other
    if is_number(one) and is_number(other):
        digits = [digits_of(kind) for kind in (one, other)]
        if None in digits:
            return "double"
        if one in INTEGERS and other in INTEGERS:
            return max(one, other, key=INTEGERS.index)
        scale = max(scale for _, scale in digits)
        return _decimal(max(precision - scale for precision, scale in digits) + scale, scale)
    raise ValueError


def digits_of(kind: str | None) -> tuple[int, int] | None:
    """Precision and scale of an exact number's type; None for other types."""
    return (_DIGITS[kind], 0) if kind in _DIGITS else decimal_of(kind or "")


def _decimal(precision: int, scale: int) -> str:
    if precision > MOST_DIGITS:
        raise ValueError
    return f"decimal({precision},{scale})"


def as_decimal(kind: str) -> str:
    """The decimal type of an exact number."""
    return _decimal(*(digits_of(kind) or (0, 0)))


def decimal_result(sign: str, one: str, other: str) -> str:
    """The type of two decimals joined by +, -, * or %, as Spark has it; raises ``ValueError`` where that would
    round, which it does where a product needs more digits than there are."""
    (precision, scale), (another, further) = digits_of(one), digits_of(other)
    if sign == "*":
        whole, after = precision - scale + another - further + 1, scale + further
    elif sign == "%":
        whole, after = min(precision - scale, another - further), max(scale, further)
    else:
        whole, after = max(precision - scale, another - further) + 1, max(scale, further)
    if whole + after <= MOST_DIGITS:
        return f"decimal({whole + after},{after})"
    if after > 6:  # Spark keeps six, and gives up others for digits before the point
        raise ValueError
    return f"decimal({MOST_DIGITS},{after})"


def arithmetic(kind: str | None) -> str | None:
    """The type in which a number is calculated: int, bigint, its own decimal, or double."""
    results = {"tinyint": "int", "smallint": "int", "int": "int", "bigint": "bigint", UNKNOWN: UNKNOWN}
    return kind if kind and decimal_of(kind) else results.get(kind, "double")


def may_cast(kind: str | None, to: str) -> bool:
    """True where values of a type can be cast to another, with null for what does not fit."""
    if kind in (UNKNOWN, VOID):
        return True
    if kind.startswith(("array<", "map<", "struct<")):
        return to == "string"
    if decimal_of(to):
        return kind == "string" or is_number(kind)
    return to in _CASTABLE.get("number" if is_number(kind) else kind, ())


def read_type(node: exp.Expression) -> str | None:
    """A type that a query writes, as Spark's ``simpleString``; None for one that is not taken, or whose fields have
    names that such a text cannot hold."""
    if not isinstance(node, exp.DataType):
        return None
    if node.this in _PLAIN and not node.expressions:
        return _PLAIN[node.this]
    if node.this == exp.DataType.Type.DECIMAL:
        digits = ",".join(part.name for part in node.expressions) or "10"
        return as_decimal(f"decimal({digits})") if decimal_of(f"decimal({digits})") else None
    inner = [(part.name, read_type(part.args["kind"])) if isinstance(part, exp.ColumnDef) and part.args.get("kind")
             else ("", read_type(part)) for part in node.expressions]
    if not inner or any(kind is None for _, kind in inner):
        return None
    if node.this == exp.DataType.Type.ARRAY:
        return f"array<{inner[0][1]}>"
    if node.this == exp.DataType.Type.MAP and len(inner) == 2:
        return f"map<{inner[0][1]},{inner[1][1]}>"
    if node.this == exp.DataType.Type.STRUCT and all(is_field_name(name) for name, _ in inner):
        return "struct<{}>".format(",".join(f"{name}:{kind}" for name, kind in inner))
    return None


def read_schema(ddl: str) -> str | None:
    """The type that ``from_json`` is given as text: of columns (``a int, b string``) or one type; None for none."""
    for text in (ddl, f"struct<{ddl}>"):
        try:
            kind = read_type(exp.DataType.build(text, dialect=Dialect))
        except (SqlglotError, ValueError):
            continue
        if kind is not None and kind.startswith(("array<", "map<", "struct<")):
            return kind
    return None
