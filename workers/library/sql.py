"""Queries that only read: what a config may hold, told before a dataflow is stored.

Which database it will be asked is known to the slot alone (its address is a secret), so a query is sound that is one in
the SQL of PostgreSQL or of SQLite. This is for early and readable messages; what keeps a query from writing is how
databases are asked (`databases`).
"""

from __future__ import annotations

import logging
import re

import sqlglot
from sqlglot import Dialect, exp
from sqlglot.errors import SqlglotError

from scheduler.model.bounds import PARSER_STEPS, QUERY_CHARACTERS
from scheduler.model.sql_dialect import PostgreSQLReading, SQLiteReading, TooManySteps

from .config import InvalidConfig

DIALECTS = (PostgreSQLReading, SQLiteReading)
REMEDY = "Write one SELECT, VALUES, or WITH … SELECT that reads."
_READS = (exp.Select, exp.SetOperation, exp.Values, exp.Subquery)
_CHANGES = (
    exp.DML, exp.DDL, exp.Drop, exp.Alter, exp.Command, exp.Into, exp.Lock, exp.Set, exp.Pragma, exp.Transaction)
# Selecting them changes what is beyond the transaction, reads the server's files, runs text as a query, or keeps others
# waiting. Of PostgreSQL's own functions all are refused but a few.
_FUNCTIONS = frozenset({
    "set_config", "setval", "nextval", "lowrite", "loread", "ts_stat", "ts_rewrite", "load_extension", "writefile",
    "readfile", "edit", "fts3_tokenizer"})
_FAMILIES = (
    "pg_", "dblink", "lo_", "binary_upgrade_", "query_to_xml", "table_to_xml", "cursor_to_xml", "schema_to_xml",
    "database_to_xml", "pragma_")
_HARMLESS = frozenset({"pg_typeof", "pg_column_size", "pg_size_pretty", "pg_size_bytes", "pg_input_is_valid"})
_WRITTEN_BY_CODES = re.compile(r"""\bu&["']""", re.IGNORECASE)  # a name or text by the numbers of its characters

# sqlglot logs what it does not know, with the query's text: it is refused here, and nobody needs that in a log.
logging.getLogger("sqlglot").setLevel(logging.CRITICAL)


def require_reading(query: str) -> None:
    """Raise ``InvalidConfig`` unless a query is a single one that reads."""
    if len(query) > QUERY_CHARACTERS.most:
        raise InvalidConfig(
            f"The query has {len(query):,} characters.", remedy=f"Use {QUERY_CHARACTERS.most:,} at most.")
    reasons = [_reason(query, dialect) for dialect in DIALECTS]
    if all(reasons):
        raise InvalidConfig(f"The query {reasons[0]}.", remedy=REMEDY)


def _reason(query: str, dialect: type[Dialect]) -> str:
    """Why a query is refused, as a dialect reads it; empty where it is not."""
    if _WRITTEN_BY_CODES.search(query):
        return "writes a name or a text by codes of characters"
    try:
        statements = [parsed for parsed in sqlglot.parse(query, dialect=dialect) if parsed is not None]
    except TooManySteps:
        return f"takes more than {PARSER_STEPS.most} steps to read for each of its words: it nests too deep"
    except (SqlglotError, RecursionError):
        return "is not SQL that PostgreSQL or SQLite reads"
    statements = [statement for statement in statements if not isinstance(statement, exp.Semicolon)]
    if len(statements) != 1:
        return f"is {len(statements)} statements"
    [statement] = statements
    if not isinstance(statement, _READS):
        return f"is no reading but {statement.key.upper()}"
    change = next((part for part in statement.walk() if isinstance(part, _CHANGES)), None)
    if change is not None and not isinstance(change, _READS):
        return f"has {change.key.upper()} in it"
    called = {part.name.lower() for part in statement.find_all(exp.Anonymous)} | {
        part.sql_name().lower() for part in statement.find_all(exp.Func) if not isinstance(part, exp.Anonymous)}
    forbidden = sorted(
        name for name in called - _HARMLESS if name in _FUNCTIONS or name.startswith(_FAMILIES))
    return f"calls {forbidden[0]}" if forbidden else ""
