"""The base of all answers, pages of lists, and the one shape of errors."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from types import UnionType
from typing import Annotated, Any, Generic, TypeVar, Union, get_args, get_origin, get_type_hints, is_typeddict
from uuid import UUID

from ninja import Schema
from pydantic import ConfigDict, create_model

from dashboard.operations.live_view.document_fields import DataflowUser
from scheduler.model import errors

Item = TypeVar("Item")


class Answer(Schema):
    """An answer's body; fields that are not declared are refused."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)


_answers: dict[type, type[Answer]] = {}


def answer_of(
    kind: type, *, name: str = "", about: str = "", without: Collection[str] = (), **others: Any
) -> type[Answer]:
    """The answer with the fields and the description of a frozen dataclass or a typed dictionary.

    Fields of such types become answers too. Each type has one answer, named at the first call: by default as the type.

    Parameters
    ----------
    about : str, optional
        The description, in place of the type's own.
    without : collection of str, optional
        Fields that clients do not get.
    **others : type
        The types of further fields, or of fields that have another type in the answer.
    """
    if kind not in _answers:
        types = get_type_hints(kind, include_extras=True)
        names = [field.name for field in fields(kind)] if is_dataclass(kind) else list(types)
        declared = {field: _answered(types[field]) for field in names if field not in without and field not in others}
        _answers[kind] = create_model(
            name or kind.__name__, __base__=Answer, __module__=__name__, __doc__=about or kind.__doc__,
            **{field: (annotation, ...) for field, annotation in (declared | others).items()})
    return _answers[kind]


def _answered(annotation: Any) -> Any:
    """The type of a field as JSON has it: lists for all that is in order, objects for all that is by name."""
    origin, inner = get_origin(annotation), tuple(map(_answered, get_args(annotation)))
    if is_dataclass(annotation) or is_typeddict(annotation):
        return answer_of(annotation)
    if origin is Annotated:
        return Annotated[inner[0], *get_args(annotation)[1:]]
    if origin in (UnionType, Union):
        return Union[inner]  # noqa: UP007 - of as many as there are
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return dict[inner]
    if isinstance(origin, type) and issubclass(origin, Collection):
        return list[inner[0]]
    return annotation


def row_of(answer: type[Answer], subject: Any, **others: Any) -> dict[str, Any]:
    """The body of an answer from what a subject has under the names of its fields; ``others`` are as they are given.

    A subject's times are written in ISO 8601, its UUIDs as text.
    """
    return {
        name: _written(getattr(subject, name)) for name in answer.model_fields if name not in others} | others


def _written(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value) if isinstance(value, UUID) else value


class Page(Answer, Generic[Item]):
    """One page of a list, and how many items and pages there are."""

    items: list[Item]
    page: int
    pages: int
    total: int


User = answer_of(DataflowUser, name="User")
Problem = answer_of(errors.Problem)


class Error(Answer):
    """Every error has this shape. An invalid document has ``problems`` and ``suggestion`` instead of ``facts``."""

    code: str
    message: str
    remedy: str
    facts: dict[str, Any] = {}
    problems: list[Problem] = []
    suggestion: str | None = None


class HistoryAnswer(Answer):
    """Columns over time; ``at`` is in ISO 8601."""

    at: list[str]
    events_in_per_s: list[float | None]
    events_out_per_s: list[float | None]
