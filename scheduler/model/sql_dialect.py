"""Spark's SQL as sqlglot reads it for Weir: for the queries of tasks, and for guards."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from sqlglot import exp
from sqlglot.dialects.spark import Spark

logging.getLogger("sqlglot").setLevel(logging.CRITICAL)  # it logs texts that are refused here


class Dialect(Spark):
    """Spark's SQL, in which every function stays the name that was written and its arguments."""

    class Parser(Spark.Parser):
        FUNCTIONS: Mapping[str, Callable[..., Any]] = {}
        FUNCTION_PARSERS = {
            name: parser for name, parser in Spark.Parser.FUNCTION_PARSERS.items() if name in ("CAST", "TRY_CAST")}
        NO_PAREN_FUNCTION_PARSERS = {
            name: parser for name, parser in Spark.Parser.NO_PAREN_FUNCTION_PARSERS.items() if name == "CASE"}


def function_name(node: exp.Expression) -> str:
    """The name of a function that is called, in lower case; empty for anything else."""
    return node.name.lower() if isinstance(node, exp.Anonymous) else ""


def number(node: exp.Expression | None) -> int | float | None:
    """The number that a literal writes, with its sign: an int, or a float where it has a point or an exponent."""
    if isinstance(node, exp.Paren):
        return number(node.this)
    if isinstance(node, exp.Neg):
        inner = number(node.this)
        return None if inner is None else -inner
    if not isinstance(node, exp.Literal) or node.is_string:
        return None
    text = node.this
    try:
        value = int(text) if text.isdigit() else float(text)
    except ValueError:  # more digits than Python reads, or none behind an exponent
        return None
    return value if value - value == 0 else None  # what no double holds is no number
