"""Validation that ends at the first fault of each list and mapping.

Pydantic collects every fault of a text and keeps some 800 bytes for each. A text of three bytes for each fault takes
hundreds of times its own memory so, and seconds of CPU for each megabyte.
"""

from __future__ import annotations

from typing import Any

from pydantic_core import CoreSchema

COLLECTIONS = frozenset({"list", "tuple", "set", "frozenset", "dict"})
_NO_SCHEMAS = frozenset({"cls", "config", "default", "function", "metadata", "ref", "serialization"})
_BY_NAME = frozenset({"fields", "choices"})


def refused_early(schema: CoreSchema) -> CoreSchema:
    """The same schema, of which each list and mapping is refused at its first fault.

    >>> refused_early({"type": "list", "items_schema": {"type": "int"}})
    {'type': 'list', 'items_schema': {'type': 'int'}, 'fail_fast': True}
    """
    return _refused_early(schema)


def _refused_early(part: Any) -> Any:
    if isinstance(part, dict):
        changed = {
            name: _of_names(value) if name in _BY_NAME else value if name in _NO_SCHEMAS else _refused_early(value)
            for name, value in part.items()}
        return {**changed, "fail_fast": True} if part.get("type") in COLLECTIONS else changed
    return type(part)(map(_refused_early, part)) if type(part) in (list, tuple) else part


def _of_names(parts: Any) -> Any:
    """Of schemas by names that the schema's author chose: one may be called as a part of a schema is."""
    if isinstance(parts, dict):
        return {name: _refused_early(part) for name, part in parts.items()}
    return _refused_early(parts)
