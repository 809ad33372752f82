"""Containment of SELECTs: what a narrow one gives, made from what a wider one gives.

Each event is judged alone, so a narrow SELECT can read a wide one's stream where the wide condition follows from the
narrow one, and all that the narrow one computes with is there. Both are in their one form. What follows from what is
decided for conjunctions of comparisons with constants: ``a > 5`` is inside ``a > 3``. Spark orders numbers totally, NaN
last, and a comparison with NULL is never true, so intervals of that order are all there is to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from scheduler.model.sql_dialect import number

from ..config import InvalidConfig
from .form import normal, parts_of, shown, written
from .grammar import INPUT, Item, Select, is_streams, parse, path

_EXACT = 2**53  # whole numbers below are the same as doubles


def contained(wide: str, narrow: str) -> str | None:
    """The SELECT that makes what the narrow one gives out of what the wide one gives; None where none is known."""
    try:
        outer, inner = normal(parse(wide)), normal(parse(narrow))
    except InvalidConfig:
        return None
    if any(item.is_generator for item in outer.items) or written(outer) == written(inner):
        return None
    conditions = parts_of(inner.where)
    if not all(follows(condition, conditions) for condition in parts_of(outer.where)):
        return None
    already = {shown(condition) for condition in parts_of(outer.where)}
    outputs = _outputs_of(outer)
    if outputs is None:
        return None
    return _on_top(inner, [condition for condition in conditions if shown(condition) not in already], outputs)


@dataclass(frozen=True, slots=True)
class _Given:
    """What a wide SELECT gives: expressions by their text, with the name each has there; and whether it passes on every
    column of its input."""

    names: Mapping[str, str]
    everything: bool
    further: tuple[str, ...]  # columns beside those of its input, which has none of these names


def _outputs_of(outer: Select) -> _Given | None:
    if any(item.excepted for item in outer.items):
        return None
    computed = {shown(item.expression): item.names[0] for item in outer.items if not item.is_star}
    everything = any(item.is_star for item in outer.items)
    further = [name for item in outer.items for name in item.names if everything]
    return _Given(computed, everything, tuple(further))


def _on_top(inner: Select, conditions: Sequence[exp.Expression], outputs: _Given) -> str | None:
    items = []
    for item in inner.items:
        if item.is_star:
            if not outputs.everything:
                return None
            items.append(replace(item, excepted=(*item.excepted, *outputs.further)))
            continue
        expression = _rewritten(item.expression, outputs)
        if expression is None:
            return None
        items.append(Item(expression, item.names))
    where: list[exp.Expression] = []
    for condition in conditions:
        rewritten = _rewritten(condition, outputs)
        if rewritten is None:
            return None
        where.append(rewritten)
    whole = None
    for condition in where:
        whole = condition if whole is None else exp.And(this=whole, expression=condition)
    return written(normal(Select(tuple(items), whole, frozenset({INPUT}))))


def _rewritten(node: exp.Expression, outputs: _Given) -> exp.Expression | None:
    """An expression over what the wide SELECT gives, or None where something of it is not there."""
    name = outputs.names.get(shown(node))
    if name is not None:
        return exp.column(name)
    if isinstance(node, exp.Column):
        parts = path(node)
        if is_streams(parts[0]) or outputs.everything:
            return node.copy()
        head = outputs.names.get(shown(exp.column(parts[0])))
        return None if head is None else exp.column(*reversed([head, *parts[1:]]), copy=True) if len(parts) == 1 else (
            _fields(head, parts[1:]))
    if any(isinstance(part, exp.Lambda) for part in node.walk()):
        return _with_functions(node, outputs)
    copy = node.copy()
    for key, value in list(copy.args.items()):
        if isinstance(value, exp.DataType):
            continue
        if isinstance(value, exp.Expression):
            inner = value if isinstance(value, exp.Identifier) else _rewritten(value, outputs)
            if inner is None:
                return None
            copy.set(key, inner)
        elif isinstance(value, list):
            parts_there = [_rewritten(part, outputs) if isinstance(part, exp.Expression) else part for part in value]
            if any(part is None for part in parts_there):
                return None
            copy.set(key, parts_there)
    return copy


def _fields(head: str, fields: Sequence[str]) -> exp.Expression:
    node: exp.Expression = exp.column(head)
    for field in fields:
        node = exp.Dot(this=node, expression=exp.to_identifier(field))
    return node


def _with_functions(node: exp.Expression, outputs: _Given) -> exp.Expression | None:
    """A call that takes a function, unchanged, because the function's variables are no columns; None unless every
    column has its own name."""
    return node.copy() if outputs.everything else None


# What follows from what ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Range:
    """What conditions say of one value: bounds in Spark's order, each included or not, and the values that it may have
    (None: any)."""

    low: Any = None
    low_in: bool = False
    high: Any = None
    high_in: bool = False
    among: frozenset[Any] | None = None


def follows(condition: exp.Expression, conditions: Sequence[exp.Expression]) -> bool:
    """True where a condition is true of every event of which all of some conditions are.

    It is one of them; or one that compares a value with a constant (or says that it is not NULL), and theirs on the
    same value leave it no other choice.
    """
    texts = {shown(premise) for premise in conditions}
    if shown(condition) in texts:
        return True
    if isinstance(condition, exp.Not) and isinstance(condition.this, exp.Is) and isinstance(
            condition.this.expression, exp.Null):
        subject = shown(condition.this.this)
        return any(_comparison(premise) is not None and _comparison(premise)[0] == subject for premise in conditions)
    compared = _comparison(condition)
    if compared is None:
        return False
    subject, kind, values = compared
    comparable = [comparison for comparison in map(_comparison, conditions) if comparison is not None]
    theirs = [(other_kind, constants) for premise, other_kind, constants in comparable if premise == subject]
    if not theirs or not _one_family([*values, *(value for _, constants in theirs for value in constants)]):
        return False
    return _is_inside(_range(theirs), kind, values)


def _comparison(node: exp.Expression) -> tuple[str, type[exp.Expression], list[Any]] | None:
    """The value's text, how it is compared, and the constants; None for other conditions."""
    if isinstance(node, exp.In):
        constants = [_constant(value) for value in node.expressions]
        return None if None in constants else (shown(node.this), exp.In, constants)
    if isinstance(node, exp.EQ | exp.NEQ | exp.LT | exp.LTE | exp.GT | exp.GTE):
        constant = _constant(node.expression)
        if constant is not None and _constant(node.this) is None:
            return shown(node.this), type(node), [constant]
    return None


def _constant(node: exp.Expression) -> Any:
    """A constant as Spark orders it among its like: a number, or the bytes of a text; None for anything else."""
    if isinstance(node, exp.Literal) and node.is_string:
        return node.this.encode("utf-8", "surrogatepass")
    return number(node)


def _one_family(constants: Sequence[Any]) -> bool:
    """Whether constants are ordered among each other as the values are that they are compared with: texts; whole
    numbers; doubles; or both kinds of numbers, as far as these are exact as doubles."""
    kinds = {type(constant) for constant in constants}
    if len(kinds) == 1:
        return True
    return kinds == {int, float} and all(abs(constant) < _EXACT for constant in constants)


def _range(comparisons: Sequence[tuple[type[exp.Expression], list[Any]]]) -> _Range:
    bounds = _Range()
    for kind, values in comparisons:
        value = values[0]
        if kind in (exp.EQ, exp.In):
            among = frozenset(values) if bounds.among is None else bounds.among & frozenset(values)
            bounds = _Range(bounds.low, bounds.low_in, bounds.high, bounds.high_in, among)
        elif kind in (exp.GT, exp.GTE):
            if bounds.low is None or (value, kind is exp.GT) > (bounds.low, not bounds.low_in):
                bounds = _Range(value, kind is exp.GTE, bounds.high, bounds.high_in, bounds.among)
        elif kind in (exp.LT, exp.LTE) and (
                bounds.high is None or (value, kind is exp.LTE) < (bounds.high, bounds.high_in)):
            bounds = _Range(bounds.low, bounds.low_in, value, kind is exp.LTE, bounds.among)
    return bounds


_HOLDS: dict[type[exp.Expression], Callable[[Any, Any], bool]] = {
    exp.EQ: lambda a, b: a == b, exp.NEQ: lambda a, b: a != b, exp.LT: lambda a, b: a < b, exp.LTE: lambda a, b: a <= b,
    exp.GT: lambda a, b: a > b, exp.GTE: lambda a, b: a >= b}


def _is_inside(bounds: _Range, kind: type[exp.Expression], values: Sequence[Any]) -> bool:
    """Whether every value that a range leaves satisfies a comparison."""
    if bounds.among is not None:
        return all(any(value == constant for constant in values) if kind is exp.In else _HOLDS[kind](value, values[0])
                   for value in bounds.among)
    bound = values[0]
    if kind in (exp.GT, exp.GTE):
        return bounds.low is not None and (bounds.low > bound or (
            bounds.low == bound and (kind is exp.GTE or not bounds.low_in)))
    if kind in (exp.LT, exp.LTE):
        return bounds.high is not None and (bounds.high < bound or (
            bounds.high == bound and (kind is exp.LTE or not bounds.high_in)))
    if kind is exp.NEQ:
        above = bounds.low is not None and (bounds.low > bound or (bounds.low == bound and not bounds.low_in))
        below = bounds.high is not None and (bounds.high < bound or (bounds.high == bound and not bounds.high_in))
        return above or below
    return False
