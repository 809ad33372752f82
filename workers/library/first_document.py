"""A first dataflow over a source of one's own: a document made from answers to a few questions.

The answers are where events come from, which of their fields become columns, what to do first and where it goes. What
is written is a document like any other, so that nothing here says more than a person could write.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from scheduler.model.sql_dialect import Dialect

from .casting import as_timestamp
from .columns import typed_columns
from .config import InvalidConfig
from .select.grammar import INPUT, parse

AS_IS, FILTER, AVERAGE = "as_is", "filter", "average"
COMPARISONS: Mapping[str, str] = {
    ">": "is above", ">=": "is at least", "<": "is below", "<=": "is at most", "=": "is", "!=": "is not",
    "contains": "contains", "there": "is there", "missing": "is missing"}
_ORDERS = {">": exp.GT, ">=": exp.GTE, "<": exp.LT, "<=": exp.LTE, "=": exp.EQ, "!=": exp.NEQ}
_NUMBER = re.compile(r"-?\d{1,40}(\.\d{1,40})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class OwnColumn:
    """A column to have: a field of the events or, with a ``path``, a value inside of one (the field's name first)."""

    name: str
    type: str = "string"
    path: tuple[str, ...] = ()

    @property
    def is_number(self) -> bool:
        """True where it can be averaged, and is compared as a number."""
        return self.type in ("double", "bigint") or self.type.startswith("decimal")


@dataclass(frozen=True, slots=True)
class FirstWork:
    """The work on with the events: ``as_is``; ``filter``, keep those whose ``column`` compares with ``value``; or
    ``average`` a ``column`` in windows of ``size``, of each value of ``by`` (empty: of all events)."""

    kind: str = AS_IS
    column: str = ""
    comparison: str = ">"
    value: str = ""
    by: str = ""
    size: str = "1 min"


@dataclass(frozen=True, slots=True)
class FirstDataflow:
    """All answers. Configs name secrets and never hold their values; ``source`` is without its columns."""

    name: str
    source_type: str
    source: Mapping[str, Any]
    columns: Sequence[OwnColumn] = ()
    work: FirstWork = field(default_factory=FirstWork)
    target_type: str = "output"
    target: Mapping[str, Any] = field(default_factory=dict)


def first_document(first: FirstDataflow) -> dict[str, Any]:
    """The document, to be checked as one that somebody wrote.

    Raises
    ------
    InvalidConfig
        A column or what to do with it cannot be; ``facts["answer"]`` names the answer.
    """
    tasks: list[dict[str, Any]] = [
        {"id": "source", "type": first.source_type, "config": {**first.source, **_declared(first)}}]
    if any(column.path for column in first.columns):
        tasks.append({"id": "fields", "type": "sql", "config": {"query": _taken_apart(first.columns)}})
    if first.work.kind == FILTER:
        tasks.append({"id": "filter", "type": "sql", "config": {"query": _filter(first)}})
    elif first.work.kind == AVERAGE:
        tasks.append({"id": "average", "type": "window", "config": _average(first)})
    elif first.work.kind != AS_IS:
        raise _refusal("work", f"“{first.work.kind[:40]}” is nothing that is done first.", "Choose one of the three.")
    tasks.append({"id": "out", "type": first.target_type, "config": dict(first.target)})
    ids = [task["id"] for task in tasks]
    return {
        "name": first.name, "tasks": tasks,
        "streams": [{"from": one, "to": other} for one, other in itertools.pairwise(ids)]}


def _declared(first: FirstDataflow) -> dict[str, Any]:
    """The columns of the source: wanted fields, and fields that contain wanted values."""
    fields = {column.name: column.type for column in first.columns if not column.path}
    for column in first.columns:
        if column.path:
            fields.setdefault(column.path[0], "string")
    when = first.source.get("time_field")
    if when and when not in fields and fields:
        raise _refusal("time_field", f"The events' time is to be {when}, which is no column.",
                       "Take that column, too, or choose the time of arrival.")
    columns = [name if kind == "string" else f"{name}:{kind}" for name, kind in fields.items()]
    try:
        typed_columns(columns)
        for column in first.columns:  # also those that are taken out of a field
            typed_columns([f"value:{column.type}"])
    except InvalidConfig as error:
        raise _refusal("columns", error.message, error.remedy) from None
    return {"columns": columns} if columns else {}


def _taken_apart(columns: Sequence[OwnColumn]) -> str:
    """A query that gives values inside of objects columns of their own; an object is left out unless it is wanted."""
    entries: list[exp.Expression] = []
    for column in columns:
        if not column.path:
            entries.append(_column(column.name))
            continue
        path = "$" + "".join(f".{key}" for key in column.path[1:])
        value: exp.Expression = exp.Anonymous(
            this="get_json_object", expressions=[_column(column.path[0]), exp.Literal.string(path)])
        if column.type not in ("", "string"):
            value = exp.Cast(this=value, to=exp.DataType.build(column.type, dialect=Dialect))
        entries.append(exp.alias_(value, _identifier(column.name)))
    return _written(exp.Select(expressions=entries).from_(INPUT))


def _filter(first: FirstDataflow) -> str:
    work, column = first.work, _column_named(first, first.work.column, "filter_column")
    if work.comparison not in COMPARISONS:
        raise _refusal("comparison", "There is no such comparison.", "Choose one from the list.")
    if work.comparison in ("there", "missing"):
        null = exp.Is(this=_column(column.name), expression=exp.Null())
        condition: exp.Expression = null if work.comparison == "missing" else exp.Not(this=null)
    elif work.comparison == "contains":
        if column.type != "string":
            raise _refusal("comparison", f"{column.name} is {column.type}, and only text contains something.",
                           "Choose another comparison.")
        condition = exp.Anonymous(
            this="contains", expressions=[_column(column.name), exp.Literal.string(work.value)])
    else:
        condition = _ORDERS[work.comparison](this=_column(column.name), expression=_value(column, work.value))
    return _written(exp.Select(expressions=[exp.Star()]).from_(INPUT).where(condition))


def _value(column: OwnColumn, text: str) -> exp.Expression:
    """A value that somebody wrote, as one of the column's type."""
    text = text.strip() if column.type != "string" else text
    wrong = _refusal("filter_value", f"“{text[:80]}” is no {column.type}, as {column.name} is.", "Write one.")
    if column.is_number:
        if not _NUMBER.fullmatch(text):
            raise wrong
        number = exp.Literal.number(text.removeprefix("-"))
        return exp.Neg(this=number) if text.startswith("-") else number
    if column.type == "boolean":
        if text.lower() not in ("true", "false"):
            raise wrong
        return exp.Boolean(this=text.lower() == "true")
    if column.type == "timestamp":
        try:
            moment = as_timestamp(text)
        except (ValueError, OverflowError):
            raise wrong from None
        return exp.Cast(this=exp.Literal.string(moment.isoformat()), to=exp.DataType.build("timestamp"))
    if column.type == "binary":
        raise _refusal("filter_column", f"{column.name} is binary, which is not compared.", "Choose another column.")
    return exp.Literal.string(text)


def _average(first: FirstDataflow) -> dict[str, Any]:
    work, column = first.work, _column_named(first, first.work.column, "average_column")
    if not column.is_number:
        raise _refusal("average_column", f"{column.name} is {column.type}, which has no average.",
                       "Choose a column of numbers, or give this one another type.")
    by = {"by": [_column_named(first, work.by, "by").name]} if work.by else {}
    return {**by, "size": work.size, "aggregates": [f"{column.name}=avg({column.name})", "events=count(*)"]}


def _column_named(first: FirstDataflow, name: str, answer: str) -> OwnColumn:
    columns = first.columns or (OwnColumn("value"),)
    for column in columns:
        if column.name == name:
            return column
    raise _refusal(answer, f"There is no column {name[:80]}." if name else "No column is chosen.",
                   f"Choose one of {', '.join(column.name for column in columns)[:200]}.")


def _column(name: str) -> exp.Expression:
    return exp.Column(this=_identifier(name))


def _identifier(name: str) -> exp.Identifier:
    return exp.Identifier(this=name, quoted=not _is_plain(name))


def _is_plain(name: str) -> bool:
    """Whether a name is one in a query as it stands: it is no word of SQL's."""
    try:
        items = parse(f"SELECT {name}, {name} AS {name} FROM {INPUT} WHERE {name} > 1").items
    except InvalidConfig:
        return False
    return all(item.names == (name,) for item in items) and isinstance(items[0].expression, exp.Column)


def _written(query: exp.Select) -> str:
    return query.sql(dialect=Dialect, normalize_functions=False)


def _refusal(answer: str, message: str, remedy: str) -> InvalidConfig:
    return InvalidConfig(message, remedy=remedy, answer=answer)
