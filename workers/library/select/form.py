"""The normal form of a SELECT: queries that mean the same by these rules have one text, and so one identity.

The rules are about names of the input, redundant aliases, quotes and brackets; the order and repetitions of
the operands of AND and OR; the side of a constant in a comparison; BETWEEN, NOT before comparisons, IN with one value;
arithmetic of constants; conditions that are always true. Each rule holds for every value, NULL and NaN included (a test
holds each to evaluation): Spark compares in a total order in which NaN equals itself and is the largest,
and AND, OR and NOT are Kleene's. All else is compared as it is written.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, reduce
from operator import add, mul, sub
from typing import Any

from sqlglot import exp

from scheduler.model.sql_dialect import Dialect, function_name, number

from ..config import InvalidConfig
from .grammar import (
    ARITHMETIC,
    BINARY,
    COMPARISONS,
    INPUT,
    PLAIN,
    Item,
    Select,
    is_streams,
    parse,
    path,
)

_TURNED = {exp.LT: exp.GT, exp.GT: exp.LT, exp.LTE: exp.GTE, exp.GTE: exp.LTE, exp.EQ: exp.EQ, exp.NEQ: exp.NEQ,
           exp.NullSafeEQ: exp.NullSafeEQ}
_OPPOSITE = {exp.LT: exp.GTE, exp.GTE: exp.LT, exp.GT: exp.LTE, exp.LTE: exp.GT, exp.EQ: exp.NEQ, exp.NEQ: exp.EQ}
_FOLDED: dict[type, Callable[[Any, Any], Any]] = {exp.Add: add, exp.Sub: sub, exp.Mul: mul}
_ORDERED: dict[type, Callable[[Any, Any], bool]] = {
    exp.LT: lambda a, b: a < b, exp.LTE: lambda a, b: a <= b, exp.GT: lambda a, b: a > b, exp.GTE: lambda a, b: a >= b,
    exp.EQ: lambda a, b: a == b, exp.NEQ: lambda a, b: a != b, exp.NullSafeEQ: lambda a, b: a == b}
_WORDS = frozenset({"true", "false", "null"})  # constants, where they have no quotes
_INT32 = range(-(2**31), 2**31)
_CHAINED = (exp.And, exp.Or, exp.Add, exp.Mul, exp.DPipe)  # read from the left
_COMPOUND = (*BINARY, exp.Not, exp.Neg, exp.Is, exp.In, exp.Between)


def one_form(value: Any) -> Any:
    """A query's one form as text; what cannot be read stays as it is."""
    if not isinstance(value, str):
        return value
    try:
        return _one_form(value)
    except InvalidConfig:
        return value


@lru_cache(maxsize=4096)
def _one_form(text: str) -> str:
    form = written(normal(parse(text)))
    parse(form)  # brackets that it added may nest deeper than is read
    return form


def normal(select: Select) -> Select:
    """A SELECT in its one form."""
    items = [Item(normal_expression(item.expression, select.aliases), item.names, tuple(sorted(item.excepted)))
             for item in select.items]
    stated = [item for item in items if not _is_implied(item)]
    where = None if select.where is None else normal_expression(select.where, select.aliases)
    if isinstance(where, exp.Boolean) and where.this:
        where = None
    return Select(tuple(stated or items[:1]), where, frozenset({INPUT}))


def _is_implied(item: Item) -> bool:
    """True for an unchanged column of Weir's, which every stream has anyway."""
    column = item.expression
    return isinstance(column, exp.Column) and len(path(column)) == 1 and is_streams(column.name) and (
        item.names == (column.name,))


def written(select: Select) -> str:
    """A SELECT as text."""
    entries = ", ".join(_entry(item) for item in select.items)
    condition = "" if select.where is None else f" WHERE {shown(select.where)}"
    return f"SELECT {entries} FROM {INPUT}{condition}"


def _entry(item: Item) -> str:
    if item.is_star:
        excepted = ", ".join(_identifier(name).sql(dialect=Dialect) for name in item.excepted)
        return f"* EXCEPT ({excepted})" if excepted else "*"
    text = shown(item.expression)
    if isinstance(item.expression, exp.Column | exp.Dot) and item.names == (item.expression.name,):
        return text
    return f"{text} AS {item.names[0]}" if len(item.names) == 1 else f"{text} AS ({', '.join(item.names)})"


def shown(node: exp.Expression) -> str:
    """An expression as text, in brackets wherever another operator is beside it, but for chains of one operator."""
    def bracketed(part: exp.Expression) -> exp.Expression:
        inside = isinstance(part.parent, (*_COMPOUND, exp.Bracket, exp.Dot))
        chained = type(part) is type(part.parent) and isinstance(part, _CHAINED) and part.arg_key == "this"
        return exp.Paren(this=part.copy()) if isinstance(part, _COMPOUND) and inside and not chained else part

    outermost_last = [part for part in node.copy().walk(bfs=False)]
    root = outermost_last[0]
    for part in reversed(outermost_last[1:]):
        replacement = bracketed(part)
        if replacement is not part:
            part.replace(replacement)
    return root.sql(dialect=Dialect, normalize_functions="lower", comments=False)


def normal_expression(node: exp.Expression, aliases: frozenset[str] = frozenset()) -> exp.Expression:
    """An expression in its one form, from the inside outwards."""
    node = node.copy()
    for part in list(node.find_all(exp.Column)):
        _strip(part, aliases)
    return _normal(node)


def _strip(column: exp.Column, aliases: frozenset[str]) -> None:
    """Take the input's name off a column's, unless what is left begins with it, too, and quotes off plain names."""
    parts = list(column.parts)
    if len(parts) > 1 and parts[0].name.lower() in aliases:
        parts = parts[1:]
        if len(parts) > 1 and parts[0].name.lower() == INPUT:
            parts = [exp.to_identifier(INPUT), *parts]
    parts = [_identifier(part.name) for part in parts]
    for key, value in zip(("this", "table", "db", "catalog"), [*reversed(parts), None, None, None], strict=False):
        column.set(key, value)


def _identifier(name: str) -> exp.Identifier:
    """A name, quoted unless it is read as that name without."""
    return exp.to_identifier(name, quoted=PLAIN.fullmatch(name) is None or name.lower() in _WORDS)


def _normal(node: exp.Expression) -> exp.Expression:
    for key, value in list(node.args.items()):
        if isinstance(value, exp.Expression):
            node.set(key, _normal(value))
        elif isinstance(value, list):
            node.set(key, [_normal(part) if isinstance(part, exp.Expression) else part for part in value])
    if isinstance(node, exp.Paren):
        return node.this
    if isinstance(node, exp.Literal | exp.Neg) and (value := number(node)) is not None:
        return constant(value)
    if isinstance(node, exp.Not):
        return _negated(node.this)
    if isinstance(node, exp.Between):
        return _joined(exp.And, [
            _compared(exp.GTE, node.this, node.args["low"]), _compared(exp.LTE, node.this.copy(), node.args["high"])])
    if isinstance(node, exp.In):
        return _among(node)
    if isinstance(node, exp.And | exp.Or):
        return _joined(type(node), [node.this, node.expression])
    if isinstance(node, COMPARISONS):
        return _compared(type(node), node.this, node.expression)
    if isinstance(node, ARITHMETIC):
        return _calculated(node)
    if function_name(node):
        node.set("this", node.name.lower())
    return node


def constant(value: int | float | bool) -> exp.Expression:
    """A constant; a number below zero is a minus and a number."""
    if isinstance(value, bool):
        return exp.Boolean(this=value)
    literal = exp.Literal.number(repr(abs(value)))
    return exp.Neg(this=literal) if value < 0 or (value == 0 and repr(value).startswith("-")) else literal


def _compared(kind: type[exp.Expression], left: exp.Expression, right: exp.Expression) -> exp.Expression:
    one, other = number(left), number(right)
    if one is not None and other is not None and type(one) is type(other):
        return constant(_ORDERED[kind](one, other))
    fixed = [isinstance(side, exp.Literal | exp.Boolean | exp.Null) or number(side) is not None
             for side in (left, right)]
    turn = fixed == [True, False] or (fixed[0] == fixed[1] and shown(right) < shown(left))
    return _TURNED[kind](this=right, expression=left) if turn else kind(this=left, expression=right)


def _negated(node: exp.Expression) -> exp.Expression:
    if isinstance(node, exp.Not):
        return node.this
    if isinstance(node, exp.Boolean):
        return constant(not node.this)
    if type(node) in _OPPOSITE:
        return _compared(_OPPOSITE[type(node)], node.this, node.expression)
    if isinstance(node, exp.And | exp.Or):
        opposite = exp.Or if isinstance(node, exp.And) else exp.And
        return _joined(opposite, [_negated(node.this), _negated(node.expression)])
    return exp.Not(this=node)


def _among(node: exp.In) -> exp.Expression:
    values = {shown(value): value for value in node.expressions}
    if len(values) == 1:
        return _compared(exp.EQ, node.this, next(iter(values.values())))
    node.set("expressions", [values[text] for text in sorted(values)])
    return node


def parts_of(node: exp.Expression | None, kind: type[exp.Expression] = exp.And) -> list[exp.Expression]:
    """Operands that AND (or OR) joins in an expression; none where it joins nothing."""
    if node is None:
        return []
    if isinstance(node, exp.Paren):
        return parts_of(node.this, kind)
    return [*parts_of(node.this, kind), *parts_of(node.expression, kind)] if isinstance(node, kind) else [node]


def joined(kind: type[exp.Expression], parts: list[exp.Expression]) -> exp.Expression | None:
    """Conditions joined by AND (or OR) in their one order; None for none."""
    by_text = {shown(part): part for part in parts}
    ordered = [by_text[text] for text in sorted(by_text)]
    return reduce(lambda left, right: kind(this=left, expression=right), ordered) if ordered else None


def _joined(kind: type[exp.Expression], conditions: list[exp.Expression]) -> exp.Expression:
    parts = [part for condition in conditions for part in parts_of(condition, kind)]
    decides = kind is exp.Or  # the value that settles the whole: true for OR, false for AND
    constants = [bool(part.this) for part in parts if isinstance(part, exp.Boolean)]
    if decides in constants:
        return constant(decides)
    remainder = joined(kind, [part for part in parts if not isinstance(part, exp.Boolean)])
    return constant(not decides) if remainder is None else remainder


def _calculated(node: exp.Expression) -> exp.Expression:
    left, right = number(node.this), number(node.expression)
    if left is not None and right is not None and type(node) in _FOLDED and type(left) is type(right):
        result = _FOLDED[type(node)](left, right)
        exact = all(value in _INT32 for value in (left, right, result)) if isinstance(left, int) else _is_finite(result)
        if exact:
            return constant(result)
    if isinstance(node, exp.Add | exp.Mul) and _rank(node.expression) < _rank(node.this):
        return type(node)(this=node.expression, expression=node.this)
    return node


def _rank(node: exp.Expression) -> tuple[bool, str]:
    """The order of summands and factors: what is put together before what is not."""
    return not isinstance(node, _COMPOUND), shown(node)


def _is_finite(value: float) -> bool:
    return value - value == 0
