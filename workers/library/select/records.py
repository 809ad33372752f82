"""Functions that make records, and those that take a function to work on a list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlglot import exp

from scheduler.model.columns import require_short

from .. import spark_types
from ..spark_text import identifier, literal
from . import types
from .grammar import PLAIN, refused

Built = tuple[str | None, str]  # a type and the text for Spark


def record(scope: Any, name: str, arguments: Sequence[exp.Expression]) -> Built | None:
    """``struct(a, b AS c)`` and ``named_struct('a', a, …)``; None for other functions."""
    if name == "struct":
        named = [_named(argument) for argument in arguments]
    elif name == "named_struct":
        if len(arguments) % 2 or not all(isinstance(part, exp.Literal) and part.is_string for part in arguments[::2]):
            raise refused("calls named_struct without a name for each value", "Write named_struct('name', value, …).")
        named = [(key.this, value) for key, value in zip(arguments[::2], arguments[1::2], strict=True)]
    else:
        return None
    names = [key for key, _ in named]
    if not named or len({key.lower() for key in names}) < len(names) or not all(map(PLAIN.fullmatch, names)):
        raise refused("makes a record whose fields have no names of their own", "Write struct(value AS name, …).")
    values = [scope.typed(value) for _, value in named]
    if any(value.kind == types.VOID for value in values):
        raise refused("makes a record with a field that is NULL alone", "Write CAST(NULL AS string), or another type.")
    require_short(*(value.kind or "" for value in values), parameter="query")
    kind = None if None in [value.kind for value in values] else "struct<{}>".format(
        ",".join(f"{key}:{value.kind}" for key, value in zip(names, values, strict=True)))
    values, _ = scope.growth.size_together(values, name)
    fields = ", ".join(f"{literal(key)}, {value.spark}" for key, value in zip(names, values, strict=True))
    return kind, f"named_struct({fields})"


def _named(argument: exp.Expression) -> tuple[str, exp.Expression]:
    if isinstance(argument, exp.Alias):
        return argument.alias, argument.this
    if isinstance(argument, exp.PropertyEQ):
        return argument.this.name, argument.expression
    return (argument.name if isinstance(argument, exp.Column | exp.Dot) else ""), argument


def higher(scope: Any, name: str, arguments: Sequence[exp.Expression]) -> Built | None:
    """``transform``, ``filter``, ``exists``, ``forall`` and ``aggregate`` over a list; None for other functions."""
    if name not in ("transform", "filter", "exists", "forall", "aggregate"):
        return None
    count = 3 if name == "aggregate" else 2
    if len(arguments) != count or not isinstance(arguments[-1], exp.Lambda):
        raise refused(f"calls {name} without a function",
                      "Write aggregate(list, start, (sum, x) -> …)." if count == 3 else f"Write {name}(list, x -> …).")
    value, body = scope.typed(arguments[0]), arguments[-1]
    scope.expect(value, "array", name)
    value = scope.growth.elements(value, name, is_outermost=not scope.variables)
    element = value.kind and spark_types.element(value.kind)
    variables = [variable.name for variable in body.expressions]
    if not all(map(PLAIN.fullmatch, variables)) or len(set(variables)) < len(variables):
        raise refused(f"calls {name} with a function whose variables have no names of their own")
    for variable in variables:
        if (taken := scope.differing_in_case(variable)) is not None:
            raise refused(f"calls {name} with a function whose variable {variable} differs from {taken} in case alone",
                          "Give the variable another name: to Spark the two are one.")
    if name == "aggregate":
        return _aggregate(scope, value, arguments[1], body, variables, element)
    kinds = [element, "int"][:len(variables)]
    if len(variables) > (2 if name in ("transform", "filter") else 1):
        raise refused(f"calls {name} with a function of {len(variables)} variables")
    result = scope.within(dict(zip(variables, kinds, strict=True))).typed(body.this)
    if name == "transform":
        result = scope.growth.element(result, name)
    text = f"{name}({value.spark}, {_head(variables)} -> {result.spark})"
    if name == "transform":
        if result.kind == types.VOID:
            raise refused("makes a list of NULL alone", "Write CAST(NULL AS string), or another type.")
        return result.kind and f"array<{result.kind}>", text
    scope.expect(result, "boolean", name)
    return (value.kind if name == "filter" else "boolean"), text


def _aggregate(
    scope: Any, value: Any, start: exp.Expression, body: exp.Lambda, variables: Sequence[str], element: str | None
) -> Built:
    first = scope.typed(start)
    if len(variables) != 2:
        raise refused("calls aggregate with a function that has not two variables", "Write (sum, x) -> ….")
    result = scope.within(dict(zip(variables, [first.kind, element], strict=True))).typed(body.this)
    if first.kind is not None and result.kind is not None and first.kind != result.kind:
        raise refused(f"lets aggregate begin with {first.kind} and go on with {result.kind}",
                      f"Begin with CAST({first.spark[:30]} AS {result.kind}).")
    result = scope.growth.within(result, "aggregate")
    return result.kind, f"aggregate({value.spark}, {first.spark}, {_head(variables)} -> {result.spark})"


def _head(variables: Sequence[str]) -> str:
    """The variables of a function, as Spark has them before the arrow."""
    names = ", ".join(map(identifier, variables))
    return names if len(variables) == 1 else f"({names})"
