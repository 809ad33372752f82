"""Parsing a SELECT over one stream, and refusing what is none.

Which functions there are is `functions`' word. What a query may hold is closed: nodes that are not listed here are
refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError

from scheduler.model.bounds import PARSER_STEPS, QUERY_CHARACTERS, QUERY_LEVELS
from scheduler.model.columns import STREAM_TYPES
from scheduler.model.sql_dialect import Dialect, TooManySteps, function_name

from ..config import InvalidConfig

INPUT = "input"
PLAIN = re.compile(r"[A-Za-z_]\w*")
GENERATORS = frozenset({"explode", "explode_outer", "posexplode", "posexplode_outer"})
COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ)
ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod)
BINARY = (*COMPARISONS, *ARITHMETIC, exp.And, exp.Or, exp.DPipe, exp.Like, exp.ILike, exp.RegexpLike)
_NODES = (
    *BINARY, exp.Column, exp.Identifier, exp.Literal, exp.Boolean, exp.Null, exp.Not, exp.Neg, exp.Is, exp.In,
    exp.Between, exp.Case, exp.If, exp.Cast, exp.TryCast, exp.DataType, exp.DataTypeParam, exp.ColumnDef, exp.Bracket,
    exp.Dot, exp.Anonymous, exp.Lambda, exp.Paren, exp.Alias, exp.Aliases, exp.PropertyEQ)
_CLAUSES = {"expressions", "from_", "where", "kind"}
_WORDS = {
    "joins": "a join: use the task join", "group": "GROUP BY: use the task window", "having": "HAVING",
    "order": "ORDER BY: a stream has the order of its events", "limit": "LIMIT", "offset": "OFFSET",
    "distinct": "DISTINCT: use the task deduplicate", "with_": "WITH", "windows": "WINDOW: use the task window",
    "laterals": "LATERAL VIEW: write explode(…) AS name in the SELECT list", "hint": "a hint", "qualify": "QUALIFY",
    "sort": "SORT BY", "cluster": "CLUSTER BY", "distribute": "DISTRIBUTE BY", "pivots": "PIVOT", "sample": "a sample"}
REMEDY = "Write one SELECT … FROM input [WHERE …] over the columns of the input; no joins, aggregates or subqueries."


@dataclass(frozen=True, slots=True)
class Item:
    """An entry of the SELECT list: an expression and the names of the columns that it gives; a star has none."""

    expression: exp.Expression
    names: tuple[str, ...]
    excepted: tuple[str, ...] = ()

    @property
    def is_star(self) -> bool:
        """True where it stands for all columns of the input."""
        return isinstance(self.expression, exp.Star)

    @property
    def is_generator(self) -> bool:
        """True where it gives an event for each element of a list."""
        return function_name(self.expression) in GENERATORS


@dataclass(frozen=True, slots=True)
class Select:
    """A SELECT over ``input``: what it gives, the condition, and the names by which it calls its input."""

    items: tuple[Item, ...]
    where: exp.Expression | None
    aliases: frozenset[str]


def refused(message: str, remedy: str = REMEDY) -> InvalidConfig:
    """The error of a query that cannot be a task's."""
    return InvalidConfig(f"The query {message}.", remedy=remedy, parameter="query")


def parse(text: str) -> Select:
    """Read a query.

    Raises
    ------
    InvalidConfig
        It is no SELECT over one stream, or holds what no such SELECT may.
    """
    if len(text) > QUERY_CHARACTERS.most:
        raise refused(f"has {len(text):,} characters", f"Use {QUERY_CHARACTERS.most:,} at most.")
    try:
        statements = [part for part in sqlglot.parse(text, dialect=Dialect) if part is not None]
        statements = [part for part in statements if not isinstance(part, exp.Semicolon)]
    except ParseError as error:
        at = error.errors[0] if error.errors else {}
        raise refused(
            f"cannot be read at line {at.get('line', 1)}, column {at.get('col', 1)}, near "
            f"“{(at.get('highlight') or '')[:40]}”") from None
    except TooManySteps:
        raise refused(f"takes more than {PARSER_STEPS.most} steps to read for each of its words",
                      "Nest less: several sql tasks one behind the other can each do a part.") from None
    except (SqlglotError, RecursionError):
        raise refused("cannot be read") from None
    if len(statements) != 1:
        raise refused(f"is {len(statements)} statements" if statements else "is empty")
    [statement] = statements
    if not isinstance(statement, exp.Select):
        raise refused(f"is no SELECT but {statement.key.upper()}")
    try:
        return _select(statement)
    except RecursionError:  # of what is to be shown of it
        raise refused("is nested too deep", "Use several sql tasks one behind the other.") from None


def _select(statement: exp.Select) -> Select:
    for clause, value in statement.args.items():
        if value and clause not in _CLAUSES:
            raise refused(f"has {_WORDS.get(clause, clause.upper().strip('_'))}")
    aliases = _aliases(statement.args.get("from_"))
    where = statement.args.get("where")
    condition = None if where is None else where.this
    items = tuple(_item(entry) for entry in statement.expressions)
    for part in [*(item.expression for item in items), *([condition] if condition is not None else [])]:
        _require_known_nodes(part)
    _require_generators_alone(items, condition)
    if not items:
        raise refused("selects nothing")
    return Select(items, condition, aliases)


def _aliases(source: exp.Expression | None) -> frozenset[str]:
    table = None if source is None else source.this
    plain = isinstance(table, exp.Table) and not table.args.get("db") and set(
        name for name, value in table.args.items() if value) <= {"this", "alias"}
    alias = table.args.get("alias") if plain else None
    if not plain or table.name.lower() != INPUT or (alias is not None and alias.args.get("columns")):
        raise refused(
            f"reads {table.sql(dialect=Dialect)[:60] if table is not None else 'no stream'}",
            "Write FROM input: it stands for all that enters the task.")
    return frozenset({INPUT, *([table.alias.lower()] if table.alias else [])})


def _item(entry: exp.Expression) -> Item:
    if isinstance(entry, exp.Column) and isinstance(entry.this, exp.Star):  # input.*
        entry = entry.this
    if isinstance(entry, exp.Star):
        if set(name for name, value in entry.args.items() if value) - {"except_"}:
            raise refused("has a * with more than EXCEPT")
        return Item(exp.Star(), (), tuple(part.name for part in entry.args.get("except_") or ()))
    if isinstance(entry, exp.Aliases):
        return Item(entry.this, tuple(_plain(part.name) for part in entry.args["expressions"]))
    if isinstance(entry, exp.Alias):
        return Item(entry.this, (_plain(entry.alias),))
    if isinstance(entry, exp.Column | exp.Dot):
        return Item(entry, (_plain(entry.name),))
    shown = entry.sql(dialect=Dialect)
    raise refused(f"gives {shown[:60]} no name", f"Write {shown[:60]} AS name.")


def _plain(name: str) -> str:
    if PLAIN.fullmatch(name) is None or name.lower() == INPUT:
        raise refused(f"names a column “{name[:60]}”",
                      f"A column's name has letters, digits and underscores, and is not {INPUT}.")
    return name


def _require_known_nodes(root: exp.Expression) -> None:
    if isinstance(root, exp.Star):
        return
    levels = {id(root.parent): 0}
    for node in root.walk(bfs=True):
        levels[id(node)] = levels.get(id(node.parent), 0) + 1
        if levels[id(node)] > QUERY_LEVELS.most:  # one for each AND of a chain, too
            raise refused(f"is nested more than {QUERY_LEVELS.most} levels deep",
                          "Use IN for many values, or several sql tasks one behind the other.")
        if isinstance(node, exp.Placeholder | exp.Parameter):
            raise refused("has a placeholder", "Write values out; what is secret has no place in a query.")
        if isinstance(node, exp.Subquery | exp.Select | exp.Exists):
            raise refused("has a subquery", "A task reads its own input alone: join or look up in a task of its own.")
        if isinstance(node, exp.Window):
            raise refused("has a window function", "Use the task window.")
        if isinstance(node, exp.Concat):
            raise refused("has two texts side by side", "Write || between them; a quote within text is \\'.")
        if not isinstance(node, _NODES):
            raise refused(f"has {node.sql(dialect=Dialect)[:60]} in it, which a stream's SELECT may not")


def _require_generators_alone(items: Sequence[Item], condition: exp.Expression | None) -> None:
    roots = [item.expression for item in items] + ([condition] if condition is not None else [])
    generators = [
        node for root in roots for node in root.find_all(exp.Anonymous) if function_name(node) in GENERATORS]
    alone = sum(item.is_generator for item in items)
    if len(generators) > alone:
        raise refused(
            f"has {function_name(generators[0])} within an expression",
            f"Write {function_name(generators[0])}(…) AS name as an entry of the SELECT list; work on its elements in "
            "a sql task behind it.")
    if alone > 1:
        raise refused("explodes twice", "Explode the second list in a sql task behind this one.")


def path(column: exp.Expression, aliases: frozenset[str] = frozenset()) -> list[str]:
    """The parts of a column's name: the column and fields of it; without the name of the input."""
    parts = [part.name for part in column.parts]
    return parts[1:] if len(parts) > 1 and parts[0].lower() in aliases else parts


def is_streams(name: str) -> bool:
    """True where a column is one of Weir's own."""
    return name.lower() in STREAM_TYPES
