"""Text that is written for Spark, held against what Spark's own parser reads in it, before any of it runs.

`compiling` makes the text of checked parts alone. Should that have a hole, this is the wall behind it: the text is
parsed as Spark parses it, and refused where it holds a node that no query can have (a subquery, a star, a call by a
name that is computed), a function that the subset does not call, or a column that the input does not have.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from ..config import InvalidConfig
from .functions import CALLED

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

ParsedNode = Sequence[str]  # a class of Spark's, and the parts of the name that it has
_CATALYST = "org.apache.spark.sql.catalyst"
_COLUMN, _FUNCTION = f"{_CATALYST}.analysis.UnresolvedAttribute", f"{_CATALYST}.analysis.UnresolvedFunction"
_LAMBDA = f"{_CATALYST}.expressions.LambdaFunction"
_VARIABLE = f"{_CATALYST}.expressions.UnresolvedNamedLambdaVariable"
_PLAIN = frozenset({
    *(f"{_CATALYST}.analysis.{name}" for name in ("MultiAlias", "UnresolvedExtractValue")),
    *(f"{_CATALYST}.expressions.{name}" for name in (
        "Alias", "And", "CaseWhen", "Cast", "EqualNullSafe", "EqualTo", "GreaterThan", "GreaterThanOrEqual", "In",
        "ILike", "IntegralDivide", "IsNotNull", "IsNull", "LessThan", "LessThanOrEqual", "Like", "Literal", "Not",
        "Or"))})


class UndeclaredExpression(InvalidConfig):
    """The text for Spark says more than the query that it was made of; nothing of it has run."""


def require_declared(nodes: Sequence[ParsedNode], columns: Collection[str]) -> None:
    """Raise ``UndeclaredExpression`` unless parsed nodes are a query's, over these columns alone."""
    variables = {name for kind, *names in nodes if kind == _LAMBDA for name in names}
    for kind, *names in nodes:
        # Within a function's body every name is a variable to the parser, columns too.
        if (kind == _COLUMN and names[0] not in columns) or (
                kind == _VARIABLE and names[0] not in columns and names[0] not in variables):
            raise _undeclared(f"the column {'.'.join(names)[:60]}")
        if kind == _FUNCTION and (len(names) != 1 or names[0].lower() not in CALLED):
            raise _undeclared(f"the function {'.'.join(names)[:60]}")
        if kind not in _PLAIN and kind not in (_COLUMN, _FUNCTION, _LAMBDA, _VARIABLE):
            raise _undeclared(f"a node {kind.rpartition('.')[2]}")


def _undeclared(part: str) -> UndeclaredExpression:
    return UndeclaredExpression(
        f"What was written for Spark has {part} in it, which the query has not.",
        remedy="Nothing of it has run. Write the query with plain names, and report it: the fault is Weir's.")


def select_entries(inputs: DataFrame, entries: Sequence[str], *, columns: Collection[str]) -> DataFrame:
    """The input with these entries of a SELECT list, once each is checked against its columns."""
    require_declared(parse_texts(inputs.sparkSession, entries), columns)
    return inputs.selectExpr(*entries)


def read_condition(inputs: DataFrame, text: str, *, columns: Collection[str]) -> Column:
    """A condition on the input, once it is checked against its columns."""
    from pyspark.sql import functions as F

    require_declared(parse_texts(inputs.sparkSession, [text]), columns)
    return F.expr(text)


def parse_texts(session: SparkSession, texts: Sequence[str]) -> list[ParsedNode]:
    """Spark's parse of texts, without evaluating anything; a slot's session has the class for it."""
    return json.loads(session._jvm.weir.ParsedText.nodes(session._jsparkSession, json.dumps(texts)))
