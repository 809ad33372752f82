"""The base of all answers, pages of lists, and the one shape of errors."""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated, Any, Generic, TypeVar, get_type_hints

from ninja import Schema
from pydantic import ConfigDict, create_model

Item = TypeVar("Item")


class Moving:
    """Marks a field that changes from moment to moment: pages write it in place and fetch nothing anew for it."""


Figure = Annotated[float | None, Moving()]  # null until it is measured


class Answer(Schema):
    """An answer's body; fields that are not declared are refused."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)


def answer_of(kind: type, *, name: str) -> type[Answer]:
    """The answer, of this name, that is a frozen dataclass of the site as it stands: its fields and what it says."""
    types = get_type_hints(kind, include_extras=True)
    made = create_model(name, __base__=Answer, __module__=__name__, **{
        field.name: (types[field.name], ...) for field in fields(kind)})
    made.__doc__ = kind.__doc__
    return made


class Page(Answer, Generic[Item]):
    """One page of a list, and how many items and pages there are."""

    items: list[Item]
    page: int
    pages: int
    total: int


class User(Answer):
    """A dataflow that uses something, with its team's name."""

    id: str
    name: str
    team: str


class Problem(Answer):
    """One mistake of a document, with its place and what would be right."""

    code: str
    message: str
    remedy: str
    path: str
    line: int | None
    column: int | None
    task_id: str | None


class Error(Answer):
    """Every error has this shape. An invalid document has ``problems`` and ``suggestion`` instead of ``facts``."""

    code: str
    message: str
    remedy: str
    facts: dict[str, Any] = {}
    problems: list[Problem] = []
    suggestion: str | None = None


class History(Answer):
    """Columns over time; ``at`` is in ISO 8601."""

    at: list[str]
    events_in_per_s: list[float | None]
    events_out_per_s: list[float | None]
