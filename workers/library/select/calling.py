"""Functions that a query calls: whether they may be, what they give, and what Spark is told."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from sqlglot import exp

from scheduler.model.columns import nearest
from scheduler.model.sql_dialect import function_name, number

from .. import spark_types
from ..columns import decimal_of
from ..spark_text import literal, type_text
from . import types
from .functions import (
    AGGREGATES,
    FUNCTIONS,
    GENERATED,
    NAMES,
    PATTERNED,
    UNSTEADY,
    WRITTEN,
    Function,
    expected_kinds,
    kind_in_words,
)
from .grammar import refused
from .records import higher, record
from .typed_values import Typed, wrong

_ONE_TYPE = {  # functions whose arguments, from that one on, have one type
    "coalesce": 0, "greatest": 0, "least": 0, "ifnull": 0, "nvl": 0, "array": 0, "nullif": 0, "if": 1, "nvl2": 1}


def called(scope: Any, node: exp.Anonymous) -> Typed:
    """A function that is called: its type, and its text for Spark."""
    name = function_name(node)
    if name not in NAMES:
        raise _no_function(name)
    if name in GENERATED:
        raise refused(f"has {name} within an expression")
    if (built := record(scope, name, node.expressions) or higher(scope, name, node.expressions)) is not None:
        return Typed(*built)
    function = FUNCTIONS[name]
    kinds = expected_kinds(function, len(node.expressions))
    if kinds is None:
        takes = ", ".join(kind_in_words(kind.rstrip("…?")) for kind in function.takes) or "none"
        raise refused(f"calls {name} with {len(node.expressions)} values", f"It takes {takes}.")
    values = [scope.typed(argument) for argument in node.expressions]
    for value, kind in zip(values, kinds, strict=True):
        scope.expect(value, kind, name)
    _require_literals(name, function, node.expressions)
    if name in _ONE_TYPE:
        start = _ONE_TYPE[name]
        values = values[:start] + scope.alike(values[start:], name)
    elif name == "array_contains" and values[0].kind:
        values[1] = scope.alike([Typed(spark_types.element(values[0].kind), ""), values[1]], name)[1]
    elif name == "flatten" and values[0].kind and not values[0].kind.startswith("array<array<"):
        raise wrong(f"flatten needs a list of lists, and {values[0].spark[:60]} is {values[0].kind}.")
    elif name in ("abs", "pmod"):
        values = scope.alike([value.cast(types.arithmetic(value.kind)) for value in values], name)
    result_kind = _result(name, function, values, node.expressions)
    if name == "from_json" and result_kind is not None:  # Spark gets the type that was read, not the text that said it
        values[1] = Typed("string", literal(type_text(result_kind)))
    values, most = scope.growth.called(name, values, [_written(argument) for argument in node.expressions], result_kind)
    if name in PATTERNED:
        values = [*values, Typed(None, scope.growth.matching(name, in_list=bool(scope.variables)))]
    return Typed(result_kind, _text_of(name, function, values), most)


def _result(name: str, function: Function, values: Sequence[Typed], arguments: Sequence[exp.Expression]) -> str | None:
    if name == "from_json":
        return types.read_schema(arguments[1].this)
    if isinstance(function.gives, str) or function.gives is None:
        return function.gives
    kinds = [value.kind for value in values]
    return None if None in kinds else function.gives(kinds)


def _text_of(name: str, function: Function, values: Sequence[Typed]) -> str:
    texts = [value.spark for value in values]
    if name == "round":
        return f"round(CAST({texts[0]} AS DOUBLE){''.join(f', {text}' for text in texts[1:])})"
    if name in ("to_timestamp", "to_date") and len(texts) == 2:
        return f"CAST(try_to_timestamp({texts[0]}, {texts[1]}) AS {function.gives})"
    if name in ("floor", "ceil", "ceiling") and values[0].kind in types.INTEGERS:
        return f"CAST({texts[0]} AS BIGINT)"
    if name in ("floor", "ceil", "ceiling") and decimal_of(values[0].kind or ""):
        return f"TRY_CAST({name}({texts[0]}) AS BIGINT)"
    if name == "abs" and (values[0].kind == "double" or decimal_of(values[0].kind or "")):
        return f"abs({texts[0]})"
    return function.spark.format(*texts) if function.spark else f"{name}({', '.join(texts)})"


def _require_literals(name: str, function: Function, arguments: Sequence[exp.Expression]) -> None:
    for index, is_sound in function.literal:
        if index >= len(arguments):
            continue
        written = _written(arguments[index])
        if written is None:
            raise refused(f"calls {name} with value {index + 1} that is not written out", "Write it as a constant.")
        if not is_sound(written):
            raise refused(f"calls {name} with “{written[:60]}”, which it does not take",
                          WRITTEN.get(is_sound, "See it under “sql” on the page of task types."))
    if name == "regexp_extract" and not 0 <= int(number(arguments[2]) or 0) <= re.compile(arguments[1].this).groups:
        raise refused("takes a group out of a pattern that has no such group", "Count its round brackets from 1.")


def _written(argument: exp.Expression) -> str | None:
    """A constant as it is written; None for what is none."""
    if (value := number(argument)) is not None:
        return str(value)
    return argument.this if isinstance(argument, exp.Literal) else None


def _no_function(name: str) -> Exception:
    if name in AGGREGATES:
        return refused(f"has the aggregate {name}", "Use the task window: a SELECT sees one event at a time.")
    if name in UNSTEADY:
        return refused(f"calls {name}, which gives something else each time",
                       "A batch that is repeated must be the same: use _time, _seq or a column of the event.")
    near = nearest(name, NAMES)
    return refused(f"calls {name}, which is no function here",
                   f"Did you mean {near}?" if near else "The page of task types lists the functions, under “sql”.")
