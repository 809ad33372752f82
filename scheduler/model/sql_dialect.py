"""SQL as sqlglot reads it for Weir: Spark's for the queries of tasks and for guards, that of databases for look-ups."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any

from sqlglot import exp
from sqlglot.dialects.postgres import Postgres
from sqlglot.dialects.spark import Spark
from sqlglot.dialects.sqlite import SQLite
from sqlglot.errors import SqlglotError

from .bounds import PARSER_STEPS

logging.getLogger("sqlglot").setLevel(logging.CRITICAL)  # it logs texts that are refused here


class TooManySteps(SqlglotError):
    """A text takes its parser more than `PARSER_STEPS` for each word and sign."""


class BoundedParser:
    """A parser that ends: sqlglot goes back where it has guessed wrongly, and reads thirty structs that are nested, or
    thirty JOINs without ON, in 2³⁰ steps."""

    _steps = 0

    def reset(self) -> None:
        """Begin a text."""
        super().reset()  # type: ignore[misc]
        self._steps = 0

    def _advance(self, times: int = 1) -> None:
        self._steps += 1
        if self._steps > PARSER_STEPS.most * (self._tokens_size + 1):  # type: ignore[attr-defined]
            raise TooManySteps("too many steps")
        super()._advance(times)  # type: ignore[misc]


class PostgreSQLReading(Postgres):
    """PostgreSQL's SQL."""

    class Parser(BoundedParser, Postgres.Parser):
        pass


class SQLiteReading(SQLite):
    """SQLite's SQL."""

    class Parser(BoundedParser, SQLite.Parser):
        pass


class Dialect(Spark):
    """Spark's SQL, in which every function stays the name that was written and its arguments."""

    class Parser(BoundedParser, Spark.Parser):
        FUNCTIONS: Mapping[str, Callable[..., Any]] = {}
        FUNCTION_PARSERS = {
            name: parser for name, parser in Spark.Parser.FUNCTION_PARSERS.items() if name in ("CAST", "TRY_CAST")}
        NO_PAREN_FUNCTION_PARSERS = {
            name: parser for name, parser in Spark.Parser.NO_PAREN_FUNCTION_PARSERS.items() if name == "CASE"}

        def _negate_range(self, this: exp.Expression | None = None) -> exp.Expression | None:
            """NOT LIKE is NOT around LIKE, as NOT IN is; sqlglot writes it into LIKE, where nobody looks for it."""
            return this and exp.Not(this=this)


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
        is_finite = isfinite(value)
    except (ValueError, OverflowError):  # more digits than Python or a double has, or none behind an exponent
        return None
    return value if is_finite else None  # what no double holds is no number
