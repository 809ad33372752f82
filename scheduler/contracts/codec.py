"""One codec for every contract: a frozen dataclass to JSON and back.

Reading tolerates fields that it does not know, so that a newer writer is understood, and gives fields that are missing
their defaults, so that an older one is. Writing leaves nothing out that has no default.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Set
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import SchemaValidator, from_json

from scheduler.model.errors import WeirError

from .early_refusal import refused_early

T = TypeVar("T")


class InvalidContract(WeirError):
    """A JSON document is not what its contract says; ``facts`` names the contract and the place."""

    code = "invalid_contract"


class Codec(Generic[T]):
    """Reads and writes one kind of frozen dataclass.

    Parameters
    ----------
    sparse : bool
        True if fields that have their default are left out when it is written.
    stored_as : mapping of str to str
        The names of fields in documents, where these are others than the value's.
    """

    def __init__(
        self, kind: type[T], *, sparse: bool = False, always: Collection[str] = (),
        stored_as: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._kind = kind
        self._stored_as = stored_as
        self._named = {stored: name for name, stored in stored_as.items()}
        self._left_out = (lambda name: name not in always) if sparse else (lambda name: False)
        self._adapter = TypeAdapter(kind)
        self._validator = SchemaValidator(refused_early(self._adapter.core_schema))

    def read(self, document: object) -> T:
        """The value of a JSON document that is parsed already."""
        if self._named and isinstance(document, Mapping):
            document = {self._named.get(name, name): value for name, value in document.items()}
        try:
            return self._validator.validate_python(document)
        except ValidationError as error:
            raise self._refusal(error) from error

    def loads(self, text: str | bytes) -> T:
        """The value of a JSON text; raises as `read` does, also where the text is no JSON."""
        try:
            return self.read(from_json(text)) if self._named else self._validator.validate_json(text)
        except ValidationError as error:
            raise self._refusal(error) from error
        except ValueError as error:
            raise self._unreadable(str(error), "its top") from error

    def document(self, value: T) -> dict[str, Any]:
        """The value as a JSON document: objects, lists, strings and numbers."""
        document = _plain(value, self._left_out)
        return {self._stored_as.get(name, name): item for name, item in document.items()}

    def dumps(self, value: T) -> str:
        """The value as JSON text, its keys sorted."""
        return json.dumps(self.document(value), sort_keys=True)

    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the documents that `read` takes."""
        schema = self._adapter.json_schema()
        named = {self._stored_as.get(name, name): part for name, part in schema.get("properties", {}).items()}
        return {**schema, "properties": named} if self._named else schema

    def _refusal(self, error: ValidationError) -> InvalidContract:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        pointer = "/".join(str(part) for part in first["loc"]) or "its top"
        return self._unreadable(first["msg"], pointer)

    def _unreadable(self, cause: str, pointer: str) -> InvalidContract:
        return InvalidContract(
            f"A {self._kind.__name__} cannot be read: {cause} at {pointer}",
            remedy="Look at the version of the program that wrote it.", contract=self._kind.__name__, place=pointer)


def _plain(value: Any, may_be_left_out: Callable[[str], bool]) -> Any:
    if is_dataclass(value):
        return {
            field.name: _plain(getattr(value, field.name), may_be_left_out) for field in fields(value)
            if not (may_be_left_out(field.name) and getattr(value, field.name) == _default(field))}
    if isinstance(value, Mapping):
        return {str(key): _plain(item, may_be_left_out) for key, item in value.items()}
    if isinstance(value, Set):
        return sorted(value)
    if isinstance(value, list | tuple):
        return [_plain(item, may_be_left_out) for item in value]
    return value.value if isinstance(value, Enum) else value


def _default(field: Field[Any]) -> Any:
    if field.default_factory is not MISSING:
        return field.default_factory()
    return field.default  # MISSING where there is none, which no value equals
